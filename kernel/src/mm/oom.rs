//! When memory runs out: first what is kept for speed is given back, then the process that uses most is killed.

use super::{PAGE_SIZE, frame, heap, stack, vmap};
use crate::arch::irq;
use crate::sched::preempt;
use crate::signal::{self, SIGKILL, SigInfo};
use crate::task::Process;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use limen_entry::ThreadFlags;
use limen_linux_abi::Errno;

/// One at a time looks for memory; `/proc/vmstat`'s `oom_kill`.
static KILLS: AtomicU32 = AtomicU32::new(0);

/// Nothing could be freed, and the running task is on its way out itself.
#[derive(Clone, Copy, Debug)]
pub struct OutOfMemory;

/// Whether the running task was chosen (or is being killed anyway) and may use the reserve to get to its end.
pub fn is_dying() -> bool {
    let task = crate::sched::current();
    task.info.work.has(ThreadFlags::MEMDIE) || task.fatal_signal_pending()
}

/// Gives caches back. Returns whether there is enough memory then.
fn reclaim() -> bool {
    stack::trim(0);
    vmap::purge();
    heap::drain_local();
    frame::drain_local();
    if !frame::is_enough() && preempt::count() == 0 && irq::enabled() {
        crate::sched::on_each_cpu(crate::sched::online(), &|| {
            heap::drain_local();
            frame::drain_local();
        });
    }
    frame::is_enough()
}

/// The task that looks for memory just now (its address): one at a time, and what it allocates meanwhile must not start over.
static SEEKER: AtomicUsize = AtomicUsize::new(0);

/// A user page could not be had: makes room, or says that the running task is to go. Sleeps.
pub fn make_room() -> Result<(), OutOfMemory> {
    if preempt::count() != 0 || !irq::enabled() {
        return Err(OutOfMemory);
    }
    let me = Arc::as_ptr(&crate::sched::current()) as usize;
    match SEEKER.compare_exchange(0, me, Acquire, Relaxed) {
        Ok(_) => {
            let result = seek();
            SEEKER.store(0, Release);
            result
        }
        Err(seeker) if seeker == me => Err(OutOfMemory),
        Err(_) if is_dying() => Err(OutOfMemory),
        Err(_) => {
            pause(1_000_000);
            Ok(())
        }
    }
}

fn seek() -> Result<(), OutOfMemory> {
    if reclaim() {
        return Ok(());
    }
    if is_dying() {
        return Err(OutOfMemory);
    }
    // A victim that is still on its way out frees memory soon: wait for it rather than kill another one.
    if let Some(victim) = dying_victim() {
        for _ in 0..50 {
            pause(2_000_000);
            if reclaim() || is_dying() {
                return if is_dying() { Err(OutOfMemory) } else { Ok(()) };
            }
            if victim.mm().is_none() {
                break;
            }
        }
    }
    kill_largest();
    if is_dying() {
        return Err(OutOfMemory);
    }
    pause(1_000_000);
    Ok(())
}

/// Lets others run for `ns` nanoseconds, signals or not.
fn pause(ns: u64) {
    let until = crate::time::now_ns() + ns;
    while crate::time::now_ns() < until {
        crate::sched::yield_now();
    }
}

/// Before the kernel takes memory for something big that a program asked for (a process): memory must be above the reserve, or the
/// caller on its way out. `ENOMEM`.
pub fn ensure() -> Result<(), Errno> {
    if frame::free_in_buddy() > frame::reserve() || is_dying() {
        return Ok(());
    }
    make_room().map_err(|_| Errno::ENOMEM)
}

/// The heap had to go into the reserve: a task that may sleep makes up for it before it takes more.
#[cold]
pub(super) fn heap_is_low() {
    if preempt::count() != 0 || !irq::enabled() {
        return;
    }
    let task = crate::sched::current();
    let me = Arc::as_ptr(&task) as usize;
    if task.is_kernel_thread() || is_dying() || SEEKER.load(Relaxed) == me {
        return;
    }
    let _ = make_room();
}

/// A process that was chosen before and still has its memory.
fn dying_victim() -> Option<Arc<Process>> {
    crate::task::all_processes()
        .into_iter()
        .find(|p| p.mm().is_some() && p.threads().iter().any(|t| t.info.work.has(ThreadFlags::MEMDIE)))
}

/// How much a process would free, in pages, shifted by its `oom_score_adj`; `None` if it must not be killed.
pub fn badness(process: &Arc<Process>) -> Option<i64> {
    let adjust = process.oom_score_adj.load(Relaxed) as i64;
    if process.is_init() || adjust == -1000 {
        return None;
    }
    let points = process.mm()?.badness() as i64;
    Some((points + adjust * frame::total() as i64 / 1000).max(1))
}

fn kill_largest() {
    let victim = crate::task::all_processes()
        .into_iter()
        .filter(|p| !p.threads().iter().any(|t| t.info.work.has(ThreadFlags::MEMDIE)))
        .filter_map(|p| Some((badness(&p)?, p)))
        .max_by_key(|(points, _)| *points);
    let Some((_, victim)) = victim else {
        // Nobody but init is left: wait for what is dying, or give init an error.
        kill_current();
        return;
    };
    kill(&victim);
}

fn kill(victim: &Arc<Process>) {
    KILLS.fetch_add(1, Relaxed);
    // Without its lock: whoever is out of memory may hold it.
    let mm = victim.mm();
    let (anon, file, tables) = mm.as_ref().map(|mm| mm.rss()).unwrap_or_default();
    let total = mm.as_ref().and_then(|mm| mm.try_total()).unwrap_or(anon + file);
    drop(mm);
    let comm = victim.leader().map(|t| t.comm()).unwrap_or_default();
    let name = comm.split(|&b| b == 0).next().unwrap_or_default();
    let kib = PAGE_SIZE / 1024;
    crate::log!(
        Err,
        "Out of memory: Killed process {} ({}) total-vm:{}kB, anon-rss:{}kB, file-rss:{}kB, shmem-rss:0kB, UID:{} pgtables:{}kB oom_score_adj:{}",
        victim.tgid,
        core::str::from_utf8(name).unwrap_or("?"),
        total * kib,
        anon * kib,
        file * kib,
        victim.leader().map_or(0, |t| t.creds().uid),
        tables * kib,
        victim.oom_score_adj.load(Relaxed),
    );
    for thread in victim.threads() {
        thread.info.work.set(ThreadFlags::MEMDIE);
    }
    signal::send_to_process(victim, SIGKILL, SigInfo::kernel(SIGKILL));
}

/// The running process can't go on without memory it can't get.
pub fn kill_current() {
    let task = crate::sched::current();
    if task.fatal_signal_pending() {
        return;
    }
    task.info.work.set(ThreadFlags::MEMDIE);
    signal::send_to_process(&task.process, SIGKILL, SigInfo::kernel(SIGKILL));
}
