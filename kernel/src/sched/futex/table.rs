//! The hash table of waiters.

use super::Key;
use crate::sched::{TaskState, online, policy, wake_task};
use crate::sync::{Lazy, SpinGuard, SpinLock};
use crate::syscall::SysResult;
use crate::task::Task;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::mem::ManuallyDrop;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, fence};
use limen_linux_abi::Errno;

/// A waiter; lies on the waiting thread's stack (or in a box of its own) and does not move while queued.
pub(super) struct Entry {
    next: Cell<*const Entry>,
    prev: Cell<*const Entry>,
    /// The bucket it is queued in, null if it is not (any more).
    bucket: AtomicPtr<Bucket>,
    key: Cell<Key>,
    mask: u32,
    /// The thread's real-time priority when it was queued: the more urgent come first.
    level: u8,
    task: *const Task,
    /// What it has beyond a plain waiter, null for one.
    pi: *const PiWait,
}

/// What belongs to the entry of a thread that waits for a priority-inheriting lock, or may be moved to one.
pub(super) struct PiWait {
    /// It waits for such a lock; before, it waits to be moved to one. Changes once, under the lock of the bucket it is in.
    pub waits: Cell<bool>,
    /// The lock it may be moved to.
    pub target: Key,
    /// Whose list it is in, null for nobody's; this and the links are `owner`'s.
    pub owner: Cell<*const Task>,
    pub next: Cell<*const Entry>,
    pub prev: Cell<*const Entry>,
    /// The lock was handed to it.
    pub granted: AtomicBool,
    /// It was let go because the owner, of this identifier, died; else 0.
    pub orphan_of: Cell<u32>,
}

impl PiWait {
    /// Of a thread that waits for the lock of key `target`, or (not `waits`) to be moved to it.
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
    /// For the running thread.
    pub fn new(task: &Arc<Task>, key: Key, mask: u32) -> Self {
        Self::with_pi(task, key, mask, ptr::null())
    }
    /// For the running thread, which waits for a priority-inheriting lock or may be moved to one; `pi` lives as long as the entry.
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
    /// What it has beyond a plain waiter.
    pub fn pi(&self) -> Option<&PiWait> {
        // SAFETY: whoever makes such an entry keeps both on its stack until the entry is in no list any more.
        unsafe { self.pi.as_ref() }
    }
    /// The same if it waits for a priority-inheriting lock.
    pub fn waits_pi(&self) -> Option<&PiWait> {
        self.pi().filter(|pi| pi.waits.get())
    }
    /// What it waits for. Under the bucket's lock; of one that waits for a priority-inheriting lock it does not change.
    pub fn key(&self) -> Key {
        self.key.get()
    }
    /// Makes the thread, the running one, a sleeper again if nobody has let the entry go: as one step for whoever does.
    pub fn sleep_again(&self, me: &Task) {
        loop {
            let bucket = self.bucket.load(Ordering::Acquire);
            // SAFETY: buckets are never freed.
            let Some(b) = (unsafe { bucket.as_ref() }) else {
                return;
            };
            let _list = b.lock();
            if self.bucket.load(Ordering::Relaxed) == bucket {
                me.sched.set_state(TaskState::INTERRUPTIBLE);
                return;
            }
        }
    }
    /// Whether nobody has woken it yet, nor is about to: looks under the bucket's lock, for a thread that was queued before it was made a sleeper.
    pub fn is_queued_now(&self) -> bool {
        loop {
            let bucket = self.bucket.load(Ordering::Acquire);
            // SAFETY: buckets are never freed.
            let Some(b) = (unsafe { bucket.as_ref() }) else {
                return false;
            };
            let _list = b.lock();
            if self.bucket.load(Ordering::Relaxed) == bucket {
                return true;
            }
        }
    }
    /// Whether nobody has woken it yet. For a thread that was made a sleeper in the same step as it was queued.
    pub fn is_queued(&self) -> bool {
        !self.bucket.load(Ordering::Acquire).is_null()
    }
    /// Takes it out; `false`: it was woken. Afterwards nobody refers to it.
    pub fn unqueue(&self) -> bool {
        loop {
            let bucket = self.bucket.load(Ordering::Acquire);
            // SAFETY: buckets are never freed.
            let Some(b) = (unsafe { bucket.as_ref() }) else {
                return false;
            };
            let mut list = b.lock();
            // It may have been moved to another bucket, or woken, before we had the lock.
            if self.bucket.load(Ordering::Relaxed) == bucket {
                super::owner::detach(self);
                list.unlink(self);
                self.bucket.store(ptr::null_mut(), Ordering::Relaxed);
                drop(list);
                b.retract();
                return true;
            }
        }
    }
    /// The waiting thread. Under the bucket's lock, or by the thread itself.
    pub fn task(&self) -> ManuallyDrop<Arc<Task>> {
        // SAFETY: the thread of a queued entry is alive; the count is not taken over.
        unsafe { ManuallyDrop::new(Arc::from_raw(self.task)) }
    }
}

