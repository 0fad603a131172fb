//! Wait queues: threads that sleep until a condition holds, and `Waiter`s (poll, epoll) that want to be told.
//!
//! A sleeping thread's entry lies on its own stack and is linked while it sleeps; the waker wakes and unlinks it under the queue's lock.
//! No wake-up is lost: the sleeper queues itself, sets its state (full barrier) and only then looks at the condition; whoever makes
//! the condition true looks at the queue afterwards (full barrier). Nor is one lost with who was chosen for it while a signal or a timeout sent it
//! away: it looks at the condition once more.

use super::entity::TaskState;
use super::{current, schedule, wake_task};
use crate::sync::IrqSpinLock;
use crate::task::Task;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering, fence};
use limen_linux_abi::Errno;

/// Somebody who wants to be told of wake-ups without sleeping on the queue. `notify` is called in any context, with the queue's lock
/// held and interrupts off: it must not touch that queue, sleep, or drop the last reference of something large.
pub trait Waiter: Send + Sync {
    /// The queue was woken; `key` says for what (`PollEvents` bits, 0 for "anything").
    fn notify(&self, key: u32);
}

/// What is linked into a queue.
struct Entry {
    next: Cell<*const Entry>,
    prev: Cell<*const Entry>,
    linked: AtomicBool,
    kind: Kind,
}

enum Kind {
    /// A sleeping thread.
    Thread(*const Task),
    /// Someone to notify.
    Waiter(Arc<dyn Waiter>),
}

struct List {
    tail: *const Entry,
}

// SAFETY: the list and the entries in it are only touched under the queue's lock; entries are removed before they go away.
unsafe impl Send for List {}

/// A wait queue.
pub struct WaitQueue {
    /// First entry; written under the lock, read without it to see whether anybody waits.
    head: AtomicPtr<Entry>,
    list: IrqSpinLock<List>,
}

impl WaitQueue {
    /// Nobody waits.
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub const fn new() -> Self {
        Self {
            head: AtomicPtr::new(ptr::null_mut()),
            list: IrqSpinLock::new(List { tail: ptr::null() }),
        }
    }

    /// Whether nobody waits. The caller's earlier writes are visible to anyone who queues itself later.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        fence(Ordering::SeqCst);
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// Sleeps until `cond` holds. `ERESTARTSYS` if a signal is pending.
    #[inline]
    pub fn wait_until(&self, mut cond: impl FnMut() -> bool) -> Result<(), Errno> {
        if cond() {
            return Ok(());
        }
        self.sleep(TaskState::INTERRUPTIBLE, None, &mut cond).map(|_| ())
    }
    /// Sleeps until `cond` holds. `ERESTARTSYS` if a fatal signal is pending.
    #[inline]
    pub fn wait_until_killable(&self, mut cond: impl FnMut() -> bool) -> Result<(), Errno> {
        if cond() {
            return Ok(());
        }
        self.sleep(TaskState::KILLABLE, None, &mut cond).map(|_| ())
    }
    /// Sleeps until `cond` holds.
    #[inline]
    pub fn wait_until_uninterruptible(&self, mut cond: impl FnMut() -> bool) {
        if !cond() {
            // An uninterruptible sleep has no other end than the condition.
            let _ = self.sleep(TaskState::UNINTERRUPTIBLE, None, &mut cond);
        }
    }
    /// Sleeps until `cond` holds (`true`) or CLOCK_MONOTONIC reaches `deadline_ns` (`false`). `u64::MAX`: no deadline.
    /// `ERESTARTSYS` if a signal is pending.
    #[inline]
    pub fn wait_until_deadline(
        &self,
        deadline_ns: u64,
        mut cond: impl FnMut() -> bool,
    ) -> Result<bool, Errno> {
        if cond() {
            return Ok(true);
        }
        let deadline = if deadline_ns == u64::MAX {
            None
        } else {
            Some(deadline_ns)
        };
        self.sleep(TaskState::INTERRUPTIBLE, deadline, &mut cond)
    }
    /// The same, not interruptible by signals.
    pub fn wait_until_deadline_uninterruptible(
        &self,
        deadline_ns: u64,
        mut cond: impl FnMut() -> bool,
    ) -> bool {
        if cond() {
            return true;
        }
        self.sleep(TaskState::UNINTERRUPTIBLE, Some(deadline_ns), &mut cond)
            .unwrap_or(false)
    }

    fn sleep(
        &self,
        state: TaskState,
        deadline: Option<u64>,
        cond: &mut dyn FnMut() -> bool,
    ) -> Result<bool, Errno> {
        super::might_sleep();
        let me = current();
        let entry = Entry {
            next: Cell::new(ptr::null()),
            prev: Cell::new(ptr::null()),
            linked: AtomicBool::new(false),
            kind: Kind::Thread(Arc::as_ptr(&me)),
        };
        let timer = deadline.map(|at| {
            let timer = super::sleep_timer(&me);
            timer.arm(at);
            timer
        });
        let result = loop {
            {
                // Under the lock, so that a waker finds the entry linked and the state set, or neither.
                let mut list = self.list.lock();
                if !entry.linked.load(Ordering::Relaxed) {
                    self.link(&mut list, &entry);
                }
                me.sched.set_state_relaxed(state);
            }
            fence(Ordering::SeqCst);
            if cond() {
                break Ok(true);
            }
            if deadline.is_some_and(|at| crate::time::now_ns() >= at) {
                break Ok(false);
            }
            if state.contains(TaskState::INTERRUPTIBLE) && me.signal_pending()
                || state.contains(TaskState::WAKEKILL) && me.fatal_signal_pending()
            {
                break Err(Errno::ERESTARTSYS);
            }
            schedule();
        };
        me.sched.set_state_relaxed(TaskState::RUNNING);
        let chosen = !self.leave(&entry);
        let result = match result {
            // A waker chose this thread, and nobody else, while it was about to leave: what that was for must not be lost.
            Ok(false) | Err(_) if chosen && cond() => Ok(true),
            other => other,
        };
        if let Some(timer) = timer {
            timer.cancel();
        }
        result
    }

