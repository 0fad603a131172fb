//! Single steps by software: the running thread's next instruction is done here if it goes elsewhere than on
//! behind itself, else the processor does it, and a breakpoint stops it afterwards (`debug`). Which it is,
//! and where it goes, says `crates/arm-step`.

use super::align::{User, with_state};
use super::debug::{STEPS, THUMB};
use super::frame::Frame;
use super::kuser;
use crate::sched::entity::with_current_context;
use limen_arm_step::{Memory, Step, step};

/// What user mode can execute: its memory, and the kernel helpers.
pub(super) struct Code(User);

impl Code {
    /// The running thread's.
    pub(super) fn user() -> Self {
        Self(User)
    }
    /// The part of the kernel helpers at `at`.
    fn helper<const N: usize>(at: u32) -> Option<[u8; N]> {
        kuser::bytes()
            .get((at as usize).checked_sub(kuser::ADDRESS)?..)?
            .first_chunk()
            .copied()
    }
}

impl Memory for Code {
    fn half(&self, at: u32) -> Option<u16> {
        Self::helper(at)
            .map(u16::from_le_bytes)
            .or_else(|| self.0.half(at))
    }
    fn word(&self, at: u32) -> Option<u32> {
        Self::helper(at)
            .map(u32::from_le_bytes)
            .or_else(|| self.0.word(at))
    }
    fn set_word(&mut self, at: u32, word: u32) -> Option<()> {
        self.0.set_word(at, word)
    }
}

/// The running thread, with the registers `frame`, is about to do its next instruction in user mode: begins a
/// single step if it is to do one. Returns whether the step is done already. May sleep.
#[cold]
pub fn begin(frame: &mut Frame) -> bool {
    if !with_current_context(|context| context.debug.wanted) {
        return false;
    }
    let thumb = if frame.thumb() { THUMB } else { 0 };
    let step = with_state(frame, |state| step(state, &mut Code::user()));
    let mut at = [0; STEPS];
    if let Step::Runs(stops) = &step {
        for (to, from) in at.iter_mut().zip(stops.addresses()) {
            *to = from | thumb;
        }
    }
    with_current_context(|context| {
        context.debug.wanted = step != Step::Done;
        context.debug.set_steps(at.into_iter());
    });
    step == Step::Done
}
