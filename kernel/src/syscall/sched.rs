//! System calls about scheduling.

use super::SysResult;
use super::time::write_timespec;
use crate::mm::reserve::room;
use crate::mm::user::{UserPtr, Word, read_bytes, write_bytes};
use crate::sched::{self, CpuSet, Policy, online, policy};
use crate::sync::MAX_CPUS;
use crate::task::creds::{Creds, cap};
use crate::task::ns::user;
use crate::task::pid::{self, find_task_here};
use crate::task::rlimit::which::{NICE, RTPRIO};
use crate::task::{Task, all_processes, current};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use limen_linux_abi::Errno;

const SCHED_RESET_ON_FORK: u32 = 0x4000_0000;
/// `SCHED_FLAG_RESET_ON_FORK`, `KEEP_POLICY`, `KEEP_PARAMS` of `sched_setattr`.
const FLAG_RESET: u64 = 1;
const FLAG_KEEP_POLICY: u64 = 8;
const FLAG_KEEP_PARAMS: u64 = 16;

fn target(pid: i32) -> Result<Arc<Task>, Errno> {
    match pid {
        0 => Ok((*current()).clone()),
        n if n < 0 => Err(Errno::EINVAL),
        n => find_task_here(n).ok_or(Errno::ESRCH),
    }
}

/// [`target`] for calls that treat a negative number like the id of a thread that does not exist.
fn found(pid: i32) -> Result<Arc<Task>, Errno> {
    if pid < 0 { Err(Errno::ESRCH) } else { target(pid) }
}

/// What `look` sees of the thread with this id, or of the caller (0). The thread is not counted: `look` must
/// be short and take no locks. `ESRCH`.
fn seen<R>(pid: i32, look: impl FnOnce(&Task) -> R) -> Result<R, Errno> {
    match pid {
        0 => Ok(look(&current())),
        n if current().pid_ns().is_some() => Ok(look(&*find_task_here(n).ok_or(Errno::ESRCH)?)),
        n => pid::with_task(n, |task, _| look(task)).ok_or(Errno::ESRCH),
    }
}

/// Whether the running thread may change the scheduling of `task`: they have the same owner, or it is
/// privileged.
fn may_change(task: &Task) -> bool {
    let me = current().creds();
    let other = task.creds();
    has_same_owner(&me, &other) || me.capable_in(&other.user, cap::SYS_NICE)
}

fn has_same_owner(me: &Creds, other: &Creds) -> bool {
    me.euid == other.euid || me.euid == other.uid
}

/// Sets policy and parameters under Linux's rules for permissions. `None` keeps the policy.
fn set_scheduler(task: &Task, new: Option<u32>, priority: i32, nice: Option<i32>) -> SysResult {
    let (new_policy, reset) = match new {
        Some(n) => {
            let policy = Policy::from_number(n & !SCHED_RESET_ON_FORK).ok_or(Errno::EINVAL)?;
            (policy, n & SCHED_RESET_ON_FORK != 0)
        }
        None => (task.sched.policy(), policy::reset_on_fork(task)),
    };
    if new_policy.is_realtime() != (priority != 0) || !(0..=99).contains(&priority) {
        return Err(Errno::EINVAL);
    }
    // Under other policies the nice value stays as it was set.
    let nice = nice
        .filter(|_| matches!(new_policy, Policy::Normal | Policy::Batch))
        .unwrap_or(task.sched.nice());
    if !current().creds().capable(cap::SYS_NICE) {
        if !has_same_owner(&current().creds(), &task.creds()) {
            return Err(Errno::EPERM);
        }
        let limit = task.process.limits.soft(RTPRIO);
        let raises = priority > i32::from(task.sched.rt_priority());
        if new_policy.is_realtime() {
            if new_policy != task.sched.policy() && limit == 0 || raises && priority as u64 > limit {
                return Err(Errno::EPERM);
            }
        } else if nice < task.sched.nice() && !nice_allowed(task, nice) {
            return Err(Errno::EPERM);
        }
        if task.sched.policy() == Policy::Idle
            && new_policy != Policy::Idle
            && !nice_allowed(task, task.sched.nice())
        {
            return Err(Errno::EPERM);
        }
        if policy::reset_on_fork(task) && !reset {
            return Err(Errno::EPERM);
        }
    }
    policy::set_policy(task, new_policy, priority as u8, nice, reset);
    Ok(0)
}

