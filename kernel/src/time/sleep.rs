//! Sleeping for a time.

use super::now_ns;
use crate::sched::{self, TaskState, current, schedule};
use limen_linux_abi::Errno;

/// Sleeps until `CLOCK_MONOTONIC` reaches `deadline_ns`. `ERESTARTSYS`: a signal is pending before that.
pub fn sleep_until(deadline_ns: u64) -> Result<(), Errno> {
    let me = current();
    let timer = sched::sleep_timer(&me);
    let mut armed = false;
    let result = loop {
        me.sched.set_state(TaskState::INTERRUPTIBLE);
        if armed && !timer.is_armed() || now_ns() >= deadline_ns {
            break Ok(());
        }
        if me.signal_pending() {
            break Err(Errno::ERESTARTSYS);
        }
        if !armed {
            timer.arm(deadline_ns);
            armed = true;
        }
        schedule();
    };
    me.sched.set_state(TaskState::RUNNING);
    timer.cancel();
    result
}
