//! The machine around the processor: devices found, power-off, reset.

/// Called once on the boot CPU when the heap works: finds interrupt controller, timer, CPUs and devices.
pub fn init() {}

/// Where a virtio-over-MMIO device may sit.
#[derive(Clone, Copy, Debug)]
pub struct VirtioMmio {
    /// Physical address of its registers.
    pub base: u64,
    /// Size of the register window, bytes.
    pub size: usize,
    /// Its interrupt.
    pub irq: super::interrupt::Irq,
}

/// The virtio-over-MMIO slots of this machine (empty ones included).
pub fn virtio_mmio() -> alloc::vec::Vec<VirtioMmio> {
    alloc::vec::Vec::new()
}

/// How PCI configuration space is reached.
#[derive(Clone, Copy, Debug)]
pub enum PciConfig {
    /// Memory-mapped (ECAM).
    Ecam {
        /// Physical base.
        base: u64,
        /// First and last bus.
        buses: (u8, u8),
        /// 32-bit memory window for BARs the firmware has not placed: physical start and size.
        window32: (u64, u64),
        /// 64-bit memory window: physical start and size, size 0 if none.
        window64: (u64, u64),
    },
}

/// The machine's PCI host bridge, if it has one.
pub fn pci() -> Option<PciConfig> {
    None
}

/// Turns the machine off; the host sees status 0.
pub fn power_off() -> ! {
    loop {
        super::irq::spin_hint()
    }
}

/// Restarts the machine.
pub fn reset() -> ! {
    power_off()
}

/// Ends the machine after a panic with the status the host knows as "kernel panic", or stops if it can't.
pub fn panic_exit() -> ! {
    loop {
        super::irq::spin_hint()
    }
}

/// Seconds since 1970 from the machine's real-time clock, `None` if there is none.
pub fn wall_clock() -> Option<u64> {
    None
}

/// Up to 32 bytes of entropy from the machine (firmware seed, instruction); returns how many were filled.
pub fn entropy(out: &mut [u8; 32]) -> usize {
    let _ = out;
    0
}
