//! Unaligned accesses of user mode that the processor refuses: load and store multiple and double, done here
//! piece by piece, as Linux does by default (`/proc/cpu/alignment`). Which they are and what they mean is
//! `crates/arm-align`; others end in SIGBUS.

use super::frame::Frame;
use crate::mm::user::UserPtr;
pub use limen_arm_align::Outcome;
use limen_arm_align::{Memory, State};

/// User memory.
pub struct User;

impl Memory for User {
    fn half(&self, at: u32) -> Option<u16> {
        UserPtr::<u16>::new(at as usize).read().ok()
    }
    fn word(&self, at: u32) -> Option<u32> {
        let bytes = UserPtr::<[u8; 4]>::new(at as usize).read();
        bytes.ok().map(u32::from_le_bytes)
    }
    fn set_word(&mut self, at: u32, word: u32) -> Option<()> {
        let place = UserPtr::<[u8; 4]>::new(at as usize);
        place.write(word.to_le_bytes()).ok()
    }
}

/// r0 to r15.
fn registers(frame: &mut Frame) -> impl Iterator<Item = &mut usize> {
    let behind = [&mut frame.sp, &mut frame.lr, &mut frame.pc];
    frame.regs.iter_mut().chain(behind)
}

/// Runs `f` with a frame's registers, to be changed.
pub fn with_state<R>(frame: &mut Frame, f: impl FnOnce(&mut State) -> R) -> R {
    let mut state = State {
        registers: [0; 16],
        psr: frame.cpsr as u32,
    };
    for (value, register) in state.registers.iter_mut().zip(registers(frame)) {
        *value = *register as u32;
    }
    let result = f(&mut state);
    for (register, value) in registers(frame).zip(state.registers) {
        *register = value as usize;
    }
    frame.cpsr = state.psr as usize;
    result
}

/// Does what the instruction at the frame's program counter wanted at the unaligned address `addr`.
#[cold]
pub fn fix(frame: &mut Frame, addr: usize) -> Outcome {
    with_state(frame, |state| limen_arm_align::fix(state, &mut User, addr as u32))
}
