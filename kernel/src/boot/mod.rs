//! From the architecture's hand-over to the first program: the order in which the rooms are started.

#![forbid(unsafe_code)]

#[cfg(feature = "lockdep")]
mod lockdep;
pub mod selftest;

use crate::arch::above::Above;
use crate::mm::BootInfo;
use crate::mm::init_memory::at_boot;

/// What the architecture calls.
pub struct Limen;

impl Above for Limen {
    /// Never inlined: its caller is given back with what [`at_boot`] calls.
    #[inline(never)]
    fn start(info: &BootInfo<'_>) -> ! {
        at_boot(|| before_threads(info));
        crate::sched::init();
        at_boot(with_threads);
        start_others();
        booted(info)
    }
    fn secondary() -> ! {
        crate::sched::secondary_online();
        crate::sched::idle()
    }
    #[inline]
    fn timer_interrupt() {
        crate::time::timer_interrupt();
    }
}

/// Everything before the boot CPU has its idle thread. `at_boot` is never inlined, nor are `sched::init`,
/// [`start_others`] and [`booted`]: the compiler may assume that the running thread stays the same within a
/// function, and `sched::init` changes it.
#[inline(always)]
fn before_threads(info: &BootInfo<'_>) {
    crate::cmdline::init(info.command_line);
    crate::log::init(&crate::arch::LOG);
    crate::sync::lockdep::init(|line| crate::log::write_bytes(crate::log::Level::Warning, 0, line));
    #[cfg(feature = "lockdep")]
    info!(
        "lock validator: {} subclasses, {} dependencies",
        crate::sync::lockdep::CLASSES,
        crate::sync::lockdep::DEPENDENCIES
    );
    crate::syscall::init();
    crate::signal::fatal::init();
    info!(
        "Limen {} on {}",
        env!("CARGO_PKG_VERSION"),
        crate::arch::UTS_MACHINE
    );
    crate::mm::init(info);
    crate::arch::platform::init();
    crate::time::init();
}

#[inline(always)]
fn with_threads() {
    crate::task::init();
    crate::fs::init();
    crate::module::init();
    crate::livepatch::init();
    crate::driver::init();
    crate::rseq::init();
    crate::tracing::event::boot::init();
    crate::net::init();
    crate::ipc::init();
    crate::audit::init();
}

/// The other CPUs, and what needs to know how many they are. Never inlined, and not a part of
/// [`with_threads`]: from here on the map may change with every allocation, and what is inlined there takes
/// much of the boot CPU's stack.
#[inline(never)]
fn start_others() {
    crate::mm::linear::start();
    crate::sched::start_secondaries();
    crate::sched::futex::init();
    crate::rcu::start();
}

/// Everything from where the parts of the image that only boot needs are free.
#[inline(never)]
fn booted(info: &BootInfo<'_>) -> ! {
    crate::mm::init_memory::free();
    crate::mm::kernel_map::check();
    crate::threshold::hardened::report();
    crate::ftrace::boot::init();
    if selftest::wanted() {
        selftest::start();
    } else if let Some(seconds) = crate::rcu::torture::wanted() {
        crate::rcu::torture::start(seconds);
    } else {
        crate::sched::nmi::start_storm();
        crate::ftrace::boot::booted();
        crate::task::start_init(info.initrd);
    }
    crate::sync::lockdep::booted();
    // Not earlier: another CPU may run it at once, and code that runs at boot may do what the validator would
    // report.
    #[cfg(feature = "lockdep")]
    lockdep::start();
    crate::sched::idle()
}
