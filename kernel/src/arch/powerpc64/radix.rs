//! Page table entries (radix trees). The hardware's root has 13 bits of index, of which 9 are used, so a tree
//! of four equal levels it is.
//!
//! The processor reads entries in big-endian byte order, and an [`Entry`] is what it reads: constants are
//! swapped when the kernel is compiled, addresses when they are used.

use crate::mm::{PhysAddr, Prot};
use core::sync::atomic::AtomicU64;
use limen_linear_map::{self as linear_map, Access, Attributes, Leaf};

/// An entry in memory.
pub type Slot = AtomicU64;
/// Levels of a user page table; level 0 holds pages, `LEVELS - 1` is the root.
pub const LEVELS: usize = 4;
/// The highest level with leaves: they are of 1 GiB.
pub(super) const LARGEST_LEAF: usize = 2;
/// log2 of the entries of one table.
pub const TABLE_SHIFT: usize = 9;

/// How a kernel mapping's memory behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Ordinary cached memory.
    Normal,
    /// Device registers.
    Device,
}

// As the processor counts; `Entry` holds them swapped.
const VALID: u64 = 1 << 63;
const LEAF: u64 = 1 << 62;
/// Software: a page that is kept but may not be accessed (`PROT_NONE`); `VALID` is clear.
const PROT_NONE: u64 = 1 << 61;
const REFERENCED: u64 = 0x100;
const CHANGED: u64 = 0x80;
const NON_IDEMPOTENT: u64 = 0x20;
const PRIVILEGED: u64 = 8;
const READ: u64 = 4;
const WRITE: u64 = 2;
const EXECUTE: u64 = 1;
const ADDRESS: u64 = 0x01ff_ffff_ffff_f000;

/// One page table entry (any level), as a value. Tables in memory are arrays of `AtomicU64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Entry(pub u64);

impl Entry {
    /// Nothing mapped.
    pub const EMPTY: Self = Self(0);

    const fn new(bits: u64) -> Self {
        Self(bits.to_be())
    }
    #[inline(always)]
    const fn has(self, bits: u64) -> bool {
        self.0 & bits.to_be() == bits.to_be()
    }

    /// The attributes of a user page, in the processor's order.
    #[inline(always)]
    fn user_bits(prot: Prot) -> u64 {
        const COMMON: u64 = LEAF | REFERENCED | CHANGED;
        if prot.is_empty() {
            return (COMMON | PROT_NONE).to_be();
        }
        let mut bits = (COMMON | VALID).to_be();
        for (allowed, bit) in [(Prot::READ, READ), (Prot::WRITE, WRITE), (Prot::EXEC, EXECUTE)] {
            if prot.contains(allowed) {
                bits |= bit.to_be();
            }
        }
        bits
    }

    /// A user page. `prot` without any access bit (`PROT_NONE`) keeps the frame but faults on every access.
    /// Young and, if writable, dirty already.
    #[inline]
    pub fn user_page(phys: PhysAddr, prot: Prot) -> Self {
        Self(phys.as_u64().to_be() | Self::user_bits(prot))
    }
    /// A kernel page (level 0) or large page (higher levels).
    pub fn kernel_leaf(phys: PhysAddr, prot: Prot, kind: MemoryKind, level: usize) -> Self {
        let _ = level;
        let mut bits = VALID | LEAF | REFERENCED | CHANGED | PRIVILEGED | READ;
        if kind == MemoryKind::Device {
            bits |= NON_IDEMPOTENT;
        }
        if prot.contains(Prot::WRITE) {
            bits |= WRITE;
        }
        if prot.contains(Prot::EXEC) {
            bits |= EXECUTE;
        }
        Self::new(phys.as_u64() | bits)
    }
    /// A pointer to a lower table.
    #[inline]
    pub fn table(phys: PhysAddr) -> Self {
        Self(phys.as_u64().to_be() | (VALID | TABLE_SHIFT as u64).to_be())
    }
    /// Whether nothing is there.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// Whether a lower table is there (asked of levels above 0 only).
    #[inline(always)]
    pub fn is_table(self) -> bool {
        self.0 & (VALID | LEAF).to_be() == VALID.to_be()
    }
    /// The page's or table's physical address.
    #[inline(always)]
    pub fn phys(self) -> PhysAddr {
        PhysAddr::new(u64::from_be(self.0 & ADDRESS.to_be()))
    }
    /// The user permissions.
    #[inline]
    pub fn prot(self) -> Prot {
        if !self.has(VALID) {
            return Prot::empty();
        }
        let mut prot = Prot::empty();
        prot.set(Prot::READ, self.has(READ));
        prot.set(Prot::WRITE, self.has(WRITE));
        prot.set(Prot::EXEC, self.has(EXECUTE));
        prot
    }
    /// In the kind of a leaf of the kernel's: user mode may access it.
    pub(super) const KIND_USER: u8 = 1;
    /// Device registers.
    pub(super) const KIND_DEVICE: u8 = 2;

