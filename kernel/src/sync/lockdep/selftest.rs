//! A planted fault, so that a test can see that faults are found: `limen.lockdep_selftest=NAME` on the command line, started before init.

use crate::sync::{IrqSpinLock, Mutex, SpinLock};

static A: SpinLock<u32> = SpinLock::new(0);
static B: SpinLock<u32> = SpinLock::new(0);
static LOOSE: SpinLock<u32> = SpinLock::new(0);
static SLEEPING: Mutex<u32> = Mutex::new(0);
static IRQ: IrqSpinLock<u32> = IrqSpinLock::new(0);

/// Does what the command line asks for, on a kernel thread.
pub fn start() {
    let Some(name) = crate::boot::cmdline::value("limen.lockdep_selftest") else {
        return;
    };
    let f: fn() = match name {
        "order" => order,
        "irq" => irq,
        "inversion" => inversion,
        "recursion" => recursion,
        "sleep" => sleep,
        "exit" => exit,
        _ => {
            warning!("limen.lockdep_selftest: no test {name}");
            return;
        }
    };
    crate::sched::spawn_kthread("lockdep_test", f);
}

/// Two locks in both orders, at different times: no deadlock happens, but one could.
fn order() {
    {
        let a = A.lock();
        *B.lock() += *a;
    }
    let b = B.lock();
    *A.lock() += *b;
}

/// Runs `f` in a hardware interrupt.
fn in_interrupt(f: &'static (dyn Fn() + Sync)) {
    static DONE: crate::sched::WaitQueue = crate::sched::WaitQueue::new();
    let done = core::sync::atomic::AtomicBool::new(false);
    let done: alloc::sync::Arc<_> = done.into();
    let timer = crate::time::Timer::new({
        let done = done.clone();
        move || {
            f();
            done.store(true, core::sync::atomic::Ordering::Release);
            DONE.wake_all();
        }
    });
    timer.arm(crate::time::now_ns() + 1000);
    DONE.wait_until_uninterruptible(|| done.load(core::sync::atomic::Ordering::Acquire));
}

/// A lock held with interrupts on that a timer takes, too.
fn irq() {
    *LOOSE.lock() += 1;
    in_interrupt(&|| *LOOSE.lock() += 1);
}

/// A timer takes `IRQ`; under `IRQ` a lock is taken that others hold with interrupts on.
fn inversion() {
    *LOOSE.lock() += 1;
    in_interrupt(&|| *IRQ.lock() += 1);
    let guard = IRQ.lock();
    *LOOSE.lock() += *guard;
}

/// Two locks of one class at once.
fn recursion() {
    let pair = [0, 0].map(SpinLock::new);
    let first = pair[0].lock();
    *pair[1].lock() += *first;
}

/// A sleeping lock under a spinlock.
fn sleep() {
    let guard = A.lock();
    *SLEEPING.lock() += *guard;
}

/// A thread that ends with a lock.
fn exit() {
    core::mem::forget(SLEEPING.lock());
}
