//! System calls about threads and processes: making, ending, waiting, groups and sessions, limits and usage.

use super::SysResult;
use crate::arch::index;
use crate::fs::fdtable;
use crate::fs::lookup::AT_FDCWD;
use crate::mm::reserve::room_exact;
use crate::mm::user::{UserPtr, check, read_bytes};
use crate::signal;
use crate::task::access::By;
use crate::task::fork::{self, CloneArgs, CloneFlags};
use crate::task::ns::user::uid_shown;
use crate::task::rlimit::{self, Limit};
use crate::task::unshare;
use crate::task::wait::{self, Report, WaitOptions, Which};
use crate::task::{self, Process, Usage, creds::cap, current, exec, exit, group, ns, pidfd};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use limen_linux_abi::{Errno, raw::general as abi};

pub(super) fn clone_from_registers(call: &mut super::Call<'_>, args: [usize; 5]) -> SysResult {
    fork::kernel_clone(call.frame, &clone_args(args))
}

/// `get_robust_list` of thread `tid`, of whose lists `which` takes one. `ESRCH`, `EPERM`.
#[inline(always)]
pub(super) fn robust_list_of<T>(tid: i32, which: impl Fn(&task::Task) -> T) -> Result<T, Errno> {
    let target = match tid {
        0 => current().clone(),
        _ => task::pid::find_task_here(tid).ok_or(Errno::ESRCH)?,
    };
    task::access::look(&target, By::Real, |_| which(&target))
}

/// The arguments of `clone`.
#[inline(always)]
pub(super) fn clone_args(args: [usize; 5]) -> CloneArgs {
    let [flags, stack, parent_tid, fourth, fifth] = args;
    let (tls, child_tid) = if crate::arch::CLONE_BACKWARDS {
        (fourth, fifth)
    } else {
        (fifth, fourth)
    };
    let mut clone_flags = CloneFlags::from_bits_truncate(flags as u64 & 0xffff_ff00);
    let exit_signal = (flags & 0xff) as i32;
    if !clone_flags.contains(CloneFlags::PIDFD) {
        clone_flags.remove(CloneFlags::DETACHED);
    }
    CloneArgs {
        flags: clone_flags,
        pidfd: parent_tid,
        child_tid,
        parent_tid,
        exit_signal,
        stack,
        tls,
        segment: None,
        tids: Vec::new(),
    }
}

/// `clone3`.
pub(super) fn clone_from_memory(call: &mut super::Call<'_>, at: usize, size: usize) -> SysResult {
    let args = read_clone_args(at, size)?;
    fork::kernel_clone(call.frame, &args)
}

/// `struct clone_args`, in the size that the program passed.
pub(super) fn read_clone_args(at: usize, size: usize) -> Result<CloneArgs, Errno> {
    const WORDS: usize = 11;
    if size > crate::mm::PAGE_SIZE {
        return Err(Errno::E2BIG);
    }
    if size < 64 {
        return Err(Errno::EINVAL);
    }
    let mut bytes = [0; WORDS * 8];
    let known = size.min(bytes.len());
    check_zero(at.wrapping_add(known), size - known)?;
    read_bytes(&mut bytes[..known], at)?;
    let word = |n: usize| {
        let mut b = [0; 8];
        b.copy_from_slice(&bytes[n * 8..n * 8 + 8]);
        u64::from_ne_bytes(b)
    };
    let (stack, stack_size) = (word(5) as usize, word(6) as usize);
    let flags = CloneFlags::from_bits_retain(word(0));
    let exit_signal = word(4);
    let tids = word(9);
    if tids > CloneArgs::MOST_TIDS as u64
        || (word(8) == 0) != (tids == 0)
        || exit_signal > u64::from(signal::NSIG)
        || flags.contains(CloneFlags::INTO_CGROUP) && (size < bytes.len() || word(10) > i32::MAX as u64)
    {
        return Err(Errno::EINVAL);
    }
    let mut chosen = Vec::new();
    room_exact(&mut chosen, tids as usize)?;
    for n in 0..tids as usize {
        chosen.push(UserPtr::<i32>::new(word(8) as usize).add(n).read()?);
    }
    if word(0) & 0xff & !CloneFlags::NEWTIME.bits() != 0
        || CloneFlags::from_bits(word(0)).is_none()
        || flags.contains(CloneFlags::DETACHED)
        || flags.intersects(CloneFlags::THREAD | CloneFlags::PARENT) && exit_signal != 0
        || (stack == 0) != (stack_size == 0)
    {
        return Err(Errno::EINVAL);
    }
    if stack != 0 {
        check(stack, stack_size).map_err(|_| Errno::EINVAL)?;
    }
    Ok(CloneArgs {
        flags,
        pidfd: word(1) as usize,
        child_tid: word(2) as usize,
        parent_tid: word(3) as usize,
        exit_signal: exit_signal as i32,
        stack: stack.wrapping_add(stack_size),
        tls: word(7) as usize,
        segment: None,
        tids: chosen,
    })
}

