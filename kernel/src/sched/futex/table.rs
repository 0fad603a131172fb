//! The hash table of waiters.

use super::Key;
use crate::sched::{TaskState, online, policy, wake_task};
use crate::sync::{Lazy, SpinGuard, SpinLock};
use crate::task::Task;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::mem::ManuallyDrop;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, fence};
use limen_linux_abi::{Errno, SysResult};

/// A waiter. It lies on the waiting thread's stack (or in a box of its own) and does not move while queued.
pub(super) struct Entry {
    next: Cell<*const Entry>,
    prev: Cell<*const Entry>,
    /// The bucket in which it is queued; null if it is in none.
    bucket: AtomicPtr<Bucket>,
    key: Cell<Key>,
    mask: u32,
    /// The thread's real-time priority when it was queued: higher ones come first in the list.
    level: u8,
    task: *const Task,
    /// For a waiter for (or to be moved to) a priority-inheriting lock; null for a plain waiter.
    pi: *const PiWait,
}

/// What an entry has in addition if its thread waits for a priority-inheriting lock, or to be moved to one.
pub(super) struct PiWait {
    /// Whether it waits for such a lock; before, it waits to be moved to one. Changes once, under the lock of
    /// the entry's bucket.
    pub waits: Cell<bool>,
    /// The lock for which it waits, or to which it may be moved.
    pub target: Key,
    /// The owner in whose list it is, null for none. This and the links belong to `owner`.
    pub owner: Cell<*const Task>,
    pub next: Cell<*const Entry>,
    pub prev: Cell<*const Entry>,
    /// The lock was handed to it.
    pub granted: AtomicBool,
    /// The id of the lock's owner, if the entry left the queue because that owner died; else 0.
    pub orphan_of: Cell<u32>,
}

impl PiWait {
    /// Of a thread that waits for the lock with key `target` or (`waits` false) to be moved to it.
    pub fn new(target: Key, waits: bool) -> Self {
        Self {
            waits: Cell::new(waits),
            target,
            owner: Cell::new(ptr::null()),
            next: Cell::new(ptr::null()),
            prev: Cell::new(ptr::null()),
            granted: AtomicBool::new(false),
            orphan_of: Cell::new(0),
        }
    }
}

impl Entry {
    /// Of the running thread, as a plain waiter.
    pub fn new(task: &Arc<Task>, key: Key, mask: u32) -> Self {
        Self::with_pi(task, key, mask, ptr::null())
    }
    /// Of the running thread, which waits for a priority-inheriting lock or to be moved to one. `pi` must
    /// live as long as the entry.
    pub fn with_pi(task: &Arc<Task>, key: Key, mask: u32, pi: *const PiWait) -> Self {
        Self {
            next: Cell::new(ptr::null()),
            prev: Cell::new(ptr::null()),
            bucket: AtomicPtr::new(ptr::null_mut()),
            key: Cell::new(key),
            mask,
            level: policy::effective_priority(task),
            task: Arc::as_ptr(task),
            pi,
        }
    }
    /// What it has in addition to a plain waiter.
    pub fn pi(&self) -> Option<&PiWait> {
        // SAFETY: the thread that makes such an entry keeps both on its stack until the entry is in no list.
        unsafe { self.pi.as_ref() }
    }
    /// [`Entry::pi`] if it waits for a priority-inheriting lock.
    pub fn waits_pi(&self) -> Option<&PiWait> {
        self.pi().filter(|pi| pi.waits.get())
    }
    /// The key for which it waits. The bucket is locked; the key of a waiter for a priority-inheriting lock
    /// does not change.
    pub fn key(&self) -> Key {
        self.key.get()
    }
    /// The bucket in which it is queued, locked. `None`: it is in none.
    #[inline(always)]
    fn lock_bucket(&self) -> Option<(&'static Bucket, SpinGuard<'static, List>)> {
        loop {
            let at = self.bucket.load(Ordering::Acquire);
            // SAFETY: buckets are never freed.
            let bucket: &'static Bucket = unsafe { at.as_ref()? };
            let list = bucket.lock();
            // Before this thread had the lock, the entry may have been moved to another bucket or woken.
            if self.bucket.load(Ordering::Relaxed) == at {
                return Some((bucket, list));
            }
        }
    }
    /// Sets the running thread's state to sleeping again if its entry is still queued. Both happen under the
    /// bucket's lock, so a waker sees either none or both.
    pub fn sleep_again(&self, me: &Task) {
        if let Some(_locked) = self.lock_bucket() {
            me.sched.set_state(TaskState::INTERRUPTIBLE);
        }
    }
    /// Whether no waker has taken the entry out or is about to. Looks under the bucket's lock: for a thread
    /// whose state became sleeping only after it was queued.
    pub fn is_queued_now(&self) -> bool {
        self.lock_bucket().is_some()
    }
    /// Whether no waker has taken the entry out. For a thread whose state became sleeping in the same step in
    /// which it was queued.
    pub fn is_queued(&self) -> bool {
        !self.bucket.load(Ordering::Acquire).is_null()
    }
    /// Takes the entry out of its queue. `false`: a waker has done so. Afterwards nothing points to it.
    pub fn unqueue(&self) -> bool {
        let Some((bucket, mut list)) = self.lock_bucket() else {
            return false;
        };
        super::owner::detach(self);
        list.unlink(self);
        self.bucket.store(ptr::null_mut(), Ordering::Relaxed);
        drop(list);
        bucket.retract();
        true
    }
    /// The waiting thread. For holders of the bucket's lock, and for the thread itself.
    pub fn task(&self) -> ManuallyDrop<Arc<Task>> {
        // SAFETY: the thread of a queued entry is alive. The handle does not own the reference.
        unsafe { ManuallyDrop::new(Arc::from_raw(self.task)) }
    }
}

