//! Time-slice extensions: a thread about to be preempted may go on for a few microseconds if it has asked for it.

use super::{Thread, stats};
use crate::arch::frame::Frame;
use crate::mm::user::UserPtr;
use crate::sched;
use crate::sync::{Once, without_preemption};
use crate::syscall::SysResult;
use crate::task::{Task, current};
use crate::time::{Timer, now_ns};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use limen_entry::{Frame as _, SyscallWork, ThreadFlags};
use limen_linux_abi::Errno;
use limen_rseq::slice::{Control, Decision, LENGTH_NS, State};
use limen_rseq::{Mode, SLICE_EXT_AVAILABLE, SLICE_EXT_ENABLED, field};

/// `rseq_slice_yield`'s number, the same in every ABI.
const NR_SLICE_YIELD: isize = 471;
/// What Linux answers where the feature is not to be had (`ENOTSUPP`).
const NOT_SUPPORTED: Errno = Errno::new(524);

/// Whether there are extensions at all (`rseq_slice_ext=`).
static AVAILABLE: AtomicBool = AtomicBool::new(true);
/// How long one is.
pub static LENGTH: AtomicU32 = AtomicU32::new(LENGTH_NS.2);

/// Reads the command line.
pub fn init() {
    if let Some(on) = crate::boot::cmdline::value("rseq_slice_ext").and_then(super::files::switch) {
        AVAILABLE.store(on, Relaxed);
    }
}

/// Bits of [`Thread::slice`].
const ENABLED: u32 = 1;
const GRANTED: u32 = 2;
const YIELDED: u32 = 4;

fn state(bits: u32) -> State {
    State {
        enabled: bits & ENABLED != 0,
        granted: bits & GRANTED != 0,
        yielded: bits & YIELDED != 0,
    }
}

fn bits(state: State) -> u32 {
    u32::from(state.enabled) * ENABLED
        + u32::from(state.granted) * GRANTED
        + u32::from(state.yielded) * YIELDED
}

/// What a new area's `flags` say, and whether extensions are on for it.
pub fn flags(mode: Mode, on: bool) -> (u32, bool) {
    if mode == Mode::Legacy || !AVAILABLE.load(Relaxed) {
        return (0, false);
    }
    if on {
        make_timers();
        (SLICE_EXT_AVAILABLE | SLICE_EXT_ENABLED, true)
    } else {
        (SLICE_EXT_AVAILABLE, false)
    }
}

/// Turns them on or off for a thread without one.
pub fn set(thread: &Thread, enabled: bool) {
    thread.slice.store(if enabled { ENABLED } else { 0 }, Relaxed);
}

fn control(at: usize) -> UserPtr<u32> {
    UserPtr::new(at + field::SLICE_CTRL)
}

/// The timers that end extensions, one for each CPU.
static TIMERS: [Once<Timer>; crate::sync::MAX_CPUS] = [const { Once::new() }; crate::sync::MAX_CPUS];

fn make_timers() {
    for cpu in sched::online().iter() {
        TIMERS[cpu].get_or_init(|| Timer::new(expired));
    }
}

/// An extension's time is up. In the interrupt of the CPU it was granted on.
fn expired() {
    let task = current();
    if task.rseq.slice.load(Relaxed) & GRANTED != 0 {
        sched::this_cpu().rseq.expired.add();
        task.info.work.set(ThreadFlags::NEED_RESCHED);
    }
}

/// The running thread, interrupted in user mode, is about to be preempted and has nothing else to do. Whether it goes on. Interrupts are on.
#[inline(always)]
pub fn grant() -> bool {
    let task = current();
    task.rseq.slice.load(Relaxed) & (ENABLED | GRANTED) != 0 && decide(&task)
}

