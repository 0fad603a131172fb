//! What an instance is: its buffers, and how they are filled and read. `registry` has all instances.

use super::buffer::{self, Buffer, LEAST};
use super::clock::Clock;
use super::dump::Dump;
use super::errors::Reports;
use super::event::state::InInstance;
use super::tracers::{self, Tracer};
use super::waiting::Waiting;
use super::{marker, read};
use crate::arch::smp;
use crate::sync::{Mutex, MutexGuard, Once, SpinLock};
use alloc::sync::Arc;
use alloc::vec::Vec;
use bitflags::bitflags;
use core::any::Any;
use core::ops::Deref;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
use limen_linux_abi::Errno;
use limen_trace_text::Options;
use limen_trace_text::graph::GraphOptions;

/// The size of a CPU's buffer in bytes, unless another is asked for.
const SIZE: usize = 1_441_792;

/// What changes only with the instance locked.
pub struct Locked {
    tracer: &'static dyn Tracer,
}

/// Whether an instance records, and on which CPUs. Changed in any context.
struct Switches {
    on: AtomicBool,
    /// How many want it to pause.
    pauses: AtomicU32,
    mask: AtomicU64,
}

/// A trace: its buffers, and how they are filled and read.
pub struct Instance {
    /// Its directory's name. Empty: it is the top one.
    pub name: Vec<u8>,
    /// No other has or had this number.
    pub number: u64,
    /// The buffer.
    pub main: Buffer,
    /// The snapshot's. Nobody records there.
    pub spare: Buffer,
    /// Which CPUs record, by their bits.
    pub(super) recording: AtomicU64,
    /// Those of them where calls of functions are recorded in the usual way: with the clock [`Clock::Local`],
    /// without a threshold, and for no [`Special`] reason otherwise.
    pub(super) plain: AtomicU64,
    /// [`Special`].
    special: AtomicU8,
    switches: Switches,
    pub(super) options: AtomicU32,
    /// What it wants of events.
    pub events: InInstance,
    /// The options of `function_graph`.
    graph_options: AtomicU32,
    pub(super) clock: AtomicU8,
    /// Who waits for records.
    pub waiting: Arc<Waiting>,
    /// How full a CPU's buffer must be, in percent, for who waits for many records at once.
    pub percent: AtomicU32,
    /// `tracing_thresh`, in microseconds.
    threshold: AtomicU64,
    /// The size that CPUs' buffers are to have when something is to be traced, in bytes.
    size: AtomicUsize,
    expanded: AtomicBool,
    /// Open files. Negative numbers do not exist: `GONE` once the directory is removed.
    users: AtomicU32,
    /// The CPUs whose `trace_pipe` is open; all bits for the one of all.
    pub pipes: SpinLock<u64>,
    pub(super) reports: Reports,
    /// What is to be written to the log.
    pub(super) dump: Dump,
    /// What another room keeps of it.
    extension: Once<Arc<dyn Extension>>,
    lock: Mutex<Locked>,
}

bitflags! {
    /// Why calls of functions are not recorded in the usual way.
    #[derive(Clone, Copy)]
    pub struct Special: u8 {
        /// Only those of some threads are.
        const THREADS = 1;
        /// Behind each comes the stack.
        const STACKS = 1 << 1;
        /// They are not recorded any more.
        const ENDED = 1 << 2;
    }
}

/// What another room keeps of an instance.
pub trait Extension: Send + Sync + 'static {
    /// Itself.
    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
    /// The instance is being removed, and locked: nothing of this refers to it when it returns, as far as
    /// there is memory for that. May sleep.
    fn end(self: Arc<Self>, instance: &Arc<Instance>);
}

/// An instance that has been removed.
const GONE: u32 = 1 << 31;

/// Something uses an instance, which is not removed meanwhile.
pub struct Use(Arc<Instance>);

impl Deref for Use {
    type Target = Arc<Instance>;
    fn deref(&self) -> &Arc<Instance> {
        &self.0
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.0.users.fetch_sub(1, Release);
    }
}

/// Bits of all CPUs.
fn every_cpu() -> u64 {
    u64::MAX >> (64 - smp::count())
}

