//! Page table entries (radix trees), the address layout, TLB maintenance. The kernel's own map is built in
//! `kmap`; `pid` hands out the identifiers of address spaces. 4K pages; the hardware's root has 13 bits of
//! index, of which 9 are used, so a tree of four equal levels it is.
//!
//! The processor reads entries in big-endian byte order, and an [`Entry`] is what it reads: constants are
//! swapped when the kernel is compiled, addresses when they are used.

use super::copy::{PIECE, copy_vectors};
use super::pid;
use super::spr;
use crate::mm::{PhysAddr, Prot};
use core::arch::asm;
use core::sync::atomic::AtomicU64;

pub use super::pid::MmContext;
pub use crate::arch::linear::{HIGH_MEMORY, View, linear_end, load_part, load_slot, store_slot};

/// log2 of the page size.
pub const PAGE_SHIFT: usize = 12;
/// One past the largest user address (a multiple of the page size).
pub const USER_END: usize = 1 << 47;
/// What user mode can read and execute in the kernel's part, as `/proc/PID/maps` shows it: start, end, name.
/// Here nothing.
pub const GATE: Option<(usize, usize, &str)> = None;
/// Permissions that a load is allowed by: not execution alone.
pub const READABLE: Prot = Prot::READ.union(Prot::WRITE);
/// An entry in memory.
pub type Slot = AtomicU64;
/// Levels of a user page table; level 0 holds pages, `LEVELS - 1` is the root.
pub const LEVELS: usize = 4;
/// log2 of the entries of one table.
pub const TABLE_SHIFT: usize = 9;
/// Where the linear map of RAM starts: virtual = physical + this.
pub const LINEAR_BASE: usize = 0xc000_0000_0000_0000;
/// Kernel virtual range for dynamic mappings (stacks, device registers), as `(start, end)`.
pub const VMAP: (usize, usize) = (0xc000_8000_0000_0000, 0xc000_c000_0000_0000);

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

/// The kernel's linear map: the address where `phys` can be read and written. RAM only.
#[inline(always)]
pub fn phys_to_virt(phys: PhysAddr) -> *mut u8 {
    (phys.as_usize() | LINEAR_BASE) as *mut u8
}

/// The inverse of [`phys_to_virt`].
#[inline(always)]
pub fn virt_to_phys(virt: *const u8) -> PhysAddr {
    PhysAddr::new(virt as u64 & !(LINEAR_BASE as u64))
}

/// Fills a fresh, zeroed user root table with what every address space shares with the kernel: nothing, the
/// kernel has its own tree.
pub fn init_user_root(root: PhysAddr) {
    let _ = root;
}

/// The root of the kernel's own table (for the [`VMAP`] range; the same entry format).
pub fn kernel_root() -> PhysAddr {
    super::kmap::root()
}

/// Makes `root` the current user address space of this CPU. Interrupts are off.
#[inline]
pub fn switch_to(root: PhysAddr, context: &MmContext) {
    set_pid(pid::activate(root, context));
}

/// Leaves user address spaces: only kernel mappings are valid on this CPU afterwards (idle, kernel threads
/// that outlive their last user). Interrupts are off.
pub fn switch_to_kernel() {
    set_pid(pid::NOBODY);
}

#[inline(always)]
fn set_pid(pid: usize) {
    if spr::read!(spr::PIDR) != pid {
        // SAFETY: the identifier's tree is that of an address space that the caller keeps alive while it is
        // current, or empty.
        unsafe { spr::write!(spr::PIDR, pid) }
        spr::isync();
    }
}

/// More pages than this are not invalidated one by one.
const FLUSH_ALL_ABOVE: usize = 32;

/// What one invalidation is to forget.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// Translations of one page.
    Page,
    /// All translations of an identifier.
    Identifier,
    /// Those, and what was cached of tables and process entries.
    Everything,
}

/// Forgets on every CPU.
///
/// # Safety
/// To be put between `ptesync` and `eieio; tlbsync; ptesync`.
#[inline(always)]
unsafe fn tlbie(what: What, pid: usize, addr: usize) {
    let rs = pid << 32;
    // Bits 52 and 53 choose the scope: 0 an address, 1 an identifier.
    let rb = if what == What::Page {
        addr & !0xfff
    } else {
        1 << 10
    };
    // SAFETY: forgetting translations is always allowed. `tlbie r5, r6, RIC, 1, 1`, spelled as a word for
    // assemblers that know only the short form.
    unsafe {
        match what {
            What::Everything => {
                asm!(".long 0x7ccb2a64", in("r5") rb, in("r6") rs, options(nostack, preserves_flags))
            }
            _ => asm!(".long 0x7cc32a64", in("r5") rb, in("r6") rs, options(nostack, preserves_flags)),
        }
    }
}

