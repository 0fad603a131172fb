//! An instance's buffers: a ring for each CPU, which writers find without a lock, and its reader.
//!
//! A ring that writers find is *live*. Another takes its place by one store, so a snapshot and a clean buffer
//! miss no event; who works on a ring that writers may still be in waits for a grace period first.

use crate::arch::smp;
use crate::mm::PAGE_SIZE;
use crate::rcu::{self, Retire, Shared, Slot};
use crate::sync::{MAX_CPUS, Mutex, MutexGuard};
use alloc::vec::Vec;
use core::ops::Deref;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use limen_linux_abi::Errno;
use limen_ring_buffer::format::Layout;
use limen_ring_buffer::{Error, Ring};

/// A ring, as writers find it.
pub struct Live(pub Ring);

impl Retire for Live {}

/// A counted reference to a ring.
#[derive(Clone)]
pub struct Handle(Shared<Live>);

impl Deref for Handle {
    type Target = Ring;
    fn deref(&self) -> &Ring {
        &self.0.0
    }
}

/// The reader of a ring.
pub type Reader = limen_ring_buffer::Reader<Handle>;

/// The smallest buffer: pages of a CPU's ring.
pub const LEAST: usize = 2;

/// A CPU's part.
pub struct PerCpu {
    number: usize,
    reader: Mutex<Option<Reader>>,
    /// Its size as it was asked for, in bytes. 0: as it comes.
    asked: AtomicUsize,
}

/// Rings for all CPUs.
pub struct Buffer {
    /// One for each CPU.
    pub cpus: Vec<PerCpu>,
    /// Where writers find the ring of each.
    pub live: [Slot<Live>; MAX_CPUS],
    /// 2^n pages of memory are a page of the ring's.
    order: AtomicU32,
}

/// What an error of the crate is to programs.
pub fn errno(error: Error) -> Errno {
    match error {
        Error::NoMemory => Errno::ENOMEM,
        Error::Invalid => Errno::EINVAL,
        Error::Busy => Errno::EBUSY,
    }
}

/// A ring, which only its reader has so far.
fn ring(pages: usize, layout: Layout, overwrite: bool) -> Result<Reader, Errno> {
    let made = crate::sync::lockdep::fallible(|| {
        Reader::new(pages, layout, overwrite, |ring| {
            Shared::try_new(Live(ring)).map(Handle)
        })
    });
    made.map_err(errno)
}

impl Buffer {
    /// Without rings. `ENOMEM`.
    pub fn new() -> Result<Self, Errno> {
        let mut cpus = Vec::new();
        crate::mm::reserve::room_exact(&mut cpus, smp::count())?;
        for number in 0..smp::count() {
            cpus.push(PerCpu {
                number,
                reader: Mutex::new(None),
                asked: AtomicUsize::new(0),
            });
        }
        Ok(Self {
            cpus,
            live: [const { Slot::empty() }; MAX_CPUS],
            order: AtomicU32::new(0),
        })
    }

    /// How the rings' pages are laid out.
    pub fn layout(&self) -> Layout {
        let size = PAGE_SIZE << self.order.load(Relaxed);
        Layout::native(size).unwrap_or(const { Layout::native(PAGE_SIZE).unwrap() })
    }

    /// Pages for a size in bytes.
    fn pages(&self, size: usize) -> usize {
        size.div_ceil(self.layout().data()).max(LEAST)
    }

