//! Accounts of users: how many threads have a real user id (`RLIMIT_NPROC`), how many signals are queued for
//! them, and how much a user has of limited resources.
//!
//! What the limits of a process limit counts for its user in its user namespace, for whoever made that
//! namespace, for whoever made the one around it, and so on: who has many ids in a namespace has no more with
//! all of them than the limits allow that held for the maker. Users of the initial namespace count once.

use super::creds::Creds;
use super::ns::user::{UserRef, is_same};
use super::rlimit::{INFINITY, which};
use crate::mm::PAGE_SIZE;
use crate::sync::{IrqSpinLock, SpinLock};
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use limen_linux_abi::Errno;

/// A user of a user namespace: the namespace's number, 0 for the initial one, and the kernel's id.
type Key = (u64, u32);

/// How many threads there are of each user that has some. In a user namespace below the initial one they also
/// count for the user who made it, and so on upwards.
struct Threads {
    initial: BTreeMap<u32, u64>,
    below: BTreeMap<Key, u64>,
}

static THREADS: SpinLock<Threads> = SpinLock::new(Threads {
    initial: BTreeMap::new(),
    below: BTreeMap::new(),
});
static TOTAL: AtomicU64 = AtomicU64::new(0);

/// How many user threads exist.
pub fn total() -> u64 {
    TOTAL.load(Ordering::Relaxed)
}

/// How much of something a user may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(u64);

impl Limit {
    /// Nobody's limits count, not those of makers of user namespaces either.
    pub const NONE: Self = Self(INFINITY);
    /// As a soft limit says. One that is unlimited is more than anybody has, but those of makers count.
    #[inline(always)]
    pub fn of(soft: u64) -> Self {
        Self(soft.min(INFINITY - 1))
    }
    /// What a maker of a user namespace may have, for who may have this.
    fn above(self, makers: u64) -> Self {
        if self == Self::NONE { self } else { Self(makers) }
    }
}

/// The places where the user `uid` of `ns` counts, each with what may be counted there: `most` for the user,
/// for those who made the namespaces what limited them then.
fn levels(ns: &UserRef, uid: u32, most: Limit) -> impl Iterator<Item = (Key, u64)> {
    let mut next = Some((ns, uid, most));
    core::iter::from_fn(move || {
        let (ns, uid, most) = next?;
        next = ns.as_ref().map(|made| {
            let maker = made.maker();
            (made.parent(), maker.uid, most.above(maker.most.threads))
        });
        Some(((ns.as_ref().map_or(0, |made| made.maker().number), uid), most.0))
    })
}

impl Threads {
    fn count(&self, key: Key) -> u64 {
        let count = match key {
            (0, uid) => self.initial.get(&uid),
            key => self.below.get(&key),
        };
        count.copied().unwrap_or(0)
    }
    fn add(&mut self, key: Key) {
        *match key {
            (0, uid) => self.initial.entry(uid).or_insert(0),
            key => self.below.entry(key).or_insert(0),
        } += 1;
    }
    fn forget(&mut self, key: Key) {
        match key {
            (0, uid) => forget_one(&mut self.initial, uid),
            key => forget_one(&mut self.below, key),
        }
    }
    /// Counts one more, for whoever made the namespace, too. `false`: one of them has as many as allowed.
    #[cold]
    #[inline(never)]
    fn add_below(&mut self, ns: &UserRef, uid: u32, most: Limit) -> bool {
        let fits = levels(ns, uid, most).all(|(key, most)| self.count(key) < most);
        if fits {
            levels(ns, uid, most).for_each(|(key, _)| self.add(key));
        }
        fits
    }
    #[cold]
    #[inline(never)]
    fn forget_below(&mut self, ns: &UserRef, uid: u32) {
        levels(ns, uid, Limit::NONE).for_each(|(key, _)| self.forget(key));
    }
}

/// Counts a new thread of who has `creds`. `EAGAIN`: it would be one more than `limit`, the limit of who made
/// its user namespace or the machine's own allows.
pub fn charge(creds: &Creds, limit: Limit) -> Result<(), Errno> {
    if TOTAL.fetch_add(1, Ordering::Relaxed) >= super::fork::max_threads() {
        TOTAL.fetch_sub(1, Ordering::Relaxed);
        return Err(Errno::EAGAIN);
    }
    let mut threads = THREADS.lock();
    let fits = if creds.user.is_none() {
        let count = threads.initial.entry(creds.uid).or_insert(0);
        let fits = *count < limit.0;
        *count += u64::from(fits);
        fits
    } else {
        threads.add_below(&creds.user, creds.uid, limit)
    };
    drop(threads);
    if fits {
        return Ok(());
    }
    TOTAL.fetch_sub(1, Ordering::Relaxed);
    Err(Errno::EAGAIN)
}

/// A thread of user `uid` of `ns` has ended.
pub fn uncharge(ns: &UserRef, uid: u32) {
    TOTAL.fetch_sub(1, Ordering::Relaxed);
    let mut threads = THREADS.lock();
    if ns.is_none() {
        forget_one(&mut threads.initial, uid);
    } else {
        threads.forget_below(ns, uid);
    }
}

