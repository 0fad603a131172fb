//! Pages that are read, against a parser of its own that knows only what `events/header_page` and
//! `events/header_event` say.

mod common;

use common::{Clock, Reader, new_reader, parse, share};
use limen_ring_buffer::format::{Layout, header_event};
use limen_ring_buffer::{Cpu, Error, Ring};
use std::sync::Arc;

#[test]
fn texts() {
    let page = Layout::new(4096, 8).unwrap().header_page();
    assert_eq!(
        page,
        "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
         \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
         \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
         \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n"
    );
    let page = Layout::new(65536, 4).unwrap().header_page();
    assert_eq!(
        page,
        "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
         \tfield: local_t commit;\toffset:8;\tsize:4;\tsigned:1;\n\
         \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
         \tfield: char data;\toffset:12;\tsize:65524;\tsigned:0;\n"
    );
    assert_eq!(
        header_event(),
        "# compressed entry header\n\
         \ttype_len    :    5 bits\n\
         \ttime_delta  :   27 bits\n\
         \tarray       :   32 bits\n\
         \n\
         \tpadding     : type == 29\n\
         \ttime_extend : type == 30\n\
         \ttime_stamp : type == 31\n\
         \tdata max type_len  == 28\n"
    );
}

#[test]
fn layouts_that_are_none() {
    for (page, long) in [(0, 8), (4095, 8), (4100, 8), (128 << 10, 8), (4096, 2)] {
        assert_eq!(Layout::new(page, long), None, "{page} {long}");
    }
}

/// Records an event of `len` bytes at `time`, each of its bytes `len`.
fn event(reader: &Reader, clock: &Clock, time: u64, len: usize) {
    clock.set(time);
    let event = reader.ring().reserve(clock, len).unwrap();
    event.put(&vec![len as u8; len]);
    event.commit();
}

fn page(reader: &mut Reader, layout: Layout) -> common::Page {
    let mut out = vec![0xff; layout.page()];
    assert!(reader.read_page(&mut out, false).is_some());
    parse(&out, layout)
}

#[test]
fn every_size_and_distance() {
    for (size, long) in [(4096, 8), (4096, 4), (16384, 8), (65536, 4), (65536, 8)] {
        let layout = Layout::new(size, long).unwrap();
        let mut reader = new_reader(4, layout, true).unwrap();
        let clock = Clock::default();
        let mut time = 5_000_000_000;
        let lens = [0, 1, 4, 5, 16, 108, 109, 112, 113, 116, 700];
        let distances = [0, 1, (1 << 27) - 1, 1 << 27, 1 << 36, 1 << 37, 7, 1 << 40, 0, 3];
        let mut expected = Vec::new();
        for (len, distance) in lens.into_iter().zip(distances.into_iter().cycle()) {
            time += distance;
            event(&reader, &clock, time, len);
            let words = len.div_ceil(4).max(1);
            expected.push((time, len, words * 4));
        }
        let page = page(&mut reader, layout);
        assert_eq!(page.lost, None);
        assert_eq!(page.time, 5_000_000_000);
        assert_eq!(page.events.len(), expected.len());
        for (event, (time, len, bytes)) in page.events.iter().zip(expected) {
            assert_eq!(event.time, time);
            assert_eq!(event.data.len(), bytes);
            assert!(event.data[..len].iter().all(|b| *b == len as u8));
            if len > 0 {
                assert!(event.data[len..].iter().all(|b| *b == 0));
            }
        }
        assert!(reader.is_empty());
    }
}

#[test]
fn the_longest_event_fits_and_no_longer_one() {
    for long in [4, 8] {
        let layout = Layout::new(4096, long).unwrap();
        let mut reader = new_reader(2, layout, true).unwrap();
        let clock = Clock::default();
        event(&reader, &clock, 1, 8);
        event(&reader, &clock, 1 << 50, layout.max_event());
        let ring = reader.ring().clone();
        assert!(ring.reserve(&clock, layout.max_event() + 1).is_none());
        assert!(ring.reserve(&clock, usize::MAX).is_none());
        assert_eq!(page(&mut reader, layout).events.len(), 1);
        assert_eq!(page(&mut reader, layout).events[0].data.len(), layout.max_event());
    }
}

