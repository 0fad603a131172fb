//! Page frames: a record of 16 bytes per frame, the buddy allocator behind a lock, and in front of it a list
//! of free single frames per CPU. All other parts of `mm` (pages, slabs, page tables, kernel stacks) get
//! their memory here.
//!
//! A frame is named by its number (`phys >> PAGE_SHIFT`, a `u32`: 16 TiB with pages of 4 KiB). An allocated
//! frame belongs to whoever allocated it. That owner may use the words of its record (reference count, links
//! of a list).

pub mod debug_pagealloc;

use super::{PAGE_SHIFT, PAGE_SIZE, PhysAddr};
use crate::arch::{irq, mmu, smp};
use crate::cmdline;
use crate::mm::{BootInfo, PhysRange};
use crate::sync::{IrqSpinLock, MAX_CPUS};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::Relaxed};
use limen_page_alloc::{Buddy, Frames, NONE, ORDERS};

/// A frame number.
pub type Pfn = u32;

/// What the kernel keeps for each frame.
#[derive(Debug)]
#[repr(C)]
pub struct Frame {
    /// The number of references, for frames of a [`super::Page`]. For the owner's use otherwise.
    pub refs: AtomicU32,
    /// While free: order + 1 in the first frame of a block of the buddy allocator, 0 in others. While
    /// allocated: for the owner's use, 31 bits with [`INFO_OWNED`] set.
    pub info: AtomicU32,
    /// The first link. For the owner's use while allocated.
    pub a: AtomicU32,
    /// The second link. For the owner's use while allocated.
    pub b: AtomicU32,
}
const _: () = assert!(size_of::<Frame>() == 16);

/// Owners that use [`Frame::info`] set this bit, so that the frame is not taken for a free block.
pub const INFO_OWNED: u32 = 1 << 31;

/// The address of frame 0's record, as if there were one: frame `n`'s record is the `n`th from here.
static RECORDS: AtomicPtr<Frame> = AtomicPtr::new(core::ptr::null_mut());
static BASE: AtomicU32 = AtomicU32::new(0);
static TOTAL: AtomicUsize = AtomicUsize::new(0);
/// When fewer frames than this are free, only the kernel itself still gets some.
static RESERVE: AtomicUsize = AtomicUsize::new(0);
/// When fewer frames than this in the linear map are free, user pages get none of them. Where part of the
/// memory is outside the linear map, this keeps frames for uses that need an address.
static USER_RESERVE: AtomicUsize = AtomicUsize::new(0);
/// How many frames a CPU's list holds at most.
static PCP_HIGH: AtomicU32 = AtomicU32::new(8);
/// The first frame outside the linear map. `u32::MAX` on machines without such memory ([`mmu::HIGH_MEMORY`]).
static HIGH_START: AtomicU32 = AtomicU32::new(u32::MAX);

#[repr(align(64))]
struct PerCpuList(UnsafeCell<FrameList>);
// SAFETY: each CPU uses its own list only, with interrupts off.
unsafe impl Sync for PerCpuList {}

/// The allocator of one kind of frames.
struct Zone {
    lists: [PerCpuList; MAX_CPUS],
    buddy: IrqSpinLock<Buddy>,
}

impl Zone {
    const fn new() -> Self {
        Self {
            lists: [const { PerCpuList(UnsafeCell::new(FrameList::new())) }; MAX_CPUS],
            buddy: IrqSpinLock::new_allocator(Buddy::new()),
        }
    }
}

/// The frames in the linear map.
static LOW: Zone = Zone::new();
/// The frames outside of it.
static HIGH: Zone = Zone::new();

#[inline(always)]
fn zone_of(pfn: Pfn) -> &'static Zone {
    if mmu::HIGH_MEMORY && pfn >= HIGH_START.load(Relaxed) {
        &HIGH
    } else {
        &LOW
    }
}

/// The record of a frame.
#[inline(always)]
pub fn record(pfn: Pfn) -> &'static Frame {
    // SAFETY: frame numbers come from the allocator or from page tables that it filled, so the record exists.
    // Records are never freed and consist of atomics.
    unsafe { &*RECORDS.load(Relaxed).wrapping_add(pfn as usize) }
}

static LEN: AtomicU32 = AtomicU32::new(0);

/// The physical address of a frame.
#[inline(always)]
pub fn phys(pfn: Pfn) -> PhysAddr {
    PhysAddr::new((pfn as u64) << PAGE_SHIFT)
}

