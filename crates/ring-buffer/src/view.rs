//! What a reader has copied of a page, and the events in it.

use crate::atomic::Ordering;
use crate::format::{DELTA_BITS, PADDING, TIME_BITS, TIME_EXTEND, TIME_STAMP, parts};
use crate::ring::{DONE, Error, Page, boxed};
use alloc::boxed::Box;

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// When it was recorded, in the trace clock's units.
    pub time: u64,
    /// How many events were overwritten between the one read before and this.
    pub lost: u64,
    /// Its data, a multiple of four bytes.
    pub data: &'a [u8],
}

/// An event's place in the copy.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub time: u64,
    pub start: usize,
    pub end: usize,
}

/// The data of a page, as far as they were committed when it was looked at.
pub(crate) struct View {
    pub bytes: Box<[u8]>,
    pub len: usize,
    /// Nothing will be added.
    pub done: bool,
    /// Where the next event begins, and the time from which its own is counted.
    pub at: usize,
    pub time: u64,
}

impl View {
    pub fn new(size: usize) -> Result<Self, Error> {
        Ok(Self {
            bytes: boxed(size, |_| 0)?,
            len: 0,
            done: false,
            at: 0,
            time: 0,
        })
    }

    /// Begins with another page.
    pub fn begin(&mut self, page: &Page) {
        self.len = 0;
        self.done = false;
        self.at = 0;
        self.time = page.stamp.load(Ordering::Relaxed);
    }

    /// Copies what has been committed since the last look.
    pub fn refresh(&mut self, page: &Page) {
        if self.done {
            return;
        }
        // Acquire: the events are there.
        let commit = page.commit.load(Ordering::Acquire);
        let len = ((commit & !DONE) as usize).min(self.bytes.len());
        if let Some(bytes) = self.bytes.get_mut(self.len..len) {
            let words = page.body.iter().skip(self.len / 4);
            for (bytes, word) in bytes.chunks_exact_mut(4).zip(words) {
                bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
            }
            self.len = len;
        }
        self.done = commit & DONE != 0;
    }

    fn word(&self, at: usize) -> Option<u32> {
        let bytes = self.bytes[..self.len].get(at..)?.first_chunk()?;
        Some(u32::from_ne_bytes(*bytes))
    }

    /// The next event. Goes past what is in front of it.
    pub fn find(&mut self) -> Option<Found> {
        loop {
            let (kind, delta) = parts(self.word(self.at)?);
            let next = self.at + 4;
            let (start, len) = match kind {
                PADDING => {
                    // A difference of 0: this is the end.
                    let len = self.word(next).filter(|_| delta != 0)? as usize;
                    self.time = self.time.wrapping_add(delta);
                    self.at = next + len;
                    continue;
                }
                TIME_EXTEND | TIME_STAMP => {
                    let high = u64::from(self.word(next)?) << DELTA_BITS;
                    self.time = if kind == TIME_EXTEND {
                        self.time.wrapping_add(high | delta)
                    } else {
                        absolute(self.time, high | delta)
                    };
                    self.at = next + 4;
                    continue;
                }
                0 => (next + 4, (self.word(next)? as usize).checked_sub(4)?),
                words => (next, words as usize * 4),
            };
            let end = start.checked_add(len).filter(|end| *end <= self.len)?;
            let time = self.time.wrapping_add(delta);
            return Some(Found { time, start, end });
        }
    }

    /// Goes past an event.
    pub fn pass(&mut self, event: Found) {
        self.time = event.time;
        self.at = event.end;
    }
}

/// The time next to `last` of which a stamp has the lower bits. It may be before `last`: by one unit where an
/// event was discarded, by more where the clock went back.
fn absolute(last: u64, stamp: u64) -> u64 {
    const ABOVE: u32 = u64::BITS - TIME_BITS;
    let distance = stamp.wrapping_sub(last) << ABOVE;
    last.wrapping_add_signed(distance.cast_signed() >> ABOVE)
}
