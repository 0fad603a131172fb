//! A writer on one thread, which is interrupted at random steps by others like it, and a reader on another
//! thread: nothing is torn, everything is read in order or counted.

use limen_ring_buffer::format::Layout;
use limen_ring_buffer::{Cpu, Reader, Ring};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

struct Machine<'a> {
    ring: &'a Ring,
    random: Cell<u64>,
    depth: Cell<usize>,
    clock: Cell<u64>,
    recorded: Cell<u64>,
    discarded: Cell<u64>,
    refused: Cell<u64>,
}

impl Cpu for &Machine<'_> {
    fn now(self) -> u64 {
        self.interrupt();
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }
    fn interrupt(self) {
        if self.depth.get() < 3 && self.roll().is_multiple_of(40) {
            self.depth.set(self.depth.get() + 1);
            for _ in 0..1 + self.roll() % 4 {
                self.write();
            }
            self.depth.set(self.depth.get() - 1);
        }
    }
}

fn bump(count: &Cell<u64>) {
    count.set(count.get() + 1);
}

impl Machine<'_> {
    fn roll(&self) -> u64 {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.set(x);
        x >> 11
    }

    /// An event whose words say its length.
    fn write(&self) {
        let words = 1 + self.roll() as usize % 12;
        let Some(event) = self.ring.reserve(self, words * 4) else {
            return bump(&self.refused);
        };
        let mark = (self.roll() as u32) << 8 | words as u32;
        for word in event.words() {
            word.store(mark, Ordering::Relaxed);
        }
        if self.roll().is_multiple_of(16) {
            event.discard();
            bump(&self.discarded);
        } else {
            event.commit();
            bump(&self.recorded);
        }
    }
}

fn run(pages: usize, overwrite: bool) {
    let layout = Layout::native(256).unwrap();
    let mut reader = Reader::new(pages, layout, overwrite, |ring| Some(Arc::new(ring))).unwrap();
    let ring = reader.ring().clone();
    let ended = AtomicBool::new(false);
    let (recorded, refused) = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let machine = Machine {
                ring: &ring,
                random: Cell::new(0x1234_5678_9abc_def1),
                depth: Cell::new(0),
                clock: Cell::new(0),
                recorded: Cell::new(0),
                discarded: Cell::new(0),
                refused: Cell::new(0),
            };
            for round in 0..200_000 {
                machine.write();
                if round % 1000 == 0 {
                    thread::yield_now();
                }
            }
            ended.store(true, Ordering::Release);
            assert!(machine.discarded.get() > 0);
            (machine.recorded.get(), machine.refused.get())
        });
        let (mut read, mut lost, mut last) = (0, 0, 0);
        loop {
            let end = ended.load(Ordering::Acquire);
            while let Some(event) = reader.peek() {
                assert!(event.time > last, "{} after {last}", event.time);
                last = event.time;
                lost += event.lost;
                read += 1;
                let words = event.data.as_chunks::<4>().0;
                assert!(words.iter().all(|word| *word == words[0]), "torn");
                assert_eq!(u32::from_ne_bytes(words[0]) as usize & 0xff, words.len());
                reader.consume();
            }
            if end {
                break;
            }
        }
        let (recorded, refused) = writer.join().unwrap();
        assert_eq!(read + lost, recorded);
        (recorded, refused)
    });
    let stats = reader.stats();
    assert_eq!(stats.read + stats.overrun, recorded);
    assert_eq!(stats.dropped + stats.commit_overrun, refused);
    assert_eq!((stats.entries, stats.bytes), (0, 0));
}

#[test]
fn a_reader_beside_interrupted_writers() {
    for pages in [2, 3, 16] {
        run(pages, true);
    }
}

#[test]
fn nothing_is_overwritten_unasked() {
    run(4, false);
}
