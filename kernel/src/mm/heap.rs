//! The kernel heap, used by `alloc`. Small objects come from slabs of objects of equal size, with a list of
//! free ones per CPU in front. A page or more comes from the frame allocator, and what needs many frames from
//! `vmap`. Allocating and freeing is allowed in any context, and does not sleep.

use super::frame::{self, For, INFO_OWNED, Pfn};
use super::{PAGE_SHIFT, PAGE_SIZE, vmap};
use crate::arch::{irq, mmu, smp};
use crate::sync::lockdep::{allocates_much, uses_heap};
use crate::sync::{IrqSpinLock, MAX_CPUS};
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use limen_page_alloc::NONE;

/// Object sizes, ascending; each is a multiple of 16. Those above half a page are not used.
const ALL_SIZES: [usize; 17] = [
    16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 4096, 8192, 16384,
];
const SIZES: &[usize] = ALL_SIZES.split_at(CLASSES).0;
const CLASSES: usize = {
    let mut count = ALL_SIZES.len();
    while ALL_SIZES[count - 1] > PAGE_SIZE / 2 {
        count -= 1;
    }
    count
};
/// log2 of the pages of a slab, which has at least six objects, or four.
const fn order(class: usize) -> usize {
    (6 * SIZES[class] > PAGE_SIZE) as usize
}
const LARGEST: usize = SIZES[CLASSES - 1];
/// Contiguous frames are used up to this order. Larger blocks are made of single frames by `vmap`.
const MAX_CONTIGUOUS: usize = 3;

/// Blocks of more bytes than this are only for callers that can fail and may sleep: a size that a program
/// chose, a collection that grew. Builds with lock validation report others.
const MUCH: usize = 16 << 10;

/// The class for each size, in steps of 16.
const CLASS_OF: [u8; LARGEST / 16 + 1] = {
    let mut table = [0; LARGEST / 16 + 1];
    let (mut i, mut class) = (0, 0);
    while i < table.len() {
        while SIZES[class] < i * 16 {
            class += 1;
        }
        table[i] = class as u8;
        i += 1;
    }
    table
};

/// How many objects of a class a CPU keeps at most. Half of them are moved at a time.
const fn limit(class: usize) -> u32 {
    let n = 8192 / SIZES[class];
    if n > 64 {
        64
    } else if n < 8 {
        8
    } else {
        n as u32
    }
}

/// A list of free objects, linked through their first word.
#[derive(Clone, Copy)]
struct Cache {
    head: *mut u8,
    count: u32,
}

#[repr(align(64))]
struct CpuCaches(UnsafeCell<[Cache; CLASSES]>);
// SAFETY: each CPU uses its own caches only, with interrupts off.
unsafe impl Sync for CpuCaches {}
static CACHES: [CpuCaches; MAX_CPUS] = [const {
    CpuCaches(UnsafeCell::new(
        [Cache {
            head: null_mut(),
            count: 0,
        }; CLASSES],
    ))
}; MAX_CPUS];

/// The slabs of a class that have a free object, linked through the record of their first frame. In that
/// record `refs` is the number of objects in use << 16 | (offset of the first free object / 16 + 1, or 0 if
/// there is none), `info` is class and order, `a` and `b` are links. In the records of a slab's other frames
/// `a` is the first frame, and `info` has no order.
struct Partial {
    head: u32,
}
static PARTIAL: [IrqSpinLock<Partial>; CLASSES] =
    [const { IrqSpinLock::new_allocator(Partial { head: NONE }) }; CLASSES];
/// How many frames are in slabs, for `/proc/meminfo`.
static SLAB_FRAMES: AtomicUsize = AtomicUsize::new(0);
/// How many frames are in large blocks, for `/proc/meminfo`.
static LARGE_FRAMES: AtomicUsize = AtomicUsize::new(0);

const INFO_HEAD: u32 = 1 << 30;

/// Frames the heap holds in slabs.
pub fn slab_frames() -> usize {
    SLAB_FRAMES.load(Relaxed)
}

/// Frames the heap holds in large allocations.
pub fn large_frames() -> usize {
    LARGE_FRAMES.load(Relaxed)
}

struct Heap;

#[global_allocator]
static HEAP: Heap = Heap;

/// The size class of a layout. `None`: it is larger than any class.
#[inline(always)]
fn class_of(layout: &Layout) -> Option<usize> {
    let size = layout.size();
    if layout.align() <= 16 {
        return if size <= LARGEST {
            Some(CLASS_OF[size.div_ceil(16)] as usize)
        } else {
            None
        };
    }
    aligned_class(size, layout.align())
}

