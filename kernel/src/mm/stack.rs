//! Kernel stacks. Each is the mapped upper half of an aligned slot (see [`super::STACK_SHIFT`]), so that an
//! overflow faults. Freed stacks are kept, mapped, for the next fork.

use super::frame::{self, For, FrameList, Pfn};
use super::reserve::room_behind;
use super::{PAGE_SHIFT, PAGE_SIZE, Prot, table, vmap};
use crate::arch::irq;
use crate::arch::mmu::{self, Entry, MemoryKind};
use crate::sched::preempt;
use crate::sync::IrqSpinLock;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes of a kernel stack.
const STACK_SIZE: usize = 1 << super::STACK_SHIFT;
const PAGES: usize = STACK_SIZE / PAGE_SIZE;
/// Bytes of addresses per stack.
const SLOT: usize = 2 * STACK_SIZE;
/// How many free stacks are kept.
const KEEP: usize = 24;

/// A kernel stack, mapped and exclusively owned.
#[derive(Debug)]
pub struct KernelStack {
    base: usize,
}

/// Free stacks, linked through their lowest word, and slots whose stacks were unmapped.
struct Pool {
    head: usize,
    count: usize,
    /// How many slots were ever used.
    slots: usize,
    /// The slots without a stack. The vector has room for all slots, since nothing can be allocated where one
    /// is freed.
    holes: Vec<u32>,
}

static POOL: IrqSpinLock<Pool> = IrqSpinLock::new_allocator(Pool {
    head: 0,
    count: 0,
    slots: 0,
    holes: Vec::new(),
});
/// How many stacks exist, for `/proc/meminfo`.
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// The size of all kernel stacks in KiB.
pub fn kib() -> usize {
    LIVE.load(Relaxed) * STACK_SIZE / 1024
}

fn slots_base() -> usize {
    (vmap::range().0 + SLOT - 1) & !(SLOT - 1)
}

impl KernelStack {
    /// A stack with arbitrary content. `None`: memory is short. May sleep.
    pub fn new() -> Option<Self> {
        let mut pool = POOL.lock();
        if pool.head != 0 {
            let base = pool.head;
            // SAFETY: the lowest word of a free stack links to the next one.
            pool.head = unsafe { (base as *const usize).read() };
            pool.count -= 1;
            if pool.count > KEEP && preempt::count() == 1 {
                drop(pool);
                trim(KEEP / 2);
            }
            return Some(Self { base });
        }
        drop(pool);
        let slot = loop {
            // Reserves room in `holes` for all slots and a new one.
            let more = {
                let pool = POOL.lock();
                pool.slots + 1 - pool.holes.len()
            };
            let mut pool = room_behind(|| POOL.lock(), |pool| &mut pool.holes, more).ok()?;
            if let Some(slot) = pool.holes.pop() {
                break slot as usize;
            }
            let (start, end) = vmap::range();
            if pool.slots >= (end - start) / 2 / SLOT - 1 {
                return None;
            }
            // Other threads may have used up the reserved room.
            if pool.slots < pool.holes.capacity() {
                pool.slots += 1;
                break pool.slots - 1;
            }
        };
        let base = slots_base() + slot * SLOT + STACK_SIZE;
        // The last memory is not used for a new stack.
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

/// Whether `addr` lies in the unmapped part below a kernel stack, so that an access to it is an overflow.
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

/// Unmaps free stacks until `keep` are left. Waits for other CPUs: interrupts and preemption must be on.
pub fn trim(keep: usize) {
    if preempt::count() != 0 || !irq::enabled() {
        return;
    }
    while trim_some(keep) == BATCH {}
}

/// How many stacks are unmapped together.
const BATCH: usize = 32;

/// Unmaps one batch for [`trim`]. Returns how many stacks it was.
fn trim_some(keep: usize) -> usize {
    let mut frames = FrameList::new();
    let (mut slots, mut count) = ([0; BATCH], 0);
    while count < BATCH {
        let mut pool = POOL.lock();
        if pool.count <= keep {
            break;
        }
        let base = pool.head;
        // SAFETY: the lowest word of a free stack links to the next one.
        pool.head = unsafe { (base as *const usize).read() };
        pool.count -= 1;
        drop(pool);
        for i in 0..PAGES {
            if let Some(slot) = table::find(mmu::kernel_root(), base + (i << PAGE_SHIFT)) {
                frames.push(frame::pfn(table::load(slot).phys()));
                table::store(slot, Entry::EMPTY);
            }
        }
        slots[count] = ((base - slots_base()) / SLOT) as u32;
        count += 1;
    }
    let slots = &slots[..count];
    let Some((&low, &high)) = slots.iter().min().zip(slots.iter().max()) else {
        return 0;
    };
    mmu::flush_kernel(
        slots_base() + low as usize * SLOT,
        slots_base() + (high as usize + 1) * SLOT,
    );
    LIVE.fetch_sub(count, Relaxed);
    POOL.lock().holes.extend_from_slice(slots);
    frame::free_list(frames);
    count
}

impl Drop for KernelStack {
    /// In any context, but not on the stack itself.
    fn drop(&mut self) {
        let mut pool = POOL.lock();
        // SAFETY: nothing runs on the stack any more. Its lowest word becomes the link.
        unsafe { (self.base as *mut usize).write(pool.head) };
        pool.head = self.base;
        pool.count += 1;
    }
}
