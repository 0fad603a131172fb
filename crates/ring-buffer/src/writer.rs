//! Recording: the reservation, the way to the next page, the end of a writer.

use crate::atomic::{AtomicU32, Ordering, fence};
use crate::format::{DATA_MAX, DELTA_BITS, TIME_BITS, TIME_EXTEND, TIME_STAMP, header, split};
use crate::reservation::Reservation;
use crate::ring::{DONE, Page, Position, Ring, State, Word};
use core::sync::atomic::compiler_fence;

/// What a writer needs of its CPU.
pub trait Cpu: Copy {
    /// The time, in the trace clock's units. Should not go backwards; if it does, events get the time of the
    /// one in front of them, as far as that is known: not if it is about 2^37 units or more behind the first
    /// of its page, nor across pages if the writer that went on to the next was interrupted meanwhile.
    fn now(self) -> u64;
    /// An interrupt may come here. For tests, which do come.
    #[inline(always)]
    fn interrupt(self) {}
}

/// The order in which an interrupt on the same CPU sees loads and stores.
#[inline(always)]
pub(crate) fn ordered() {
    compiler_fence(core::sync::atomic::Ordering::SeqCst);
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
    ///
    /// On the ring's CPU, in any context, with preemption off from here to the end of the reservation.
    /// Reservations of one context end in reverse order.
    #[inline]
    pub fn reserve<C: Cpu>(&self, cpu: C, len: usize) -> Option<Reservation<'_, C>> {
        // Acquire: what was done to the buffer before recording was on again is done. A writer that sees 0 is
        // not to be seen itself until `nest` is stored: see `disable`.
        if self.disabled.load(Ordering::Acquire) != 0 {
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
        let fitting = time.filter(Timed::fits).and_then(|time| {
            let extra = if time.event.is_some() { 2 } else { 0 };
            let size = extra + front + start.words;
            (old.words() + size as u64 <= self.page_words).then_some((time, extra, size))
        });
        let Some((time, extra, size)) = fitting else {
            // The next page does not begin before the last event of this one.
            let begin = time.map_or(start.now, |time| time.at);
            if self.advance(cpu, start.tail, old, begin) {
                return Step::Again;
            }
            self.end(cpu, start.nest, start.tail, page);
            return Step::Full;
        };
        let words = old.words() + size as u64;
        let last = time.since.min(State::LATE);
        let new = State(words | (old.events() + 1) << 14 | last << State::TIME_SHIFT);
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
    /// writer began. Times on the next count from `begin`. `false`: there is no next page, which is counted.
    /// Otherwise the caller begins again.
    #[cold]
    #[inline(never)]
    fn advance<C: Cpu>(&self, cpu: C, tail: u32, old: State, begin: u64) -> bool {
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
            // Release: who sees that this page is gone sees that there are later ones.
            if self
                .slot(next)
                .compare_exchange(word.0, claimed.0, Ordering::AcqRel, Ordering::Relaxed)
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
        if self.open(cpu, tail, word.page(), next, begin) {
            cpu.interrupt();
            let (from, to) = (tail, word.page() as u32);
            let _ = self
                .tail
                .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
        }
        true
    }

    /// Opens page `number` for `position`, behind `tail`. `false`: others did, and went on.
    fn open<C: Cpu>(&self, cpu: C, tail: u32, number: usize, position: Position, begin: u64) -> bool {
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
            .compare_exchange(stamp, begin, Ordering::Relaxed, Ordering::Relaxed)
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
    pub(crate) fn end<C: Cpu>(&self, cpu: C, nest: u32, tail: u32, page: &Page) {
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
            // Release: who sees that there is no writer sees what this one did.
            self.nest.store(0, Ordering::Release);
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
    pub(crate) fn end_unusual<C: Cpu>(&self, cpu: C) {
        loop {
            let tail = self.tail.load(Ordering::Relaxed);
            let page = &self.pages[tail as usize];
            cpu.interrupt();
            let state = State(page.state.load(Ordering::Relaxed));
            cpu.interrupt();
            self.publish(cpu);
            ordered();
            cpu.interrupt();
            // As above.
            self.nest.store(0, Ordering::Release);
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
    /// The event's time, and how long after the page's stamp that is.
    at: u64,
    since: u64,
}

impl Timed {
    /// Times on a page are less than this after its stamp. So every difference between two of them fits, and
    /// of the times that a time event can mean the one next to the time in front is right.
    const SPAN: u64 = 1 << (TIME_BITS - 1);

    /// Of an event behind `old` on an open page with this stamp.
    fn new(old: State, stamp: u64, now: u64) -> Self {
        let last = stamp.wrapping_add(old.time());
        // Not before the last event, as far as that is known.
        let ahead = now.wrapping_sub(last);
        let delta = if ahead < 1 << 63 { ahead } else { 0 };
        let at = last.wrapping_add(delta);
        let (event, within) = if old.time() == State::LATE {
            (Some((TIME_STAMP, at)), 0)
        } else if delta >= 1 << DELTA_BITS {
            (Some((TIME_EXTEND, delta)), 0)
        } else {
            (None, delta as u32)
        };
        Self {
            event,
            delta: within,
            at,
            since: old.time() + delta,
        }
    }

    /// Whether the page can tell this time. The stamp of another can.
    fn fits(&self) -> bool {
        self.since < Self::SPAN
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