#[cold]
fn aligned_class(size: usize, align: usize) -> Option<usize> {
    // Slabs begin at a page, so objects are aligned if their size is a multiple of the alignment.
    (align <= LARGEST)
        .then(|| SIZES.iter().position(|&s| s >= size && s % align == 0))
        .flatten()
}

// SAFETY: a block lies in frames that the heap owns, is aligned as asked, and overlaps no other until it is
// freed.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        uses_heap();
        let Some(class) = class_of(&layout) else {
            return alloc_large(&layout);
        };
        let flags = irq::local_save();
        // SAFETY: interrupts are off, so nothing else uses this CPU's caches.
        let cache = unsafe { &mut (*CACHES[smp::cpu_id()].0.get())[class] };
        let mut object = cache.head;
        let mut low = false;
        if object.is_null() {
            (object, low) = refill(cache, class);
        }
        if !object.is_null() {
            // SAFETY: a free object's first word links to the next one.
            cache.head = unsafe { object.cast::<*mut u8>().read() };
            cache.count -= 1;
        }
        irq::local_restore(flags);
        if low {
            super::oom::heap_is_low();
        }
        object
    }

    #[inline]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        uses_heap();
        let Some(class) = class_of(&layout) else {
            return free_large(ptr, &layout);
        };
        let flags = irq::local_save();
        // SAFETY: interrupts are off, so nothing else uses this CPU's caches.
        let cache = unsafe { &mut (*CACHES[smp::cpu_id()].0.get())[class] };
        // SAFETY: the object is free now and has at least 16 bytes.
        unsafe { ptr.cast::<*mut u8>().write(cache.head) };
        cache.head = ptr;
        cache.count += 1;
        if cache.count > limit(class) {
            flush(cache, class, limit(class) / 2);
        }
        irq::local_restore(flags);
    }
}

/// Fills an empty cache. Returns its head (null if there is no memory) and whether memory of the reserve was
/// used. Interrupts are off.
#[cold]
#[inline(never)]
fn refill(cache: &mut Cache, class: usize) -> (*mut u8, bool) {
    let mut low = false;
    let want = limit(class) / 2;
    let mut partial = PARTIAL[class].lock();
    while cache.count < want {
        if partial.head == NONE {
            // A new slab is made only if there is no free object at all; a few in the cache are enough.
            if cache.count > 0 {
                break;
            }
            let Some(slab) = new_slab(class) else { break };
            low = frame::free_in_buddy() <= frame::reserve() / 2;
            push_slab(&mut partial, slab);
        }
        let slab = partial.head;
        let record = frame::record(slab);
        let word = record.refs.load(Relaxed);
        let (mut used, mut free) = (word >> 16, word & 0xffff);
        while free != 0 && cache.count < want {
            let object = frame::virt(slab).wrapping_add((free as usize - 1) * 16);
            // SAFETY: the first word of a slab's free object is the offset of the next one. It becomes the
            // cache's link.
            unsafe {
                free = object.cast::<u32>().read();
                object.cast::<*mut u8>().write(cache.head);
            }
            cache.head = object;
            cache.count += 1;
            used += 1;
        }
        record.refs.store(used << 16 | free, Relaxed);
        if free == 0 {
            remove_slab(&mut partial, slab);
        }
    }
    (cache.head, low)
}

/// Gives objects back to their slabs until `down_to` are left in the cache. Interrupts are off.
#[cold]
#[inline(never)]
fn flush(cache: &mut Cache, class: usize, down_to: u32) {
    let mut partial = PARTIAL[class].lock();
    while cache.count > down_to {
        let object = cache.head;
        // SAFETY: a free object's first word links to the next one.
        cache.head = unsafe { object.cast::<*mut u8>().read() };
        cache.count -= 1;
        let mut slab = frame::pfn(mmu::virt_to_phys(object));
        if frame::record(slab).info.load(Relaxed) & INFO_HEAD == 0 {
            slab = frame::record(slab).a.load(Relaxed);
        }
        let record = frame::record(slab);
        let word = record.refs.load(Relaxed);
        let (used, free) = ((word >> 16) - 1, word & 0xffff);
        // SAFETY: the object is free; its first word becomes the link inside the slab.
        unsafe { object.cast::<u32>().write(free) };
        let offset = (object as usize - frame::virt(slab) as usize) / 16 + 1;
        record.refs.store(used << 16 | offset as u32, Relaxed);
        if free == 0 {
            push_slab(&mut partial, slab);
        }
        // An empty slab is given back unless it is the only one with free objects.
        if used == 0 && !(partial.head == slab && record.b.load(Relaxed) == NONE) {
            remove_slab(&mut partial, slab);
            free_slab(slab);
        }
    }
}

