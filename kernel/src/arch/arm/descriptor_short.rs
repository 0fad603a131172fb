//! Short page table descriptors, as entries of the tables that `mm` knows (`short`). Re-exported by `mmu`.

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

/// A table, one level up from pages.
const TABLE: u32 = 1;
/// In a table's entry: what it maps is of domain 1.
const USER_DOMAIN: u32 = 1 << 5;
/// A page of 4 KiB; one level up a section of 1 MiB.
const PAGE: u32 = 2;
const NO_EXEC: u32 = 1;
/// `NO_EXEC` of a page that is not there: with that bit it would be a large page that is.
const ABSENT_NO_EXEC: u32 = 1 << 7;
const BUFFERED: u32 = 1 << 2;
const CACHED: u32 = 1 << 3;
const ACCESSED: u32 = 1 << 4;
const USER: u32 = 1 << 5;
/// With `BUFFERED` and `CACHED`: write-back, allocating on writes.
const ALLOCATING: u32 = 1 << 6;
const READ_ONLY: u32 = 1 << 9;
const SHARED: u32 = 1 << 10;
const NOT_GLOBAL: u32 = 1 << 11;
const NORMAL: u32 = BUFFERED | CACHED | ALLOCATING | SHARED;
const ADDRESS: u32 = !0xfff;

/// One page table entry (any level of `mm`'s tables), as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Entry(pub u32);

impl Entry {
    /// Nothing mapped.
    pub const EMPTY: Self = Self(0);

    const fn user_bits(prot: Prot) -> u32 {
        let common = NORMAL | ACCESSED | NOT_GLOBAL | USER;
        if prot.is_empty() {
            // Kept but not there: `PROT_NONE`.
            return common | READ_ONLY;
        }
        common
            | PAGE
            | if prot.contains(Prot::WRITE) { 0 } else { READ_ONLY }
            | if prot.contains(Prot::EXEC) { 0 } else { NO_EXEC }
    }
    /// A user page. `prot` without any access bit maps nothing accessible but keeps the frame (`PROT_NONE`):
    /// faults on every access. Young and, if writable, dirty already.
    #[inline]
    pub fn user_page(phys: PhysAddr, prot: Prot) -> Self {
        Self(phys.as_usize() as u32 | Self::user_bits(prot))
    }
    /// A kernel page (level 0) or section of 1 MiB (level 1).
    pub fn kernel_leaf(phys: PhysAddr, prot: Prot, kind: MemoryKind, level: usize) -> Self {
        let mut bits = PAGE | ACCESSED;
        bits |= match kind {
            MemoryKind::Normal => NORMAL,
            MemoryKind::Device => BUFFERED,
        };
        if !prot.contains(Prot::WRITE) {
            bits |= READ_ONLY;
        }
        if !prot.contains(Prot::EXEC) {
            bits |= NO_EXEC;
        }
        if level == 1 {
            bits = Self::in_section(bits);
        }
        Self(phys.as_usize() as u32 | bits)
    }
    /// A pointer to a lower table of user space.
    #[inline]
    pub fn table(phys: PhysAddr) -> Self {
        Self(phys.as_usize() as u32 | TABLE | USER_DOMAIN)
    }
    /// Whether nothing is there.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// Whether a lower table is there (asked of levels above 0 only).
    #[inline(always)]
    pub fn is_table(self) -> bool {
        self.0 & 3 == TABLE
    }
    /// The page's or table's physical address.
    #[inline(always)]
    pub fn phys(self) -> PhysAddr {
        PhysAddr::new(u64::from(self.0 & ADDRESS))
    }
    /// The user permissions.
    #[inline]
    pub fn prot(self) -> Prot {
        if self.0 & PAGE == 0 {
            return Prot::empty();
        }
        let mut prot = Prot::READ;
        prot.set(Prot::WRITE, self.0 & READ_ONLY == 0);
        prot.set(Prot::EXEC, self.0 & NO_EXEC == 0);
        prot
    }
    /// In the kind of a leaf of the kernel's: user mode may access it.
    pub(super) const KIND_USER: u8 = 1;
    /// Device registers.
    pub(super) const KIND_DEVICE: u8 = 2;
    /// User mode may execute it: what it may not, the kernel may not either.
    pub(super) const KIND_USER_EXEC: u8 = 8;