#[test]
fn lost_events_are_told_on_the_page() {
    for long in [4, 8] {
        let layout = Layout::new(128, long).unwrap();
        let mut reader = new_reader(2, layout, true).unwrap();
        let clock = Clock::default();
        // Five of 20 bytes on each page.
        for time in 0..23 {
            event(&reader, &clock, time, 16);
        }
        let first = page(&mut reader, layout);
        let stats = reader.stats();
        assert_eq!(stats.overrun, 15);
        assert_eq!(first.lost, Some(Some(15)));
        assert_eq!(first.events[0].time, 15);
        assert_eq!(first.events.len(), 5);
        let second = page(&mut reader, layout);
        assert_eq!((second.lost, second.events.len()), (None, 3));
        // Without room for the number. 26 words: a page has 28 or 29.
        for time in 30..40 {
            event(&reader, &clock, time, layout.max_event());
        }
        let page = page(&mut reader, layout);
        let room = layout.data() - (layout.max_event() + 4) >= layout.long();
        assert_eq!(page.lost, Some(room.then_some(8)));
    }
}

#[test]
fn a_page_in_parts() {
    let layout = Layout::new(4096, 8).unwrap();
    let mut reader = new_reader(4, layout, true).unwrap();
    let clock = Clock::default();
    for time in 1..=100 {
        event(&reader, &clock, time << 30, 16);
    }
    assert_eq!(reader.peek().unwrap().time, 1 << 30);
    assert!(reader.consume());
    // Nothing before the page is full.
    let mut out = vec![0; 4096];
    assert_eq!(reader.read_page(&mut out, true), None);
    let mut small = vec![0; 16 + 60];
    let mut seen = 1;
    while let Some(read) = reader.read_page(&mut small, false) {
        let small = parse(&small, layout);
        assert_eq!(read.events as usize, small.events.len());
        for event in small.events {
            seen += 1;
            assert_eq!(event.time, seen << 30);
        }
    }
    assert_eq!(seen, 100);
    // What comes later on the same page counts on.
    event(&reader, &clock, 101 << 30, 4);
    let last = page(&mut reader, layout);
    assert_eq!(last.events.len(), 1);
    assert_eq!(last.events[0].time, 101 << 30);
    // Too small for the header, or for the event.
    event(&reader, &clock, 102 << 30, 4);
    assert_eq!(reader.read_page(&mut [0; 15], false), None);
    assert_eq!(reader.read_page(&mut [0; 20], false), None);
    assert_eq!(page(&mut reader, layout).events.len(), 1);
}

#[test]
fn a_full_page_is_handed_out_whole() {
    let layout = Layout::new(4096, 8).unwrap();
    let mut reader = new_reader(4, layout, true).unwrap();
    let clock = Clock::default();
    for time in 0..300 {
        event(&reader, &clock, time, 16);
    }
    let mut out = vec![0; 4096];
    let read = reader.read_page(&mut out, true).unwrap();
    assert_eq!((read.events, read.data), (204, 4080));
    assert_eq!(reader.read_page(&mut out, true), None);
    assert_eq!(reader.read_page(&mut out, false).unwrap().events, 96);
}

#[test]
fn a_clock_that_goes_back() {
    let layout = Layout::new(4096, 8).unwrap();
    let mut reader = new_reader(2, layout, true).unwrap();
    let clock = Clock::default();
    for time in [1000, 900, 1001, 0] {
        event(&reader, &clock, time, 4);
    }
    let times: Vec<_> = page(&mut reader, layout).events.iter().map(|e| e.time).collect();
    assert_eq!(times, [1000, 1000, 1001, 1001]);
}

#[test]
fn discarded_events_take_no_time_away() {
    for distance in [5, 1 << 27, 1 << 40] {
        for len in [4, 16, 200] {
            let layout = Layout::new(4096, 8).unwrap();
            let mut reader = new_reader(2, layout, true).unwrap();
            let clock = Clock::default();
            event(&reader, &clock, 1000, 4);
            let ring = reader.ring().clone();
            clock.set(1000 + distance);
            let outer = ring.reserve(&clock, len).unwrap();
            // An interrupt.
            event(&reader, &clock, 1001 + distance, 4);
            outer.discard();
            // Nothing behind it: no trace remains.
            let before = reader.stats().bytes;
            ring.reserve(&clock, len).unwrap().discard();
            assert_eq!(reader.stats().bytes, before);
            event(&reader, &clock, 1002 + distance, 4);
            assert_eq!(reader.stats().entries, 3);
            let times: Vec<_> = page(&mut reader, layout).events.iter().map(|e| e.time).collect();
            assert_eq!(times, [1000, 1001 + distance, 1002 + distance]);
            let stats = reader.stats();
            assert!(reader.is_empty());
            assert_eq!((stats.entries, stats.read), (0, 3));
            assert_eq!(reader.stats().bytes, 0);
        }
    }
}

