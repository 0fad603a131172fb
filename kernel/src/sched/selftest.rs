//! The scheduler's own tests (see `boot::selftest`): threads that hand a token round, contend for a lock,
//! sleep for a while, call other CPUs and move between them; threads that are preempted without a pause.

use super::{CpuSet, Deadline, WaitQueue, current, on_each_cpu, online, policy, spawn_kthread, yield_now};
use crate::arch::stack_calls::OnStack;
use crate::sync::{Mutex, Once};
use crate::time::{Timer, now_ns, realtime_ns};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};
use limen_entry::ThreadFlags;

struct Shared {
    token: AtomicUsize,
    turn: WaitQueue,
    counter: Mutex<usize>,
    done: AtomicUsize,
    failures: AtomicUsize,
    finished: WaitQueue,
}

const THREADS: usize = 8;
const ROUNDS: usize = 200;

/// The room's tests.
/// What [`ProbeOnStack`] was called with.
pub static PROBED: AtomicUsize = AtomicUsize::new(0);

/// A function that is called on another stack, for a self-test of tracing, which cannot trace its own room.
pub struct ProbeOnStack;

impl OnStack for ProbeOnStack {
    #[inline(never)]
    extern "C" fn run(data: *mut u8) {
        PROBED.store(data.addr(), Ordering::Relaxed);
    }
}

pub const TESTS: &[crate::selftest::Test] = &[
    ("threads, locks, sleeps, affinity, cross-CPU calls", run),
    ("a storm of preemptions", storm),
    ("a wake-up of one that is about to leave", chosen),
    ("deadlines of clocks that can be set", wall_deadlines),
];

/// A deadline is the same whenever it is asked for. If the timer of a sleeper and the sleeper itself, woken
/// by it, had different answers, the sleeper could find its deadline still to come, and sleep for ever.
fn wall_deadlines() -> Result<(), &'static str> {
    let at = realtime_ns() + 1_000_000_000;
    for deadline in [Deadline::Realtime(at), Deadline::Tai(at)] {
        let first = deadline.monotonic();
        if (0..1000).any(|_| deadline.monotonic() != first) {
            return Err("a deadline moves although its clock was not set");
        }
    }
    if Deadline::Realtime(0).monotonic() != 0 || Deadline::Tai(u64::MAX).monotonic() < at {
        return Err("the first and the last time of a clock");
    }
    Ok(())
}

/// A thread that a waker chose, and whose deadline comes, checks its condition once more: if it left with the
/// wake-up, others could sleep for ever.
fn chosen() -> Result<(), &'static str> {
    let (queue, mut looks) = (WaitQueue::new(), 0);
    let woken = queue.wait_until_deadline_uninterruptible(now_ns(), || {
        looks += 1;
        if looks == 2 {
            // Stands for a waker on another CPU: too late for this check, and the deadline is over.
            queue.wake_one();
        }
        looks > 2
    });
    if woken && looks == 3 {
        Ok(())
    } else {
        Err("it left without looking")
    }
}

fn run() -> Result<(), &'static str> {
    let shared = Arc::new(Shared {
        token: AtomicUsize::new(0),
        turn: WaitQueue::new(),
        counter: Mutex::new(0),
        done: AtomicUsize::new(0),
        failures: AtomicUsize::new(0),
        finished: WaitQueue::new(),
    });
    for n in 0..THREADS {
        let s = shared.clone();
        spawn_kthread("selftest", move || worker(n, &s));
    }
    // They hang if the token has not moved for 20 s: on a busy host all hand-overs may take longer.
    let mut before = usize::MAX;
    let ended = || shared.done.load(Ordering::Acquire) == THREADS;
    while !shared
        .finished
        .wait_until_deadline_uninterruptible(now_ns() + 20_000_000_000, ended)
    {
        let token = shared.token.load(Ordering::Acquire);
        if token == before {
            return Err("threads hang");
        }
        before = token;
    }
    let total = *shared.counter.lock();
    if total != THREADS * ROUNDS {
        return Err("the lock let two in");
    }
    if shared.failures.load(Ordering::Relaxed) != 0 {
        return Err("a sleep, a migration or a cross-CPU call went wrong");
    }
    Ok(())
}

