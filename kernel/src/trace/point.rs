//! Trace points: the places from which events are recorded. One that is off costs one instruction that does
//! nothing, and becomes a jump when somebody wants the event (`jump_label`).

use core::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst, fence};

/// Whether system calls are traced: every thread has `SyscallWork::TRACEPOINT` then.
static CALLS: AtomicBool = AtomicBool::new(false);

/// Whether new threads are to trace their system calls.
#[inline]
pub fn traces_calls() -> bool {
    CALLS.load(Relaxed)
}

/// From now on new threads trace their system calls, or do not.
pub fn trace_calls(on: bool) {
    CALLS.store(on, Relaxed);
    // The caller looks for threads next: one that it does not find yet will see this.
    fence(SeqCst);
}

/// Runs `f` out of the way of the code that called it.
#[cold]
#[inline(never)]
pub fn cold(f: impl FnOnce()) {
    f();
}

/// Records an event if somebody wants it: `tracepoint!(sched::SchedProcessExit { comm, pid, prio })`, with
/// the types of `limen_trace_events::events`. The fields are evaluated only then. In any context in which RCU
/// watches, with any lock held except those of timers; nothing is woken and nothing allocated. Not in code
/// that only boot needs: the build refuses that.
#[macro_export]
macro_rules! tracepoint {
    ($system:ident :: $name:ident { $($fields:tt)* }) => {
        if $crate::jump_label::is_on::<{
            <limen_trace_events::events::$system::$name as limen_trace_events::Numbered>::INDEX as u32
        }>() {
            $crate::trace::point::cold(|| {
                $crate::tracing::event::hit(
                    &limen_trace_events::events::$system::$name { $($fields)* },
                );
            });
        }
    };
}
