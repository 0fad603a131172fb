//! Context tracking: whether a CPU is in the kernel, in user mode or idle, as RCU sees it.
//!
//! User mode and idle are *away*: no reader can run there. An interrupt from idle makes the CPU come back for
//! as long as its handler runs; one from user mode is an entry. Interrupts are off in all of these functions.
//!
//! A CPU that is not tracked is always here, and RCU asks it by an interrupt. It is tracked with
//! `context_tracking=force` or `nohz_full=` on the command line (`arch::stub_calls` makes the entry stubs
//! call code that tracks), and in builds with lock validation, which check it besides.

use super::cpu::{own_presence, this_cpu};
use core::sync::atomic::Ordering;
use limen_rcu::{Native, Presence};

/// Builds with lock validation track always.
pub const ALWAYS: bool = cfg!(feature = "lockdep");

/// What CPU `n` says of itself. `None`: it does not schedule.
pub fn presence(n: usize) -> Option<&'static Presence<Native>> {
    if super::online().contains(n) {
        super::cpu(n).map(|cpu| cpu.presence)
    } else {
        None
    }
}

/// Whether CPUs are tracked.
pub fn is_on() -> bool {
    ALWAYS || crate::arch::stub_calls::is_tracking()
}

/// User mode begins. Runs where nothing may be traced any more.
#[inline(always)]
pub fn user_enter() {
    own_presence().goes();
}

/// User mode ended. Runs where nothing may be traced yet.
#[inline(always)]
pub fn user_exit() {
    own_presence().comes_back();
}

/// An interrupt or a fault came from kernel mode. `true`: the CPU was idle, and is no longer.
#[inline(always)]
pub fn interrupt_from_idle() -> bool {
    let presence = own_presence();
    let idle = !presence.is_here() && this_cpu().idle.load(Ordering::Relaxed);
    if idle {
        presence.comes_back();
    }
    idle
}

/// An interrupt ends for which [`interrupt_from_idle`] was `true`.
#[inline(always)]
pub fn interrupt_ends() {
    user_enter();
}

/// An NMI came. Whether the CPU was away.
#[inline(always)]
pub fn nmi_begins() -> bool {
    let away = !own_presence().is_here();
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

/// Idles until an interrupt comes: `wait` turns interrupts on and waits. Interrupts are off before and
/// afterwards if idle is tracked.
#[inline(always)]
pub fn idle<const TRACKED: bool>(wait: impl FnOnce()) {
    if !(TRACKED || ALWAYS) {
        return wait();
    }
    let cpu = this_cpu();
    cpu.idle.store(true, Ordering::Relaxed);
    cpu.presence.goes();
    wait();
    crate::arch::irq::local_disable();
    cpu.presence.comes_back();
    cpu.idle.store(false, Ordering::Relaxed);
}

#[cfg(feature = "lockdep")]
pub use checks::*;
#[cfg(not(feature = "lockdep"))]
pub use unchecked::*;

#[cfg(not(feature = "lockdep"))]
mod unchecked {
    #[inline(always)]
    pub fn check_interrupt() {}
    #[inline(always)]
    pub fn must_watch() {}
}

#[cfg(feature = "lockdep")]
mod checks {
    use super::own_presence;
    use core::sync::atomic::{AtomicU32, Ordering};

    /// An interrupt or a fault came from kernel mode, and the CPU was not idle: it must be in the kernel.
    #[inline(always)]
    pub fn check_interrupt() {
        must_watch_at("an interrupt came before the CPU was back in the kernel");
    }
    /// A reader begins.
    #[inline(always)]
    pub fn must_watch() {
        must_watch_at("a reader in user mode or idle");
    }

    #[inline(always)]
    fn must_watch_at(what: &'static str) {
        if !own_presence().is_here() {
            complain(what);
        }
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
