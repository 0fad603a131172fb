//! Reading: the records of all CPUs in the order of their times, consumed or not.

use super::buffer::{Buffer, Reader, errno};
use alloc::vec::Vec;
use limen_linux_abi::Errno;
use limen_ring_buffer::Cursor;
use limen_trace_text::Entry;

/// Which CPUs are read: one, or all.
pub type Only = Option<usize>;

/// A record that was copied out of its buffer.
#[derive(Default)]
struct Copied {
    is_there: bool,
    time: u64,
    lost: u64,
    data: Vec<u8>,
}

/// A CPU's place.
struct Place {
    cursor: Cursor,
    next: Copied,
    /// The one behind it.
    after: Copied,
}

/// A walk through a buffer that leaves everything there.
pub struct Walk {
    places: Vec<Option<Place>>,
    /// How many records it has given.
    given: usize,
    /// How many it may still give: as many as there were when it began, or it might never end where what it
    /// calls is traced itself.
    left: u64,
}

/// A record of a walk.
pub struct Step<'a> {
    /// The record.
    pub entry: Entry<'a>,
    /// Events that were lost in front of it.
    pub lost: u64,
    /// How many there were before it.
    pub before: usize,
    /// The time of the next one, if there is one already.
    pub next: Option<u64>,
    /// The next one of the same CPU.
    pub same_cpu: Option<Entry<'a>>,
}

/// The CPUs that are read.
pub fn readers(buffer: &Buffer, only: Only) -> impl Iterator<Item = usize> {
    (0..buffer.cpus.len()).filter(move |cpu| only.is_none_or(|only| only == *cpu))
}

/// Calls `f` with a CPU's reader, if it has a ring.
pub fn with_reader<R>(buffer: &Buffer, cpu: usize, f: impl FnOnce(&mut Reader) -> R) -> Option<R> {
    buffer.reader(cpu)?.as_mut().map(f)
}

impl Place {
    /// Looks for the next record and the one behind it.
    fn fill(&mut self, buffer: &Buffer, cpu: usize, room: usize) -> Result<(), Errno> {
        if !self.next.is_there {
            core::mem::swap(&mut self.next, &mut self.after);
            self.after.is_there = false;
        }
        for place in [&mut self.next, &mut self.after] {
            if place.is_there {
                continue;
            }
            place.data.clear();
            crate::mm::reserve::room(&mut place.data, room)?;
            with_reader(buffer, cpu, |reader| {
                let Some(event) = self.cursor.next(reader) else {
                    return;
                };
                if event.data.len() <= place.data.capacity() {
                    place.data.extend_from_slice(event.data);
                    (place.time, place.lost, place.is_there) = (event.time, event.lost, true);
                }
            });
        }
        Ok(())
    }
}

impl Walk {
    /// In front of the first record. `ENOMEM`.
    pub fn new(buffer: &Buffer, only: Only) -> Result<Self, Errno> {
        let mut places = Vec::new();
        crate::mm::reserve::room_exact(&mut places, buffer.cpus.len())?;
        for cpu in 0..buffer.cpus.len() {
            let chosen = only.is_none_or(|only| only == cpu);
            let cursor = match chosen {
                true => with_reader(buffer, cpu, |reader| Cursor::new(reader)),
                false => None,
            };
            let cursor = cursor.transpose().map_err(errno)?;
            places.push(cursor.map(|cursor| Place {
                cursor,
                next: Copied::default(),
                after: Copied::default(),
            }));
        }
        Ok(Self {
            places,
            given: 0,
            left: counts(buffer, only).0,
        })
    }

    /// Fills all places, and finds the one with the earliest record, and the time of the next of another.
    fn look(&mut self, buffer: &Buffer) -> Result<Option<(usize, Option<u64>)>, Errno> {
        let room = buffer.layout().data();
        let mut first: Option<(usize, u64)> = None;
        let mut second = None;
        for (cpu, place) in self.places.iter_mut().enumerate() {
            let Some(place) = place else { continue };
            place.fill(buffer, cpu, room)?;
            if !place.next.is_there {
                continue;
            }
            let time = place.next.time;
            match first {
                Some((_, earliest)) if earliest <= time => {
                    second = Some(second.map_or(time, |other: u64| other.min(time)));
                }
                _ => {
                    second = first.map(|(_, earliest)| earliest);
                    first = Some((cpu, time));
                }
            }
        }
        Ok(first.map(|(cpu, _)| (cpu, second)))
    }

