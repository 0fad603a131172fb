//! Keeps a tracer from tracing itself: what it calls may be traced by it. Each tracer has a guard of its own,
//! so that others see what it calls; and each context its own bit in it, so that an interrupt that comes
//! while the tracer runs is traced.

use crate::arch::smp;
use crate::sched::preempt::{self, HARDIRQ_MASK, NMI_MASK};
use crate::sync::MAX_CPUS;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;

/// In which contexts each CPU runs the tracer.
pub struct Guard([AtomicU8; MAX_CPUS]);

/// The tracer runs.
pub struct Inside<'a> {
    of: &'a AtomicU8,
    before: u8,
}

impl Guard {
    /// Nobody runs it.
    pub const fn new() -> Self {
        Self([const { AtomicU8::new(0) }; MAX_CPUS])
    }

    /// The tracer is called, with preemption off. `None`: by itself.
    #[inline(always)]
    pub fn enter(&self) -> Option<Inside<'_>> {
        let count = preempt::count();
        let context = 1 << (u8::from(count & HARDIRQ_MASK != 0) + 2 * u8::from(count & NMI_MASK != 0));
        let of = self.0.get(smp::cpu_id())?;
        let before = of.load(Relaxed);
        if before & context != 0 {
            return None;
        }
        of.store(before | context, Relaxed);
        Some(Inside { of, before })
    }
}

impl Guard {
    /// [`Self::enter`], for a caller who knows that it is on this CPU and in a thread, neither in an
    /// interrupt nor in an NMI: nothing else is inside. It calls [`Self::leave_in_thread`]. `false`: called
    /// by itself.
    #[inline(always)]
    pub fn enter_in_thread(&self, cpu: usize) -> bool {
        let Some(of) = self.0.get(cpu) else { return false };
        let is_first = of.load(Relaxed) == 0;
        if is_first {
            of.store(1, Relaxed);
        }
        is_first
    }

    /// The tracer has ended.
    #[inline(always)]
    pub fn leave_in_thread(&self, cpu: usize) {
        if let Some(of) = self.0.get(cpu) {
            of.store(0, Relaxed);
        }
    }
}

impl Drop for Inside<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.of.store(self.before, Relaxed);
    }
}