/// `RLIMIT_NICE`: 20 - nice must not be larger.
pub(super) fn nice_allowed(task: &Task, nice: i32) -> bool {
    (20 - nice) as u64 <= task.process.limits.soft(NICE)
}

fn policy_number(task: &Task) -> u32 {
    task.sched.policy() as u32
        | if policy::reset_on_fork(task) {
            SCHED_RESET_ON_FORK
        } else {
            0
        }
}

/// `which` of `setpriority` and `getpriority`.
const PRIO_PROCESS: i32 = 0;

/// The threads that `setpriority` and `getpriority` name: the leader of a process, those of a group, or those
/// of a user.
fn by_who(which: i32, who: i32) -> Result<Vec<Arc<Task>>, Errno> {
    const PRIO_PGRP: i32 = 1;
    const PRIO_USER: i32 = 2;
    let me = current();
    let mut found = Vec::new();
    match which {
        PRIO_PROCESS => found.push(if who == 0 {
            (*me).clone()
        } else {
            find_task_here(who).ok_or(Errno::ESRCH)?
        }),
        PRIO_PGRP => {
            let group = match who {
                0 => me.process.group(),
                _ => pid::find_group_here(who).ok_or(Errno::ESRCH)?,
            };
            for process in all_processes().filter(|process| process.pgrp() == group.id) {
                for thread in process.threads() {
                    room(&mut found, 1)?;
                    found.push(thread);
                }
            }
        }
        PRIO_USER => {
            let uid = if who == 0 {
                me.creds().uid
            } else {
                user::uid_meant(who as u32).map_err(|_| Errno::ESRCH)?
            };
            for process in all_processes().filter(|process| process.number_in(me.pid_ns()) != 0) {
                for thread in process.threads().filter(|t| t.creds().uid == uid) {
                    room(&mut found, 1)?;
                    found.push(thread);
                }
            }
        }
        _ => return Err(Errno::EINVAL),
    }
    if found.is_empty() {
        Err(Errno::ESRCH)
    } else {
        Ok(found)
    }
}

/// The I/O priority of a thread for which none was set: the class (3 bits from bit 13 on) follows from its
/// policy, the level from its nice value.
fn io_priority_of_nice(task: &Task) -> u32 {
    let class = match task.sched.policy() {
        Policy::Fifo | Policy::RoundRobin => 1,
        Policy::Idle => 3,
        _ => 2,
    };
    class << 13 | ((task.sched.nice() + 20) / 5) as u32
}

/// The size in bytes of a set with all CPUs: whole machine words.
fn set_bytes() -> usize {
    sched::online().count().div_ceil(usize::BITS as usize) * size_of::<usize>()
}

/// `sched_getaffinity` where masks have words of type `W`. Returns the bytes it has written.
pub(super) fn affinity<W: Word>(pid: i32, len: usize, mask: usize) -> SysResult {
    if !len.is_multiple_of(size_of::<W>()) || len < sched::online().count().div_ceil(8) {
        return Err(Errno::EINVAL);
    }
    let set = seen(pid, |task| task.sched.affinity())?.and(online());
    let n = set_bytes().min(len);
    write_bytes(mask, &set.bits().to_le_bytes()[..n])?;
    Ok(n)
}

