//! System calls about signals.

use super::SysResult;
use super::time::read_timespec;
use crate::mm::user::{UserPtr, read_bytes, write_bytes};
use crate::signal::{
    self, Action, ActionFlags, AltStack, SigInfo, SigSet, info, mask, parse_signal, shown_flags,
};
use crate::task::pid::{find_group_here, find_process_here, find_task_here};
use crate::task::{self, Process, Task, access, audit, current};
use alloc::sync::Arc;
use limen_linux_abi::Errno;

/// The size of `sigset_t` in bytes; system calls accept no other.
const SET_SIZE: usize = 8;

pub(super) fn check_set_size(size: usize) -> Result<(), Errno> {
    if size == SET_SIZE {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}

/// Whether the running thread may send `sig` to `target`. `EPERM`.
#[inline(always)]
fn may_signal(target: &Arc<Process>, sig: Option<u32>) -> Result<(), Errno> {
    if Arc::ptr_eq(&current().process, target) {
        audit::aims(target);
        return Ok(());
    }
    access::may_signal(target, &target.leaders_creds(), sig)
}

fn my_info(sig: u32, code: i32) -> SigInfo {
    let me = current();
    SigInfo::from_sender(sig, code, me.process.own_tgid, me.creds().uid)
}

/// Sends a signal to a process; 0 only checks. A number that is no signal is reported only if the process
/// exists.
fn kill_process(process: &Arc<Process>, sig: i32, info: Option<SigInfo>) -> Result<(), Errno> {
    let Some(sig) = signal_for(process, sig)? else {
        return Ok(());
    };
    signal::queue_to_process(
        process,
        sig,
        info.unwrap_or_else(|| my_info(sig, info::code::USER)),
    )
}

/// The signal to send to `process`. `None`: 0. `EINVAL`: no such signal; `EPERM`: not allowed.
fn signal_for(process: &Arc<Process>, sig: i32) -> Result<Option<u32>, Errno> {
    let sig = parse_signal(sig)?;
    may_signal(process, sig)?;
    Ok(sig)
}

/// Sends a signal to every process of the group with this number in the caller's namespace. Succeeds if at
/// least one could be signalled.
fn kill_group(id: i32, sig: i32) -> SysResult {
    let group = find_group_here(id).ok_or(Errno::ESRCH)?;
    kill_all(group.sending(), sig, Errno::ESRCH)
}

fn kill_all(processes: impl Iterator<Item = Arc<Process>>, sig: i32, none: Errno) -> SysResult {
    let mut result = Err(none);
    for process in processes {
        let sent = signal_for(&process, sig).and_then(|sig| match sig {
            Some(sig) => signal::queue_to_member(&process, sig, my_info(sig, info::code::USER)),
            None => Ok(()),
        });
        match sent {
            Ok(()) => result = Ok(0),
            Err(e) if result.is_err() => result = Err(e),
            Err(_) => {}
        }
    }
    result
}

/// What `kill` does.
#[inline]
pub fn kill_pid(pid: i32, sig: i32) -> SysResult {
    let me = current();
    if pid == me.process.own_tgid
        && let Some(sig) = parse_signal(sig)?
    {
        audit::aims(&me.process);
        return signal::queue_to_process(&me.process, sig, my_info(sig, info::code::USER)).map(|()| 0);
    }
    kill_others(pid, sig)
}

/// The process of the thread with this id; if the thread has ended, the process that it led and that is a
/// zombie.
fn process_with(id: i32) -> Result<Arc<Process>, Errno> {
    find_process_here(id)
        .or_else(|| find_task_here(id).map(|task| task.process.clone()))
        .ok_or(Errno::ESRCH)
}

#[inline(never)]
fn kill_others(pid: i32, sig: i32) -> SysResult {
    match pid {
        1.. if sig == 0
            && let Some(may) = access::may_signal_leader(pid) =>
        {
            may.map(|()| 0)
        }
        1.. => kill_process(&process_with(pid)?, sig, None).map(|()| 0),
        0 => kill_all(current().process.group().sending(), sig, Errno::ESRCH),
        -1 => {
            let me = current();
            // The first process of the caller's namespace is left out, and who is not seen from there.
            let others = task::everyone::sending()
                .filter(|process| process.tgid != me.tgid() && process.number_in(me.pid_ns()) > 1);
            kill_all(others, sig, Errno::ESRCH)
        }
        i32::MIN => Err(Errno::ESRCH),
        _ => kill_group(-pid, sig),
    }
}

fn find_thread(tgid: i32, tid: i32) -> Result<Arc<Task>, Errno> {
    if tid <= 0 || tgid == 0 || tgid < -1 {
        return Err(Errno::EINVAL);
    }
    let task = find_task_here(tid).ok_or(Errno::ESRCH)?;
    if tgid > 0 && task.process.number_in(current().pid_ns()) != tgid {
        Err(Errno::ESRCH)
    } else {
        Ok(task)
    }
}

/// A process can be found by its leader's number until a parent has waited for it, and then the leader can be
/// sent signals, too.
#[cold]
fn kill_ended_leader(tgid: i32, tid: i32, sig: i32) -> SysResult {
    let process = find_process_here(tid).filter(|_| tgid < 0 || tgid == tid);
    let process = process.ok_or(Errno::ESRCH)?;
    if let Some(sig) = signal_for(&process, sig)? {
        signal::send_to_ended_leader(&process, sig);
    }
    Ok(0)
}

fn kill_thread(tgid: i32, tid: i32, sig: i32, info: Option<SigInfo>) -> SysResult {
    let task = match find_thread(tgid, tid) {
        Err(Errno::ESRCH) => return kill_ended_leader(tgid, tid, sig),
        found => found?,
    };
    let sig = parse_signal(sig)?;
    access::may_signal(&task.process, &task.creds(), sig)?;
    if let Some(sig) = sig {
        signal::queue_to_task(
            &task,
            sig,
            info.unwrap_or_else(|| my_info(sig, info::code::TKILL)),
        )?;
    }
    Ok(0)
}

/// What a process sends must not look like from the kernel nor, unless it is sent to the running thread
/// itself, like from `kill`.
fn check_code(info: &SigInfo, to_self: bool) -> Result<(), Errno> {
    if (info.code() >= 0 || info.code() == info::code::TKILL) && !to_self {
        return Err(Errno::EPERM);
    }
    Ok(())
}

fn read_action(at: usize) -> Result<Action, Errno> {
    let raw: [usize; 3] = UserPtr::new(at).read()?;
    let mask: u64 = UserPtr::new(at + size_of::<[usize; 3]>()).read()?;
    Ok(Action {
        handler: raw[0],
        flags: ActionFlags::of(raw[1] as u32),
        restorer: raw[2],
        mask: SigSet(mask),
    })
}

fn write_action(at: usize, action: &Action) -> Result<(), Errno> {
    UserPtr::new(at).write([action.handler, action.flags.shown() as usize, action.restorer])?;
    UserPtr::new(at + size_of::<[usize; 3]>()).write(action.mask.0)
}

/// `rt_sigqueueinfo`.
pub(super) fn queue_info(tgid: i32, sig: i32, mut info: SigInfo) -> SysResult {
    info.mean_ids();
    check_code(&info, tgid == current().own_tid())?;
    kill_process(&process_with(tgid)?, sig, Some(info)).map(|()| 0)
}

/// `rt_tgsigqueueinfo`.
pub(super) fn queue_info_to_thread((tgid, tid): (i32, i32), sig: i32, mut info: SigInfo) -> SysResult {
    info.mean_ids();
    if tgid <= 0 || tid <= 0 {
        return Err(Errno::EINVAL);
    }
    check_code(&info, tid == current().own_tid())?;
    kill_thread(tgid, tid, sig, Some(info))
}

/// `pidfd_send_signal`. `read` reads the program's details of a signal.
pub(super) fn send_by_pidfd(
    fd: i32,
    sig: i32,
    info: usize,
    flags: u32,
    read: impl FnOnce(usize, u32) -> Result<SigInfo, Errno>,
) -> SysResult {
    if flags & !7 != 0 || flags.count_ones() > 1 {
        return Err(Errno::EINVAL);
    }
    let process = task::pidfd::signal_target(fd)?;
    if !task::ns::pid::is_below(&process.pid_ns, current().pid_ns()) {
        return Err(Errno::EINVAL);
    }
    let info = match info {
        0 => None,
        at => {
            let mut info = read(at, sig as u32)?;
            info.mean_ids();
            let mut stated = [0; 4];
            read_bytes(&mut stated, at)?;
            if i32::from_ne_bytes(stated) != sig {
                return Err(Errno::EINVAL);
            }
            check_code(&info, process.tgid == current().tid())?;
            Some(info)
        }
    };
    if process.exit_state() == task::ExitState::Dead {
        return Err(Errno::ESRCH);
    }
    // PIDFD_SIGNAL_PROCESS_GROUP.
    if flags & 4 != 0 {
        return kill_all(process.group().sending(), sig, Errno::ESRCH);
    }
    kill_process(&process, sig, info).map(|()| 0)
}

crate::syscalls! {
    fn rt_sigaction(sig: i32, new: usize, old: usize, size: usize) {
        check_set_size(size)?;
        let new = if new == 0 { None } else { Some(read_action(new)?) };
        let sig = parse_signal(sig)?.ok_or(Errno::EINVAL)?;
        let previous = mask::action(sig, new)?;
        if old != 0 {
            write_action(old, &previous)?;
        }
        Ok(0)
    }

    fn rt_sigprocmask(how: i32, new: UserPtr<u64>, old: UserPtr<u64>, size: usize) {
        check_set_size(size)?;
        let task = current();
        let blocked = task.signals.lock().blocked;
        if let Some(new) = new.non_null() {
            let set = SigSet(new.read()?);
            signal::set_mask(&task, match how {
                0 => blocked.or(set),
                1 => blocked.minus(set),
                2 => set,
                _ => return Err(Errno::EINVAL),
            });
        }
        if let Some(old) = old.non_null() {
            old.write(blocked.0)?;
        }
        Ok(0)
    }

    fn rt_sigpending(set: usize, size: usize) {
        if size > SET_SIZE {
            return Err(Errno::EINVAL);
        }
        if size > 0 {
            write_bytes(set, &mask::pending().0.to_ne_bytes()[..size])?;
        }
        Ok(0)
    }

    fn rt_sigtimedwait/rt_sigtimedwait_time64(set: UserPtr<u64>, at: usize, timeout: UserPtr<[Time; 2]>,
        size: usize) {
        check_set_size(size)?;
        let set = SigSet(set.read()?);
        let deadline = match timeout.non_null() {
            None => None,
            Some(timeout) => Some(crate::time::now_ns().saturating_add(read_timespec(timeout)?)),
        };
        let info = mask::timed_wait(set, deadline)?;
        if at != 0 {
            info.write_to(at)?;
        }
        Ok(info.signal() as usize)
    }

    fn rt_sigsuspend(set: UserPtr<u64>, size: usize) {
        check_set_size(size)?;
        mask::suspend(SigSet(set.read()?))
    }

    fn pause() { mask::pause() }

    fn rt_sigreturn(call: &mut Call) {
        signal::sigreturn(call.frame);
        // The frame is complete: its result register has the value from before the signal.
        Ok(call.frame.result())
    }

    fn sigaltstack(call: &mut Call, new: usize, old: usize) {
        let task = current();
        let sp = call.frame.sp();
        let previous = task.signals.lock().altstack;
        if new != 0 {
            let raw: [usize; 3] = UserPtr::new(new).read()?;
            let stack = AltStack { sp: raw[0], flags: raw[1] as u32, size: raw[2] };
            task.signals.lock().set_altstack(stack, sp)?;
        }
        if old != 0 {
            let flags = shown_flags(&previous, sp);
            UserPtr::new(old).write([previous.sp, flags as usize, previous.size])?;
        }
        Ok(0)
    }

    fn kill(pid: i32, sig: i32) { kill_pid(pid, sig) }

    fn tkill(tid: i32, sig: i32) { kill_thread(-1, tid, sig, None) }

    fn tgkill(tgid: i32, tid: i32, sig: i32) {
        if tgid <= 0 { return Err(Errno::EINVAL); }
        kill_thread(tgid, tid, sig, None)
    }

    fn rt_sigqueueinfo(tgid: i32, sig: i32, info: usize) {
        queue_info(tgid, sig, SigInfo::read_from(info, sig as u32)?)
    }

    fn rt_tgsigqueueinfo(tgid: i32, tid: i32, sig: i32, info: usize) {
        queue_info_to_thread((tgid, tid), sig, SigInfo::read_from(info, sig as u32)?)
    }

    fn pidfd_send_signal(fd: i32, sig: i32, info: usize, flags: u32) {
        send_by_pidfd(fd, sig, info, flags, SigInfo::read_from)
    }

    fn signalfd(fd: i32, set: UserPtr<u64>, size: usize) {
        check_set_size(size)?;
        crate::fs::signalfd::open(fd, SigSet(set.read()?), 0)
    }

    fn signalfd4(fd: i32, set: UserPtr<u64>, size: usize, flags: u32) {
        check_set_size(size)?;
        crate::fs::signalfd::open(fd, SigSet(set.read()?), flags)
    }

    fn restart_syscall() {
        let function = current().restart.take();
        match function {
            Some(function) => function(),
            None => Err(Errno::EINTR),
        }
    }
}