/// A thread changes its credentials, which may mean another real user or another user namespace.
pub fn transfer(from: &Creds, to: &Creds) {
    if from.uid != to.uid || !is_same(&from.user, &to.user) {
        let mut threads = THREADS.lock();
        levels(&from.user, from.uid, Limit::NONE).for_each(|(key, _)| threads.forget(key));
        levels(&to.user, to.uid, Limit::NONE).for_each(|(key, _)| threads.add(key));
    }
}

/// Whether the real user of `creds` has more than `limit` threads, or whoever made its user namespace more
/// than was allowed.
pub fn has_too_many(creds: &Creds, limit: Limit) -> bool {
    let threads = THREADS.lock();
    levels(&creds.user, creds.uid, limit).any(|(key, most)| threads.count(key) > most)
}

fn forget_one<K: Ord>(threads: &mut BTreeMap<K, u64>, key: K) {
    if let Some(count) = threads.get_mut(&key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            threads.remove(&key);
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
}

/// An interrupt-safe lock: a notification in an interrupt may drop the last reference to an account.
static ACCOUNTS: IrqSpinLock<BTreeMap<u32, Weak<Account>>> = IrqSpinLock::new(BTreeMap::new());

/// The account of the running thread's user.
pub fn account() -> Arc<Account> {
    account_of(super::current().creds().euid)
}

/// The account of whoever made the outermost user namespace in which the running thread is; in the initial
/// one, of its user. For what is limited there alone.
pub fn outer_account() -> Arc<Account> {
    let uid = super::current().with_creds(|creds| {
        let (mut ns, mut uid) = (&creds.user, creds.euid);
        while let Some(made) = ns {
            (ns, uid) = (made.parent(), made.maker().uid);
        }
        uid
    });
    account_of(uid)
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

/// What is counted for a real user, and for whoever made the user namespaces in which the user is.
#[derive(Clone, Copy, Debug)]
enum Of {
    /// Signals that are queued for the user's processes (`RLIMIT_SIGPENDING`).
    Signals,
    /// Bytes that the user's POSIX message queues may take (`RLIMIT_MSGQUEUE`).
    QueueBytes,
    /// Pages of segments of shared memory that the user has locked (`RLIMIT_MEMLOCK`).
    LockedPages,
}

/// The soft limits of whoever made a user namespace, when it was made.
#[derive(Clone, Copy, Debug)]
struct Most {
    threads: u64,
    of: [u64; 3],
}

/// Who made a user namespace, and what all its users may have together.
pub struct Maker {
    /// The namespace's number here, which no other ever has.
    number: u64,
    /// The kernel's id, in the namespace's parent.
    pub uid: u32,
    counts: Arc<Counts>,
    most: Most,
}

impl Maker {
    /// The running thread, which has `creds`, makes a namespace.
    pub fn new(creds: &Creds) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let soft = |which| super::rlimit(which);
        // Who has no limit of processes makes none.
        let free = creds.uid == 0 && creds.user.is_none();
        Self {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            uid: creds.euid,
            counts: Counts::at(&creds.user, creds.euid),
            most: Most {
                threads: if free { INFINITY } else { soft(which::NPROC) },
                of: [
                    soft(which::SIGPENDING),
                    soft(which::MSGQUEUE),
                    soft(which::MEMLOCK) / PAGE_SIZE as u64,
                ],
            },
        }
    }
}

/// What a real user has of what is limited. Each queue of signals holds a reference to this.
#[derive(Debug)]
pub struct Counts {
    key: Key,
    counts: [AtomicUsize; 3],
    /// Where it counts, too: for whoever made the user namespace; and how much there may be.
    above: Option<(Arc<Counts>, Most)>,
}

static COUNTS: IrqSpinLock<BTreeMap<Key, Weak<Counts>>> = IrqSpinLock::new(BTreeMap::new());

impl Counts {
    /// Those of the real user of `creds`.
    pub fn of(creds: &Creds) -> Arc<Self> {
        Self::at(&creds.user, creds.uid)
    }
    fn at(ns: &UserRef, uid: u32) -> Arc<Self> {
        let maker = ns.as_ref().map(|made| made.maker());
        let key = (maker.map_or(0, |maker| maker.number), uid);
        let new = Arc::new(Self {
            key,
            counts: [const { AtomicUsize::new(0) }; 3],
            above: maker.map(|maker| (maker.counts.clone(), maker.most)),
        });
        let mut all = COUNTS.lock();
        if let Some(known) = all.get(&key).and_then(Weak::upgrade) {
            // The new ones are dropped without the lock.
            drop(all);
            return known;
        }
        all.insert(key, Arc::downgrade(&new));
        new
    }
    #[inline(always)]
    fn here(&self, of: Of) -> &AtomicUsize {
        &self.counts[of as usize]
    }
    /// Counts `n` more, here and above. `false`: somewhere that would be more than `limit`, above than what
    /// the maker may have.
    fn take(&self, of: Of, n: usize, limit: Limit) -> bool {
        let fits = |n: usize| n <= isize::MAX as usize && n as u64 <= limit.0;
        let more = |had: usize| had.checked_add(n).filter(|&n| fits(n));
        let here = self.here(of);
        if here
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_err()
        {
            return false;
        }
        let taken = self.above.is_none() || self.take_above(of, n, limit);
        if !taken {
            here.fetch_sub(n, Ordering::Relaxed);
        }
        taken
    }
    #[cold]
    #[inline(never)]
    fn take_above(&self, of: Of, n: usize, limit: Limit) -> bool {
        let mut at = &self.above;
        while let Some((above, most)) = at {
            let most = limit.above(most.of[of as usize]);
            let fits = |n: usize| n <= isize::MAX as usize && n as u64 <= most.0;
            let more = |had: usize| had.checked_add(n).filter(|&n| fits(n));
            let here = above.here(of);
            if here
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
                .is_err()
            {
                self.above_up_to(Some(above), |counts| {
                    counts.here(of).fetch_sub(n, Ordering::Relaxed);
                });
                return false;
            }
            at = &above.above;
        }
        true
    }
    /// Those above, but neither `end` nor what is above that.
    #[cold]
    fn above_up_to(&self, end: Option<&Arc<Self>>, mut each: impl FnMut(&Self)) {
        let mut at = &self.above;
        while let Some((above, _)) = at
            && !end.is_some_and(|end| Arc::ptr_eq(end, above))
        {
            each(above);
            at = &above.above;
        }
    }
    #[inline(always)]
    fn give_back(&self, of: Of, n: usize) {
        self.here(of).fetch_sub(n, Ordering::Relaxed);
        if self.above.is_some() {
            self.above_up_to(None, |counts| {
                counts.here(of).fetch_sub(n, Ordering::Relaxed);
            });
        }
    }
    /// Counts one more queued signal, unless that would be more than `limit` or than what a maker of a user
    /// namespace may have. Returns whether it was counted.
    #[inline(always)]
    pub fn add_signal(&self, limit: Limit) -> bool {
        let here = self.here(Of::Signals);
        if (here.fetch_add(1, Ordering::Relaxed) as u64) < limit.0
            && (self.above.is_none() || self.take_above(Of::Signals, 1, limit))
        {
            return true;
        }
        here.fetch_sub(1, Ordering::Relaxed);
        false
    }
    /// Counts `n` queued signals fewer.
    #[inline(always)]
    pub fn remove_signals(&self, n: usize) {
        self.give_back(Of::Signals, n);
    }
    /// Counts `n` queued signals more, whatever the limit.
    pub fn move_signals_in(&self, n: usize) {
        self.take(Of::Signals, n, Limit::NONE);
    }
    /// How many signals are queued.
    pub fn signals(&self) -> usize {
        self.here(Of::Signals).load(Ordering::Relaxed)
    }
}

impl Drop for Counts {
    fn drop(&mut self) {
        let mut all = COUNTS.lock();
        // There may be new ones of the same user already.
        if all.get(&self.key).is_some_and(|known| known.strong_count() == 0) {
            all.remove(&self.key);
        }
    }
}

/// Pages that a user has locked in memory with one segment. Dropping it gives them back.
pub struct LockedPages {
    of: Arc<Counts>,
    count: usize,
}

impl LockedPages {
    /// None yet, of the real user of `creds`.
    pub fn nothing_of(creds: &Creds) -> Self {
        Self {
            of: Counts::of(creds),
            count: 0,
        }
    }
    /// Locks `count` pages. `ENOMEM`: the user would have more than `most`, or whoever made the user
    /// namespace more than allowed.
    pub fn take(&mut self, count: usize, most: Limit) -> Result<(), Errno> {
        if !self.of.take(Of::LockedPages, count, most) {
            return Err(Errno::ENOMEM);
        }
        self.count += count;
        Ok(())
    }
}

impl Drop for LockedPages {
    fn drop(&mut self) {
        self.of.give_back(Of::LockedPages, self.count);
    }
}

/// Bytes that one of a user's POSIX message queues may take. Dropping it gives them back.
pub struct QueueBytes {
    of: Arc<Counts>,
    count: usize,
}

impl QueueBytes {
    /// Counts `count` bytes for the real user of `creds`. `EMFILE`: the user would have more than `most`, or
    /// whoever made the user namespace more than allowed.
    pub fn take(creds: &Creds, count: usize, most: Limit) -> Result<Self, Errno> {
        let of = Counts::of(creds);
        match of.take(Of::QueueBytes, count, most) {
            true => Ok(Self { of, count }),
            false => Err(Errno::EMFILE),
        }
    }
}

impl Drop for QueueBytes {
    fn drop(&mut self) {
        self.of.give_back(Of::QueueBytes, self.count);
    }
}