crate::syscalls! {
    fn sched_yield() {
        sched::yield_now();
        Ok(0)
    }

    fn sched_setscheduler(pid: i32, policy: i32, param: UserPtr<i32>) {
        if policy < 0 || param.is_null() || pid < 0 {
            return Err(Errno::EINVAL);
        }
        let priority = param.read()?;
        set_scheduler(&*target(pid)?, Some(policy as u32), priority, None)
    }

    fn sched_getscheduler(pid: i32) {
        if pid < 0 {
            return Err(Errno::EINVAL);
        }
        Ok(seen(pid, policy_number)? as usize)
    }

    fn sched_setparam(pid: i32, param: UserPtr<i32>) {
        if param.is_null() || pid < 0 {
            return Err(Errno::EINVAL);
        }
        let priority = param.read()?;
        set_scheduler(&*target(pid)?, None, priority, None)
    }

    fn sched_getparam(pid: i32, param: UserPtr<i32>) {
        if param.is_null() || pid < 0 {
            return Err(Errno::EINVAL);
        }
        param.write(i32::from(seen(pid, |task| task.sched.rt_priority())?))?;
        Ok(0)
    }

    fn sched_setattr(pid: i32, attr: usize, flags: u32) {
        // struct sched_attr: size, policy, flags (64), nice, priority, then deadline parameters.
        const SIZE_VER0: u32 = 48;
        if attr == 0 || pid < 0 || flags != 0 {
            return Err(Errno::EINVAL);
        }
        let size = match UserPtr::<u32>::new(attr).read()? {
            0 => SIZE_VER0,
            n => n,
        };
        if size < SIZE_VER0 || size as usize > crate::mm::PAGE_SIZE {
            let _ = UserPtr::<u32>::new(attr).write(56);
            return Err(Errno::E2BIG);
        }
        // Fields that this kernel does not know must be zero.
        for at in (56..size as usize).map(|n| attr + n) {
            if UserPtr::<u8>::new(at).read()? != 0 {
                let _ = UserPtr::<u32>::new(attr).write(56);
                return Err(Errno::E2BIG);
            }
        }
        let [_, number] = UserPtr::<[u32; 2]>::new(attr).read()?;
        let bits = UserPtr::<u64>::new(attr + 8).read()?;
        let nice = UserPtr::<i32>::new(attr + 16).read()?;
        let priority = UserPtr::<u32>::new(attr + 20).read()?;
        if bits & !(FLAG_RESET | FLAG_KEEP_POLICY | FLAG_KEEP_PARAMS) != 0 || (number as i32) < 0 {
            return Err(Errno::EINVAL);
        }
        let task = target(pid)?;
        let reset = if bits & FLAG_RESET != 0 { SCHED_RESET_ON_FORK } else { 0 };
        let number = if bits & FLAG_KEEP_POLICY != 0 { task.sched.policy() as u32 } else { number };
        let (priority, nice) = if bits & FLAG_KEEP_PARAMS != 0 {
            (i32::from(task.sched.rt_priority()), task.sched.nice())
        } else {
            (i32::try_from(priority).map_err(|_| Errno::EINVAL)?, nice.clamp(-20, 19))
        };
        set_scheduler(&task, Some(number | reset), priority, Some(nice))
    }

    fn sched_getattr(pid: i32, attr: usize, size: u32, flags: u32) {
        const SIZE: usize = 56;
        if attr == 0 || pid < 0 || flags != 0 || size < 48 || size as usize > crate::mm::PAGE_SIZE {
            return Err(Errno::EINVAL);
        }
        let task = target(pid)?;
        let mut out = [0u8; SIZE];
        let n = SIZE.min(size as usize);
        out[0..4].copy_from_slice(&(n as u32).to_ne_bytes());
        out[4..8].copy_from_slice(&(task.sched.policy() as u32).to_ne_bytes());
        out[8..16].copy_from_slice(&u64::from(policy::reset_on_fork(&task)).to_ne_bytes());
        if !task.sched.policy().is_realtime() {
            out[16..20].copy_from_slice(&task.sched.nice().to_ne_bytes());
        }
        out[20..24].copy_from_slice(&u32::from(task.sched.rt_priority()).to_ne_bytes());
        // The upper utilisation clamp: no limit.
        out[52..56].copy_from_slice(&1024u32.to_ne_bytes());
        write_bytes(attr, &out[..n])?;
        Ok(0)
    }

    fn sched_setaffinity(pid: i32, len: u32, mask: usize) {
        let mut bytes = [0u8; MAX_CPUS / 8];
        let n = set_bytes().min(len as usize);
        if n > 0 {
            read_bytes(&mut bytes[..n], mask)?;
        }
        let task = found(pid)?;
        if !may_change(&task) {
            return Err(Errno::EPERM);
        }
        policy::set_affinity(&task, CpuSet::from_bits(u64::from_le_bytes(bytes)))?;
        Ok(0)
    }

    fn sched_getaffinity(pid: i32, len: u32, mask: usize) {
        affinity::<usize>(pid, len as usize, mask)
    }

    fn sched_get_priority_max(policy: i32) {
        match policy {
            1 | 2 => Ok(99),
            0 | 3 | 5 | 6 => Ok(0),
            _ => Err(Errno::EINVAL),
        }
    }

    fn sched_get_priority_min(policy: i32) {
        match policy {
            1 | 2 => Ok(1),
            0 | 3 | 5 | 6 => Ok(0),
            _ => Err(Errno::EINVAL),
        }
    }

    fn sched_rr_get_interval/sched_rr_get_interval_time64(pid: i32, at: UserPtr<[Time; 2]>) {
        if pid < 0 {
            return Err(Errno::EINVAL);
        }
        let ns = match seen(pid, |task| task.sched.policy())? {
            Policy::RoundRobin => policy::rr_slice().into(),
            Policy::Fifo => 0,
            _ => policy::SLICE,
        };
        write_timespec(at, ns)?;
        Ok(0)
    }

    fn getpriority(which: i32, who: i32) {
        // Returned as 20 - nice, which is never negative.
        let number = |task: &Task| (20 - task.sched.nice()) as usize;
        if which == PRIO_PROCESS {
            return seen(who, number);
        }
        let found = by_who(which, who)?;
        Ok(found.iter().map(|t| number(t)).max().unwrap_or(20))
    }

    fn setpriority(which: i32, who: i32, nice: i32) {
        let nice = nice.clamp(-20, 19);
        let mut result = Ok(0);
        for task in by_who(which, who)? {
            if !may_change(&task) {
                result = Err(Errno::EPERM);
            } else if nice < task.sched.nice() && !nice_allowed(&task, nice)
                && !current().creds().capable(cap::SYS_NICE) {
                result = Err(Errno::EACCES);
            } else {
                policy::set_nice(&task, nice);
            }
        }
        result
    }

    fn ioprio_get(which: i32, who: i32) {
        const WHO_PROCESS: i32 = 1;
        // `IOPRIO_WHO_*` are one more than `PRIO_*`. For one thread: the priority that was set; for several:
        // the highest that is effective, which is the least number.
        let found = by_who(which.wrapping_sub(1), who)?;
        let set = |t: &Arc<Task>| t.io().map_or(0, |io| io.priority.load(Ordering::Relaxed));
        if which == WHO_PROCESS {
            return Ok(found.first().map_or(0, set) as usize);
        }
        let effective = |t: &Arc<Task>| match set(t) {
            0 => io_priority_of_nice(t),
            priority => priority,
        };
        Ok(found.iter().map(effective).min().unwrap_or(0) as usize)
    }

    fn ioprio_set(which: i32, who: i32, priority: i32) {
        const REAL_TIME: i32 = 1;
        let (class, level) = (priority >> 13 & 7, priority & 0x1fff);
        let creds = current().creds();
        match class {
            REAL_TIME if !creds.capable(cap::SYS_ADMIN) && !creds.capable(cap::SYS_NICE) => {
                return Err(Errno::EPERM);
            }
            REAL_TIME | 2 if level < 8 => {}
            0 if level == 0 => {}
            3 => {}
            _ => return Err(Errno::EINVAL),
        }
        for task in by_who(which.wrapping_sub(1), who)? {
            let other = task.creds();
            if other.uid != creds.euid && other.uid != creds.uid && !creds.capable(cap::SYS_NICE) {
                return Err(Errno::EPERM);
            }
            task.make_io().priority.store(priority as u32, Ordering::Relaxed);
        }
        Ok(0)
    }

    fn getcpu(cpu: UserPtr<u32>, node: UserPtr<u32>) {
        let here = crate::sync::without_preemption(crate::arch::smp::cpu_id) as u32;
        if let Some(cpu) = cpu.non_null() {
            cpu.write(here)?;
        }
        if let Some(node) = node.non_null() {
            node.write(0)?;
        }
        Ok(0)
    }
}
