//! Per-user accounting: how many threads act as a real user id (`RLIMIT_NPROC`).

use crate::sync::SpinLock;
use alloc::collections::BTreeMap;
use core::sync::atomic::{AtomicU64, Ordering};
use limen_linux_abi::Errno;

static THREADS: SpinLock<BTreeMap<u32, u64>> = SpinLock::new(BTreeMap::new());
static TOTAL: AtomicU64 = AtomicU64::new(0);

/// How many user threads there are.
pub fn total() -> u64 {
    TOTAL.load(Ordering::Relaxed)
}

/// Counts a new thread of `uid`; `EAGAIN` if it would exceed `limit` or the machine's own.
pub fn charge(uid: u32, limit: u64) -> Result<(), Errno> {
    if TOTAL.fetch_add(1, Ordering::Relaxed) >= super::fork::max_threads() {
        TOTAL.fetch_sub(1, Ordering::Relaxed);
        return Err(Errno::EAGAIN);
    }
    let mut threads = THREADS.lock();
    let count = threads.entry(uid).or_insert(0);
    if *count >= limit {
        drop(threads);
        TOTAL.fetch_sub(1, Ordering::Relaxed);
        return Err(Errno::EAGAIN);
    }
    *count += 1;
    Ok(())
}

/// A thread of `uid` is gone.
pub fn uncharge(uid: u32) {
    TOTAL.fetch_sub(1, Ordering::Relaxed);
    forget_one(&mut THREADS.lock(), uid);
}

/// A thread changes its real user id.
pub fn transfer(from: u32, to: u32) {
    if from != to {
        let mut threads = THREADS.lock();
        forget_one(&mut threads, from);
        *threads.entry(to).or_insert(0) += 1;
    }
}

/// How many threads act as `uid`.
pub fn count(uid: u32) -> u64 {
    THREADS.lock().get(&uid).copied().unwrap_or(0)
}

fn forget_one(threads: &mut BTreeMap<u32, u64>, uid: u32) {
    if let Some(count) = threads.get_mut(&uid) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            threads.remove(&uid);
        }
    }
}
