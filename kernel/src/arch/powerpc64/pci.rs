//! The PCI host bridge (`spapr-pci-host-bridge`).

/// How PCI configuration space is reached.
#[derive(Clone, Copy, Debug)]
pub enum PciConfig {
    /// Memory-mapped (ECAM).
    Ecam {
        /// Physical base.
        base: u64,
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
