//! The scheduler: per-CPU queues, preemption, wait queues, cross-CPU calls, idle.
//!
//! It is called by everything that sleeps (through [`WaitQueue`] and the sleeping locks), the threshold
//! (reschedule work, preemption), `task` (new and ending threads) and the system calls of `syscall::sched`.
//! It calls the architecture (`switch`, `smp`), `time` (the tick) and `mm` (which address space is loaded).

mod balance;
pub mod call;
pub mod context;
pub mod cpu;
mod cpuset;
pub mod crossings;
mod current;
pub mod deadline;
pub mod entity;
mod events;
mod fair;
pub mod float;
pub mod futex;
pub mod inspect;
mod kthread;
pub mod leaving;
pub mod membarrier;
pub mod nmi;
pub mod nohz;
pub mod policy;
pub mod preempt;
mod queue;
pub mod resume;
mod run;
mod runqueue;
pub mod selftest;
pub mod stats;
mod wait;
mod wake;

pub use call::{Errand, on_each_cpu};
pub use cpu::{CpuData, cpu, online, ready, this_cpu};
pub use cpuset::CpuSet;
pub use current::{CurrentTask, current};
pub use deadline::{Alarm, Deadline};
pub use entity::{Policy, TaskState};
pub use inspect::user_state;
pub use kthread::{
    KernelThread, each_kernel_thread, end_thread, spawn_kthread, start_thread, try_spawn_kthread,
};
pub use policy::yield_now;
pub use queue::KERNEL_LEVEL;
pub use run::{activate_mm, leave_mm, preempt_current, resched_cpu, schedule, switch_preempted};
pub use wait::{News, WaitQueue, Waiter};
pub use wake::{wake_new_task, wake_task};

use crate::arch::{irq, smp};
use crate::mm::KernelStack;
use crate::sync::MAX_CPUS;
use crate::task::Task;
use crate::time::Timer;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use entity::ContextCell;
use limen_entry::ThreadFlags;
use limen_linux_abi::Errno;
use limen_rcu::Presence;

/// Prepares the boot CPU: the code that runs now becomes its idle thread. What follows `set_current` is a
/// function of its own, because within this one the compiler may still assume that the thread before it is
/// the running one.
#[inline(never)]
#[unsafe(link_section = ".init.text")]
pub fn init() {
    nohz::init();
    let idle = new_idle();
    let count = preempt::count();
    idle.info.preempt_count.store(count, Ordering::Relaxed);
    let info = &raw const idle.info;
    let top = idle.stack.top();
    let data = cpu::add_cpu(0, idle, cpu::own_presence());
    // SAFETY: interrupts are off, and from here on the boot code is this thread. It goes on running on the
    // boot stack; the top of its own stack is used only by entries from user mode, where the idle thread
    // never is.
    unsafe { smp::set_current(info, top) };
    settle_in(data);
}

#[inline(never)]
fn settle_in(data: *const CpuData) {
    // An architecture that gave the boot CPU no interrupt stack gets one as the other CPUs do.
    // SAFETY: this CPU's block; interrupts are off, so nothing else reads it.
    unsafe {
        let local = smp::cpu_local().cast_mut();
        (*local).data = data;
        if (*local).irq_stack_top == 0 {
            let stack = KernelStack::new().expect("memory for an interrupt stack");
            (*local).irq_stack_top = stack.top();
            core::mem::forget(stack);
        }
    }
    cpu::ONLINE.fetch_or(1, Ordering::Release);
}

#[inline(never)]
fn new_idle() -> Arc<Task> {
    let stack = KernelStack::new().expect("memory for an idle thread");
    let context = ContextCell::new(crate::arch::switch::Context::running());
    Task::new_kernel("swapper", stack, context, true)
}

/// What CPU `n` has for itself: its local block, with its idle thread, and the top of that thread's stack.
/// They are never freed. Never inlined: the boot CPU's stack is small for what waits for the others.
#[inline(never)]
fn prepare(n: usize) -> (&'static mut cpu::CpuLocal, usize) {
    let idle = new_idle();
    let stack_top = idle.stack.top();
    let irq_stack = KernelStack::new().expect("memory for an interrupt stack");
    idle.info.cpu.store(n as u32, Ordering::Relaxed);
    let local = Box::leak(Box::new(cpu::CpuLocal {
        this: core::ptr::null(),
        current: &raw const idle.info,
        kernel_stack_top: stack_top,
        scratch: [0; 4],
        irq_stack_top: irq_stack.top(),
        id: n,
        data: core::ptr::null(),
        float_owner: core::ptr::null(),
        presence: Presence::new(),
        lent: [0; 4],
    }));
    local.this = &raw const *local;
    let presence = &raw const local.presence;
    // SAFETY: the block is never freed; nothing writes this part of it by reference.
    local.data = cpu::add_cpu(n, idle, unsafe { &*presence });
    core::mem::forget(irq_stack);
    (local, stack_top)
}

/// Starts the other CPUs and waits until they are online. CPUs that have not begun after a second are left
/// out.
pub fn start_secondaries() {
    let count = smp::count().min(MAX_CPUS);
    for n in 1..count {
        let (local, stack_top) = prepare(n);
        match smp::start(n, local, stack_top, crate::mm::linear::before_alone) {
            Ok(()) => {
                // Until it is online it is not told of changes of the map, and nobody waits for it: nothing
                // is changed meanwhile.
                wait_online(n);
            }
            Err(e) => {
                warning!("CPU {n} does not start: {e:?}");
                if e == Errno::ETIMEDOUT {
                    // The CPU was told to start and may still come. It must then find the block and the stack
                    // that were made for it, not the next CPU's, so no other is started.
                    break;
                }
            }
        }
    }
    info!("{} of {} CPUs online", online().count(), count);
    if context::is_on() {
        info!("context tracking: on for all CPUs");
    }
    nohz::start();
}

