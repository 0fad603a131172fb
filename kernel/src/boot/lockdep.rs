//! Planted errors, with which a test checks that the validator finds errors: `limen.lockdep_selftest=NAME` on
//! the command line. Runs beside init.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::sched::context;
use crate::sync::{IrqSpinLock, Mutex, SpinLock};

static A: SpinLock<u32> = SpinLock::new(0);
static B: SpinLock<u32> = SpinLock::new(0);
static LOOSE: SpinLock<u32> = SpinLock::new(0);
static SLEEPING: Mutex<u32> = Mutex::new(0);
static IRQ: IrqSpinLock<u32> = IrqSpinLock::new(0);

/// Plants the error that the command line asks for, in a kernel thread.
pub fn start() {
    let Some(name) = crate::cmdline::value("limen.lockdep_selftest") else {
        return;
    };
    let f: fn() = match name {
        "order" => order,
        "irq" => irq,
        "inversion" => inversion,
        "recursion" => recursion,
        "sleep" => sleep,
        "exit" => exit,
        "allocation" => allocation,
        "atomic" => atomic,
        "size" => size,
        "rcu-outside" => rcu_outside,
        "rcu-sleep" => rcu_sleep,
        "rcu-away" => rcu_away,
        "rcu-nested" => rcu_nested,
        "rcu-stall" => rcu_stall,
        _ => {
            warning!("limen.lockdep_selftest: no test {name}");
            return;
        }
    };
    crate::sched::spawn_kthread("lockdep_test", f);
}

/// Two locks are taken in both orders, one after the other: there is no deadlock, but there could be one.
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
    let done = alloc::sync::Arc::new(AtomicBool::new(false));
    let timer = crate::time::Timer::new({
        let done = done.clone();
        move || {
            f();
            done.store(true, Ordering::Release);
            DONE.wake_all();
        }
    });
    timer.arm(crate::time::now_ns() + 1000);
    DONE.wait_until_uninterruptible(|| done.load(Ordering::Acquire));
}

/// A lock is held with interrupts on, and a timer takes it, too.
fn irq() {
    *LOOSE.lock() += 1;
    in_interrupt(&|| *LOOSE.lock() += 1);
}

/// A timer takes `IRQ`. Under `IRQ` a lock is taken that is elsewhere held with interrupts on.
fn inversion() {
    *LOOSE.lock() += 1;
    in_interrupt(&|| *IRQ.lock() += 1);
    let guard = IRQ.lock();
    *LOOSE.lock() += *guard;
}

/// Two locks of one class are held at the same time.
fn recursion() {
    let pair = [0, 0].map(SpinLock::new);
    let first = pair[0].lock();
    *pair[1].lock() += *first;
}

/// A sleeping lock is taken under a spinlock.
fn sleep() {
    let guard = A.lock();
    *SLEEPING.lock() += *guard;
}

/// The heap is used under a lock that the heap itself could take.
fn allocation() {
    crate::mm::vmap::locked(|| drop(core::hint::black_box(alloc::boxed::Box::new(1u32))));
}

/// A large block is allocated under a spinlock.
fn atomic() {
    let mut bytes = alloc::vec::Vec::<u8>::new();
    let guard = A.lock();
    let _ = crate::mm::reserve::room_exact(&mut bytes, 1 << 20);
    drop(guard);
}

/// A large block is allocated without handling failure.
fn size() {
    drop(core::hint::black_box(alloc::vec![0u8; 1 << 20]));
}

/// A thread ends while it holds a lock.
fn exit() {
    core::mem::forget(SLEEPING.lock());
}

/// What RCU protects is used where no reader is.
fn rcu_outside() {
    static PLACE: crate::rcu::Slot<Nothing> = crate::rcu::Slot::empty();
    struct Nothing;
    impl crate::rcu::Retire for Nothing {}
    let reader = alloc::boxed::Box::leak(alloc::boxed::Box::new(crate::rcu::read()));
    crate::sched::preempt::enable();
    let _ = PLACE.load(reader);
}

/// A reader sleeps.
fn rcu_sleep() {
    let _reader = crate::rcu::read();
    *SLEEPING.lock() += 1;
}

/// A reader on a CPU that says that it is in user mode.
fn rcu_away() {
    crate::sync::without_interrupts(|| {
        context::user_enter();
        drop(crate::rcu::read());
        context::user_exit();
    });
}

/// An interrupt comes on a CPU that left user mode and has not said so.
fn rcu_nested() {
    let came = alloc::sync::Arc::new(AtomicBool::new(false));
    let timer = crate::time::Timer::new({
        let came = came.clone();
        move || came.store(true, Ordering::Relaxed)
    });
    crate::sync::without_interrupts(|| {
        // Armed with interrupts off, so that its interrupt comes in what follows.
        timer.arm(crate::time::now_ns());
        context::user_enter();
        crate::arch::irq::local_enable();
        // A machine whose host is busy delivers it late.
        let end = crate::time::now_ns() + 5_000_000_000;
        while !came.load(Ordering::Relaxed) && crate::time::now_ns() < end {
            crate::arch::irq::spin_hint();
        }
        crate::arch::irq::local_disable();
        context::user_exit();
    });
}

/// A reader that takes two seconds, while another thread waits for a grace period.
fn rcu_stall() {
    crate::sched::spawn_kthread("lockdep_test", crate::rcu::synchronize);
    let _reader = crate::rcu::read();
    let end = crate::time::now_ns() + 2_000_000_000;
    while crate::time::now_ns() < end {
        crate::arch::irq::spin_hint();
    }
}
