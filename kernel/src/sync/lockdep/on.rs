//! Kernels with lock validation: the validator, its graph, and the state of each thread and lock.

pub use limen_lockdep::{Kind, Mode};

use crate::arch::irq;
use crate::sched::preempt;
use crate::sync::RawSpinLock;
use core::cell::{Cell, UnsafeCell};
use core::fmt::{self, Write};
use core::panic::Location;
use core::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use limen_entry::token::InKernel;
use limen_lockdep::{Acquire, ClassId, Context, Environment, Graph, Key, Report, Site, Validator};

/// How many subclasses (four for each class), dependencies, and places in the cache of chains there are.
pub const CLASSES: usize = 4096;
pub const DEPENDENCIES: usize = 32768;
const CHAINS: usize = 16384;

static VALIDATOR: Validator<Limen, CLASSES, DEPENDENCIES, CHAINS> = Validator::new(Limen);
static GRAPH: Shared = Shared {
    lock: RawSpinLock::new(),
    graph: UnsafeCell::new(Graph::new()),
};
/// Writes one line to the log.
static LOG: crate::sync::Once<fn(&[u8])> = crate::sync::Once::new();
/// Set when threads run. Before, interrupts are off everywhere and waiting disturbs nothing.
static BOOTED: AtomicBool = AtomicBool::new(false);

struct Shared {
    /// A lock of which the validator does not know. Interrupts are off while it is held.
    lock: RawSpinLock,
    graph: UnsafeCell<Graph<CLASSES, DEPENDENCIES>>,
}

// SAFETY: `graph` is used only under `lock`.
unsafe impl Sync for Shared {}

/// A thread's state for the validator.
pub struct ThreadState {
    context: UnsafeCell<Context>,
    /// The validator itself, or an NMI, is running: what it does is not validated.
    busy: Cell<bool>,
    /// How many calls of [`fallible`] the thread is in.
    may_fail: Cell<u32>,
    /// How many calls of [`at_once`] the thread is in.
    at_once: Cell<u32>,
}

// SAFETY: used only by the thread itself and interrupts on top of it, which `with_context` keeps off.
unsafe impl Sync for ThreadState {}

impl ThreadState {
    /// Of a thread that holds no lock.
    pub const fn new() -> Self {
        Self {
            context: UnsafeCell::new(Context::new()),
            busy: Cell::new(false),
            may_fail: Cell::new(0),
            at_once: Cell::new(0),
        }
    }
}

impl fmt::Debug for ThreadState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ThreadState")
    }
}

#[inline(always)]
fn state() -> &'static ThreadState {
    &preempt::current_info().lockdep
}

/// Runs `f` with the running thread's held locks, and whether interrupts were on. Not if validation has
/// ended, or if the validator itself is running.
#[inline]
fn with_context(f: impl FnOnce(&mut Context, bool)) {
    if !VALIDATOR.is_on() {
        return;
    }
    let flags = irq::raw_save();
    let state = state();
    if !state.busy.get() {
        // SAFETY: interrupts are off. Calls from within `f` (reports, NMIs) return above because `busy` is
        // set, so nothing else uses the context.
        f(unsafe { &mut *state.context.get() }, flags.enabled());
    }
    irq::raw_restore(flags);
}

/// A lock's state for the validator: the place in the source where it was made, and its class when that is
/// known.
pub struct Dep {
    site: Site,
    class: AtomicU16,
    allocator: bool,
}

impl Dep {
    /// The class is that of all locks which are made at the caller's caller.
    #[inline(always)]
    #[track_caller]
    pub const fn new() -> Self {
        Self {
            site: Location::caller(),
            class: AtomicU16::new(0),
            allocator: false,
        }
    }
    /// [`Dep::new`] for a lock that the memory allocators take, too.
    #[inline(always)]
    #[track_caller]
    pub const fn of_allocator() -> Self {
        Self {
            site: Location::caller(),
            class: AtomicU16::new(0),
            allocator: true,
        }
    }

    fn class<T: ?Sized>(&self, context: &Context, kind: Kind) -> Option<ClassId> {
        ClassId::from_bits(self.class.load(Ordering::Relaxed)).or_else(|| {
            let key = Key {
                site: self.site,
                kind,
                name: core::any::type_name::<T>(),
            };
            let class = VALIDATOR.class(context, &key)?;
            self.class.store(class.to_bits(), Ordering::Relaxed);
            Some(class)
        })
    }

