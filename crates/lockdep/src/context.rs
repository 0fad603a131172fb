//! The locks that one thread holds. Interrupts run on the thread that they interrupt and push onto the same
//! stack, at a depth of their own.

use crate::class::{ClassId, Mode, Site};

/// How many locks a thread can hold at the same time, with those of interrupts on top of it.
pub const MAX_HELD: usize = 48;

/// A lock that is being taken.
#[derive(Clone, Copy, Debug)]
pub struct Acquire {
    /// The lock's address.
    pub instance: usize,
    /// Its class.
    pub class: ClassId,
    /// How it is taken.
    pub mode: Mode,
    /// It was only tried, and was free: nobody waited.
    pub attempt: bool,
    /// Its waiters sleep.
    pub sleeps: bool,
    /// The memory allocators take it, too, so they must not be used while it is held.
    pub allocator: bool,
    /// Where it is taken.
    pub site: Site,
}

/// A lock that is held, or about to be.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// The lock's address.
    pub instance: usize,
    /// Its class.
    pub class: ClassId,
    /// How it is held.
    pub mode: Mode,
    /// The depth of hardware interrupts at which it was taken; 0 in threads.
    pub irq: u8,
    /// Its waiters sleep.
    pub sleeps: bool,
    /// The allocators take it, too.
    pub allocator: bool,
    /// Where it was taken.
    pub site: Site,
    /// The key of the chain of this lock and those that were taken before it at the same interrupt depth.
    pub(crate) chain: u64,
}

/// The locks that a thread holds, and its interrupt state.
pub struct Context {
    held: [Option<Held>; MAX_HELD],
    depth: u16,
    irq: u8,
    /// Whether interrupts are on, as far as the validator was told.
    pub irqs_on: bool,
}

impl Context {
    /// Of a thread that holds no lock, with interrupts off.
    pub const fn new() -> Self {
        Self {
            held: [None; MAX_HELD],
            depth: 0,
            irq: 0,
            irqs_on: false,
        }
    }
    /// The held locks, the oldest first.
    pub fn held(&self) -> impl DoubleEndedIterator<Item = &Held> {
        self.held[..self.depth as usize].iter().flatten()
    }
    /// Whether nothing is held.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.depth == 0
    }
    /// How deep in hardware interrupts it is.
    #[inline]
    pub fn irq_depth(&self) -> u8 {
        self.irq
    }
    /// The held locks that matter for a lock that is taken now: those of the same interrupt depth.
    pub(crate) fn here(&self) -> impl DoubleEndedIterator<Item = &Held> {
        let irq = self.irq;
        self.held().filter(move |h| h.irq == irq)
    }
    /// The key of the chain of locks held at this interrupt depth.
    #[inline]
    pub(crate) fn chain(&self) -> u64 {
        match self.depth.checked_sub(1).and_then(|top| self.held[top as usize]) {
            Some(top) if top.irq == self.irq => top.chain,
            _ => CHAIN_START,
        }
    }
    /// Adds a lock. `false`: there is no room.
    #[inline]
    pub(crate) fn push(&mut self, held: Held) -> bool {
        match self.held.get_mut(self.depth as usize) {
            Some(slot) => {
                *slot = Some(held);
                self.depth += 1;
                true
            }
            None => false,
        }
    }
    /// Removes the newest entry for this lock. `false`: there is none.
    #[inline]
    pub(crate) fn remove(&mut self, instance: usize) -> bool {
        let depth = self.depth as usize;
        let found = self.held[..depth]
            .iter()
            .rposition(|h| h.is_some_and(|h| h.instance == instance));
        let Some(at) = found else { return false };
        self.depth -= 1;
        if at + 1 < depth {
            self.close_gap(at, depth);
        }
        true
    }
    /// Removes an entry below the top. Those above it move down and get new keys.
    fn close_gap(&mut self, at: usize, depth: usize) {
        self.held.copy_within(at + 1..depth, at);
        for i in at..depth - 1 {
            let before = match i.checked_sub(1).and_then(|b| self.held[b]) {
                Some(before) => (before.irq, before.chain),
                None => (u8::MAX, 0),
            };
            if let Some(h) = &mut self.held[i] {
                let from = if before.0 == h.irq { before.1 } else { CHAIN_START };
                h.chain = chain_key(from, h.class, h.mode);
            }
        }
    }
    pub(crate) fn enter_irq(&mut self) {
        self.irq += 1;
    }
    /// Leaves an interrupt. Locks that it still holds are dropped. `false`: there were some.
    pub(crate) fn leave_irq(&mut self) -> bool {
        let mut clean = true;
        while let Some(top) = self.depth.checked_sub(1) {
            if self.held[top as usize].is_none_or(|h| h.irq < self.irq) {
                break;
            }
            self.depth = top;
            clean = false;
        }
        self.irq = self.irq.saturating_sub(1);
        clean
    }
    /// Forgets all held locks.
    pub(crate) fn clear(&mut self) {
        self.depth = 0;
    }
}

impl Default for Context {
    fn default() -> Self {
        Self::new()
    }
}

pub(crate) const CHAIN_START: u64 = 0x9e37_79b9_7f4a_7c15;

/// The key of a chain with one more lock at its end.
#[inline]
pub(crate) fn chain_key(chain: u64, class: ClassId, mode: Mode) -> u64 {
    let x = (chain ^ ((u64::from(class.0) << 2) | mode as u64)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (x ^ (x >> 32)).wrapping_mul(0xc4ce_b9fe_1a85_ec53) ^ (x >> 29)
}
