//! TLB maintenance across CPUs: only those that have the address space loaded, or had it and were not asked
//! since, are interrupted, and only they are waited for. An address space's segments come to the CPUs by the
//! same way.

use super::cpu::{self, CR4_PGE, read_register, write_register};
use super::{apic, cpus, irq, ldt};
use crate::sched::{entity::with_current_context, preempt};
use crate::sync::MAX_CPUS;
use core::arch::asm;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// The interrupt vector by which CPUs ask one another.
pub const VECTOR: u8 = 0xf4;
/// More pages than this are dropped all at once.
const SINGLE_PAGES: usize = 32;

/// What the processor keeps per address space: which CPUs have it loaded, and its segments.
#[derive(Debug)]
pub struct MmContext {
    /// CPUs on which nothing is to be done when it is loaded: those of `active`, as long as there are no
    /// segments.
    quick: AtomicU64,
    active: AtomicU64,
    /// Its local descriptor table.
    pub(super) segments: ldt::Slot,
}

impl MmContext {
    /// For a new address space.
    pub fn new() -> Self {
        Self::with(ldt::Slot::new())
    }

    /// For one that is a copy: it has the same segments.
    pub fn copied(&self) -> Self {
        Self::with(self.segments.copied())
    }

    fn with(segments: ldt::Slot) -> Self {
        Self {
            quick: AtomicU64::new(0),
            active: AtomicU64::new(0),
            segments,
        }
    }

    /// CPUs that have it loaded, as a bit set.
    fn active(&self) -> u64 {
        self.active.load(Ordering::SeqCst)
    }
}

/// Which address space each CPU has loaded; null for none. Compared, never followed: another CPU's may be
/// gone.
static LOADED: [AtomicPtr<MmContext>; MAX_CPUS] = [const { AtomicPtr::new(core::ptr::null_mut()) }; MAX_CPUS];

/// This CPU is about to load `context`. Interrupts are off.
#[inline(always)]
pub fn note_loaded(context: &MmContext) {
    let cpu = cpus::cpu_id();
    let bit = 1u64 << cpu;
    // The bit is set before the tables are in use: whoever changes them later sees it; who changed them
    // before is seen by the walks. Only this CPU takes it back, so what is set stays so.
    if context.quick.load(Ordering::Relaxed) & bit == 0 {
        arrive(context, bit);
    }
    LOADED[cpu].store(core::ptr::from_ref(context).cast_mut(), Ordering::Relaxed);
}

/// The part of [`note_loaded`] for an address space that is new here, or has segments. `bit` is this CPU's.
#[cold]
fn arrive(context: &MmContext, bit: u64) {
    if context.active.load(Ordering::Relaxed) & bit == 0 {
        context.active.fetch_or(bit, Ordering::SeqCst);
    }
    if context.segments.is_empty() {
        // Whoever gives it segments now finds this CPU in `active`, and has it take this back.
        context.quick.fetch_or(bit, Ordering::Relaxed);
    } else {
        // The running thread is the one before: the switch from it loads the table.
        with_current_context(|context| context.note_table());
    }
}

/// Whether the address space that is loaded here has segments, which become this CPU's; `had`: this CPU has
/// some now. Interrupts are off.
pub fn exchange_segments(had: bool) -> bool {
    // SAFETY: it is loaded, and lives until another is.
    let context = unsafe { LOADED[cpus::cpu_id()].load(Ordering::Relaxed).as_ref() };
    let context = context.filter(|context| !context.segments.is_empty());
    match context {
        Some(context) => context.segments.load(),
        None if had => ldt::unload(),
        None => {}
    }
    context.is_some()
}

/// The segments of `context` have changed: when this returns, all CPUs that have it loaded have the new ones.
/// Interrupts are on, no spinlock is held.
pub fn segments_changed(context: &MmContext) {
    preempt::disable();
    let me = 1u64 << cpus::cpu_id();
    let cpus = context.active.load(Ordering::SeqCst);
    if loaded_here(context) {
        take_segments(context);
    }
    if cpus & !me != 0 {
        flush_others(cpus & !me, SEGMENTS.0, SEGMENTS.1, Some(context));
    }
    preempt::enable();
}

