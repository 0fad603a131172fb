//! Wait queues: threads that sleep until a condition holds, and [`Waiter`]s (poll, epoll) that want to be
//! told.
//!
//! A sleeper's entry lies on its own stack and is linked while it sleeps. The waker wakes the sleeper and
//! unlinks the entry under the queue's lock. Exclusive sleepers, of whom a wake-up needs only one, come
//! behind all others, in the order in which they came.
//!
//! No wake-up is lost. The sleeper links its entry, sets its state (full barrier) and only then checks its
//! condition; a waker makes the condition true and then (full barrier) looks at the queue. If a waker chose
//! an exclusive sleeper that a signal or a timeout was just waking, that sleeper checks its condition once
//! more.

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

/// An object that is told of wake-ups and does not sleep. `notify` is called in any context, with the queue's
/// lock held and interrupts off. It must not use that queue, sleep, or drop the last reference of something
/// large.
pub trait Waiter: Send + Sync {
    /// The queue was woken. Returns whether this waiter takes care of the event: if so and it was added as an
    /// exclusive one, no other exclusive one is woken.
    fn notify(&self, news: News) -> bool;
}

/// What a [`Waiter`] is told.
#[derive(Clone, Copy)]
pub struct News {
    /// What there is to be had (`PollEvents` bits), 0 for "anything".
    pub key: u32,
    /// Through how many queues the news came here, each of them locked now. For the lock validator.
    pub depth: usize,
}

/// What is linked into a queue.
struct Entry {
    next: Cell<*const Entry>,
    prev: Cell<*const Entry>,
    linked: AtomicBool,
    exclusive: bool,
    kind: Kind,
}

enum Kind {
    /// A sleeping thread.
    Thread(*const Task),
    /// An object to be told.
    Waiter(Arc<dyn Waiter>),
}

struct List {
    tail: *const Entry,
}

// SAFETY: the list and its entries are used under the queue's lock only, and entries are removed before they
// go away.
unsafe impl Send for List {}

/// A wait queue.
pub struct WaitQueue {
    /// The first entry. Written under the lock, read without it to see whether anyone waits.
    head: AtomicPtr<Entry>,
    list: IrqSpinLock<List>,
}

impl WaitQueue {
    /// Without waiters.
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub const fn new() -> Self {
        Self {
            head: AtomicPtr::new(ptr::null_mut()),
            list: IrqSpinLock::new(List { tail: ptr::null() }),
        }
    }

    /// Whether nobody waits. A thread that queues itself later sees all that the caller wrote before.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        fence(Ordering::SeqCst);
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// Sleeps until `cond` holds. `ERESTARTSYS` if a signal is pending.
    #[inline]
    pub fn wait_until(&self, cond: impl FnMut() -> bool) -> Result<(), Errno> {
        self.wait(TaskState::INTERRUPTIBLE, u64::MAX, false, cond)
            .map(drop)
    }
    /// [`WaitQueue::wait_until`] as one of several threads that wait for the same thing:
    /// [`WaitQueue::wake_one`] wakes only the first of them.
    #[inline]
    pub fn wait_until_exclusive(&self, cond: impl FnMut() -> bool) -> Result<(), Errno> {
        self.wait(TaskState::INTERRUPTIBLE, u64::MAX, true, cond)
            .map(drop)
    }
    /// Sleeps until `cond` holds. `ERESTARTSYS` if a fatal signal is pending.
    #[inline]
    pub fn wait_until_killable(&self, cond: impl FnMut() -> bool) -> Result<(), Errno> {
        self.wait(TaskState::KILLABLE, u64::MAX, false, cond).map(drop)
    }
    /// Sleeps until `cond` holds.
    #[inline]
    pub fn wait_until_uninterruptible(&self, cond: impl FnMut() -> bool) {
        // An uninterruptible sleep without deadline ends only when the condition holds.
        let _ = self.wait(TaskState::UNINTERRUPTIBLE, u64::MAX, false, cond);
    }
    /// [`WaitQueue::wait_until_uninterruptible`] as an exclusive sleeper
    /// ([`WaitQueue::wait_until_exclusive`]).
    #[inline]
    pub fn wait_until_uninterruptible_exclusive(&self, cond: impl FnMut() -> bool) {
        let _ = self.wait(TaskState::UNINTERRUPTIBLE, u64::MAX, true, cond);
    }
    /// Sleeps until `cond` holds (`true`) or `CLOCK_MONOTONIC` reaches `deadline_ns` nanoseconds (`false`).
    /// `u64::MAX`: no deadline. `ERESTARTSYS` if a signal is pending.
    #[inline]
    pub fn wait_until_deadline(&self, deadline_ns: u64, cond: impl FnMut() -> bool) -> Result<bool, Errno> {
        self.wait(TaskState::INTERRUPTIBLE, deadline_ns, false, cond)
    }
    /// [`WaitQueue::wait_until_deadline`] as an exclusive sleeper ([`WaitQueue::wait_until_exclusive`]).
    #[inline]
    pub fn wait_until_deadline_exclusive(
        &self,
        deadline_ns: u64,
        cond: impl FnMut() -> bool,
    ) -> Result<bool, Errno> {
        self.wait(TaskState::INTERRUPTIBLE, deadline_ns, true, cond)
    }
    /// The same, not interruptible by signals.
    pub fn wait_until_deadline_uninterruptible(&self, deadline_ns: u64, cond: impl FnMut() -> bool) -> bool {
        self.wait(TaskState::UNINTERRUPTIBLE, deadline_ns, false, cond)
            .unwrap_or(false)
    }

