//! Restartable sequences (`docs/rseq.md`): what a thread has, and the hooks that the rest of the kernel calls. Decisions are `limen_rseq`'s.
//!
//! A thread's record is its own: only the thread itself changes it, on the CPU it runs on, or an interrupt on that CPU. Nothing is noted when the
//! thread enters the kernel, and nothing while it is switched away: it looks for itself when it runs again ([`resumed`]), and its way out does the
//! rest ([`exit`]).

mod cid;
mod files;
mod memory;
mod slice;
mod stats;

pub use cid::Space;
pub use files::{init, show};
pub use slice::{ended_by_call, grant, prctl, yielded};
pub use stats::{Counts, ThreadCounts};

use crate::arch::frame::Frame;
use crate::arch::{mmu::USER_END, smp, uaccess};
use crate::mm::AddressSpace;
use crate::sched::{self, CpuSet};
use crate::signal::{self, Besides};
use crate::syscall::SysResult;
use crate::task::{CurrentTask, Task, current};
use alloc::sync::Arc;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use limen_entry::{Interrupted, ThreadFlags};
use limen_linux_abi::Errno;
use limen_rseq::{Action, Area, CPU_ID_UNINITIALISED, Event, Fatal, Ids, Mode, Stop, Work, register, update};
use memory::User;

/// What a thread has.
#[repr(C)]
pub struct Thread {
    /// The area's address, 0 for none.
    at: AtomicUsize,
    /// What the area was last told, as it lies in memory (`Ids::words`): the CPU twice, the node, the concurrency id.
    told: [AtomicU32; 4],
    len: AtomicU32,
    signature: AtomicU32,
    /// [`Event`]'s bits.
    event: AtomicU32,
    /// That CPU, if the area is a legacy one, and that is all there is to be known about it; else [`limen_rseq::CPU_ID_UNINITIALISED`].
    legacy_cpu: AtomicU32,
    /// Its own concurrency id: see `cid`.
    own_cid: AtomicU32,
    /// Its time-slice extension: see `slice`.
    slice: AtomicU32,
    /// What was done for it.
    pub counts: stats::ThreadCounts,
}

impl Thread {
    /// Nothing registered.
    pub const fn new() -> Self {
        Self {
            at: AtomicUsize::new(0),
            told: [const { AtomicU32::new(0) }; 4],
            len: AtomicU32::new(0),
            signature: AtomicU32::new(0),
            event: AtomicU32::new(0),
            legacy_cpu: AtomicU32::new(CPU_ID_UNINITIALISED),
            own_cid: AtomicU32::new(cid::NONE),
            slice: AtomicU32::new(0),
            counts: stats::ThreadCounts::new(),
        }
    }

    /// Whether it has an area.
    #[inline(always)]
    pub fn is_registered(&self) -> bool {
        self.at.load(Relaxed) != 0
    }

    /// Its area.
    #[inline(always)]
    pub fn area(&self) -> Option<Area> {
        let at = self.at.load(Relaxed);
        (at != 0).then(|| Area {
            at,
            len: self.len.load(Relaxed),
            signature: self.signature.load(Relaxed),
        })
    }

    /// Its new area, which was told `ids`.
    fn set_area(&self, area: Area, ids: Ids) {
        self.len.store(area.len, Relaxed);
        self.signature.store(area.signature, Relaxed);
        self.at.store(area.at, Relaxed);
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
            cpu: self.told[0].load(Relaxed),
            node: self.told[2].load(Relaxed),
            cid: self.told[3].load(Relaxed),
        }
    }

    fn set_told(&self, ids: Ids) {
        for (to, id) in self.told.iter().zip([ids.cpu, ids.cpu, ids.node, ids.cid]) {
            to.store(id, Relaxed);
        }
        let legacy = self.area().is_some_and(|area| area.mode() == Mode::Legacy);
        let cpu = if legacy { ids.cpu } else { CPU_ID_UNINITIALISED };
        self.legacy_cpu.store(cpu, Relaxed);
    }
}

