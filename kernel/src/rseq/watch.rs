//! Counts and checks that are made only on request: of the command line, or by files (`fs::rseq`).

use super::slice;
use crate::task;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use limen_entry::ThreadFlags;

/// Why [`super::exit`] runs on every way out to user mode, even without work: a set of the two bits below.
static WATCH: AtomicU32 = AtomicU32::new(0);
/// To count the ways out.
pub const COUNT: u32 = 1;
/// To check for system calls inside critical sections (debug mode).
pub const DEBUG: u32 = 2;

/// The reasons that are on.
#[inline(always)]
pub fn watch() -> u32 {
    WATCH.load(Relaxed)
}

/// Whether ways out are counted, and the two counters that should stay 0.
#[inline(always)]
pub fn counting() -> bool {
    watch() & COUNT != 0
}

/// Reads a boolean as users write it.
pub fn switch(text: &str) -> Option<bool> {
    match text.trim() {
        "1" | "y" | "Y" | "on" => Some(true),
        "0" | "n" | "N" | "off" => Some(false),
        _ => None,
    }
}

/// Turns a reason on or off. Sets every thread's flag; the thread's next way out clears it if no reason is
/// left.
pub fn set_watch(bit: u32, on: bool) {
    if !on {
        WATCH.fetch_and(!bit, Relaxed);
        return;
    }
    WATCH.fetch_or(bit, Relaxed);
    for process in task::all_processes() {
        for thread in process.threads() {
            thread.info.work.set(ThreadFlags::RSEQ);
        }
    }
}

/// Reads the command line.
pub fn init() {
    slice::init();
    for (option, bit) in [("rseq_debug", DEBUG), ("rseq_stats", COUNT)] {
        if crate::cmdline::value(option).and_then(switch) == Some(true) {
            set_watch(bit, true);
        }
    }
}