    /// What all the waits above do.
    #[inline(always)]
    fn wait(
        &self,
        state: TaskState,
        deadline_ns: u64,
        exclusive: bool,
        mut cond: impl FnMut() -> bool,
    ) -> Result<bool, Errno> {
        if cond() {
            return Ok(true);
        }
        let deadline = (deadline_ns != u64::MAX).then_some(deadline_ns);
        self.sleep(state, deadline, exclusive, &mut cond)
    }

    fn sleep(
        &self,
        state: TaskState,
        deadline: Option<u64>,
        exclusive: bool,
        cond: &mut dyn FnMut() -> bool,
    ) -> Result<bool, Errno> {
        super::might_sleep();
        let me = current();
        let entry = Entry {
            next: Cell::new(ptr::null()),
            prev: Cell::new(ptr::null()),
            linked: AtomicBool::new(false),
            exclusive,
            kind: Kind::Thread(Arc::as_ptr(&me)),
        };
        let timer = deadline.map(|at| {
            let timer = super::sleep_timer(&me);
            timer.arm(at);
            (timer, at)
        });
        let result = loop {
            {
                // Both under the lock: a waker finds the entry linked and the state set, or neither.
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
            if timer.is_some_and(|(timer, at)| super::deadline::is_over(timer, || at)) {
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
            // A waker chose this exclusive sleeper, and no other, while a signal or the deadline was ending
            // its sleep. The event must not be lost.
            Ok(false) | Err(_) if chosen && cond() => Ok(true),
            other => other,
        };
        if let Some((timer, _)) = timer {
            timer.cancel();
        }
        result
    }

    /// Takes a sleeper's entry out unless a waker has done so. Returns whether it was still in.
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

    /// Wakes all sleepers that are not exclusive, and one that is. In any context, also from interrupts.
    #[inline]
    pub fn wake_one(&self) {
        if !self.is_empty() {
            self.wake(1, News { key: 0, depth: 0 });
        }
    }
    /// [`WaitQueue::wake_one`]; `key` says what there is to be had (`PollEvents` bits).
    #[inline]
    pub fn wake_one_key(&self, key: u32) {
        if !self.is_empty() {
            self.wake(1, News { key, depth: 0 });
        }
    }
    /// [`WaitQueue::wake_one`] by a [`Waiter`] that another queue of this kind told `news`.
    #[inline]
    pub fn wake_one_after(&self, news: News) {
        if !self.is_empty() {
            self.wake(1, news);
        }
    }
    /// Wakes all sleepers.
    #[inline]
    pub fn wake_all(&self) {
        if !self.is_empty() {
            self.wake(usize::MAX, News { key: 0, depth: 0 });
        }
    }

    fn wake(&self, mut exclusive: usize, news: News) {
        // The lock validator has no more classes: level four and all deeper ones share the last.
        let mut list = self.list.lock_nested(news.depth.min(3));
        let told = News {
            depth: news.depth + 1,
            ..news
        };
        let mut at: *const Entry = self.head.load(Ordering::Relaxed);
        // SAFETY: under the lock every linked entry is alive. `next` is read before the entry may go away.
        while let Some(entry) = unsafe { at.as_ref() } {
            at = entry.next.get();
            let one_of_many = entry.exclusive;
            let woken = match &entry.kind {
                Kind::Waiter(waiter) => waiter.notify(told),
                Kind::Thread(task) => {
                    // SAFETY: the linked entry of a thread belongs to a sleeping, living thread. The handle
                    // does not own the reference.
                    let task = unsafe { core::mem::ManuallyDrop::new(Arc::from_raw(*task)) };
                    let woken = wake_task(&task, TaskState::NORMAL);
                    // Comes last: the entry may be gone from here on.
                    self.unlink(&mut list, entry);
                    woken
                }
            };
            if one_of_many && woken {
                exclusive -= 1;
                if exclusive == 0 {
                    break;
                }
            }
        }
    }

    /// Tells `waiter` of every wake-up until it is removed. `exclusive`: only of those that no exclusive
    /// entry before it takes care of.
    pub fn add(&self, waiter: &Arc<dyn Waiter>, exclusive: bool) {
        let entry = Box::into_raw(Box::new(Entry {
            next: Cell::new(ptr::null()),
            prev: Cell::new(ptr::null()),
            linked: AtomicBool::new(false),
            exclusive,
            kind: Kind::Waiter(waiter.clone()),
        }));
        let mut list = self.list.lock();
        // SAFETY: just made; it stays until `remove` or the queue's end takes it.
        self.link(&mut list, unsafe { &*entry });
    }

    /// Undoes one [`WaitQueue::add`] of the same waiter. Does nothing if there was none.
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
            // SAFETY: made by `add` with `Box::into_raw`, and unlinked exactly once.
            drop(unsafe { Box::from_raw(entry) });
        }
    }

    /// Links exclusive entries at the end, in the order in which they come, and others at the front.
    #[inline(always)]
    fn link(&self, list: &mut List, entry: &Entry) {
        let here = ptr::from_ref(entry);
        let head = self.head.load(Ordering::Relaxed).cast_const();
        // SAFETY: linked entries are alive.
        match unsafe { (list.tail.as_ref(), head.as_ref()) } {
            (Some(tail), _) if entry.exclusive => {
                entry.prev.set(tail);
                entry.next.set(ptr::null());
                tail.next.set(here);
                list.tail = here;
            }
            (_, Some(head)) => {
                entry.prev.set(ptr::null());
                entry.next.set(head);
                head.prev.set(here);
                self.head.store(here.cast_mut(), Ordering::Relaxed);
            }
            (_, None) => {
                entry.prev.set(ptr::null());
                entry.next.set(ptr::null());
                self.head.store(here.cast_mut(), Ordering::Relaxed);
                list.tail = here;
            }
        }
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
            // SAFETY: a queue is dropped when no thread can sleep on it. What is left are the boxes of
            // waiters.
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
