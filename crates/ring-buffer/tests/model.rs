//! Random writers that interrupt each other and a reader that comes at any of their steps, against a list of
//! what was recorded: every event is read once or counted as lost, in order, with its data and its time.

mod common;

use common::{Reader, new_reader, parse, share};
use limen_ring_buffer::format::Layout;
use limen_ring_buffer::{Cpu, Cursor, Error, Plain, Ring, Stats};
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What happens at the top, or at a step of a writer.
#[derive(Clone, Copy, Debug)]
enum Op {
    Nothing,
    /// Events of so many words.
    Write {
        words: usize,
        count: usize,
    },
    /// One event of four words, in the way of the usual case.
    Plain,
    Discard {
        words: usize,
    },
    Consume(usize),
    ReadPage {
        full: bool,
    },
    Look(usize),
    Wait(u64),
    Overwrite(bool),
    /// These only at the top.
    Reset,
    Resize(usize),
    Swap,
}

struct World {
    ring: RefCell<Arc<Ring>>,
    reader: RefCell<Reader>,
    cursor: RefCell<Cursor>,
    clock: Cell<u64>,
    /// What happens at the next steps, the last first.
    steps: RefCell<Vec<Op>>,
    depth: Cell<usize>,
    /// By time: words of data. What is being recorded, and what was read, is not in it.
    recorded: RefCell<BTreeMap<u64, usize>>,
    last_read: Cell<u64>,
    last_seen: Cell<u64>,
    counts: Cell<Stats>,
    /// What has become of those of the usual case.
    ways: RefCell<BTreeSet<u8>>,
}

/// One writer, and what it was told the time is.
#[derive(Clone, Copy)]
struct Writer<'a>(&'a World, &'a Cell<u64>);

impl Cpu for Writer<'_> {
    fn now(self) -> u64 {
        self.interrupt();
        self.1.set(self.0.tick(1));
        self.1.get()
    }
    fn interrupt(self) {
        let op = self.0.steps.borrow_mut().pop();
        if let Some(op) = op {
            self.0.depth.set(self.0.depth.get() + 1);
            self.0.run(op);
            self.0.depth.set(self.0.depth.get() - 1);
        }
    }
}

impl World {
    fn new(pages: usize, layout: Layout, overwrite: bool) -> Self {
        let reader = new_reader(pages, layout, overwrite).unwrap();
        Self {
            ring: RefCell::new(reader.ring().clone()),
            cursor: RefCell::new(Cursor::new(&reader).unwrap()),
            reader: RefCell::new(reader),
            clock: Cell::new(1 << 60),
            steps: RefCell::default(),
            depth: Cell::new(0),
            recorded: RefCell::default(),
            last_read: Cell::new(0),
            last_seen: Cell::new(0),
            counts: Cell::default(),
            ways: RefCell::default(),
        }
    }

    fn tick(&self, by: u64) -> u64 {
        self.clock.set(self.clock.get() + by);
        self.clock.get()
    }

