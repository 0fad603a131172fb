//! Time-slice extensions: a thread that is about to be preempted may go on for some microseconds if its area
//! asks for it.

use super::{Thread, stats};
use crate::arch::frame::Frame;
use crate::arch::irq;
use crate::mm::user::UserPtr;
use crate::sched;
use crate::sync::Once;
use crate::task::{Task, current};
use crate::time::{Timer, now_ns};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use limen_entry::{Frame as _, SyscallWork, ThreadFlags};
use limen_linux_abi::{Errno, SysResult, sysno::RSEQ_SLICE_YIELD};
use limen_rseq::slice::{self, Control, Decision, LENGTH_NS, Machine, State};
use limen_rseq::{Event, Fault, Mode, SLICE_EXT_AVAILABLE, SLICE_EXT_ENABLED, Stop, field};

/// Linux's error where time-slice extensions are not available (`ENOTSUPP`).
const NOT_SUPPORTED: Errno = Errno::new(524);

/// Whether extensions are available (`rseq_slice_ext=`).
static AVAILABLE: AtomicBool = AtomicBool::new(true);
/// How long an extension is, nanoseconds.
pub static LENGTH: AtomicU32 = AtomicU32::new(LENGTH_NS.2);

/// Reads the command line.
pub fn init() {
    if let Some(on) = crate::cmdline::value("rseq_slice_ext").and_then(super::switch) {
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

/// The `flags` of a new area, and whether extensions are on for its thread.
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

/// Turns extensions on or off for a thread to which none is granted.
pub fn set(thread: &Thread, enabled: bool) {
    thread.slice.store(if enabled { ENABLED } else { 0 }, Relaxed);
}

/// Whether extensions are on for a thread.
pub fn is_enabled(thread: &Thread) -> bool {
    thread.slice.load(Relaxed) & ENABLED != 0
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

/// The time of an extension is over. Called in the timer interrupt of the CPU on which it was granted.
fn expired() {
    let task = current();
    if slice::over(&Running(&task)) {
        let counts = &sched::this_cpu().rseq;
        counts.expired.add();
        counts.revoked.add();
        task.info.work.set(ThreadFlags::NEED_RESCHED);
    }
}

/// The running thread, as `limen_rseq::slice` uses it.
struct Running<'a>(&'a Task);

impl Machine for Running<'_> {
    #[inline(always)]
    fn state(&self) -> State {
        state(self.0.rseq.slice.load(Relaxed))
    }
    fn set_state(&self, state: State) {
        self.0.rseq.slice.store(bits(state), Relaxed);
    }
    fn control(&self) -> Result<Control, Fault> {
        let said = control(self.0.rseq.told.at()).read();
        said.map(Control).map_err(|_| Fault)
    }
    fn set_control(&self, said: Control) -> Result<(), Fault> {
        let written = control(self.0.rseq.told.at()).write(said.0);
        written.map_err(|_| Fault)
    }
    fn tell_over(&self) {
        self.0.rseq.add(Event::SLICE);
        self.0.info.work.set(ThreadFlags::RSEQ);
    }
    fn is_to_be_told(&self) -> bool {
        self.0.rseq.event().contains(Event::SLICE)
    }
    fn may_wait(&self) -> bool {
        self.0.info.work.flags().may_put_off()
    }
    fn puts_off(&self) {
        self.0.info.work.clear(ThreadFlags::NEED_RESCHED_LAZY);
    }
    fn arm(&self) -> bool {
        let timer = TIMERS[sched::this_cpu().id].get();
        if let Some(timer) = timer {
            timer.arm(now_ns() + u64::from(LENGTH.load(Relaxed)));
        }
        timer.is_some()
    }
    fn watch_calls(&self, on: bool) {
        let work = &self.0.info.work;
        if on {
            work.set_syscall_work(SyscallWork::RSEQ_SLICE);
        } else {
            work.clear_syscall_work(SyscallWork::RSEQ_SLICE);
        }
    }
    fn irqs_on(&self) {
        irq::local_enable();
    }
    fn irqs_off(&self) {
        irq::local_disable();
    }
}

/// The running thread was interrupted in user mode and has only a preemption to do, which can wait. Whether
/// the thread goes on. Interrupts are off, but may be on in between.
#[inline(always)]
pub fn grant() -> bool {
    let task = current();
    task.rseq.slice.load(Relaxed) & (ENABLED | GRANTED) != 0 && decide(&task)
}

#[cold]
#[inline(never)]
fn decide(task: &Task) -> bool {
    let thread = &task.rseq;
    let had = thread.slice.load(Relaxed) & GRANTED != 0;
    // A thread of real-time priority has a lazy reschedule only if another of the same priority waits, which
    // should not have to wait longer.
    if !had && sched::policy::effective_priority(task) != 0 {
        return false;
    }
    let decision = slice::preempting(&Running(task));
    let counts = &sched::this_cpu().rseq;
    if had {
        counts.revoked.add();
    }
    match decision {
        Decision::GoOn => {
            counts.granted.add();
            thread.counts.grants.add();
        }
        Decision::Schedule => {}
        Decision::Kill => {
            irq::local_enable();
            unreachable(task);
            irq::local_disable();
        }
    }
    decision == Decision::GoOn
}

/// The running thread's area cannot be accessed.
fn unreachable(task: &Task) {
    if let Some(area) = task.rseq.area() {
        super::kill(task, &area, Stop::Fault);
    }
}

/// The running thread was switched away from, or its area goes away: ends its extension, if one was granted.
/// Interrupts are off.
#[inline(always)]
pub fn ends(task: &Task) {
    if task.rseq.slice.load(Relaxed) & GRANTED != 0 && slice::over(&Running(task)) {
        sched::this_cpu().rseq.revoked.add();
    }
}

/// Writes to the area that no extension is granted.
pub fn clear(at: usize) -> Result<(), Errno> {
    control(at).write(0)
}

/// A thread that may have an extension makes a system call, which ends the extension.
pub fn ended_by_call(frame: &Frame) {
    let task = current();
    let yields = frame.syscall_number() == RSEQ_SLICE_YIELD as isize;
    let Some(decision) = slice::call(&Running(&task), yields) else {
        return;
    };
    stats::count(|counts| if yields { &counts.yielded } else { &counts.aborted });
    if decision == Decision::Kill {
        unreachable(&task);
    }
    // If the timer is still armed, it finds no extension to end.
    sched::schedule();
}

/// The system call `rseq_slice_yield`.
pub fn yielded() -> usize {
    let thread = &current().rseq;
    let mut now = state(thread.slice.load(Relaxed));
    let yielded = now.take_yielded();
    thread.slice.store(bits(now), Relaxed);
    yielded.into()
}

/// `prctl(PR_RSEQ_SLICE_EXTENSION, ...)`.
pub fn prctl(operation: usize, argument: usize, rest: [usize; 2]) -> SysResult {
    const GET: usize = 1;
    const SET: usize = 2;
    const ENABLE: usize = 1;
    if rest != [0; 2] {
        return Err(Errno::EINVAL);
    }
    let task = current();
    let thread = &task.rseq;
    let enabled = is_enabled(thread);
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
