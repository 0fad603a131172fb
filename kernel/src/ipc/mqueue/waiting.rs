//! Those that wait for a message, or for room for one. Who makes that possible hands the message over.

use super::messages::Message;
use crate::sched::policy::kernel_priority;
use crate::sched::{Deadline, WaitQueue};
use crate::sync::SpinLock;
use crate::task::current;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use limen_linux_abi::Errno;
use limen_range_tree::{Key, Node, NodeBox, Range, RangeTree};

/// A thread that waits.
pub struct Waiter {
    /// A sender's message, until it is taken; a receiver's, once it was given.
    message: SpinLock<Option<Message>>,
    /// Its message has been taken, or given to it. Set under the queue's lock, when it is no longer in the
    /// list.
    done: AtomicBool,
    queue: WaitQueue,
}

impl Waiter {
    /// Takes a sender's message, or a receiver's that was given to it.
    pub fn take(&self) -> Option<Message> {
        self.message.lock().take()
    }
    /// A receiver gets a message; or this is what a sender sends.
    pub fn put(&self, message: Message) {
        *self.message.lock() = Some(message);
    }
    /// It need wait no longer. The caller has taken it out of the list, wakes it later, and holds the queue's
    /// lock.
    pub fn set_done(&self) {
        self.done.store(true, Release);
    }
    /// Whether it need not wait.
    pub fn is_done(&self) -> bool {
        self.done.load(Acquire)
    }
    /// Wakes it.
    pub fn wake(&self) {
        self.queue.wake_all();
    }

    /// The running thread, which is this one, sleeps until it is done. `ERESTARTSYS`: a signal is pending;
    /// `ETIMEDOUT`. It may be done all the same then.
    pub fn sleep(&self, deadline: Option<Deadline>) -> Result<(), Errno> {
        let me = current();
        let alarm = deadline.map(|deadline| deadline.alarm(&me));
        let is_over = || self.is_done() || alarm.as_ref().is_some_and(|alarm| alarm.is_over());
        let slept = self.queue.wait_until(is_over);
        // As on Linux a signal counts more than the time.
        match slept {
            _ if self.is_done() => Ok(()),
            Ok(()) if !me.signal_pending() => Err(Errno::ETIMEDOUT),
            _ => Err(Errno::ERESTARTSYS),
        }
    }
}

/// Distinguishes those that are equally urgent: who came first. No ranges of them are looked up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn(u64);

impl Key for Turn {
    const RANGES: bool = false;
}

/// A place in the list of those that wait, for the running thread.
pub struct Place(NodeBox<Turn, Arc<Waiter>>);

impl Place {
    /// Not in the list yet. `ENOMEM`. May sleep.
    pub fn new() -> Result<Self, Errno> {
        let waiter = Arc::new(Waiter {
            message: SpinLock::new(None),
            done: AtomicBool::new(false),
            queue: WaitQueue::new(),
        });
        // What the scheduler counts begins at -1.
        let urgency = i64::from(kernel_priority(&current())) + 1;
        let first = urgency.max(0) as u64;
        let range = Range {
            first,
            last: first,
            key: Turn(0),
            value: waiter,
        };
        Node::new(range).map(Self).ok_or(Errno::ENOMEM)
    }
    /// Who waits there.
    pub fn waiter(&self) -> &Arc<Waiter> {
        &self.0.range().value
    }
}

/// Where one is in the list.
#[derive(Clone, Copy)]
pub struct At((u64, Turn));

/// Those that wait for the same: the most urgent thread first, of equally urgent ones that which came first.
pub struct Waiting {
    list: RangeTree<Turn, Arc<Waiter>>,
    turn: u64,
}

impl Waiting {
    /// Nobody.
    pub const fn new() -> Self {
        Self {
            list: RangeTree::new(),
            turn: 0,
        }
    }
    /// Adds the thread for which the place was made.
    pub fn add(&mut self, mut place: Place) -> At {
        let range = place.0.range_mut();
        range.key = Turn(self.turn);
        let at = At(range.place());
        self.turn += 1;
        self.list.insert(place.0);
        at
    }
    /// Takes out the first one.
    pub fn remove_first(&mut self) -> Option<Place> {
        self.list.remove_first().map(Place)
    }
    /// Takes out the one that was added there, if it still is.
    pub fn remove(&mut self, at: At) -> Option<Place> {
        self.list.remove(at.0).map(Place)
    }
}
