//! Numbers with which a processor keeps the translations of several address spaces apart in its TLB (Arm's
//! ASIDs, Power's PIDs).
//!
//! Numbers are handed out in ascending order. When there are no more, a new *generation* begins: the number
//! that each CPU uses at that moment stays with its address space, all others become free. An address space
//! with a number of an older generation gets a new one when it is activated next. The architecture takes care
//! of old translations: it is told when a generation begins, and when a number gets another owner
//! ([`Hooks`]).
//!
//! Activating an address space again costs two loads and an exchange, without a lock
//! ([`Generations::activate`]). Everything else runs under the lock that the kernel puts around
//! [`Allocator`].

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering, fence};

/// What an address space keeps: its number and, in the higher bits, the generation in which it got it. 0: it
/// never had one.
#[derive(Debug, Default)]
pub struct Context(AtomicU64);

impl Context {
    /// For a new address space.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// For one that is a copy: it has numbers of its own.
    pub const fn copied(&self) -> Self {
        Self::new()
    }
}

/// What an architecture does about old translations. Called with the allocator locked.
pub trait Hooks {
    /// A new generation begins. From now on no CPU adds translations under a free number, but old ones may
    /// exist.
    fn began(&mut self) {}
    /// From now on `number` stands for another address space.
    fn taken(&mut self, number: usize);
}

/// The present generation, and the number with which each of `CPUS` runs. There are at most `64 * WORDS`
/// numbers.
pub struct Generations<const WORDS: usize, const CPUS: usize> {
    current: AtomicU64,
    /// Generation and number. 0: a new generation has begun since the CPU switched last.
    active: [AtomicU64; CPUS],
}

impl<const WORDS: usize, const CPUS: usize> Generations<WORDS, CPUS> {
    /// The generation is kept above the number.
    const STEP: u64 = 64 * WORDS as u64;

    /// The first generation. The 0 of a new context is older.
    #[allow(clippy::new_without_default, reason = "it is a static")]
    pub const fn new() -> Self {
        assert!(WORDS.is_power_of_two());
        Self {
            current: AtomicU64::new(Self::STEP),
            active: [const { AtomicU64::new(0) }; CPUS],
        }
    }

    const fn number(id: u64) -> usize {
        (id & (Self::STEP - 1)) as usize
    }

    #[inline(always)]
    fn is_fresh(&self, id: u64, order: Ordering) -> bool {
        (id ^ self.current.load(order)) & !(Self::STEP - 1) == 0
    }

    /// The number of `context`, if translations may be cached under it. A number of an older generation
    /// counts, if a CPU may have been using it when the new one began.
    #[inline(always)]
    pub fn current(&self, context: &Context) -> Option<usize> {
        let id = context.0.load(Ordering::Acquire);
        (id != 0).then_some(Self::number(id))
    }

    /// Makes `context` the address space of `cpu`, the calling CPU, and returns its number. Interrupts are
    /// off. `None`: the allocator must be asked.
    #[inline(always)]
    pub fn activate(&self, context: &Context, cpu: usize) -> Option<usize> {
        let id = context.0.load(Ordering::Relaxed);
        let active = &self.active[cpu];
        let before = active.load(Ordering::Relaxed);
        // If a new generation begins in between, it takes `before` out, and the exchange fails.
        let kept = before != 0
            && self.is_fresh(id, Ordering::Acquire)
            && active
                .compare_exchange(before, id, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
        kept.then_some(Self::number(id))
    }
}

/// Which numbers are in use.
pub struct Allocator<const WORDS: usize, const CPUS: usize> {
    /// The numbers that are taken in this generation.
    used: [u64; WORDS],
    /// The least number.
    first: usize,
    /// Where to look next.
    next: usize,
    /// The number that each CPU used when this generation began.
    reserved: [u64; CPUS],
}

impl<const WORDS: usize, const CPUS: usize> Allocator<WORDS, CPUS> {
    /// Hands out numbers from `first` on.
    pub const fn new(first: usize) -> Self {
        Self {
            used: [0; WORDS],
            first,
            next: first,
            reserved: [0; CPUS],
        }
    }

    /// Makes `context` the address space of `cpu`, the calling CPU, and returns its number, which is below
    /// `count`. There must be more numbers than CPUs. Interrupts are off.
    pub fn activate(
        &mut self,
        all: &Generations<WORDS, CPUS>,
        context: &Context,
        cpu: usize,
        count: usize,
        hooks: &mut impl Hooks,
    ) -> usize {
        let mut id = context.0.load(Ordering::Relaxed);
        if !all.is_fresh(id, Ordering::Relaxed) {
            id = self.assign(all, id, count, hooks);
            context.0.store(id, Ordering::Release);
            // A CPU that changes the page tables and still sees the old number has changed them before
            // anything is cached under the new one.
            fence(Ordering::SeqCst);
        }
        all.active[cpu].store(id, Ordering::Release);
        Generations::<WORDS, CPUS>::number(id)
    }

    fn take(&mut self, number: usize) -> bool {
        let (word, bit) = (number / 64, 1u64 << (number % 64));
        let free = self.used[word] & bit == 0;
        self.used[word] |= bit;
        free
    }

    /// A number for a context whose last one was `old`.
    fn assign(
        &mut self,
        all: &Generations<WORDS, CPUS>,
        old: u64,
        count: usize,
        hooks: &mut impl Hooks,
    ) -> u64 {
        let generation = all.current.load(Ordering::Relaxed);
        if old != 0 {
            // A CPU has been using it since the last generation: it keeps its number.
            let kept = generation | Generations::<WORDS, CPUS>::number(old) as u64;
            let mut running = false;
            for reserved in self.reserved.iter_mut().filter(|reserved| **reserved == old) {
                *reserved = kept;
                running = true;
            }
            if running {
                return kept;
            }
        }
        let (generation, number) = match self.find(count) {
            Some(number) => (generation, number),
            None => {
                let generation = self.new_generation(all);
                hooks.began();
                (
                    generation,
                    self.find(count).expect("there are more numbers than CPUs"),
                )
            }
        };
        hooks.taken(number);
        generation | number as u64
    }

