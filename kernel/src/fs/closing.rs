//! Closed files whose contents a thread still has to drop.
//!
//! A message may hold the last reference to a socket, whose messages may hold the last references to others,
//! and so on. So a socket that is closed while the thread drops messages of another one is only put on this
//! list. The stack does not grow with the length of the chain, and all of it is closed when the system call
//! that closed the first one returns.

use crate::task::current;
use alloc::sync::Arc;

/// What can be on the list.
pub trait Emptied: Send + Sync {
    /// It is put on the list, in front of `next`.
    fn link(&self, next: Option<Arc<dyn Emptied>>);
    /// It is taken off the list: what was behind it.
    fn unlink(&self) -> Option<Arc<dyn Emptied>>;
    /// Drops what it holds, which may close others.
    fn empty(&self);
}

/// The list of a thread.
pub struct Closing {
    first: Option<Arc<dyn Emptied>>,
    /// The thread is emptying one.
    busy: bool,
}

impl Closing {
    /// Of a new thread: an empty list.
    pub const fn new() -> Self {
        Self {
            first: None,
            busy: false,
        }
    }
}

/// Empties `one`, which is closed, and those that are closed thereby.
pub fn empty(one: Arc<dyn Emptied>) {
    let task = current();
    {
        let mut closing = task.closing.lock();
        let next = closing.first.replace(one.clone());
        one.link(next);
        if core::mem::replace(&mut closing.busy, true) {
            return;
        }
    }
    loop {
        let mut closing = task.closing.lock();
        let Some(one) = closing.first.take() else {
            closing.busy = false;
            return;
        };
        closing.first = one.unlink();
        drop(closing);
        one.empty();
    }
}
