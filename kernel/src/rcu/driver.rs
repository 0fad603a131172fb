//! The thread that drives grace periods, and those who wait for them.

use super::{callbacks, stats};
use crate::sched::{self, Errand, KERNEL_LEVEL, Policy, WaitQueue, context, policy, preempt};
use crate::sync::{MAX_CPUS, without_interrupts, without_preemption};
use crate::time::now_ns;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
pub use limen_rcu::Cookie;
use limen_rcu::{GracePeriods, Machine, Native, Period, Presence, Seen};

/// How long CPUs have, in nanoseconds, to pass a quiescent state before they are asked, and how long before
/// they are asked again.
const PATIENCE: u64 = 1_000_000;
/// How long CPUs are only asked, nanoseconds.
const UNANSWERED: u64 = 3_000_000;
/// After how long a CPU that has not answered takes no interrupts, nanoseconds.
const NOT_TAKEN: u64 = 200_000_000;

static PERIODS: GracePeriods<Native> = GracePeriods::new();
/// The driver sleeps here.
static DRIVER: WaitQueue = WaitQueue::new();
/// Threads that wait for the end of a grace period.
static ENDED: WaitQueue = WaitQueue::new();
/// There is a driver.
static STARTED: AtomicBool = AtomicBool::new(false);
/// How many callers want the CPUs to be asked at once.
static HURRY: AtomicUsize = AtomicUsize::new(0);

/// The CPUs, as the driver reads them.
struct Cpus;

impl Machine for Cpus {
    type Atomics = Native;
    fn presence(&self, cpu: usize) -> Option<&Presence<Native>> {
        context::presence(cpu)
    }
    fn switches(&self, cpu: usize) -> usize {
        sched::stats::decisions_of(cpu)
    }
}

/// Starts the driver, and each CPU's thread for callbacks. At boot, when all CPUs are online.
pub fn start() {
    callbacks::start();
    let driver = sched::spawn_kthread("rcu_gp", drive);
    policy::set_policy(&driver, Policy::Fifo, KERNEL_LEVEL, 0, false);
    STARTED.store(true, Ordering::Release);
}

/// The grace period after which nobody can see what the caller has removed so far.
pub fn cookie() -> Cookie {
    PERIODS.cookie()
}

/// Whether a grace period has ended. Asks nobody to begin it.
pub fn is_over(cookie: Cookie) -> bool {
    PERIODS.is_over(cookie)
}

/// Asks for a grace period.
pub(super) fn want(cookie: Cookie) {
    // Others who want the same wake nobody, so nothing may come between the two.
    without_preemption(|| {
        if PERIODS.want(cookie) {
            DRIVER.wake_all();
        }
    });
}

/// Waits until nobody can see what the caller removed before. Sleeps, for some milliseconds.
pub fn synchronize() {
    wait_for(cookie());
}

/// [`synchronize`] for callers who cannot wait that long: CPUs are interrupted at once.
pub fn synchronize_expedited() {
    let _hurry = Hurry::up();
    synchronize();
}

/// Waits for the end of a grace period. Sleeps.
#[cfg_attr(any(debug_assertions, feature = "lockdep"), track_caller)]
pub fn wait_for(cookie: Cookie) {
    sched::might_sleep();
    if !STARTED.load(Ordering::Acquire) && sched::online().count() == 1 {
        // Boot: the only CPU is in no reader.
        return;
    }
    want(cookie);
    let mut reports = 0;
    loop {
        let until = now_ns()
            .saturating_add(stats::stall_timeout(reports))
            .saturating_add(PATIENCE);
        if ENDED.wait_until_deadline_uninterruptible(until, || PERIODS.is_over(cookie)) {
            return;
        }
        reports += 1;
        stats::driver_stalled();
    }
}

/// [`wait_for`] without a timer: for callers who may have set the thread's own.
pub(super) fn wait_without_timer(cookie: Cookie) {
    if STARTED.load(Ordering::Acquire) {
        want(cookie);
        ENDED.wait_until_uninterruptible(|| PERIODS.is_over(cookie));
    }
}

/// While it exists, CPUs are asked at once.
pub(super) struct Hurry(());

impl Hurry {
    pub(super) fn up() -> Self {
        HURRY.fetch_add(1, Ordering::AcqRel);
        DRIVER.wake_all();
        Self(())
    }
}

impl Drop for Hurry {
    fn drop(&mut self) {
        HURRY.fetch_sub(1, Ordering::AcqRel);
    }
}

fn is_hurried() -> bool {
    HURRY.load(Ordering::Acquire) != 0 || callbacks::are_many()
}

fn drive() {
    let mut seen = [Seen::default(); MAX_CPUS];
    loop {
        DRIVER.wait_until_uninterruptible(|| PERIODS.is_wanted());
        let began = now_ns();
        let mut period = PERIODS.begin(&Cpus, &mut seen);
        // This CPU runs the driver, which is no reader.
        passes();
        let rounds = wait_for_cpus(&mut period, began);
        period.end();
        stats::ended(now_ns() - began, rounds);
        ENDED.wake_all();
        callbacks::period_ended();
    }
}

/// Returns when each CPU has passed a quiescent state; how often they were asked.
fn wait_for_cpus(period: &mut Period<'_, Native>, began: u64) -> u64 {
    let pause =
        |news: &dyn Fn() -> bool| DRIVER.wait_until_deadline_uninterruptible(now_ns() + PATIENCE, news);
    if !period.scan(&Cpus) && !is_hurried() {
        pause(&is_hurried);
    }
    let (mut rounds, first, mut reports) = (0, now_ns(), 0);
    while !period.scan(&Cpus) {
        let now = now_ns();
        let answers = ANSWERS.load(Ordering::Acquire);
        for cpu in period.waits_for() {
            if !ERRANDS[cpu].send(cpu) && now > first + NOT_TAKEN {
                stats::takes_no_interrupt(cpu);
            }
            if now > first + UNANSWERED {
                // Each interrupt came while preemption was off there.
                sched::resched_cpu(cpu);
            }
        }
        if now - began > stats::stall_timeout(reports) {
            reports += 1;
            stats::stalled(now - began, period.waits_for());
        }
        rounds += 1;
        pause(&|| ANSWERS.load(Ordering::Acquire) != answers);
    }
    stats::settled();
    rounds
}

/// This CPU is in no reader.
fn passes() {
    without_interrupts(|| sched::this_cpu().presence.passes());
}

/// What each CPU is sent to do when it is asked.
static ERRANDS: [Errand; MAX_CPUS] = [const { Errand::new(&answer) }; MAX_CPUS];
/// How many answers have come.
static ANSWERS: AtomicUsize = AtomicUsize::new(0);

/// A CPU that is asked passes a quiescent state if the interrupt came in user mode, in idle, or in code that
/// may be preempted. Interrupts are off.
fn answer() {
    stats::show_if_stalled();
    if preempt::count() == preempt::HARDIRQ {
        passes();
        ANSWERS.fetch_add(1, Ordering::AcqRel);
        DRIVER.wake_all();
    }
}
