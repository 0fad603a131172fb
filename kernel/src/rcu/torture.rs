//! Torture, instead of the first program: with `limen.rcutorture=SECONDS` readers of all kinds look at an
//! element, in threads of several priorities, in timer interrupts and in sleep, while writers replace it by
//! all ways there are. What was replaced is spoilt as soon as the writer may know that nobody sees it; a
//! reader that sees a spoilt element has found a grace period that was too short.
//!
//! Words on the command line, with Linux's meaning: `rcutorture.nreaders=N` (default: twice the CPUs),
//! `rcutorture.nfakewriters=N` (threads that only wait for grace periods; default 4),
//! `rcutorture.shuffle_interval=SECONDS` (how often readers must leave a CPU; default 3), and of our own
//! `limen.rcutorture.planted`: a writer does not wait, which must be found; the test ends when it is.

#![forbid(unsafe_code)]

use super::{
    Domain, Retire, Shared, barrier, cookie, is_over, read, stats, synchronize, synchronize_expedited,
};
use crate::arch::platform;
use crate::sched::{
    CpuSet, KernelThread, Policy, WaitQueue, current, online, policy, spawn_kthread, yield_now,
};
use crate::sync::{IrqSpinLock, Once};
use crate::time::{NSEC_PER_SEC, Timer, now_ns, sleep_until};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::AcqRel, Ordering::Acquire};
use core::sync::atomic::{Ordering::Relaxed, Ordering::Release};

/// What a spoilt element holds.
const SPOILT: usize = 0xbad;
/// The first number that an element in use holds, above `SPOILT`.
const NUMBERS: usize = 0x1000;
/// The period of the readers in timer interrupts, nanoseconds.
const TIMER_PERIOD: u64 = 70_000;

/// Elements, of which readers see one.
struct Elements {
    all: [AtomicUsize; 64],
    seen: AtomicUsize,
    free: IrqSpinLock<Free>,
    /// Readers under which one changed.
    wrong: AtomicUsize,
}

/// Elements that nobody can see.
struct Free {
    /// A bit for each.
    elements: u64,
    /// How often one was taken.
    taken: usize,
}

impl Elements {
    const fn new() -> Self {
        Self {
            all: [const { AtomicUsize::new(0) }; 64],
            seen: AtomicUsize::new(0),
            free: IrqSpinLock::new(Free {
                elements: !1,
                taken: 0,
            }),
            wrong: AtomicUsize::new(0),
        }
    }

    /// A reader looks, and once more when `meanwhile` has run. An element that is in use again holds another
    /// number, so it does not hide that it was spoilt in between.
    fn look(&self, meanwhile: impl FnOnce()) {
        let element = &self.all[self.seen.load(Acquire)];
        let first = element.load(Relaxed);
        meanwhile();
        if first == SPOILT || element.load(Relaxed) != first {
            self.wrong.fetch_add(1, Relaxed);
        }
    }

    /// Lets readers see another element. Returns the former one; `None`: all others wait for a grace period.
    fn replace(&self) -> Option<usize> {
        let (new, number) = {
            let mut free = self.free.lock();
            if free.elements == 0 {
                return None;
            }
            let new = free.elements.trailing_zeros() as usize;
            free.elements &= free.elements - 1;
            free.taken += 1;
            (new, free.taken)
        };
        self.all[new].store(NUMBERS + number, Relaxed);
        Some(self.seen.swap(new, AcqRel))
    }

    /// Nobody can see `element` any more.
    fn spoil(&self, element: usize) {
        self.all[element].store(SPOILT, Relaxed);
        self.free.lock().elements |= 1 << element;
    }
}

static ELEMENTS: Elements = Elements::new();
/// Those of readers that sleep.
static SLEEPY: Elements = Elements::new();
static DOMAIN: Domain = Domain::new();

/// Spoils an element when it is dropped, which is after a grace period.
struct Due(usize);

impl Retire for Due {}

impl Drop for Due {
    fn drop(&mut self) {
        ELEMENTS.spoil(self.0);
    }
}

static OVER: AtomicBool = AtomicBool::new(false);
static RUNNING: AtomicUsize = AtomicUsize::new(0);
static ENDED: WaitQueue = WaitQueue::new();

