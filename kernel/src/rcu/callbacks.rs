//! What is to be done after grace periods without anybody waiting for them. Each CPU has a list, and a thread
//! that runs what has become due.

use super::driver::{self, Hurry};
use super::stats;
use crate::arch::smp;
use crate::sched::{self, CpuSet, KERNEL_LEVEL, KernelThread, Policy, WaitQueue, current, online, policy};
use crate::sync::{IrqSpinGuard, IrqSpinLock, MAX_CPUS, Mutex, Once, SpinLock, without_preemption};
use crate::time::now_ns;
use alloc::sync::Arc;
use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use limen_rcu::{Batch, Callbacks};

/// So many callbacks of one CPU hurry the grace period (Linux: `qhimark`).
const MANY: usize = 10_000;

/// A callback, part of the object that it is for.
pub(super) struct Link {
    next: UnsafeCell<*mut Link>,
    run: UnsafeCell<Option<unsafe fn(*mut Link)>>,
}

// SAFETY: one thread at a time uses a link: who hands it over, then who holds the list it is in.
unsafe impl Send for Link {}
// SAFETY: as for `Send`; a shared reference gives access to nothing.
unsafe impl Sync for Link {}

impl Link {
    pub(super) const fn new() -> Self {
        Self {
            next: UnsafeCell::new(ptr::null_mut()),
            run: UnsafeCell::new(None),
        }
    }
}

/// Links in order.
struct List {
    head: *mut Link,
    tail: *mut Link,
    count: usize,
}

// SAFETY: a list owns its links.
unsafe impl Send for List {}

impl List {
    /// A list of one.
    ///
    /// # Safety
    /// The link stays where it is until it is run, and is in no list.
    unsafe fn of(link: *mut Link) -> Self {
        // SAFETY: the caller hands the link over.
        unsafe { *(*link).next.get() = ptr::null_mut() };
        Self {
            head: link,
            tail: link,
            count: 1,
        }
    }

    fn pop(&mut self) -> Option<*mut Link> {
        let first = self.head;
        if first.is_null() {
            return None;
        }
        // SAFETY: a link in a list is alive.
        self.head = unsafe { *(*first).next.get() };
        self.count -= 1;
        Some(first)
    }
}

impl Batch for List {
    const EMPTY: Self = Self {
        head: ptr::null_mut(),
        tail: ptr::null_mut(),
        count: 0,
    };
    fn is_empty(&self) -> bool {
        self.head.is_null()
    }
    fn append(&mut self, later: Self) {
        if later.is_empty() {
            return;
        }
        if self.is_empty() {
            *self = later;
            return;
        }
        // SAFETY: the links of both lists are alive.
        unsafe { *(*self.tail).next.get() = later.head };
        self.tail = later.tail;
        self.count += later.count;
    }
}

/// A CPU's callbacks.
struct Cpu {
    list: IrqSpinLock<Callbacks<List>>,
    /// How many are in the list.
    waiting: AtomicUsize,
    /// Some are due.
    due: AtomicBool,
    /// The thread has [`KERNEL_LEVEL`] until it has run what is due.
    hurried: SpinLock<bool>,
    /// The thread, and where it sleeps.
    thread: Once<KernelThread>,
    /// See `thread`.
    sleeps: WaitQueue,
    /// For [`barrier`].
    last: Link,
}

static CPUS: [Cpu; MAX_CPUS] = [const {
    Cpu {
        list: IrqSpinLock::new(Callbacks::new()),
        waiting: AtomicUsize::new(0),
        due: AtomicBool::new(false),
        hurried: SpinLock::new(false),
        thread: Once::new(),
        sleeps: WaitQueue::new(),
        last: Link::new(),
    }
}; MAX_CPUS];

/// Starts each CPU's thread.
pub(super) fn start() {
    for n in online().iter() {
        let thread = sched::spawn_kthread("rcuc", move || {
            let _ = policy::set_affinity(&current(), CpuSet::single(n));
            run(&CPUS[n]);
        });
        let _ = CPUS[n].thread.set(thread);
    }
}

/// Has `run` called with `link` after a grace period, in a thread that may sleep. In any context but an NMI
/// handler and under the scheduler's locks.
///
/// # Safety
/// `link` stays where it is until then, and is handed over only once. `run` may be called in any thread.
pub(super) unsafe fn call(link: *mut Link, run: unsafe fn(*mut Link)) {
    // SAFETY: the caller hands the link over.
    unsafe { *(*link).run.get() = Some(run) };
    without_preemption(|| {
        let here = &CPUS[smp::cpu_id()];
        // Before `start`, and on a CPU that came online late, there is no thread.
        let cpu = if here.thread.get().is_some() {
            here
        } else {
            &CPUS[0]
        };
        // SAFETY: as the caller promises.
        cpu.push(unsafe { List::of(link) });
    });
}

impl Cpu {
    /// Gives the thread a priority above all programs' until it has run what is due.
    fn hurry(&self) {
        let Some(thread) = self.thread.get() else { return };
        let mut hurried = self.hurried.lock();
        if !*hurried {
            *hurried = true;
            policy::set_policy(thread, Policy::Fifo, KERNEL_LEVEL, 0, false);
        }
    }
    /// The thread has run what was due.
    fn has_run(&self) {
        let mut hurried = self.hurried.lock();
        if *hurried {
            *hurried = false;
            policy::set_policy(&current(), Policy::Normal, 0, 0, false);
        }
    }