    fn find(&mut self, count: usize) -> Option<usize> {
        while self.next < count {
            let number = self.next;
            self.next += 1;
            if self.take(number) {
                return Some(number);
            }
        }
        None
    }

    fn new_generation(&mut self, all: &Generations<WORDS, CPUS>) -> u64 {
        let generation = all.current.load(Ordering::Relaxed) + Generations::<WORDS, CPUS>::STEP;
        all.current.store(generation, Ordering::Release);
        self.used.fill(0);
        self.next = self.first;
        for (cpu, active) in all.active.iter().enumerate() {
            let was = active.swap(0, Ordering::AcqRel);
            // 0: the CPU has not switched since the last generation began, and uses what was reserved for it
            // then.
            if was != 0 {
                self.reserved[cpu] = was;
            }
            let number = Generations::<WORDS, CPUS>::number(self.reserved[cpu]);
            if number != 0 {
                self.take(number);
            }
        }
        generation
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const CPUS: usize = 3;
    const NUMBERS: usize = 7;
    const FIRST: usize = 1;

    /// The machine: which address space each CPU runs, under which number, and which translations may be in
    /// some TLB.
    struct Machine {
        all: Generations<1, CPUS>,
        allocator: Allocator<1, CPUS>,
        contexts: Vec<Context>,
        running: [Option<(usize, usize)>; CPUS],
        cached: BTreeSet<(usize, usize)>,
        flush_at_once: bool,
        generations: usize,
    }

    /// Empties all TLBs when a generation begins, or those of a number when it changes hands.
    #[derive(Default)]
    struct Tlb {
        flush_at_once: bool,
        began: bool,
        taken: Option<usize>,
    }

    impl Hooks for Tlb {
        fn began(&mut self) {
            self.began = true;
        }
        fn taken(&mut self, number: usize) {
            self.taken = Some(number);
        }
    }

    impl Machine {
        fn new(contexts: usize, flush_at_once: bool) -> Self {
            Self {
                all: Generations::new(),
                allocator: Allocator::new(FIRST),
                contexts: (0..contexts).map(|_| Context::new()).collect(),
                running: [None; CPUS],
                cached: BTreeSet::new(),
                flush_at_once,
                generations: 0,
            }
        }

        fn run(&mut self, cpu: usize, which: usize) {
            let mut tlb = Tlb {
                flush_at_once: self.flush_at_once,
                ..Tlb::default()
            };
            let context = &self.contexts[which];
            let number = self.all.activate(context, cpu).unwrap_or_else(|| {
                self.allocator
                    .activate(&self.all, context, cpu, NUMBERS, &mut tlb)
            });
            if tlb.began {
                self.generations += 1;
                if tlb.flush_at_once {
                    self.cached.clear();
                }
            }
            if let Some(taken) = tlb.taken
                && !tlb.flush_at_once
            {
                self.cached.retain(|(n, _)| *n != taken);
            }
            assert!((FIRST..NUMBERS).contains(&number));
            assert_eq!(self.all.current(context), Some(number));
            self.running[cpu] = Some((number, which));
            // A running CPU may cache translations at any time.
            self.cached.extend(self.running.iter().flatten());
            for (number, which) in &self.cached {
                let others = self.cached.iter().filter(|(n, w)| n == number && w != which);
                assert_eq!(others.count(), 0, "two address spaces under number {number}");
            }
        }
    }

    fn storm(contexts: usize, flush_at_once: bool) -> usize {
        let mut machine = Machine::new(contexts, flush_at_once);
        let mut state = 1u64;
        for _ in 0..20_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let pick = (state >> 33) as usize;
            machine.run(pick % CPUS, pick / CPUS % contexts);
        }
        machine.generations
    }

    #[test]
    fn no_number_stands_for_two_address_spaces() {
        for contexts in [1, 4, 6, 7, 20, 100] {
            for flush_at_once in [false, true] {
                let generations = storm(contexts, flush_at_once);
                // As many address spaces as numbers need no second generation.
                assert_eq!(
                    generations == 0,
                    contexts <= NUMBERS - FIRST,
                    "{contexts} contexts"
                );
            }
        }
    }

    #[test]
    fn who_runs_through_generations_keeps_its_number() {
        let mut machine = Machine::new(30, true);
        machine.run(0, 0);
        let (number, _) = machine.running[0].unwrap();
        for which in 1..30 {
            machine.run(1 + which % 2, which);
        }
        assert!(machine.generations > 1);
        assert_eq!(machine.all.current(&machine.contexts[0]), Some(number));
        machine.run(0, 0);
        assert_eq!(machine.running[0], Some((number, 0)));
    }

    #[test]
    fn a_fresh_context_has_no_number() {
        let machine = Machine::new(1, true);
        assert_eq!(machine.all.current(&machine.contexts[0]), None);
        assert_eq!(machine.all.activate(&machine.contexts[0], 0), None);
    }

    #[test]
    fn an_old_number_is_not_quick() {
        let mut machine = Machine::new(10, true);
        machine.run(0, 0);
        for which in 1..10 {
            machine.run(1, which);
        }
        machine.run(0, 9);
        assert_eq!(machine.all.activate(&machine.contexts[1], 0), None);
    }
}
