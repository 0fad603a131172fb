//! Concurrency ids of an address space; see `limen_rseq::cid`.

use super::Thread;
use crate::mm::AddressSpace;
use crate::sched;
use crate::task::{self, Task, current};
use alloc::sync::Arc;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use limen_entry::ThreadFlags;
use limen_rseq::cid::Own;
use limen_rseq::{Event, Ids};

fn allowed(task: &Task) -> usize {
    task.sched.affinity().and(sched::online()).count().max(1)
}

fn own(thread: &Thread) -> Own {
    Own(thread.own_cid.load(Relaxed))
}

fn set_own(thread: &Thread, own: Own) {
    thread.own_cid.store(own.0, Relaxed);
}

/// The concurrency id of the running thread on CPU `cpu`. `None`: no id is free now. With interrupts and
/// preemption on, the result may be out of date.
#[inline(always)]
pub fn of(task: &Task, cpu: usize) -> Option<u32> {
    let mm = task.mm_slot().peek()?;
    own(&task.rseq)
        .known(task.rseq.told(), cpu as u32, || mm.cids.of_cpus.load(Acquire))
        .or_else(|| choose(&task.rseq, mm, cpu, allowed(task)))
}

#[inline(never)]
fn choose(thread: &Thread, mm: &AddressSpace, cpu: usize, allowed: usize) -> Option<u32> {
    // The lock makes sure that an id which a thread takes for itself is noted before a hand-over begins.
    let mut cids = mm.cids.ids.lock();
    let (own, cid) = cids.choose(cpu, sched::online().count(), allowed, own(thread));
    set_own(thread, own);
    cid
}

/// Notes that the running thread's area says `ids`, or will say so before user mode. The ids were asked for
/// with interrupts off, and they still are.
pub fn tell(thread: &Thread, ids: Ids) {
    thread.set_told(ids);
    set_own(thread, own(thread).told());
}

/// What the thread's way out to user mode must look at if its id may have changed.
#[inline(always)]
pub fn at_exit(task: &Task) -> Event {
    own(&task.rseq).at_exit(|| {
        task.mm_slot()
            .peek()
            .is_some_and(|mm| mm.cids.of_cpus.load(Acquire))
    })
}

/// Makes [`of`] have a result for the running thread. Interrupts are on and no lock is held; sleeps.
pub fn prepare(task: &Task) {
    let Some(mm) = task.mm() else { return };
    if crate::sync::without_interrupts(|| of(task, crate::arch::smp::cpu_id()).is_some()) {
        return;
    }
    let _one = mm.cids.handing_over.lock();
    let begins = {
        let mut cids = mm.cids.ids.lock();
        let begins = cids.begin_hand_over();
        mm.cids.of_cpus.store(true, Release);
        begins
    };
    // If not, another thread has completed the hand-over while this one waited for the lock.
    if begins {
        // Threads that do not run now see it on their next way out; those that run are told below.
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
            let answer = mm.cids.ids.lock().hand_over(cpu, own(&running.rseq));
            if let Some((own, event)) = answer {
                set_own(&running.rseq, own);
                running.rseq.add(event);
                running.info.work.set(ThreadFlags::RSEQ);
            }
        });
        mm.cids.ids.lock().end_hand_over();
    }
}

/// The running thread no longer needs an id.
pub fn give_back(task: &Task) {
    let had = own(&task.rseq);
    set_own(&task.rseq, Own::NONE);
    if had.is_own()
        && let Some(mm) = task.mm_slot().peek()
    {
        mm.cids.ids.lock().give_back(had.0);
    }
}