/// A place in a `Task` from which instructions with a short offset reach the following: its start, unless lock validation has much to remember there.
const NEAR: usize = if offset_of!(Task, rseq) < 128 {
    0
} else {
    offset_of!(Task, rseq)
};
/// How far behind that place the address of the task's area is.
pub const AREA_AT: usize = offset_of!(Task, rseq) + offset_of!(Thread, at) - NEAR;
/// How far behind that place is what the area was told: four words of 32 bits.
pub const TOLD: usize = offset_of!(Task, rseq) + offset_of!(Thread, told) - NEAR;

/// Whether the area of the running thread, a legacy one, says what it was told, and no critical section. `false` as well if user memory is not there.
#[inline(always)]
fn is_as_told(task: &Task) -> bool {
    // SAFETY: a place in the task. A registered area lies in user memory. Only the running thread, or an interrupt on its CPU, writes what was told.
    unsafe { uaccess::rseq_says((&raw const *task).byte_add(NEAR).cast()) }
}

/// There is one memory node.
const NODE: u32 = 0;

/// What the area of the running thread should say; a fault if there is no concurrency id to be had right now.
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

/// The running thread's area is gone, by its own doing or with its memory (exec, exit).
pub fn forget(task: &Task) {
    let rseq = &task.rseq;
    if !rseq.is_registered() {
        return;
    }
    set_hooks(task, None);
    rseq.at.store(0, Relaxed);
    rseq.legacy_cpu.store(CPU_ID_UNINITIALISED, Relaxed);
    rseq.event.store(0, Relaxed);
    slice::switched(task);
    slice::set(rseq, false);
    cid::give_back(task);
}

/// The running thread ends: forgets, and leaves its counts to its process.
pub fn ends(task: &Task) {
    forget(task);
    task.process.rseq.inherit(&task.rseq.counts);
}

/// Whether [`resumed`], [`is_settled`] and [`before_handler`] are called for the running thread: for one that has an area, of this kind.
fn set_hooks(task: &Task, area: Option<Mode>) {
    sched::entity::with_current_context(|context| context.resume.set(area.is_some()));
    let mut signals = task.signals.lock();
    signals
        .besides
        .set(Besides::LEGACY_RSEQ, area == Some(Mode::Legacy));
    signals.besides.set(Besides::RSEQ, area == Some(Mode::Optimised));
}

fn by_exception(interrupted: Interrupted) -> bool {
    interrupted == Interrupted::ByException
}

/// The running thread, which has an area or is about to have one, runs again after a switch. Interrupts are off.
#[inline(always)]
pub fn resumed() {
    let task = current();
    let rseq = &task.rseq;
    // Nearly always with the C libraries of today.
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
    let migrated = rseq.told[0].load(Relaxed) != smp::cpu_id() as u32;
    let user_irq = mode == Mode::Optimised && current().was_interrupted();
    let mut event = Event::resumed(mode, migrated, user_irq).unwrap_or_default();
    if slice::switched(task) {
        event |= Event::SLICE;
    }
    if !event.is_empty() {
        rseq.add(event);
        task.info.work.set(ThreadFlags::RSEQ);
    }
}

/// The last work of the way out to user mode where all there is to do is to tell a legacy area what it was told before, interrupts off: whether it
/// says so already, as nearly always, and no critical section. `false`: [`exit`] must look.
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

