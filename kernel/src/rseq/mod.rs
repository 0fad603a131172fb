//! Restartable sequences (`docs/rseq.md`): the state of each thread, and the hooks that other rooms call.
//! What to do is decided by `limen_rseq`. An *area* is a thread's registered `struct rseq`. It is *legacy* if
//! it has the original 32 bytes; a longer one is *optimised*.
//!
//! A thread's state is changed only by the thread itself, on the CPU on which it runs, or by an interrupt on
//! that CPU. Nothing is noted when the thread enters the kernel or is switched away from. When it runs again,
//! it compares ([`resumed`]), and its way out to user mode does the rest ([`exit`]).

#![forbid(unsafe_code)]

mod cid;
mod life;
mod memory;
mod slice;
mod stats;
mod watch;

pub use life::{ends, first_return, forget, fork, register};
pub use slice::{LENGTH as SLICE_LENGTH, ended_by_call, grant, prctl, yielded};
pub use stats::{Counts, NAMES, Sums, ThreadCounts};
pub use watch::{COUNT, DEBUG, init, set_watch, switch, watch};

use crate::arch::frame::Frame;
use crate::arch::{mmu::USER_END, smp};
use crate::mm::{AddressSpace, Told};
use crate::sched::{self, CpuSet};
use crate::signal;
use crate::task::{CurrentTask, Task, current};
use crate::tracepoint;
use alloc::sync::Arc;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use limen_entry::{Cause, ThreadFlags};
use limen_linux_abi::Errno;
use limen_rseq::cid::Own;
use limen_rseq::{Area, CPU_ID_UNINITIALISED, Done, Event, Fatal, Ids, Mode, Said, Stop, Work, update};
use memory::{Place, User};

/// A thread's state for restartable sequences.
#[repr(C)]
pub struct Thread {
    /// The area's address, and what the kernel wrote to the area last: the CPU twice, the node, the
    /// concurrency id.
    told: Told,
    len: AtomicU32,
    signature: AtomicU32,
    /// [`Event`]'s bits.
    event: AtomicU32,
    /// The CPU that was written to the area last, if the area is legacy; else
    /// [`limen_rseq::CPU_ID_UNINITIALISED`]. So [`resumed`] needs one comparison only.
    legacy_cpu: AtomicU32,
    /// Its concurrency id ([`Own`], see `cid`).
    own_cid: AtomicU32,
    /// Its time-slice extension (see `slice`).
    slice: AtomicU32,
    /// The CPU and the concurrency id that the kernel was writing to the area when an access faulted
    /// ([`Event::TRIED`]): the area may say them or not.
    tried: [AtomicU32; 2],
    /// Its counters.
    pub counts: stats::ThreadCounts,
}

impl Thread {
    /// Of a thread without an area.
    pub const fn new() -> Self {
        Self {
            told: Told::new(),
            len: AtomicU32::new(0),
            signature: AtomicU32::new(0),
            event: AtomicU32::new(0),
            legacy_cpu: AtomicU32::new(CPU_ID_UNINITIALISED),
            own_cid: AtomicU32::new(Own::NONE.0),
            slice: AtomicU32::new(0),
            tried: [const { AtomicU32::new(0) }; 2],
            counts: stats::ThreadCounts::new(),
        }
    }

    /// Whether the thread has registered an area.
    #[inline(always)]
    pub fn is_registered(&self) -> bool {
        self.told.at() != 0
    }

    /// The registered area.
    #[inline(always)]
    pub fn area(&self) -> Option<Area> {
        self.told.place().map(|at| self.area_at(at))
    }
    #[inline(always)]
    fn area_at(&self, at: Place) -> Area {
        Area {
            at: at.addr(),
            len: self.len.load(Relaxed),
            signature: self.signature.load(Relaxed),
        }
    }

    /// Registers the area at `at`, to which `ids` were written.
    fn set_area(&self, at: Place, area: Area, ids: Ids) {
        self.len.store(area.len, Relaxed);
        self.signature.store(area.signature, Relaxed);
        self.told.set_at(Some(at));
        self.set_told(ids);
    }

    fn event(&self) -> Event {
        Event::from_bits_retain(self.event.load(Relaxed))
    }

    #[inline(always)]
    fn add(&self, event: Event) {
        self.event.store(self.event.load(Relaxed) | event.bits(), Relaxed);
    }

    #[inline(always)]
    fn told(&self) -> Ids {
        Ids {
            cpu: self.told.word::<0>(),
            node: self.told.word::<2>(),
            cid: self.told.word::<3>(),
        }
    }

    fn tried(&self) -> Ids {
        Ids {
            cpu: self.tried[0].load(Relaxed),
            node: NODE,
            cid: self.tried[1].load(Relaxed),
        }
    }