    fn taken<T: ?Sized>(&self, kind: Kind, mode: Mode, attempt: bool, subclass: usize, site: Site) {
        with_context(|context, irqs_on| {
            VALIDATOR.check_irqs(context, irqs_on, site);
            let Some(class) = self.class::<T>(context, kind) else {
                return;
            };
            let acquire = Acquire {
                instance: self.instance(),
                class: class.subclass(subclass),
                mode,
                attempt,
                sleeps: kind.sleeps(),
                allocator: self.allocator,
                site,
            };
            VALIDATOR.acquire(context, &acquire);
        });
    }

    fn instance(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// The lock, which protects a `T`, is about to be taken.
    #[track_caller]
    pub fn acquire<T: ?Sized>(&self, kind: Kind, mode: Mode) {
        self.taken::<T>(kind, mode, false, 0, Location::caller());
    }
    /// [`Dep::acquire`] while other locks of the same class are held. The subclass stands for their order.
    #[track_caller]
    pub fn acquire_nested<T: ?Sized>(&self, kind: Kind, mode: Mode, subclass: usize) {
        self.taken::<T>(kind, mode, false, subclass, Location::caller());
    }
    /// The lock was free and is taken.
    #[track_caller]
    pub fn acquired_by_trying<T: ?Sized>(&self, kind: Kind, mode: Mode) {
        self.taken::<T>(kind, mode, true, 0, Location::caller());
    }
    /// The lock is about to be released, or an attempt to take it failed.
    pub fn release(&self) {
        with_context(|context, _| VALIDATOR.release(context, self.instance(), self.site));
    }
}

impl Drop for Dep {
    fn drop(&mut self) {
        if self.class.load(Ordering::Relaxed) != 0 {
            with_context(|context, _| VALIDATOR.freed(context, self.instance()));
        }
    }
}

/// Reads the command line: with `limen.lockdep_reports=N` the validator goes on after its first report.
pub fn init(log: fn(&[u8])) {
    let _ = LOG.set(log);
    if let Some(n) = crate::cmdline::value("limen.lockdep_reports").and_then(|v| v.parse().ok()) {
        VALIDATOR.set_reports(n);
    }
}

/// Booting is over: from now on sleeping with interrupts off is an error.
pub fn booted() {
    BOOTED.store(true, Ordering::Relaxed);
}

/// Interrupts were turned off. Runs where nothing may be traced yet, so it only stores.
#[inline(always)]
pub fn irqs_off() {
    set_irqs(false);
}

/// Interrupts are about to be turned on.
pub fn irqs_on() {
    with_context(|context, _| VALIDATOR.irqs_on(context));
}

/// Interrupts are about to be turned on, and [`irqs_on`] was called. Runs where nothing may be traced any
/// more, so it only stores.
#[inline(always)]
pub fn irqs_on_quiet() {
    set_irqs(true);
}

#[inline(always)]
fn set_irqs(on: bool) {
    let state = state();
    if !state.busy.get() {
        // SAFETY: interrupts are off in the processor, and `with_context` is not running (`busy` is not set).
        unsafe { (*state.context.get()).irqs_on = on };
    }
}

/// A hardware interrupt begins.
pub fn enter_interrupt() {
    with_context(|context, _| VALIDATOR.enter_irq(context));
}

/// A hardware interrupt ends.
pub fn leave_interrupt() {
    with_context(|context, _| VALIDATOR.leave_irq(context));
}

/// An NMI begins. What it does is not validated, because it may have interrupted the validator.
#[inline(always)]
pub fn enter_nmi() -> u32 {
    state().busy.replace(true) as u32
}

/// An NMI ends. `before`: the result of [`enter_nmi`].
#[inline(always)]
pub fn leave_nmi(before: u32) {
    state().busy.set(before != 0);
}

/// The thread is about to wait until other CPUs have answered an interrupt.
pub fn waits_for_cpus() {
    with_context(|context, _| VALIDATOR.waits_for_cpus(context));
}

/// The thread goes to user mode.
pub fn to_user(_: &InKernel) {
    with_context(|context, _| VALIDATOR.at_user(context));
}

/// The thread ends.
pub fn thread_ends() {
    with_context(|context, _| VALIDATOR.at_thread_end(context));
}

/// The thread may sleep here. `preempt_count`: its preempt count.
#[track_caller]
pub fn might_sleep(preempt_count: u32) {
    let site = Location::caller();
    with_context(|context, irqs_on| {
        let atomic = preempt_count != 0 || !irqs_on && BOOTED.load(Ordering::Relaxed);
        VALIDATOR.sleeps(context, atomic, false, site);
    });
}

/// The thread calls the scheduler. `preempt_count`: its preempt count.
#[track_caller]
pub fn scheduling(preempt_count: u32) {
    let site = Location::caller();
    with_context(|context, irqs_on| {
        VALIDATOR.sleeps(context, preempt_count != 0 || !irqs_on, true, site);
    });
}

/// Memory of the heap is about to be allocated or freed.
#[inline]
pub fn uses_heap() {
    with_context(|context, _| VALIDATOR.uses_heap(context));
}

/// `size` bytes, a large block, are about to be allocated: the caller must handle failure ([`fallible`]). At
/// boot that is not demanded.
pub fn allocates_much(size: usize) {
    if BOOTED.load(Ordering::Relaxed) && state().may_fail.get() == 0 {
        with_context(|context, _| VALIDATOR.must_have(context, size));
    }
}

/// Runs `f`, which allocates memory and handles failure.
pub fn fallible<R>(f: impl FnOnce() -> R) -> R {
    let state = state();
    state.may_fail.set(state.may_fail.get() + 1);
    let r = f();
    state.may_fail.set(state.may_fail.get() - 1);
    r
}

/// Runs `f`, which allocates memory for a queue that grows where sleeping is not allowed. `f` handles
/// failure, and the queue is limited per user.
pub fn at_once<R>(f: impl FnOnce() -> R) -> R {
    let state = state();
    state.at_once.set(state.at_once.get() + 1);
    let r = fallible(f);
    state.at_once.set(state.at_once.get() - 1);
    r
}

/// Whether a call of [`at_once`] is running.
pub fn is_at_once() -> bool {
    state().at_once.get() != 0
}

/// The kernel, as the validator uses it.
struct Limen;

impl Environment<CLASSES, DEPENDENCIES> for Limen {
    fn with_graph<R>(&self, f: impl FnOnce(&mut Graph<CLASSES, DEPENDENCIES>) -> R) -> R {
        GRAPH.lock.lock();
        // SAFETY: the lock is held, and the validator does not nest these calls.
        let r = f(unsafe { &mut *GRAPH.graph.get() });
        GRAPH.lock.unlock();
        r
    }