/// The last work of the way out to user mode, interrupts off. `false`: user memory was not there, [`resume`] must do it.
#[inline(never)]
pub fn exit(frame: &mut Frame, interrupted: Interrupted) -> bool {
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
    if cid::outdated(&task) {
        rseq.add(Event::ALL);
    }
    let watch = files::watch();
    if watch != 0 {
        task.info.work.set_own(ThreadFlags::RSEQ);
        if watch & files::COUNT != 0 {
            sched::this_cpu().rseq.exits.add();
        }
        if watch & files::DEBUG != 0 && interrupted == Interrupted::BySyscall && in_section(&task, frame) {
            rseq.add(Event::SLOW | Event::IN_CALL);
            return false;
        }
    }
    let event = rseq.event();
    let Some(area) = rseq.area() else { return true };
    let user_irq = by_exception(interrupted);
    let work = event.at_exit(area.mode(), user_irq);
    if work.any() {
        let told = rseq.told();
        let done = ids_now(&task).and_then(|ids| Ok((ids, run(&area, work, ids, told, frame.ip())?)));
        let (ids, done) = match done {
            Ok(done) => done,
            Err(why) => {
                rseq.event.store(event.failed(user_irq, why).bits(), Relaxed);
                return false;
            }
        };
        sched::this_cpu().rseq.fast.add();
        if work.ids {
            cid::tell(rseq, ids);
        }
        finish(&task, frame, &done, event, Asked::AtExit(user_irq));
    }
    if event.contains(Event::SLICE) && slice::clear(area.at).is_err() {
        rseq.event.store((Event::SLICE | Event::SLOW).bits(), Relaxed);
        return false;
    }
    rseq.event.store(0, Relaxed);
    true
}

/// Debug mode: whether a thread on its way out of a system call is inside a critical section.
#[cold]
fn in_section(task: &Task, frame: &Frame) -> bool {
    let Some(area) = task.rseq.area() else {
        return false;
    };
    update::inside(&mut User, &area, frame.ip(), USER_END)
}

/// The notify-resume work of a thread whose area was not there when [`exit`] looked. Interrupts are on.
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
    if event.contains(Event::BROKEN) {
        return kill(&task, &area, Stop::Fatal(Fatal::ReadOnly));
    }
    if event.contains(Event::IN_CALL) {
        return kill(&task, &area, Stop::Fatal(Fatal::Syscall));
    }
    if event.contains(Event::SLICE) && slice::clear(area.at).is_err() {
        return kill(&task, &area, Stop::Fault);
    }
    match run_slowly(&task, &area, event.at_exit(area.mode(), false), frame.ip()) {
        Ok(done) => finish(&task, frame, &done, event, Asked::AtExit(false)),
        Err(stop) => kill(&task, &area, stop),
    }
}

/// The running thread, which has a legacy area, is about to take a signal. Whether [`before_handler`] would find nothing to do. Interrupts may be off.
#[inline(always)]
pub fn is_settled(task: &CurrentTask) -> bool {
    // Before the look, which leaves the compiler fewer registers.
    task.rseq.counts.looks.add();
    // Should the thread be moved from here on, its way out brings the identifiers up to date.
    let settled = is_as_told(task);
    if !settled {
        task.rseq.counts.looks.take_back();
    }
    settled
}

/// The running thread, which has an area, is about to enter a handler, which must not look like a part of the critical section it interrupts, and whose
/// identifiers must be right. Interrupts are on.
#[cold]
#[inline(never)]
pub fn before_handler(task: &CurrentTask, frame: &mut Frame, interrupted: Interrupted) -> Result<(), Errno> {
    let Some(area) = task.rseq.area() else {
        return Ok(());
    };
    let work = Event::at_signal(area.mode(), by_exception(interrupted));
    if !work.any() {
        return Ok(());
    }
    stats::count(|counts| &counts.signal);
    match run_slowly(task, &area, work, frame.ip()) {
        Ok(done) => {
            finish(
                task,
                frame,
                &done,
                Event::empty(),
                Asked::BySignal(by_exception(interrupted)),
            );
            Ok(())
        }
        Err(stop) => {
            report(task, &area, stop);
            Err(Errno::EFAULT)
        }
    }
}

/// [`run`] where the thread may be moved to another CPU meanwhile, and may sleep.
fn run_slowly(task: &Task, area: &Area, work: Work, ip: usize) -> Result<limen_rseq::Done, Stop> {
    let told = task.rseq.told();
    let mut ids = told;
    if work.ids {
        loop {
            // All of one moment. If the thread moves from here on, it must see that it is not where it was told it is.
            match crate::sync::without_interrupts(|| ids_now(task).inspect(|now| cid::tell(&task.rseq, *now)))
            {
                Ok(now) => break ids = now,
                Err(_) => cid::prepare(task),
            }
        }
    }
    run(area, work, ids, told, ip)
}

