//! Tasks: threads, processes, process groups and sessions, credentials, fork, exec, exit and wait.

use crate::boot::PhysRange;
use core::sync::atomic::AtomicU32;
use limen_entry::WorkWords;

/// The part of a task the entry code and the architecture look at; the first field of `Task`.
#[derive(Debug)]
#[repr(C)]
pub struct ThreadInfo {
    /// Pending work.
    pub work: WorkWords,
    /// Preempt count: bits 0-7 preemption disabled, 16-19 in hardware interrupt, 20-23 in NMI. Only the thread itself (or an
    /// interrupt on its CPU) changes it.
    pub preempt_count: AtomicU32,
    /// The CPU it runs on, or last ran on.
    pub cpu: AtomicU32,
}

impl ThreadInfo {
    /// For a thread that is not running yet.
    pub const fn new() -> Self {
        Self {
            work: WorkWords::new(),
            preempt_count: AtomicU32::new(0),
            cpu: AtomicU32::new(0),
        }
    }
}

/// Prepares process identifiers and the like.
pub fn init() {}

/// Starts the first user program: unpacks `initrd` into the root and executes init as process 1.
pub fn start_init(initrd: Option<PhysRange>) {
    let _ = initrd;
}
