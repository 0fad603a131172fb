//! The machine around the processor: devices, power-off, reset, wall clock, entropy.

pub use super::devicetree_entropy::entropy;
use super::layout::to_phys;
pub use super::pci::pci;
use super::{devicetree, interrupt, rtas, smp};
use crate::arch::devices::VirtioMmio;
use alloc::vec::Vec;

/// Called once on the boot CPU when the heap works: finds CPUs and interrupts.
#[inline(never)]
#[unsafe(link_section = ".init.text")]
pub fn init() {
    devicetree::index();
    smp::init();
    interrupt::init_cpu();
}

/// The virtio-over-MMIO slots of this machine: none.
pub fn virtio_mmio() -> Vec<VirtioMmio> {
    Vec::new()
}

/// Turns the machine off; the host sees status 0.
pub fn power_off() -> ! {
    rtas::call::<1>("power-off", &[u32::MAX, u32::MAX]);
    rtas::stop_self()
}

/// Restarts the machine.
pub fn reset() -> ! {
    rtas::call::<1>("system-reboot", &[]);
    rtas::stop_self()
}

/// Ends the machine after a panic in the way the hypervisor knows as "the guest's system failed", if the
/// command line says that it will; or stops.
pub fn panic_exit() -> ! {
    if crate::cmdline::value("limen.panic_exit") == Some("os-term") {
        static MESSAGE: &[u8] = b"Limen panic\0";
        let at = to_phys(MESSAGE.as_ptr() as usize) as u32;
        rtas::call::<1>("ibm,os-term", &[at]);
    }
    rtas::stop_self()
}

/// Seconds since 1970 from the machine's real-time clock, `None` if there is none.
pub fn wall_clock() -> Option<u64> {
    let [_, year, month, day, hour, minute, second, _] = rtas::call("get-time-of-day", &[])?.map(u64::from);
    limen_vdso::clock::since_1970([year, month, day], [hour, minute, second])
}
