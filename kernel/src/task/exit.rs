//! The end of threads and processes.

use super::process::{TREE, init_process};
use super::session::{ProcessGroup, Session};
use super::{ExitState, Process, Task, TaskFlags, Usage, current, pid, user};
use crate::sched::{self, futex};
use crate::signal::{self, ActionFlags, IGNORE, SIGCHLD, SIGCONT, SIGHUP, SigInfo, info::code};
use crate::sync::SpinGuard;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

/// The wait status of an exit code.
pub const fn status_of_exit(code: i32) -> i32 {
    (code & 0xff) << 8
}

/// `exit_group`: the whole process ends with exit code `code`.
pub fn exit_group(code: i32) -> ! {
    end_group(status_of_exit(code))
}

/// The process ends by a signal (or as `group_exit` already says).
pub fn exit_group_by_signal(status: i32) -> ! {
    current().set_flags(TaskFlags::SIGNALED);
    end_group(status)
}

fn end_group(status: i32) -> ! {
    let task = current();
    let status = {
        let mut shared = task.process.signals.lock();
        match shared.group_exit {
            Some(first) => first,
            None => {
                shared.group_exit = Some(status);
                signal::kill_threads(&task.process, Some(&task));
                status
            }
        }
    };
    exit_thread(status)
}

/// The running thread ends with wait status `status`; so does the process, if it was the last one. Never returns.
pub fn exit_thread(status: i32) -> ! {
    let task = current();
    signal::stop::leave(&task);
    // Not by the list of threads: two that end at once are both in it.
    let last = task.process.thread_ends();
    if last && task.process.is_init() {
        let status = task.process.signals.lock().group_exit.unwrap_or(status);
        panic!("Attempted to kill init! exitcode=0x{status:08x}");
    }
    task.exit_code.store(status, Ordering::Relaxed);
    release_mm(&task);
    drop(task.replace_files(None));
    drop(task.replace_fs(None));
    user::uncharge(task.creds().uid);
    leave_process(&task, status);
    task.info.work.clear(limen_entry::ThreadFlags::SIGPENDING);
    sched::end_thread()
}

/// What must happen before the thread's memory goes: robust futexes, the id word, a waiting `vfork`ing parent.
/// Also what exec does with the old program's memory; `last`: the thread ends.
pub(super) fn release_memory_words(task: &Arc<Task>, last: bool) {
    let robust = task.robust_list.swap(0, Ordering::Relaxed);
    if robust != 0 {
        futex::exit_robust_list(robust);
    }
    futex::release_waiters(task, last);
    let word = task.clear_child_tid.swap(0, Ordering::Relaxed);
    if word != 0 {
        // A wild pointer harms only its owner.
        let _ = crate::mm::user::UserPtr::<u32>::new(word).write(0);
        // The word may lie in memory shared with others, as a thread with its stack: the waiter looks for where it is then, too.
        futex::wake(word, 1, true);
    }
}

/// Lets a `vfork`ing parent go on.
pub(super) fn release_vfork_parent(task: &Task) {
    let vfork = task.vfork.lock().take();
    if let Some(vfork) = vfork {
        vfork.complete();
    }
}

fn release_mm(task: &Arc<Task>) {
    if let Some(mm) = task.mm() {
        crate::rseq::ends(task);
        release_memory_words(task, true);
        let peak = mm.usage().peak_rss as u64;
        let mut dead = task.process.dead_threads.lock();
        dead.max_rss = dead.max_rss.max(peak);
        drop(dead);
    }
    if let Some(mm) = task.replace_mm(None) {
        sched::leave_mm();
        drop(mm);
    }
    release_vfork_parent(task);
}

