//! The room's own tests (see `boot::selftest`). `torture` runs much longer.

use super::{
    Domain, Retire, Retiring, Shared, Shown, Slot, barrier, cookie, glance, is_over, read, synchronize,
    synchronize_expedited,
};
use crate::check;
use crate::sched::{CpuSet, WaitQueue, current, online, policy, spawn_kthread, yield_now};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// The room's tests.
pub const TESTS: &[crate::selftest::Test] = &[
    ("what a reader found is not freed", readers),
    ("what a glance found is not dropped", glances),
    ("a reader holds up a grace period", held_up),
    ("readers that sleep", sleepers),
    ("references, and what is due", counted),
];

/// How many elements were made, and dropped.
static MADE: AtomicUsize = AtomicUsize::new(0);
static DROPPED: AtomicUsize = AtomicUsize::new(0);
static RETIRED: AtomicUsize = AtomicUsize::new(0);

const LIVES: usize = 0x11fe;

struct Element(AtomicUsize);

impl Element {
    fn shared() -> Shared<Self> {
        MADE.fetch_add(1, Relaxed);
        Shared::new(Self(AtomicUsize::new(LIVES)))
    }
}

impl Retire for Element {
    fn retire(&self, _: &Retiring) {
        RETIRED.fetch_add(1, Relaxed);
    }
}

impl Drop for Element {
    fn drop(&mut self) {
        self.0.store(0, Relaxed);
        DROPPED.fetch_add(1, Relaxed);
    }
}

/// Runs `f` in a thread of its own on CPU `n`; the result counts its end.
fn on_cpu(n: usize, ended: &Arc<(AtomicUsize, WaitQueue)>, f: impl FnOnce() + Send + 'static) {
    let ended = ended.clone();
    spawn_kthread("selftest", move || {
        let _ = policy::set_affinity(&current(), CpuSet::single(n));
        f();
        ended.0.fetch_add(1, Release);
        ended.1.wake_all();
    });
}

/// A place at which threads on all CPUs look, and what they tell.
struct Watched<P> {
    place: P,
    over: AtomicBool,
    wrong: AtomicUsize,
    looks: AtomicUsize,
}

impl<P> Watched<P> {
    fn new(place: P) -> Arc<Self> {
        Arc::new(Self {
            place,
            over: AtomicBool::new(false),
            wrong: AtomicUsize::new(0),
            looks: AtomicUsize::new(0),
        })
    }
}

fn readers() -> Result<(), &'static str> {
    let watched = Watched::new(Slot::<Element>::empty());
    let ended = Arc::new((AtomicUsize::new(0), WaitQueue::new()));
    let cpus = online();
    for n in cpus.iter() {
        let watched = watched.clone();
        on_cpu(n, &ended, move || {
            let mut kept = None;
            while !watched.over.load(Acquire) {
                {
                    let reader = read();
                    if let Some(element) = watched.place.load(&reader) {
                        for _ in 0..50 {
                            if element.0.load(Relaxed) != LIVES {
                                watched.wrong.fetch_add(1, Relaxed);
                            }
                        }
                    }
                    if watched.looks.fetch_add(1, Relaxed).is_multiple_of(8) {
                        kept = watched.place.get(&reader);
                    }
                }
                if kept
                    .as_ref()
                    .is_some_and(|element| element.0.load(Relaxed) != LIVES)
                {
                    watched.wrong.fetch_add(1, Relaxed);
                }
                yield_now();
            }
        });
    }
    for round in 0..3_000 {
        drop(watched.place.replace(Some(Element::shared())));
        if round % 200 == 0 {
            synchronize();
        }
        yield_now();
    }
    while watched.looks.load(Relaxed) < 100 {
        yield_now();
    }
    watched.over.store(true, Release);
    ended
        .1
        .wait_until_uninterruptible(|| ended.0.load(Acquire) == cpus.count());
    drop(watched.place.replace(None));
    barrier();
    check!(watched.wrong.load(Relaxed) == 0);
    check!(MADE.load(Relaxed) == DROPPED.load(Relaxed));
    check!(MADE.load(Relaxed) == RETIRED.load(Relaxed));
    Ok(())
}

/// Dropped by the writer itself, as soon as nobody looks at it.
struct Seen(AtomicUsize);

impl Drop for Seen {
    fn drop(&mut self) {
        self.0.store(0, Relaxed);
    }
}

