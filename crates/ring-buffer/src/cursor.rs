//! Reading without consuming, while writers and, between two events, the reader go on.

use crate::atomic::{Ordering, fence};
use crate::reader::Reader;
use crate::ring::{Error, Position, Ring, Word};
use crate::view::{Event, View};
use core::ops::Deref;

/// A place in a buffer, for `trace`. It has a copy of the page that it is on.
pub struct Cursor {
    view: View,
    /// Where the copied page was written.
    position: Position,
    passed: u64,
    lost: u64,
    /// The buffer's number, and how often it had been emptied.
    ring: u64,
    resets: u64,
}

/// Events of one page.
pub(crate) struct Rest<'a> {
    pub bytes: &'a [u8],
    /// The time from which the first event's is counted.
    pub stamp: u64,
    pub events: u64,
    pub lost: u64,
}

impl Cursor {
    /// In front of the first event that `reader` would read.
    pub fn new<P: Deref<Target = Ring>>(reader: &Reader<P>) -> Result<Self, Error> {
        let mut cursor = Self {
            view: View::new(reader.ring.layout().data())?,
            position: Position(0),
            passed: 0,
            lost: 0,
            ring: reader.ring.number,
            resets: 0,
        };
        cursor.rewind(reader);
        Ok(cursor)
    }

    /// Goes to the first event that `reader` would read.
    pub fn rewind<P: Deref<Target = Ring>>(&mut self, reader: &Reader<P>) {
        self.position = reader.position;
        self.view.begin(&reader.ring.pages[reader.page]);
        self.view.refresh(&reader.ring.pages[reader.page]);
        (self.view.at, self.view.time) = (reader.view.at, reader.view.time);
        (self.passed, self.lost) = (reader.passed, reader.lost);
        self.ring = reader.ring.number;
        self.resets = reader.resets;
    }

    /// Goes past what was consumed, and to the beginning if `reader` has another buffer by now.
    fn follow<P: Deref<Target = Ring>>(&mut self, reader: &Reader<P>) {
        let same = self.ring == reader.ring.number && self.resets == reader.resets;
        if !same || (self.position, self.view.at) < (reader.position, reader.view.at) {
            self.rewind(reader);
        }
    }

    /// The next event that was not consumed. `reader` is the one with which the cursor was made. `None`: that
    /// was all so far.
    pub fn next<P: Deref<Target = Ring>>(&mut self, reader: &Reader<P>) -> Option<Event<'_>> {
        self.follow(reader);
        while self.view.find().is_none() {
            if !self.load(reader) {
                return None;
            }
        }
        let found = self.view.find()?;
        self.view.pass(found);
        self.passed += 1;
        Some(Event {
            time: found.time,
            lost: core::mem::take(&mut self.lost),
            data: &self.view.bytes[found.start..found.end],
        })
    }

    /// What remains of the page, or the next that has events; goes behind it.
    pub(crate) fn page<P: Deref<Target = Ring>>(&mut self, reader: &Reader<P>) -> Option<Rest<'_>> {
        self.follow(reader);
        while self.view.find().is_none() {
            if !self.load(reader) {
                return None;
            }
        }
        let (start, stamp) = (self.view.at, self.view.time);
        let mut events = 0;
        let mut end = start;
        while let Some(found) = self.view.find() {
            self.view.pass(found);
            events += 1;
            end = found.end;
        }
        self.passed += events;
        Some(Rest {
            bytes: &self.view.bytes[start..end],
            stamp,
            events,
            lost: core::mem::take(&mut self.lost),
        })
    }

    /// Copies more of the page, or goes to the next. `false`: there is nothing more.
    fn load<P: Deref<Target = Ring>>(&mut self, reader: &Reader<P>) -> bool {
        let ring = &*reader.ring;
        if !self.view.done {
            let len = self.view.len;
            if self.copy(reader) {
                return self.view.len > len || self.view.done;
            }
            // It was overwritten.
            self.view.done = true;
        }
        // If there is none, the cursor stays behind what it has shown: at the beginning of that page it would
        // seem to be in front of a reader who has consumed a part of it, and go there.
        let (before, at) = (self.position, self.view.at);
        let mut position = ring.after(before);
        loop {
            let commit = Position(ring.commit.load(Ordering::Acquire));
            if position > commit {
                return false;
            }
            position = position.max(ring.lap_before(commit));
            self.position = position;
            let word = Word(ring.slot(position).load(Ordering::Acquire));
            let page = &ring.pages[word.page()];
            let first = page.first.load(Ordering::Relaxed);
            self.view.begin(page);
            if self.copy(reader) {
                self.lost += first.wrapping_sub(self.passed);
                self.passed = first;
                return true;
            }
            self.position = before;
            (self.view.len, self.view.at, self.view.done) = (at, at, true);
            position = ring.after(position);
        }
    }

    /// Copies what is new on the page of the position. `false`: it was overwritten, and nothing is new.
    fn copy<P: Deref<Target = Ring>>(&mut self, reader: &Reader<P>) -> bool {
        let ring = &*reader.ring;
        if self.position == reader.position {
            self.view.refresh(&ring.pages[reader.page]);
            return true;
        }
        let slot = ring.slot(self.position);
        let word = Word(slot.load(Ordering::Acquire));
        let len = self.view.len;
        if word.lap() == self.position.lap() {
            self.view.refresh(&ring.pages[word.page()]);
            // What was copied is from before the claim, if that is not seen now. If it is seen, so is that
            // there are later pages.
            fence(Ordering::Acquire);
            if slot.load(Ordering::Acquire) == word.0 {
                return true;
            }
        }
        self.view.len = len;
        false
    }
}
