//! Concurrency ids of an address space; see `limen_rseq::cid`.

use super::Thread;
use crate::mm::AddressSpace;
use crate::sched;
use crate::sync::IrqSpinLock;
use crate::task::{self, Task, current};
use alloc::sync::Arc;
use core::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Relaxed, Release},
};
use limen_entry::ThreadFlags;
use limen_rseq::cid::{Cids, Mode};
use limen_rseq::{Event, Ids};

/// An address space's.
pub struct Space {
    cids: IrqSpinLock<Cids>,
    /// The ids are, or are becoming, the CPUs': readable without the lock.
    of_cpus: AtomicBool,
}

impl Space {
    /// Nobody has one.
    pub const fn new() -> Self {
        Self {
            cids: IrqSpinLock::new(Cids::new()),
            of_cpus: AtomicBool::new(false),
        }
    }
}

/// `Thread::own_cid` of a thread that has none.
pub const NONE: u32 = u32::MAX;
/// That of a thread whose CPU's was the last that it was told.
const CPUS: u32 = u32::MAX - 1;

fn allowed(task: &Task) -> usize {
    task.sched.affinity().and(sched::online()).count().max(1)
}

/// The running thread's, on CPU `cpu`; `None`: there is none to be had right now. Preemption or interrupts are off, or the answer may be out of date.
#[inline(always)]
pub fn of(task: &Task, cpu: usize) -> Option<u32> {
    let own = task.rseq.own_cid.load(Relaxed);
    let mm = task.mm_slot().peek()?;
    if own == CPUS && task.rseq.told[0].load(Relaxed) == cpu as u32 {
        return Some(task.rseq.told[3].load(Relaxed));
    }
    if own < CPUS && !mm.cids.of_cpus.load(Acquire) {
        return Some(own);
    }
    choose(&task.rseq, mm, cpu, allowed(task))
}

#[inline(never)]
fn choose(thread: &Thread, mm: &AddressSpace, cpu: usize, allowed: usize) -> Option<u32> {
    let mut cids = mm.cids.cids.lock();
    if cids.mode() != Mode::Threads {
        // Its own, if it had one, is the CPU's by now, or nobody's.
        thread.own_cid.store(NONE, Relaxed);
        return cids.of_cpu(cpu, sched::online().count());
    }
    let own = cids.take_for_thread(allowed)?;
    thread.own_cid.store(own, Relaxed);
    Some(own)
}

/// The running thread's area is told `ids`, or will be, which were asked for with interrupts off, and these still are.
pub fn tell(thread: &Thread, ids: Ids) {
    thread.set_told(ids);
    if thread.own_cid.load(Relaxed) == NONE {
        thread.own_cid.store(CPUS, Relaxed);
    }
}

/// Whether the running thread's id may not be what it was.
pub fn outdated(task: &Task) -> bool {
    task.rseq.own_cid.load(Relaxed) < CPUS
        && task
            .mm_slot()
            .peek()
            .is_some_and(|mm| mm.cids.of_cpus.load(Acquire))
}

/// Sees to it that [`of`] has an answer for the running thread. Interrupts are on; nothing is locked.
pub fn prepare(task: &Task) {
    let Some(mm) = task.mm() else { return };
    loop {
        let there = crate::sync::without_interrupts(|| of(task, crate::arch::smp::cpu_id()).is_some());
        if there {
            return;
        }
        let begins = {
            let mut cids = mm.cids.cids.lock();
            let begins = cids.begin_hand_over();
            mm.cids.of_cpus.store(true, Release);
            begins
        };
        if !begins {
            // Somebody else is at it.
            crate::arch::irq::spin_hint();
            sched::yield_now();
            continue;
        }
        // Threads that do not run now find out on their next way out; those that run, here.
        for process in task::all_processes() {
            for thread in process.threads() {
                if thread.rseq.own_cid.load(Relaxed) < CPUS
                    && thread.mm().is_some_and(|its| Arc::ptr_eq(&its, &mm))
                {
                    thread.info.work.set(ThreadFlags::RSEQ);
                }
            }
        }
        sched::on_each_cpu(sched::online(), &|| {
            let running = current();
            let own = running.rseq.own_cid.load(Relaxed);
            if own < CPUS
                && running
                    .mm_slot()
                    .peek()
                    .is_some_and(|its| core::ptr::eq(its, &raw const *mm))
            {
                mm.cids.cids.lock().hand_over(crate::arch::smp::cpu_id(), own);
                running.rseq.own_cid.store(NONE, Relaxed);
                running.rseq.add(Event::ALL);
                running.info.work.set(ThreadFlags::RSEQ);
            }
        });
        mm.cids.cids.lock().end_hand_over();
    }
}

/// The running thread needs none any more.
pub fn give_back(task: &Task) {
    let own = task.rseq.own_cid.swap(NONE, Relaxed);
    if own < CPUS
        && let Some(mm) = task.mm_slot().peek()
    {
        mm.cids.cids.lock().give_back(own);
    }
}