fn worker(n: usize, s: &Shared) {
    for round in 0..ROUNDS {
        // A token goes round: each hand-over is a wake-up and a sleep.
        s.turn
            .wait_until_uninterruptible(|| s.token.load(Ordering::Acquire) % THREADS == n);
        s.token.fetch_add(1, Ordering::AcqRel);
        s.turn.wake_all();
        // A lock is held across a yield: the others must sleep for it.
        {
            let mut counter = s.counter.lock();
            let before = *counter;
            if round % 8 == 0 {
                yield_now();
            }
            *counter = before + 1;
        }
        if round % 50 == n {
            let at = now_ns() + 1_000_000;
            let _ = crate::time::sleep_until(at);
            if now_ns() < at {
                s.failures.fetch_add(1, Ordering::Relaxed);
            }
        }
        if round % 40 == 7 {
            let cpus = online();
            let target = cpus.iter().nth((n + round) % cpus.count()).unwrap_or(0);
            let _ = policy::set_affinity(&current(), CpuSet::single(target));
            let here = crate::sync::without_preemption(crate::arch::smp::cpu_id);
            if here != target {
                s.failures.fetch_add(1, Ordering::Relaxed);
            }
            let _ = policy::set_affinity(&current(), CpuSet::ALL);
            let hits = AtomicUsize::new(0);
            on_each_cpu(cpus, &|| {
                hits.fetch_add(1, Ordering::Relaxed);
            });
            if hits.load(Ordering::Relaxed) != cpus.count() {
                s.failures.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    s.done.fetch_add(1, Ordering::AcqRel);
    s.finished.wake_all();
}

/// How often the storm's timer expires.
const FIRINGS: usize = 3_000;
static STORM: Once<Timer> = Once::new();
static FIRED: AtomicUsize = AtomicUsize::new(0);

/// Asks for a reschedule again and again, each time before the last one can be over.
fn fire() {
    if FIRED.fetch_add(1, Ordering::AcqRel) < FIRINGS {
        rearm();
    }
    current().info.work.set(ThreadFlags::NEED_RESCHED);
}

fn rearm() {
    if let Some(timer) = STORM.get() {
        timer.arm(now_ns() + 2_000);
    }
}

/// Two threads on one CPU whose timer always asks for a reschedule. If a thread could be preempted while it
/// is being preempted, each expiry would use more of its stack.
fn storm() -> Result<(), &'static str> {
    struct Shared {
        ready: AtomicUsize,
        done: AtomicUsize,
        finished: WaitQueue,
    }
    let shared = Arc::new(Shared {
        ready: AtomicUsize::new(0),
        done: AtomicUsize::new(0),
        finished: WaitQueue::new(),
    });
    STORM.get_or_init(|| Timer::new(fire));
    for n in 0..2 {
        let s = shared.clone();
        spawn_kthread("selftest", move || {
            let _ = policy::set_affinity(&current(), CpuSet::single(0));
            s.ready.fetch_add(1, Ordering::AcqRel);
            while s.ready.load(Ordering::Acquire) < 2 {
                yield_now();
            }
            if n == 0 {
                rearm();
            }
            while FIRED.load(Ordering::Acquire) <= FIRINGS {
                crate::arch::irq::spin_hint();
            }
            s.done.fetch_add(1, Ordering::AcqRel);
            s.finished.wake_all();
        });
    }
    let deadline = now_ns() + 20_000_000_000;
    let ended = shared
        .finished
        .wait_until_deadline_uninterruptible(deadline, || shared.done.load(Ordering::Acquire) == 2);
    if ended {
        Ok(())
    } else {
        Err("the timer does not fire, or a thread does not end")
    }
}