/// Orders what follows after earlier stores to tables.
#[inline(always)]
fn before() {
    // SAFETY: a barrier.
    unsafe { asm!("ptesync", options(nostack, preserves_flags)) }
}

/// Waits for all CPUs to have forgotten.
#[inline(always)]
fn after() {
    // SAFETY: barriers.
    unsafe { asm!("eieio", "tlbsync", "ptesync", options(nostack, preserves_flags)) }
}

/// Forgets everything of an identifier on every CPU.
pub(super) fn flush_pid(pid: usize) {
    before();
    // SAFETY: between the barriers.
    unsafe { tlbie(What::Everything, pid, 0) };
    after();
}

/// Forgets the pages of a range one by one, or all of the identifier.
///
/// # Safety
/// As for [`tlbie`].
#[inline(always)]
unsafe fn tlbie_range(pid: usize, start: usize, end: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        if (end - start) >> PAGE_SHIFT > FLUSH_ALL_ABOVE {
            return tlbie(What::Identifier, pid, 0);
        }
        let mut addr = start;
        while addr < end {
            tlbie(What::Page, pid, addr);
            addr += 1 << PAGE_SHIFT;
        }
    }
}

/// Forgets cached translations of `[start, end)` of an address space on every CPU that may hold them.
/// `tables_freed`: table pages were removed, too. On return no CPU uses the old translations. Interrupts on,
/// no spinlock taken with interrupts off is held.
pub fn flush_user(context: &MmContext, start: usize, end: usize, tables_freed: bool) {
    before();
    // An address space that never ran has nothing cached.
    let Some(pid) = pid::current(context) else {
        return;
    };
    // SAFETY: between the barriers.
    unsafe {
        if tables_freed {
            tlbie(What::Everything, pid, 0);
        } else {
            tlbie_range(pid, start, end);
        }
    }
    after();
}

/// After an entry became valid, or gained permission and `was_valid`: whatever the processor needs before the
/// access is retried. It looks at the tables again before it reports a fault; should the store still be on
/// its way, the fault comes once more, which the fault handler resolves by doing nothing.
#[inline(always)]
pub fn update_user(context: &MmContext, addr: usize, was_valid: bool) {
    let _ = (context, addr, was_valid);
}

/// Forgets cached translations of a kernel range on every CPU.
pub fn flush_kernel(start: usize, end: usize) {
    before();
    // SAFETY: between the barriers.
    unsafe { tlbie_range(0, start, end) };
    after();
}

/// After invalid kernel entries of a range became valid: whatever the processor needs before they are used
/// (often nothing).
#[inline(always)]
pub fn update_kernel(start: usize, end: usize) {
    let _ = (start, end);
    before();
    spr::isync();
}

/// Makes newly written code in the page at `phys` visible to instruction fetch, before it is mapped
/// executable. Instruction caches of all processors that have radix trees snoop: one invalidation orders
/// them.
pub fn sync_instructions(phys: PhysAddr) {
    order_instructions(phys_to_virt(phys));
}

/// The same for the code around `at`, whoever runs this.
#[inline(always)]
pub(super) fn order_instructions(at: *const u8) {
    // SAFETY: barriers, and dropping an instruction cache line.
    unsafe { asm!("sync", "icbi 0, {}", "sync", "isync", in(reg) at, options(nostack, preserves_flags)) }
}

/// Bytes that `dcbz` clears, on every processor that has radix trees.
const LINE: usize = 128;

/// Zeroes the page at `phys`.
#[inline(always)]
pub fn clear_page(phys: PhysAddr) {
    const STEP: usize = 8 * LINE;
    let page = phys_to_virt(phys);
    for at in (0..1 << PAGE_SHIFT).step_by(STEP) {
        for line in 0..STEP / LINE {
            // SAFETY: the caller owns the page; the linear map makes all RAM writable.
            unsafe {
                asm!(
                    "dcbz {}, {}", in(reg_nonzero) page.add(at), in(reg) line * LINE,
                    options(nostack, preserves_flags),
                )
            }
        }
    }
}

/// Copies the page at `from` to the page at `to`.
#[inline(always)]
pub fn copy_page(to: PhysAddr, from: PhysAddr) {
    let (to, from) = (phys_to_virt(to) as usize, phys_to_virt(from) as usize);
    // SAFETY: the caller owns both pages, which differ; the linear map covers all RAM.
    unsafe { copy_vectors::<0>(to, from, (1 << PAGE_SHIFT) / PIECE) };
}