fn glances() -> Result<(), &'static str> {
    let watched = Watched::new(Shown::<Seen>::empty());
    let ended = Arc::new((AtomicUsize::new(0), WaitQueue::new()));
    let cpus = online();
    for n in cpus.iter() {
        let watched = watched.clone();
        on_cpu(n, &ended, move || {
            let wrong = |seen: &Seen| {
                if seen.0.load(Relaxed) != LIVES {
                    watched.wrong.fetch_add(1, Relaxed);
                }
            };
            while !watched.over.load(Acquire) {
                let kept = {
                    let outer = glance();
                    if let Some(seen) = watched.place.look(&outer) {
                        // One inside another does not end it.
                        drop(glance());
                        (0..50).for_each(|_| wrong(seen));
                    }
                    watched.place.get(&outer)
                };
                if let Some(kept) = &kept {
                    wrong(kept);
                }
                watched.looks.fetch_add(1, Relaxed);
                yield_now();
            }
        });
    }
    let mut rounds = 0;
    while rounds < 3_000 || watched.looks.load(Relaxed) < 100 {
        let new = (rounds % 8 != 0).then(|| Arc::new(Seen(AtomicUsize::new(LIVES))));
        drop(watched.place.replace(new));
        rounds += 1;
        yield_now();
    }
    watched.over.store(true, Release);
    ended
        .1
        .wait_until_uninterruptible(|| ended.0.load(Acquire) == cpus.count());
    check!(watched.wrong.load(Relaxed) == 0);
    let last = Arc::new(Seen(AtomicUsize::new(LIVES)));
    drop(watched.place.replace(Some(last.clone())));
    check!(Arc::strong_count(&last) == 2);
    drop(watched.place.replace(None));
    check!(Arc::strong_count(&last) == 1);
    Ok(())
}

fn held_up() -> Result<(), &'static str> {
    struct Flags {
        reads: AtomicBool,
        over: AtomicBool,
        left: AtomicBool,
    }
    if online().count() < 2 {
        return Ok(());
    }
    let flags = Arc::new(Flags {
        reads: AtomicBool::new(false),
        over: AtomicBool::new(false),
        left: AtomicBool::new(false),
    });
    let ended = Arc::new((AtomicUsize::new(0), WaitQueue::new()));
    let _ = policy::set_affinity(&current(), CpuSet::single(0));
    for expedited in [false, true] {
        flags.reads.store(false, Release);
        flags.over.store(false, Release);
        flags.left.store(false, Release);
        let theirs = flags.clone();
        on_cpu(1, &ended, move || {
            let reader = read();
            theirs.reads.store(true, Release);
            let end = crate::time::now_ns() + 30_000_000;
            while crate::time::now_ns() < end {
                crate::arch::irq::spin_hint();
            }
            theirs.left.store(!theirs.over.load(Acquire), Release);
            drop(reader);
        });
        while !flags.reads.load(Acquire) {
            yield_now();
        }
        let before = cookie();
        check!(!is_over(before));
        if expedited {
            synchronize_expedited();
        } else {
            synchronize();
        }
        flags.over.store(true, Release);
        check!(is_over(before));
        check!(flags.left.load(Acquire));
    }
    let _ = policy::set_affinity(&current(), CpuSet::ALL);
    ended.1.wait_until_uninterruptible(|| ended.0.load(Acquire) == 2);
    Ok(())
}

fn sleepers() -> Result<(), &'static str> {
    static DOMAIN: Domain = Domain::new();
    let state = Arc::new((AtomicUsize::new(0), WaitQueue::new()));
    let theirs = state.clone();
    spawn_kthread("selftest", move || {
        let reader = DOMAIN.read();
        theirs.0.store(1, Release);
        theirs.1.wake_all();
        let _ = crate::time::sleep_until(crate::time::now_ns() + 20_000_000);
        theirs.0.store(2, Release);
        drop(reader);
    });
    state.1.wait_until_uninterruptible(|| state.0.load(Acquire) == 1);
    DOMAIN.synchronize();
    check!(state.0.load(Acquire) == 2);
    // Nobody reads now.
    DOMAIN.synchronize();
    Ok(())
}

fn counted() -> Result<(), &'static str> {
    barrier();
    let (retired, dropped) = (RETIRED.load(Relaxed), DROPPED.load(Relaxed));
    let first = Element::shared();
    let slot = Slot::empty();
    check!(slot.replace(Some(first.clone())).is_none());
    let found = slot
        .get(&read())
        .ok_or("a slot that holds something gives nothing")?;
    check!(Shared::ptr_eq(&found, &first));
    drop((first, found));
    barrier();
    check!(RETIRED.load(Relaxed) == retired);
    let reader = read();
    let seen = slot
        .load(&reader)
        .ok_or("a slot that holds something shows nothing")?;
    drop(slot.replace(None));
    check!(RETIRED.load(Relaxed) == retired + 1);
    check!(seen.0.load(Relaxed) == LIVES && DROPPED.load(Relaxed) == dropped);
    check!(slot.load(&reader).is_none() && slot.get(&reader).is_none());
    drop(reader);
    barrier();
    check!(DROPPED.load(Relaxed) == dropped + 1);
    Ok(())
}
