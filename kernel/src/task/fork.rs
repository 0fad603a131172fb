//! Making threads and processes: fork, vfork, clone, clone3.

use crate::sched::WaitQueue;
use core::sync::atomic::AtomicBool;

/// What a `vfork`ing parent waits for: its child has called exec or ended.
pub struct VforkDone {
    pub(super) done: AtomicBool,
    pub(super) wait: WaitQueue,
}

/// How many threads the machine's memory bears (`threads-max`): an eighth of memory in kernel stacks and the like.
pub fn max_threads() -> u64 {
    16384
}
