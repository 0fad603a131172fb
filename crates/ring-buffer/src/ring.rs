//! The buffer itself: pages, slots, positions, counts.

use crate::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::format::Layout;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Why something was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// There is no memory (`ENOMEM`).
    NoMemory,
    /// Too few or too many pages, or buffers that differ (`EINVAL`).
    Invalid,
    /// A writer is in between (`EBUSY`).
    Busy,
}

/// How much of a page is written: words of data (14 bits), events (13), and the time of the last since the
/// page's stamp (37). Closed pages have more words than fit; in place of the time there are how many were
/// used (14) and the page's lap (23), so that no page is closed twice in the same way while a writer is
/// interrupted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct State(pub u64);

impl State {
    pub const WORD: u64 = 1;
    pub const EVENT: u64 = 1 << 14;
    pub const TIME_SHIFT: u32 = 27;
    /// The time of the last event is too far from the stamp: it is not known.
    pub const LATE: u64 = (1 << 37) - 1;
    const WORDS: u64 = (1 << 14) - 1;

    /// Nothing is written.
    pub const OPEN: Self = Self(0);

    pub const fn closed(words: u64, events: u64, lap: u64) -> Self {
        Self(Self::WORDS | events << 14 | words << 27 | lap << 41)
    }
    /// More than any page has, if it is closed.
    #[inline(always)]
    pub const fn words(self) -> u64 {
        self.0 & Self::WORDS
    }
    #[inline(always)]
    pub const fn time(self) -> u64 {
        self.0 >> Self::TIME_SHIFT
    }
    pub const fn events(self) -> u64 {
        self.0 >> 14 & ((1 << 13) - 1)
    }
    #[inline(always)]
    pub const fn is_closed(self) -> bool {
        self.words() == Self::WORDS
    }
    /// Words that are used, closed or not.
    pub const fn used(self) -> u64 {
        if self.is_closed() {
            self.time() & Self::WORDS
        } else {
            self.words()
        }
    }
    pub const fn close(self, lap: u64) -> Self {
        Self::closed(self.words(), self.events(), lap)
    }
}

/// A slot in a lap: the lap is in the higher bits, so later positions are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position(pub u64);

/// Bits of slots' and pages' numbers.
const SLOT_BITS: u32 = 20;

impl Position {
    pub const fn new(lap: u64, slot: usize) -> Self {
        Self(lap << SLOT_BITS | slot as u64)
    }
    pub const fn lap(self) -> u64 {
        self.0 >> SLOT_BITS
    }
    pub const fn slot(self) -> usize {
        self.0 as usize & ((1 << SLOT_BITS) - 1)
    }
}

/// What a slot holds: a page, and the lap for which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(pub u64);

impl Word {
    pub const fn new(lap: u64, page: usize) -> Self {
        Self(lap << SLOT_BITS | page as u64)
    }
    pub const fn lap(self) -> u64 {
        self.0 >> SLOT_BITS
    }
    pub const fn page(self) -> usize {
        self.0 as usize & ((1 << SLOT_BITS) - 1)
    }
}

/// `commit` of a page on which nothing will be written any more.
pub(crate) const DONE: u32 = 1 << 31;

// One cache line each, and a shift to find it.
#[repr(align(64))]
pub(crate) struct Page {
    /// [`State`].
    pub state: AtomicU64,
    /// The time from which the first event's is counted.
    pub stamp: AtomicU64,
    /// The [`Position`] that is or was written here last.
    pub position: AtomicU64,
    /// How many events were recorded before this page. Set when everything before it is published.
    pub first: AtomicU64,
    /// Bytes that readers may read, and [`DONE`].
    pub commit: AtomicU32,
    pub body: Box<[AtomicU32]>,
}

/// How many buffers there have been. The checker's words cannot outlive its models; this orders nothing.
static RINGS: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(0);

/// A CPU's buffer. Its reader is separate ([`crate::Reader`]).
pub struct Ring {
    /// No other has or had this number.
    pub(crate) number: u64,
    /// The page on which is written. Only it is open, or none.
    pub(crate) tail: AtomicU32,
    /// The page up to which is published, and its position. Changed by outermost writers only.
    pub(crate) commit_page: AtomicU32,
    pub(crate) commit: AtomicU64,
    /// Writers that have begun and not ended. Loads and stores: an interrupting writer leaves it as it was.
    pub(crate) nest: AtomicU32,
    /// Recording is off while this is not 0.
    pub(crate) disabled: AtomicU32,
    pub(crate) overwrite: AtomicU32,
    /// Words of data that an event can have.
    pub(crate) max_words: usize,
    /// Words of data on a page.
    pub(crate) page_words: u64,
    pub(crate) pages: Box<[Page]>,
    pub(crate) slots: Box<[AtomicU64]>,
    pub(crate) layout: Layout,
    /// Events and bytes on pages that are done.
    pub(crate) done_events: AtomicU64,
    pub(crate) done_bytes: AtomicU64,
    pub(crate) overrun: AtomicU64,
    pub(crate) lost_bytes: AtomicU64,
    pub(crate) commit_overrun: AtomicU64,
    pub(crate) dropped: AtomicU64,
}