impl Instance {
    /// A new one. `ENOMEM`.
    pub(super) fn new(name: &[u8]) -> Result<Self, Errno> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        Ok(Self {
            name: crate::mm::reserve::copy_of(name)?,
            number: NUMBER.fetch_add(1, Relaxed),
            main: Buffer::new()?,
            spare: Buffer::new()?,
            recording: AtomicU64::new(every_cpu()),
            plain: AtomicU64::new(every_cpu()),
            special: AtomicU8::new(0),
            switches: Switches {
                on: AtomicBool::new(true),
                pauses: AtomicU32::new(0),
                mask: AtomicU64::new(every_cpu()),
            },
            events: InInstance::new(),
            options: AtomicU32::new(Options::DEFAULT.bits()),
            graph_options: AtomicU32::new(GraphOptions::DEFAULT.bits()),
            clock: AtomicU8::new(Clock::Local as u8),
            waiting: Waiting::new(),
            percent: AtomicU32::new(50),
            threshold: AtomicU64::new(0),
            size: AtomicUsize::new(SIZE),
            expanded: AtomicBool::new(false),
            users: AtomicU32::new(0),
            pipes: SpinLock::new(0),
            reports: Reports::new(),
            dump: Dump::new(),
            extension: Once::new(),
            lock: Mutex::new(Locked { tracer: tracers::NOP }),
        })
    }

    /// What the one room that extends instances keeps of this one, made at first use.
    pub fn extension<T: Extension + Default>(&self) -> Result<Arc<T>, Errno> {
        let kept = self.extension.get_or_init(|| Arc::new(T::default()));
        kept.clone().any().downcast().map_err(|_| Errno::EINVAL)
    }

    /// Whether it is the top one.
    pub fn is_top(&self) -> bool {
        self.name.is_empty()
    }

    /// Uses it. `ENODEV`: it was removed.
    pub fn get(self: &Arc<Self>) -> Result<Use, Errno> {
        let counted = self
            .users
            .fetch_update(Acquire, Relaxed, |n| (n & GONE == 0).then_some(n + 1));
        counted.map_err(|_| Errno::ENODEV)?;
        Ok(Use(self.clone()))
    }

    /// It is to be removed: from here on nobody uses it. `EBUSY`: somebody does.
    pub(super) fn condemn(&self) -> Result<(), Errno> {
        let gone = self.users.compare_exchange(0, GONE, Acquire, Relaxed);
        gone.map(drop).map_err(|_| Errno::EBUSY)
    }

    /// It was condemned: ends what it does, and frees its buffers. Who still has a reference finds none. May
    /// sleep.
    pub(super) fn end(self: &Arc<Self>) {
        let mut locked = self.lock();
        locked.tracer.stop(self);
        locked.tracer = tracers::NOP;
        let _ = self.set_option(Options::COPY_MARKER, false);
        let _ = self.set_option(Options::EVENT_FORK, false);
        let _ = self.set_option(Options::FUNCTION_FORK, false);
        if let Some(extension) = self.extension.get() {
            extension.clone().end(self);
        }
        self.leave_events();
        self.main.free();
        self.spare.free();
    }

    /// Boot: the size that CPUs' buffers are to have, in bytes, and the clock.
    pub(super) fn begin_with(&self, size: Option<usize>, clock: Option<Clock>) {
        if let Some(size) = size {
            self.size.store(size, Relaxed);
        }
        if let Some(clock) = clock {
            self.clock.store(clock as u8, SeqCst);
            self.switched();
        }
    }

    /// Locks it. May sleep.
    pub fn lock(&self) -> MutexGuard<'_, Locked> {
        self.lock.lock()
    }

    /// A switch has changed: all of them together say what is recorded.
    fn switched(&self) {
        loop {
            let Switches { on, pauses, mask } = &self.switches;
            let clock = || self.clock.load(SeqCst);
            let others = || (clock(), self.threshold.load(SeqCst), self.special.load(SeqCst));
            let look = || (on.load(SeqCst), pauses.load(SeqCst), mask.load(SeqCst), others());
            let now = look();
            let bits = if now.0 && now.1 == 0 { now.2 } else { 0 };
            let is_plain = now.3 == (Clock::Local as u8, 0, 0);
            self.plain.store(if is_plain { bits } else { 0 }, SeqCst);
            self.recording.store(bits, SeqCst);
            // Whoever stores last has seen all changes.
            if look() == now {
                return;
            }
        }
    }

    /// Whether calls of functions are recorded in another way for this reason. Those that have begun may
    /// still be recorded in the usual way until a grace period has passed.
    pub fn set_special(&self, reason: Special, on: bool) {
        match on {
            true => self.special.fetch_or(reason.bits(), SeqCst),
            false => self.special.fetch_and(!reason.bits(), SeqCst),
        };
        self.switched();
    }

    /// `tracing_thresh`, in microseconds.
    #[inline(always)]
    pub fn threshold(&self) -> u64 {
        self.threshold.load(Relaxed)
    }

    /// Changes [`Self::threshold`].
    pub fn set_threshold(&self, microseconds: u64) {
        self.threshold.store(microseconds, SeqCst);
        self.switched();
    }

    /// Whether it records (`tracing_on`).
    pub fn is_on(&self) -> bool {
        self.switches.on.load(Relaxed)
    }

    /// Turns recording on or off. Who waits for records is told. In threads and interrupts.
    pub fn turn(&self, on: bool) {
        self.turn_quietly(on);
        if !on {
            self.waiting.tell();
        }
    }

    /// [`Self::turn`] in any context. Who waits is told with the next record. Returns whether that was a
    /// change: of several CPUs that turn it at a time, one is told so.
    pub fn turn_quietly(&self, on: bool) -> bool {
        let before = self.switches.on.swap(on, SeqCst);
        self.switched();
        before != on
    }

    /// Recording is off until [`Self::go_on`] was called as often.
    pub fn pause(&self) {
        self.switches.pauses.fetch_add(1, SeqCst);
        self.switched();
    }

    /// See [`Self::pause`].
    pub fn go_on(&self) {
        self.switches.pauses.fetch_sub(1, SeqCst);
        self.switched();
    }

    /// The CPUs that are to record, by their bits (`tracing_cpumask`).
    pub fn mask(&self) -> u64 {
        self.switches.mask.load(Relaxed)
    }

    /// Changes [`Self::mask`].
    pub fn set_mask(&self, mask: u64) {
        self.switches.mask.store(mask & every_cpu(), SeqCst);
        self.switched();
    }

    /// The options.
    pub fn options(&self) -> Options {
        Options::from_bits_retain(self.options.load(Relaxed))
    }

    /// Turns an option on or off. `EINVAL`: only the top instance has it.
    pub fn set_option(&self, option: Options, on: bool) -> Result<(), Errno> {
        if !self.is_top() && Options::TOP_ONLY.contains(option) {
            return Err(Errno::EINVAL);
        }
        let turn = || {
            let before = if on {
                self.options.fetch_or(option.bits(), Relaxed)
            } else {
                self.options.fetch_and(!option.bits(), Relaxed)
            };
            Options::from_bits_retain(before).contains(option)
        };
        if option == Options::EVENT_FORK {
            return super::event::pids::follow_forks(&self.events.pids, on, turn);
        }
        let was_on = turn();
        if option == Options::COPY_MARKER && was_on != on {
            marker::copies(on);
        }
        if option == Options::FUNCTION_FORK && was_on != on {
            super::registry::function_forks(on);
        }
        if option == Options::OVERWRITE {
            self.main.set_overwrite(on);
            self.spare.set_overwrite(on);
        }
        Ok(())
    }

    /// How `function_graph` looks.
    pub fn graph_options(&self) -> GraphOptions {
        GraphOptions::from_bits_retain(self.graph_options.load(Relaxed))
    }

    /// Turns one of these options on or off.
    pub fn set_graph_option(&self, option: GraphOptions, on: bool) {
        if on {
            self.graph_options.fetch_or(option.bits(), Relaxed);
        } else {
            self.graph_options.fetch_and(!option.bits(), Relaxed);
        }
    }

    /// The clock.
    pub fn clock(&self) -> Clock {
        Clock::from_number(self.clock.load(Relaxed))
    }

    /// Takes another clock. What was recorded is lost. May sleep.
    pub fn set_clock(&self, clock: Clock) -> Result<(), Errno> {
        let _locked = self.lock();
        self.clock.store(clock as u8, SeqCst);
        self.switched();
        self.main.clear(None)?;
        self.spare.clear(None)
    }

    fn overwrite(&self) -> bool {
        self.options().contains(Options::OVERWRITE)
    }

    /// The size of a CPU's buffer in bytes as it is, and as it will be when something is traced; `None` for
    /// the latter: as it is.
    pub fn size(&self, cpu: usize) -> (usize, Option<usize>) {
        let wanted = self.size.load(Relaxed);
        if self.expanded.load(Relaxed) {
            (self.main.size(cpu), None)
        } else {
            (LEAST * self.main.layout().data(), Some(wanted))
        }
    }

    /// Sees to it that there are at least small buffers. `ENOMEM`. May sleep.
    pub fn make_least(&self) -> Result<(), Errno> {
        if self.main.is_there() {
            return Ok(());
        }
        let _locked = self.lock();
        let least = LEAST * self.main.layout().data();
        self.main.make(|_| least, self.overwrite(), true)
    }

    /// Something is to be traced: sees to it that the buffers have the size that they are to have. `ENOMEM`.
    /// May sleep.
    pub fn expand(&self) -> Result<(), Errno> {
        self.expand_locked(&self.lock())
    }

    fn expand_locked(&self, _: &Locked) -> Result<(), Errno> {
        if self.expanded.load(Relaxed) {
            return Ok(());
        }
        let size = self.size.load(Relaxed);
        if self.main.is_there() {
            self.main.resize(size, None)?;
        } else {
            self.main.make(|_| size, self.overwrite(), true)?;
        }
        self.expanded.store(true, Relaxed);
        Ok(())
    }

    /// Gives buffers, of one CPU or all, this size in bytes. May sleep.
    pub fn resize(&self, size: usize, only: read::Only) -> Result<(), Errno> {
        let locked = self.lock();
        if only.is_none() && !self.expanded.load(Relaxed) {
            let before = self.size.swap(size, Relaxed);
            // Without memory for that much, what is traced later must not fail for this.
            return self
                .expand_locked(&locked)
                .inspect_err(|_| self.size.store(before, Relaxed));
        }
        self.expand_locked(&locked)?;
        self.main.resize(size, only)?;
        if only.is_none() {
            self.size.store(size, Relaxed);
        }
        if self.spare.is_there() {
            self.spare.resize(size, only)?;
        }
        Ok(())
    }

    /// Gives the buffers pages of 2^`order` pages of memory; everything in them is lost. `EINVAL`: too
    /// large.
    pub fn set_order(&self, order: u32) -> Result<(), Errno> {
        let locked = self.lock();
        self.expand_locked(&locked)?;
        self.main.set_order(order, self.overwrite())?;
        if self.spare.is_there() {
            self.spare.set_order(order, self.overwrite())?;
        }
        Ok(())
    }

    /// Empties the buffer, of one CPU or all. May sleep.
    pub fn clear(&self, only: read::Only) -> Result<(), Errno> {
        let _locked = self.lock();
        self.main.clear(only)
    }

    /// The tracer.
    pub fn tracer(&self) -> &'static dyn Tracer {
        self.lock().tracer
    }

    /// Takes another tracer. `EINVAL`: it is only for the top instance. May sleep.
    pub fn set_tracer(self: &Arc<Self>, tracer: &'static dyn Tracer) -> Result<(), Errno> {
        let mut locked = self.lock();
        if !self.is_top() && !tracer.in_instances() {
            return Err(Errno::EINVAL);
        }
        self.expand_locked(&locked)?;
        if core::ptr::addr_eq(locked.tracer, tracer) && tracer.name() == locked.tracer.name() {
            return Ok(());
        }
        locked.tracer.stop(self);
        locked.tracer = tracers::NOP;
        // A tracer begins with an empty buffer.
        self.main.clear(None)?;
        tracer.start(self)?;
        locked.tracer = tracer;
        Ok(())
    }

    /// Whether there is a snapshot's buffer.
    pub fn has_snapshot(&self) -> bool {
        self.spare.is_there()
    }

    /// Sees to it that a snapshot can be taken. May sleep.
    pub fn allocate_snapshot(&self) -> Result<(), Errno> {
        self.allocate_locked(&self.lock())
    }

    fn allocate_locked(&self, locked: &Locked) -> Result<(), Errno> {
        self.expand_locked(locked)?;
        if self.spare.order() != self.main.order() {
            self.spare.free();
            self.spare.take_order(&self.main);
        }
        let as_large = |cpu| self.spare.size(cpu) == self.main.size(cpu);
        if self.spare.is_there() {
            if (0..smp::count()).all(as_large) {
                return Ok(());
            }
            // There was no memory to give it the buffer's size when that changed.
            self.spare.free();
        }
        self.spare
            .make(|cpu| self.main.size(cpu), self.overwrite(), false)
    }

    /// Takes a snapshot, of one CPU or all: what was recorded is in the snapshot's buffer then. May sleep.
    pub fn snapshot(&self, only: read::Only) -> Result<(), Errno> {
        let locked = self.lock();
        self.allocate_locked(&locked)?;
        buffer::exchange(&self.main, &self.spare, only)
    }

    /// Empties the snapshot's buffer. May sleep.
    pub fn clear_snapshot(&self, only: read::Only) -> Result<(), Errno> {
        let _locked = self.lock();
        self.spare.clear(only)
    }

    /// Frees the snapshot's buffer.
    pub fn free_snapshot(&self) {
        let _locked = self.lock();
        self.spare.free();
    }

    /// Frees nearly all of the buffer, and the snapshot's (`free_buffer`). May sleep.
    pub fn shrink(&self) -> Result<(), Errno> {
        let _locked = self.lock();
        self.spare.free();
        let least = LEAST * self.main.layout().data();
        if self.main.is_there() {
            self.main.resize(least, None)?;
        }
        Ok(())
    }
}