    /// An entry of the kernel's map at `level`, as `crates/linear-map` has it.
    pub fn kernel(self, level: usize) -> linear_map::Entry {
        if self.is_empty() {
            return linear_map::Entry::Empty;
        }
        if level > 0 && self.is_table() {
            return linear_map::Entry::Table(linear_map::Table(self.phys().as_u64()));
        }
        let mut access = Access::empty();
        for (bit, allowed) in [
            (VALID, Access::PRESENT),
            (READ, Access::READ),
            (WRITE, Access::WRITE),
            (EXECUTE, Access::EXECUTE),
        ] {
            access.set(allowed, self.has(bit));
        }
        let user = if self.has(PRIVILEGED) { 0 } else { Self::KIND_USER };
        let device = if self.has(NON_IDEMPOTENT) {
            Self::KIND_DEVICE
        } else {
            0
        };
        linear_map::Entry::Leaf(Leaf {
            phys: self.phys().as_u64(),
            attributes: Attributes {
                access,
                kind: user | device,
            },
            grouped: false,
            marked: false,
        })
    }
    /// The inverse of [`Entry::kernel`].
    pub fn of_kernel(entry: linear_map::Entry, _level: usize) -> Self {
        let leaf = match entry {
            linear_map::Entry::Empty => return Self::EMPTY,
            linear_map::Entry::Table(table) => return Self::table(PhysAddr::new(table.0)),
            linear_map::Entry::Leaf(leaf) => leaf,
        };
        let has = |access| leaf.attributes.access.contains(access);
        let kind = |kind| leaf.attributes.kind & kind != 0;
        let bits = [
            (has(Access::PRESENT), VALID),
            (has(Access::READ), READ),
            (has(Access::WRITE), WRITE),
            (has(Access::EXECUTE), EXECUTE),
            (!kind(Self::KIND_USER), PRIVILEGED),
            (kind(Self::KIND_DEVICE), NON_IDEMPOTENT),
        ];
        let bits = bits.into_iter().filter(|(there, _)| *there);
        Self::new(bits.fold(leaf.phys | LEAF | REFERENCED | CHANGED, |all, (_, bit)| all | bit))
    }
    /// As a number, to reckon with.
    #[inline(always)]
    pub fn number(self) -> u64 {
        u64::from_be(self.0)
    }
    /// The inverse of [`Entry::number`].
    #[inline(always)]
    pub fn of_number(number: u64) -> Self {
        Self(number.to_be())
    }
    /// The same page without permission to write; `None` if it has none.
    #[inline(always)]
    pub fn write_protected(self) -> Option<Self> {
        (self.has(VALID) && self.has(WRITE)).then_some(Self(self.0 & !WRITE.to_be()))
    }
    /// The same page with other user permissions.
    #[inline]
    pub fn with_prot(self, prot: Prot) -> Self {
        Self(self.0 & ADDRESS.to_be() | Self::user_bits(prot))
    }
}