/// The waiters of one bucket: the most urgent first, among equals the oldest.
pub(super) struct List {
    head: *const Entry,
    tail: *const Entry,
}

// SAFETY: entries are touched under the bucket's lock only and unlinked before they go away.
unsafe impl Send for List {}

/// A bucket.
pub(super) struct Bucket {
    /// Waiters queued or about to queue: a waker that finds none need not take the lock.
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
    /// A waiter is about to look at its word: from now on wakers take the lock.
    pub fn announce(&self) {
        self.waiters.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
    /// Undoes [`Bucket::announce`].
    pub fn retract(&self) {
        self.waiters.fetch_sub(1, Ordering::Relaxed);
    }
    /// Whether nobody waits here. What the caller wrote before is seen by whoever announces itself later.
    pub fn nobody(&self) -> bool {
        fence(Ordering::SeqCst);
        self.waiters.load(Ordering::Relaxed) == 0
    }
    /// The waiters.
    pub fn lock(&self) -> SpinGuard<'_, List> {
        self.list.lock()
    }
    /// The same while the bucket of a lower address is locked.
    fn lock_second(&self) -> SpinGuard<'_, List> {
        self.list.lock_nested(1)
    }
}

impl List {
    /// Queues `entry` (announced before).
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
        // SAFETY: as above.
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
    /// Calls `f` with each entry of `key` until it returns `false`. `f` may let the entry go.
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
    /// Whether somebody waits for a priority-inheriting lock at `key`.
    pub fn has_pi(&mut self, key: &Key) -> bool {
        let mut found = false;
        self.for_each(key, |_, e| {
            found |= e.waits_pi().is_some();
            !found
        });
        found
    }
    /// Whether somebody at `key` is not a plain waiter.
    pub fn has_special(&mut self, key: &Key) -> bool {
        let mut found = false;
        self.for_each(key, |_, e| {
            found |= e.pi().is_some();
            !found
        });
        found
    }
    /// Hands the lock the entry waits for to its thread, and lets the entry go.
    pub fn grant(&mut self, entry: &Entry) {
        if let Some(pi) = entry.pi() {
            pi.granted.store(true, Ordering::Release);
        }
        self.release(entry);
    }
    /// The entry's thread now waits for a lock of key `to`, in the list of `other` if that is another one.
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
    /// Wakes the entry's thread and lets the entry go: it must not be touched afterwards.
    pub fn release(&mut self, entry: &Entry) {
        let bucket = entry.bucket.load(Ordering::Relaxed);
        wake_task(&entry.task(), TaskState::NORMAL);
        self.unlink(entry);
        // Last: the thread may return as soon as it sees this.
        entry.bucket.store(ptr::null_mut(), Ordering::Release);
        // SAFETY: buckets are never freed.
        if let Some(bucket) = unsafe { bucket.as_ref() } {
            bucket.retract();
        }
    }
    /// Wakes up to `count` waiters of `key` whose mask meets `mask`; how many. `EINVAL`: the next one is not a plain waiter.
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
    /// Moves up to `count` waiters of `from` to the list `to` under another key.
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
    /// The same within one bucket.
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

/// Locks two buckets in the order of their addresses; one guard if they are the same.
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
    /// How far a hash is shifted down to be a number of a bucket.
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

/// The bucket of `key`.
#[inline(always)]
pub(super) fn bucket_of(key: &Key) -> &'static Bucket {
    let table: &'static Table = &TABLE;
    // The top bits of a product with the golden ratio depend on all of the key's.
    let ratio = (0x9e37_79b9_7f4a_7c15_u64 >> (64 - usize::BITS)) as usize;
    let hash = (key.object >> 4 ^ (key.offset >> 2) as usize).wrapping_mul(ratio);
    &table.buckets[hash >> table.shift]
}
