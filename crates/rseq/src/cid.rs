//! Concurrency ids: small numbers that differ between threads of one address space that run at the same time, so that user space can have as many
//! buffers as it has threads or processors, whichever is less.
//!
//! As long as there are enough, each thread keeps one for life, and nothing is to be done when it runs. When there are more threads than processors they
//! may run on, the ids are the processors' from then on. Between the two lies a *hand-over*: every processor is asked, in an interrupt, what its thread has;
//! the thread's id becomes the processor's. Ids of threads that did not run are free once all have answered.

/// Most processors.
pub const MAX: usize = 64;

const NONE: u8 = u8::MAX;

/// The ids of an address space. The caller keeps it under a lock.
#[derive(Clone, Debug)]
pub struct Cids {
    /// Given to somebody.
    taken: u64,
    /// The processors', if they are theirs.
    of_cpu: [u8; MAX],
    mode: Mode,
}

/// Whose the ids are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The threads'.
    Threads,
    /// Processors are being asked.
    HandOver,
    /// The processors'.
    Cpus,
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

    /// Processor `cpu` runs a thread that has `cid`: it is the processor's now, unless it has one.
    pub fn hand_over(&mut self, cpu: usize, cid: u32) {
        if self.of_cpu[cpu] == NONE {
            self.of_cpu[cpu] = cid as u8;
        }
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