/// What the reader gets, time by time.
fn times(reader: &mut Reader) -> Vec<u64> {
    let mut times = Vec::new();
    while let Some(event) = reader.peek() {
        times.push(event.time);
        reader.consume();
    }
    times
}

/// What is discarded there is an absolute time, which goes back by one unit.
#[test]
fn discarded_among_equal_times_far_from_the_first() {
    // The second is 0 in the bits that an absolute time has.
    for begin in [1000, (1 << 59) - (1 << 40), 5 << 57] {
        let layout = Layout::new(4096, 8).unwrap();
        let mut reader = new_reader(2, layout, true).unwrap();
        let clock = Clock::default();
        let late = begin + (1 << 40);
        event(&reader, &clock, begin, 4);
        event(&reader, &clock, late, 4);
        let ring = reader.ring().clone();
        let outer = ring.reserve(&clock, 4).unwrap();
        event(&reader, &clock, late, 4);
        outer.discard();
        event(&reader, &clock, late + 3, 4);
        assert_eq!(times(&mut reader), [begin, late, late, late + 3]);
        // The clock goes back, not by 2^59 forward.
        event(&reader, &clock, late + 2, 4);
        assert_eq!(times(&mut reader), [late + 2]);
    }
}

/// Three events fill a page.
#[test]
fn a_clock_that_goes_back_between_pages() {
    let layout = Layout::new(64, 8).unwrap();
    let record = || {
        let reader = new_reader(4, layout, true).unwrap();
        let clock = Clock::default();
        for time in [1000, 1001, 1003, 900, 950, 1002, 0, 1004] {
            event(&reader, &clock, time, 12);
        }
        reader
    };
    let expected = [1000, 1001, 1003, 1003, 1003, 1003, 1003, 1004];
    assert_eq!(times(&mut record()), expected);
    let mut reader = record();
    for (expected, stamp) in expected.chunks(3).zip([1000, 1003, 1003]) {
        let page = page(&mut reader, layout);
        assert_eq!(page.time, stamp);
        let times: Vec<_> = page.events.iter().map(|e| e.time).collect();
        assert_eq!(times, expected);
    }
    // Around the end of all times.
    let mut reader = new_reader(4, layout, true).unwrap();
    let clock = Clock::default();
    for time in [u64::MAX, 0, 1, u64::MAX, 2] {
        event(&reader, &clock, time, 12);
    }
    assert_eq!(times(&mut reader), [u64::MAX, 0, 1, 1, 2]);
}

/// Differences of more bits than an event has.
#[test]
fn events_years_apart() {
    let distances = [
        (1 << 58) - 1,
        1 << 58,
        (1 << 59) - 1,
        1 << 59,
        (1 << 59) + 7,
        3 << 60,
    ];
    for distance in distances {
        for late in [false, true] {
            let layout = Layout::new(4096, 8).unwrap();
            let mut reader = new_reader(4, layout, true).unwrap();
            let clock = Clock::default();
            let mut expected = vec![1000];
            if late {
                expected.push(1000 + (1 << 40));
            }
            let far = expected[expected.len() - 1] + distance;
            expected.extend([far, far + 1, far + (1 << 39)]);
            for time in &expected {
                event(&reader, &clock, *time, 4);
            }
            assert_eq!(times(&mut reader), expected, "{distance} {late}");
        }
    }
}

#[test]
fn no_memory_to_share_a_buffer() {
    let none = |_: Ring| None::<Arc<Ring>>;
    let layout = Layout::new(4096, 8).unwrap();
    assert_eq!(Reader::new(2, layout, true, none).err(), Some(Error::NoMemory));
    let mut reader = Reader::new(2, layout, true, share).unwrap();
    let clock = Clock::default();
    event(&reader, &clock, 7, 4);
    reader.ring().disable();
    assert_eq!(reader.resized(3, none).err(), Some(Error::NoMemory));
    assert_eq!(reader.resized(1, share).err(), Some(Error::Invalid));
    assert_eq!(times(&mut reader), [7]);
}

#[test]
fn write_is_reserve_and_commit() {
    let layout = Layout::native(4096).unwrap();
    let mut reader = new_reader(2, layout, true).unwrap();
    let clock = Clock::default();
    clock.set(9);
    assert!(reader.ring().write(&clock, [1, 2, 3, 4]));
    let event = reader.peek().unwrap();
    assert_eq!((event.time, event.lost, event.data.len()), (9, 0, 16));
    assert_eq!(event.data[12..], 4u32.to_ne_bytes());
    assert_eq!((&clock).now(), 9);
}
