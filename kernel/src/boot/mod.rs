//! From the architecture's hand-over to the first user program: the order in which the rooms come up.

pub mod cmdline;
pub mod selftest;

use crate::mm::PhysAddr;

/// A range of physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhysRange {
    /// First byte.
    pub start: PhysAddr,
    /// Size in bytes.
    pub size: u64,
}

/// What the boot protocol told. Lives on the boot stack until `start` is done with it.
#[derive(Debug)]
pub struct BootInfo<'a> {
    /// All RAM, ascending, not overlapping.
    pub memory: &'a [PhysRange],
    /// What of it is in use: kernel image, initramfs, devicetree, firmware, early page tables. Any order; may overlap.
    pub reserved: &'a [PhysRange],
    /// The initramfs, if any (also reserved; freed after unpacking).
    pub initrd: Option<PhysRange>,
    /// The command line, as given.
    pub command_line: &'a str,
}

/// Called by the architecture on the boot CPU: interrupts off, kernel map final (W^X), console, local block and exceptions working,
/// no heap yet.
pub fn start(info: &BootInfo<'_>) -> ! {
    before_threads(info);
    crate::sched::init();
    with_threads(info)
}

/// Everything before the boot CPU has its idle thread. A function of its own, never part of another, as are `sched::init` and what comes after
/// it: the compiler may take the running thread for the same all through a function, and `sched::init` replaces it.
#[inline(never)]
fn before_threads(info: &BootInfo<'_>) {
    cmdline::init(info.command_line);
    crate::log::init();
    crate::sync::lockdep::init();
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

#[inline(never)]
fn with_threads(info: &BootInfo<'_>) -> ! {
    crate::task::init();
    crate::fs::init();
    crate::driver::init();
    crate::rseq::init();
    crate::sched::start_secondaries();
    if selftest::wanted() {
        selftest::start();
        crate::sync::lockdep::booted();
        crate::sched::idle()
    }
    #[cfg(feature = "lockdep")]
    crate::sync::lockdep::selftest::start();
    crate::task::start_init(info.initrd);
    crate::sync::lockdep::booted();
    crate::sched::idle()
}

/// Called by the architecture on each secondary CPU: on its idle thread's stack, interrupts off, local block and exceptions working.
pub fn secondary() -> ! {
    crate::sched::secondary_online();
    crate::sched::idle()
}
