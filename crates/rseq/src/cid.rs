//! Concurrency ids: small numbers that differ between threads of one address space that run at the same time,
//! so that a program needs only as many buffers as it has threads or processors, whichever are fewer.
//!
//! As long as there are enough ids, each thread keeps one for life, and nothing has to be done when it runs.
//! When there are more threads than processors on which they may run, ids belong to processors from then on.
//! In between is a *hand-over*: each processor is asked, in an interrupt, which id its thread has, and that
//! becomes the processor's. When all have answered, the ids of threads that did not run are free.

use crate::{Event, Ids};

/// How many processors there may be.
pub const MAX: usize = 64;

const NONE: u8 = u8::MAX;

/// The ids of an address space. The caller locks it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cids {
    /// The ids that are in use.
    taken: u64,
    /// The ids of the processors, if ids belong to processors.
    of_cpu: [u8; MAX],
    mode: Mode,
}

/// To whom ids belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// To threads.
    Threads,
    /// Processors are being asked.
    HandOver,
    /// To processors.
    Cpus,
}

/// The id that a thread has. The kernel keeps it as this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Own(pub u32);

impl Own {
    /// None, or none that was told to the program: it has to ask for one.
    pub const NONE: Self = Self(u32::MAX);
    /// That of its processor, which was told to the program last. Smaller numbers are ids of the thread's
    /// own.
    const CPUS: Self = Self(u32::MAX - 1);

    /// Its id on processor `cpu`, if that is known without looking at the address space: the one that was
    /// told, or its own, unless ids belong to processors by now (`of_cpus`).
    #[inline(always)]
    pub fn known(self, told: Ids, cpu: u32, of_cpus: impl FnOnce() -> bool) -> Option<u32> {
        if self == Self::CPUS && told.cpu == cpu {
            return Some(told.cid);
        }
        (self.is_own() && !of_cpus()).then_some(self.0)
    }

    /// Whether it is the thread's own id.
    #[inline(always)]
    pub fn is_own(self) -> bool {
        self.0 < Self::CPUS.0
    }

    /// What the thread has after the chosen id was told to the program.
    #[inline(always)]
    pub fn told(self) -> Self {
        if self == Self::NONE { Self::CPUS } else { self }
    }

    /// The work on the way out of a thread that has this, if ids belong to processors (`of_cpus`).
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
    /// Without ids in use.
    pub const fn new() -> Self {
        Self {
            taken: 0,
            of_cpu: [NONE; MAX],
            mode: Mode::Threads,
        }
    }

    /// To whom ids belong.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// An id for a thread that may run on `cpus` processors. `None`: there are no more; a hand-over must
    /// begin, or has.
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

    /// A thread no longer needs its own id.
    pub fn give_back(&mut self, cid: u32) {
        if self.mode == Mode::Threads {
            self.taken &= !(1 << cid);
        }
    }

    /// Begins a hand-over. `false`: one has begun already.
    pub fn begin_hand_over(&mut self) -> bool {
        let begins = self.mode == Mode::Threads;
        if begins {
            self.mode = Mode::HandOver;
        }
        begins
    }

    /// Processor `cpu` answers: it runs a thread that has `own`, which becomes the processor's id, unless it
    /// has one. Returns what the thread has then, and the work that it gets. `None`: the thread has no id of
    /// its own.
    pub fn hand_over(&mut self, cpu: usize, own: Own) -> Option<(Own, Event)> {
        if !own.is_own() {
            return None;
        }
        if self.of_cpu[cpu] == NONE {
            self.of_cpu[cpu] = own.0 as u8;
        }
        Some((Own::NONE, Event::ALL))
    }

    /// The id of a thread on processor `cpu` of `cpus`, which may run on `allowed` processors, and what it
    /// has then. No id: none is free now.
    pub fn choose(&mut self, cpu: usize, cpus: usize, allowed: usize, own: Own) -> (Own, Option<u32>) {
        if self.mode != Mode::Threads {
            // Its own id, if it had one, belongs to the processor by now, or is free.
            return (Own::NONE, self.of_cpu(cpu, cpus));
        }
        let cid = self.take_for_thread(allowed);
        (cid.map_or(own, Own), cid)
    }

    /// All processors have been asked.
    pub fn end_hand_over(&mut self) {
        self.mode = Mode::Cpus;
        self.taken = self
            .of_cpu
            .iter()
            .filter(|cid| **cid != NONE)
            .fold(0, |taken, cid| taken | 1 << *cid);
    }

    /// The id of processor `cpu` of `cpus`. It never changes. `None`: only the end of the hand-over will free
    /// one.
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