/// `E2BIG` unless the part of a structure that this kernel does not know is zero.
fn check_zero(mut at: usize, mut len: usize) -> Result<(), Errno> {
    let mut chunk = [0; 64];
    while len > 0 {
        let n = len.min(chunk.len());
        read_bytes(&mut chunk[..n], at)?;
        if chunk[..n].iter().any(|&b| b != 0) {
            return Err(Errno::E2BIG);
        }
        at += n;
        len -= n;
    }
    Ok(())
}

/// `struct rusage` as 18 machine words.
pub(super) fn rusage_words(usage: &Usage) -> [usize; 18] {
    let mut words = [0; 18];
    let micros = |ns: u64| {
        [
            (ns / 1_000_000_000) as usize,
            (ns % 1_000_000_000 / 1000) as usize,
        ]
    };
    words[..2].copy_from_slice(&micros(usage.user_ns));
    words[2..4].copy_from_slice(&micros(usage.system_ns));
    words[4] = (usage.max_rss as usize) << (crate::mm::PAGE_SHIFT - 10);
    words[8] = usage.minor_faults as usize;
    words[9] = usage.major_faults as usize;
    words[16] = usage.voluntary_switches as usize;
    words[17] = usage.involuntary_switches as usize;
    words
}

fn write_rusage(at: UserPtr<[usize; 18]>, usage: &Usage) -> Result<(), Errno> {
    match at.non_null() {
        Some(at) => at.write(rusage_words(usage)),
        None => Ok(()),
    }
}

/// What nothing has as its number.
const NOTHING: i32 = -1;

/// The process with this number in the caller's namespace.
fn process_here(pid: i32) -> Which {
    match task::pid::in_ns(current().pid_ns(), pid) {
        0 => Which::Pid(NOTHING),
        pid => Which::Pid(pid),
    }
}

/// The group with this number in the caller's namespace.
fn group_here(id: i32) -> Which {
    match task::pid::in_ns(current().pid_ns(), id) {
        0 => Which::Group(NOTHING),
        id => Which::Group(id),
    }
}

/// Waits as `wait4` and `waitpid` do.
pub(super) fn wait_for(pid: i32, options: WaitOptions) -> Result<Option<Report>, Errno> {
    if options.intersects(WaitOptions::EXITED | WaitOptions::NOWAIT) {
        return Err(Errno::EINVAL);
    }
    let which = match pid {
        i32::MIN => return Err(Errno::ESRCH),
        -1 => Which::Any,
        0 => Which::Group(current().process.pgrp()),
        1.. => process_here(pid),
        _ => group_here(-pid),
    };
    wait::wait(&which, options | WaitOptions::EXITED)
}

