//! Process identifiers: the number under which the processor finds an address space's tree, through the
//! process table, and tags its translations.
//!
//! The processor's root tables are 64 KiB, far more than an address space needs, so they belong to
//! identifiers, not to address spaces: there are as many as CPUs can use at a time and some more, in
//! proportion to memory, made at boot. An address space has a root of one page; its entries are copied to the
//! processor's root when a fault misses them there ([`sync_root`]). They only ever come, never go, until the
//! address space is gone.
//!
//! `crates/context-ids` tells who has which. When an identifier changes hands, the tree of the former owner
//! is taken out, and what the TLBs hold of it is forgotten.

use super::layout::{LINEAR_BASE, PAGE_SHIFT, USER_END, kernel_root, to_phys};
use super::radix::{Entry, LEVELS};
use super::{cache, cpus, irq, spr, tlb};
use crate::mm::PhysAddr;
use crate::mm::table::level_shift;
use crate::sync::{IrqSpinLock, MAX_CPUS};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
pub use limen_context_ids::Context as MmContext;
use limen_context_ids::{Allocator, Generations, Hooks};

/// The kernel's own identifier is 0; this one has no tree.
pub const NOBODY: usize = 1;
/// The first that is handed out.
const FIRST: usize = 2;
/// The most identifiers there can be (a multiple of 256: the process table is at least a page).
const MAX_PIDS: usize = 64 * WORDS;
const WORDS: usize = 16;
/// Bytes of a processor's root.
pub const ROOT_SIZE: usize = 65536;
/// Memory that is not much: QEMU gives no machine less, and the kernel may have been told to use only some of
/// it.
const SMALL: u64 = 256 << 20;
/// Where a root's index begins.
const ROOT_SHIFT: usize = level_shift(LEVELS - 1);
/// Entries of a root that user addresses reach.
const ROOT_ENTRIES: usize = USER_END >> ROOT_SHIFT;

static GENERATIONS: Generations<WORDS, MAX_CPUS> = Generations::new();
static ALLOCATOR: IrqSpinLock<Allocator<WORDS, MAX_CPUS>> = IrqSpinLock::new(Allocator::new(FIRST));
/// The address space's root that each CPU runs with, for faults.
static ROOT: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(0) }; MAX_CPUS];
/// Where the processor's roots are (physical), and how many identifiers there are.
static ROOTS: AtomicUsize = AtomicUsize::new(0);
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Which entries of each identifier's root may be in use.
static FILLED: [[AtomicU64; ROOT_ENTRIES / 64]; MAX_PIDS] =
    [const { [const { AtomicU64::new(0) }; ROOT_ENTRIES / 64] }; MAX_PIDS];

unsafe extern "C" {
    static __process_table: u8;
}

/// The process table: physical address, and its size as the hypervisor wants it (log2 of bytes, less 12).
pub fn process_table() -> (u64, usize) {
    const SIZE: usize = MAX_PIDS * 16;
    // SAFETY: a linker symbol; only its address is used.
    let at = unsafe { core::ptr::from_ref(&__process_table) as usize };
    (to_phys(at), SIZE.ilog2() as usize - 12)
}

/// How many identifiers a machine with `cpus` CPUs and `memory` bytes gets: few, and what fits into a 64th of
/// the memory beyond [`SMALL`].
pub fn wanted(cpus: usize, memory: u64) -> usize {
    let more = memory.saturating_sub(SMALL) as usize / 64 / ROOT_SIZE;
    (FIRST + 12 + 3 * cpus + more).min(MAX_PIDS)
}

/// Fills the process table: the kernel's tree, and an empty one for each identifier, whose roots are the
/// `count * ROOT_SIZE` bytes at `roots`.
pub fn init(roots: u64, count: usize) {
    let (table, _) = process_table();
    let table = (LINEAR_BASE | table as usize) as *mut u64;
    // SAFETY: the linker script places the table; the caller gives the roots away.
    unsafe {
        core::ptr::write_bytes(table.cast::<u8>(), 0, MAX_PIDS * 16);
        table.write(process_entry(kernel_root().as_u64()));
        for n in FIRST..count {
            table
                .add(n * 2)
                .write(process_entry(roots + (n * ROOT_SIZE) as u64));
        }
    }
    for page in 0..(count * ROOT_SIZE) >> PAGE_SHIFT {
        cache::clear_page(PhysAddr::new(roots + (page << PAGE_SHIFT) as u64));
    }
    ROOTS.store(roots as usize, Ordering::Relaxed);
    COUNT.store(count, Ordering::Release);
}