    fn push(&self, new: List) {
        self.waiting.fetch_add(new.count, Ordering::Relaxed);
        let mut list = self.list.lock();
        list.push(new);
        self.advance(list);
    }

    /// Sorts by what has ended, and asks for the grace period that is waited for.
    fn advance(&self, mut list: IrqSpinGuard<'_, Callbacks<List>>) {
        let wanted = list.advance(driver::is_over, driver::cookie);
        let due = list.is_ready();
        drop(list);
        if due {
            self.due.store(true, Ordering::Release);
            self.sleeps.wake_all();
        }
        if let Some(cookie) = wanted {
            driver::want(cookie);
        }
    }
}

/// A grace period has ended: the threads of CPUs with callbacks that are due are woken. Called by the driver.
pub(super) fn period_ended() {
    for n in online().iter() {
        let cpu = &CPUS[n];
        let waiting = cpu.waiting.load(Ordering::Relaxed);
        if waiting != 0 {
            cpu.advance(cpu.list.lock());
        }
        if waiting > MANY {
            cpu.hurry();
        }
    }
}

/// A CPU's thread.
fn run(cpu: &'static Cpu) {
    loop {
        cpu.sleeps
            .wait_until_uninterruptible(|| cpu.due.swap(false, Ordering::AcqRel));
        rcu_do_batch(cpu);
    }
}

/// Runs the callbacks whose grace period is over. A function of its own, so that it can be traced by Linux's
/// name.
#[inline(never)]
fn rcu_do_batch(cpu: &'static Cpu) {
    let mut ready = cpu.list.lock().take_ready();
    let mut count = 0;
    while let Some(link) = ready.pop() {
        // SAFETY: `call` set it, and the grace period is over. The object may be gone afterwards.
        unsafe {
            if let Some(run) = (*(*link).run.get()).take() {
                run(link);
            }
        }
        // Whoever sees that none waits sees what the callback did.
        cpu.waiting.fetch_sub(1, Ordering::Release);
        count += 1;
    }
    cpu.has_run();
    stats::ran(count);
}

/// Whether so many callbacks wait that the grace period must not take long.
pub(super) fn are_many() -> bool {
    online()
        .iter()
        .any(|n| CPUS[n].waiting.load(Ordering::Relaxed) > MANY)
}

/// How many callbacks wait.
pub(super) fn waiting() -> usize {
    let counts = online().iter().map(|n| CPUS[n].waiting.load(Ordering::Relaxed));
    counts.sum()
}

/// One [`barrier`] at a time.
static BARRIER: Mutex<()> = Mutex::new(());
/// CPUs whose callbacks the barrier waits for.
static LEFT: AtomicUsize = AtomicUsize::new(0);
static PASSED: WaitQueue = WaitQueue::new();

/// Waits until all callbacks that were asked for before have run. Sleeps. Not for a callback, nor for a
/// caller who holds a lock that one takes.
pub fn barrier() {
    let me = current();
    if CPUS
        .iter()
        .any(|cpu| cpu.thread.get().is_some_and(|thread| Arc::ptr_eq(thread, &me)))
    {
        crate::log::warned();
        warning!("WARNING: a callback of RCU waits for itself");
        return;
    }
    let _one = BARRIER.lock();
    begin_barrier();
    PASSED.wait_until_uninterruptible(|| LEFT.load(Ordering::Acquire) == 0);
}

fn begin_barrier() {
    // One for the caller, so that it is not over before all have been asked.
    LEFT.store(1, Ordering::Release);
    for n in online().iter() {
        let cpu = &CPUS[n];
        if cpu.waiting.load(Ordering::Acquire) == 0 {
            continue;
        }
        LEFT.fetch_add(1, Ordering::AcqRel);
        let link = (&raw const cpu.last).cast_mut();
        // SAFETY: the link is static, and in no list: the barrier before this one has passed.
        cpu.push(unsafe {
            *(*link).run.get() = Some(passed);
            List::of(link)
        });
    }
    passed_one();
}

/// A CPU's callbacks that were there before have run.
unsafe fn passed(_: *mut Link) {
    passed_one();
}

fn passed_one() {
    if LEFT.fetch_sub(1, Ordering::AcqRel) == 1 {
        PASSED.wake_all();
    }
}

/// Memory is short: has what waits for a grace period freed soon, and waits for that, at most `ns`
/// nanoseconds longer than the grace period takes. Whether there was anything. Sleeps, but sets no timer: the
/// caller may have set the thread's own.
pub fn hasten(ns: u64) -> bool {
    if waiting() == 0 {
        return false;
    }
    {
        let _hurry = Hurry::up();
        driver::wait_without_timer(driver::cookie());
    }
    for n in online().iter() {
        // The others would have the priority until they have something to run.
        if CPUS[n].waiting.load(Ordering::Relaxed) != 0 {
            CPUS[n].hurry();
        }
    }
    let end = now_ns() + ns;
    while waiting() != 0 && now_ns() < end {
        sched::yield_now();
    }
    true
}