/// Waits as `waitid` does.
pub(super) fn wait_id(kind: u32, id: i32, options: u32) -> Result<Option<Report>, Errno> {
    let mut options = WaitOptions::from_bits(options).ok_or(Errno::EINVAL)?;
    if !options.intersects(WaitOptions::EXITED | WaitOptions::STOPPED | WaitOptions::CONTINUED) {
        return Err(Errno::EINVAL);
    }
    let mut nonblocking = false;
    let which = match kind {
        0 => Which::Any,
        1 if id > 0 => process_here(id),
        2 if id > 0 => group_here(id),
        2 if id == 0 => Which::Group(current().process.pgrp()),
        3 if id >= 0 => {
            let (process, mode) = pidfd::process_and_mode(id)?;
            nonblocking = mode && !options.contains(WaitOptions::NOHANG);
            Which::Process(process)
        }
        _ => return Err(Errno::EINVAL),
    };
    if nonblocking {
        options |= WaitOptions::NOHANG;
    }
    match wait::wait(&which, options)? {
        None if nonblocking => Err(Errno::EAGAIN),
        report => Ok(report),
    }
}

/// Where the details of a `siginfo_t` begin, in bytes.
const DETAILS: usize = if size_of::<usize>() == 8 { 16 } else { 12 };

/// Writes what `waitid` reports. `union`: where the details begin.
pub(super) fn write_wait_info(at: usize, union: usize, report: Option<&Report>) -> Result<(), Errno> {
    if at == 0 {
        return Ok(());
    }
    // si_signo, si_errno, si_code, then pid, uid and status from the start of the union. As on Linux, other
    // fields are not written.
    let (head, body) = match report {
        Some(r) => (
            [signal::SIGCHLD as i32, 0, r.code],
            [r.pid, uid_shown(r.uid) as i32, r.value],
        ),
        None => ([0; 3], [0; 3]),
    };
    UserPtr::new(at).write(head)?;
    UserPtr::new(at + union).write(body)
}

pub(super) fn limit_of(which: u32) -> Result<usize, Errno> {
    if (which as usize) < rlimit::COUNT {
        Ok(index::within::<{ rlimit::COUNT }>(which as usize))
    } else {
        Err(Errno::EINVAL)
    }
}

/// Changes a limit of `process` after the checks.
pub(super) fn change_limit(process: &Process, which: usize, new: Limit) -> Result<(), Errno> {
    if new.soft > new.hard {
        return Err(Errno::EINVAL);
    }
    if which == rlimit::which::NOFILE && new.hard > fdtable::nr_open() as u64 {
        return Err(Errno::EPERM);
    }
    if new.hard > process.limits.get(which).hard && !current().creds().capable(cap::SYS_RESOURCE) {
        return Err(Errno::EPERM);
    }
    process.limits.set(which, new);
    Ok(())
}

/// The process to which `prlimit64` applies, if the caller may read and set its limits.
fn limits_target(pid: i32) -> Result<Arc<Process>, Errno> {
    let me = current();
    if pid == 0 || pid == me.process.own_tgid {
        return Ok(me.process.clone());
    }
    let task = task::pid::find_task_here(pid).ok_or(Errno::ESRCH)?;
    let (mine, theirs) = (me.creds(), task.creds());
    let same = [theirs.euid, theirs.suid, theirs.uid]
        .iter()
        .all(|&id| id == mine.uid)
        && [theirs.egid, theirs.sgid, theirs.gid]
            .iter()
            .all(|&id| id == mine.gid);
    if same || mine.capable_in(&theirs.user, cap::SYS_RESOURCE) {
        Ok(task.process.clone())
    } else {
        Err(Errno::EPERM)
    }
}

/// What `getrusage` tells of `who`.
pub(super) fn usage_of(who: i32) -> Result<Usage, Errno> {
    let task = current();
    let mut usage = match who {
        0 => task.process.usage(),
        -1 => *task.process.dead_children.lock(),
        1 => Usage::of_task(&task),
        _ => return Err(Errno::EINVAL),
    };
    if who != -1
        && let Some(mm) = task.mm()
    {
        usage.max_rss = usage.max_rss.max(mm.usage().peak_rss as u64);
    }
    Ok(usage)
}