/// Takes the thread out of its process and, if it was the last, ends the process.
fn leave_process(task: &Arc<Task>, status: i32) {
    let process = &task.process;
    let mut gone = Vec::new();
    let last;
    {
        let _tree = lock_without_exe(process);
        // Before anyone can see it gone: who waited for the process finds nothing by its number, and a thread whose exec waits for the
        // others can have the leader's.
        pid::forget_task(task.tid());
        let leader = task.tid() == process.tgid;
        if leader {
            *process.remains.lock() = Some((task.comm(), task.creds()));
            process.exit_code.store(status, Ordering::Relaxed);
        }
        last = process.with_threads(|threads| {
            // In one step: who adds up the living and the dead finds it among either of them.
            process.dead_threads.lock().add(&Usage::of_task(task));
            threads.retain(|other| !Arc::ptr_eq(other, task));
            threads.is_empty()
        });
        if last {
            end_process(process, &mut gone);
        } else {
            // exec may be waiting for the others to go.
            process.exit_wait.wake_all();
        }
    }
    // Perhaps the last references; dropped without the tree lock.
    drop(gone);
    if last {
        crate::time::process_ended(process);
    }
}

/// Takes [`TREE`]; if the running thread is the process's last, the process has left its executable: who waited for it can write there.
fn lock_without_exe(process: &Process) -> SpinGuard<'static, ()> {
    loop {
        // Closing a file may sleep, so without the lock; no thread is added any more once one is alone.
        if process.thread_count() == 1 {
            process.set_exe(None);
        }
        let tree = TREE.lock();
        if process.thread_count() > 1 || process.exe().is_none() {
            return tree;
        }
    }
}

/// The last thread is gone. Under [`TREE`]; processes that nobody waits for are added to `gone`.
fn end_process(process: &Arc<Process>, gone: &mut Vec<Arc<Process>>) {
    if let Some(status) = process.signals.lock().group_exit {
        process.exit_code.store(status, Ordering::Relaxed);
    }
    reparent_children(process, gone);
    let group = process.group();
    if group.session.id == process.tgid {
        end_session(&group.session);
    }
    let parent = process.parent();
    // This process may have been what kept its group from being orphaned.
    if let Some(parent) = &parent {
        hang_up_if_orphaned(&group, process, Some(parent));
    }
    process.set_exit_state(ExitState::Zombie);
    let reap = match &parent {
        Some(parent) => tell_parent_of_exit(process, parent),
        None => true,
    };
    if reap {
        process.set_exit_state(ExitState::Dead);
        if let Some(parent) = parent {
            remove_child(&parent, process);
        }
        bury(process);
        gone.push(process.clone());
    }
    process.exit_wait.wake_all();
}

fn remove_child(parent: &Process, child: &Arc<Process>) {
    parent
        .family()
        .children
        .retain(|other| !Arc::ptr_eq(other, child));
}

/// Tells the parent; whether the process is to be reaped at once because the parent does not care.
fn tell_parent_of_exit(process: &Arc<Process>, parent: &Arc<Process>) -> bool {
    let sig = process.exit_signal.load(Ordering::Relaxed);
    let mut reap = false;
    let mut send = sig != 0;
    if sig == SIGCHLD as i32 {
        let action = parent.signals.lock().actions.get(SIGCHLD);
        if action.handler == IGNORE || action.flags.contains(ActionFlags::NOCLDWAIT) {
            reap = true;
            send &= action.handler != IGNORE;
        }
    }
    if send {
        signal::send_to_process(parent, sig as u32, exit_info(process, sig as u32));
    }
    parent.child_wait.wake_all();
    reap
}

/// What the parent's signal says of a process that ended.
fn exit_info(process: &Process, sig: u32) -> SigInfo {
    let status = process.exit_code.load(Ordering::Relaxed);
    let (code, value) = explain(status);
    let usage = process.usage();
    let uid = current().creds().uid;
    let info = SigInfo::child(
        code,
        process.tgid,
        uid,
        value,
        usage.user_ticks(),
        usage.system_ticks(),
    );
    info.with_signal(sig)
}

/// `si_code` and `si_status` of a wait status.
pub fn explain(status: i32) -> (i32, i32) {
    if status & 0x7f == 0 {
        (code::CLD_EXITED, status >> 8 & 0xff)
    } else if status & 0x80 != 0 {
        (code::CLD_DUMPED, status & 0x7f)
    } else {
        (code::CLD_KILLED, status & 0x7f)
    }
}

