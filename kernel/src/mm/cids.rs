//! The concurrency ids of an address space, which `rseq` gives out; see `limen_rseq::cid`.

use crate::sync::{IrqSpinLock, Mutex};
use core::sync::atomic::AtomicBool;

/// The concurrency ids of an address space.
pub struct Cids {
    /// Which thread has which.
    pub ids: IrqSpinLock<limen_rseq::cid::Cids>,
    /// The ids are those of the CPUs, or are just becoming so. Readable without the lock.
    pub of_cpus: AtomicBool,
    /// Held by the thread that hands the ids over. A thread that needs the result sleeps here even if it is
    /// of real-time priority: it may share its CPU with a less urgent thread that was preempted in the middle
    /// of the hand-over.
    pub handing_over: Mutex<()>,
}

impl Cids {
    /// No thread has an id.
    pub const fn new() -> Self {
        Self {
            ids: IrqSpinLock::new(limen_rseq::cid::Cids::new()),
            of_cpus: AtomicBool::new(false),
            handing_over: Mutex::new(()),
        }
    }
}