    fn report(&self, report: &Report<'_, CLASSES, DEPENDENCIES>) {
        let state = state();
        state.busy.set(true);
        // A thread that holds a lock of the log or of a console cannot log: it would take that lock again.
        let direct = report.context.held().any(|h| {
            let file = h.site.file();
            file.contains("/log/") || file.contains("/driver/")
        });
        let mut out = Lines {
            direct,
            text: [0; 400],
            len: 0,
        };
        let _ = write!(out, "{report}");
        let _ = write!(out, "CPU: {}", crate::arch::smp::cpu_id());
        if crate::sched::ready() {
            let _ = write!(out, " thread {}", crate::sched::current().tid());
        }
        out.end_line();
        let _ = out.write_str("Call trace:\n");
        crate::trace::backtrace::walk(crate::arch::stack::here(), |ip| {
            let _ = writeln!(out, "  {}", crate::trace::symbols::Symbol(ip - 1));
        });
        state.busy.set(false);
    }
}

/// Text for the log, cut into lines.
struct Lines {
    direct: bool,
    text: [u8; 400],
    len: usize,
}

impl Lines {
    fn end_line(&mut self) {
        let line = &self.text[..self.len];
        match LOG.get() {
            Some(log) if !self.direct => log(line),
            _ => {
                crate::arch::console::write(line);
                crate::arch::console::write(b"\n");
            }
        }
        self.len = 0;
    }
}

impl Write for Lines {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        for byte in s.bytes() {
            if byte == b'\n' || self.len == self.text.len() {
                self.end_line();
            }
            if byte != b'\n' {
                self.text[self.len] = byte;
                self.len += 1;
            }
        }
        Ok(())
    }
}
