//! Long page table descriptors: what AArch64 has and 32-bit Arm with the large physical address extension.
//! Re-exported by `mmu`.

use crate::mm::{PhysAddr, Prot};

/// How a kernel mapping's memory behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Ordinary cached memory.
    Normal,
    /// Device registers.
    Device,
}

const VALID: u64 = 1;
/// With `VALID`: a table (levels above 0) or a page (level 0); without it a block.
const TABLE_OR_PAGE: u64 = 2;
const ATTR_NORMAL: u64 = 1 << 2;
const AP_USER: u64 = 1 << 6;
const AP_READ_ONLY: u64 = 1 << 7;
const INNER_SHAREABLE: u64 = 3 << 8;
const ACCESSED: u64 = 1 << 10;
const NOT_GLOBAL: u64 = 1 << 11;
const PRIVILEGED_NO_EXEC: u64 = 1 << 53;
const USER_NO_EXEC: u64 = 1 << 54;
/// What every kernel entry has so that user mode cannot execute it: `UXN` where that is a bit of its own. On
/// 32-bit Arm the same bit (`XN`) is for the kernel as well, so an executable kernel page must not have it.
const KERNEL_NO_USER_EXEC: u64 = if cfg!(target_pointer_width = "64") {
    USER_NO_EXEC
} else {
    0
};
/// Software: a page that is kept but may not be accessed (`PROT_NONE`); `VALID` is clear.
const PROT_NONE: u64 = 1 << 58;
const ADDRESS: u64 = 0x0000_ffff_ffff_f000;

/// One page table entry (any level), as a value. Tables in memory are arrays of `AtomicU64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Entry(pub u64);

impl Entry {
    /// Nothing mapped.
    pub const EMPTY: Self = Self(0);

    const fn user_bits(prot: Prot) -> u64 {
        // Stores without loads, and execution without loads (there is no EPAN), are more than asked for, as
        // on Linux.
        let common = TABLE_OR_PAGE
            | ATTR_NORMAL
            | INNER_SHAREABLE
            | ACCESSED
            | NOT_GLOBAL
            | PRIVILEGED_NO_EXEC
            | AP_USER;
        if prot.is_empty() {
            return common | PROT_NONE | AP_READ_ONLY | USER_NO_EXEC;
        }
        common
            | VALID
            | if prot.contains(Prot::WRITE) {
                0
            } else {
                AP_READ_ONLY
            }
            | if prot.contains(Prot::EXEC) {
                0
            } else {
                USER_NO_EXEC
            }
    }

    /// A user page. `prot` without any access bit (`PROT_NONE`) keeps the frame but faults on every access.
    /// Young and, if writable, dirty already.
    #[inline]
    pub fn user_page(phys: PhysAddr, prot: Prot) -> Self {
        Self(phys.as_u64() | Self::user_bits(prot))
    }
    /// A kernel page (level 0) or block (higher levels).
    pub fn kernel_leaf(phys: PhysAddr, prot: Prot, kind: MemoryKind, level: usize) -> Self {
        let mut bits = VALID | INNER_SHAREABLE | ACCESSED | KERNEL_NO_USER_EXEC;
        if level == 0 {
            bits |= TABLE_OR_PAGE;
        }
        if kind == MemoryKind::Normal {
            bits |= ATTR_NORMAL;
        }
        if !prot.contains(Prot::WRITE) {
            bits |= AP_READ_ONLY;
        }
        if !prot.contains(Prot::EXEC) {
            bits |= PRIVILEGED_NO_EXEC | USER_NO_EXEC;
        }
        Self(phys.as_u64() | bits)
    }
    /// A pointer to a lower table.
    #[inline]
    pub fn table(phys: PhysAddr) -> Self {
        Self(phys.as_u64() | VALID | TABLE_OR_PAGE)
    }
    /// Whether nothing is there.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// Whether a lower table is there (asked of levels above 0 only).
    #[inline(always)]
    pub fn is_table(self) -> bool {
        self.0 & (VALID | TABLE_OR_PAGE) == VALID | TABLE_OR_PAGE
    }
    /// The page's or table's physical address.
    #[inline(always)]
    pub fn phys(self) -> PhysAddr {
        PhysAddr::new(self.0 & ADDRESS)
    }
    /// The user permissions.
    #[inline]
    pub fn prot(self) -> Prot {
        if self.0 & VALID == 0 {
            return Prot::empty();
        }
        let mut prot = Prot::READ;
        prot.set(Prot::WRITE, self.0 & AP_READ_ONLY == 0);
        prot.set(Prot::EXEC, self.0 & USER_NO_EXEC == 0);
        prot
    }
    /// The same page without permission to write; `None` if it has none.
    #[inline(always)]
    pub fn write_protected(self) -> Option<Self> {
        (self.0 & (VALID | AP_READ_ONLY) == VALID).then_some(Self(self.0 | AP_READ_ONLY))
    }
    /// The same page with other user permissions.
    #[inline]
    pub fn with_prot(self, prot: Prot) -> Self {
        Self(self.0 & ADDRESS | Self::user_bits(prot))
    }
}