/// What stands in a request in place of a range.
const SEGMENTS: (usize, usize) = (1, 0);

/// The segments of `context`, which is loaded here, become this CPU's, and the running thread is one that has
/// some.
#[cold]
fn take_segments(context: &MmContext) {
    let flags = irq::local_save();
    context.quick.fetch_and(!(1 << cpus::cpu_id()), Ordering::Relaxed);
    context.segments.load();
    with_current_context(|context| context.take_table());
    irq::local_restore(flags);
}

/// This CPU is about to load the kernel's root. Interrupts are off.
pub fn note_none_loaded() {
    LOADED[cpus::cpu_id()].store(core::ptr::null_mut(), Ordering::Relaxed);
}

/// Whether this CPU has `context` loaded; if it only had it once, it is no longer told of changes. Preemption
/// is off.
fn loaded_here(context: &MmContext) -> bool {
    let cpu = cpus::cpu_id();
    if core::ptr::eq(LOADED[cpu].load(Ordering::Relaxed), context) {
        return true;
    }
    context.quick.fetch_and(!(1 << cpu), Ordering::Relaxed);
    context.active.fetch_and(!(1 << cpu), Ordering::SeqCst);
    false
}

/// What CPU `n` asks of others. It stays as it is until `pending` is empty.
struct Request {
    start: AtomicUsize,
    end: AtomicUsize,
    /// The address space, alive until `pending` is empty; null for the kernel's: global entries, too.
    context: AtomicPtr<MmContext>,
    /// CPUs that have not done it yet.
    pending: AtomicU64,
}

static REQUESTS: [Request; MAX_CPUS] = [const {
    Request {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        context: AtomicPtr::new(core::ptr::null_mut()),
        pending: AtomicU64::new(0),
    }
}; MAX_CPUS];
/// For each CPU, who wants something of it.
static WANTED_BY: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(0) }; MAX_CPUS];
/// CPUs that take interrupts.
static ONLINE: AtomicU64 = AtomicU64::new(1);

/// This CPU will take interrupts from now on; what it may have cached before is dropped.
pub fn set_online(cpu: usize) {
    ONLINE.fetch_or(1 << cpu, Ordering::SeqCst);
    flush_all();
}

/// Drops `[start, end)` (of `context`, or of the kernel) everywhere it may be cached.
#[inline]
pub fn flush(context: Option<&MmContext>, start: usize, end: usize) {
    preempt::disable();
    // What was written to the tables must be visible before it is decided who may have the old entries.
    core::sync::atomic::fence(Ordering::SeqCst);
    let me = 1u64 << cpus::cpu_id();
    let cpus = match context {
        Some(context) => context.active(),
        None => ONLINE.load(Ordering::Relaxed) | me,
    };
    if cpus & me != 0 {
        flush_here(start, end, context);
    }
    if cpus & !me != 0 {
        flush_others(cpus & !me, start, end, context);
    }
    preempt::enable();
}

#[cold]
fn flush_others(cpus: u64, start: usize, end: usize, context: Option<&MmContext>) {
    crate::sync::lockdep::waits_for_cpus();
    let me = cpus::cpu_id();
    let request = &REQUESTS[me];
    request.start.store(start, Ordering::Relaxed);
    request.end.store(end, Ordering::Relaxed);
    let context = context.map_or(core::ptr::null(), core::ptr::from_ref);
    request.context.store(context.cast_mut(), Ordering::Relaxed);
    request.pending.store(cpus, Ordering::Release);
    let mut left = cpus;
    while left != 0 {
        let cpu = left.trailing_zeros() as usize;
        left &= left - 1;
        WANTED_BY[cpu].fetch_or(1 << me, Ordering::SeqCst);
        apic::send_vector(cpu, VECTOR);
    }
    while request.pending.load(Ordering::Acquire) != 0 {
        // Others may be waiting for this CPU the same way, and interrupts may be off here.
        serve();
        irq::spin_hint();
    }
}

