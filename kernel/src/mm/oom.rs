//! What happens when memory runs out: caches are given back first, then the process that uses most is killed
//! (`task::oom`).

use super::{frame, heap, linear, stack, vmap};
use crate::arch::irq;
use crate::sched::preempt;
use crate::sync::Once;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use limen_entry::ThreadFlags;
use limen_linux_abi::Errno;

/// What memory asks of the processes that use it.
pub trait Users: Sync {
    /// Whether a process that was chosen by [`Users::kill_largest`] still has its memory.
    fn is_one_dying(&self) -> bool;
    /// Kills the process that uses most, as far as it may be killed.
    fn kill_largest(&self);
    /// Kills the running process, which cannot go on without memory that cannot be had.
    fn kill_current(&self);
    /// The running thread made an access to `addr` that cannot be made possible: sends it the signal. Not for
    /// [`super::FaultError::NoMemory`].
    fn bad_access(&self, addr: usize, error: super::FaultError);
}

static USERS: Once<&'static dyn Users> = Once::new();

/// There are processes from now on.
pub fn set_users(users: &'static dyn Users) {
    let _ = USERS.set(users);
}

/// The processes.
pub(super) fn users() -> &'static dyn Users {
    match USERS.get() {
        Some(users) => *users,
        None => panic!("Out of memory before there are processes"),
    }
}

/// No memory could be freed, and the running task is being killed itself.
#[derive(Clone, Copy, Debug)]
pub struct OutOfMemory;

/// Whether the running task is being killed, by the OOM killer or otherwise, and may use part of the reserve.
pub fn is_dying() -> bool {
    let task = crate::sched::current();
    task.info.work.has(ThreadFlags::MEMDIE) || task.fatal_signal_pending()
}

/// How long to wait for callbacks after a grace period, nanoseconds.
const CALLBACKS: u64 = 5_000_000;

/// Gives caches back, and what waits for a grace period. Returns whether there is enough memory then.
fn reclaim() -> bool {
    if preempt::count() == 0 && irq::enabled() {
        crate::rcu::hasten(CALLBACKS);
    }
    stack::trim(0);
    vmap::purge();
    heap::drain_local();
    frame::drain_local();
    if !frame::is_enough() && preempt::count() == 0 && irq::enabled() {
        crate::sched::on_each_cpu(crate::sched::online(), &|| {
            heap::drain_local();
            frame::drain_local();
        });
    }
    frame::is_enough()
}

/// The task (its address) that is looking for memory. Only one task does so at a time, and what it allocates
/// meanwhile must not make it begin again.
static SEEKER: AtomicUsize = AtomicUsize::new(0);

/// A user page could not be allocated: makes room, or reports that the running task is to be killed. Sleeps.
pub fn make_room() -> Result<(), OutOfMemory> {
    if preempt::count() != 0 || !irq::enabled() {
        return Err(OutOfMemory);
    }
    let me = Arc::as_ptr(&crate::sched::current()) as usize;
    match SEEKER.compare_exchange(0, me, Acquire, Relaxed) {
        Ok(_) => {
            let result = seek();
            SEEKER.store(0, Release);
            result
        }
        Err(seeker) if seeker == me => Err(OutOfMemory),
        Err(_) if is_dying() => Err(OutOfMemory),
        Err(_) => {
            pause(1_000_000);
            Ok(())
        }
    }
}

fn seek() -> Result<(), OutOfMemory> {
    if reclaim() {
        return Ok(());
    }
    if is_dying() {
        return Err(OutOfMemory);
    }
    // A victim that has not ended yet will free memory soon: wait for it before killing another process.
    if users().is_one_dying() {
        for _ in 0..50 {
            pause(2_000_000);
            if reclaim() || is_dying() {
                return if is_dying() { Err(OutOfMemory) } else { Ok(()) };
            }
            if !users().is_one_dying() {
                break;
            }
        }
    }
    users().kill_largest();
    if is_dying() {
        return Err(OutOfMemory);
    }
    pause(1_000_000);
    Ok(())
}

/// Lets other threads run for `ns` nanoseconds. Signals do not end it.
fn pause(ns: u64) {
    let until = crate::arch::time::now_ns() + ns;
    while crate::arch::time::now_ns() < until {
        crate::sched::yield_now();
    }
}

/// Before a program is given something that takes much of the kernel's memory (a process). Makes room unless
/// more than the reserve is free, or the caller is being killed. `ENOMEM`. May sleep.
pub fn ensure() -> Result<(), Errno> {
    if frame::free_in_buddy() > frame::reserve() || is_dying() {
        return Ok(());
    }
    make_room().map_err(|_| Errno::ENOMEM)
}

/// The heap had to use the reserve. A task that may sleep makes room before it takes more. One that may not
/// does so on its way to user mode. So a program cannot use the reserve up through code that may not sleep.
#[cold]
pub(super) fn heap_is_low() {
    if preempt::count() != 0 || !irq::enabled() {
        preempt::current_info().work.set(ThreadFlags::NOTIFY_RESUME);
        return;
    }
    let task = crate::sched::current();
    let me = Arc::as_ptr(&task) as usize;
    if task.is_kernel_thread() || is_dying() || SEEKER.load(Relaxed) == me {
        return;
    }
    let _ = make_room();
}

/// On the way to user mode, if `NOTIFY_RESUME` was set for it: makes up for what was freed, or taken from the
/// reserve, by code that may not sleep.
pub fn before_user() {
    vmap::before_user();
    linear::merge_put_off();
    if frame::free_in_buddy() <= frame::reserve() / 2 {
        heap_is_low();
    }
}
