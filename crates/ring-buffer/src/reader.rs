//! Consuming: pages are taken out of the ring, events and whole pages read from them.

use crate::atomic::{AtomicU64, Ordering};
use crate::format::{Layout, MISSED_EVENTS, MISSED_STORED};
use crate::ring::{DONE, Error, Position, Ring, State, Word};
use crate::view::{Event, View};
use core::ops::Deref;

/// The one reader of a [`Ring`], and the page that it has taken. `P` is how readers and writers share the
/// buffer, such as an `Arc`.
pub struct Reader<P> {
    pub(crate) ring: P,
    /// Its page, and where that is or was written. While it is not done the writer is on it.
    pub(crate) page: usize,
    pub(crate) position: Position,
    pub(crate) view: View,
    /// Events that were recorded before the next one, as far as is known: all before those that are lost.
    pub(crate) passed: u64,
    /// Events that were overwritten in front of the next one.
    pub(crate) lost: u64,
    /// Events that were consumed.
    pub(crate) read: u64,
    /// Bytes of pages that were given back.
    pub(crate) read_bytes: u64,
    /// How often the buffer was emptied.
    pub(crate) resets: u64,
}

/// A page that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRead {
    /// Bytes of events.
    pub data: usize,
    /// How many events that are.
    pub events: u64,
    /// Events that were overwritten in front of the first.
    pub lost: u64,
}

/// The counts of `per_cpu/cpuN/stats`. While writers run they need not fit together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Events that can be read.
    pub entries: u64,
    /// Events that were overwritten.
    pub overrun: u64,
    /// Events that were dropped because writers that were interrupted held the whole buffer.
    pub commit_overrun: u64,
    /// Bytes that can be read.
    pub bytes: u64,
    /// The time of the first event that can be read, or close before.
    pub oldest: Option<u64>,
    /// Events that were dropped because the buffer was full and nothing was to be overwritten.
    pub dropped: u64,
    /// Events that were consumed.
    pub read: u64,
}

impl<P: Deref<Target = Ring>> Reader<P> {
    /// A buffer of `pages` pages, at least two, of this layout, and its reader. If it is full it loses its
    /// oldest page (`overwrite`), or drops new events. `share` puts the buffer where writers find it too;
    /// `None`: there is no memory for that.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`]: too few or too many pages. [`Error::NoMemory`].
    pub fn new(
        pages: usize,
        layout: Layout,
        overwrite: bool,
        share: impl FnOnce(Ring) -> Option<P>,
    ) -> Result<Self, Error> {
        let view = View::new(layout.data())?;
        let ring = Ring::new(pages, layout, overwrite)?;
        let mut reader = Self {
            page: 0,
            position: Position(0),
            view,
            passed: 0,
            lost: 0,
            read: 0,
            read_bytes: 0,
            resets: 0,
            ring: share(ring).ok_or(Error::NoMemory)?,
        };
        reader.begin();
        Ok(reader)
    }

    /// Nothing is read.
    fn begin(&mut self) {
        self.page = self.ring.pages();
        let page = &self.ring.pages[self.page];
        self.position = Position(page.position.load(Ordering::Relaxed));
        self.view.begin(page);
        (self.passed, self.lost, self.read, self.read_bytes) = (0, 0, 0, 0);
    }

    /// The buffer that this reader reads.
    pub fn ring(&self) -> &P {
        &self.ring
    }

    /// Takes the oldest page that is in the ring. `false`: there is none, or the page is still written.
    fn take(&mut self) -> bool {
        let ring = &*self.ring;
        if !self.view.done {
            return false;
        }
        let mut position = ring.after(self.position);
        loop {
            // Acquire: pages up to there have been opened, and their counts set.
            let commit = Position(ring.commit.load(Ordering::Acquire));
            if position > commit {
                return false;
            }
            position = position.max(ring.lap_before(commit));
            let slot = ring.slot(position);
            // Acquire: if the writer has claimed it, `commit` shows that there are later ones.
            let word = Word(slot.load(Ordering::Acquire));
            if word.lap() != position.lap() {
                // It was overwritten, or is about to be.
                position = ring.after(position);
                continue;
            }
            let spent = Word::new(position.lap() + 1, self.page);
            // Release: the spent page has been read. Acquire: for `commit` of the new one.
            if slot
                .compare_exchange(word.0, spent.0, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
            {
                continue;
            }
            self.page = word.page();
            self.position = position;
            let page = &ring.pages[self.page];
            let first = page.first.load(Ordering::Relaxed);
            self.lost += first.wrapping_sub(self.passed);
            self.passed = first;
            self.read_bytes += self.view.len as u64;
            self.view.begin(page);
            return true;
        }
    }

    /// Looks for the next event. Then one is in the view.
    fn look(&mut self) -> bool {
        loop {
            if self.view.find().is_some() {
                return true;
            }
            let (len, done) = (self.view.len, self.view.done);
            self.view.refresh(&self.ring.pages[self.page]);
            let same = len == self.view.len && done == self.view.done;
            if same && !self.take() {
                return false;
            }
        }
    }

    /// The next event, which is not consumed.
    pub fn peek(&mut self) -> Option<Event<'_>> {
        if !self.look() {
            return None;
        }
        let found = self.view.find()?;
        Some(Event {
            time: found.time,
            lost: self.lost,
            data: &self.view.bytes[found.start..found.end],
        })
    }

    /// Goes past the event that [`Self::peek`] shows. `false`: there is none.
    pub fn consume(&mut self) -> bool {
        if !self.look() {
            return false;
        }
        if let Some(found) = self.view.find() {
            self.view.pass(found);
        }
        self.count(1);
        self.lost = 0;
        true
    }