fn new_slab(class: usize) -> Option<Pfn> {
    let wanted = order(class);
    let (slab, order) = match frame::alloc_block(wanted, For::Kernel) {
        Some(slab) => (slab, wanted),
        None => (frame::alloc_block(0, For::Kernel)?, 0),
    };
    SLAB_FRAMES.fetch_add(1 << order, Relaxed);
    let size = SIZES[class];
    let count = (PAGE_SIZE << order) / size;
    let base = frame::virt(slab);
    for i in 0..count {
        let next = if i + 1 < count {
            ((i + 1) * size / 16 + 1) as u32
        } else {
            0
        };
        // SAFETY: inside the frames of the new slab.
        unsafe { base.add(i * size).cast::<u32>().write(next) };
    }
    let record = frame::record(slab);
    record.refs.store(1, Relaxed);
    record.info.store(
        INFO_OWNED | INFO_HEAD | (order as u32) << 8 | class as u32,
        Relaxed,
    );
    for tail in 1..1 << order {
        let r = frame::record(slab + tail);
        r.info.store(INFO_OWNED, Relaxed);
        r.a.store(slab, Relaxed);
    }
    Some(slab)
}

fn free_slab(slab: Pfn) {
    let order = (frame::record(slab).info.load(Relaxed) >> 8 & 0xff) as usize;
    for i in 0..1 << order {
        frame::record(slab + i).info.store(0, Relaxed);
    }
    SLAB_FRAMES.fetch_sub(1 << order, Relaxed);
    frame::free_block(slab, order);
}

fn push_slab(partial: &mut Partial, slab: Pfn) {
    let record = frame::record(slab);
    record.a.store(NONE, Relaxed);
    record.b.store(partial.head, Relaxed);
    if partial.head != NONE {
        frame::record(partial.head).a.store(slab, Relaxed);
    }
    partial.head = slab;
}

fn remove_slab(partial: &mut Partial, slab: Pfn) {
    let record = frame::record(slab);
    let (prev, next) = (record.a.load(Relaxed), record.b.load(Relaxed));
    if prev == NONE {
        partial.head = next;
    } else {
        frame::record(prev).b.store(next, Relaxed);
    }
    if next != NONE {
        frame::record(next).a.store(prev, Relaxed);
    }
}

/// log2 of the pages a large layout needs.
fn order_of(layout: &Layout) -> usize {
    let pages = layout.size().max(layout.align()).div_ceil(PAGE_SIZE);
    pages.next_power_of_two().ilog2() as usize
}

#[inline(never)]
fn alloc_large(layout: &Layout) -> *mut u8 {
    if layout.size() > MUCH {
        // A caller that must not sleep gets the memory, too. But it should have asked elsewhere: a reserve
        // that everything may use up is none.
        if !crate::sync::lockdep::is_at_once() {
            crate::sched::might_sleep();
        }
        allocates_much(layout.size());
    }
    if frame::free_in_buddy() <= (frame::reserve() / 2).saturating_add(layout.size() >> PAGE_SHIFT) {
        super::oom::heap_is_low();
    }
    let order = order_of(layout);
    if order <= MAX_CONTIGUOUS
        && let Some(block) = frame::alloc_block(order, For::Kernel)
    {
        LARGE_FRAMES.fetch_add(1 << order, Relaxed);
        return frame::virt(block);
    }
    if order == 0 || layout.align() > PAGE_SIZE {
        return null_mut();
    }
    vmap::alloc_pages(layout.size().div_ceil(PAGE_SIZE))
}

#[inline(never)]
fn free_large(ptr: *mut u8, layout: &Layout) {
    if vmap::contains(ptr as usize) {
        return vmap::free(ptr);
    }
    let order = order_of(layout);
    LARGE_FRAMES.fetch_sub(1 << order, Relaxed);
    frame::free_block((mmu::virt_to_phys(ptr).as_u64() >> PAGE_SHIFT) as u32, order);
}

/// Gives this CPU's cached objects back to their slabs, and empty slabs back to the frame allocator. Called
/// when memory is short.
pub fn drain_local() {
    let flags = irq::local_save();
    for class in 0..CLASSES {
        // SAFETY: interrupts are off, so nothing else uses this CPU's caches.
        let cache = unsafe { &mut (*CACHES[smp::cpu_id()].0.get())[class] };
        flush(cache, class, 0);
    }
    irq::local_restore(flags);
}