/// The frame at a physical address.
#[inline(always)]
pub fn pfn(phys: PhysAddr) -> Pfn {
    (phys.as_u64() >> PAGE_SHIFT) as u32
}

/// The linear-map address of a frame.
#[inline(always)]
pub fn virt(pfn: Pfn) -> *mut u8 {
    mmu::phys_to_virt(phys(pfn))
}

/// A list of allocated single frames, linked through [`Frame::a`].
#[derive(Debug)]
pub struct FrameList {
    head: u32,
    count: u32,
}

impl FrameList {
    /// Empty.
    pub const fn new() -> Self {
        Self { head: NONE, count: 0 }
    }
    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
    /// How many there are.
    pub fn len(&self) -> usize {
        self.count as usize
    }
    /// Adds a frame.
    #[inline(always)]
    pub fn push(&mut self, pfn: Pfn) {
        record(pfn).a.store(self.head, Relaxed);
        self.head = pfn;
        self.count += 1;
    }
    /// Takes out the frame that was added last.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<Pfn> {
        if self.head == NONE {
            return None;
        }
        let pfn = self.head;
        self.head = record(pfn).a.load(Relaxed);
        self.count -= 1;
        Some(pfn)
    }
    /// Takes out the frames that follow `pfn`, and are its neighbours in memory, until `down_to` are left.
    /// Frames that were handed out one after the other often come back so. Returns the first and the last.
    #[inline(always)]
    fn neighbours(&mut self, pfn: Pfn, down_to: u32) -> (Pfn, Pfn) {
        let (mut first, mut last) = (pfn, pfn);
        while self.count > down_to {
            if self.head == last + 1 {
                last = self.head;
            } else if self.head == first - 1 {
                first = self.head;
            } else {
                break;
            }
            self.pop();
        }
        (first, last)
    }
}

/// The records as the buddy allocator sees them: its indices count from `BASE`, a multiple of the largest
/// block.
struct Records {
    base: u32,
}

impl Frames for Records {
    #[inline(always)]
    fn links(&self, frame: u32) -> (u32, u32) {
        let r = record(self.base + frame);
        (r.a.load(Relaxed), r.b.load(Relaxed))
    }
    #[inline(always)]
    fn set_links(&self, frame: u32, links: (u32, u32)) {
        let r = record(self.base + frame);
        r.a.store(links.0, Relaxed);
        r.b.store(links.1, Relaxed);
    }
    #[inline(always)]
    fn free_order(&self, frame: u32) -> Option<u8> {
        match record(self.base + frame).info.load(Relaxed) {
            0 => None,
            n if n & INFO_OWNED != 0 => None,
            n => Some(n as u8 - 1),
        }
    }
    #[inline(always)]
    fn set_free_order(&self, frame: u32, order: Option<u8>) {
        record(self.base + frame)
            .info
            .store(order.map_or(0, |o| o as u32 + 1), Relaxed);
    }
}

fn records() -> Records {
    Records {
        base: BASE.load(Relaxed),
    }
}

/// For what a frame is allocated. It decides how much of the reserve the caller may use, and whether the
/// frame has to lie in the linear map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// User pages. None of the reserve; the frame may lie outside the linear map ([`super::Page::bytes`]).
    User,
    /// What the kernel uses itself but programs can cause, such as page tables. None of the reserve.
    Addressed,
    /// Tasks that are being killed and need memory to get to their end. Half of the reserve. Also for large
    /// allocations of the kernel that may fail.
    Dying,
    /// The kernel itself. All of the reserve.
    Kernel,
}

impl For {
    /// Whether the free frames are all kept for others.
    #[inline(always)]
    fn must_stop(self, buddy: &Buddy) -> bool {
        match self {
            For::User if mmu::HIGH_MEMORY => buddy.free_frames() <= USER_RESERVE.load(Relaxed),
            For::User | For::Addressed => buddy.free_frames() <= RESERVE.load(Relaxed),
            For::Dying => buddy.free_frames() <= RESERVE.load(Relaxed) / 2,
            For::Kernel => false,
        }
    }
}

/// Takes one frame. Its content is arbitrary, its reference count 1. Does not sleep; in any context.
#[inline(always)]
pub fn alloc(whom: For) -> Option<Pfn> {
    if mmu::HIGH_MEMORY
        && whom == For::User
        && HIGH_START.load(Relaxed) != u32::MAX
        && let Some(pfn) = alloc_from(&HIGH, For::Kernel)
    {
        return Some(pfn);
    }
    alloc_from(&LOW, whom)
}

