//! A reader on another CPU, in every interleaving with writers that interrupt each other, and with everything
//! that the C11 memory model lets it see: it reads each event once, whole and in order, or counts it as lost.
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p limen-ring-buffer --test interleavings`; without that
//! configuration this file is empty.
//!
//! Most models switch between the CPUs at most twice where none of them waits.
//!
//! An interrupt is a writer that is called from inside another, at a step that the model chooses.

#![cfg(loom)]

use limen_ring_buffer::format::Layout;
use limen_ring_buffer::{Cpu, Cursor, Ring};
use loom::sync::atomic::{AtomicU32, Ordering, fence};
use loom::thread;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

type Reader = limen_ring_buffer::Reader<Arc<Ring>>;

/// A CPU, which may be interrupted once, and what was recorded on it.
struct Machine {
    ring: Arc<Ring>,
    clock: Cell<u32>,
    /// Times of events.
    recorded: RefCell<Vec<u32>>,
    /// Steps until an interrupt comes, in which so many events are recorded.
    until: Cell<usize>,
    events: Cell<usize>,
}

/// A writer, and what it was told the time is.
#[derive(Clone, Copy)]
struct Writer<'a>(&'a Machine, &'a Cell<u32>);

impl Cpu for Writer<'_> {
    fn now(self) -> u64 {
        self.interrupt();
        self.0.clock.set(self.0.clock.get() + 1);
        self.1.set(self.0.clock.get());
        self.1.get().into()
    }
    fn interrupt(self) {
        let until = self.0.until.get();
        self.0.until.set(until.wrapping_sub(1));
        if until == 0 {
            (0..self.0.events.get()).for_each(|_| self.0.write());
        }
    }
}

impl Machine {
    fn new(ring: Arc<Ring>) -> Self {
        Self {
            ring,
            clock: Cell::new(0),
            recorded: RefCell::default(),
            until: Cell::new(usize::MAX),
            events: Cell::new(0),
        }
    }

    /// Records an event whose words are its time.
    fn write(&self) {
        let time = Cell::new(0);
        if let Some(event) = self.ring.reserve(Writer(self, &time), WORDS * 4) {
            self.recorded.borrow_mut().push(time.get());
            for word in event.words() {
                word.store(time.get(), Ordering::Relaxed);
            }
            event.commit();
        }
    }

    /// Records an event of so many words, which are not stored.
    fn mark(&self, words: usize) {
        let time = Cell::new(0);
        if let Some(event) = self.ring.reserve(Writer(self, &time), words * 4) {
            self.recorded.borrow_mut().push(time.get());
            event.commit();
        }
    }

    /// All that was recorded, in order.
    fn recorded(&self) -> Vec<u32> {
        let mut all = self.recorded.borrow().clone();
        all.sort();
        all
    }
}

/// Three such events fill a page.
const WORDS: usize = 3;

fn layout() -> Layout {
    Layout::new(64, 8).unwrap()
}

/// A buffer of two pages.
fn new_reader() -> Reader {
    Reader::new(2, layout(), true, |ring| Some(Arc::new(ring))).unwrap()
}

/// What a reader has seen: events and how many before them were recorded, it is said.
#[derive(Default)]
struct Seen {
    events: Vec<(usize, u32)>,
    passed: usize,
}

impl Seen {
    fn event(&mut self, time: u64, data: &[u8], lost: u64) {
        assert_eq!(data.len(), WORDS * 4);
        for word in data.chunks(4) {
            assert_eq!(word, (time as u32).to_ne_bytes(), "torn, or another time");
        }
        self.passed += lost as usize;
        self.events.push((self.passed, time as u32));
        self.passed += 1;
    }

    fn read(&mut self, reader: &mut Reader) -> bool {
        let Some(event) = reader.peek() else { return false };
        self.event(event.time, event.data, event.lost);
        reader.consume()
    }

    fn check(&self, recorded: &[u32]) {
        for (index, time) in &self.events {
            assert_eq!(recorded[*index], *time, "order, or what was lost");
        }
    }
}

/// `before` events are there. Then a writer records `count` more, while a reader reads `reads`. The writer is
/// interrupted at a step, by `events` events.
fn explore(before: usize, count: usize, reads: usize, interrupt: usize, events: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let mut reader = new_reader();
        let machine = Machine::new(reader.ring().clone());
        (0..before).for_each(|_| machine.write());
        let reading = thread::spawn(move || {
            let mut seen = Seen::default();
            for _ in 0..reads {
                seen.read(&mut reader);
            }
            (reader, seen)
        });
        machine.until.set(interrupt);
        machine.events.set(events);
        (0..count).for_each(|_| machine.write());
        let (mut reader, mut seen) = reading.join().unwrap();
        while seen.read(&mut reader) {}
        let recorded = machine.recorded();
        seen.check(&recorded);
        assert_eq!(seen.passed, recorded.len());
        let stats = reader.stats();
        assert_eq!(stats.read + stats.overrun, recorded.len() as u64);
        assert_eq!((stats.read, stats.entries), (seen.events.len() as u64, 0));
    });
}

const NEVER: usize = usize::MAX;

/// The reader takes the page that the writer wants to overwrite.
#[test]
fn both_want_the_oldest_page() {
    explore(6, 2, 2, NEVER, 0);
}

/// The writer is on the reader's page.
#[test]
fn both_on_one_page() {
    explore(1, 2, 3, NEVER, 0);
}

/// The reader goes through a buffer in which nothing is lost.
#[test]
fn reader_follows_the_writer() {
    explore(2, 2, 4, NEVER, 0);
}

/// The first events of all.
#[test]
fn from_the_beginning() {
    explore(0, 2, 2, NEVER, 0);
}

/// The writer is interrupted at each step on its way to the oldest page.
#[test]
fn interrupted_while_both_want_the_oldest_page() {
    for at in 0..24 {
        explore(6, 1, 1, at, 1);
    }
}

/// The same, by a writer that fills the page.
#[test]
fn interrupted_by_many() {
    for at in 0..24 {
        explore(5, 1, 1, at, 3);
    }
}

/// A cursor on a page that is overwritten sees whole events or none.
#[test]
fn a_cursor_sees_no_mixture() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let reader = new_reader();
        let machine = Machine::new(reader.ring().clone());
        (0..6).for_each(|_| machine.write());
        let looking = thread::spawn(move || {
            let mut cursor = Cursor::new(&reader).unwrap();
            let mut seen = Seen::default();
            for _ in 0..2 {
                if let Some(event) = cursor.next(&reader) {
                    seen.event(event.time, event.data, event.lost);
                }
            }
            seen
        });
        machine.write();
        looking.join().unwrap().check(&machine.recorded());
    });
}

/// A cursor that has shown all of the reader's page, of which the reader has consumed a part, does not go
/// back to it while the writer overwrites what is behind it.
#[test]
fn a_cursor_sees_nothing_twice() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let mut reader = new_reader();
        let machine = Machine::new(reader.ring().clone());
        // Two on the first page, one on each of the others.
        [2, 2, 8].into_iter().for_each(|words| machine.mark(words));
        assert!(reader.consume());
        let mut cursor = Cursor::new(&reader).unwrap();
        let first = cursor.next(&reader).unwrap().time;
        let looking = thread::spawn(move || {
            let mut last = first;
            for _ in 0..2 {
                if let Some(event) = cursor.next(&reader) {
                    assert!(event.time > last, "seen before");
                    last = event.time;
                }
            }
        });
        [8, 8].into_iter().for_each(|words| machine.mark(words));
        looking.join().unwrap();
    });
}

/// The buffer is emptied and recording goes on, beside a writer that has preemption off while it writes. With
/// `wait` after a grace period: once it was seen with preemption on.
fn empty_beside_a_writer(wait: bool) {
    loom::model(move || {
        let mut reader = new_reader();
        let machine = Machine::new(reader.ring().clone());
        // The page is full.
        (0..3).for_each(|_| machine.write());
        let preempt = Arc::new(AtomicU32::new(0));
        let seen = preempt.clone();
        let emptying = thread::spawn(move || {
            reader.ring().disable();
            fence(Ordering::SeqCst);
            while wait && seen.load(Ordering::Acquire) != 0 {
                thread::yield_now();
            }
            let emptied = reader.reset().is_ok();
            assert!(emptied || !wait);
            reader.ring().enable();
            reader
        });
        for _ in 0..2 {
            preempt.store(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            machine.write();
            preempt.store(0, Ordering::Release);
        }
        let mut reader = emptying.join().unwrap();
        machine.write();
        let mut seen = Seen::default();
        while seen.read(&mut reader) {}
        let recorded = machine.recorded();
        let recorded = &recorded[recorded.len() - seen.passed..];
        seen.check(recorded);
        assert!(!recorded.is_empty());
        let stats = reader.stats();
        assert_eq!((stats.overrun, stats.entries), (0, 0));
    });
}

#[test]
fn emptied_after_a_grace_period() {
    empty_beside_a_writer(true);
}

/// A writer that has seen that recording is on, but is not to be seen itself yet, finds the buffer changing.
#[test]
#[should_panic]
fn emptied_without_a_grace_period() {
    empty_beside_a_writer(false);
}
