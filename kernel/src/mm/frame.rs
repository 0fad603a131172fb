//! Page frames: one 16-byte record per frame, the buddy allocator behind one lock, and a list of free single frames per CPU in front
//! of it. Everything else in the room (pages, slabs, page tables, kernel stacks) takes its memory here.
//!
//! Frames are named by their number (`phys >> PAGE_SHIFT`, a `u32`: 16 TiB of 4 KiB pages). A frame that is allocated belongs to
//! whoever allocated it; the record's words are then the owner's to use (reference count, list links).

use super::{PAGE_SHIFT, PAGE_SIZE, PhysAddr};
use crate::arch::{irq, mmu, smp};
use crate::boot::{BootInfo, PhysRange, cmdline};
use crate::sync::{IrqSpinLock, MAX_CPUS};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::Relaxed};
use limen_page_alloc::{Buddy, Frames, NONE, ORDERS};

/// A frame number.
pub type Pfn = u32;

/// What is known of one frame.
#[derive(Debug)]
#[repr(C)]
pub struct Frame {
    /// References, for frames managed by [`super::Page`]; the owner's word otherwise.
    pub refs: AtomicU32,
    /// 0, or order + 1 in the first frame of a free block of the buddy allocator; the owner's word (below 2^31, with bit 31 set) while allocated.
    pub info: AtomicU32,
    /// First link; the owner's word while allocated.
    pub a: AtomicU32,
    /// Second link; the owner's word while allocated.
    pub b: AtomicU32,
}
const _: () = assert!(size_of::<Frame>() == 16);

/// Set in [`Frame::info`] by owners that use it, so that it can't be taken for a free block.
pub const INFO_OWNED: u32 = 1 << 31;

/// Record of frame `BASE`; biased so that frame `n`'s record is at `n`.
static RECORDS: AtomicPtr<Frame> = AtomicPtr::new(core::ptr::null_mut());
static BASE: AtomicU32 = AtomicU32::new(0);
static TOTAL: AtomicUsize = AtomicUsize::new(0);
/// Below this many free frames only the kernel itself gets memory.
static RESERVE: AtomicUsize = AtomicUsize::new(0);
/// Below this many free frames that have an address none goes to user pages: where there are frames without one, part of the others is for
/// those who need one.
static USER_RESERVE: AtomicUsize = AtomicUsize::new(0);
/// A CPU's list holds at most this many frames.
static PCP_HIGH: AtomicU32 = AtomicU32::new(8);
/// The first frame that has no address in the linear map. Never, on most machines ([`mmu::HIGH_MEMORY`]).
static HIGH_START: AtomicU32 = AtomicU32::new(u32::MAX);

#[repr(align(64))]
struct PerCpuList(UnsafeCell<FrameList>);
// SAFETY: each CPU touches only its own, with interrupts off.
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
            buddy: IrqSpinLock::new(Buddy::new()),
        }
    }
}

/// Frames with an address in the linear map.
static LOW: Zone = Zone::new();
/// The others.
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
    // SAFETY: frame numbers come from the allocator or from page tables it filled, so the record exists; records live forever and
    // consist of atomics.
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
    /// Takes the last one added.
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
}

/// The buddy allocator's view of the records: indices are relative to `BASE`, a multiple of the largest block.
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

/// Who asks for memory, which decides how deep into the reserve it may go, and whether the frame has an address in the linear map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// User pages: leave the reserve alone; may have no address ([`super::Page::bytes`]).
    User,
    /// What programs cause but the kernel uses itself, such as page tables: leave the reserve alone.
    Addressed,
    /// Tasks that are being killed: half of the reserve is for them, to get to their end. And what the kernel needs much for and can do without.
    Dying,
    /// The kernel itself.
    Kernel,
}

