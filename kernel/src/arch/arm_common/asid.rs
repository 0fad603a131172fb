//! Address-space identifiers: the tag that lets translations of several address spaces live in the TLB
//! together. `crates/context-ids` tells who has which; the TLB is emptied on every CPU when a generation
//! begins. Identifier 0 belongs to no address space.

use super::{cpus, sysreg};
use crate::sync::{IrqSpinLock, MAX_CPUS};
use core::marker::PhantomData;
pub use limen_context_ids::Context as MmContext;
use limen_context_ids::{Allocator, Generations, Hooks};

/// Room for the most identifiers a processor can have, 2^16.
const WORDS: usize = (1 << 16) / 64;

static GENERATIONS: Generations<WORDS, MAX_CPUS> = Generations::new();
static ALLOCATOR: IrqSpinLock<Allocator<WORDS, MAX_CPUS>> = IrqSpinLock::new(Allocator::new(1));

/// What the processor's format of page tables says about identifiers.
pub(super) trait Identifiers {
    /// How many there are, 0 among them.
    fn count() -> usize;
    /// An identifier begins to be used for another address space.
    fn taken(_number: usize) {}
}

/// What an allocation of a number does to the TLB and to the tables.
struct Effects<I>(PhantomData<I>);

impl<I: Identifiers> Hooks for Effects<I> {
    fn began(&mut self) {
        sysreg::flush_all();
    }
    fn taken(&mut self, number: usize) {
        I::taken(number);
    }
}

/// The identifier of `context`, if anything may be cached under it.
#[inline]
pub fn current(context: &MmContext) -> Option<u64> {
    GENERATIONS.current(context).map(|number| number as u64)
}

/// The identifier `context` runs with on this CPU from now on. Interrupts are off.
#[inline]
pub(super) fn activate<I: Identifiers>(context: &MmContext) -> u64 {
    let cpu = cpus::cpu_id();
    let number = GENERATIONS.activate(context, cpu);
    number.unwrap_or_else(|| slow::<I>(context, cpu)) as u64
}

#[cold]
fn slow<I: Identifiers>(context: &MmContext, cpu: usize) -> usize {
    let mut effects = Effects::<I>(PhantomData);
    ALLOCATOR
        .lock()
        .activate(&GENERATIONS, context, cpu, I::count(), &mut effects)
}