    fn count(&self, change: impl Fn(&mut Stats)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    fn write(&self, words: usize, commit: bool) {
        if self.depth.get() > 4 {
            return;
        }
        let time = Cell::new(0);
        let ring = self.ring.borrow().clone();
        let Some(event) = ring.reserve(Writer(self, &time), words * 4) else {
            self.count(|counts| counts.dropped += 1);
            return;
        };
        let time = time.get();
        for (index, word) in event.words().iter().enumerate() {
            Writer(self, &Cell::new(0)).interrupt();
            word.store(time as u32 ^ index as u32, std::sync::atomic::Ordering::Relaxed);
        }
        if commit {
            self.recorded.borrow_mut().insert(time, words);
            event.commit();
        } else {
            event.discard();
        }
    }

    /// An event of four words, in the way of the usual case if it is one.
    fn plain(&self) {
        if self.depth.get() > 4 {
            return;
        }
        let time = Cell::new(0);
        let ring = self.ring.borrow().clone();
        let writer = Writer(self, &time);
        let went = ring.write_plain::<4>(writer, |words| {
            let time = time.get();
            for (index, word) in words.iter().enumerate() {
                Writer(self, &Cell::new(0)).interrupt();
                word.store(time as u32 ^ index as u32, std::sync::atomic::Ordering::Relaxed);
            }
            self.recorded.borrow_mut().insert(time, words.len());
        });
        self.ways.borrow_mut().insert(went as u8);
        if matches!(went, Plain::Unfinished | Plain::Disturbed) {
            ring.finish(writer);
        }
        if matches!(went, Plain::Disturbed | Plain::Unusual) {
            self.write(4, true);
        }
    }

    /// An event was read.
    fn check(&self, time: u64, lost: u64, data: &[u8]) {
        let mut recorded = self.recorded.borrow_mut();
        let words = recorded.remove(&time).expect("not recorded, or read before");
        assert!(time > self.last_read.replace(time));
        let before: Vec<u64> = recorded.range(..time).map(|(time, _)| *time).collect();
        assert_eq!(lost, before.len() as u64, "lost in front of {time}");
        for time in before {
            recorded.remove(&time);
        }
        Self::check_data(time, words, data);
        self.count(|counts| {
            counts.overrun += lost;
            counts.read += 1;
        });
    }

    fn check_data(time: u64, words: usize, data: &[u8]) {
        let expected: Vec<u8> = (0..words as u32)
            .flat_map(|index| (time as u32 ^ index).to_ne_bytes())
            .collect();
        assert_eq!(data, expected, "data of {time}");
    }

    fn consume(&self, reader: &mut Reader) -> bool {
        let Some(event) = reader.peek() else {
            assert!(!reader.consume());
            return false;
        };
        self.check(event.time, event.lost, event.data);
        assert!(reader.consume());
        true
    }

    fn read_page(&self, reader: &mut Reader, full: bool) -> bool {
        let layout = reader.ring().layout();
        let mut out = vec![0xee; layout.page()];
        let Some(read) = reader.read_page(&mut out, full) else {
            return false;
        };
        let page = parse(&out, layout);
        assert_eq!(page.lost.is_some(), read.lost != 0);
        if let Some(Some(lost)) = page.lost {
            assert_eq!(lost, read.lost);
        }
        assert_eq!(page.events.len() as u64, read.events);
        let mut lost = read.lost;
        for event in &page.events {
            // Absolute times have 59 bits.
            let time = event.time & ((1 << 59) - 1) | 1 << 60;
            self.check(time, lost, &event.data);
            lost = 0;
        }
        true
    }

    fn look(&self, reader: &Reader, count: usize) {
        let mut cursor = self.cursor.borrow_mut();
        for _ in 0..count {
            let Some(event) = cursor.next(reader) else { break };
            assert!(event.time > self.last_seen.replace(event.time));
            let words = self.recorded.borrow().get(&event.time).copied();
            let words = words.expect("seen, but not recorded or consumed before");
            Self::check_data(event.time, words, event.data);
        }
    }

    fn run(&self, op: Op) {
        match op {
            Op::Nothing => {}
            Op::Write { words, count } => (0..count).for_each(|_| self.write(words, true)),
            Op::Plain => self.plain(),
            Op::Discard { words } => self.write(words, false),
            Op::Wait(time) => _ = self.tick(time),
            Op::Overwrite(on) => self.ring.borrow().set_overwrite(on),
            Op::Consume(count) => {
                let mut reader = self.reader.borrow_mut();
                let _ = (0..count).all(|_| self.consume(&mut reader));
            }
            Op::ReadPage { full } => _ = self.read_page(&mut self.reader.borrow_mut(), full),
            Op::Look(count) => self.look(&self.reader.borrow(), count),
            Op::Reset | Op::Resize(_) | Op::Swap if self.depth.get() > 0 => {}
            Op::Reset => {
                let mut reader = self.reader.borrow_mut();
                assert_eq!(reader.reset(), Err(Error::Busy));
                reader.ring().disable();
                reader.reset().unwrap();
                reader.ring().enable();
                self.recorded.borrow_mut().clear();
                self.counts.take();
                let stats = reader.stats();
                assert_eq!((stats.entries, stats.bytes, stats.oldest), (0, 0, None));
            }
            Op::Resize(pages) => {
                let mut reader = self.reader.borrow_mut();
                reader.ring().disable();
                let new = reader.resized(pages, share).unwrap();
                new.ring().enable();
                let (before, after) = (reader.stats(), new.stats());
                assert_eq!(before.read, after.read);
                assert_eq!(before.entries + before.overrun, after.entries + after.overrun);
                *reader = new;
                *self.ring.borrow_mut() = reader.ring().clone();
                self.last_seen.set(0);
            }
            Op::Swap => {
                // What was recorded so far is read from the snapshot.
                let mut reader = self.reader.borrow_mut();
                let (pages, layout) = (reader.ring().pages(), reader.ring().layout());
                let mut other = new_reader(pages, layout, true).unwrap();
                assert_eq!(reader.swap(&mut other), Err(Error::Busy));
                reader.ring().disable();
                other.ring().disable();
                reader.swap(&mut other).unwrap();
                reader.ring().enable();
                *self.ring.borrow_mut() = reader.ring().clone();
                while self.consume(&mut other) {}
                assert!(self.recorded.borrow().is_empty());
                self.counts.take();
            }
        }
    }

    /// Between two ops no writer is there: everything recorded is there, or lost and counted.
    fn settled(&self) {
        let reader = self.reader.borrow();
        assert!(reader.ring().is_idle());
        let stats = reader.stats();
        let counts = self.counts.get();
        assert_eq!(stats.read, counts.read);
        assert_eq!(stats.dropped + stats.commit_overrun, counts.dropped);
        // Lost events are still in the list until something behind them is read.
        let unread = self.recorded.borrow().len() as u64;
        assert_eq!(stats.entries + stats.overrun - counts.overrun, unread);
        assert_eq!(stats.entries == 0, stats.oldest.is_none());
    }
}

fn op() -> impl Strategy<Value = Op> {
    let words = || 1usize..=8;
    prop_oneof![
        8 => (words(), 1usize..4).prop_map(|(words, count)| Op::Write { words, count }),
        1 => (words(), 1usize..60).prop_map(|(words, count)| Op::Write { words, count }),
        8 => Just(Op::Plain),
        2 => words().prop_map(|words| Op::Discard { words }),
        2 => (0usize..8).prop_map(Op::Consume),
        2 => any::<bool>().prop_map(|full| Op::ReadPage { full }),
        2 => (1usize..8).prop_map(Op::Look),
        1 => prop_oneof![Just(1u64 << 27), Just(1 << 36), Just(1 << 37), Just(1 << 40), 0..1u64 << 38]
            .prop_map(Op::Wait),
        1 => any::<bool>().prop_map(Op::Overwrite),
    ]
}

fn top() -> impl Strategy<Value = Op> {
    prop_oneof![
        30 => op(),
        1 => Just(Op::Reset),
        1 => (2usize..7).prop_map(Op::Resize),
        1 => Just(Op::Swap),
    ]
}

fn step() -> impl Strategy<Value = Op> {
    prop_oneof![4 => Just(Op::Nothing), 1 => op()]
}

fn drain(world: &World) {
    let mut reader = world.reader.borrow_mut();
    while world.consume(&mut reader) {}
    assert!(world.recorded.borrow().is_empty(), "neither read nor lost");
    let stats = reader.stats();
    assert_eq!((stats.entries, stats.bytes), (0, 0));
    assert_eq!(stats.overrun, world.counts.get().overrun);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn every_event_once(
        (pages, size, long) in (2usize..5, 0usize..6, prop_oneof![Just(4usize), Just(8)]),
        overwrite in any::<bool>(),
        ops in prop::collection::vec((top(), prop::collection::vec(step(), 0..40)), 1..40),
    ) {
        // Such that 8 words and their headers fit.
        let layout = Layout::new(72 + size * 16, long).unwrap();
        let world = World::new(pages, layout, overwrite);
        for (op, steps) in ops {
            *world.steps.borrow_mut() = steps;
            world.run(op);
            world.settled();
        }
        world.steps.borrow_mut().clear();
        world.ring.borrow().set_overwrite(true);
        world.run(Op::Write { words: 1, count: 1 });
        world.settled();
        drain(&world);
    }
}

/// All places of one or two interrupts of a writer that goes on to the next page, which fill the whole
/// buffer or only a part, with a reader that comes before or after.
#[test]
fn each_step_interrupted() {
    let burst = |count| Op::Write { words: 4, count };
    let ops = [
        burst(1),
        burst(3),
        burst(40),
        Op::Plain,
        Op::Discard { words: 3 },
        Op::Consume(9),
        Op::ReadPage { full: false },
    ];
    let mut ways = BTreeSet::new();
    for (before, writer) in
        (0..12).flat_map(|n| [Op::Plain, Op::Write { words: 6, count: 1 }].map(|op| (n, op)))
    {
        for (first, second) in ops.iter().flat_map(|a| ops.iter().map(move |b| (*a, *b))) {
            for (at, gap) in (0..30).flat_map(|at| [0, 1, 2, 5, 12].map(|gap| (at, gap))) {
                let world = World::new(2, Layout::new(80, 8).unwrap(), true);
                world.run(burst(before));
                let mut steps = vec![second];
                steps.extend((0..gap).map(|_| Op::Nothing));
                steps.push(first);
                steps.extend((0..at).map(|_| Op::Nothing));
                *world.steps.borrow_mut() = steps;
                world.run(writer);
                ways.append(&mut world.ways.borrow_mut());
                world.steps.borrow_mut().clear();
                world.settled();
                world.run(burst(1));
                world.settled();
                drain(&world);
            }
        }
    }
    // All of `Plain`.
    assert_eq!(ways.len(), 4);
}

/// Without a reader a cursor counts what it missed.
#[test]
fn a_cursor_counts_what_was_overwritten() {
    let world = World::new(3, Layout::new(128, 8).unwrap(), true);
    let reader = world.reader.borrow();
    let mut cursor = Cursor::new(&reader).unwrap();
    let (mut seen, mut lost) = (0, 0);
    for count in [1, 4, 5, 0, 17, 100, 3, 16, 15, 14, 1] {
        world.run(Op::Write { words: 4, count });
        while let Some(event) = cursor.next(&reader) {
            seen += 1;
            lost += event.lost;
        }
        let all = world.recorded.borrow().len() as u64;
        assert_eq!(seen + lost, all);
    }
    assert!(lost > 70 && seen > 50, "{lost} {seen}");
}
