//! Recording: reservation, commit, the way to the next page.

use crate::atomic::{AtomicU32, Ordering, fence};
use crate::format::{DATA_MAX, DELTA_BITS, PADDING, TIME_EXTEND, TIME_STAMP, header, parts, split};
use crate::ring::{DONE, Page, Position, Ring, State, Word};
use core::sync::atomic::compiler_fence;

/// What a writer needs of its CPU.
pub trait Cpu: Copy {
    /// The time, in the trace clock's units. Should not go backwards; if it does, events get the time of the
    /// one in front of them.
    fn now(self) -> u64;
    /// An interrupt may come here. For tests, which do come.
    #[inline(always)]
    fn interrupt(self) {}
}

/// The order in which an interrupt on the same CPU sees loads and stores.
#[inline(always)]
fn ordered() {
    compiler_fence(core::sync::atomic::Ordering::SeqCst);
}

/// Room for an event, which is recorded by [`Self::commit`]. Dropped otherwise, it is discarded.
#[must_use]
pub struct Reservation<'a, C: Cpu> {
    ring: &'a Ring,
    page: &'a Page,
    cpu: C,
    nest: u32,
    /// The page's number.
    tail: u32,
    /// Words in front of the data, without a time event.
    front: u32,
    data: &'a [AtomicU32],
    old: State,
    new: State,
}

/// What a writer that begins has found.
#[derive(Clone, Copy)]
struct Start<'a, C: Cpu> {
    cpu: C,
    nest: u32,
    tail: u32,
    page: &'a Page,
    old: State,
    stamp: u64,
    now: u64,
    words: usize,
}

