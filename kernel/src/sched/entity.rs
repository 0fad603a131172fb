//! What the scheduler keeps in every task. (Stand-in until the scheduler's own lands; same names.)

use crate::arch::switch::Context;
use bitflags::bitflags;
use core::cell::UnsafeCell;

bitflags! {
    /// The state of a task. No bit: it runs or wants to run.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TaskState: u32 {
        /// Sleeps; signals wake it.
        const INTERRUPTIBLE = 1;
        /// Sleeps; signals do not wake it.
        const UNINTERRUPTIBLE = 2;
        /// Stopped by a job-control signal.
        const STOPPED = 4;
        /// Stopped for its tracer.
        const TRACED = 8;
        /// Has exited and waits to be reaped.
        const ZOMBIE = 0x10;
        /// Will never run again once it has been switched away from.
        const DEAD = 0x20;
        /// Together with `UNINTERRUPTIBLE`: fatal signals wake it.
        const WAKEKILL = 0x40;
    }
}

/// The saved processor state of a task that is not running.
pub struct ContextCell(UnsafeCell<Context>);

// SAFETY: only the CPU that switches the task touches it, and the task itself while it runs.
unsafe impl Sync for ContextCell {}
// SAFETY: as above.
unsafe impl Send for ContextCell {}

impl ContextCell {
    /// Wraps the context of a task that has not run yet.
    pub const fn new(context: Context) -> Self {
        Self(UnsafeCell::new(context))
    }
    /// For the switch.
    pub fn get(&self) -> *mut Context {
        self.0.get()
    }
}

/// The scheduler's part of a task.
pub struct SchedEntity {}

impl SchedEntity {
    /// A new task's.
    pub const fn new() -> Self {
        Self {}
    }
}
