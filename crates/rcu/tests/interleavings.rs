//! Readers, writers and the driver on other CPUs, in every interleaving and with everything that the C11
//! memory model lets them see: nobody reads what has been freed. Run with `RUSTFLAGS="--cfg loom" cargo test
//! -p limen-rcu --test interleavings`; without that configuration this file is empty.
//!
//! An element is a cell: readers look at it, the writer writes to it when it may free it, and loom fails when
//! the one does not come after the other. The same models find the mistakes in CPUs that are wrong in usual
//! ways, and in fences that are missing.

#![cfg(loom)]

use limen_rcu::{Atomics, Glances, GracePeriods, Machine, Presence, Reader, Seen, Sleepable, Word};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering, fence};
use loom::thread;
use std::marker::PhantomData;

struct Explored(AtomicUsize);

impl Word for Explored {
    fn new(value: usize) -> Self {
        Self(AtomicUsize::new(value))
    }
    fn load(&self, order: Ordering) -> usize {
        self.0.load(order)
    }
    fn store(&self, value: usize, order: Ordering) {
        self.0.store(value, order);
    }
    fn fetch_add(&self, value: usize, order: Ordering) -> usize {
        self.0.fetch_add(value, order)
    }
    fn replace(&self, from: usize, to: usize) -> Result<(), usize> {
        self.0
            .compare_exchange_weak(from, to, Ordering::AcqRel, Ordering::Relaxed)
            .map(|_| ())
    }
}

/// With the fences that the crate asks for.
struct Fenced;

impl Atomics for Fenced {
    type Word = Explored;
    fn fence() {
        fence(Ordering::SeqCst);
    }
}

/// With fences that order too little: a wrong processor, or a wrong kernel.
struct Weak;

impl Atomics for Weak {
    type Word = Explored;
    fn fence() {
        fence(Ordering::AcqRel);
    }
}

/// A pointer to one of two elements.
struct Structure {
    now: AtomicUsize,
    elements: [UnsafeCell<()>; 2],
}

impl Structure {
    fn new() -> Self {
        Self {
            now: AtomicUsize::new(0),
            elements: [UnsafeCell::new(()), UnsafeCell::new(())],
        }
    }
    /// One look of a reader: at the pointer, then at the element.
    fn look(&self) {
        self.elements[self.now.load(Ordering::Acquire)].with(|_| ());
    }
    fn remove(&self) {
        self.now.store(1, Ordering::Release);
    }
    /// Nobody reads the removed element any more, it is said.
    fn free(&self) {
        self.elements[0].with_mut(|_| ());
    }
}

/// One CPU that reads, and what the others share with it.
struct Shared<A: Atomics> {
    structure: Structure,
    periods: GracePeriods<A>,
    presence: Presence<A>,
    switches: AtomicUsize,
}

impl<A: Atomics> Shared<A> {
    fn new() -> Self {
        Self {
            structure: Structure::new(),
            // The numbers wrap.
            periods: GracePeriods::from_number(usize::MAX),
            presence: Presence::default(),
            switches: AtomicUsize::new(0),
        }
    }
    /// The CPU switches between threads.
    fn switches(&self) {
        let count = self.switches.load(Ordering::Relaxed);
        self.switches.store(count + 1, Ordering::Release);
        A::fence();
    }
}

struct Cpus<'a, A: Atomics>(&'a Shared<A>, PhantomData<A>);

impl<A: Atomics> Machine for Cpus<'_, A> {
    type Atomics = A;
    fn presence(&self, cpu: usize) -> Option<&Presence<A>> {
        (cpu == 0).then_some(&self.0.presence)
    }
    fn switches(&self, _: usize) -> usize {
        self.0.switches.load(Ordering::Acquire)
    }
}

/// The driver makes one grace period.
fn drive<A: Atomics>(shared: &Shared<A>) {
    let machine = Cpus(shared, PhantomData);
    let mut seen = [Seen::default(); 2];
    let mut period = shared.periods.begin(&machine, &mut seen);
    while !period.scan(&machine) {
        thread::yield_now();
    }
    period.end();
}

/// A writer, which drives its grace period itself, against a CPU that does `reads` and then goes away.
fn explore<A: Atomics + 'static>(reads: fn(&Shared<A>)) {
    loom::model(move || {
        let shared = Arc::new(Shared::<A>::new());
        let cpu = {
            let shared = shared.clone();
            thread::spawn(move || {
                reads(&shared);
                shared.presence.goes();
            })
        };
        shared.structure.remove();
        let cookie = shared.periods.cookie();
        while !shared.periods.is_over(cookie) {
            drive(&shared);
        }
        shared.structure.free();
        cpu.join().unwrap();
    });
}

fn passes<A: Atomics>(shared: &Shared<A>) {
    shared.structure.look();
    shared.presence.passes();
    shared.structure.look();
}

fn switches<A: Atomics>(shared: &Shared<A>) {
    shared.structure.look();
    shared.switches();
    shared.structure.look();
}

fn comes_back<A: Atomics>(shared: &Shared<A>) {
    shared.presence.goes();
    shared.presence.comes_back();
    shared.structure.look();
}

