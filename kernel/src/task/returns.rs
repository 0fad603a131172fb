//! Where threads keep what the functions return to that are traced until they return (`ftrace::graph`). A
//! thread has room for that from when such tracing first wants it until it ends: functions that were traced
//! may return long after their tracer has ended.

use super::Task;
use crate::mm::STACK_SHIFT;
use crate::sync::Once;
use crate::sync::lockdep::fallible;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering::SeqCst};
use limen_linux_abi::Errno;
use limen_trace_returns::Returns;

/// How deep calls are traced.
pub const DEPTH: usize = 64;

/// Whether new threads get room.
static WANTED: AtomicBool = AtomicBool::new(false);

/// A thread's.
pub struct Own(Once<Returns>);

impl Own {
    /// Without room.
    pub const fn new() -> Self {
        Self(Once::new())
    }
    /// `None`: its calls cannot be traced.
    #[inline(always)]
    pub fn get(&self) -> Option<&Returns> {
        self.0.get()
    }
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// Sees to it that a thread has room. `ENOMEM`.
fn give(task: &Task) -> Result<(), Errno> {
    if task.info.returns.get().is_none() {
        let new = fallible(|| Returns::new(DEPTH, 1 << STACK_SHIFT)).ok_or(Errno::ENOMEM)?;
        // Somebody else may have been faster.
        let _ = task.info.returns.0.set(new);
    }
    Ok(())
}

/// A thread that others can find already is about to run for the first time. Without memory its calls are not
/// traced. In a thread; no lock is held.
pub fn begin(task: &Task) {
    if WANTED.load(SeqCst) {
        let _ = give(task);
    }
}

/// All threads have room, and those to come get some. `ENOMEM`: not all have; if nothing is traced, the
/// caller says that they get it no longer. May sleep.
pub fn want() -> Result<(), Errno> {
    // A new thread is found below, or it sees this.
    WANTED.store(true, SeqCst);
    let mut result = Ok(());
    crate::sched::each_kernel_thread(|task| result = result.and_then(|()| give(task)));
    for process in super::all_processes() {
        for thread in process.threads() {
            result = result.and_then(|()| give(&thread));
        }
    }
    result
}

/// New threads get no room.
pub fn no_longer() {
    WANTED.store(false, SeqCst);
}