impl Ring {
    /// Room for an event of `len` bytes of data, rounded up to words. `None`: recording is off, the event is
    /// too long for a page, or the buffer is full (which was counted).
    #[inline]
    pub fn reserve<C: Cpu>(&self, cpu: C, len: usize) -> Option<Reservation<'_, C>> {
        if self.disabled.load(Ordering::Relaxed) != 0 {
            return None;
        }
        let words = len.div_ceil(4).max(1);
        if words > self.max_words {
            return None;
        }
        let nest = self.nest.load(Ordering::Relaxed);
        cpu.interrupt();
        self.nest.store(nest + 1, Ordering::Relaxed);
        ordered();
        loop {
            cpu.interrupt();
            let tail = self.tail.load(Ordering::Relaxed);
            let page = &self.pages[tail as usize];
            cpu.interrupt();
            let old = State(page.state.load(Ordering::Relaxed));
            ordered();
            cpu.interrupt();
            let stamp = page.stamp.load(Ordering::Relaxed);
            let now = cpu.now();
            ordered();
            let time = old.time();
            let delta = now.wrapping_sub(stamp).wrapping_sub(time);
            let front = 1 + usize::from(words > DATA_MAX as usize);
            let size = (front + words) as u64;
            // Not so either when the clock went backwards, and on a closed page.
            let usual = delta < 1 << DELTA_BITS
                && time + delta < State::LATE
                && old.words() + size <= self.page_words;
            if !usual {
                let start = Start {
                    cpu,
                    nest,
                    tail,
                    page,
                    old,
                    stamp,
                    now,
                    words,
                };
                match self.reserve_unusual(start) {
                    Step::Again => continue,
                    Step::Reserved(event) => return Some(event),
                    Step::Full => return None,
                }
            }
            let new = State(old.0 + (size * State::WORD + State::EVENT) + (delta << State::TIME_SHIFT));
            cpu.interrupt();
            let swap = page
                .state
                .compare_exchange(old.0, new.0, Ordering::Relaxed, Ordering::Relaxed);
            if swap.is_err() {
                continue;
            }
            ordered();
            cpu.interrupt();
            return Some(Reservation {
                ring: self,
                page,
                cpu,
                nest,
                tail,
                front: front as u32,
                data: begin(&page.body[old.words() as usize..][..front + words], delta as u32),
                old,
                new,
            });
        }
    }

    /// A reservation that needs a time event, or another page; the next step of it.
    #[cold]
    #[inline(never)]
    fn reserve_unusual<'a, C: Cpu>(&'a self, start: Start<'a, C>) -> Step<'a, C> {
        let Start { cpu, page, old, .. } = start;
        let front = 1 + usize::from(start.words > DATA_MAX as usize);
        let time = (!old.is_closed()).then(|| Timed::new(old, start.stamp, start.now));
        let fitting = time.and_then(|time| {
            let extra = if time.event.is_some() { 2 } else { 0 };
            let size = extra + front + start.words;
            (old.words() + size as u64 <= self.page_words).then_some((time, extra, size))
        });
        let Some((time, extra, size)) = fitting else {
            if self.advance(cpu, start.tail, old, start.now) {
                return Step::Again;
            }
            self.end(cpu, start.nest, start.tail, page);
            return Step::Full;
        };
        let words = old.words() + size as u64;
        let new = State(words | (old.events() + 1) << 14 | time.last << State::TIME_SHIFT);
        cpu.interrupt();
        let swap = page
            .state
            .compare_exchange(old.0, new.0, Ordering::Relaxed, Ordering::Relaxed);
        if swap.is_err() {
            return Step::Again;
        }
        ordered();
        cpu.interrupt();
        let (head, rest) = page.body[old.words() as usize..][..size].split_at(extra);
        if let (Some((kind, time)), [first, second]) = (time.event, head) {
            let (low, high) = split(time);
            first.store(header(kind, low), Ordering::Relaxed);
            second.store(high, Ordering::Relaxed);
        }
        Step::Reserved(Reservation {
            ring: self,
            page,
            cpu,
            nest: start.nest,
            tail: start.tail,
            front: front as u32,
            data: begin(rest, time.delta),
            old,
            new,
        })
    }

    /// Records an event of `N` words. `false`: see [`Self::reserve`].
    #[inline]
    pub fn write<C: Cpu, const N: usize>(&self, cpu: C, data: [u32; N]) -> bool {
        let Some(event) = self.reserve(cpu, N * 4) else {
            return false;
        };
        for (word, value) in event.data.iter().zip(data) {
            word.store(value, Ordering::Relaxed);
        }
        event.commit();
        true
    }

    /// Goes from page `tail`, whose state was `old`, to the next; or does the rest of what an interrupted
    /// writer began. `false`: there is no next page, which is counted. Otherwise the caller begins again.
    #[cold]
    #[inline(never)]
    fn advance<C: Cpu>(&self, cpu: C, tail: u32, old: State, now: u64) -> bool {
        let page = &self.pages[tail as usize];
        let next = self.after(Position(page.position.load(Ordering::Relaxed)));
        cpu.interrupt();
        // Acquire: what the reader read on a page that it put there is read.
        let mut word = Word(self.slot(next).load(Ordering::Acquire));
        ordered();
        cpu.interrupt();
        if word.lap() + 1 == next.lap() {
            // Not read. Writers that are being interrupted began at the commit page or behind it.
            let former = Position::new(word.lap(), next.slot());
            if former >= Position(self.commit.load(Ordering::Relaxed)) {
                self.commit_overrun.fetch_add(1, Ordering::Relaxed);
                return false;
            }
            if self.overwrite.load(Ordering::Relaxed) == 0 {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                return false;
            }
            let lost = State(self.pages[word.page()].state.load(Ordering::Relaxed));
            let claimed = Word::new(next.lap(), word.page());
            cpu.interrupt();
            if self
                .slot(next)
                .compare_exchange(word.0, claimed.0, Ordering::Acquire, Ordering::Relaxed)
                .is_err()
            {
                return true;
            }
            self.overrun.fetch_add(lost.events(), Ordering::Relaxed);
            self.lost_bytes.fetch_add(lost.used() * 4, Ordering::Relaxed);
            word = claimed;
        } else if word.lap() != next.lap() {
            // Writers that interrupted this one were there.
            return true;
        }
        cpu.interrupt();
        if !old.is_closed() {
            let lap = Position(page.position.load(Ordering::Relaxed)).lap();
            let closed = old.close(lap);
            if page
                .state
                .compare_exchange(old.0, closed.0, Ordering::Relaxed, Ordering::Relaxed)
                .is_err()
            {
                return true;
            }
        }
        ordered();
        cpu.interrupt();
        if self.open(cpu, tail, word.page(), next, now) {
            cpu.interrupt();
            let (from, to) = (tail, word.page() as u32);
            let _ = self
                .tail
                .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
        }
        true
    }

    /// Opens page `number` for `position`, behind `tail`. `false`: others did, and went on.
    fn open<C: Cpu>(&self, cpu: C, tail: u32, number: usize, position: Position, now: u64) -> bool {
        let page = &self.pages[number];
        let state = page.state.load(Ordering::Relaxed);
        let stamp = page.stamp.load(Ordering::Relaxed);
        ordered();
        cpu.interrupt();
        // If so, nobody had gone on when the state was read.
        if self.tail.load(Ordering::Relaxed) != tail {
            return false;
        }
        if !State(state).is_closed() {
            return true;
        }
        // A cursor that reads what is written from here on also sees that the slot was claimed.
        fence(Ordering::Release);
        // Whoever came between has changed the stamp (or the clock stands, and it is the same).
        cpu.interrupt();
        if page
            .stamp
            .compare_exchange(stamp, now, Ordering::Relaxed, Ordering::Relaxed)
            .is_err()
        {
            return false;
        }
        cpu.interrupt();
        // Others may have done this before, and nothing is published before the outermost writer ends.
        page.position.store(position.0, Ordering::Relaxed);
        page.commit.store(0, Ordering::Relaxed);
        ordered();
        cpu.interrupt();
        page.state
            .compare_exchange(state, State::OPEN.0, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Ends a writer that began as number `nest`. The outermost publishes what all have written.
    #[inline(always)]
    fn end<C: Cpu>(&self, cpu: C, nest: u32, tail: u32, page: &Page) {
        ordered();
        cpu.interrupt();
        if nest != 0 {
            self.nest.store(nest, Ordering::Relaxed);
            return;
        }
        let state = page.state.load(Ordering::Relaxed);
        cpu.interrupt();
        // A page that is open is the tail.
        if !State(state).is_closed() && tail == self.commit_page.load(Ordering::Relaxed) {
            let bytes = State(state).words() as u32 * 4;
            // Release: the events are written.
            page.commit.store(bytes, Ordering::Release);
            ordered();
            cpu.interrupt();
            self.nest.store(0, Ordering::Relaxed);
            ordered();
            cpu.interrupt();
            // Those that came before the store above have left the publishing to this one.
            if state == page.state.load(Ordering::Relaxed) {
                return;
            }
            cpu.interrupt();
            self.nest.store(1, Ordering::Relaxed);
            ordered();
        }
        self.end_unusual(cpu);
    }

    /// Ends the outermost writer, where more than one page is to be published.
    #[cold]
    #[inline(never)]
    fn end_unusual<C: Cpu>(&self, cpu: C) {
        loop {
            let tail = self.tail.load(Ordering::Relaxed);
            let page = &self.pages[tail as usize];
            cpu.interrupt();
            let state = State(page.state.load(Ordering::Relaxed));
            cpu.interrupt();
            self.publish(cpu);
            ordered();
            cpu.interrupt();
            self.nest.store(0, Ordering::Relaxed);
            ordered();
            cpu.interrupt();
            // As above.
            if tail == self.tail.load(Ordering::Relaxed) && state.0 == page.state.load(Ordering::Relaxed) {
                return;
            }
            cpu.interrupt();
            self.nest.store(1, Ordering::Relaxed);
            ordered();
        }
    }

    /// Publishes all pages up to the tail.
    fn publish<C: Cpu>(&self, cpu: C) {
        loop {
            let number = self.commit_page.load(Ordering::Relaxed);
            let page = &self.pages[number as usize];
            cpu.interrupt();
            let state = State(page.state.load(Ordering::Relaxed));
            cpu.interrupt();
            let bytes = state.used() as u32 * 4;
            if !state.is_closed() {
                page.commit.store(bytes, Ordering::Release);
                return;
            }
            // Nothing was ever written.
            if number == self.tail.load(Ordering::Relaxed) {
                return;
            }
            let next = self.after(Position(page.position.load(Ordering::Relaxed)));
            // Readers do not come that far yet: it is the page that was opened.
            let word = Word(self.slot(next).load(Ordering::Relaxed));
            let events = self.done_events.load(Ordering::Relaxed) + state.events();
            self.done_events.store(events, Ordering::Relaxed);
            let all = self.done_bytes.load(Ordering::Relaxed) + u64::from(bytes);
            self.done_bytes.store(all, Ordering::Relaxed);
            self.pages[word.page()].first.store(events, Ordering::Relaxed);
            cpu.interrupt();
            self.commit_page.store(word.page() as u32, Ordering::Relaxed);
            page.commit.store(bytes | DONE, Ordering::Release);
            cpu.interrupt();
            self.commit.store(next.0, Ordering::Release);
        }
    }
}

/// How a reservation goes on.
enum Step<'a, C: Cpu> {
    Again,
    Reserved(Reservation<'a, C>),
    /// There is no room; the writer has ended.
    Full,
}

/// How an event tells its time.
#[derive(Clone, Copy)]
struct Timed {
    /// Kind and value of a time event in front.
    event: Option<(u32, u64)>,
    delta: u32,
    /// For the page's state.
    last: u64,
}

impl Timed {
    /// Of an event behind `old` on an open page with this stamp.
    fn new(old: State, stamp: u64, now: u64) -> Self {
        let last = stamp.wrapping_add(old.time());
        // Not before the last event, as far as that is known.
        let ahead = now.wrapping_sub(last);
        let delta = if ahead < 1 << 63 { ahead } else { 0 };
        let (event, within) = if old.time() == State::LATE {
            (Some((TIME_STAMP, last.wrapping_add(delta))), 0)
        } else if delta >= 1 << DELTA_BITS {
            (Some((TIME_EXTEND, delta)), 0)
        } else {
            (None, delta as u32)
        };
        Self {
            event,
            delta: within,
            last: old.time().saturating_add(delta).min(State::LATE),
        }
    }
}

/// Writes an event's first words. Returns those of its data.
#[inline(always)]
fn begin(event: &[AtomicU32], delta: u32) -> &[AtomicU32] {
    match event {
        [first, data @ ..] if data.len() <= DATA_MAX as usize => {
            first.store(header(data.len() as u32, delta), Ordering::Relaxed);
            data
        }
        [first, second, data @ ..] => {
            first.store(header(0, delta), Ordering::Relaxed);
            second.store(data.len() as u32 * 4 + 4, Ordering::Relaxed);
            data
        }
        _ => &[],
    }
}

impl<'a, C: Cpu> Reservation<'a, C> {
    /// The words of the data, to be stored to. They hold what was there before.
    #[inline]
    pub fn words(&self) -> &'a [AtomicU32] {
        self.data
    }

    /// Stores bytes from the first on, and zeros into what remains of the last word that they reach.
    #[inline]
    pub fn put(&self, data: &[u8]) {
        let mut words = self.words().iter();
        let (whole, rest) = data.as_chunks::<4>();
        for (bytes, word) in whole.iter().zip(&mut words) {
            word.store(u32::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        if let (false, Some(word)) = (rest.is_empty(), words.next()) {
            let mut last = [0; 4];
            last[..rest.len()].copy_from_slice(rest);
            word.store(u32::from_ne_bytes(last), Ordering::Relaxed);
        }
    }

    /// The event is recorded. Readers see it when the outermost writer has ended.
    #[inline]
    pub fn commit(self) {
        self.ring.end(self.cpu, self.nest, self.tail, self.page);
        core::mem::forget(self);
    }

    /// The event has not happened.
    pub fn discard(self) {}

    #[cold]
    #[inline(never)]
    fn undo(&self) {
        let state = &self.page.state;
        ordered();
        self.cpu.interrupt();
        if state
            .compare_exchange(self.new.0, self.old.0, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
        {
            return;
        }
        // Others are behind it. Their times count from this event, so its own difference stays; but
        // a difference of 0 means something else.
        let body = &self.page.body;
        let size = self.front as usize + self.data.len();
        let first = self.new.words() as usize - size;
        let (_, mut delta) = parts(body[first].load(Ordering::Relaxed));
        if delta == 0 {
            let front = self.old.words() as usize;
            if front != first {
                let (kind, low) = parts(body[front].load(Ordering::Relaxed));
                let high = u64::from(body[front + 1].load(Ordering::Relaxed));
                let (low, high) = split((high << DELTA_BITS | low) - 1);
                body[front].store(header(kind, low), Ordering::Relaxed);
                body[front + 1].store(high, Ordering::Relaxed);
            }
            // As in Linux: what is behind an event of the same time seems one unit later.
            delta = 1;
        }
        let bytes = (size - 1) * 4;
        body[first].store(header(PADDING, delta as u32), Ordering::Relaxed);
        body[first + 1].store(bytes as u32, Ordering::Relaxed);
        let mut now = state.load(Ordering::Relaxed);
        loop {
            self.cpu.interrupt();
            match state.compare_exchange(now, now - State::EVENT, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => now = other,
            }
        }
    }
}

impl<C: Cpu> Drop for Reservation<'_, C> {
    fn drop(&mut self) {
        self.undo();
        self.ring.end(self.cpu, self.nest, self.tail, self.page);
    }
}
