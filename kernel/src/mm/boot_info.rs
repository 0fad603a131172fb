//! What the boot protocol reported of the machine, as the architecture hands it over.

use super::PhysAddr;

/// A range of physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhysRange {
    /// First byte.
    pub start: PhysAddr,
    /// Size in bytes.
    pub size: u64,
}

/// What the boot protocol reported. It lies on the boot stack until `boot` no longer needs it.
#[derive(Debug)]
pub struct BootInfo<'a> {
    /// All RAM, ascending, not overlapping.
    pub memory: &'a [PhysRange],
    /// Parts of the RAM that are in use: kernel image, initramfs, devicetree, firmware, early page tables. In
    /// any order; they may overlap.
    pub reserved: &'a [PhysRange],
    /// The initramfs, if there is one. It is in `reserved`, too, and freed when it has been unpacked.
    pub initrd: Option<PhysRange>,
    /// The command line, as the boot loader passed it.
    pub command_line: &'a str,
}
