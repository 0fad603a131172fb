//! What a tracee has to do for its tracer on its way to user mode: steps that are begun there, and debug
//! registers, which the CPU gets there.

use super::left_step;
use crate::arch::{frame::Frame, regset};
use crate::sched::entity::with_current_context;
use crate::signal::{self, SIGTRAP, info::code};
use crate::task::current;
use limen_entry::{Frame as _, ThreadFlags};

/// The running thread is about to go to user mode with the registers `frame`: begins its single step, where
/// that is done by software. May sleep.
#[inline(always)]
pub fn before_user(frame: &mut Frame) {
    if regset::STEPS_BY_SOFTWARE && current().trace.steps() {
        begin_step(frame);
    }
}

#[cold]
#[inline(never)]
fn begin_step(frame: &mut Frame) {
    // A call that runs again in here ends the step itself.
    if frame.restart().is_some() || left_step(frame) {
        return;
    }
    if regset::begin_step(frame) {
        signal::force_fault(SIGTRAP, code::TRAP_TRACE, frame.ip());
    } else {
        current().info.work.set(ThreadFlags::DEBUG);
    }
}

/// The running thread, which has debug registers, goes to user mode: this CPU gets them. Interrupts are off.
#[cold]
pub fn load_debug() {
    let used = with_current_context(|context| {
        context.debug.load();
        context.debug.is_used()
    });
    if !used {
        current().info.work.clear(ThreadFlags::DEBUG);
    }
}
