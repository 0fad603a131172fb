//! Self-tests of what instances share (see `boot::selftest`).

use super::pids;
use crate::check;
use crate::sched::{WaitQueue, online, spawn_kthread, yield_now};
use crate::tracing::{Instance, all, make, remove};
use alloc::format;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering::*};
use limen_trace_text::Options;

/// The tests.
pub const TESTS: &[crate::selftest::Test] = &[
    ("nobody follows forks once nobody wants that", follows),
    ("a walk over instances finds those that stay", walk),
];

/// How often each thread turns the option.
const ROUNDS: usize = 16;

static ENDED: AtomicUsize = AtomicUsize::new(0);
static WAIT: WaitQueue = WaitQueue::new();

fn turn(instance: &Instance) {
    for n in 0..ROUNDS {
        let _ = instance.set_option(Options::EVENT_FORK, n.is_multiple_of(2));
        yield_now();
    }
    ENDED.fetch_add(1, Release);
    WAIT.wake_all();
}

fn follows() -> Result<(), &'static str> {
    check!(!pids::follows_forks());
    let instance = make(b"follows").map_err(|_| "no instance")?;
    let threads = 2 * online().count();
    ENDED.store(0, Relaxed);
    for _ in 0..threads {
        let instance = instance.clone();
        spawn_kthread("selftest", move || turn(&instance));
    }
    WAIT.wait_until_uninterruptible(|| ENDED.load(Acquire) == threads);
    // The last of each thread has turned it off.
    let over = !pids::follows_forks();
    let on = instance.set_option(Options::EVENT_FORK, true).is_ok() && pids::follows_forks();
    check!(remove(b"follows").is_ok());
    check!(over && on && !pids::follows_forks());
    Ok(())
}

/// More than fit into a small block of memory.
const MANY: usize = 600;

fn walk() -> Result<(), &'static str> {
    let before = all().count();
    let name = |n: usize| format!("walk{n}");
    let made = (0..MANY).filter(|n| make(name(*n).as_bytes()).is_ok()).count();
    let mut found = 0;
    // Every other one goes while the walk is at the one before it.
    for (n, instance) in all().skip(before).enumerate() {
        found += usize::from(instance.name == name(2 * n).as_bytes());
        let _ = remove(name(2 * n + 1).as_bytes());
    }
    let ordered = all().map(|one: Arc<Instance>| one.number).is_sorted();
    (0..MANY).for_each(|n| _ = remove(name(n).as_bytes()));
    check!(made == MANY && found == MANY / 2 && ordered);
    check!(all().count() == before);
    Ok(())
}