#[inline(always)]
fn alloc_from(zone: &'static Zone, whom: For) -> Option<Pfn> {
    let flags = irq::local_save();
    // SAFETY: interrupts are off, so nothing else uses this CPU's list.
    let list = unsafe { &mut *zone.lists[smp::cpu_id()].0.get() };
    let mut got = list.pop();
    if got.is_none() {
        refill(zone, list, whom);
        got = list.pop();
    }
    irq::local_restore(flags);
    if let Some(pfn) = got {
        let record = record(pfn);
        record.refs.store(1, Relaxed);
        record.info.store(0, Relaxed);
    }
    got
}

#[cold]
#[inline(never)]
fn refill(zone: &Zone, list: &mut FrameList, whom: For) {
    if debug_pagealloc::is_on() {
        return debug_pagealloc::refill(zone, list, whom);
    }
    let records = records();
    let mut buddy = zone.buddy.lock();
    if whom.must_stop(&buddy) {
        return;
    }
    let batch = PCP_HIGH.load(Relaxed) / 2;
    // The frame that is pushed last is handed out first: a run is pushed backwards, so that its frames are
    // handed out in ascending order.
    while list.count < batch {
        let order = ((batch - list.count).ilog2() as usize).min(5);
        let Some((block, order)) = (0..=order)
            .rev()
            .find_map(|o| Some((buddy.alloc(&records, o)?, o)))
        else {
            break;
        };
        for i in (0..1 << order).rev() {
            list.push(records.base + block + i);
        }
    }
}

/// Gives one frame back. In any context.
#[inline]
pub fn free(pfn: Pfn) {
    let zone = zone_of(pfn);
    let flags = irq::local_save();
    // SAFETY: interrupts are off, so nothing else uses this CPU's list.
    let list = unsafe { &mut *zone.lists[smp::cpu_id()].0.get() };
    list.push(pfn);
    if list.count > PCP_HIGH.load(Relaxed) {
        drain(zone, list, PCP_HIGH.load(Relaxed) / 2);
    }
    irq::local_restore(flags);
}

/// Gives all frames of a list back. In any context.
#[inline(always)]
pub fn free_list(frames: FrameList) {
    if !frames.is_empty() {
        if mmu::HIGH_MEMORY && HIGH_START.load(Relaxed) != u32::MAX {
            free_mixed(frames);
        } else {
            free_all(&LOW, frames);
        }
    }
}

/// Gives back a list with frames inside and outside the linear map.
#[inline(never)]
fn free_mixed(mut frames: FrameList) {
    let (mut low, mut high) = (FrameList::new(), FrameList::new());
    while let Some(pfn) = frames.pop() {
        if pfn >= HIGH_START.load(Relaxed) {
            high.push(pfn);
        } else {
            low.push(pfn);
        }
    }
    free_all(&LOW, low);
    free_all(&HIGH, high);
}

#[inline(never)]
fn free_all(zone: &Zone, mut frames: FrameList) {
    // Interrupts are turned on now and then in a long list.
    while !frames.is_empty() {
        let flags = irq::local_save();
        // SAFETY: interrupts are off, so nothing else uses this CPU's list.
        let list = unsafe { &mut *zone.lists[smp::cpu_id()].0.get() };
        let high = PCP_HIGH.load(Relaxed);
        while list.count < high
            && let Some(pfn) = frames.pop()
        {
            list.push(pfn);
        }
        if !frames.is_empty() {
            let left = frames.count.saturating_sub(512);
            drain(zone, &mut frames, left);
        }
        irq::local_restore(flags);
    }
}

/// Gives frames of `list` back to the buddy allocator until `down_to` are left, neighbours as one range.
#[cold]
#[inline(never)]
fn drain(zone: &Zone, list: &mut FrameList, down_to: u32) {
    if debug_pagealloc::is_on() {
        return debug_pagealloc::drain(zone, list, down_to);
    }
    let records = records();
    let mut buddy = zone.buddy.lock();
    while list.count > down_to
        && let Some(pfn) = list.pop()
    {
        let (first, last) = list.neighbours(pfn, down_to);
        buddy.add_range(&records, first - records.base, last + 1 - records.base);
    }
}

/// Gives this CPU's list of free frames back to the buddy allocator. Before an allocation fails.
pub fn drain_local() {
    let flags = irq::local_save();
    for zone in zones() {
        // SAFETY: interrupts are off, so nothing else uses this CPU's list.
        let list = unsafe { &mut *zone.lists[smp::cpu_id()].0.get() };
        drain(zone, list, 0);
    }
    irq::local_restore(flags);
}