    #[cold]
    fn set_tried(&self, ids: Ids) {
        self.tried[0].store(ids.cpu, Relaxed);
        self.tried[1].store(ids.cid, Relaxed);
    }

    fn set_told(&self, ids: Ids) {
        self.told.set_words([ids.cpu, ids.cpu, ids.node, ids.cid]);
        let legacy = self.area().is_some_and(|area| area.mode() == Mode::Legacy);
        let cpu = if legacy { ids.cpu } else { CPU_ID_UNINITIALISED };
        self.legacy_cpu.store(cpu, Relaxed);
    }
}

/// An offset in `Task` from which the state below is in reach of instructions with short offsets: 0, unless
/// the lock validator's state makes the start of `Task` large.
const NEAR: usize = if offset_of!(Task, rseq) < 128 {
    0
} else {
    offset_of!(Task, rseq)
};
/// The offset, from there, of the area's address.
const AREA_AT: usize = offset_of!(Task, rseq) + offset_of!(Thread, told) - NEAR;
/// The offset, from there, of what was written to the area: four words of 32 bits.
const TOLD: usize = AREA_AT + size_of::<usize>();

/// Whether the running thread's legacy area still says what the kernel wrote, and has no critical section.
/// Also `false` if the area cannot be read without a fault.
#[inline(always)]
fn is_as_told(task: &Task) -> bool {
    task.rseq.told.is_said::<Task, NEAR, AREA_AT, TOLD>(task)
}

/// There is a single NUMA node.
const NODE: u32 = 0;

/// What the running thread's area should say. A fault if no concurrency id is free now.
#[inline(always)]
fn ids_now(task: &Task) -> Result<Ids, Stop> {
    let cpu = smp::cpu_id();
    let cid = cid::of(task, cpu).ok_or(Stop::Fault)?;
    Ok(Ids {
        cpu: cpu as u32,
        node: NODE,
        cid,
    })
}

fn by_exception(cause: Cause) -> bool {
    cause == Cause::Exception
}

/// The running thread, which has an area or is about to register one, was switched to. Interrupts are off.
#[inline(always)]
pub fn resumed() {
    let task = current();
    let rseq = &task.rseq;
    // Nearly always: today's C libraries register legacy areas, and the thread is on the same CPU.
    if rseq.legacy_cpu.load(Relaxed) == smp::cpu_id() as u32 {
        task.info.work.set_own(ThreadFlags::RSEQ_AGAIN);
    } else {
        resumed_with_area(&task);
    }
}

#[inline(never)]
fn resumed_with_area(task: &Task) {
    let rseq = &task.rseq;
    let Some(area) = rseq.area() else { return };
    let mode = area.mode();
    let migrated = rseq.told.word::<0>() != smp::cpu_id() as u32;
    let user_irq = mode == Mode::Optimised && current().was_interrupted();
    slice::ends(task);
    if let Some(event) = Event::resumed(mode, migrated, user_irq) {
        rseq.add(event);
        task.info.work.set(ThreadFlags::RSEQ);
    }
}

/// The last step of the way out to user mode if [`ThreadFlags::RSEQ_AGAIN`] is the only flag. Interrupts are
/// off. `true`, nearly always: the legacy area still says what the kernel wrote and has no critical section.
/// `false`: [`exit`] must do the work.
#[inline(always)]
pub fn exit_again() -> bool {
    let task = current();
    let done = is_as_told(&task);
    if done {
        task.info.work.clear_own(ThreadFlags::RSEQ_AGAIN);
        task.rseq.counts.again.add();
    }
    done
}

