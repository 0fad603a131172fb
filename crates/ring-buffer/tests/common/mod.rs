//! A buffer, a clock that stands, and a parser of pages.

#![allow(dead_code, reason = "each test uses a part")]

use limen_ring_buffer::format::Layout;
use limen_ring_buffer::{Cpu, Error, Ring};
use std::cell::Cell;
use std::sync::Arc;

pub type Reader = limen_ring_buffer::Reader<Arc<Ring>>;

pub fn share(ring: Ring) -> Option<Arc<Ring>> {
    Some(Arc::new(ring))
}

pub fn new_reader(pages: usize, layout: Layout, overwrite: bool) -> Result<Reader, Error> {
    Reader::new(pages, layout, overwrite, share)
}

#[derive(Default)]
pub struct Clock(Cell<u64>);

impl Clock {
    pub fn set(&self, time: u64) {
        self.0.set(time);
    }
}

impl Cpu for &Clock {
    fn now(self) -> u64 {
        self.0.get()
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct Parsed {
    pub time: u64,
    pub data: Vec<u8>,
}

pub struct Page {
    pub time: u64,
    /// Events were lost in front of it; how many, if there was room to say.
    pub lost: Option<Option<u64>>,
    pub events: Vec<Parsed>,
}

fn u32_at(page: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(page[at..at + 4].try_into().unwrap())
}

fn u64_at(page: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(page[at..at + 8].try_into().unwrap())
}

fn long_at(page: &[u8], at: usize, layout: Layout) -> u64 {
    match layout.long() {
        8 => u64_at(page, at),
        _ => u32_at(page, at).into(),
    }
}

/// What user space makes of a page (little endian).
pub fn parse(page: &[u8], layout: Layout) -> Page {
    let stamp = u64_at(page, 0);
    let commit = long_at(page, 8, layout);
    let begin = 8 + layout.long();
    let end = begin + (commit & ((1 << 27) - 1)) as usize;
    assert_eq!(commit >> 32, 0);
    let stored = commit & 1 << 30 != 0;
    let lost = (commit & 1 << 31 != 0).then(|| stored.then(|| long_at(page, end, layout)));
    assert!(lost.is_some() || !stored);
    let zeros = end + if stored { layout.long() } else { 0 };
    assert!(
        page[zeros..].iter().all(|byte| *byte == 0),
        "something behind the data"
    );
    let (mut at, mut time) = (begin, stamp);
    let mut events = Vec::new();
    while at < end {
        let head = u32_at(page, at);
        let (kind, delta) = (head & 31, u64::from(head >> 5));
        at += 4;
        match kind {
            29 => {
                assert_ne!(delta, 0, "the end before the end");
                time += delta;
                at += u32_at(page, at) as usize;
            }
            30 => {
                time += u64::from(u32_at(page, at)) << 27 | delta;
                at += 4;
            }
            31 => {
                time = u64::from(u32_at(page, at)) << 27 | delta;
                at += 4;
            }
            _ => {
                let (skip, len) = match kind {
                    0 => (4, u32_at(page, at) as usize - 4),
                    words => (0, words as usize * 4),
                };
                at += skip;
                time += delta;
                let data = page[at..at + len].to_vec();
                events.push(Parsed { time, data });
                at += len;
            }
        }
    }
    assert_eq!(at, end);
    Page {
        time: stamp,
        lost,
        events,
    }
}
