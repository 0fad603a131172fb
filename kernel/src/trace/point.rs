//! Trace points: the places from which events are recorded. One that is off costs a load and a branch that is
//! not taken; both are made here and nowhere else, so that they can become a branch that is patched.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use limen_trace_events::{Numbered, events};

/// Which events of [`events::ALL`] somebody wants.
static POINTS: [AtomicBool; events::ALL.len()] = [const { AtomicBool::new(false) }; events::ALL.len()];

/// Whether system calls are traced: every thread has `SyscallWork::TRACEPOINT` then.
static CALLS: AtomicBool = AtomicBool::new(false);

/// Whether somebody wants an event.
#[inline(always)]
pub fn is_on<E: Numbered>() -> bool {
    POINTS[E::INDEX].load(Relaxed)
}

/// Turns the points of an event on or off.
pub fn turn(index: usize, on: bool) {
    POINTS[index].store(on, Relaxed);
}

/// Whether new threads are to trace their system calls.
#[inline]
pub fn traces_calls() -> bool {
    CALLS.load(Relaxed)
}

/// From now on new threads trace their system calls, or do not.
pub fn trace_calls(on: bool) {
    CALLS.store(on, Relaxed);
}

/// Runs `f` out of the way of the code that called it.
#[cold]
#[inline(never)]
pub fn cold(f: impl FnOnce()) {
    f();
}

/// Records an event if somebody wants it: `tracepoint!(sched::SchedProcessExit { comm, pid, prio })`, with
/// the types of `limen_trace_events::events`. The fields are evaluated only then. In any context in which RCU
/// watches, with any lock held except those of timers; nothing is woken and nothing allocated.
#[macro_export]
macro_rules! tracepoint {
    ($system:ident :: $name:ident { $($fields:tt)* }) => {
        if $crate::trace::point::is_on::<limen_trace_events::events::$system::$name>() {
            $crate::trace::point::cold(|| {
                $crate::tracing::event::hit(
                    &limen_trace_events::events::$system::$name { $($fields)* },
                );
            });
        }
    };
}
