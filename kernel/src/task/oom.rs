//! Which process is killed when memory runs out, and what becomes of accesses that are not possible.

use super::{Process, all_processes, current};
use crate::mm::oom::Users;
use crate::mm::{FaultError, PAGE_SIZE, frame};
use crate::signal::{self, SIGBUS, SIGKILL, SIGSEGV, SigInfo, info::code};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed};
use limen_entry::ThreadFlags;

/// How many processes were killed (`oom_kill` in `/proc/vmstat`).
static KILLS: AtomicU32 = AtomicU32::new(0);

/// What memory asks of processes.
pub struct Processes;

impl Users for Processes {
    fn is_one_dying(&self) -> bool {
        let dying = |p: &Arc<Process>| p.threads().any(|t| t.info.work.has(ThreadFlags::MEMDIE));
        all_processes().any(|p| p.mm().is_some() && dying(&p))
    }
    fn kill_largest(&self) {
        kill_largest();
    }
    fn kill_current(&self) {
        kill_current();
    }
    fn bad_access(&self, addr: usize, error: FaultError) {
        let (signal, code) = match error {
            FaultError::NotMapped => (SIGSEGV, code::SEGV_MAPERR),
            FaultError::Access => (SIGSEGV, code::SEGV_ACCERR),
            FaultError::Bus | FaultError::NoMemory => (SIGBUS, code::BUS_ADRERR),
        };
        signal::force_fault(signal, code, addr);
    }
}

/// How many pages killing a process would free, adjusted by its `oom_score_adj`. `None`: it must not be
/// killed.
pub fn badness(process: &Arc<Process>) -> Option<i64> {
    let adjust = process.oom_score_adj.load(Relaxed) as i64;
    if process.is_init() || adjust == -1000 {
        return None;
    }
    let points = process.mm()?.badness() as i64;
    Some((points + adjust * frame::total() as i64 / 1000).max(1))
}

/// `vm.panic_on_oom`: the kernel panics instead of killing a process.
pub static PANIC: AtomicI32 = AtomicI32::new(0);

fn kill_largest() {
    match PANIC.load(Relaxed) {
        0 => {}
        2 => panic!("Out of memory: compulsory panic_on_oom is enabled"),
        _ => panic!("Out of memory: system-wide panic_on_oom is enabled"),
    }
    let victim = all_processes()
        .filter(|p| !p.threads().any(|t| t.info.work.has(ThreadFlags::MEMDIE)))
        .filter_map(|p| Some((badness(&p)?, p)))
        .max_by_key(|(points, _)| *points);
    let Some((_, victim)) = victim else {
        // Only init is left: wait for dying processes, or let init get an error.
        kill_current();
        return;
    };
    kill(&victim);
}

fn kill(victim: &Arc<Process>) {
    KILLS.fetch_add(1, Relaxed);
    // The process's lock is not held: the task that is out of memory may hold it.
    let mm = victim.mm();
    let (anon, file, tables) = mm.as_ref().map(|mm| mm.rss()).unwrap_or_default();
    let total = mm.as_ref().and_then(|mm| mm.try_total()).unwrap_or(anon + file);
    drop(mm);
    let comm = victim.leader().map(|t| t.comm()).unwrap_or_default();
    let name = comm.split(|&b| b == 0).next().unwrap_or_default();
    let kib = PAGE_SIZE / 1024;
    crate::log!(
        Err,
        "Out of memory: Killed process {} ({}) total-vm:{}kB, anon-rss:{}kB, file-rss:{}kB, shmem-rss:0kB, \
         UID:{} pgtables:{}kB oom_score_adj:{}",
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

fn kill_current() {
    let task = current();
    if task.fatal_signal_pending() {
        return;
    }
    task.info.work.set(ThreadFlags::MEMDIE);
    signal::send_to_process(&task.process, SIGKILL, SigInfo::kernel(SIGKILL));
}
