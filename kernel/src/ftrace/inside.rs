//! Keeps a direct call from calling itself: which of them a thread is in, and the interrupts on top of it. As
//! a thread may sleep there, that is its own, a list on its stack ([`ThreadInfo::direct`]).
//!
//! [`ThreadInfo::direct`]: crate::task::ThreadInfo

use crate::sched::preempt::{self, HARDIRQ_MASK, NMI_MASK};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A call that the thread is in.
struct Inside {
    /// What is called.
    of: usize,
    /// Whether by the thread, an interrupt or an NMI.
    context: u8,
    /// What it was in before.
    former: *const Inside,
}

/// Calls `f`, which may sleep, unless the thread is in such a call of the same `of`, in the same context.
pub fn unless_inside(of: usize, f: impl FnOnce()) {
    let info = preempt::current_info();
    let count = info.preempt_count.load(Relaxed);
    let context = u8::from(count & HARDIRQ_MASK != 0) + 2 * u8::from(count & NMI_MASK != 0);
    let before = info.direct.load(Acquire);
    let mut at = before.cast_const().cast::<Inside>();
    // SAFETY: these are on the thread's stacks, below the frame of this call: whoever put one there takes it
    // out before it returns.
    while let Some(inside) = unsafe { at.as_ref() } {
        if inside.of == of && inside.context == context {
            return;
        }
        at = inside.former;
    }
    let own = Inside {
        of,
        context,
        former: before.cast_const().cast(),
    };
    info.direct.store((&raw const own).cast_mut().cast(), Release);
    f();
    info.direct.store(before, Release);
}
