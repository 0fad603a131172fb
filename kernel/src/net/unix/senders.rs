//! Sockets that could not send because there was no space. They are told when there is some.

use super::Sock;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};

/// The senders that wait, without sleeping, for space in one socket's queue. Each is in the list once.
#[derive(Default)]
pub(super) struct Senders {
    all: BTreeMap<usize, Weak<Sock>>,
    /// From this number on, closed ones are removed before another is added, as they keep memory.
    tidy_at: usize,
}

impl Senders {
    /// Whether there are any.
    #[inline]
    pub(super) fn any(&self) -> bool {
        !self.all.is_empty()
    }
    /// Adds a sender that is not in the list yet.
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
            sender.tell_room();
        }
    }
}