/// The zones of this machine.
fn zones() -> impl Iterator<Item = &'static Zone> {
    let high = (mmu::HIGH_MEMORY && HIGH_START.load(Relaxed) != u32::MAX).then_some(&HIGH);
    [Some(&LOW), high].into_iter().flatten()
}

/// Takes 2^`order` contiguous frames of the linear map, aligned to their size. Does not sleep; in any
/// context. `None`: there is no such block.
pub fn alloc_block(order: usize, whom: For) -> Option<Pfn> {
    if order == 0 {
        return alloc_from(&LOW, whom);
    }
    if order >= ORDERS {
        return None;
    }
    if debug_pagealloc::is_on() {
        return debug_pagealloc::alloc_block(order, whom);
    }
    let records = records();
    let mut buddy = LOW.buddy.lock();
    if whom.must_stop(&buddy) {
        return None;
    }
    Some(records.base + buddy.alloc(&records, order)?)
}

/// Gives back what [`alloc_block`] returned.
pub fn free_block(pfn: Pfn, order: usize) {
    if order == 0 {
        return free(pfn);
    }
    if debug_pagealloc::is_on() {
        return debug_pagealloc::put(&LOW, pfn, 1 << order);
    }
    let records = records();
    LOW.buddy.lock().free(&records, pfn - records.base, order);
}

/// How many frames the allocator manages, free ones and others.
pub fn total() -> usize {
    TOTAL.load(Relaxed)
}

/// How many frames are free, those in the CPUs' lists included. Approximate while other CPUs allocate.
pub fn free_count() -> usize {
    zones()
        .map(|zone| {
            // SAFETY: a racy read of a counter. A `u32` is read as a whole, and the sum is information only.
            let cached: u32 = zone
                .lists
                .iter()
                .map(|l| unsafe { core::ptr::read_volatile(&raw const (*l.0.get()).count) })
                .sum();
            zone.buddy.lock().free_frames() + cached as usize
        })
        .sum()
}

/// How many frames of the linear map are free in the buddy allocator. This decides whether memory is short.
pub fn free_in_buddy() -> usize {
    LOW.buddy.lock().free_frames()
}

/// Whether there is enough memory for user pages and for the kernel's own.
pub fn is_enough() -> bool {
    let low = free_in_buddy();
    let user = USER_RESERVE.load(Relaxed);
    low > reserve() && (!mmu::HIGH_MEMORY || low > user || HIGH.buddy.lock().free_frames() > reserve())
}

/// How many frames are kept from user pages.
pub fn reserve() -> usize {
    RESERVE.load(Relaxed)
}

/// The frame at which the first `limit` bytes of `memory` end. Memory behind it is not used (`mem=` on the
/// command line).
fn end_of_first(memory: &[PhysRange], limit: u64) -> u64 {
    let mut left = limit;
    for range in memory {
        if range.size >= left {
            return (range.start.as_u64() + left) / PAGE_SIZE as u64;
        }
        left -= range.size;
    }
    u64::MAX
}

/// Calls `f(start, end)` with frame numbers for each run of `memory` that is not in `reserved`, up to frame
/// `cut`.
fn for_each_free(memory: &[PhysRange], reserved: &[PhysRange], cut: u64, mut f: impl FnMut(u64, u64)) {
    let page = PAGE_SIZE as u64;
    for range in memory {
        // Frame 0 is never used, since a physical address of 0 means "none" in several places.
        let mut at = range.start.as_u64().div_ceil(page).max(1);
        let end = ((range.start.as_u64() + range.size) / page).min(cut);
        while at < end {
            // Of the reserved ranges that end after `at`, the one that begins first.
            let next = reserved
                .iter()
                .filter(|r| r.size != 0)
                .map(|r| {
                    (
                        r.start.as_u64() / page,
                        (r.start.as_u64() + r.size).div_ceil(page),
                    )
                })
                .filter(|&(_, e)| e > at)
                .min();
            let (stop, resume) = next.map_or((end, end), |(s, e)| (s.clamp(at, end), e));
            if stop > at {
                f(at, stop);
            }
            at = resume.max(stop);
        }
    }
}

