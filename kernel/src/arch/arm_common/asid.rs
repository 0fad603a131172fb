//! Address-space identifiers: the tag that lets translations of several address spaces live in the TLB together.
//!
//! Identifiers are handed out in order. When they run out a new *generation* begins: every CPU's current identifier stays valid for
//! the address space that has it, all others become free, and the TLB is emptied on every CPU. An address space whose identifier is of
//! an older generation gets a new one the next time it is activated. Identifier 0 belongs to no address space.

use super::sysreg;
use crate::sync::{IrqSpinLock, MAX_CPUS};
use core::sync::atomic::{AtomicU64, Ordering};

/// The most identifiers a processor can have.
const MAX_ASIDS: usize = 1 << 16;
/// The generation is kept above the identifier.
const GENERATION: u64 = MAX_ASIDS as u64;

/// What the processor keeps per address space: its identifier and the generation that gave it.
#[derive(Debug, Default)]
pub struct MmContext {
    id: AtomicU64,
}

impl MmContext {
    /// For a new address space.
    pub const fn new() -> Self {
        Self {
            id: AtomicU64::new(0),
        }
    }
}

/// The current generation. Starts at one, so that a fresh context's zero is old.
static CURRENT: AtomicU64 = AtomicU64::new(GENERATION);
/// What each CPU runs with (generation and identifier); zero if a new generation has begun since.
static ACTIVE: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(0) }; MAX_CPUS];

struct Allocator {
    /// Identifiers taken in this generation.
    used: [u64; MAX_ASIDS / 64],
    /// Where to look next.
    next: usize,
    /// What each CPU ran with when this generation began.
    reserved: [u64; MAX_CPUS],
}

static ALLOCATOR: IrqSpinLock<Allocator> = IrqSpinLock::new(Allocator {
    used: [0; MAX_ASIDS / 64],
    next: 1,
    reserved: [0; MAX_CPUS],
});

/// The identifier of `context` if it is of the current generation.
#[inline]
pub fn current(context: &MmContext) -> Option<u64> {
    let id = context.id.load(Ordering::Acquire);
    let fresh = (id ^ CURRENT.load(Ordering::Acquire)) & !(GENERATION - 1) == 0;
    // An identifier of an older generation may still be in use on a CPU that was running when the new one began.
    if fresh || (id != 0 && ACTIVE_OLD.load(Ordering::Acquire) != 0) {
        Some(id & (GENERATION - 1))
    } else {
        None
    }
}

/// Nonzero once a generation has ended: from then on an old identifier may be in use (see [`current`]).
static ACTIVE_OLD: AtomicU64 = AtomicU64::new(0);

/// The identifier `context` runs with on this CPU from now on. Interrupts are off.
#[inline]
pub fn activate(context: &MmContext) -> u64 {
    let id = context.id.load(Ordering::Relaxed);
    let active = &ACTIVE[super::smp::cpu_id()];
    let before = active.load(Ordering::Relaxed);
    // If a new generation begins meanwhile, it takes `before` away and the exchange fails.
    if before != 0
        && (id ^ CURRENT.load(Ordering::Acquire)) & !(GENERATION - 1) == 0
        && active
            .compare_exchange(before, id, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    {
        return id & (GENERATION - 1);
    }
    slow(context, active)
}

#[cold]
fn slow(context: &MmContext, active: &AtomicU64) -> u64 {
    let mut allocator = ALLOCATOR.lock();
    let mut id = context.id.load(Ordering::Relaxed);
    if (id ^ CURRENT.load(Ordering::Relaxed)) & !(GENERATION - 1) != 0 {
        id = allocator.assign(id);
        context.id.store(id, Ordering::Release);
    }
    active.store(id, Ordering::Release);
    id & (GENERATION - 1)
}

impl Allocator {
    fn take(&mut self, number: usize) -> bool {
        let (word, bit) = (number / 64, 1u64 << (number % 64));
        let free = self.used[word] & bit == 0;
        self.used[word] |= bit;
        free
    }

    /// A new identifier for a context that last had `old`.
    fn assign(&mut self, old: u64) -> u64 {
        let generation = CURRENT.load(Ordering::Relaxed);
        let number = old & (GENERATION - 1);
        if old != 0 {
            // Still running somewhere since the last generation: keeps its number.
            let mut kept = false;
            for reserved in &mut self.reserved {
                if *reserved == old {
                    *reserved = generation | number;
                    kept = true;
                }
            }
            if kept {
                return generation | number;
            }
        }
        let (generation, number) = match self.find() {
            Some(number) => (generation, number),
            None => {
                let generation = self.new_generation();
                // There are many more numbers than CPUs.
                (generation, self.find().unwrap_or(0))
            }
        };
        sysreg::asid_taken(number);
        generation | number as u64
    }

    fn find(&mut self) -> Option<usize> {
        let count = sysreg::asid_count();
        while self.next < count {
            let number = self.next;
            self.next += 1;
            if self.take(number) {
                return Some(number);
            }
        }
        None
    }

    fn new_generation(&mut self) -> u64 {
        let generation = CURRENT.load(Ordering::Relaxed) + GENERATION;
        ACTIVE_OLD.store(1, Ordering::Release);
        CURRENT.store(generation, Ordering::Release);
        self.used.fill(0);
        self.next = 1;
        for (cpu, active) in ACTIVE.iter().enumerate() {
            let was = active.swap(0, Ordering::AcqRel);
            // Zero: that CPU has not switched since the last generation began, and still runs with what was reserved then.
            if was != 0 {
                self.reserved[cpu] = was;
            }
            let number = self.reserved[cpu] as usize & (MAX_ASIDS - 1);
            if number != 0 {
                self.take(number);
            }
        }
        // From here on no CPU can make new entries under a number that is free; drop those that exist.
        sysreg::flush_all();
        generation
    }
}