    /// A CPU's reader, locked. `None` in it: there is no ring.
    pub fn reader(&self, cpu: usize) -> Option<MutexGuard<'_, Option<Reader>>> {
        Some(self.cpus.get(cpu)?.reader.lock())
    }

    /// [`Self::reader`], unless somebody else has it.
    pub fn reader_now(&self, cpu: usize) -> Option<MutexGuard<'_, Option<Reader>>> {
        self.cpus.get(cpu)?.reader.try_lock()
    }

    /// Whether there are rings.
    pub fn is_there(&self) -> bool {
        self.cpus.first().is_some_and(|cpu| cpu.reader.lock().is_some())
    }

    /// The size of a CPU's ring in bytes, as it was asked for.
    pub fn size(&self, cpu: usize) -> usize {
        self.cpus.get(cpu).map_or(0, |cpu| cpu.asked.load(Relaxed))
    }

    /// Makes the rings that are missing, of `size` bytes each. If `live`, writers find them from now on.
    /// `ENOMEM`: there are none then that there were not before. The caller holds the instance's lock. May
    /// sleep.
    pub fn make(&self, sizes: impl Fn(usize) -> usize, overwrite: bool, live: bool) -> Result<(), Errno> {
        let mut new = Vec::new();
        crate::mm::reserve::room_exact(&mut new, self.cpus.len())?;
        for (n, cpu) in self.cpus.iter().enumerate() {
            let missing = cpu.reader.lock().is_none();
            new.push(match missing {
                true => Some(ring(self.pages(sizes(n)), self.layout(), overwrite)?),
                false => None,
            });
        }
        for (n, (cpu, reader)) in self.cpus.iter().zip(new).enumerate() {
            let Some(reader) = reader else { continue };
            cpu.asked.store(sizes(n), Relaxed);
            if live {
                drop(self.live[n].replace(Some(reader.ring().0.clone())));
            } else {
                reader.ring().disable();
            }
            *cpu.reader.lock() = Some(reader);
        }
        Ok(())
    }

    /// Frees all rings.
    pub fn free(&self) {
        for cpu in &self.cpus {
            let (live, reader) = (self.live[cpu.number].replace(None), cpu.reader.lock().take());
            drop((live, reader));
        }
    }

    /// Gives the rings of `only` (or all) CPUs this size in bytes; events that fit stay. May sleep.
    pub fn resize(&self, size: usize, only: Option<usize>) -> Result<(), Errno> {
        let pages = self.pages(size);
        self.each_at_rest(only, |cpu, reader| {
            if reader.ring().pages() != pages {
                let share = |ring| Shared::try_new(Live(ring)).map(Handle);
                let new = crate::sync::lockdep::fallible(|| reader.resized(pages, share)).map_err(errno)?;
                if self.is_live(cpu) {
                    drop(self.live[cpu.number].replace(Some(new.ring().0.clone())));
                }
                *reader = new;
            }
            cpu.asked.store(size, Relaxed);
            Ok(())
        })
    }

    /// Lets all rings have pages of 2^`order` pages of memory. What was in them is lost. `EINVAL`: that is
    /// too large. On an error nothing has changed.
    pub fn set_order(&self, order: u32, overwrite: bool) -> Result<(), Errno> {
        let layout = PAGE_SIZE
            .checked_shl(order)
            .and_then(Layout::native)
            .ok_or(Errno::EINVAL)?;
        let mut all = Vec::new();
        crate::mm::reserve::room_exact(&mut all, self.cpus.len())?;
        for cpu in &self.cpus {
            let pages = cpu.asked.load(Relaxed).div_ceil(layout.data()).max(LEAST);
            all.push(ring(pages, layout, overwrite)?);
        }
        for (cpu, new) in self.cpus.iter().zip(all) {
            let mut reader = cpu.reader.lock();
            if self.is_live(cpu) {
                drop(self.live[cpu.number].replace(Some(new.ring().0.clone())));
            } else {
                new.ring().disable();
            }
            *reader = Some(new);
        }
        self.order.store(order, Relaxed);
        Ok(())
    }

    /// Rings that are made from now on have pages as those of `other`.
    pub fn take_order(&self, other: &Self) {
        self.order.store(other.order(), Relaxed);
    }

    /// 2^n pages of memory are a page of the rings'.
    pub fn order(&self) -> u32 {
        self.order.load(Relaxed)
    }

    /// Empties the rings of `only` (or all) CPUs. May sleep.
    pub fn clear(&self, only: Option<usize>) -> Result<(), Errno> {
        self.each_at_rest(only, |_, reader| reader.reset().map_err(errno))
    }

    /// Calls `f` with the readers of rings on which nobody records meanwhile.
    fn each_at_rest(
        &self,
        only: Option<usize>,
        mut f: impl FnMut(&PerCpu, &mut Reader) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let chosen = || {
            let all = self.cpus.iter().enumerate();
            all.filter(move |(n, _)| only.is_none_or(|only| only == *n))
                .map(|(_, cpu)| cpu)
        };
        let mut any = false;
        for cpu in chosen() {
            if let Some(reader) = cpu.reader.lock().as_ref() {
                reader.ring().disable();
                any = true;
            }
        }
        if any {
            rcu::synchronize_expedited();
        }
        let mut result = Ok(());
        for cpu in chosen() {
            let mut reader = cpu.reader.lock();
            let Some(reader) = reader.as_mut() else { continue };
            if result.is_ok() {
                result = f(cpu, reader);
            }
            reader.ring().enable();
        }
        result
    }

    /// Whether full rings lose their oldest events, or drop new ones.
    pub fn set_overwrite(&self, overwrite: bool) {
        for cpu in &self.cpus {
            if let Some(reader) = cpu.reader.lock().as_ref() {
                reader.ring().set_overwrite(overwrite);
            }
        }
    }
}

impl Buffer {
    /// Whether writers find the ring.
    fn is_live(&self, cpu: &PerCpu) -> bool {
        self.live[cpu.number].found(&rcu::read()).is_some()
    }
}

/// Lets writers find the rings of `spare` from now on, which are emptied first, and gives `spare` those that
/// they found until now, with their readers: of `only` (or all) CPUs. `EINVAL`: their sizes differ. May
/// sleep.
pub fn exchange(main: &Buffer, spare: &Buffer, only: Option<usize>) -> Result<(), Errno> {
    let pairs = || {
        let all = main.cpus.iter().zip(&spare.cpus).enumerate();
        all.filter(move |(n, _)| only.is_none_or(|only| only == *n))
            .map(|(_, pair)| pair)
    };
    for (ours, theirs) in pairs() {
        let ours = ours
            .reader
            .lock()
            .as_ref()
            .map(|reader| (reader.ring().pages(), reader.ring().layout()));
        let theirs = theirs
            .reader
            .lock()
            .as_ref()
            .map(|reader| (reader.ring().pages(), reader.ring().layout()));
        if ours != theirs || ours.is_none() {
            return Err(Errno::EINVAL);
        }
    }
    for (ours, theirs) in pairs() {
        let mut theirs = theirs.reader.lock();
        let Some(next) = theirs.as_mut() else { continue };
        // Nobody is in it: it is off, and was waited for when it became a spare.
        next.reset().map_err(errno)?;
        next.ring().enable();
        drop(main.live[ours.number].replace(Some(next.ring().0.clone())));
    }
    // Whoever found a former ring has ended. It stays on until then: what they record must not be lost.
    rcu::synchronize_expedited();
    for (ours, theirs) in pairs() {
        let mut first = ours.reader.lock();
        let mut second = theirs.reader.lock_nested(1);
        core::mem::swap(&mut *first, &mut *second);
        if let Some(former) = second.as_ref() {
            former.ring().disable();
        }
    }
    Ok(())
}
