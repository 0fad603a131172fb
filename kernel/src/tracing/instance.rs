//! Instances: the top one, and those that programs make in `instances/`.

use super::buffer::{self, Buffer, LEAST};
use super::clock::Clock;
use super::tracers::{self, Tracer};
use super::event::state::InInstance;
use super::errors::Reports;
use super::waiting::Waiting;
use super::{names, read};
use crate::arch::smp;
use crate::cmdline;
use crate::sync::{Mutex, MutexGuard, Once, SpinLock};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Deref;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
use limen_linux_abi::Errno;
use limen_trace_text::graph::GraphOptions;
use limen_trace_text::{Options, options};

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
    switches: Switches,
    options: AtomicU32,
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
    pub threshold: AtomicU64,
    /// The size that CPUs' buffers are to have when something is to be traced, in bytes.
    size: AtomicUsize,
    expanded: AtomicBool,
    /// Open files. Negative numbers do not exist: `GONE` once the directory is removed.
    users: AtomicU32,
    /// The CPUs whose `trace_pipe` is open; all bits for the one of all.
    pub pipes: SpinLock<u64>,
    pub(super) reports: Reports,
    lock: Mutex<Locked>,
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

static TOP: Once<Arc<Instance>> = Once::new();
static OTHERS: Mutex<Vec<Arc<Instance>>> = Mutex::new(Vec::new());

/// Bits of all CPUs.
fn every_cpu() -> u64 {
    u64::MAX >> (64 - smp::count())
}

impl Instance {
    fn new(name: &[u8]) -> Result<Self, Errno> {
        let mut own = Vec::new();
        crate::mm::reserve::room_exact(&mut own, name.len())?;
        own.extend_from_slice(name);
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        Ok(Self {
            name: own,
            number: NUMBER.fetch_add(1, Relaxed),
            main: Buffer::new()?,
            spare: Buffer::new()?,
            recording: AtomicU64::new(every_cpu()),
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
            lock: Mutex::new(Locked { tracer: tracers::NOP }),
        })
    }

    /// Whether it is the top one.
    pub fn is_top(&self) -> bool {
        self.name.is_empty()
    }

    /// Uses it. `ENODEV`: it was removed.
    pub fn get(self: &Arc<Self>) -> Result<Use, Errno> {
        let counted = self.users.fetch_update(Acquire, Relaxed, |n| (n & GONE == 0).then_some(n + 1));
        counted.map_err(|_| Errno::ENODEV)?;
        Ok(Use(self.clone()))
    }

    /// Locks it. May sleep.
    pub fn lock(&self) -> MutexGuard<'_, Locked> {
        self.lock.lock()
    }

    /// A switch has changed: all of them together say what is recorded.
    fn switched(&self) {
        loop {
            let Switches { on, pauses, mask } = &self.switches;
            let look = || (on.load(SeqCst), pauses.load(SeqCst), mask.load(SeqCst));
            let now = look();
            let bits = if now.0 && now.1 == 0 { now.2 } else { 0 };
            self.recording.store(bits, SeqCst);
            // Whoever stores last has seen all changes.
            if look() == now {
                return;
            }
        }
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

    /// [`Self::turn`] in any context. Who waits is told with the next record.
    pub fn turn_quietly(&self, on: bool) {
        self.switches.on.store(on, SeqCst);
        self.switched();
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
        let before = match on {
            true => self.options.fetch_or(option.bits(), Relaxed),
            false => self.options.fetch_and(!option.bits(), Relaxed),
        };
        if option == Options::EVENT_FORK && Options::from_bits_retain(before).contains(option) != on {
            super::event::pids::follow_forks(on)?;
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
        self.clock.store(clock as u8, Release);
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
            self.size.store(size, Relaxed);
            return self.expand_locked(&locked);
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
        if self.spare.is_there() {
            return Ok(());
        }
        self.spare.make(|cpu| self.main.size(cpu), self.overwrite(), false)
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

    /// Frees nearly all of the buffer (`free_buffer`). May sleep.
    pub fn shrink(&self) -> Result<(), Errno> {
        let _locked = self.lock();
        let least = LEAST * self.main.layout().data();
        if self.main.is_there() {
            self.main.resize(least, None)?;
        }
        Ok(())
    }
}

/// The top instance, if something was to be traced since boot.
#[inline(always)]
pub fn made() -> Option<&'static Arc<Instance>> {
    TOP.get()
}

/// The top instance, which is made at first use. May sleep.
pub fn top() -> Result<&'static Arc<Instance>, Errno> {
    if let Some(top) = TOP.get() {
        return Ok(top);
    }
    let new = Instance::new(b"")?;
    boot_options(&new);
    names::begin();
    let _ = TOP.set(Arc::new(new));
    TOP.get().ok_or(Errno::ENOMEM)
}

/// What the command line says of the top instance.
fn boot_options(top: &Instance) {
    if let Some(size) = cmdline::size("trace_buf_size").filter(|size| *size != 0) {
        top.size.store(size as usize, Relaxed);
    }
    if let Some(clock) = cmdline::value("trace_clock").and_then(Clock::named) {
        top.clock.store(clock as u8, Relaxed);
    }
    for word in cmdline::value("trace_options").unwrap_or_default().split(',') {
        let (name, on) = options::parse(word);
        if let Some(option) = Options::named(name) {
            let _ = top.set_option(option, on);
        }
    }
}

/// The other instances.
pub fn all() -> Vec<Arc<Instance>> {
    OTHERS.lock().clone()
}

/// The instance with this name.
pub fn find(name: &[u8]) -> Option<Arc<Instance>> {
    OTHERS.lock().iter().find(|one| one.name == name).cloned()
}

/// Makes an instance. `EEXIST`, `ENOMEM`. May sleep.
pub fn make(name: &[u8]) -> Result<Arc<Instance>, Errno> {
    let new = Instance::new(name)?;
    let mut others = OTHERS.lock();
    if others.iter().any(|one| one.name == name) {
        return Err(Errno::EEXIST);
    }
    crate::mm::reserve::room(&mut *others, 1)?;
    let new = Arc::new(new);
    others.push(new.clone());
    Ok(new)
}

/// Removes an instance. `ENOENT`; `EBUSY`: a file of it is open, or something else uses it. May sleep.
pub fn remove(name: &[u8]) -> Result<(), Errno> {
    let mut others = OTHERS.lock();
    let index = others.iter().position(|one| one.name == name).ok_or(Errno::ENOENT)?;
    let gone = others[index]
        .users
        .compare_exchange(0, GONE, Acquire, Relaxed);
    gone.map_err(|_| Errno::EBUSY)?;
    let instance = others.swap_remove(index);
    drop(others);
    let mut locked = instance.lock();
    locked.tracer.stop(&instance);
    locked.tracer = tracers::NOP;
    drop(locked);
    let _ = instance.set_option(Options::EVENT_FORK, false);
    instance.leave_events();
    // A tracer that has stopped records no more; who still holds a reference finds no buffers.
    instance.main.free();
    instance.spare.free();
    Ok(())
}
