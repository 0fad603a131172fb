//! Accounts of users: how many threads have a real user id (`RLIMIT_NPROC`), how many signals are queued for
//! them, and how much a user has of limited resources.

use crate::sync::{IrqSpinLock, SpinLock};
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use limen_linux_abi::Errno;

static THREADS: SpinLock<BTreeMap<u32, u64>> = SpinLock::new(BTreeMap::new());
static TOTAL: AtomicU64 = AtomicU64::new(0);

/// How many user threads exist.
pub fn total() -> u64 {
    TOTAL.load(Ordering::Relaxed)
}

/// Counts a new thread of `uid`. `EAGAIN`: it would be one more than `limit` or the machine's own limit
/// allows.
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

/// A thread of `uid` has ended.
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

/// How many threads have the real user id `uid`.
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

/// What a user has; counted for the effective user id of the thread that made it.
#[derive(Default)]
pub struct Account {
    uid: u32,
    /// How many pages the user's pipes may fill.
    pub pipe_pages: AtomicUsize,
    /// inotify instances.
    pub inotify_instances: AtomicUsize,
    /// Watches of these instances.
    pub inotify_watches: AtomicUsize,
    /// Files that the user's epoll instances watch.
    pub epoll_watches: AtomicUsize,
    /// Pages of segments of shared memory that the user has locked; counted for the real user id.
    locked_pages: AtomicUsize,
    /// Bytes that the user's POSIX message queues may take; counted for the real user id.
    queue_bytes: AtomicUsize,
}

/// An interrupt-safe lock: a notification in an interrupt may drop the last reference to an account.
static ACCOUNTS: IrqSpinLock<BTreeMap<u32, Weak<Account>>> = IrqSpinLock::new(BTreeMap::new());

/// The account of the running thread's user.
pub fn account() -> Arc<Account> {
    account_of(super::current().creds().euid)
}

fn account_of(uid: u32) -> Arc<Account> {
    let mut accounts = ACCOUNTS.lock();
    if let Some(known) = accounts.get(&uid).and_then(Weak::upgrade) {
        return known;
    }
    let new = Arc::new(Account::of(uid));
    accounts.insert(uid, Arc::downgrade(&new));
    new
}

impl Account {
    fn of(uid: u32) -> Self {
        let mut new = Self::default();
        new.uid = uid;
        new
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let mut accounts = ACCOUNTS.lock();
        // There may be a new account of the same user already.
        if accounts
            .get(&self.uid)
            .is_some_and(|known| known.strong_count() == 0)
        {
            let old = accounts.remove(&self.uid);
            drop(accounts);
            drop(old);
        }
    }
}

/// Counts one more, unless `count` has reached `most`. Returns whether it was counted.
pub fn take_one(count: &AtomicUsize, most: usize) -> bool {
    let more = |n: usize| (n < most).then_some(n + 1);
    count
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
        .is_ok()
}

/// Pages that a user has locked in memory with one segment. Dropping it gives them back.
pub struct LockedPages {
    of: Arc<Account>,
    count: usize,
}

impl LockedPages {
    /// None yet, of the user `uid`.
    pub fn nothing_of(uid: u32) -> Self {
        Self {
            of: account_of(uid),
            count: 0,
        }
    }
    /// Locks `count` pages. `ENOMEM`: the user would have more than `most`.
    pub fn take(&mut self, count: usize, most: usize) -> Result<(), Errno> {
        let more = |n: usize| n.checked_add(count).filter(|&n| n <= most);
        self.of
            .locked_pages
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .map_err(|_| Errno::ENOMEM)?;
        self.count += count;
        Ok(())
    }
}

impl Drop for LockedPages {
    fn drop(&mut self) {
        self.of.locked_pages.fetch_sub(self.count, Ordering::Relaxed);
    }
}

/// Bytes that one of a user's POSIX message queues may take (`RLIMIT_MSGQUEUE`). Dropping it gives them back.
pub struct QueueBytes {
    of: Arc<Account>,
    count: usize,
}

impl QueueBytes {
    /// Counts `count` bytes for the user `uid`. `EMFILE`: the user would have more than `most`.
    pub fn take(uid: u32, count: usize, most: u64) -> Result<Self, Errno> {
        let of = account_of(uid);
        let fits = |n: usize| n <= isize::MAX as usize && n as u64 <= most;
        let more = |n: usize| n.checked_add(count).filter(|&n| fits(n));
        of.queue_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .map_err(|_| Errno::EMFILE)?;
        Ok(Self { of, count })
    }
}

impl Drop for QueueBytes {
    fn drop(&mut self) {
        self.of.queue_bytes.fetch_sub(self.count, Ordering::Relaxed);
    }
}

/// How many signals are queued for a user's processes (`RLIMIT_SIGPENDING`). Every queue of such signals
/// holds a reference to this.
#[derive(Debug)]
pub struct QueuedSignals {
    uid: u32,
    count: AtomicUsize,
}

static QUEUED: IrqSpinLock<BTreeMap<u32, Weak<QueuedSignals>>> = IrqSpinLock::new(BTreeMap::new());

impl QueuedSignals {
    /// The account of user `uid`.
    pub fn of(uid: u32) -> Arc<Self> {
        let new = Arc::new(Self {
            uid,
            count: AtomicUsize::new(0),
        });
        let mut all = QUEUED.lock();
        if let Some(known) = all.get(&uid).and_then(Weak::upgrade) {
            // The new account is dropped without the lock.
            drop(all);
            return known;
        }
        all.insert(uid, Arc::downgrade(&new));
        new
    }
    /// Counts one more. Returns how many there are then.
    #[inline(always)]
    pub fn add(&self) -> usize {
        self.count.fetch_add(1, Ordering::Relaxed) + 1
    }
    /// Counts `n` fewer.
    #[inline(always)]
    pub fn remove(&self, n: usize) {
        self.count.fetch_sub(n, Ordering::Relaxed);
    }
    /// Counts `n` more, whatever the limit.
    pub fn move_in(&self, n: usize) {
        self.count.fetch_add(n, Ordering::Relaxed);
    }
    /// How many signals are queued.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

impl Drop for QueuedSignals {
    fn drop(&mut self) {
        let mut all = QUEUED.lock();
        if all.get(&self.uid).is_some_and(|known| known.strong_count() == 0) {
            all.remove(&self.uid);
        }
    }
}