/// The waiters of one bucket: the most urgent first, the oldest first among equals.
pub(super) struct List {
    head: *const Entry,
    tail: *const Entry,
}

// SAFETY: entries are used under the bucket's lock only and unlinked before they go away.
unsafe impl Send for List {}

/// A bucket.
pub(super) struct Bucket {
    /// How many waiters are queued or about to queue. A waker that reads zero need not take the lock.
    waiters: AtomicUsize,
    list: SpinLock<List>,
}

impl Bucket {
    fn new() -> Self {
        Self {
            waiters: AtomicUsize::new(0),
            list: SpinLock::new(List {
                head: ptr::null(),
                tail: ptr::null(),
            }),
        }
    }
    /// A waiter is about to look at its word. From now on wakers take the lock.
    pub fn announce(&self) {
        self.waiters.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
    /// Undoes [`Bucket::announce`].
    pub fn retract(&self) {
        self.waiters.fetch_sub(1, Ordering::Relaxed);
    }
    /// Whether nobody waits here. A waiter that announces itself later sees all that the caller wrote before.
    pub fn nobody(&self) -> bool {
        fence(Ordering::SeqCst);
        self.waiters.load(Ordering::Relaxed) == 0
    }
    /// The waiters.
    pub fn lock(&self) -> SpinGuard<'_, List> {
        self.list.lock()
    }
    /// The waiters, while the bucket at a lower address is locked.
    fn lock_second(&self) -> SpinGuard<'_, List> {
        self.list.lock_nested(1)
    }
}