impl For {
    /// Whether only the reserve is left.
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

/// Takes one frame; its content is arbitrary, its reference count 1. Any context.
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
    // SAFETY: interrupts are off, so this CPU's list is ours.
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
    let records = records();
    let mut buddy = zone.buddy.lock();
    if whom.must_stop(&buddy) {
        return;
    }
    let batch = PCP_HIGH.load(Relaxed) / 2;
    // The first frame pushed is the last one handed out: push a run backwards so that frames come out ascending.
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

/// Gives back one frame. Any context.
#[inline]
pub fn free(pfn: Pfn) {
    let zone = zone_of(pfn);
    let flags = irq::local_save();
    // SAFETY: interrupts are off, so this CPU's list is ours.
    let list = unsafe { &mut *zone.lists[smp::cpu_id()].0.get() };
    list.push(pfn);
    if list.count > PCP_HIGH.load(Relaxed) {
        drain(zone, list, PCP_HIGH.load(Relaxed) / 2);
    }
    irq::local_restore(flags);
}

/// Gives back all frames of a list.
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

/// Gives back a list with frames of both kinds.
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
    // Long lists give interrupts a chance in between.
    while !frames.is_empty() {
        let flags = irq::local_save();
        // SAFETY: interrupts are off, so this CPU's list is ours.
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

/// Gives frames of `list` back to the buddy allocator until `down_to` are left. Frames that were handed out one after the other mostly
/// come back so: neighbours go back as one range.
#[cold]
#[inline(never)]
fn drain(zone: &Zone, list: &mut FrameList, down_to: u32) {
    let records = records();
    let mut buddy = zone.buddy.lock();
    while list.count > down_to
        && let Some(pfn) = list.pop()
    {
        let (mut first, mut last) = (pfn, pfn);
        while list.count > down_to {
            if list.head == last + 1 {
                last = list.head;
            } else if list.head == first - 1 {
                first = list.head;
            } else {
                break;
            }
            list.pop();
        }
        buddy.add_range(&records, first - records.base, last + 1 - records.base);
    }
}

/// Gives this CPU's list of free frames back to the buddy allocator (before giving up on an allocation).
pub fn drain_local() {
    let flags = irq::local_save();
    for zone in zones() {
        // SAFETY: interrupts are off, so this CPU's list is ours.
        let list = unsafe { &mut *zone.lists[smp::cpu_id()].0.get() };
        drain(zone, list, 0);
    }
    irq::local_restore(flags);
}

/// Those there are.
fn zones() -> impl Iterator<Item = &'static Zone> {
    let high = (mmu::HIGH_MEMORY && HIGH_START.load(Relaxed) != u32::MAX).then_some(&HIGH);
    [Some(&LOW), high].into_iter().flatten()
}

/// Takes 2^`order` contiguous frames, aligned to their size, that have addresses. Any context. `None` if there is no such block.
pub fn alloc_block(order: usize, whom: For) -> Option<Pfn> {
    if order == 0 {
        return alloc_from(&LOW, whom);
    }
    if order >= ORDERS {
        return None;
    }
    let records = records();
    let mut buddy = LOW.buddy.lock();
    if whom.must_stop(&buddy) {
        return None;
    }
    Some(records.base + buddy.alloc(&records, order)?)
}

/// Gives back what [`alloc_block`] gave.
pub fn free_block(pfn: Pfn, order: usize) {
    if order == 0 {
        return free(pfn);
    }
    let records = records();
    LOW.buddy.lock().free(&records, pfn - records.base, order);
}

/// Frames under management, free or not.
pub fn total() -> usize {
    TOTAL.load(Relaxed)
}

/// Free frames, those in the CPUs' lists included (approximate while other CPUs work).
pub fn free_count() -> usize {
    zones()
        .map(|zone| {
            // SAFETY: a racy read of counters; torn values can't occur for a `u32`, and the sum is only informative.
            let cached: u32 = zone
                .lists
                .iter()
                .map(|l| unsafe { core::ptr::read_volatile(&raw const (*l.0.get()).count) })
                .sum();
            zone.buddy.lock().free_frames() + cached as usize
        })
        .sum()
}

/// Frames with addresses in the buddy allocator proper: what decides whether memory is short.
pub fn free_in_buddy() -> usize {
    LOW.buddy.lock().free_frames()
}

/// Whether there is memory for whatever a program may need.
pub fn is_enough() -> bool {
    let low = free_in_buddy();
    let user = USER_RESERVE.load(Relaxed);
    low > reserve() && (!mmu::HIGH_MEMORY || low > user || HIGH.buddy.lock().free_frames() > reserve())
}

/// The reserve user pages do not touch, in frames.
pub fn reserve() -> usize {
    RESERVE.load(Relaxed)
}

/// The frame where the first `limit` bytes of `memory` end: what lies behind them is not used (`mem=` on the command line).
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

/// Calls `f(start, end)` (frame numbers) for each free run of `memory` without `reserved`, up to the frame `cut`.
fn for_each_free(memory: &[PhysRange], reserved: &[PhysRange], cut: u64, mut f: impl FnMut(u64, u64)) {
    let page = PAGE_SIZE as u64;
    for range in memory {
        // Frame 0 is never used: a physical address of 0 means "none" here and there.
        let mut at = range.start.as_u64().div_ceil(page).max(1);
        let end = ((range.start.as_u64() + range.size) / page).min(cut);
        while at < end {
            // The reserved range that begins first among those that end after `at`.
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

/// Takes over all memory the boot protocol reported. Boot CPU, once, first.
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
    // SAFETY: the range is free RAM, inside the linear map, large enough, and nobody else has it; zero bytes are valid records.
    unsafe { at.write_bytes(0, len as usize) };
    RECORDS.store(at.wrapping_sub(base as usize), Relaxed);
    BASE.store(base as u32, Relaxed);
    LEN.store(len as u32, Relaxed);
    if mmu::HIGH_MEMORY && last > linear_end {
        // Blocks of both kinds never meet: one with an address begins no block that has none.
        HIGH_START.store((linear_end & !(largest_block - 1)) as u32, Relaxed);
    }
    for zone in zones() {
        zone.buddy.lock().set_len(len as u32);
    }
    let (records_start, records_end) = (best.1 - need, best.1);
    let mut total = 0;
    for_each_free(info.memory, info.reserved, cut, |start, end| {
        // Around the records.
        for (start, end) in [(start, end.min(records_start)), (start.max(records_end), end)] {
            total += give(start, end.min(last));
        }
    });
    TOTAL.store(total, Relaxed);
    set_limits(total);
}

/// Hands the frames `[start, end)`, which may be none, to their allocators. Returns how many there are.
fn give(start: u64, end: u64) -> usize {
    let records = records();
    let boundary = if mmu::HIGH_MEMORY {
        HIGH_START.load(Relaxed) as u64
    } else {
        u64::MAX
    };
    let add = |zone: &Zone, start: u64, end: u64| {
        if start < end {
            let mut buddy = zone.buddy.lock();
            buddy.add_range(&records, start as u32 - records.base, end as u32 - records.base);
        }
    };
    add(&LOW, start, end.min(boundary));
    add(&HIGH, start.max(boundary), end);
    end.saturating_sub(start) as usize
}

fn set_limits(total: usize) {
    // 1/64 of memory, at least 256 KiB, at most 4 MiB: enough for the kernel to see a victim of the OOM killer to its end.
    let reserve = (total / 64).clamp(64, 1024);
    RESERVE.store(reserve, Relaxed);
    // And an eighth of what has addresses, where there is more.
    let more = match HIGH_START.load(Relaxed) {
        u32::MAX => 0,
        start => (start - BASE.load(Relaxed)) as usize / 8,
    };
    USER_RESERVE.store(reserve + more, Relaxed);
    PCP_HIGH.store((total / 512).clamp(8, 64) as u32, Relaxed);
}

/// Gives memory that was reserved at boot (the unpacked initramfs) to the allocator. Only whole pages are taken.
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