/// How long a CPU that has begun may take before the log says so, in nanoseconds.
const LATE: u64 = 60_000_000_000;

/// Waits for a CPU that has begun, without limit: it comes, but a virtual one may be given no time for long.
/// Going on without it is no choice: it runs already, on a map of whose changes it would not be told.
fn wait_online(cpu: usize) {
    let mut limit = crate::time::now_ns() + LATE;
    while !online().contains(cpu) {
        if crate::time::now_ns() > limit {
            warning!("CPU {cpu} has begun and is not online; waiting for it");
            limit += LATE;
        }
        irq::spin_hint();
    }
}

/// A secondary CPU tells that it is online. Called once by each, on its idle thread.
pub fn secondary_online() {
    cpu::ONLINE.fetch_or(1 << smp::cpu_id(), Ordering::Release);
    // A driver of RCU that does not see this CPU online: what was written before it looked is seen here.
    core::sync::atomic::fence(Ordering::SeqCst);
}

/// The idle loop: sleeps until there is work. Never returns.
pub fn idle() -> ! {
    // What this function calls has its return address below.
    let here = 0_usize;
    let base = core::hint::black_box(&raw const here).addr() + size_of::<usize>();
    this_cpu().idle_base.store(base, Ordering::Release);
    if context::is_on() {
        idle_loop::<true>()
    } else {
        idle_loop::<false>()
    }
}

fn idle_loop<const TRACKED: bool>() -> ! {
    cpu::IDLE.fetch_or(this_cpu().bit, Ordering::Relaxed);
    irq::local_enable();
    loop {
        let work = &preempt::current_info().work;
        irq::local_disable();
        // Interrupts are off from the check to the sleep, so the interrupt of a wake-up ends the sleep at
        // once.
        if work.has(ThreadFlags::RESCHED.union(ThreadFlags::PATCH_PENDING)) {
            irq::local_enable();
            if work.has(ThreadFlags::PATCH_PENDING) {
                crate::task::patch::change_over();
            }
            schedule();
            cpu::IDLE.fetch_or(this_cpu().bit, Ordering::Relaxed);
        } else {
            context::idle::<TRACKED>(irq::enable_and_wait);
        }
    }
}

/// In debug builds and with lock validation, reports a caller that must not sleep.
#[inline(always)]
#[cfg_attr(any(debug_assertions, feature = "lockdep"), track_caller)]
pub fn might_sleep() {
    #[cfg(feature = "lockdep")]
    crate::sync::lockdep::might_sleep(preempt::count());
    #[cfg(all(debug_assertions, not(feature = "lockdep")))]
    if preempt::count() != 0 {
        sleeping_in_atomic(core::panic::Location::caller());
    }
}

#[cfg(all(debug_assertions, not(feature = "lockdep")))]
#[cold]
#[inline(never)]
fn sleeping_in_atomic(at: &core::panic::Location<'_>) {
    use core::sync::atomic::AtomicU32;
    static SAID: AtomicU32 = AtomicU32::new(0);
    if SAID.fetch_add(1, Ordering::Relaxed) < 8 {
        warning!(
            "BUG: sleeping function called from invalid context at {at}, preempt_count {:#x}",
            preempt::count()
        );
        crate::trace::backtrace::print(crate::arch::stack::here());
    }
}

/// The timer that ends sleeps of `task`. Made at its first sleep with a deadline.
pub(crate) fn sleep_timer(task: &Arc<Task>) -> &Timer {
    task.sched.sleep_timer.get_or_init(|| {
        let task = Arc::downgrade(task);
        Timer::new(move || {
            if let Some(task) = task.upgrade() {
                wake_task(&task, TaskState::NORMAL);
            }
        })
    })
}

/// The CPU's tick: charges run time, ends slices, evens out the load. Runs in the timer interrupt, interrupts
/// off. A function of its own, so that it can be traced by Linux's name.
#[inline(never)]
pub(crate) fn scheduler_tick(cpu: &'static CpuData, now: u64) {
    let rq = &cpu.rq;
    rq.lock.lock();
    let inner = rq.inner();
    rq.update_curr(inner, now);
    rq.settle_least(inner);
    let curr = inner.curr;
    if !curr.is(inner.idle) {
        cpu.stats.tick(now, &curr);
        let level = curr.sched.effective_rt.load(Ordering::Relaxed);
        let waiting = inner.fair.least_key().is_some();
        let held = inner.turns.tick(now, level > 0 && level < KERNEL_LEVEL) && (waiting || level == 0);
        if inner.rt.held != held {
            inner.rt.held = held;
            curr.info.work.set(ThreadFlags::NEED_RESCHED);
        }
        let expired = if level > 0 {
            curr.sched.policy() == Policy::RoundRobin
                && curr.sched.rr_used.load(Ordering::Relaxed) >= fair::rr_slice()
                && inner.rt.highest() == level
        } else {
            inner
                .fair
                .least_key()
                .is_some_and(|least| curr.sched.fair.key() > least)
        };
        if expired {
            // The first tick asks for a lazy reschedule; if the task still runs at the next, it is preempted.
            let lazy = curr.info.work.has(ThreadFlags::NEED_RESCHED_LAZY);
            curr.info.work.set(if lazy {
                ThreadFlags::NEED_RESCHED
            } else {
                ThreadFlags::NEED_RESCHED_LAZY
            });
        }
    }
    let busy = !inner.curr.is(inner.idle);
    let urgent = inner.rt.highest();
    rq.lock.unlock();
    if busy {
        crate::task::timers::cpu_tick(&current());
    }
    stats::update_load(now);
    if online().count() > 1 {
        balance::at_tick(cpu, urgent);
    }
}