impl List {
    /// Queues `entry`. The waiter has called [`Bucket::announce`].
    pub fn push(&mut self, entry: &Entry, bucket: &'static Bucket) {
        let mut before = self.tail;
        if entry.level > 0 {
            // SAFETY: queued entries are alive.
            while let Some(other) = unsafe { before.as_ref() }
                && other.level < entry.level
            {
                before = other.prev.get();
            }
        }
        entry.prev.set(before);
        // SAFETY: queued entries are alive.
        unsafe {
            let after = match before.as_ref() {
                Some(before) => before.next.replace(entry),
                None => core::mem::replace(&mut self.head, entry),
            };
            entry.next.set(after);
            match after.as_ref() {
                Some(after) => after.prev.set(entry),
                None => self.tail = entry,
            }
        }
        entry
            .bucket
            .store(ptr::from_ref(bucket).cast_mut(), Ordering::Relaxed);
    }
    fn unlink(&mut self, entry: &Entry) {
        // SAFETY: neighbours are queued and alive.
        unsafe {
            match entry.prev.get().as_ref() {
                Some(p) => p.next.set(entry.next.get()),
                None => self.head = entry.next.get(),
            }
            match entry.next.get().as_ref() {
                Some(n) => n.prev.set(entry.prev.get()),
                None => self.tail = entry.prev.get(),
            }
        }
    }
    /// Calls `f` with each entry of `key` until it returns `false`. `f` may take the entry out and wake its
    /// thread.
    #[inline(always)]
    pub fn for_each(&mut self, key: &Key, mut f: impl FnMut(&mut Self, &Entry) -> bool) {
        let mut at = self.head;
        // SAFETY: queued entries are alive; `next` is read before `f` may let the entry go.
        while let Some(entry) = unsafe { at.as_ref() } {
            at = entry.next.get();
            if entry.key.get() == *key && !f(self, entry) {
                return;
            }
        }
    }
    /// Whether a thread waits for a priority-inheriting lock at `key`.
    pub fn has_pi(&mut self, key: &Key) -> bool {
        let mut found = false;
        self.for_each(key, |_, e| {
            found |= e.waits_pi().is_some();
            !found
        });
        found
    }
    /// Whether an entry of `key` is not a plain waiter.
    pub fn has_special(&mut self, key: &Key) -> bool {
        let mut found = false;
        self.for_each(key, |_, e| {
            found |= e.pi().is_some();
            !found
        });
        found
    }
    /// Hands the lock for which the entry's thread waits to that thread, and wakes it.
    pub fn grant(&mut self, entry: &Entry) {
        if let Some(pi) = entry.pi() {
            pi.granted.store(true, Ordering::Release);
        }
        self.release(entry);
    }
    /// Makes the entry one of a thread that waits for the lock with key `to`; moves it to the list `other`,
    /// if given.
    pub fn move_one(&mut self, entry: &Entry, to: &Key, other: Option<&mut Self>, bucket: &'static Bucket) {
        let old = entry.bucket.load(Ordering::Relaxed);
        self.unlink(entry);
        entry.key.set(*to);
        bucket.announce();
        other.unwrap_or(self).push(entry, bucket);
        // SAFETY: buckets are never freed.
        if let Some(old) = unsafe { old.as_ref() } {
            old.retract();
        }
    }
    /// Takes the entry out and wakes its thread. The entry must not be used afterwards.
    pub fn release(&mut self, entry: &Entry) {
        let bucket = entry.bucket.load(Ordering::Relaxed);
        wake_task(&entry.task(), TaskState::NORMAL);
        self.unlink(entry);
        // Comes last: the thread may return, and the entry be gone, as soon as it sees this.
        entry.bucket.store(ptr::null_mut(), Ordering::Release);
        // SAFETY: buckets are never freed.
        if let Some(bucket) = unsafe { bucket.as_ref() } {
            bucket.retract();
        }
    }
    /// Wakes up to `count` waiters of `key` whose bit sets meet `mask`, and returns how many. `EINVAL`: the
    /// next one is not a plain waiter.
    #[inline]
    pub fn wake(&mut self, key: &Key, count: usize, mask: u32) -> SysResult {
        let (mut woken, mut special) = (0, false);
        if count == 0 {
            return Ok(0);
        }
        self.for_each(key, |list, entry| {
            special = entry.pi().is_some();
            if !special && entry.mask & mask != 0 {
                list.release(entry);
                woken += 1;
            }
            !special && woken < count
        });
        if special { Err(Errno::EINVAL) } else { Ok(woken) }
    }
    /// Moves up to `count` waiters of `from` to the list `to`, under another key.
    pub fn move_to(
        &mut self,
        from: &Key,
        to: &mut Self,
        to_key: &Key,
        count: usize,
        old: &'static Bucket,
        new: &'static Bucket,
    ) -> usize {
        let mut moved = 0;
        if count == 0 {
            return 0;
        }
        self.for_each(from, |list, entry| {
            list.unlink(entry);
            entry.key.set(*to_key);
            new.announce();
            to.push(entry, new);
            old.retract();
            moved += 1;
            moved < count
        });
        moved
    }
    /// [`List::move_to`] within one bucket.
    pub fn rename(&mut self, from: &Key, to_key: &Key, count: usize) -> usize {
        let mut moved = 0;
        if count == 0 || from == to_key {
            return 0;
        }
        self.for_each(from, |_, entry| {
            entry.key.set(*to_key);
            moved += 1;
            moved < count
        });
        moved
    }
}

/// Locks two buckets in the order of their addresses. One guard if they are the same.
pub(super) fn lock_two(
    a: &'static Bucket,
    b: &'static Bucket,
) -> (SpinGuard<'static, List>, Option<SpinGuard<'static, List>>) {
    if ptr::eq(a, b) {
        (a.lock(), None)
    } else if ptr::from_ref(a) < ptr::from_ref(b) {
        let first = a.lock();
        let second = b.lock_second();
        (first, Some(second))
    } else {
        let second = b.lock();
        let first = a.lock_second();
        (first, Some(second))
    }
}

struct Table {
    buckets: Box<[Bucket]>,
    /// By how many bits a hash is shifted right to become the number of a bucket.
    shift: u32,
}

/// 256 buckets per CPU, a power of two.
static TABLE: Lazy<Table> = Lazy::new(|| {
    let n = (online().count().max(1) * 256).next_power_of_two();
    let mut buckets = Vec::with_capacity(n);
    buckets.resize_with(n, Bucket::new);
    Table {
        buckets: buckets.into_boxed_slice(),
        shift: usize::BITS - n.ilog2(),
    }
});

/// Makes the table. At boot when all CPUs are known, since its size depends on them and it is too large for
/// later.
pub(super) fn init() {
    let _: &Table = &TABLE;
}

/// The bucket of `key`.
#[inline(always)]
pub(super) fn bucket_of(key: &Key) -> &'static Bucket {
    let table: &'static Table = &TABLE;
    // Every bit of the key influences the top bits of a product with the golden ratio.
    let ratio = (0x9e37_79b9_7f4a_7c15_u64 >> (64 - usize::BITS)) as usize;
    let hash = (key.object >> 4 ^ (key.offset >> 2) as usize).wrapping_mul(ratio);
    &table.buckets[hash >> table.shift]
}