    /// Takes a sleeper's entry out, unless a waker was faster: whether it was still in.
    #[inline(always)]
    fn leave(&self, entry: &Entry) -> bool {
        if !entry.linked.load(Ordering::Acquire) {
            return false;
        }
        let mut list = self.list.lock();
        let linked = entry.linked.load(Ordering::Relaxed);
        if linked {
            self.unlink(&mut list, entry);
        }
        linked
    }

    /// Wakes one sleeping thread; all `Waiter`s are notified.
    #[inline]
    pub fn wake_one(&self) {
        if !self.is_empty() {
            self.wake(1, 0);
        }
    }
    /// Wakes all.
    #[inline]
    pub fn wake_all(&self) {
        if !self.is_empty() {
            self.wake(usize::MAX, 0);
        }
    }
    /// Wakes all; `key` is handed to the `Waiter`s.
    #[inline]
    pub fn wake_all_key(&self, key: u32) {
        if !self.is_empty() {
            self.wake(usize::MAX, key);
        }
    }

    fn wake(&self, mut threads: usize, key: u32) {
        let mut list = self.list.lock();
        let mut at: *const Entry = self.head.load(Ordering::Relaxed);
        // SAFETY: under the lock every linked entry is alive; `next` is read before the entry may go.
        while let Some(entry) = unsafe { at.as_ref() } {
            at = entry.next.get();
            match &entry.kind {
                Kind::Waiter(waiter) => waiter.notify(key),
                Kind::Thread(task) => {
                    if threads == 0 {
                        continue;
                    }
                    // SAFETY: a linked thread entry belongs to a live sleeping thread; the count is not taken over.
                    let task = unsafe { core::mem::ManuallyDrop::new(Arc::from_raw(*task)) };
                    if wake_task(&task, TaskState::NORMAL) {
                        threads -= 1;
                    }
                    // Last: from here on the entry may be gone.
                    self.unlink(&mut list, entry);
                }
            }
        }
    }

    /// Tells `waiter` of every wake-up until it is removed.
    pub fn add(&self, waiter: &Arc<dyn Waiter>) {
        let entry = Box::into_raw(Box::new(Entry {
            next: Cell::new(ptr::null()),
            prev: Cell::new(ptr::null()),
            linked: AtomicBool::new(false),
            kind: Kind::Waiter(waiter.clone()),
        }));
        let mut list = self.list.lock();
        // SAFETY: just made; it stays until `remove` or the queue's end takes it.
        self.link(&mut list, unsafe { &*entry });
    }

    /// Undoes one [`WaitQueue::add`] of the same waiter, if there is one.
    pub fn remove(&self, waiter: &Arc<dyn Waiter>) {
        let mut found = None;
        {
            let mut list = self.list.lock();
            let mut at: *const Entry = self.head.load(Ordering::Relaxed);
            // SAFETY: under the lock every linked entry is alive.
            while let Some(entry) = unsafe { at.as_ref() } {
                if let Kind::Waiter(w) = &entry.kind
                    && ptr::addr_eq(Arc::as_ptr(w), Arc::as_ptr(waiter))
                {
                    self.unlink(&mut list, entry);
                    found = Some(at.cast_mut());
                    break;
                }
                at = entry.next.get();
            }
        }
        if let Some(entry) = found {
            // SAFETY: made by `add` with `Box::into_raw`, unlinked exactly once.
            drop(unsafe { Box::from_raw(entry) });
        }
    }

    fn link(&self, list: &mut List, entry: &Entry) {
        entry.next.set(ptr::null());
        entry.prev.set(list.tail);
        // SAFETY: the tail, if any, is linked and alive.
        match unsafe { list.tail.as_ref() } {
            Some(tail) => tail.next.set(entry),
            None => self
                .head
                .store(ptr::from_ref(entry).cast_mut(), Ordering::Relaxed),
        }
        list.tail = entry;
        entry.linked.store(true, Ordering::Relaxed);
    }

    fn unlink(&self, list: &mut List, entry: &Entry) {
        // SAFETY: neighbours in the list are alive.
        unsafe {
            match entry.prev.get().as_ref() {
                Some(prev) => prev.next.set(entry.next.get()),
                None => self.head.store(entry.next.get().cast_mut(), Ordering::Relaxed),
            }
            match entry.next.get().as_ref() {
                Some(next) => next.prev.set(entry.prev.get()),
                None => list.tail = entry.prev.get(),
            }
        }
        entry.linked.store(false, Ordering::Release);
    }
}

impl Drop for WaitQueue {
    fn drop(&mut self) {
        let mut at = *self.head.get_mut();
        while !at.is_null() {
            // SAFETY: a queue is dropped when nobody can sleep on it any more; what is left are boxed waiters.
            let entry = unsafe { Box::from_raw(at) };
            at = entry.next.get().cast_mut();
        }
    }
}

impl Default for WaitQueue {
    #[cfg_attr(feature = "lockdep", track_caller)]
    fn default() -> Self {
        Self::new()
    }
}