/// `count` of something, if there is memory.
pub(crate) fn boxed<T>(count: usize, make: impl Fn(usize) -> T) -> Result<Box<[T]>, Error> {
    let mut all = Vec::new();
    all.try_reserve_exact(count).map_err(|_| Error::NoMemory)?;
    all.extend((0..count).map(make));
    Ok(all.into_boxed_slice())
}

impl Ring {
    /// A buffer of `pages` pages, at least two, and one for the reader.
    pub(crate) fn new(pages: usize, layout: Layout, overwrite: bool) -> Result<Self, Error> {
        if !(2..1 << SLOT_BITS).contains(&pages) {
            return Err(Error::Invalid);
        }
        let words = layout.data() / 4;
        let mut all = Vec::new();
        all.try_reserve_exact(pages + 1).map_err(|_| Error::NoMemory)?;
        for _ in 0..=pages {
            all.push(Page {
                state: AtomicU64::new(0),
                stamp: AtomicU64::new(0),
                position: AtomicU64::new(0),
                first: AtomicU64::new(0),
                commit: AtomicU32::new(0),
                body: boxed(words, |_| AtomicU32::new(0))?,
            });
        }
        let ring = Self {
            number: RINGS.fetch_add(1, Ordering::Relaxed),
            tail: AtomicU32::new(0),
            commit_page: AtomicU32::new(0),
            commit: AtomicU64::new(0),
            nest: AtomicU32::new(0),
            disabled: AtomicU32::new(0),
            overwrite: AtomicU32::new(overwrite.into()),
            max_words: layout.max_event() / 4,
            page_words: words as u64,
            pages: all.into_boxed_slice(),
            slots: boxed(pages, |_| AtomicU64::new(0))?,
            layout,
            done_events: AtomicU64::new(0),
            done_bytes: AtomicU64::new(0),
            overrun: AtomicU64::new(0),
            lost_bytes: AtomicU64::new(0),
            commit_overrun: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        };
        ring.clear();
        Ok(ring)
    }

    /// As if nothing had ever been written. The reader holds the last page, which counts as the one that is
    /// being written; it is closed, so the first event moves on to the first slot.
    pub(crate) fn clear(&self) {
        let last = self.slots.len();
        for page in &self.pages {
            page.state.store(State::closed(0, 0, 0).0, Ordering::Relaxed);
            page.commit.store(0, Ordering::Relaxed);
            page.first.store(0, Ordering::Relaxed);
        }
        for (slot, word) in self.slots.iter().enumerate() {
            word.store(Word::new(1, slot).0, Ordering::Relaxed);
        }
        let position = Position::new(0, last - 1).0;
        self.pages[last].position.store(position, Ordering::Relaxed);
        self.tail.store(last as u32, Ordering::Relaxed);
        self.commit_page.store(last as u32, Ordering::Relaxed);
        for count in [
            &self.done_events,
            &self.done_bytes,
            &self.overrun,
            &self.lost_bytes,
            &self.commit_overrun,
            &self.dropped,
        ] {
            count.store(0, Ordering::Relaxed);
        }
        self.commit.store(position, Ordering::Release);
    }

    /// The position behind one.
    pub(crate) fn after(&self, position: Position) -> Position {
        if position.slot() + 1 < self.slots.len() {
            Position(position.0 + 1)
        } else {
            Position::new(position.lap() + 1, 0)
        }
    }

    /// The first position of the lap's length that ends with one.
    pub(crate) fn lap_before(&self, position: Position) -> Position {
        let before = Position::new(position.lap().saturating_sub(1), position.slot());
        self.after(before)
    }

    pub(crate) fn slot(&self, position: Position) -> &AtomicU64 {
        &self.slots[position.slot()]
    }

    /// How pages are laid out.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Pages, without the reader's.
    pub fn pages(&self) -> usize {
        self.slots.len()
    }

    /// From now on no writer begins, until [`Self::enable`] was called as often. Those that have begun go
    /// on, and some of them are not to be seen yet. A caller who needs their end first waits for a grace
    /// period of RCU (each CPU was seen with preemption on) and then asks [`Self::is_idle`]. A thread on the
    /// ring's CPU that is in no writer itself and has held off preemption since before need not wait.
    pub fn disable(&self) {
        self.disabled.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes one [`Self::disable`] back. Writers that begin see what the caller did to the buffer before.
    pub fn enable(&self) {
        self.disabled.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether writers may begin.
    pub fn is_enabled(&self) -> bool {
        self.disabled.load(Ordering::Relaxed) == 0
    }

    /// Whether no writer is seen between reservation and end. While recording is on, or was until a moment
    /// ago, there may be one all the same: see [`Self::disable`].
    pub fn is_idle(&self) -> bool {
        // Acquire: what writers did is done.
        self.nest.load(Ordering::Acquire) == 0
    }

    /// Whether a full buffer loses its oldest page (or drops new events).
    pub fn set_overwrite(&self, overwrite: bool) {
        self.overwrite.store(overwrite.into(), Ordering::Relaxed);
    }
}