/// The clock ticks (1/100 s) of the process and of its children, in user mode and in the kernel.
pub(super) fn ticks() -> [usize; 4] {
    let task = current();
    let own = task.process.usage();
    let children = *task.process.dead_children.lock();
    [
        own.user_ticks(),
        own.system_ticks(),
        children.user_ticks(),
        children.system_ticks(),
    ]
}

/// What `times` returns.
pub(super) fn ticks_since_boot() -> usize {
    (crate::time::now_ns() / 10_000_000) as usize
}

crate::syscalls! {
    fn fork(call: &mut Call) { fork::kernel_clone(call.frame, &CloneArgs::fork()) }

    fn vfork(call: &mut Call) {
        let flags = CloneFlags::VFORK | CloneFlags::VM;
        fork::kernel_clone(call.frame, &CloneArgs { flags, ..CloneArgs::fork() })
    }

    fn clone(call: &mut Call, a: usize, b: usize, c: usize, d: usize, e: usize) {
        clone_from_registers(call, [a, b, c, d, e])
    }

    fn clone3(call: &mut Call, args: usize, size: usize) {
        clone_from_memory(call, args, size)
    }

    fn unshare(flags: usize) {
        let flags = CloneFlags::from_bits(flags as u64).ok_or(Errno::EINVAL)?;
        unshare::unshare(flags)
    }

    fn setns(fd: i32, kind: u32) {
        ns::change::setns(fd, kind.into())
    }

    fn execve(call: &mut Call, path: usize, argv: usize, envp: usize) {
        exec::do_execveat::<usize>(call.frame, AT_FDCWD, path, argv, envp, 0)
    }

    fn execveat(call: &mut Call, dirfd: i32, path: usize, argv: usize, envp: usize, flags: u32) {
        exec::do_execveat::<usize>(call.frame, dirfd, path, argv, envp, flags)
    }

    fn exit(code: i32) { exit::exit_thread(exit::status_of_exit(code)) }

    fn exit_group(code: i32) { exit::exit_group(code) }

    fn wait4(pid: i32, status: UserPtr<i32>, options: u32, usage: UserPtr<[usize; 18]>) {
        let options = WaitOptions::from_bits(options).ok_or(Errno::EINVAL)?;
        let Some(report) = wait_for(pid, options)? else { return Ok(0) };
        if let Some(status) = status.non_null() {
            status.write(report.status)?;
        }
        write_rusage(usage, &report.usage)?;
        Ok(report.pid as usize)
    }

    fn waitid(kind: u32, id: i32, info: usize, options: u32, usage: UserPtr<[usize; 18]>) {
        let report = wait_id(kind, id, options);
        if let Ok(Some(report)) = &report {
            write_rusage(usage, &report.usage)?;
        }
        // Also written if there is nothing to report, and after an error.
        write_wait_info(info, DETAILS, report.as_ref().ok().and_then(Option::as_ref))?;
        report.map(|_| 0)
    }

    fn getpid() { Ok(current().process.own_tgid as usize) }
    fn gettid() { Ok(current().own_tid() as usize) }
    fn getppid() {
        let me = current();
        Ok(me.process.ppid_in(me.pid_ns()) as usize)
    }
    fn getpgrp() {
        let me = current();
        Ok(me.process.pgrp_in(me.pid_ns()) as usize)
    }
    fn getpgid(pid: i32) { Ok(group::process_or_self(pid)?.pgrp_in(current().pid_ns()) as usize) }
    fn getsid(pid: i32) { Ok(group::process_or_self(pid)?.sid_in(current().pid_ns()) as usize) }
    fn setsid() { group::setsid() }
    fn setpgid(pid: i32, pgid: i32) { group::setpgid(pid, pgid) }

    fn set_tid_address(at: usize) {
        let task = current();
        task.clear_child_tid.store(at, Ordering::Relaxed);
        Ok(task.own_tid() as usize)
    }

    fn pidfd_open(pid: i32, flags: u32) {
        // PIDFD_NONBLOCK and PIDFD_THREAD (which this kernel does not have).
        if flags & !abi::O_NONBLOCK != 0 || pid <= 0 {
            return Err(Errno::EINVAL);
        }
        let process = task::pid::find_process_here(pid).ok_or(match task::pid::find_task_here(pid) {
            Some(_) => Errno::EINVAL,
            None => Errno::ESRCH,
        })?;
        Ok(pidfd::open(&process, flags & abi::O_NONBLOCK)? as usize)
    }

    fn pidfd_getfd(fd: i32, target: i32, flags: u32) {
        if flags != 0 { return Err(Errno::EINVAL); }
        let process = pidfd::process_of(fd)?;
        let leader = process.leader().ok_or(Errno::ESRCH)?;
        let file = task::access::look(&leader, By::Real, |_| {
            leader.try_files().ok_or(Errno::ESRCH)?.get_any(target)
        })??;
        Ok(current().files().install(file, true)? as usize)
    }

    fn getrlimit(which: u32, at: UserPtr<[usize; 2]>) {
        let limit = current().process.limits.get(limit_of(which)?);
        // A value that does not fit is shown as unlimited.
        at.write([limit.soft, limit.hard].map(|n| usize::try_from(n).unwrap_or(usize::MAX)))?;
        Ok(0)
    }

    fn setrlimit(which: u32, at: UserPtr<[usize; 2]>) {
        let [soft, hard] = at.read()?.map(|n| if n == usize::MAX { u64::MAX } else { n as u64 });
        let which = limit_of(which)?;
        change_limit(&current().process, which, Limit { soft, hard })?;
        Ok(0)
    }

    fn prlimit64(pid: i32, which: u32, new: UserPtr<[u64; 2]>, old: UserPtr<[u64; 2]>) {
        let new = match new.non_null() { Some(new) => Some(new.read()?), None => None };
        let process = limits_target(pid)?;
        let which = limit_of(which)?;
        let previous = process.limits.get(which);
        if let Some([soft, hard]) = new {
            change_limit(&process, which, Limit { soft, hard })?;
        }
        if let Some(old) = old.non_null() {
            old.write([previous.soft, previous.hard])?;
        }
        Ok(0)
    }

    fn getrusage(who: i32, at: UserPtr<[usize; 18]>) {
        at.write(rusage_words(&usage_of(who)?))?;
        Ok(0)
    }

    fn times(at: UserPtr<[usize; 4]>) {
        if let Some(at) = at.non_null() {
            at.write(ticks())?;
        }
        Ok(ticks_since_boot())
    }

    fn get_robust_list(tid: i32, head: UserPtr<usize>, size: UserPtr<usize>) {
        let list = robust_list_of(tid, |task| task.robust_list.load(Ordering::Relaxed))?;
        size.write(3 * size_of::<usize>())?;
        head.write(list)?;
        Ok(0)
    }

    fn set_robust_list(head: usize, size: usize) {
        if size != 3 * size_of::<usize>() { return Err(Errno::EINVAL); }
        current().robust_list.store(head, Ordering::Relaxed);
        Ok(0)
    }

    fn ptrace(request: isize, pid: i32, addr: usize, data: usize) {
        crate::ptrace::ptrace(request, pid, addr, data)
    }

    fn kcmp(pid1: i32, pid2: i32, kind: u32, a: usize,
        b: usize) { task::access::compare(pid1, pid2, kind, a, b) }

    fn process_mrelease(fd: i32, flags: u32) {
        if flags != 0 { return Err(Errno::EINVAL); }
        let process = pidfd::process_of(fd)?;
        if process.signals.lock().group_exit.is_none() { return Err(Errno::EINVAL); }
        Ok(0)
    }
}
