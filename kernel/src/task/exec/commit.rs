//! The point of no return: the old program ends and the new one begins.

use super::elf::{Image, READ_IMPLIES_EXEC};
use super::{Program, stack, vdso};
use crate::arch::frame::Frame;
use crate::mm::copy;
use crate::sched::{self, entity::with_current_context};
use crate::signal::{self, Actions, AltStack};
use crate::task::creds::{Creds, cap, securebits};
use crate::task::ns::user;
use crate::task::process::TREE;
use crate::task::{CurrentTask, TaskFlags, calls, current, exit, patch, pid, ptrace, unshare};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use limen_linux_abi::Errno;

/// `S_ISUID`, `S_ISGID`, `S_IXGRP`.
const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;
const GROUP_EXEC: u32 = 0o010;
/// The flag of `personality` for 32-bit programs.
const ADDR_LIMIT_32BIT: u32 = 0x0080_0000;

/// Makes `image` the running program. If it returns an error, the old program still runs. An error after the
/// point of no return kills the process.
#[inline(never)]
pub(super) fn commit(frame: &mut Frame, program: Program, image: Image) -> Result<(), Errno> {
    let task = current();
    let old_pid = task.tid();
    let vdso = vdso::map(&image.mm)?;
    become_single(&task)?;
    // Whoever begins to trace it sees the old program's rights, or the new one's.
    let begins = task.process.begins.lock();
    // Only now: until then another thread could give this one filters and `no_new_privs`
    // (`SECCOMP_FILTER_FLAG_TSYNC`), and a set-id program must not run under filters of whom it does not
    // trust.
    let (creds, secure) = new_creds(&task, &program);
    // Another process may share the table and keeps it. Threads of this process are gone by now.
    unshare::unshare_files()?;
    // Signal actions may be shared, too.
    let actions = task.process.signals.lock().actions.clone();
    let own_actions = if Arc::strong_count(&actions) > 2 {
        Some(actions.copy()?)
    } else {
        None
    };
    drop(actions);

    // The point of no return.
    exit::release_memory_words(&task, false);
    crate::rseq::forget(&task);
    task.dispatch.forget(&task);
    calls::begin_program(&task, image.old_abi);
    // Comes before anyone can find the new memory. If the program gains no privilege, old and new ids give
    // the same answer to whether its memory may be inspected.
    let old_creds = task.creds();
    let gains = gains(&old_creds, &creds);
    image.mm.set_dump_mode(match gains || image.hidden {
        true => crate::mm::space::SUID_DUMPABLE.load(Ordering::Relaxed),
        false => 1,
    });
    if let Some(owner) = owner(&old_creds, &image) {
        image.mm.set_owner(owner);
    }
    if let Some(old) = task.mm() {
        image.mm.set_dump_filter(old.dump_filter());
    }
    let old = task.replace_mm(Some(image.mm.clone()));
    sched::activate_mm(&image.mm);
    exit::release_vfork_parent(&task);
    drop(old);

    crate::task::timers::exec();
    reset_signals(&task, own_actions);
    task.files().close_on_exec();
    task.restart.forget();
    task.set_comm(base_name(&program.filename));
    let process = &task.process;
    if gains {
        task.parent_death_signal.store(0, Ordering::Relaxed);
    }
    crate::task::ns::time::begin_program(&task);
    crate::task::user::transfer(&old_creds, &creds);
    task.set_creds(Arc::new(creds));
    drop(begins);
    process
        .exit_signal
        .store(signal::SIGCHLD as i32, Ordering::Relaxed);
    process.did_exec.store(true, Ordering::Relaxed);
    process.execs.fetch_add(1, Ordering::Relaxed);
    task.clear_flags(TaskFlags::FORKNOEXEC | TaskFlags::SUPERPRIV | TaskFlags::KTHREAD);
    process.set_exe(Some(program.file.clone()));
    crate::task::events::may_trace_calls(&task);
    crate::task::events::execs(&task, old_pid, &program.filename);

    match fill_memory(&task, &program, &image, secure, vdso) {
        Ok(sp) => {
            with_current_context(|context| context.reset_for_exec());
            frame.begin_program(image.start, sp);
            if task.trace.is_traced() {
                ptrace::exec(frame, old_pid);
            }
        }
        Err(_) => signal::force_fatal(signal::SIGKILL),
    }
    Ok(())
}

/// Whether processes that might inspect the old program must not inspect the new one: it has other ids or
/// more capabilities, or the old one did not act as its real user.
fn gains(old: &Creds, new: &Creds) -> bool {
    let acts_as = |c: &Creds| [c.euid, c.egid, c.fsuid, c.fsgid];
    acts_as(old) != acts_as(new)
        || old.euid != old.uid
        || old.egid != old.gid
        || new.permitted & !old.permitted != 0
}

/// The user namespace in which a new program's memory can be looked at: that of the thread or the next one
/// around it that knows the owners of all files in that memory which the thread may not read.
fn owner(old: &Creds, image: &Image) -> user::UserRef {
    let mut ns = &old.user;
    let knows = |ns| {
        image
            .hidden_from
            .iter()
            .flatten()
            .all(|&(uid, gid)| user::maps_both(ns, uid, gid))
    };
    while let Some(inner) = ns
        && !knows(ns)
    {
        ns = inner.parent();
    }
    ns.clone()
}

