//! Address-space identifiers: the tag that lets translations of several address spaces live in the TLB
//! together. `crates/context-ids` tells who has which; the TLB is emptied on every CPU when a generation
//! begins. Identifier 0 belongs to no address space.

use super::sysreg;
use crate::sync::{IrqSpinLock, MAX_CPUS};
pub use limen_context_ids::Context as MmContext;
use limen_context_ids::{Allocator, Generations, Hooks};

/// Room for the most identifiers a processor can have, 2^16.
const WORDS: usize = (1 << 16) / 64;

static GENERATIONS: Generations<WORDS, MAX_CPUS> = Generations::new();
static ALLOCATOR: IrqSpinLock<Allocator<WORDS, MAX_CPUS>> = IrqSpinLock::new(Allocator::new(1));

struct Tlb;

impl Hooks for Tlb {
    fn began(&mut self) {
        sysreg::flush_all();
    }
    fn taken(&mut self, number: usize) {
        sysreg::asid_taken(number);
    }
}

/// The identifier of `context`, if anything may be cached under it.
#[inline]
pub fn current(context: &MmContext) -> Option<u64> {
    GENERATIONS.current(context).map(|number| number as u64)
}

/// The identifier `context` runs with on this CPU from now on. Interrupts are off.
#[inline]
pub fn activate(context: &MmContext) -> u64 {
    let cpu = super::cpus::cpu_id();
    let number = GENERATIONS.activate(context, cpu);
    number.unwrap_or_else(|| slow(context, cpu)) as u64
}

#[cold]
fn slow(context: &MmContext, cpu: usize) -> usize {
    let mut allocator = ALLOCATOR.lock();
    allocator.activate(&GENERATIONS, context, cpu, sysreg::asid_count(), &mut Tlb)
}