/// The last step of the way out to user mode. Interrupts are off. `false`: an access to the area faulted, and
/// [`resume`] must do the work.
#[inline(never)]
pub fn exit(frame: &mut Frame, cause: Cause) -> bool {
    let task = current();
    let rseq = &task.rseq;
    if task
        .info
        .work
        .clear(ThreadFlags::ANY_RSEQ)
        .contains(ThreadFlags::RSEQ_AGAIN)
    {
        rseq.add(Event::ALL);
    }
    let outdated = cid::at_exit(&task);
    if !outdated.is_empty() {
        rseq.add(outdated);
    }
    let watch = watch();
    if watch != 0 {
        task.info.work.set_own(ThreadFlags::RSEQ);
        if watch & COUNT != 0 {
            sched::this_cpu().rseq.exits.add();
        }
        if watch & DEBUG != 0 && cause == Cause::Syscall && in_section(&task, frame) {
            rseq.add(Event::SLOW | Event::IN_CALL);
            return false;
        }
    }
    let event = rseq.event();
    let Some(area) = rseq.area() else { return true };
    let user_irq = by_exception(cause);
    let work = event.at_exit(area.mode(), user_irq);
    if work.any() {
        let told = rseq.told();
        let mut done = Done::default();
        let result = ids_now(&task).and_then(|ids| {
            let result = run(&area, work, ids, [told; 2], frame.ip(), &mut done);
            match done.said {
                Said::Before => {}
                // Noted even if another access faulted: until that one succeeds, the thread may move to
                // another CPU and the area get other ids.
                Said::New => cid::tell(rseq, ids),
                Said::Either => rseq.set_tried(ids),
            }
            result
        });
        if let Err(why) = result {
            return fails(&task, event.failed(user_irq, why, &done), &done);
        }
        sched::this_cpu().rseq.fast.add();
        finish(&task, frame, &done, event, Asked::AtExit(user_irq));
    }
    if event.contains(Event::SLICE) && slice::clear(area.at).is_err() {
        rseq.event.store((Event::SLICE | Event::SLOW).bits(), Relaxed);
        return false;
    }
    rseq.event.store(0, Relaxed);
    true
}

/// Notes `event`, with which [`resume`] does the work of [`exit`] again where sleeping is allowed.
#[cold]
#[inline(never)]
fn fails(task: &Task, event: Event, done: &Done) -> bool {
    task.rseq.event.store(event.bits(), Relaxed);
    if done.wrote_ids {
        sched::this_cpu().rseq.ids.add();
        task.rseq.counts.ids.add();
    }
    false
}

/// Debug mode: whether a thread on its way out of a system call is in a critical section.
#[cold]
fn in_section(task: &Task, frame: &Frame) -> bool {
    let Some(area) = task.rseq.area() else {
        return false;
    };
    update::inside(&mut User, &area, frame.ip(), USER_END)
}

/// The notify-resume work of a thread whose area faulted in [`exit`]. Interrupts are on; may sleep.
#[inline(always)]
pub fn resume(frame: &mut Frame) {
    if current().rseq.event().contains(Event::SLOW) {
        resume_slowly(frame);
    }
}

#[cold]
#[inline(never)]
fn resume_slowly(frame: &mut Frame) {
    let task = current();
    let rseq = &task.rseq;
    let event = Event::from_bits_retain(rseq.event.swap(0, Relaxed));
    let Some(area) = rseq.area() else { return };
    stats::count(|counts| &counts.slow);
    // Comes first: a thread that is killed below may run a handler.
    if event.contains(Event::SLICE) && slice::clear(area.at).is_err() {
        return kill(&task, &area, Stop::Fault);
    }
    if event.contains(Event::BROKEN) {
        return kill(&task, &area, Stop::Fatal(Fatal::ReadOnly));
    }
    if event.contains(Event::IN_CALL) {
        return kill(&task, &area, Stop::Fatal(Fatal::Syscall));
    }
    let tried = event.contains(Event::TRIED).then(|| rseq.tried());
    match run_slowly(&task, &area, event.at_exit(area.mode(), false), tried, frame.ip()) {
        Ok(done) => finish(&task, frame, &done, event, Asked::AtExit(false)),
        Err(stop) => kill(&task, &area, stop),
    }
}

/// The running thread, which has a legacy area, is about to take a signal. Whether [`before_handler`] would
/// have nothing to do. Interrupts may be off.
#[inline(always)]
pub fn is_settled(task: &CurrentTask) -> bool {
    // Counted before the check, which leaves the compiler fewer registers.
    task.rseq.counts.looks.add();
    // If the thread moves to another CPU after this, its way out writes the ids.
    let settled = is_as_told(task);
    if !settled {
        task.rseq.counts.looks.take_back();
    }
    settled
}

/// The running thread, which has an area, is about to enter a signal handler. The handler must not be taken
/// for a part of the interrupted critical section, so that is aborted, and the area must say the right ids.
/// Interrupts are on.
#[cold]
#[inline(never)]
pub fn before_handler(task: &CurrentTask, frame: &mut Frame, cause: Cause) -> Result<(), Errno> {
    let Some(area) = task.rseq.area() else {
        return Ok(());
    };
    let work = Event::at_signal(area.mode(), by_exception(cause));
    if !work.any() {
        return Ok(());
    }
    stats::count(|counts| &counts.signal);
    match run_slowly(task, &area, work, None, frame.ip()) {
        Ok(done) => {
            finish(
                task,
                frame,
                &done,
                Event::empty(),
                Asked::BySignal(by_exception(cause)),
            );
            Ok(())
        }
        Err(stop) => {
            report(task, &area, stop);
            Err(Errno::EFAULT)
        }
    }
}

