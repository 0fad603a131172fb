//! The hash table of waiters.

use super::Key;
use crate::sched::{TaskState, online, wake_task};
use crate::sync::{Lazy, SpinGuard, SpinLock};
use crate::task::Task;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::mem::ManuallyDrop;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, fence};

/// A waiter; lies on the waiting thread's stack (or in a box of its own) and does not move while queued.
pub(super) struct Entry {
    next: Cell<*const Entry>,
    prev: Cell<*const Entry>,
    /// The bucket it is queued in, null if it is not (any more).
    bucket: AtomicPtr<Bucket>,
    key: Cell<Key>,
    mask: u32,
    task: *const Task,
    /// Waits for a priority-inheriting lock.
    pub pi: bool,
    /// That lock was handed to it.
    pub granted: AtomicBool,
}

impl Entry {
    /// For the running thread.
    pub fn new(task: &Arc<Task>, key: Key, mask: u32, pi: bool) -> Self {
        Self {
            next: Cell::new(ptr::null()),
            prev: Cell::new(ptr::null()),
            bucket: AtomicPtr::new(ptr::null_mut()),
            key: Cell::new(key),
            mask,
            task: Arc::as_ptr(task),
            pi,
            granted: AtomicBool::new(false),
        }
    }
    /// Whether nobody has woken it yet.
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

/// The waiters of one bucket, oldest first.
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
        self.waiters.fetch_add(1, Ordering::SeqCst);
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
        entry.next.set(ptr::null());
        entry.prev.set(self.tail);
        // SAFETY: queued entries are alive.
        match unsafe { self.tail.as_ref() } {
            Some(tail) => tail.next.set(entry),
            None => self.head = entry,
        }
        self.tail = entry;
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
            found |= e.pi;
            !found
        });
        found
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
    /// Wakes up to `count` waiters of `key` whose mask meets `mask`.
    pub fn wake(&mut self, key: &Key, count: usize, mask: u32) -> usize {
        let mut woken = 0;
        if count == 0 {
            return 0;
        }
        self.for_each(key, |list, entry| {
            if entry.mask & mask != 0 {
                list.release(entry);
                woken += 1;
            }
            woken < count
        });
        woken
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

/// 256 buckets per CPU, a power of two.
static TABLE: Lazy<Box<[Bucket]>> = Lazy::new(|| {
    let n = (online().count().max(1) * 256).next_power_of_two();
    let mut buckets = Vec::with_capacity(n);
    buckets.resize_with(n, Bucket::new);
    buckets.into_boxed_slice()
});

/// The bucket of `key`.
pub(super) fn bucket_of(key: &Key) -> &'static Bucket {
    let table: &'static [Bucket] = &TABLE;
    let mixed = (key.object as u64 >> 4 ^ key.offset >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    &table[(mixed >> 32) as usize & (table.len() - 1)]
}
