//! Keeps a tracer from tracing itself: what it calls may be traced by it. Each tracer has a guard of its own,
//! so that others see what it calls; and each context its own bit in it, so that an interrupt that comes
//! while the tracer runs is traced.
//!
//! What records in the usual case calls nothing, and has no guard: it leaves a thread that is in any tracer
//! with a guard to the code that asks it.

use crate::arch::smp;
use crate::sched::preempt::{self, HARDIRQ_MASK, NMI_MASK};
use crate::sync::MAX_CPUS;
use crate::task::IN_TRACER;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;

/// In which contexts each CPU runs the tracer.
pub struct Guard([AtomicU8; MAX_CPUS]);

/// The tracer runs.
pub struct Inside<'a> {
    of: &'a AtomicU8,
    before: u8,
    thread: &'static AtomicU8,
    /// The thread was in no tracer before.
    is_first: bool,
}

impl Guard {
    /// Nobody runs it.
    pub const fn new() -> Self {
        Self([const { AtomicU8::new(0) }; MAX_CPUS])
    }

    /// The tracer is called, with preemption off. `None`: by itself.
    #[inline(always)]
    pub fn enter(&self) -> Option<Inside<'_>> {
        let info = preempt::current_info();
        let count = info.preempt_count.load(Relaxed);
        let context = 1 << (u8::from(count & HARDIRQ_MASK != 0) + 2 * u8::from(count & NMI_MASK != 0));
        let of = self.0.get(smp::cpu_id())?;
        let before = of.load(Relaxed);
        if before & context != 0 {
            return None;
        }
        of.store(before | context, Relaxed);
        let thread = &info.trace;
        let trace = thread.load(Relaxed);
        thread.store(trace | IN_TRACER, Relaxed);
        Some(Inside {
            of,
            before,
            thread,
            is_first: trace & IN_TRACER == 0,
        })
    }
}

impl Drop for Inside<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_first {
            self.thread.store(self.thread.load(Relaxed) & !IN_TRACER, Relaxed);
        }
        self.of.store(self.before, Relaxed);
    }
}