/// The children of an ending process get a new parent: the nearest living subreaper, else the first process.
fn reparent_children(process: &Arc<Process>, gone: &mut Vec<Arc<Process>>) {
    let children = core::mem::take(&mut process.family().children);
    if children.is_empty() {
        return;
    }
    let Some(reaper) = find_reaper(process) else {
        return;
    };
    for child in children {
        child.adopt(&reaper);
        for thread in child.threads() {
            let sig = thread.parent_death_signal.load(Ordering::Relaxed);
            if sig != 0 {
                signal::send_to_process(&child, sig as u32, SigInfo::user(sig as u32, process.tgid, 0));
            }
        }
        // Its own choice of signal was for its old parent.
        child.exit_signal.store(SIGCHLD as i32, Ordering::Relaxed);
        if child.exit_state() == ExitState::Zombie && tell_parent_of_exit(&child, &reaper) {
            child.set_exit_state(ExitState::Dead);
            bury(&child);
            gone.push(child);
            continue;
        }
        let group = child.group();
        reaper.family().children.push(child.clone());
        hang_up_if_orphaned(&group, &child, Some(process));
    }
}

fn find_reaper(process: &Arc<Process>) -> Option<Arc<Process>> {
    let mut ancestor = process.parent();
    if process.has_subreaper.load(Ordering::Relaxed) {
        while let Some(candidate) = ancestor {
            if candidate.is_init() {
                break;
            }
            if candidate.child_subreaper.load(Ordering::Relaxed) && candidate.thread_count() > 0 {
                return Some(candidate);
            }
            ancestor = candidate.parent();
        }
    }
    init_process()
}

/// Whether a group is orphaned: no member has a living parent in another group of the same session. `ignore` is left out.
pub fn is_orphaned(group: &Arc<ProcessGroup>, ignore: Option<&Arc<Process>>) -> bool {
    !group.members().iter().any(|member| {
        if ignore.is_some_and(|ignore| Arc::ptr_eq(ignore, member)) || member.exit_state() != ExitState::Alive
        {
            return false;
        }
        member.parent().is_some_and(|parent| {
            !parent.is_init() && parent.pgrp() != group.id && parent.sid() == group.session.id
        })
    })
}

/// If `process`'s end, or the end of its parent, leaves its group orphaned with stopped members, they get SIGHUP and SIGCONT.
/// `parent`: the one through which the group was not orphaned.
fn hang_up_if_orphaned(group: &Arc<ProcessGroup>, process: &Arc<Process>, parent: Option<&Arc<Process>>) {
    let mattered = parent.is_some_and(|parent| parent.pgrp() != group.id && parent.sid() == group.session.id);
    if !mattered {
        return;
    }
    let ending = process.thread_count() == 0;
    if !is_orphaned(group, ending.then_some(process)) {
        return;
    }
    if group.members().iter().any(|member| member.signals.lock().stopped) {
        for member in group.members() {
            signal::send_to_process(&member, SIGHUP, SigInfo::kernel(SIGHUP));
            signal::send_to_process(&member, SIGCONT, SigInfo::kernel(SIGCONT));
        }
    }
}

/// The leader of `session` ends: its terminal's foreground group is hung up and the terminal is free for another session. If the terminal went
/// away before, that is the group that was in the foreground then.
fn end_session(session: &Session) {
    let terminal = session.ctty.lock().take();
    let left_behind = session.set_left_behind(None);
    let foreground = match terminal {
        Some(terminal) => {
            let foreground = terminal.foreground();
            terminal.disassociate();
            foreground
        }
        None => left_behind.as_ref().map_or(0, |group| group.id),
    };
    if foreground > 0 {
        // The group may have ended in the meantime.
        let _ = signal::send_to_pgrp(foreground, SIGHUP, SigInfo::kernel(SIGHUP));
        let _ = signal::send_to_pgrp(foreground, SIGCONT, SigInfo::kernel(SIGCONT));
    }
}

/// A dead process leaves the tables. Under [`TREE`], so that who finds it no more among the children finds it nowhere; the caller keeps a
/// reference until that is released.
pub(super) fn bury(process: &Arc<Process>) {
    process.group().leave(process);
    pid::forget_process(process.tgid);
}