    /// Calls `f` with the next record; if that returns `true`, the next of the same CPU is done with, too.
    /// `None`: that was all so far.
    pub fn next(&mut self, buffer: &Buffer, f: impl FnOnce(&Step<'_>) -> bool) -> Result<Option<()>, Errno> {
        loop {
            if self.left == 0 {
                return Ok(None);
            }
            let Some((cpu, next)) = self.look(buffer)? else {
                return Ok(None);
            };
            self.left -= 1;
            let Some(place) = &mut self.places[cpu] else {
                continue;
            };
            place.next.is_there = false;
            let after = &place.after;
            let same_cpu = Entry::new(cpu, after.time, &after.data).filter(|_| after.is_there);
            let Some(entry) = Entry::new(cpu, place.next.time, &place.next.data) else {
                continue;
            };
            let step = Step {
                entry,
                lost: place.next.lost,
                before: self.given,
                next: next.into_iter().chain(same_cpu.map(|entry| entry.time)).min(),
                same_cpu,
            };
            self.given += 1;
            if f(&step) {
                place.after.is_there = false;
                self.given += 1;
                self.left = self.left.saturating_sub(1);
            }
            return Ok(Some(()));
        }
    }
}

/// Whether there is nothing to consume.
pub fn is_empty(buffer: &Buffer, only: Only) -> bool {
    readers(buffer, only).all(|cpu| with_reader(buffer, cpu, Reader::is_empty).unwrap_or(true))
}

/// Calls `f` with the earliest record and how many were lost in front of it; if that returns `true` the
/// record is consumed. `None`: there is none.
pub fn consume(buffer: &Buffer, only: Only, f: impl FnOnce(&Entry<'_>, u64) -> bool) -> Option<bool> {
    let times = readers(buffer, only).filter_map(|cpu| {
        let time = with_reader(buffer, cpu, |reader| reader.peek().map(|event| event.time));
        Some((time.flatten()?, cpu))
    });
    let (_, cpu) = times.min()?;
    with_reader(buffer, cpu, |reader| {
        let event = reader.peek()?;
        let take = Entry::new(cpu, event.time, event.data).is_none_or(|entry| f(&entry, event.lost));
        if take {
            reader.consume();
        }
        Some(take)
    })
    .flatten()
}

/// Consumes the earliest record, of which a copy is made in `room`, and calls `f` with it, with how many were
/// lost in front of it, and with the one behind it on its CPU; if that returns `true`, that is consumed, too.
/// `None`: there is none.
pub fn consume_pair(
    buffer: &Buffer,
    only: Only,
    room: &mut Vec<u8>,
    f: impl FnOnce(&Entry<'_>, u64, Option<&Entry<'_>>) -> bool,
) -> Result<Option<()>, Errno> {
    room.clear();
    crate::mm::reserve::room(room, buffer.layout().data())?;
    let mut found = None;
    let taken = consume(buffer, only, |entry, lost| {
        if entry.data.len() <= room.capacity() {
            room.extend_from_slice(entry.data);
        }
        found = Some((entry.cpu, entry.time, lost));
        true
    });
    let (Some(true), Some((cpu, time, lost))) = (taken, found) else {
        return Ok(taken.map(drop));
    };
    let Some(entry) = Entry::new(cpu, time, room) else {
        return Ok(Some(()));
    };
    let done = with_reader(buffer, cpu, |reader| {
        let next = reader
            .peek()
            .and_then(|event| Entry::new(cpu, event.time, event.data));
        if f(&entry, lost, next.as_ref()) {
            reader.consume();
        }
    });
    Ok(done)
}

/// Where a record was that was copied and consumed.
pub struct Consumed {
    /// Its CPU.
    pub cpu: usize,
    /// Its time.
    pub time: u64,
    /// Events that were lost in front of it.
    pub lost: u64,
    /// Bytes that were copied.
    pub len: usize,
}

/// The earliest record that nobody else is reading: its time and CPU.
fn first_now(buffer: &Buffer, only: Only) -> Option<(u64, usize)> {
    let times = readers(buffer, only).filter_map(|cpu| {
        let mut reader = buffer.reader_now(cpu)?;
        Some((reader.as_mut()?.peek()?.time, cpu))
    });
    times.min()
}

/// The time of the earliest record, for a panic.
pub fn next_now(buffer: &Buffer, only: Only) -> Option<u64> {
    first_now(buffer, only).map(|(time, _)| time)
}

/// Consumes the earliest record, of which as much is copied as there is room for; for a panic: waits for
/// nobody. `None`: there is none.
pub fn consume_now(buffer: &Buffer, only: Only, room: &mut [u8]) -> Option<Consumed> {
    let (_, cpu) = first_now(buffer, only)?;
    let mut reader = buffer.reader_now(cpu)?;
    let reader = reader.as_mut()?;
    let event = reader.peek()?;
    let len = event.data.len().min(room.len());
    room[..len].copy_from_slice(&event.data[..len]);
    let (time, lost) = (event.time, event.lost);
    reader.consume();
    Some(Consumed { cpu, time, lost, len })
}

/// Entries that can be read, and those that were recorded.
pub fn counts(buffer: &Buffer, only: Only) -> (u64, u64) {
    let mut sums = (0, 0);
    for cpu in readers(buffer, only) {
        if let Some(stats) = with_reader(buffer, cpu, |reader| reader.stats()) {
            sums.0 += stats.entries;
            sums.1 += stats.entries + stats.overrun + stats.read;
        }
    }
    sums
}

/// The time of the oldest record, 0 without any.
pub fn oldest(buffer: &Buffer, only: Only) -> u64 {
    let times = readers(buffer, only)
        .filter_map(|cpu| with_reader(buffer, cpu, |reader| reader.stats().oldest).flatten());
    times.min().unwrap_or(0)
}
