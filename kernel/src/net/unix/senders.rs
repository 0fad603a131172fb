//! Sockets that had something to send and found no space: they are told when there is some.

use super::Sock;
use crate::fs::poll::PollEvents;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};

/// The senders that wait for space in the queue of one socket without sleeping, each of them once.
#[derive(Default)]
pub(super) struct Senders {
    all: BTreeMap<usize, Weak<Sock>>,
    /// With so many, those that are gone are forgotten first: they keep their memory.
    tidy_at: usize,
}

impl Senders {
    /// One more, if it is not there yet.
    pub(super) fn add(&mut self, sender: &Arc<Sock>) {
        if self.all.len() >= self.tidy_at {
            self.all.retain(|_, s| s.strong_count() != 0);
            self.tidy_at = 2 * self.all.len() + 16;
        }
        self.all
            .insert(Arc::as_ptr(sender).addr(), Arc::downgrade(sender));
    }
    /// Tells all of them. The socket's state must not be locked.
    pub(super) fn wake(self) {
        for sender in self.all.into_values().filter_map(|s| s.upgrade()) {
            sender.write_wait.wake_all_key(PollEvents::WRITABLE.bits());
        }
    }
}
