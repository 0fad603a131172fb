//! Restartable sequences (`docs/rseq.md`): what a thread has, and the hooks that the rest of the kernel calls. Decisions are `limen_rseq`'s.
//!
//! A thread's record is its own: only the thread itself changes it, on the CPU it runs on, or an interrupt on that CPU. Nothing is noted when the
//! thread enters the kernel, and nothing while it is switched away: it looks for itself when it runs again ([`resumed`]), and its way out does the
//! rest ([`exit`]).

mod memory;
mod stats;

pub use stats::Counts;

use crate::arch::frame::Frame;
use crate::arch::{mmu::USER_END, smp};
use crate::mm::AddressSpace;
use crate::sched::{self, CpuSet};
use crate::signal;
use crate::syscall::SysResult;
use crate::task::{CurrentTask, Task, current};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use limen_entry::{Interrupted, ThreadFlags};
use limen_linux_abi::Errno;
use limen_rseq::{Action, Area, Event, Fatal, Ids, Mode, Stop, Work, register, update};
use memory::User;

/// What a thread has.
pub struct Thread {
    /// The area's address, 0 for none.
    at: AtomicUsize,
    len: AtomicU32,
    signature: AtomicU32,
    /// [`Event`]'s bits.
    event: AtomicU32,
    /// What the area was last told.
    cpu: AtomicU32,
    cid: AtomicU32,
    /// What was done for it.
    pub counts: stats::ThreadCounts,
}