#[cold]
#[inline(never)]
fn decide(task: &Task) -> bool {
    let thread = &task.rseq;
    let at = thread.at.load(Relaxed);
    if at == 0 {
        return false;
    }
    // Without preemption, so that nothing is waited for: what is not there asks for nothing.
    without_preemption(|| {
        let Ok(said) = control(at).read() else {
            return false;
        };
        let mut now = state(thread.slice.load(Relaxed));
        let decision = now.preempting(Control(said));
        let counts = &sched::this_cpu().rseq;
        let go_on = match decision {
            Decision::Grant => {
                if control(at).write(Control::grant().0).is_err() {
                    return false;
                }
                counts.granted.add();
                thread.counts.grants.add();
                task.info.work.clear(ThreadFlags::RESCHED);
                task.info.work.set_syscall_work(SyscallWork::RSEQ_SLICE);
                if let Some(timer) = TIMERS[sched::this_cpu().id].get() {
                    timer.arm(now_ns() + u64::from(LENGTH.load(Relaxed)));
                }
                true
            }
            Decision::Revoke => {
                counts.revoked.add();
                // If it is not there, nobody reads it before the way out has brought it back.
                let _ = control(at).write(0);
                task.info.work.clear_syscall_work(SyscallWork::RSEQ_SLICE);
                false
            }
            Decision::Preempt => false,
        };
        thread.slice.store(bits(now), Relaxed);
        go_on
    })
}

/// The thread runs again after a switch. Whether it had an extension, which user memory still says.
#[inline(always)]
pub fn switched(task: &Task) -> bool {
    if task.rseq.slice.load(Relaxed) & GRANTED == 0 {
        return false;
    }
    let mut now = state(task.rseq.slice.load(Relaxed));
    let had = now.switched();
    task.rseq.slice.store(bits(now), Relaxed);
    task.info.work.clear_syscall_work(SyscallWork::RSEQ_SLICE);
    had
}

/// Makes user memory say that there is no extension.
pub fn clear(at: usize) -> Result<(), Errno> {
    control(at).write(0)
}

/// A thread that may have an extension makes a system call: it has had it.
pub fn ended_by_call(frame: &Frame) {
    let task = current();
    let thread = &task.rseq;
    task.info.work.clear_syscall_work(SyscallWork::RSEQ_SLICE);
    let mut now = state(thread.slice.load(Relaxed));
    let yields = frame.syscall_number() == NR_SLICE_YIELD;
    if !now.syscall(yields) {
        return;
    }
    thread.slice.store(bits(now), Relaxed);
    stats::count(|counts| if yields { &counts.yielded } else { &counts.aborted });
    if clear(thread.at.load(Relaxed)).is_err() {
        crate::signal::force(
            crate::signal::SIGSEGV,
            crate::signal::SigInfo::kernel(crate::signal::SIGSEGV),
        );
    }
    // A timer still armed finds nothing to end.
    sched::schedule();
}

/// `rseq_slice_yield`.
pub fn yielded() -> usize {
    let thread = &current().rseq;
    let mut now = state(thread.slice.load(Relaxed));
    let yielded = now.take_yielded();
    thread.slice.store(bits(now), Relaxed);
    yielded.into()
}

/// `PR_RSEQ_SLICE_EXTENSION`.
pub fn prctl(operation: usize, argument: usize, rest: [usize; 2]) -> SysResult {
    const GET: usize = 1;
    const SET: usize = 2;
    const ENABLE: usize = 1;
    if rest != [0; 2] {
        return Err(Errno::EINVAL);
    }
    let task = current();
    let thread = &task.rseq;
    let enabled = thread.slice.load(Relaxed) & ENABLED != 0;
    match operation {
        GET if argument != 0 => Err(Errno::EINVAL),
        GET => Ok(enabled.into()),
        SET if argument & !ENABLE != 0 => Err(Errno::EINVAL),
        SET => {
            if !AVAILABLE.load(Relaxed) {
                return Err(NOT_SUPPORTED);
            }
            let Some(area) = thread.area() else {
                return Err(Errno::ENXIO);
            };
            if area.mode() == Mode::Legacy {
                return Err(NOT_SUPPORTED);
            }
            let enable = argument & ENABLE != 0;
            if enable == enabled {
                return Ok(0);
            }
            let flags = SLICE_EXT_AVAILABLE | if enable { SLICE_EXT_ENABLED } else { 0 };
            UserPtr::<u32>::new(area.at + field::FLAGS).write(flags)?;
            if enable {
                make_timers();
            }
            set(thread, enable);
            Ok(0)
        }
        _ => Err(Errno::EINVAL),
    }
}