    /// An entry of the kernel's map at `level`, as `crates/linear-map` has it: of the processor's tables.
    pub fn kernel(self, level: usize) -> linear_map::Entry {
        const TABLE_ADDRESS: u32 = !0x3ff;
        const SECTION_ADDRESS: u32 = !0xf_ffff;
        if self.is_empty() {
            return linear_map::Entry::Empty;
        }
        if level > 0 && self.is_table() {
            return linear_map::Entry::Table(linear_map::Table(u64::from(self.0 & TABLE_ADDRESS)));
        }
        // A section has the bits of the attributes six higher; execution is bit 4.
        let (high, no_exec, address) = if level > 0 {
            (self.0 >> 6, self.0 >> 4 & 1 != 0, SECTION_ADDRESS)
        } else {
            (self.0, self.0 & (NO_EXEC | ABSENT_NO_EXEC) != 0, ADDRESS)
        };
        let mut access = Access::READ;
        access.set(Access::PRESENT, self.0 & PAGE != 0);
        access.set(Access::WRITE, high & READ_ONLY == 0);
        access.set(Access::EXECUTE, !no_exec);
        let user = if high & USER != 0 { Self::KIND_USER } else { 0 };
        let device = if self.0 & CACHED == 0 {
            Self::KIND_DEVICE
        } else {
            0
        };
        linear_map::Entry::Leaf(Leaf {
            phys: u64::from(self.0 & address),
            attributes: Attributes {
                access,
                kind: user | device,
            },
            grouped: false,
            marked: false,
        })
    }
    /// The inverse of [`Entry::kernel`].
    pub fn of_kernel(entry: linear_map::Entry, level: usize) -> Self {
        let leaf = match entry {
            linear_map::Entry::Empty => return Self::EMPTY,
            linear_map::Entry::Table(table) => return Self(table.0 as u32 | TABLE),
            linear_map::Entry::Leaf(leaf) => leaf,
        };
        let has = |access| leaf.attributes.access.contains(access);
        let kind = |kind| leaf.attributes.kind & kind != 0;
        let memory = if kind(Self::KIND_DEVICE) { BUFFERED } else { NORMAL };
        let bits = [
            (has(Access::PRESENT), PAGE),
            (!has(Access::WRITE), READ_ONLY),
            (!has(Access::EXECUTE), NO_EXEC),
            (kind(Self::KIND_USER), USER),
        ];
        let bits = bits.into_iter().filter(|(there, _)| *there);
        let mut bits = bits.fold(memory | ACCESSED, |all, (_, bit)| all | bit);
        if level == 1 {
            bits = Self::in_section(bits);
        } else if bits & (PAGE | NO_EXEC) == NO_EXEC {
            bits ^= NO_EXEC | ABSENT_NO_EXEC;
        }
        Self(leaf.phys as u32 | bits)
    }
    /// A page's bits as a section has them: those of the attributes are six higher, execution is bit 4.
    const fn in_section(bits: u32) -> u32 {
        let high = bits & (ACCESSED | USER | ALLOCATING | READ_ONLY | SHARED);
        bits & (PAGE | BUFFERED | CACHED) | high << 6 | (bits & NO_EXEC) << 4
    }
    /// As a number, to reckon with.
    #[inline(always)]
    pub fn number(self) -> u64 {
        u64::from(self.0)
    }
    /// The inverse of [`Entry::number`].
    #[inline(always)]
    pub fn of_number(number: u64) -> Self {
        Self(number as u32)
    }
    /// The same page without permission to write; `None` if it has none.
    #[inline(always)]
    pub fn write_protected(self) -> Option<Self> {
        (self.0 & (PAGE | READ_ONLY) == PAGE).then_some(Self(self.0 | READ_ONLY))
    }
    /// The same page with other user permissions.
    #[inline]
    pub fn with_prot(self, prot: Prot) -> Self {
        Self(self.0 & ADDRESS | Self::user_bits(prot))
    }
    /// What the processor's root has for part `n` of four, in the kernel's domain or in user space's.
    pub(super) fn quarter(self, n: usize, kernel: bool) -> u32 {
        let entry = if kernel { self.0 & !USER_DOMAIN } else { self.0 };
        entry + (n << 10) as u32
    }
}