impl Thread {
    /// Nothing registered.
    pub const fn new() -> Self {
        Self {
            at: AtomicUsize::new(0),
            len: AtomicU32::new(0),
            signature: AtomicU32::new(0),
            event: AtomicU32::new(0),
            cpu: AtomicU32::new(0),
            cid: AtomicU32::new(0),
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

    fn set_area(&self, area: Area) {
        self.len.store(area.len, Relaxed);
        self.signature.store(area.signature, Relaxed);
        self.at.store(area.at, Relaxed);
    }

    /// The area is gone, by the thread's own doing or with its memory.
    pub fn forget(&self) {
        self.at.store(0, Relaxed);
        self.event.store(0, Relaxed);
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
            cpu: self.cpu.load(Relaxed),
            node: NODE,
            cid: self.cid.load(Relaxed),
        }
    }

    #[inline(always)]
    fn set_told(&self, ids: Ids) {
        self.cpu.store(ids.cpu, Relaxed);
        self.cid.store(ids.cid, Relaxed);
    }
}

/// There is one memory node.
const NODE: u32 = 0;

/// What the area of the running thread should say.
#[inline(always)]
fn ids_now(_task: &Task) -> Ids {
    let cpu = smp::cpu_id() as u32;
    Ids {
        cpu,
        node: NODE,
        cid: cpu,
    }
}

fn by_exception(interrupted: Interrupted) -> bool {
    interrupted == Interrupted::ByException
}

/// `task`, the running thread, runs again after a switch. Preemption is off.
#[inline(always)]
pub fn resumed(task: &Task) {
    if task.rseq.is_registered() {
        resumed_with_area(task);
    }
}

#[inline(never)]
fn resumed_with_area(task: &Task) {
    let rseq = &task.rseq;
    let mode = rseq.area().map_or(Mode::Legacy, |area| area.mode());
    let migrated = rseq.cpu.load(Relaxed) != smp::cpu_id() as u32;
    let user_irq = mode == Mode::Optimised && current().was_interrupted();
    if let Some(event) = Event::resumed(mode, migrated, user_irq) {
        rseq.add(event);
        task.info.work.set(ThreadFlags::RSEQ);
    }
}

/// The last work of the way out to user mode, interrupts off. `false`: user memory was not there, [`resume`] must do it.
pub fn exit(frame: &mut Frame, interrupted: Interrupted) -> bool {
    let task = current();
    let rseq = &task.rseq;
    task.info.work.clear(ThreadFlags::RSEQ);
    let event = rseq.event();
    let Some(area) = rseq.area() else { return true };
    let user_irq = by_exception(interrupted);
    let work = event.at_exit(area.mode(), user_irq);
    if work.any() {
        let counts = &sched::this_cpu().rseq;
        let ids = ids_now(&task);
        let done = match run(&task, &area, work, ids, rseq.told(), frame.ip()) {
            Ok(done) => done,
            Err(why) => {
                rseq.event.store(event.failed(user_irq, why).bits(), Relaxed);
                return false;
            }
        };
        counts.fast.add();
        if work.ids {
            rseq.set_told(ids);
        }
        finish(&task, frame, &done, event, false);
    }
    rseq.event.store(0, Relaxed);
    true
}

/// The notify-resume work of a thread whose area was not there when [`exit`] looked. Interrupts are on.
pub fn resume(frame: &mut Frame) {
    let task = current();
    let rseq = &task.rseq;
    if !rseq.event().contains(Event::SLOW) {
        return;
    }
    let event = Event::from_bits_retain(rseq.event.swap(0, Relaxed));
    let Some(area) = rseq.area() else { return };
    stats::count(|counts| &counts.slow);
    if event.contains(Event::BROKEN) {
        return kill(&task, &area, Stop::Fatal(Fatal::ReadOnly));
    }
    let work = event.at_exit(area.mode(), false);
    let (ids, told) = (ids_now(&task), rseq.told());
    if work.ids {
        // If the thread moves from here on, it must see that it is not where it was told it is.
        rseq.set_told(ids);
    }
    match run(&task, &area, work, ids, told, frame.ip()) {
        Ok(done) => finish(&task, frame, &done, event, false),
        Err(stop) => kill(&task, &area, stop),
    }
}

/// The running thread is about to enter a handler, which must not look like a part of the critical section it interrupts. Interrupts are on.
pub fn before_handler(task: &CurrentTask, frame: &mut Frame, interrupted: Interrupted) -> Result<(), Errno> {
    let rseq = &task.rseq;
    let Some(area) = rseq.area() else { return Ok(()) };
    let work = Event::at_signal(area.mode(), by_exception(interrupted));
    if !work.any() {
        return Ok(());
    }
    stats::count(|counts| &counts.signal);
    let (ids, told) = (ids_now(task), rseq.told());
    if work.ids {
        rseq.set_told(ids);
    }
    match run(task, &area, work, ids, told, frame.ip()) {
        Ok(done) => {
            finish(task, frame, &done, Event::empty(), true);
            Ok(())
        }
        Err(stop) => {
            report(task, &area, stop);
            Err(Errno::EFAULT)
        }
    }
}

#[inline(always)]
fn run(
    _task: &Task,
    area: &Area,
    work: Work,
    ids: Ids,
    told: Ids,
    ip: usize,
) -> Result<limen_rseq::Done, Stop> {
    let last = (area.mode() == Mode::Optimised).then_some(told);
    update::run(&mut User, area, work, (ids, last), ip, USER_END)
}

/// Counts what was done and lets the thread go on where it must.
#[inline(always)]
fn finish(task: &Task, frame: &mut Frame, done: &limen_rseq::Done, event: Event, signal: bool) {
    let all = &sched::this_cpu().rseq;
    if done.wrote_ids {
        all.ids.add();
        task.rseq.counts.ids.add();
    }
    if done.checked {
        all.checks.add();
        if done.cleared {
            all.clears.add();
        }
        if let Some(to) = done.abort {
            all.fixups.add();
            task.rseq.counts.aborted(event, signal);
            frame.set_ip(to);
        }
    }
}

#[cold]
fn report(task: &Task, area: &Area, stop: Stop) {
    let fatal = match stop {
        Stop::Fault => Fatal::Unreachable,
        Stop::Fatal(fatal) => fatal,
    };
    let comm = task.comm();
    let comm = core::str::from_utf8(&comm)
        .unwrap_or("?")
        .trim_end_matches('\0');
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
        Action::Register { area, slices: _ } => {
            memory::initialise(&area, 0)?;
            rseq.event.store(Event::FORKED.bits(), Relaxed);
            // No CPU, so that whatever it says now is out of date.
            rseq.set_told(memory::UNINITIALISED);
            rseq.set_area(area);
            task.info.work.set(ThreadFlags::RSEQ);
        }
        Action::Unregister => {
            memory::reset(at)?;
            rseq.forget();
        }
    }
    Ok(0)
}

/// `rseq_slice_yield`.
pub fn slice_yield() -> usize {
    0
}

/// A new process (not a thread) inherits its parent's area, of which it has a copy.
pub fn fork(parent: &Task, child: &Task) {
    let Some(area) = parent.rseq.area() else { return };
    let rseq = &child.rseq;
    rseq.set_area(area);
    rseq.set_told(parent.rseq.told());
    rseq.event.store(Event::FORKED.bits(), Relaxed);
    child.info.work.set(ThreadFlags::RSEQ);
}

/// `membarrier`'s part: when this returns, no thread of `mm` that runs on one of `cpus` is where it was in a critical section. Interrupts are on.
pub fn abort_sections(cpus: CpuSet, mm: &Arc<AddressSpace>) {
    sched::on_each_cpu(cpus, &|| {
        let task = current();
        if let Some(area) = task.rseq.area()
            && task.mm_slot().peek().is_some_and(|own| core::ptr::eq(own, &raw const **mm))
        {
            task.rseq.add(Event::barrier(area.mode()));
            task.info.work.set(ThreadFlags::RSEQ);
        }
    });
}