/// [`run`] where the thread may sleep and be moved to another CPU. `tried`: see [`Event::TRIED`].
fn run_slowly(task: &Task, area: &Area, work: Work, tried: Option<Ids>, ip: usize) -> Result<Done, Stop> {
    let told = task.rseq.told();
    let mut ids = told;
    if work.ids {
        loop {
            // CPU and concurrency id belong to the same moment. If the thread moves afterwards, [`resumed`]
            // must see that the CPU is not the noted one.
            match crate::sync::without_interrupts(|| ids_now(task).inspect(|now| cid::tell(&task.rseq, *now)))
            {
                Ok(now) => break ids = now,
                Err(_) => cid::prepare(task),
            }
        }
    }
    let mut done = Done::default();
    run(area, work, ids, [told, tried.unwrap_or(told)], ip, &mut done)?;
    Ok(done)
}

#[inline(always)]
fn run(area: &Area, work: Work, ids: Ids, last: [Ids; 2], ip: usize, done: &mut Done) -> Result<(), Stop> {
    let last = (area.mode() == Mode::Optimised).then_some(last);
    update::run(&mut User, area, work, (ids, last), (ip, USER_END), done)
}

/// Where the work was done, and whether the thread came from user mode by an interrupt, as far as `Event`
/// does not tell.
#[derive(Clone, Copy)]
enum Asked {
    AtExit(bool),
    BySignal(bool),
}

/// Counts what was done and, if a critical section was aborted, sets the thread's next instruction.
#[inline(always)]
fn finish(task: &Task, frame: &mut Frame, done: &Done, event: Event, asked: Asked) {
    let all = &sched::this_cpu().rseq;
    if done.wrote_ids {
        all.ids.add();
        task.rseq.counts.ids.add();
        tracepoint!(rseq::RseqUpdate {
            cpu_id: sched::this_cpu().id as i32
        });
    }
    if done.checked {
        all.checks.add();
        let (Asked::AtExit(user_irq) | Asked::BySignal(user_irq)) = asked;
        if !user_irq && watch::counting() {
            count_uninterrupted(task, event);
        }
        if done.cleared {
            all.clears.add();
        }
        if let Some(to) = done.abort {
            all.fixups.add();
            let signal = matches!(asked, Asked::BySignal(_));
            task.rseq.counts.aborted(event, signal);
            tracepoint!(rseq::RseqIpFixup {
                regs_ip: frame.ip(),
                start_ip: done.section.0,
                post_commit_offset: done.section.1,
                abort_ip: to,
            });
            frame.set_ip(to);
        }
    }
}

/// The area was checked for a critical section although the thread made a system call and `event` notes no
/// interrupt: counts that, as it should not happen.
#[cold]
#[inline(never)]
fn count_uninterrupted(task: &Task, event: Event) {
    let optimised = task
        .rseq
        .area()
        .is_some_and(|area| area.mode() == Mode::Optimised);
    if optimised && !event.contains(Event::USER_IRQ) {
        stats::count(|counts| &counts.uninterrupted);
    }
}

#[cold]
fn report(task: &Task, area: &Area, stop: Stop) {
    let fatal = match stop {
        Stop::Fault => Fatal::Unreachable,
        Stop::Fatal(fatal) => fatal,
    };
    let comm = task.comm();
    let comm = core::str::from_utf8(&comm).unwrap_or("?").trim_end_matches('\0');
    let (tid, at, reason) = (task.tid(), area.at, fatal.reason());
    match fatal {
        Fatal::Signature(found) => info!(
            "rseq: {comm}[{tid}]: {reason} {found:#010x}, not {:#010x}, area {at:#x}",
            area.signature
        ),
        _ => info!("rseq: {comm}[{tid}]: {reason}, area {at:#x}"),
    }
}

#[cold]
fn kill(task: &Task, area: &Area, stop: Stop) {
    report(task, area, stop);
    signal::force(signal::SIGSEGV, signal::SigInfo::kernel(signal::SIGSEGV));
}

/// For `membarrier`: aborts the critical sections of those threads of `mm` that run on one of `cpus`. When it
/// returns, they have been told. Interrupts are on.
pub fn abort_sections(cpus: CpuSet, mm: &Arc<AddressSpace>) {
    sched::on_each_cpu(cpus, &|| {
        let task = current();
        if let Some(area) = task.rseq.area()
            && task
                .mm_slot()
                .peek()
                .is_some_and(|own| core::ptr::eq(own, &raw const **mm))
        {
            task.rseq.add(Event::barrier(area.mode()));
            task.info.work.set(ThreadFlags::RSEQ);
        }
    });
}
