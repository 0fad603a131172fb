//! With lock validation: the one validator, its graph, and what each thread and lock has for it.

pub use limen_lockdep::{Kind, Mode};

use crate::arch::irq;
use crate::sched::preempt;
use crate::sync::RawSpinLock;
use core::cell::{Cell, UnsafeCell};
use core::fmt::{self, Write};
use core::panic::Location;
use core::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use limen_entry::token::Watching;
use limen_lockdep::{Acquire, ClassId, Context, Environment, Graph, Key, Report, Site, Validator};

/// Classes (four subclasses each), dependencies, and places in the cache of chains.
const CLASSES: usize = 4096;
const DEPENDENCIES: usize = 32768;
const CHAINS: usize = 16384;

static VALIDATOR: Validator<Limen, CLASSES, DEPENDENCIES, CHAINS> = Validator::new(Limen);
static GRAPH: Shared = Shared {
    lock: RawSpinLock::new(),
    graph: UnsafeCell::new(Graph::new()),
};
/// Threads run; before, interrupts are off everywhere and nobody can be kept waiting.
static BOOTED: AtomicBool = AtomicBool::new(false);

struct Shared {
    /// A lock the validator is not told of; interrupts are off while it is held.
    lock: RawSpinLock,
    graph: UnsafeCell<Graph<CLASSES, DEPENDENCIES>>,
}

// SAFETY: `graph` is touched only under `lock`.
unsafe impl Sync for Shared {}

/// What a thread has for the validator.
pub struct ThreadState {
    context: UnsafeCell<Context>,
    /// The validator itself is at work, or an NMI: what happens meanwhile is not looked at.
    busy: Cell<bool>,
}

// SAFETY: touched only by the thread itself and interrupts on it, which `with_context` keeps out.
unsafe impl Sync for ThreadState {}

impl ThreadState {
    /// Holds nothing.
    pub const fn new() -> Self {
        Self {
            context: UnsafeCell::new(Context::new()),
            busy: Cell::new(false),
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

/// Runs `f` with what the running thread holds and whether interrupts were on, unless validation is over or at work already.
#[inline]
fn with_context(f: impl FnOnce(&mut Context, bool)) {
    if !VALIDATOR.is_on() {
        return;
    }
    let flags = irq::raw_save();
    let state = state();
    if !state.busy.get() {
        // SAFETY: interrupts are off, and `f` comes back here only while `busy` is set (reports, NMIs): nobody else uses it.
        f(unsafe { &mut *state.context.get() }, flags.enabled());
    }
    irq::raw_restore(flags);
}

/// What a lock has for the validator: where it was made, and its class once that is known.
pub struct Dep {
    site: Site,
    class: AtomicU16,
}

impl Dep {
    /// Of the class of all locks made where the caller is called.
    #[inline(always)]
    #[track_caller]
    pub const fn new() -> Self {
        Self {
            site: Location::caller(),
            class: AtomicU16::new(0),
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
    /// The same for a lock that is taken while others of its class are held, in an order that the subclass stands for.
    #[track_caller]
    pub fn acquire_nested<T: ?Sized>(&self, kind: Kind, mode: Mode, subclass: usize) {
        self.taken::<T>(kind, mode, false, subclass, Location::caller());
    }
    /// The lock was free and is taken.
    #[track_caller]
    pub fn acquired_by_trying<T: ?Sized>(&self, kind: Kind, mode: Mode) {
        self.taken::<T>(kind, mode, true, 0, Location::caller());
    }
    /// The lock is about to be given back (or was not got after all).
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

/// Reads the command line: `limen.lockdep_reports=N` goes on after the first report.
pub fn init() {
    if let Some(n) = crate::boot::cmdline::value("limen.lockdep_reports").and_then(|v| v.parse().ok()) {
        VALIDATOR.set_reports(n);
    }
    info!("lock validator: {CLASSES} classes, {DEPENDENCIES} dependencies");
}

/// The boot thread is done: from now on sleeping with interrupts off is wrong.
pub fn booted() {
    BOOTED.store(true, Ordering::Relaxed);
}

/// Interrupts went off. Runs before anything may be traced: only a store.
#[inline(always)]
pub fn irqs_off() {
    set_irqs(false);
}

/// Interrupts are about to go on.
pub fn irqs_on() {
    with_context(|context, _| VALIDATOR.irqs_on(context));
}

/// Interrupts go on, and the validator was prepared. Runs where nothing may be traced: only a store.
#[inline(always)]
pub fn irqs_on_quiet() {
    set_irqs(true);
}

#[inline(always)]
fn set_irqs(on: bool) {
    let state = state();
    if !state.busy.get() {
        // SAFETY: interrupts are off in the processor, and no `with_context` is at work (`busy`, or we would not run).
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

/// An NMI begins: what it does is not looked at, because it may have come in the middle of the validator.
#[inline(always)]
pub fn enter_nmi() -> u32 {
    state().busy.replace(true) as u32
}

/// An NMI ends; with the result of [`enter_nmi`].
#[inline(always)]
pub fn leave_nmi(before: u32) {
    state().busy.set(before != 0);
}

/// The thread is about to wait for other CPUs to answer an interrupt.
pub fn waits_for_cpus() {
    with_context(|context, _| VALIDATOR.waits_for_cpus(context));
}

/// The thread goes to user mode.
pub fn to_user(_: &Watching) {
    with_context(|context, _| VALIDATOR.at_user(context));
}

/// The thread ends.
pub fn thread_ends() {
    with_context(|context, _| VALIDATOR.at_thread_end(context));
}

/// The thread may be going to sleep; `preempt_count` as it is.
#[track_caller]
pub fn might_sleep(preempt_count: u32) {
    let site = Location::caller();
    with_context(|context, irqs_on| {
        let atomic = preempt_count != 0 || !irqs_on && BOOTED.load(Ordering::Relaxed);
        VALIDATOR.sleeps(context, atomic, false, site);
    });
}

/// The thread gives up the CPU.
#[track_caller]
pub fn scheduling() {
    let site = Location::caller();
    with_context(|context, irqs_on| VALIDATOR.sleeps(context, !irqs_on, true, site));
}

/// What the validator sees of the kernel.
struct Limen;

impl Environment<CLASSES, DEPENDENCIES> for Limen {
    fn with_graph<R>(&self, f: impl FnOnce(&mut Graph<CLASSES, DEPENDENCIES>) -> R) -> R {
        GRAPH.lock.lock();
        // SAFETY: under the lock; the validator does not nest these calls.
        let r = f(unsafe { &mut *GRAPH.graph.get() });
        GRAPH.lock.unlock();
        r
    }

    fn report(&self, report: &Report<'_, CLASSES, DEPENDENCIES>) {
        let state = state();
        state.busy.set(true);
        // A thread that holds a lock of the log or of a console cannot log.
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
        if direct {
            let _ = out.write_str("Call trace:\n");
            crate::trace::backtrace::walk(crate::arch::stack::frame_pointer(), |ip| {
                let _ = writeln!(out, "  {}", crate::trace::symbols::Symbol(ip - 1));
            });
        } else {
            crate::trace::backtrace::print_here();
        }
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
        if self.direct {
            crate::arch::console::write(line);
            crate::arch::console::write(b"\n");
        } else {
            crate::log::write_bytes(crate::log::Level::Warning, 0, line);
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
