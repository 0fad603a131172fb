//! Context tracking: whether a CPU is in the kernel, in user mode or idle, as RCU and the validator's checks
//! see it. Only builds with lock validation track it; the others cost nothing, and RCU asks their CPUs
//! instead.
//!
//! Interrupts are off in all of these. User mode and idle are *away*: no reader can run there. An interrupt
//! from idle makes the CPU come back for as long as its handler runs; one from user mode is an entry.

#[cfg(not(feature = "lockdep"))]
pub use off::*;
#[cfg(feature = "lockdep")]
pub use on::*;

use limen_rcu::{Native, Presence};

/// What CPU `n` says of itself. `None`: it does not schedule.
pub fn presence(n: usize) -> Option<&'static Presence<Native>> {
    if super::online().contains(n) {
        super::cpu(n).map(|cpu| &cpu.presence)
    } else {
        None
    }
}

#[cfg(not(feature = "lockdep"))]
mod off {
    #[inline(always)]
    pub fn user_enter() {}
    #[inline(always)]
    pub fn user_exit() {}
    #[inline(always)]
    pub fn interrupt_from_idle() -> bool {
        false
    }
    #[inline(always)]
    pub fn interrupt_ends() {}
    #[inline(always)]
    pub fn check_interrupt() {}
    #[inline(always)]
    pub fn nmi_begins() -> bool {
        false
    }
    #[inline(always)]
    pub fn nmi_ends(_: bool) {}
    #[inline(always)]
    pub fn must_watch() {}
    #[inline(always)]
    pub fn idle(wait: impl FnOnce()) {
        wait();
    }
}

#[cfg(feature = "lockdep")]
mod on {
    use crate::arch::smp;
    use crate::sched::CpuData;
    use core::sync::atomic::{AtomicU32, Ordering};

    /// This CPU's data, `None` until the scheduler works.
    #[inline(always)]
    fn here() -> Option<&'static CpuData> {
        // SAFETY: null, or this CPU's data, which is never freed.
        unsafe { smp::cpu_data().as_ref() }
    }

    /// User mode begins. Runs where nothing may be traced any more.
    #[inline(always)]
    pub fn user_enter() {
        if let Some(cpu) = here() {
            cpu.presence.goes();
        }
    }
    /// User mode ended. Runs where nothing may be traced yet.
    #[inline(always)]
    pub fn user_exit() {
        if let Some(cpu) = here() {
            cpu.presence.comes_back();
        }
    }
    /// An interrupt or a fault came from kernel mode. `true`: the CPU was idle, and is no longer.
    #[inline(always)]
    pub fn interrupt_from_idle() -> bool {
        let Some(cpu) = here() else { return false };
        let idle = cpu.idle.load(Ordering::Relaxed) && !cpu.presence.is_here();
        if idle {
            cpu.presence.comes_back();
        }
        idle
    }
    /// An interrupt ends for which [`interrupt_from_idle`] was `true`.
    #[inline(always)]
    pub fn interrupt_ends() {
        user_enter();
    }
    /// An interrupt or a fault came from kernel mode, and the CPU was not idle: it must be in the kernel.
    #[inline(always)]
    pub fn check_interrupt() {
        must_watch_at("an interrupt came before the CPU was back in the kernel");
    }
    /// An NMI came. Whether the CPU was away.
    #[inline(always)]
    pub fn nmi_begins() -> bool {
        let away = here().is_some_and(|cpu| !cpu.presence.is_here());
        if away {
            user_exit();
        }
        away
    }
    /// An NMI ends; `away` is what [`nmi_begins`] returned.
    #[inline(always)]
    pub fn nmi_ends(away: bool) {
        if away {
            user_enter();
        }
    }
    /// A reader begins.
    #[inline(always)]
    pub fn must_watch() {
        must_watch_at("a reader in user mode or idle");
    }

    #[inline(always)]
    fn must_watch_at(what: &'static str) {
        if here().is_some_and(|cpu| !cpu.presence.is_here()) {
            complain(what);
        }
    }

    /// Idles until an interrupt comes: `wait` turns interrupts on and waits. Interrupts are off before and
    /// afterwards.
    pub fn idle(wait: impl FnOnce()) {
        let Some(cpu) = here() else { return wait() };
        cpu.idle.store(true, Ordering::Relaxed);
        cpu.presence.goes();
        wait();
        crate::arch::irq::local_disable();
        cpu.presence.comes_back();
        cpu.idle.store(false, Ordering::Relaxed);
    }

    /// Reports wrong use of RCU, eight times at most.
    #[cold]
    #[inline(never)]
    pub fn complain(what: &str) {
        static SAID: AtomicU32 = AtomicU32::new(0);
        if SAID.fetch_add(1, Ordering::Relaxed) < 8 {
            warning!("WARNING: suspicious RCU usage: {what}");
            crate::trace::backtrace::print(crate::arch::stack::here());
        }
    }
}