/// Does what others want of this CPU. From the interrupt, and while waiting.
pub fn serve() {
    let me = cpus::cpu_id();
    let mut wanted = WANTED_BY[me].swap(0, Ordering::SeqCst);
    while wanted != 0 {
        let from = wanted.trailing_zeros() as usize;
        wanted &= wanted - 1;
        let r = &REQUESTS[from];
        // SAFETY: whoever asks keeps it until this CPU has taken itself out of `pending`.
        let context = unsafe { r.context.load(Ordering::Relaxed).as_ref() };
        if context.is_none_or(loaded_here) {
            flush_here(
                r.start.load(Ordering::Relaxed),
                r.end.load(Ordering::Relaxed),
                context,
            );
        }
        r.pending.fetch_and(!(1 << me), Ordering::AcqRel);
    }
}

/// What CPUs are asked for in NMIs ([`flush_now`]): range, and who has not done it yet.
static NOW: Request = Request {
    start: AtomicUsize::new(0),
    end: AtomicUsize::new(0),
    context: AtomicPtr::new(core::ptr::null_mut()),
    pending: AtomicU64::new(0),
};

/// Drops a range of the kernel's on every CPU, whatever it is doing: others are asked in an NMI, for they may
/// be waiting, with interrupts off, for a lock that the caller holds. One caller at a time, in any context
/// but an NMI.
pub(super) fn flush_now(start: usize, end: usize) {
    preempt::disable();
    core::sync::atomic::fence(Ordering::SeqCst);
    let me = 1u64 << cpus::cpu_id();
    let others = ONLINE.load(Ordering::Relaxed) & !me;
    flush_here(start, end, None);
    if others != 0 {
        NOW.start.store(start, Ordering::Relaxed);
        NOW.end.store(end, Ordering::Relaxed);
        NOW.pending.store(others, Ordering::Release);
        let mut left = others;
        while left != 0 {
            apic::send_nmi(left.trailing_zeros() as usize);
            left &= left - 1;
        }
        while NOW.pending.load(Ordering::Acquire) != 0 {
            irq::spin_hint();
        }
    }
    preempt::enable();
}

/// In an NMI: does what [`flush_now`] asked for. `false`: nobody had asked this CPU.
pub(super) fn serve_now() -> bool {
    let me = 1u64 << cpus::cpu_id();
    if NOW.pending.load(Ordering::Acquire) & me == 0 {
        return false;
    }
    flush_here(
        NOW.start.load(Ordering::Relaxed),
        NOW.end.load(Ordering::Relaxed),
        None,
    );
    NOW.pending.fetch_and(!me, Ordering::AcqRel);
    true
}

/// Drops a range of `context`, or of the kernel, here; or does what [`SEGMENTS`] stands for.
#[inline(always)]
fn flush_here(start: usize, end: usize, context: Option<&MmContext>) {
    if end.wrapping_sub(start) <= SINGLE_PAGES << 12 {
        let mut at = start;
        while at < end {
            // SAFETY: dropping translations is always allowed.
            unsafe { asm!("invlpg [{}]", in(reg) at, options(nostack, preserves_flags)) };
            at += 4096;
        }
    } else if let Some(context) = context {
        if (start, end) == SEGMENTS {
            return take_segments(context);
        }
        // SAFETY: the same root again.
        unsafe { cpu::write_cr3(cpu::read_cr3()) };
    } else {
        flush_all();
    }
}

/// Drops everything, global entries included.
fn flush_all() {
    // SAFETY: turning global pages off and on drops all translations; interrupts are off in between.
    unsafe {
        let flags = irq::local_save();
        let cr4 = read_register!("cr4");
        if cr4 & CR4_PGE != 0 {
            write_register!("cr4", cr4 & !CR4_PGE);
            write_register!("cr4", cr4);
        } else {
            cpu::write_cr3(cpu::read_cr3());
        }
        irq::local_restore(flags);
    }
}
