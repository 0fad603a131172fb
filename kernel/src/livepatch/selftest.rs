//! Self-tests of what threads do while a patch comes or goes (see `boot::selftest`).

use crate::check;
use crate::sched::inspect::{each_stack_word, pause};
use crate::sched::{current, try_spawn_kthread};
use crate::selftest::Test;
use crate::task::patch::{self as threads, PATCHED, UNDEFINED, UNPATCHED};
use alloc::sync::Arc;
use core::sync::atomic::AtomicI8;
use core::sync::atomic::Ordering::{Acquire, Release};

/// The tests.
pub const TESTS: &[Test] = &[
    ("a new thread of the kernel is as who made it", inherits),
    ("a thread that has ended is in no function", dead),
];

/// No state.
const UNKNOWN: i8 = 100;

/// The state in which a new thread of the kernel finds itself.
fn state_of_new() -> Result<i8, &'static str> {
    let found = Arc::new(AtomicI8::new(UNKNOWN));
    let told = found.clone();
    let look = move || told.store(threads::state(&current()), Release);
    try_spawn_kthread("selftest", look).ok_or("no memory")?;
    for _ in 0..5000 {
        if found.load(Acquire) != UNKNOWN {
            break;
        }
        pause();
    }
    Ok(found.load(Acquire))
}

fn inherits() -> Result<(), &'static str> {
    check!(state_of_new()? == UNDEFINED);
    threads::begin(PATCHED);
    let early = state_of_new();
    threads::end();
    check!(early? == UNPATCHED);
    check!(state_of_new()? == UNDEFINED);
    Ok(())
}

fn dead() -> Result<(), &'static str> {
    let thread = try_spawn_kthread("selftest", || ()).ok_or("no memory")?;
    // Whatever word is on its stack is said to be in a function.
    let is_out = || each_stack_word(&thread, |_| false, || ());
    for _ in 0..5000 {
        if is_out() {
            return Ok(());
        }
        pause();
    }
    Err("it is held to be in a function for ever")
}
