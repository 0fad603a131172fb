//! Counters of the threshold, of each CPU: what came in from user mode, what was done on the way out, how
//! often the kernel opened its window to user memory (`/sys/kernel/debug/entry`). They are off at first, and
//! cost an instruction that does nothing then, at each place where something is counted.

use crate::arch::jump_table::is_on;
use core::hint::cold_path;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use limen_entry::Crossing;
use limen_trace_events::events;

/// The static key of all these places.
pub const KEY: u32 = events::ALL.len() as u32;

/// What is counted, under the names that programs are shown.
pub const NAMES: [(&str, Crossing); Crossing::COUNT] = [
    ("calls:", Crossing::Call),
    ("interrupts:", Crossing::Interrupt),
    ("user_faults:", Crossing::UserFault),
    ("kernel_faults:", Crossing::KernelFault),
    ("work_turns:", Crossing::Turn),
    ("restarts:", Crossing::Restart),
    ("reschedules:", Crossing::Reschedule),
    ("windows:", Crossing::Window),
];

/// The counters of a CPU, on cache lines of their own. They wrap after 2^64.
#[repr(align(128))]
pub struct Crossings([AtomicU64; Crossing::COUNT]);

impl Crossings {
    /// All are zero.
    pub const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; Crossing::COUNT])
    }
    /// One of them.
    pub fn get(&self, what: Crossing) -> u64 {
        self.0[what as usize].load(Relaxed)
    }
}

/// Counts something, if that is wanted. Any context in which code may be instrumented. It calls nothing, so
/// that the code around it has its registers for itself.
#[inline(always)]
pub fn count<const WHAT: usize>() {
    if is_on::<KEY>() {
        cold_path();
        if super::ready() {
            // An interrupt, or another CPU to which the thread is moved just now, may count at the same time.
            super::this_cpu().crossings.0[WHAT].fetch_add(1, Relaxed);
        }
    }
}
