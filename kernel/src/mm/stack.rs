//! Kernel stacks: each is the mapped upper half of an aligned slot (see [`super::STACK_SHIFT`]), so an overflow faults. Freed stacks are kept,
//! mapped, for the next fork.

use super::frame::{self, For, FrameList, Pfn};
use super::{PAGE_SHIFT, PAGE_SIZE, Prot, table, vmap};
use crate::arch::irq;
use crate::arch::mmu::{self, Entry, MemoryKind};
use crate::sched::preempt;
use crate::sync::IrqSpinLock;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes of a kernel stack.
const STACK_SIZE: usize = 1 << super::STACK_SHIFT;
const PAGES: usize = STACK_SIZE / PAGE_SIZE;
/// Addresses per stack.
const SLOT: usize = 2 * STACK_SIZE;
/// Stacks kept for reuse.
const KEEP: usize = 24;

/// A kernel stack, mapped and exclusively owned.
#[derive(Debug)]
pub struct KernelStack {
    base: usize,
}

/// Stacks that are mapped but unused, linked through their lowest word; and addresses without memory, as a count and a list
/// threaded through the numbers in `holes`.
struct Pool {
    head: usize,
    count: usize,
    /// Slots ever used.
    slots: usize,
    holes: alloc::vec::Vec<u32>,
}

static POOL: IrqSpinLock<Pool> = IrqSpinLock::new(Pool {
    head: 0,
    count: 0,
    slots: 0,
    holes: alloc::vec::Vec::new(),
});
/// Stacks that exist, for `/proc/meminfo`.
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// KiB in kernel stacks.
pub fn kib() -> usize {
    LIVE.load(Relaxed) * STACK_SIZE / 1024
}

fn slots_base() -> usize {
    (vmap::range().0 + SLOT - 1) & !(SLOT - 1)
}

impl KernelStack {
    /// A stack with arbitrary content; `None` if memory is short.
    pub fn new() -> Option<Self> {
        let mut pool = POOL.lock();
        if pool.head != 0 {
            let base = pool.head;
            // SAFETY: an unused stack's lowest word links to the next one.
            pool.head = unsafe { (base as *const usize).read() };
            pool.count -= 1;
            if pool.count > KEEP && preempt::count() == 1 {
                drop(pool);
                trim(KEEP / 2);
            }
            return Some(Self { base });
        }
        let slot = match pool.holes.pop() {
            Some(slot) => slot as usize,
            None => {
                let (start, end) = vmap::range();
                if pool.slots >= (end - start) / 2 / SLOT - 1 {
                    return None;
                }
                pool.slots += 1;
                pool.slots - 1
            }
        };
        drop(pool);
        let base = slots_base() + slot * SLOT + STACK_SIZE;
        // No new stack out of the last of the memory.
        if frame::free_in_buddy() <= frame::reserve() / 2 || !map(base) {
            POOL.lock().holes.push(slot as u32);
            return None;
        }
        LIVE.fetch_add(1, Relaxed);
        Some(Self { base })
    }

    /// One past the highest byte; 16-byte aligned.
    pub fn top(&self) -> usize {
        self.base + STACK_SIZE
    }

    /// The lowest byte.
    pub fn bottom(&self) -> usize {
        self.base
    }
}

/// If `addr` lies in the unmapped space below a kernel stack: an overflow.
pub fn is_guard(addr: usize) -> bool {
    let (start, end) = vmap::range();
    (start..start + (end - start) / 2).contains(&addr)
}

fn map(base: usize) -> bool {
    let mut frames = [0 as Pfn; PAGES];
    for i in 0..PAGES {
        let got = vmap::slot(base + (i << PAGE_SHIFT)).and_then(|_| frame::alloc(For::Kernel));
        let Some(pfn) = got else {
            for &pfn in &frames[..i] {
                frame::free(pfn);
            }
            return false;
        };
        frames[i] = pfn;
    }
    for (i, &pfn) in frames.iter().enumerate() {
        if let Some(slot) = vmap::slot(base + (i << PAGE_SHIFT)) {
            let entry = Entry::kernel_leaf(frame::phys(pfn), Prot::READ | Prot::WRITE, MemoryKind::Normal, 0);
            table::store(slot, entry);
        }
    }
    mmu::update_kernel(base, base + STACK_SIZE);
    true
}

/// Unmaps unused stacks until `keep` are left. Only where waiting for other CPUs is allowed.
pub fn trim(keep: usize) {
    if preempt::count() != 0 || !irq::enabled() {
        return;
    }
    let mut frames = FrameList::new();
    let mut slots = alloc::vec::Vec::new();
    loop {
        let mut pool = POOL.lock();
        if pool.count <= keep {
            break;
        }
        let base = pool.head;
        // SAFETY: an unused stack's lowest word links to the next one.
        pool.head = unsafe { (base as *const usize).read() };
        pool.count -= 1;
        drop(pool);
        for i in 0..PAGES {
            if let Some(slot) = table::find(mmu::kernel_root(), base + (i << PAGE_SHIFT)) {
                frames.push(frame::pfn(table::load(slot).phys()));
                table::store(slot, Entry::EMPTY);
            }
        }
        slots.push(((base - slots_base()) / SLOT) as u32);
    }
    let Some((&low, &high)) = slots.iter().min().zip(slots.iter().max()) else {
        return;
    };
    mmu::flush_kernel(
        slots_base() + low as usize * SLOT,
        slots_base() + (high as usize + 1) * SLOT,
    );
    LIVE.fetch_sub(slots.len(), Relaxed);
    POOL.lock().holes.append(&mut slots);
    frame::free_list(frames);
}

impl Drop for KernelStack {
    /// Any context, but not on the stack itself.
    fn drop(&mut self) {
        let mut pool = POOL.lock();
        // SAFETY: nobody runs on the stack any more; its lowest word becomes the link.
        unsafe { (self.base as *mut usize).write(pool.head) };
        pool.head = self.base;
        pool.count += 1;
    }
}
