//! Sleeping for a time.

use super::now_ns;
use crate::sched::{self, TaskState, current, schedule};
use core::cell::Cell;
use limen_linux_abi::Errno;

/// Sleeps until `CLOCK_MONOTONIC` reaches `deadline_ns`. `ERESTARTSYS`: a signal is pending before that.
pub fn sleep_until(deadline_ns: u64) -> Result<(), Errno> {
    let me = current();
    let timer = sched::sleep_timer(&me);
    let armed = Cell::new(false);
    let result = sleep_until_passed(
        || armed.get() && !timer.is_armed() || now_ns() >= deadline_ns,
        || {
            timer.arm(deadline_ns);
            armed.set(true);
        },
    );
    timer.cancel();
    result
}

/// The running thread sleeps until a time has `passed`; whatever wakes it then is armed by `arm`, which is
/// called once, before it sleeps. `ERESTARTSYS`: a signal is pending before that.
#[inline(always)]
pub fn sleep_until_passed(passed: impl Fn() -> bool, arm: impl FnOnce()) -> Result<(), Errno> {
    let me = current();
    let mut arm = Some(arm);
    let result = loop {
        me.sched.set_state(TaskState::INTERRUPTIBLE);
        if passed() {
            break Ok(());
        }
        if me.signal_pending() {
            break Err(Errno::ERESTARTSYS);
        }
        if let Some(arm) = arm.take() {
            arm();
        }
        schedule();
    };
    me.sched.set_state(TaskState::RUNNING);
    result
}