/// A tree with a root of 2^13 entries for addresses of 52 bits (`RTS` = 52 - 31, in two parts).
fn process_entry(root: u64) -> u64 {
    const RTS: u64 = (21 >> 3) << 61 | (21 & 7) << 5;
    (RTS | root | 13).to_be()
}

/// The entry of `pid`'s root for `index`.
fn root_slot(pid: usize, index: usize) -> &'static AtomicU64 {
    let at = LINEAR_BASE | (ROOTS.load(Ordering::Relaxed) + pid * ROOT_SIZE + index * 8);
    // SAFETY: inside the roots, which are only accessed as atomics.
    unsafe { &*(at as *const AtomicU64) }
}

/// Copies one entry of the address space's root at `root` to `pid`'s; whether there is one. The caller keeps
/// `pid` that address space's.
fn fill(pid: usize, root: usize, index: usize) -> bool {
    // SAFETY: the address space's root, a page of the linear map that is only accessed as atomics.
    let entry = unsafe { &*((LINEAR_BASE | (root + index * 8)) as *const AtomicU64) }.load(Ordering::Acquire);
    if Entry(entry).is_empty() {
        return false;
    }
    FILLED[pid][index / 64].fetch_or(1 << (index % 64), Ordering::Relaxed);
    root_slot(pid, index).store(entry, Ordering::Release);
    true
}

/// Makes the processor's root of the current address space agree with the address space's for `addr`, before
/// or after a page fault there. `true`: it did not, and the access should be tried again.
#[inline]
pub fn sync_root(addr: usize) -> bool {
    let pid = spr::read!(spr::PIDR);
    if pid < FIRST || addr >= USER_END || root_slot(pid, addr >> ROOT_SHIFT).load(Ordering::Relaxed) != 0 {
        return false;
    }
    copy_entry(addr >> ROOT_SHIFT)
}

#[cold]
fn copy_entry(index: usize) -> bool {
    let flags = irq::local_save();
    // Interrupts are off: identifier and root are those of the running thread's address space.
    let pid = spr::read!(spr::PIDR);
    let root = ROOT[cpus::cpu_id()].load(Ordering::Relaxed) as usize;
    let copied = pid >= FIRST && fill(pid, root, index);
    if copied {
        // SAFETY: a barrier: the entry is there for the next walk.
        unsafe { core::arch::asm!("ptesync", options(nostack, preserves_flags)) }
    }
    irq::local_restore(flags);
    copied
}

/// The identifier of `context`, if anything may be cached under it.
#[inline]
pub fn current(context: &MmContext) -> Option<usize> {
    GENERATIONS.current(context)
}

/// The identifier `context`, whose root is `root`, runs with on this CPU from now on. Interrupts are off.
#[inline]
pub fn activate(root: PhysAddr, context: &MmContext) -> usize {
    let cpu = cpus::cpu_id();
    ROOT[cpu].store(root.as_u64(), Ordering::Relaxed);
    let number = GENERATIONS.activate(context, cpu);
    number.unwrap_or_else(|| slow(root, context, cpu))
}

#[cold]
fn slow(root: PhysAddr, context: &MmContext, cpu: usize) -> usize {
    let count = COUNT.load(Ordering::Relaxed);
    let mut allocator = ALLOCATOR.lock();
    allocator.activate(&GENERATIONS, context, cpu, count, &mut Tree(root))
}

/// Of who gets the number: its root.
struct Tree(PhysAddr);

impl Hooks for Tree {
    fn taken(&mut self, number: usize) {
        take_over(number, self.0);
    }
}

/// Puts the tree at `root` under `pid` in place of another: of its entries, the first and the last, which
/// nearly every program has.
fn take_over(pid: usize, root: PhysAddr) {
    for (word, filled) in FILLED[pid].iter().enumerate() {
        let mut left = filled.swap(0, Ordering::Relaxed);
        while left != 0 {
            root_slot(pid, word * 64 + left.trailing_zeros() as usize).store(0, Ordering::Relaxed);
            left &= left - 1;
        }
    }
    fill(pid, root.as_usize(), 0);
    fill(pid, root.as_usize(), ROOT_ENTRIES - 1);
    tlb::flush_pid(pid);
}
