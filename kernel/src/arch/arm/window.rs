//! Memory that the linear map has no room for, mapped a page at a time while somebody looks at it ([`View`]).
//! The window's slots belong to nobody in particular: a view may be kept over sleep and on another CPU.
//! Whoever keeps one must not wait for anything that others could need slots for, without bound.

use super::format::{Entry, MemoryKind, Slot, TABLE_SHIFT, store_slot};
use super::layout::{LINEAR_SIZE, PAGE_SHIFT, WINDOW, linear_start, phys_to_virt};
use super::{cpus, irq, tlb};
use crate::mm::{PAGE_SIZE, PhysAddr, Prot};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Whether there may be memory that the linear map has no room for. Its frames have the highest numbers.
pub const HIGH_MEMORY: bool = true;

/// Where such memory starts.
pub fn linear_end() -> u64 {
    linear_start() + LINEAR_SIZE
}

/// Pages of the window.
const SLOTS: usize = (WINDOW.1 - WINDOW.0) >> PAGE_SHIFT;
/// Tables of the window.
pub(super) const TABLES: usize = SLOTS >> TABLE_SHIFT;
const _: () = assert!(SLOTS == TABLES << TABLE_SHIFT);

/// A bit is set for each slot that is taken.
static TAKEN: [AtomicU32; SLOTS / 32] = [const { AtomicU32::new(0) }; SLOTS / 32];
/// The window's tables, one behind the other.
static TABLE: AtomicPtr<Slot> = AtomicPtr::new(core::ptr::null_mut());

/// The window's tables are at `tables`, empty, one behind the other. At boot.
pub(super) fn init(tables: *mut Entry) {
    TABLE.store(tables.cast(), Ordering::Relaxed);
}

/// The content of a page, where the kernel can reach it for as long as this lives.
#[derive(Debug)]
pub struct View(*mut u8);

impl View {
    /// Of the page at `phys`.
    #[inline(always)]
    pub fn new(phys: PhysAddr) -> Self {
        let page = (phys.as_u64() >> PAGE_SHIFT) as u32;
        if page.wrapping_sub((linear_start() >> PAGE_SHIFT) as u32) < (LINEAR_SIZE >> PAGE_SHIFT) as u32 {
            Self(phys_to_virt(phys))
        } else {
            Self(map(phys))
        }
    }
    /// Its first byte.
    #[inline(always)]
    pub fn as_ptr(&self) -> *mut u8 {
        self.0
    }
}

impl Drop for View {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0 as usize >= WINDOW.0 {
            unmap(self.0 as usize);
        }
    }
}

/// Takes a slot. If none is free other threads run until one is: nobody keeps a slot for long.
fn take() -> usize {
    // Each CPU starts elsewhere, so that they rarely meet.
    let first = cpus::cpu_id() * 7;
    loop {
        for i in 0..TAKEN.len() {
            let at = (first + i) % TAKEN.len();
            let word = TAKEN[at].load(Ordering::Relaxed);
            let bit = word.trailing_ones();
            if bit < 32
                && TAKEN[at]
                    .compare_exchange(word, word | 1 << bit, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return at * 32 + bit as usize;
            }
        }
        if crate::sched::preempt::count() == 0 && irq::enabled() {
            crate::sched::yield_now();
        }
    }
}

fn slot(index: usize) -> &'static Slot {
    // SAFETY: the tables were there before the first page was; `index` is below `SLOTS`.
    unsafe { &*TABLE.load(Ordering::Relaxed).add(index) }
}

#[cold]
#[inline(never)]
fn map(phys: PhysAddr) -> *mut u8 {
    let index = take();
    let addr = WINDOW.0 + (index << PAGE_SHIFT);
    let entry = Entry::kernel_leaf(phys, Prot::READ | Prot::WRITE, MemoryKind::Normal, 0);
    store_slot(slot(index), entry.0);
    tlb::update_kernel(addr, addr + PAGE_SIZE);
    addr as *mut u8
}

#[cold]
#[inline(never)]
fn unmap(addr: usize) {
    let index = (addr - WINDOW.0) >> PAGE_SHIFT;
    store_slot(slot(index), Entry::EMPTY.0);
    // No CPU may see this page through the slot's next mapping.
    tlb::flush_kernel(addr, addr + PAGE_SIZE);
    TAKEN[index / 32].fetch_and(!(1 << (index % 32)), Ordering::Release);
}
