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
use limen_rseq::cid::{Cids, Own};
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

fn allowed(task: &Task) -> usize {
    task.sched.affinity().and(sched::online()).count().max(1)
}

fn own(thread: &Thread) -> Own {
    Own(thread.own_cid.load(Relaxed))
}

fn set_own(thread: &Thread, own: Own) {
    thread.own_cid.store(own.0, Relaxed);
}

/// The running thread's, on CPU `cpu`; `None`: there is none to be had right now. Preemption or interrupts are off, or the answer may be out of date.
#[inline(always)]
pub fn of(task: &Task, cpu: usize) -> Option<u32> {
    let mm = task.mm_slot().peek()?;
    own(&task.rseq)
        .known(task.rseq.told(), cpu as u32, || mm.cids.of_cpus.load(Acquire))
        .or_else(|| choose(&task.rseq, mm, cpu, allowed(task)))
}

#[inline(never)]
fn choose(thread: &Thread, mm: &AddressSpace, cpu: usize, allowed: usize) -> Option<u32> {
    // What it takes for itself is known to the thread before a hand-over can begin.
    let mut cids = mm.cids.cids.lock();
    let (own, cid) = cids.choose(cpu, sched::online().count(), allowed, own(thread));
    set_own(thread, own);
    cid
}

/// The running thread's area is told `ids`, or will be, which were asked for with interrupts off, and these still are.
pub fn tell(thread: &Thread, ids: Ids) {
    thread.set_told(ids);
    set_own(thread, own(thread).told());
}

/// What follows on the running thread's way out if its id may not be what it was.
#[inline(always)]
pub fn at_exit(task: &Task) -> Event {
    own(&task.rseq).at_exit(|| {
        task.mm_slot()
            .peek()
            .is_some_and(|mm| mm.cids.of_cpus.load(Acquire))
    })
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
                if own(&thread.rseq).is_own() && thread.mm().is_some_and(|its| Arc::ptr_eq(&its, &mm)) {
                    thread.info.work.set(ThreadFlags::RSEQ);
                }
            }
        }
        sched::on_each_cpu(sched::online(), &|| {
            let running = current();
            let its = running.mm_slot().peek();
            if !own(&running.rseq).is_own() || !its.is_some_and(|its| core::ptr::eq(its, &raw const *mm)) {
                return;
            }
            let cpu = crate::arch::smp::cpu_id();
            let answer = mm.cids.cids.lock().hand_over(cpu, own(&running.rseq));
            if let Some((own, event)) = answer {
                set_own(&running.rseq, own);
                running.rseq.add(event);
                running.info.work.set(ThreadFlags::RSEQ);
            }
        });
        mm.cids.cids.lock().end_hand_over();
    }
}

/// The running thread needs none any more.
pub fn give_back(task: &Task) {
    let had = own(&task.rseq);
    set_own(&task.rseq, Own::NONE);
    if had.is_own()
        && let Some(mm) = task.mm_slot().peek()
    {
        mm.cids.cids.lock().give_back(had.0);
    }
}
