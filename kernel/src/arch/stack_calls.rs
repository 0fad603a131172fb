//! Where backtraces begin: each architecture's `stack`, which knows how frames are chained, with what is made
//! of it alike on all; and what is called on another stack.

use super::imp::stack::{AT_ENTRY, RETURN_ADDRESS, frame_pointer};
use super::imp::{exits, sites};
use crate::sched::preempt;
use crate::task::ThreadInfo;
use crate::trace::backtrace::{Start, frames};

/// A function that `switch::call_on_stack` calls: directly, so that the check of early code follows it.
pub trait OnStack {
    /// The function; its argument is what the caller gave.
    extern "C" fn run(data: *mut u8);
}

/// What a frame at `fp` has as its function's return address is `ip`: where the function really returns to.
/// They differ if it is traced until it returns (`ftrace::graph`).
fn original(fp: usize, ip: usize) -> usize {
    original_of(preempt::current_info(), fp, ip)
}

/// The same for another thread's frame, which has been found by the running one.
fn original_of(info: &ThreadInfo, fp: usize, ip: usize) -> usize {
    let trampoline = exits::return_address();
    if ip != trampoline {
        return ip;
    }
    let returns = info.returns.get();
    returns
        .and_then(|returns| returns.original(fp + AT_ENTRY, trampoline))
        .unwrap_or(ip)
}

/// Calls `f` with each return address of a thread that is off its CPU, and stays so, from the frame at `fp`
/// of its stack outwards.
pub fn walk_other(info: &ThreadInfo, fp: usize, mut f: impl FnMut(usize)) {
    frames(from(fp), |at, ip| f(original_of(info, at - RETURN_ADDRESS, ip)));
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