#[inline(always)]
fn run(area: &Area, work: Work, ids: Ids, told: Ids, ip: usize) -> Result<limen_rseq::Done, Stop> {
    let last = (area.mode() == Mode::Optimised).then_some(told);
    update::run(&mut User, area, work, (ids, last), ip, USER_END)
}

/// On which way work was done; whether user mode had been interrupted, as far as the record does not say so.
#[derive(Clone, Copy)]
enum Asked {
    AtExit(bool),
    BySignal(bool),
}

/// Counts what was done and lets the thread go on where it must.
#[inline(always)]
fn finish(task: &Task, frame: &mut Frame, done: &limen_rseq::Done, event: Event, asked: Asked) {
    let all = &sched::this_cpu().rseq;
    if done.wrote_ids {
        all.ids.add();
        task.rseq.counts.ids.add();
    }
    if done.checked {
        all.checks.add();
        let (Asked::AtExit(user_irq) | Asked::BySignal(user_irq)) = asked;
        if !user_irq && files::counting() {
            count_uninterrupted(task, event);
        }
        if done.cleared {
            all.clears.add();
        }
        if let Some(to) = done.abort {
            all.fixups.add();
            let signal = matches!(asked, Asked::BySignal(_));
            task.rseq.counts.aborted(event, signal);
            frame.set_ip(to);
        }
    }
}

/// A critical section was looked for, and the way into the kernel was no interrupt, unless `event` says so.
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

/// `rseq`.
pub fn register(at: usize, len: u32, flags: u32, signature: u32) -> SysResult {
    let task = current();
    let rseq = &task.rseq;
    match register::judge(rseq.area(), (at, len, flags, signature), USER_END)? {
        Action::Register { area, slices } => {
            let (flags, slices) = slice::flags(area.mode(), slices);
            memory::initialise(&area, flags)?;
            rseq.event.store(Event::ALL.bits(), Relaxed);
            slice::set(rseq, slices);
            set_hooks(&task, Some(area.mode()));
            // No CPU, so that whatever it says now is out of date.
            rseq.set_area(area, memory::UNINITIALISED);
            cid::prepare(&task);
            task.info.work.set(ThreadFlags::RSEQ);
        }
        Action::Unregister => {
            memory::reset(at)?;
            forget(&task);
        }
    }
    Ok(0)
}

/// A new thread, with memory of its own (`copied`) or not. With its own it inherits its parent's area, of which it has a copy.
pub fn fork(parent: &Task, child: &Task, copied: bool) {
    if files::watch() != 0 {
        child.info.work.set(ThreadFlags::RSEQ);
    }
    if !copied {
        return;
    }
    let Some(area) = parent.rseq.area() else { return };
    let rseq = &child.rseq;
    rseq.set_area(area, parent.rseq.told());
    rseq.slice.store(parent.rseq.slice.load(Relaxed) & 1, Relaxed);
    rseq.event.store(Event::ALL.bits(), Relaxed);
    child.info.work.set(ThreadFlags::RSEQ);
}

/// A new process is about to be in user mode for the first time, perhaps on another CPU than its parent. Its copy of the area is brought up to date
/// where its memory may be copied: on the way out it would nearly always be missing.
pub fn first_return(task: &CurrentTask) {
    let Some(area) = task.rseq.area() else { return };
    set_hooks(task, Some(area.mode()));
    let work = Work {
        ids: true,
        section: false,
    };
    // What goes wrong here goes wrong on the way out as well.
    if let Ok(done) = run_slowly(task, &area, work, 0)
        && done.wrote_ids
    {
        stats::count(|counts| &counts.ids);
    }
}

/// `membarrier`'s part: when this returns, no thread of `mm` that runs on one of `cpus` is where it was in a critical section. Interrupts are on.
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