    fn count(&mut self, events: u64) {
        self.passed += events;
        self.read += events;
    }

    /// Whether there is nothing to read.
    pub fn is_empty(&mut self) -> bool {
        !self.look()
    }

    /// Consumes what fits into `out` of the oldest page, and writes it there as a page of the [`Layout`],
    /// zeros behind it. `full`: only a page on which nothing will be written any more, and all that remains
    /// of it. `None`: there is nothing, or it does not fit.
    pub fn read_page(&mut self, out: &mut [u8], full: bool) -> Option<PageRead> {
        let layout = self.ring.layout();
        let out = match out.len() {
            len if len > layout.page() => &mut out[..layout.page()],
            _ => out,
        };
        if !self.look() {
            return None;
        }
        self.view.refresh(&self.ring.pages[self.page]);
        let room = out.len().checked_sub(layout.header())?;
        if full && (!self.view.done || self.view.len - self.view.at > room) {
            return None;
        }
        let (start, time) = (self.view.at, self.view.time);
        let mut end = start;
        let mut events = 0;
        loop {
            let before = (self.view.at, self.view.time);
            match self.view.find() {
                Some(found) if found.end - start <= room => {
                    self.view.pass(found);
                    events += 1;
                    end = found.end;
                }
                _ => {
                    (self.view.at, self.view.time) = before;
                    break;
                }
            }
        }
        if events == 0 {
            return None;
        }
        self.count(events);
        let (head, data) = out.split_at_mut(layout.header());
        let (used, rest) = data.split_at_mut(end - start);
        used.copy_from_slice(&self.view.bytes[start..end]);
        rest.fill(0);
        let lost = core::mem::take(&mut self.lost);
        let mut commit = used.len() as u64;
        if lost != 0 {
            commit |= MISSED_EVENTS;
            if let Some(place) = rest.get_mut(..layout.long()) {
                store_long(place, lost);
                commit |= MISSED_STORED;
            }
        }
        let (stamp, long) = head.split_at_mut(8);
        stamp.copy_from_slice(&time.to_ne_bytes());
        store_long(long, commit);
        Some(PageRead {
            data: end - start,
            events,
            lost,
        })
    }

    /// The counts.
    pub fn stats(&self) -> Stats {
        let ring = &*self.ring;
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let last = &ring.pages[ring.commit_page.load(Ordering::Relaxed) as usize];
        let state = State(get(&last.state));
        let gone = |lost: u64, read: u64| lost.wrapping_add(read);
        let left = |done: u64, last: u64, gone: u64| done.wrapping_add(last).saturating_sub(gone);
        let overrun = get(&ring.overrun);
        let entries = left(get(&ring.done_events), state.events(), gone(overrun, self.read));
        let read_bytes = self.read_bytes + self.view.at as u64;
        let bytes = gone(get(&ring.lost_bytes), read_bytes);
        Stats {
            entries,
            overrun,
            commit_overrun: get(&ring.commit_overrun),
            bytes: left(get(&ring.done_bytes), state.used() * 4, bytes),
            oldest: if entries == 0 { None } else { self.oldest() },
            dropped: get(&ring.dropped),
            read: self.read,
        }
    }

    /// The stamp of the oldest page from which not everything was read.
    fn oldest(&self) -> Option<u64> {
        let ring = &*self.ring;
        let commit = ring.pages[self.page].commit.load(Ordering::Acquire);
        if self.view.at < (commit & !DONE) as usize {
            return Some(self.view.time);
        }
        let mut position = ring.after(self.position);
        loop {
            let last = Position(ring.commit.load(Ordering::Acquire));
            if position > last {
                return None;
            }
            position = position.max(ring.lap_before(last));
            let word = Word(ring.slot(position).load(Ordering::Acquire));
            if word.lap() == position.lap() {
                return Some(ring.pages[word.page()].stamp.load(Ordering::Relaxed));
            }
            position = ring.after(position);
        }
    }

    /// Empties the buffer and sets all counts to 0. Recording must be off and writers have ended, see
    /// [`Ring::disable`].
    ///
    /// # Errors
    ///
    /// [`Error::Busy`]: recording is on, or a writer is seen.
    pub fn reset(&mut self) -> Result<(), Error> {
        if self.ring.is_enabled() || !self.ring.is_idle() {
            return Err(Error::Busy);
        }
        self.ring.clear();
        self.begin();
        self.resets += 1;
        Ok(())
    }

    /// Exchanges two buffers of one size, for a snapshot. Recording must be off in both and writers have
    /// ended, see [`Ring::disable`]; the caller gives writers the buffers that they have from now on
    /// ([`Self::ring`]).
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`]: they differ in size. [`Error::Busy`]: as [`Self::reset`].
    pub fn swap(&mut self, other: &mut Self) -> Result<(), Error> {
        let (ours, theirs) = (&self.ring, &other.ring);
        if ours.pages() != theirs.pages() || ours.layout() != theirs.layout() {
            return Err(Error::Invalid);
        }
        for ring in [ours, theirs] {
            if ring.is_enabled() || !ring.is_idle() {
                return Err(Error::Busy);
            }
        }
        core::mem::swap(self, other);
        Ok(())
    }
}

/// Stores the lower bytes of `value` as a `long` of the place's size.
fn store_long(place: &mut [u8], value: u64) {
    if place.len() == 4 {
        place.copy_from_slice(&(value as u32).to_ne_bytes());
    } else {
        place.copy_from_slice(&value.to_ne_bytes());
    }
}