/// Takes over all memory that the boot protocol reported. Called first, once, on the boot CPU.
#[unsafe(link_section = ".init.text")]
pub fn init(info: &BootInfo<'_>) {
    let largest_block = 1u64 << (ORDERS - 1);
    let cut = match cmdline::size("mem") {
        Some(limit) => end_of_first(info.memory, limit),
        None => u64::MAX,
    };
    let (mut first, mut last, mut best) = (u64::MAX, 0, (0, 0));
    for_each_free(info.memory, &[], cut, |start, end| {
        first = first.min(start);
        last = last.max(end);
    });
    let linear_end = mmu::linear_end() >> PAGE_SHIFT;
    for_each_free(info.memory, info.reserved, cut.min(linear_end), |start, end| {
        if end - start > best.1 - best.0 {
            best = (start, end);
        }
    });
    if last == 0 {
        panic!("no usable memory was reported");
    }
    let base = first & !(largest_block - 1);
    let last = last.min(u32::MAX as u64);
    let len = last - base;
    let need = (len * size_of::<Frame>() as u64).div_ceil(PAGE_SIZE as u64);
    if need >= best.1 - best.0 {
        panic!(
            "too little memory: {} KiB",
            (best.1 - best.0) * (PAGE_SIZE as u64 / 1024)
        );
    }
    let at = mmu::phys_to_virt(PhysAddr::new((best.1 - need) << PAGE_SHIFT)).cast::<Frame>();
    // SAFETY: the range is free RAM in the linear map, large enough and nobody else's. Zero bytes are valid
    // records.
    unsafe { at.write_bytes(0, len as usize) };
    RECORDS.store(at.wrapping_sub(base as usize), Relaxed);
    BASE.store(base as u32, Relaxed);
    LEN.store(len as u32, Relaxed);
    if mmu::HIGH_MEMORY && last > linear_end {
        // The boundary is aligned to the largest block, so that no block lies on both sides of it.
        HIGH_START.store((linear_end & !(largest_block - 1)) as u32, Relaxed);
    }
    for zone in zones() {
        zone.buddy.lock().set_len(len as u32);
    }
    let (records_start, records_end) = (best.1 - need, best.1);
    let mut total = 0;
    for_each_free(info.memory, info.reserved, cut, |start, end| {
        // The records themselves are left out.
        for (start, end) in [(start, end.min(records_start)), (start.max(records_end), end)] {
            total += give(start, end.min(last));
        }
    });
    TOTAL.store(total, Relaxed);
    set_limits(total);
}

/// Hands the frames `[start, end)` to the allocators of their zones. Returns how many they are; may be none.
fn give(start: u64, end: u64) -> usize {
    let records = records();
    let boundary = if mmu::HIGH_MEMORY {
        HIGH_START.load(Relaxed) as u64
    } else {
        u64::MAX
    };
    let add = |zone: &Zone, start: u64, end: u64| {
        if start < end && debug_pagealloc::is_on() {
            debug_pagealloc::put(zone, start as u32, (end - start) as u32);
        } else if start < end {
            let mut buddy = zone.buddy.lock();
            buddy.add_range(&records, start as u32 - records.base, end as u32 - records.base);
        }
    };
    add(&LOW, start, end.min(boundary));
    add(&HIGH, start.max(boundary), end);
    end.saturating_sub(start) as usize
}

fn set_limits(total: usize) {
    const RESERVE_LEAST: usize = if PAGE_SIZE > 16384 {
        16
    } else {
        (256 << 10) / PAGE_SIZE
    };
    const RESERVE_MOST: usize = 16 * RESERVE_LEAST;
    // 1/64 of memory, but at least 256 KiB and at most 4 MiB (more where that is few pages): enough to let a
    // victim of the OOM killer get to its end.
    let reserve = (total / 64).clamp(RESERVE_LEAST, RESERVE_MOST);
    RESERVE.store(reserve, Relaxed);
    // In addition an eighth of the linear map, if there is memory outside of it.
    let more = match HIGH_START.load(Relaxed) {
        u32::MAX => 0,
        start => (start - BASE.load(Relaxed)) as usize / 8,
    };
    USER_RESERVE.store(reserve + more, Relaxed);
    if !debug_pagealloc::is_on() {
        PCP_HIGH.store((total / 512).clamp(8, 64) as u32, Relaxed);
    }
}

/// Gives memory that was reserved at boot (the unpacked initramfs) to the allocator. Only whole pages.
pub fn free_reserved(range: PhysRange) {
    let page = PAGE_SIZE as u64;
    let records = records();
    let limit = records.base as u64 + LEN.load(Relaxed) as u64;
    let start = range.start.as_u64().div_ceil(page).max(records.base as u64 + 1);
    let end = ((range.start.as_u64() + range.size) / page).min(limit);
    if start >= end {
        return;
    }
    let more = give(start, end);
    set_limits(TOTAL.fetch_add(more, Relaxed) + more);
}