/// What happened.
static READS: AtomicUsize = AtomicUsize::new(0);
static TIMER_READS: AtomicUsize = AtomicUsize::new(0);
static SLEEPING_READS: AtomicUsize = AtomicUsize::new(0);
static WRITES: [AtomicUsize; 5] = [const { AtomicUsize::new(0) }; 5];
static WAITS: AtomicUsize = AtomicUsize::new(0);

/// The value of a word of the command line.
fn number(word: &str, default: usize) -> usize {
    let value = crate::cmdline::value(word).and_then(|value| value.parse().ok());
    value.unwrap_or(default)
}

/// The seconds that the command line asks for.
pub fn wanted() -> Option<u64> {
    crate::cmdline::value("limen.rcutorture")?.parse().ok()
}

/// Starts a thread, with a real-time priority unless `level` is 0. `f` does one round of its work, and is
/// called again until the time is over.
fn torturer(name: &'static str, level: u8, mut f: impl FnMut() + Send + 'static) -> KernelThread {
    RUNNING.fetch_add(1, Relaxed);
    spawn_kthread(name, move || {
        if level > 0 {
            policy::set_policy(&current(), Policy::RoundRobin, level, 0, false);
        }
        while !OVER.load(Acquire) {
            f();
        }
        if RUNNING.fetch_sub(1, Release) == 1 {
            ENDED.wake_all();
        }
    })
}

/// Numbers below a bound.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

fn spin(ns: u64) {
    let end = now_ns() + ns;
    while now_ns() < end {
        crate::arch::irq::spin_hint();
    }
}

fn nap(ns: u64) {
    // Nothing sends signals to kernel threads, so this is never cut short.
    let _ = sleep_until(now_ns() + ns);
}

/// One reader: short or long, alone or nested.
fn read_once(chance: &mut Chance) {
    {
        let _reader = read();
        let ns = match chance.below(200) {
            0 => 3_000_000,
            1..20 => 50_000,
            _ => 500,
        };
        let nests = chance.below(8) == 0;
        ELEMENTS.look(|| {
            if nests {
                drop(read());
            }
            spin(ns);
        });
    }
    READS.fetch_add(1, Relaxed);
    match chance.below(64) {
        0 => nap(200_000),
        1..16 => yield_now(),
        _ => {}
    }
}

fn read_and_sleep(chance: &mut Chance) {
    let reader = DOMAIN.read();
    SLEEPY.look(|| nap(chance.below(400_000)));
    drop(reader);
    SLEEPING_READS.fetch_add(1, Relaxed);
}

/// The reader in timer interrupts.
static TIMER: Once<Timer> = Once::new();

fn read_in_interrupt() {
    let _reader = read();
    ELEMENTS.look(|| spin(2_000));
    TIMER_READS.fetch_add(1, Relaxed);
    if !OVER.load(Acquire)
        && let Some(timer) = TIMER.get()
    {
        timer.arm(now_ns() + TIMER_PERIOD);
    }
}

/// Replaces the element and waits in one of all ways. `planted`: sometimes in none.
fn write_once(chance: &mut Chance, planted: bool) {
    let Some(old) = ELEMENTS.replace() else {
        nap(200_000);
        return;
    };
    let way = chance.below(WRITES.len() as u64) as usize;
    if planted && chance.below(4) == 0 {
        ELEMENTS.spoil(old);
        return;
    }
    match way {
        0 => drop(Shared::seen(Due(old))),
        1 => {
            drop(Shared::seen(Due(old)));
            barrier();
        }
        2 => {
            synchronize();
            ELEMENTS.spoil(old);
        }
        3 => {
            synchronize_expedited();
            ELEMENTS.spoil(old);
        }
        _ => {
            let cookie = cookie();
            super::want(cookie);
            while !is_over(cookie) {
                nap(100_000);
            }
            ELEMENTS.spoil(old);
        }
    }
    WRITES[way].fetch_add(1, Relaxed);
    if chance.below(4) == 0 {
        nap(chance.below(300_000));
    }
}

fn write_for_sleepers() {
    if let Some(old) = SLEEPY.replace() {
        DOMAIN.synchronize();
        SLEEPY.spoil(old);
    }
    nap(100_000);
}

fn wait_only(chance: &mut Chance) {
    match chance.below(3) {
        0 => synchronize(),
        1 => synchronize_expedited(),
        _ => barrier(),
    }
    WAITS.fetch_add(1, Relaxed);
    nap(chance.below(2_000_000));
}

