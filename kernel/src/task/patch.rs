//! Which threads have changed over while a live patch comes or goes (`livepatch`). A thread does so on its
//! way to user mode, an idle one in its loop, and one that is asleep where none of the functions is on its
//! stack that the patch replaces. Until then it calls the functions that it called before.

use super::Task;
use super::pid::all_tasks;
use crate::rcu;
use crate::sched::inspect::{each_idle_stack_word, each_stack_word, never_started};
use crate::sched::leaving::each_leaving;
use crate::sched::{TaskState, current, each_kernel_thread, on_each_cpu, online, preempt, wake_task};
use crate::sync::{Mutex, without_preemption};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicI8, fence};
use limen_entry::ThreadFlags;

/// `KLP_TRANSITION_IDLE`: no live patch comes or goes.
pub const UNDEFINED: i8 = -1;
/// `KLP_TRANSITION_UNPATCHED`.
pub const UNPATCHED: i8 = 0;
/// `KLP_TRANSITION_PATCHED`.
pub const PATCHED: i8 = 1;

/// What threads change over to.
static TARGET: AtomicI8 = AtomicI8::new(UNDEFINED);
/// Whether a patch comes or goes.
static ACTIVE: AtomicBool = AtomicBool::new(false);
/// Held while all threads are walked, while a new one is told, and while one gets another number.
static WALKING: Mutex<()> = Mutex::new(());

/// Calls `f` with all threads that may execute something, idle ones as well. With some it is called twice. It
/// does not sleep.
fn each(mut f: impl FnMut(&Task)) {
    all_tasks().for_each(|task| f(&task));
    // Comes later: who ends is here before its number is given back.
    each_leaving(&mut f);
    each_kernel_thread(f);
}

/// The state of a thread, as `/proc/<pid>/patch_state` shows it.
pub fn state(task: &Task) -> i8 {
    task.info.patch_state.load(Relaxed)
}

fn change(task: &Task) {
    task.info.work.clear(ThreadFlags::PATCH_PENDING);
    task.info.patch_state.store(TARGET.load(Acquire), Release);
}

/// The running thread is where it is in none of the functions: on its way to user mode, or in the idle loop.
pub fn change_over() {
    without_preemption(|| {
        let info = preempt::current_info();
        let before = info.work.clear(ThreadFlags::PATCH_PENDING);
        if before.contains(ThreadFlags::PATCH_PENDING) {
            info.patch_state.store(TARGET.load(Acquire), Release);
        }
    });
}

/// `child`, which can be found by now and has not started, is as its maker is, the running thread. May sleep.
pub fn inherit(child: &Task) {
    // Either this sees that a patch comes, or who lets it come finds the child.
    fence(SeqCst);
    if !ACTIVE.load(SeqCst) {
        return;
    }
    let _walking = WALKING.lock();
    if ACTIVE.load(SeqCst) {
        let maker = current();
        child.info.patch_state.store(state(&maker), Release);
        // Not before the others may: the patch could still fail to come.
        if maker.info.work.has(ThreadFlags::PATCH_PENDING) {
            child.info.work.set(ThreadFlags::PATCH_PENDING);
        }
    }
}

/// Runs `f`, in which the running thread, that stays, gets another number: a walk goes by number, and would
/// miss it where it comes from and where it goes to. May sleep.
pub(super) fn unwalked<R>(f: impl FnOnce() -> R) -> R {
    let _walking = WALKING.lock();
    f()
}

/// Threads will change over to `target`. None of them has. May sleep.
pub fn begin(target: i8) {
    TARGET.store(target, Release);
    ACTIVE.store(true, SeqCst);
    fence(SeqCst);
    let _walking = WALKING.lock();
    let other = if target == PATCHED { UNPATCHED } else { PATCHED };
    each(|task| task.info.patch_state.store(other, Release));
}

/// They may do so from now on. May sleep.
pub fn start() {
    {
        let _walking = WALKING.lock();
        let target = TARGET.load(Acquire);
        each(|task| {
            if state(task) != target {
                task.info.work.set(ThreadFlags::PATCH_PENDING);
            }
        });
    }
    // Who is in user mode, or idle, comes by.
    on_each_cpu(online(), &|| ());
}

/// They go back: those that have changed over change to `target` again. [`start`] follows. May sleep.
pub fn turn_back(target: i8) {
    let _walking = WALKING.lock();
    each(|task| {
        task.info.work.clear(ThreadFlags::PATCH_PENDING);
    });
    // Nobody is about to change over to the former target.
    rcu::synchronize();
    TARGET.store(target, Release);
}

/// Changes all over that are asleep, or idle, and have no word on their stack for which `is_inside` holds.
/// Whether all threads have changed over now. May sleep.
pub fn try_all(is_inside: &(impl Fn(usize) -> bool + Sync)) -> bool {
    let _walking = WALKING.lock();
    let target = TARGET.load(Acquire);
    // An idle thread that does not run may do so at any time, but not while its CPU does this.
    on_each_cpu(online(), &|| {
        each_idle_stack_word(|word| !is_inside(word), change);
    });
    let me = current().tid();
    let mut all = true;
    each(|task| {
        if state(task) == target {
            return;
        }
        let is_own = task.tid() == me && core::ptr::eq(task, &raw const **current());
        if is_own && task.mm().is_none() || never_started(task) {
            // A thread of the kernel calls this where it is in no other function.
            change(task);
        } else if !each_stack_word(task, |word| !is_inside(word), || change(task)) {
            all = false;
        }
    });
    all
}

/// All change over at once, wherever they are. May sleep.
pub fn force() {
    let _walking = WALKING.lock();
    each(change);
}

/// Those that have not changed over and are asleep are woken, as by a signal that is none, so that they come
/// by user mode. May sleep.
pub fn signal() {
    let target = TARGET.load(Acquire);
    all_tasks().filter(|task| state(task) != target).for_each(|task| {
        task.info.work.set(ThreadFlags::NOTIFY_SIGNAL);
        wake_task(&task, TaskState::INTERRUPTIBLE);
    });
    on_each_cpu(online(), &|| ());
}

/// All have changed over, and no function looks at that any more. May sleep.
pub fn end() {
    ACTIVE.store(false, SeqCst);
    let _walking = WALKING.lock();
    each(|task| {
        task.info.work.clear(ThreadFlags::PATCH_PENDING);
        task.info.patch_state.store(UNDEFINED, Release);
    });
}