/// Zeroes what must be zero and builds the stack. These are the first accesses to the new memory.
fn fill_memory(
    task: &CurrentTask,
    program: &Program,
    image: &Image,
    secure: bool,
    vdso: usize,
) -> Result<usize, Errno> {
    for &(start, end) in &image.tails {
        if copy::clear(start, end - start) != end - start {
            return Err(Errno::EFAULT);
        }
    }
    if usize::BITS == 32 {
        task.personality.fetch_or(ADDR_LIMIT_32BIT, Ordering::Relaxed);
    }
    if image.reads_execute {
        task.personality.fetch_or(READ_IMPLIES_EXEC, Ordering::Relaxed);
    }
    let creds = task.creds();
    let (sp, layout, auxv) = stack::build(program, image, &creds, secure, vdso)?;
    image
        .mm
        .update_layout(|old| *old = crate::mm::Layout { vdso, ..layout });
    *image.mm.auxv.lock() = Some(auxv.into());
    Ok(sp)
}

/// Ends all other threads; this one becomes the leader. `EAGAIN`: the process is ending, or another thread
/// called exec first.
fn become_single(task: &CurrentTask) -> Result<(), Errno> {
    let process = &task.process;
    {
        let mut shared = process.signals.lock();
        if shared.group_exit.is_some() || shared.exec.is_some() {
            return Err(Errno::EAGAIN);
        }
        if process.thread_count() == 1 && task.tid() == process.tgid {
            return Ok(());
        }
        shared.exec = Some(task.tid());
        signal::kill_threads(process, Some(task));
    }
    let waited = process
        .exit_wait
        .wait_until_killable(|| process.thread_count() == 1);
    let mut shared = process.signals.lock();
    shared.exec = None;
    if waited.is_err() || shared.group_exit.is_some() {
        return Err(Errno::EAGAIN);
    }
    drop(shared);
    let tid = task.tid();
    if tid != process.tgid {
        patch::unwalked(|| {
            // No other thread is left whose children they could be.
            let tree = TREE.lock();
            let old = ptrace::leader_replaced(task);
            task.take_leaders_number();
            process.children().for_each(|child| child.set_creator(0));
            drop(tree);
            drop(old);
            // Found under its new number before it is gone from the old one: no signal misses it.
            pid::register(task, true);
            let tree = TREE.lock();
            let number = pid::forget_task(tid);
            drop(tree);
            drop(number);
        });
        if task.is_covered() {
            crate::fs::procfs::thread_gone(task);
        }
    }
    Ok(())
}

/// For exec: handlers become the default action, ignored signals stay ignored, pending ones stay pending.
fn reset_signals(task: &CurrentTask, own_actions: Option<Arc<Actions>>) {
    let mut shared = task.process.signals.lock();
    if let Some(own) = own_actions {
        shared.actions = own;
    }
    shared.actions.forget_handlers();
    let mut own = task.signals.lock();
    own.altstack = AltStack::default();
    own.saved = None;
}

fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&b| b == b'/').next().unwrap_or(path)
}

/// The new program's credentials, and whether it must not trust its environment (`AT_SECURE`).
fn new_creds(task: &CurrentTask, program: &Program) -> (Creds, bool) {
    let old = task.creds();
    let mut new = (*old).clone();
    let inode = program.file.inode();
    let no_new_privs = task.flags().contains(TaskFlags::NO_NEW_PRIVS);
    let may_set = |user| program.file.path.mnt.gives_ids(user) && !no_new_privs;
    if inode.mode() & (SET_UID | SET_GID) != 0 && may_set(&old.user) {
        let (mode, uid, gid) = inode.identity();
        // Whoever is no user of the namespace cannot be one's user there.
        let known = user::maps_both(&old.user, uid, gid);
        if known && mode & SET_UID != 0 {
            new.euid = uid;
        }
        if known && mode & (SET_GID | GROUP_EXEC) == SET_GID | GROUP_EXEC {
            new.egid = gid;
        }
    }
    let changed = new.euid != old.euid || new.egid != old.egid;
    let root = new.securebits & securebits::NOROOT == 0 && (new.is_root(new.uid) || new.is_root(new.euid));
    new.permitted = if root { new.bounding | new.inheritable } else { 0 };
    let full = root && new.is_root(new.euid);
    // A program that acts as another than its real user does so no longer, and none gains capabilities.
    let acts_as_other = new.euid != old.uid || new.egid != old.gid;
    let gains = acts_as_other || new.permitted & !old.permitted != 0;
    let watched = !task.trace.may_trace_in(&old.user);
    // Another process could move a privileged program's directories under it, and a tracer that may not trace
    // everybody must not come to trace a program with more rights.
    if gains && (no_new_privs || watched || unshare::shares_fs(task)) {
        if no_new_privs || !old.capable_own(cap::SETUID) {
            new.euid = new.uid;
            new.egid = new.gid;
        }
        new.permitted &= old.permitted;
    }
    new.suid = new.euid;
    new.fsuid = new.euid;
    new.sgid = new.egid;
    new.fsgid = new.egid;
    if changed {
        new.ambient = 0;
    }
    new.permitted |= new.ambient;
    new.effective = if full { new.permitted } else { new.ambient };
    new.securebits &= !securebits::KEEP_CAPS;
    let secure = new.euid != new.uid || new.egid != new.gid || (changed && !new.is_root(new.uid));
    (new, secure)
}
