//! Where backtraces begin: each architecture's `stack`, which knows how frames are chained, with what is made
//! of it alike on all; and what is called on another stack.

use super::imp::stack::{AT_ENTRY, RETURN_ADDRESS, frame_pointer};
use super::imp::{exits, sites};
use crate::sched::preempt;
use crate::trace::backtrace::Start;

/// A function that `switch::call_on_stack` calls: directly, so that the check of early code follows it.
pub trait OnStack {
    /// The function; its argument is what the caller gave.
    extern "C" fn run(data: *mut u8);
}

/// What a frame at `fp` has as its function's return address is `ip`: where the function really returns to.
/// They differ if it is traced until it returns (`ftrace::graph`).
fn original(fp: usize, ip: usize) -> usize {
    let trampoline = exits::return_address();
    if ip != trampoline {
        return ip;
    }
    let returns = preempt::current_info().returns.get();
    returns
        .and_then(|returns| returns.original(fp + AT_ENTRY, trampoline))
        .unwrap_or(ip)
}

/// A backtrace from the frame at `fp` on.
pub fn from(fp: usize) -> Start {
    Start {
        fp,
        return_address: RETURN_ADDRESS,
        is_tracer: sites::is_trampoline,
        original,
        second: sites::PARENT * size_of::<usize>() as isize,
    }
}

/// A backtrace of how the caller was called.
#[inline(always)]
pub fn here() -> Start {
    from(frame_pointer())
}