#[test]
fn no_reader_sees_what_is_free() {
    explore::<Fenced>(passes);
    explore::<Fenced>(switches);
    explore::<Fenced>(comes_back);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn passing_without_a_fence_is_caught() {
    explore::<Weak>(passes);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn switching_without_a_fence_is_caught() {
    explore::<Weak>(switches);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn coming_back_without_a_fence_is_caught() {
    explore::<Weak>(comes_back);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn counting_before_the_reader_ends_is_caught() {
    explore::<Fenced>(|shared| {
        let found = shared.structure.now.load(Ordering::Acquire);
        shared.presence.passes();
        shared.structure.elements[found].with(|_| ());
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn reading_while_away_is_caught() {
    explore::<Fenced>(|shared| {
        shared.presence.goes();
        shared.structure.look();
        shared.presence.comes_back();
    });
}

/// The driver is a third CPU, and may be in the middle of a grace period that began before the removal: that
/// one must not do. (If the second comes too late as well, nothing is freed.)
#[test]
fn one_that_began_before_does_not_do() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = Arc::new(Shared::<Fenced>::new());
        let (cpu, driver) = (shared.clone(), shared.clone());
        let cpu = thread::spawn(move || {
            passes(&cpu);
            cpu.presence.goes();
        });
        let driver = thread::spawn(move || {
            drive(&driver);
            drive(&driver);
        });
        shared.structure.remove();
        if shared.periods.is_over(shared.periods.cookie()) {
            shared.structure.free();
        }
        cpu.join().unwrap();
        driver.join().unwrap();
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_cookie_made_before_the_removal_is_caught() {
    loom::model(|| {
        let shared = Arc::new(Shared::<Fenced>::new());
        let cpu = {
            let shared = shared.clone();
            thread::spawn(move || {
                passes(&shared);
                shared.presence.goes();
            })
        };
        let cookie = shared.periods.cookie();
        drive(&shared);
        shared.structure.remove();
        assert!(shared.periods.is_over(cookie));
        shared.structure.free();
        cpu.join().unwrap();
    });
}

/// Readers that may sleep.
struct Domain<A: Atomics> {
    structure: Structure,
    readers: Sleepable<A, 2>,
}

/// A reader that enters on one CPU and leaves on the other, `times` in turn, against a writer.
fn explore_sleepable<A: Atomics + 'static>(leave: fn(&Domain<A>, Reader)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let domain = Arc::new(Domain::<A> {
            structure: Structure::new(),
            readers: Sleepable::default(),
        });
        let reader = {
            let domain = domain.clone();
            thread::spawn(move || {
                for _ in 0..2 {
                    let reader = domain.readers.enter(0);
                    leave(&domain, reader);
                }
            })
        };
        domain.structure.remove();
        let mut waiting = domain.readers.begin();
        while !waiting.is_over() {
            thread::yield_now();
        }
        domain.structure.free();
        reader.join().unwrap();
    });
}

#[test]
fn no_sleepable_reader_sees_what_is_free() {
    explore_sleepable::<Fenced>(|domain, reader| {
        domain.structure.look();
        domain.readers.leave(1, reader);
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_sleepable_reader_without_fences_is_caught() {
    explore_sleepable::<Weak>(|domain, reader| {
        domain.structure.look();
        domain.readers.leave(1, reader);
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn reading_after_leaving_is_caught() {
    explore_sleepable::<Fenced>(|domain, reader| {
        domain.readers.leave(1, reader);
        domain.structure.look();
    });
}

/// Readers that writers spin for.
struct Brief<A: Atomics> {
    structure: Structure,
    cpu: Glances<A>,
}

/// A CPU that reads twice, against a writer.
fn explore_glances<A: Atomics + 'static>(read: fn(&Brief<A>)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let brief = Arc::new(Brief::<A> {
            structure: Structure::new(),
            cpu: Glances::default(),
        });
        let reader = {
            let brief = brief.clone();
            thread::spawn(move || {
                read(&brief);
                read(&brief);
            })
        };
        brief.structure.remove();
        A::fence();
        if let Some(seen) = brief.cpu.reads() {
            while !brief.cpu.has_ended(seen) {
                thread::yield_now();
            }
        }
        brief.structure.free();
        reader.join().unwrap();
    });
}

#[test]
fn no_glance_sees_what_is_free() {
    explore_glances::<Fenced>(|brief| {
        let outer = brief.cpu.enter();
        brief.structure.look();
        let inner = brief.cpu.enter();
        brief.cpu.leave(inner);
        brief.structure.look();
        brief.cpu.leave(outer);
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_glance_without_a_fence_is_caught() {
    explore_glances::<Weak>(|brief| {
        let glance = brief.cpu.enter();
        brief.structure.look();
        brief.cpu.leave(glance);
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn reading_after_a_glance_is_caught() {
    explore_glances::<Fenced>(|brief| {
        let glance = brief.cpu.enter();
        brief.cpu.leave(glance);
        brief.structure.look();
    });
}
