//! Events as types, and the bytes of their records.

use crate::description::{Common, Description};
use crate::field::{Field, Value};

/// An event that [`trace_event!`](crate::trace_event) has declared.
pub trait Event {
    /// What tools are told about it.
    const DESCRIPTION: &'static Description;

    /// Stores the record from the first byte of `to` on, and returns its length. The room must have at least
    /// [`Description::size`] bytes; strings are cut short where it ends. Any context; allocates nothing.
    fn encode(&self, common: &Common, to: &mut [u8]) -> usize;
}

/// An event of the list in [`events`](crate::events).
pub trait Numbered: Event {
    /// Its place in the list.
    const INDEX: usize;
}

/// A record that is being stored.
pub struct Writer<'a> {
    to: &'a mut [u8],
    /// Where the next dynamic string goes.
    end: usize,
}

impl<'a> Writer<'a> {
    /// A record whose fixed part has `size` bytes.
    #[inline(always)]
    pub fn new(common: &Common, to: &'a mut [u8], size: usize) -> Self {
        if let Some(head) = to.first_chunk_mut() {
            *head = common.to_bytes();
        }
        Self { to, end: size }
    }

    /// Stores `value` in its field.
    #[inline(always)]
    pub fn put<T: Value>(&mut self, field: &Field, value: &T) {
        value.store(field, self);
    }

    /// Stores the bytes of a field, if there is room.
    #[inline(always)]
    pub(crate) fn bytes(&mut self, field: &Field, bytes: &[u8]) {
        if let Some(to) = self.to.get_mut(usize::from(field.offset)..field.end()) {
            to.copy_from_slice(bytes);
        }
    }

    /// Stores a string behind what is there, and its place in the field.
    pub(crate) fn dynamic(&mut self, field: &Field, text: &[u8]) {
        let at = self.end.min(self.to.len()).min(0xffff);
        let room = (self.to.len() - at).min(0xffff);
        let len = text.len().min(room.saturating_sub(1));
        let place = if room == 0 { 0 } else { len + 1 };
        self.bytes(field, &((place << 16 | at) as u32).to_ne_bytes());
        if let Some((end, to)) = self.to[at..at + place].split_last_mut() {
            to.copy_from_slice(&text[..len]);
            *end = 0;
        }
        self.end = at + place;
    }

    /// The length of the record.
    #[inline(always)]
    pub fn finish(self) -> usize {
        self.end.min(self.to.len())
    }
}
