//! Long page table descriptors: what AArch64 has and 32-bit Arm with the large physical address extension.
//! Re-exported by `mmu`.

use crate::mm::{PhysAddr, Prot};
use limen_linear_map::{self as linear_map, Access, Attributes, Leaf};

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
/// One of a group that the processor may keep as one.
const CONTIGUOUS: u64 = 1 << 52;
const PRIVILEGED_NO_EXEC: u64 = 1 << 53;
const USER_NO_EXEC: u64 = 1 << 54;
/// What every kernel entry has so that user mode cannot execute it: `UXN` where that is a bit of its own. On
/// 32-bit Arm the same bit (`XN`) is for the kernel as well, so an executable kernel page must not have it.
const KERNEL_NO_USER_EXEC: u64 = if cfg!(target_pointer_width = "64") {
    USER_NO_EXEC
} else {
    0
};
/// The bit beside `PRIVILEGED_NO_EXEC` that keeps the kernel from executing a page.
const KERNEL_NO_EXEC: u64 = USER_NO_EXEC & !KERNEL_NO_USER_EXEC;
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
    /// In the kind of a leaf of the kernel's: user mode may access it.
    pub(super) const KIND_USER: u8 = 1;
    /// Device registers.
    pub(super) const KIND_DEVICE: u8 = 2;
    /// In one address space only.
    pub(super) const KIND_NOT_GLOBAL: u8 = 4;
    /// User mode may execute it.
    pub(super) const KIND_USER_EXEC: u8 = 8;

    /// An entry of the kernel's map at `level`, as `crates/linear-map` has it.
    pub fn kernel(self, level: usize) -> linear_map::Entry {
        if self.is_empty() {
            return linear_map::Entry::Empty;
        }
        if level > 0 && self.is_table() {
            return linear_map::Entry::Table(linear_map::Table(self.phys().as_u64()));
        }
        let has = |bit| self.0 & bit != 0;
        let mut access = Access::READ;
        access.set(Access::PRESENT, has(VALID));
        access.set(Access::WRITE, !has(AP_READ_ONLY));
        access.set(Access::EXECUTE, !has(PRIVILEGED_NO_EXEC) && !has(KERNEL_NO_EXEC));
        let kinds = [
            (has(AP_USER), Self::KIND_USER),
            (!has(ATTR_NORMAL), Self::KIND_DEVICE),
            (has(NOT_GLOBAL), Self::KIND_NOT_GLOBAL),
            (has(AP_USER) && !has(USER_NO_EXEC), Self::KIND_USER_EXEC),
        ];
        let kinds = kinds.into_iter().filter(|(there, _)| *there);
        linear_map::Entry::Leaf(Leaf {
            phys: self.phys().as_u64(),
            attributes: Attributes {
                access,
                kind: kinds.map(|(_, kind)| kind).sum(),
            },
            grouped: has(CONTIGUOUS),
            marked: false,
        })
    }
    /// The inverse of [`Entry::kernel`].
    pub fn of_kernel(entry: linear_map::Entry, level: usize) -> Self {
        let leaf = match entry {
            linear_map::Entry::Empty => return Self::EMPTY,
            linear_map::Entry::Table(table) => return Self::table(PhysAddr::new(table.0)),
            linear_map::Entry::Leaf(leaf) => leaf,
        };
        let has = |access| leaf.attributes.access.contains(access);
        let kind = |kind| leaf.attributes.kind & kind != 0;
        let execute = has(Access::EXECUTE);
        // Where one bit speaks for both, what the kernel executes is executable.
        let user_execute = kind(Self::KIND_USER_EXEC) || execute && KERNEL_NO_EXEC != 0;
        let bits = [
            (has(Access::PRESENT), VALID),
            (level == 0, TABLE_OR_PAGE),
            (!has(Access::WRITE), AP_READ_ONLY),
            (!execute, PRIVILEGED_NO_EXEC),
            (!user_execute, USER_NO_EXEC),
            (kind(Self::KIND_USER), AP_USER),
            (!kind(Self::KIND_DEVICE), ATTR_NORMAL),
            (kind(Self::KIND_NOT_GLOBAL), NOT_GLOBAL),
            (leaf.grouped, CONTIGUOUS),
        ];
        let bits = bits.into_iter().filter(|(there, _)| *there);
        Self(bits.fold(leaf.phys | INNER_SHAREABLE | ACCESSED, |all, (_, bit)| all | bit))
    }
    /// As a number, to reckon with.
    #[inline(always)]
    pub fn number(self) -> u64 {
        self.0
    }
    /// The inverse of [`Entry::number`].
    #[inline(always)]
    pub fn of_number(number: u64) -> Self {
        Self(number)
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