/// Runs for `seconds`, then ends the machine with a status that says how it went.
pub fn start(seconds: u64) {
    spawn_kthread("rcu_torture", move || run(seconds));
}

fn run(seconds: u64) {
    let cpus = online().count();
    let readers = number("rcutorture.nreaders", 2 * cpus);
    let fake_writers = number("rcutorture.nfakewriters", 4);
    let shuffle = number("rcutorture.shuffle_interval", 3).max(1) as u64;
    let planted = crate::cmdline::flag("limen.rcutorture.planted");
    info!(
        "rcu-torture: --- Start of test: nreaders={readers} nfakewriters={fake_writers} \
         shuffle_interval={shuffle} seconds={seconds} planted={planted}"
    );
    let mut movable = Vec::new();
    for n in 0..readers {
        let mut chance = Chance(n as u64);
        // Every third has a real-time priority; it naps often enough for the others.
        let level = if n % 3 == 2 { 1 + (n % 50) as u8 } else { 0 };
        movable.push(torturer("rcu_torture_rea", level, move || {
            read_once(&mut chance);
            if level > 0 {
                nap(chance.below(3_000_000));
            }
        }));
    }
    for n in 0..2 {
        let mut chance = Chance(1_000 + n);
        torturer("rcu_torture_slp", 0, move || read_and_sleep(&mut chance));
    }
    let mut chance = Chance(2_000);
    torturer("rcu_torture_wri", 0, move || write_once(&mut chance, planted));
    let mut chance = Chance(2_001);
    torturer("rcu_torture_wri", 2, move || write_once(&mut chance, false));
    torturer("rcu_torture_swr", 0, write_for_sleepers);
    for n in 0..fake_writers {
        let mut chance = Chance(3_000 + n as u64);
        torturer("rcu_torture_fak", 0, move || wait_only(&mut chance));
    }
    TIMER.get_or_init(|| Timer::new(read_in_interrupt)).arm(now_ns());
    let end = now_ns() + seconds * NSEC_PER_SEC;
    let mut round = 0;
    while now_ns() < end && !(planted && wrong() > 0) {
        nap((shuffle * NSEC_PER_SEC).min(end.saturating_sub(now_ns())));
        // One CPU after the other is left to itself.
        if cpus > 1 {
            let spared = CpuSet::ALL.without(round % cpus);
            for task in &movable {
                let _ = policy::set_affinity(task, spared);
            }
            round += 1;
        }
    }
    OVER.store(true, Release);
    ENDED.wait_until_uninterruptible(|| RUNNING.load(Acquire) == 0);
    barrier();
    report();
}

/// Readers that found a mistake.
fn wrong() -> usize {
    ELEMENTS.wrong.load(Relaxed) + SLEEPY.wrong.load(Relaxed)
}

fn report() {
    let wrong = wrong();
    let stats = stats();
    let [call, barriers, sync, expedited, polled] = [0, 1, 2, 3, 4].map(|way| WRITES[way].load(Relaxed));
    info!(
        "rcu-torture: reads {} in interrupts {} asleep {}; writes by call {call} barrier {barriers} \
         synchronize {sync} expedited {expedited} polling {polled}; waits {}; grace periods {}, the longest \
         {} us, asked {}",
        READS.load(Relaxed),
        TIMER_READS.load(Relaxed),
        SLEEPING_READS.load(Relaxed),
        WAITS.load(Relaxed),
        stats.periods,
        stats.longest_ns / 1000,
        stats.asked
    );
    let idle = [
        READS.load(Relaxed),
        TIMER_READS.load(Relaxed),
        SLEEPING_READS.load(Relaxed),
    ];
    let idle = idle
        .into_iter()
        .chain([call, barriers, sync, expedited, polled])
        .any(|count| count == 0);
    if wrong == 0 && !idle && stats.stalls == 0 {
        info!("rcu-torture: --- End of test: SUCCESS");
        platform::power_off();
    }
    crate::log!(
        Err,
        "rcu-torture: --- End of test: FAILURE: {wrong} readers saw what they must not see{}",
        if idle {
            ", or a kind of work was never done"
        } else {
            ""
        }
    );
    platform::panic_exit();
}
