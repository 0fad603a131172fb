//! Concurrency ids: small numbers that differ between threads of one address space that run at the same time, so that user space can have as many
//! buffers as it has threads or processors, whichever is less.
//!
//! As long as there are enough, each thread keeps one for life, and nothing is to be done when it runs. When there are more threads than processors they
//! may run on, the ids are the processors' from then on. Between the two lies a *hand-over*: every processor is asked, in an interrupt, what its thread has;
//! the thread's id becomes the processor's. Ids of threads that did not run are free once all have answered.

use crate::{Event, Ids};

/// Most processors.
pub const MAX: usize = 64;

const NONE: u8 = u8::MAX;

/// The ids of an address space. The caller keeps it under a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cids {
    /// Given to somebody.
    taken: u64,
    /// The processors', if they are theirs.
    of_cpu: [u8; MAX],
    mode: Mode,
}

/// Whose the ids are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The threads'.
    Threads,
    /// Processors are being asked.
    HandOver,
    /// The processors'.
    Cpus,
}

/// What a thread has. The kernel keeps it as the number it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Own(pub u32);

impl Own {
    /// None, or none that it was told: the next is asked for.
    pub const NONE: Self = Self(u32::MAX);
    /// Its processor's, which was the last that it was told. Less is an id of its own.
    const CPUS: Self = Self(u32::MAX - 1);

    /// Its id on processor `cpu`, if that is known without a look at the address space's: what it was told, or its own, unless the ids are the processors'
    /// (`of_cpus`) by now.
    #[inline(always)]
    pub fn known(self, told: Ids, cpu: u32, of_cpus: impl FnOnce() -> bool) -> Option<u32> {
        if self == Self::CPUS && told.cpu == cpu {
            return Some(told.cid);
        }
        (self.is_own() && !of_cpus()).then_some(self.0)
    }

    /// Whether it is the thread's own.
    #[inline(always)]
    pub fn is_own(self) -> bool {
        self.0 < Self::CPUS.0
    }

    /// What it is once the thread has been told what was chosen.
    #[inline(always)]
    pub fn told(self) -> Self {
        if self == Self::NONE { Self::CPUS } else { self }
    }

    /// What follows on the way out of a thread that has this, if the ids are the processors' (`of_cpus`).
    #[inline(always)]
    pub fn at_exit(self, of_cpus: impl FnOnce() -> bool) -> Event {
        if self.is_own() && of_cpus() {
            Event::ALL
        } else {
            Event::empty()
        }
    }
}

impl Cids {
    /// Nobody has one.
    pub const fn new() -> Self {
        Self {
            taken: 0,
            of_cpu: [NONE; MAX],
            mode: Mode::Threads,
        }
    }

    /// Whose they are.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// One for a thread that may run on `cpus` processors; `None`: there are no more, a hand-over must begin (or has).
    pub fn take_for_thread(&mut self, cpus: usize) -> Option<u32> {
        if self.mode != Mode::Threads {
            return None;
        }
        let n = self.taken.trailing_ones();
        if n as usize >= cpus.clamp(1, MAX) {
            return None;
        }
        self.taken |= 1 << n;
        Some(n)
    }

    /// A thread does not need its own any more.
    pub fn give_back(&mut self, cid: u32) {
        if self.mode == Mode::Threads {
            self.taken &= !(1 << cid);
        }
    }

    /// Begins a hand-over; `false` if one has begun already.
    pub fn begin_hand_over(&mut self) -> bool {
        let begins = self.mode == Mode::Threads;
        if begins {
            self.mode = Mode::HandOver;
        }
        begins
    }

    /// Processor `cpu` answers: it runs a thread that has `own`, which is the processor's now, unless that has one. What the thread has then, and what
    /// follows for it; `None`: it has nothing of its own.
    pub fn hand_over(&mut self, cpu: usize, own: Own) -> Option<(Own, Event)> {
        if !own.is_own() {
            return None;
        }
        if self.of_cpu[cpu] == NONE {
            self.of_cpu[cpu] = own.0 as u8;
        }
        Some((Own::NONE, Event::ALL))
    }

    /// The id of a thread on processor `cpu` of `cpus`, which may run on `allowed` of them, and what it has then; no id: there is none to be had right now.
    pub fn choose(&mut self, cpu: usize, cpus: usize, allowed: usize, own: Own) -> (Own, Option<u32>) {
        if self.mode != Mode::Threads {
            // Its own, if it had one, is the processor's by now, or nobody's.
            return (Own::NONE, self.of_cpu(cpu, cpus));
        }
        let cid = self.take_for_thread(allowed);
        (cid.map_or(own, Own), cid)
    }

    /// All processors were asked.
    pub fn end_hand_over(&mut self) {
        self.mode = Mode::Cpus;
        self.taken = self
            .of_cpu
            .iter()
            .filter(|cid| **cid != NONE)
            .fold(0, |taken, cid| taken | 1 << *cid);
    }

    /// That of processor `cpu` of `cpus`; `None`: only the end of the hand-over will free one. Once given it stays.
    pub fn of_cpu(&mut self, cpu: usize, cpus: usize) -> Option<u32> {
        if self.of_cpu[cpu] == NONE {
            let n = self.taken.trailing_ones();
            if n as usize >= cpus.clamp(1, MAX) {
                return None;
            }
            self.taken |= 1 << n;
            self.of_cpu[cpu] = n as u8;
        }
        Some(self.of_cpu[cpu].into())
    }
}

impl Default for Cids {
    fn default() -> Self {
        Self::new()
    }
}
