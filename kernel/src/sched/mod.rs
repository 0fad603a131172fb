//! The scheduler: per-CPU queues, preemption, wait queues, cross-CPU calls, idle.

pub mod cpu;
mod current;
pub mod entity;
pub mod preempt;

pub use current::{CurrentTask, current};

/// Where threads wait. (Stand-in until the scheduler's own lands.)
pub struct WaitQueue;

impl WaitQueue {
    /// An empty queue.
    pub const fn new() -> Self {
        Self
    }
}

/// Prepares the boot CPU: the code that runs becomes its idle thread.
pub fn init() {}

/// Starts the other CPUs and waits until they are online.
pub fn start_secondaries() {}

/// A secondary CPU reports for duty.
pub fn secondary_online() {}

/// The idle loop: sleeps until there is work. Never returns.
pub fn idle() -> ! {
    loop {
        crate::arch::irq::enable_and_wait();
    }
}

/// Gives the CPU to the most deserving thread.
pub fn schedule() {}
