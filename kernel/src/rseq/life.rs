//! A thread's area from its registration to its end: `rseq`, fork, exec, exit.

use super::{cid, memory, run_slowly, slice, stats, watch};
use crate::arch::mmu::USER_END;
use crate::sched;
use crate::signal::Besides;
use crate::task::{CurrentTask, Task, current};
use core::sync::atomic::Ordering::Relaxed;
use limen_entry::ThreadFlags;
use limen_linux_abi::SysResult;
use limen_rseq::{Action, CPU_ID_UNINITIALISED, Event, Mode, Work, register as rules};

/// The system call `rseq`.
pub fn register(at: usize, len: u32, flags: u32, signature: u32) -> SysResult {
    let task = current();
    let rseq = &task.rseq;
    match rules::judge(rseq.area(), (at, len, flags, signature), USER_END)? {
        Action::Register { area, slices } => {
            let (flags, slices) = slice::flags(area.mode(), slices);
            let at = memory::initialise(&area, flags)?;
            rseq.event.store(Event::ALL.bits(), Relaxed);
            slice::set(rseq, slices);
            set_hooks(&task, Some(area.mode()));
            // Without a CPU, so that the way out always writes the ids.
            rseq.set_area(at, area, memory::UNINITIALISED);
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

/// A new thread. If its memory is a copy of its parent's (`copied`), it has a copy of the area, which stays
/// registered; else it has none.
pub fn fork(parent: &Task, child: &Task, copied: bool) {
    if watch::watch() != 0 {
        child.info.work.set(ThreadFlags::RSEQ);
    }
    if !copied {
        return;
    }
    let Some(at) = parent.rseq.told.place() else {
        return;
    };
    let rseq = &child.rseq;
    rseq.set_area(at, parent.rseq.area_at(at), parent.rseq.told());
    slice::set(rseq, slice::is_enabled(&parent.rseq));
    // The parent's copied area may say that an extension is granted, which has just ended.
    let slice = parent.rseq.event() & Event::SLICE;
    rseq.event.store((Event::ALL | slice).bits(), Relaxed);
    child.info.work.set(ThreadFlags::RSEQ);
}

/// The first way out to user mode of a new process, perhaps on another CPU than its parent's. Writes the ids
/// to its copy of the area here, where the write may copy the page; later, with interrupts off, it would
/// nearly always fault.
pub fn first_return(task: &CurrentTask) {
    let Some(area) = task.rseq.area() else { return };
    set_hooks(task, Some(area.mode()));
    let work = Work {
        ids: true,
        section: false,
    };
    match run_slowly(task, &area, work, None, 0) {
        Ok(done) if done.wrote_ids => stats::count(|counts| &counts.ids),
        Ok(_) => {}
        Err(stop) => super::kill(task, &area, stop),
    }
}

/// The running thread's area goes away: it was unregistered, or its memory does (exec, exit).
pub fn forget(task: &Task) {
    let rseq = &task.rseq;
    if !rseq.is_registered() {
        return;
    }
    set_hooks(task, None);
    crate::sync::without_interrupts(|| {
        slice::ends(task);
        slice::set(rseq, false);
        rseq.told.set_at(None);
        rseq.legacy_cpu.store(CPU_ID_UNINITIALISED, Relaxed);
        rseq.event.store(0, Relaxed);
    });
    cid::give_back(task);
}

/// The running thread ends: its area goes away, and its process takes over its counters.
pub fn ends(task: &Task) {
    forget(task);
    task.process.rseq.inherit(&task.rseq.counts);
}

/// Turns `resumed`, `is_settled` and `before_handler` on for the running thread if it has an area,
/// whose mode is given, and off if not.
fn set_hooks(task: &Task, area: Option<Mode>) {
    sched::entity::with_current_context(|context| context.resume.set(area.is_some()));
    let mut signals = task.signals.lock();
    signals
        .besides
        .set(Besides::LEGACY_RSEQ, area == Some(Mode::Legacy));
    signals.besides.set(Besides::RSEQ, area == Some(Mode::Optimised));
}
