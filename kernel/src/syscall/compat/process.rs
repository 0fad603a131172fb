//! Processes and threads.

use super::super::old_abi::told;
use super::super::{Handler, handle, misc, no_call, poll, sched, seccomp, table, task, time};
use super::arg;
use crate::arch::{frame::Frame, syscalls};
use crate::fs::lookup::AT_FDCWD;
use crate::mm::user::UserPtr;
use crate::task::fork::{self, CloneArgs, CloneFlags};
use crate::task::wait::WaitOptions;
use crate::task::{Usage, current, exec};
use core::sync::atomic::Ordering;
use limen_linux_abi::abi::compat::Sysinfo;
use limen_linux_abi::{Errno, SysResult};

/// `prctl` of the native ABI.
const PRCTL: Handler = match super::in_list(&table::HANDLERS, "prctl") {
    Some(handler) => handler,
    None => no_call,
};

/// Calls that work on the program's registers.
pub const WHOLE: &[(&str, Handler)] = &[
    ("fork", |frame| {
        handle(frame, |call| fork::kernel_clone(call.frame, &CloneArgs::fork()))
    }),
    ("vfork", |frame| {
        handle(frame, |call| {
            let flags = CloneFlags::VFORK | CloneFlags::VM;
            fork::kernel_clone(
                call.frame,
                &CloneArgs {
                    flags,
                    ..CloneArgs::fork()
                },
            )
        })
    }),
    ("clone", |frame| {
        handle(frame, |call| {
            let [flags, stack, parent_tid, tls, child_tid] = core::array::from_fn(|n| arg(call.frame, n));
            let [fourth, fifth] = if crate::arch::CLONE_BACKWARDS {
                [tls, child_tid]
            } else {
                [child_tid, tls]
            };
            let args = task::clone_args([flags, stack, parent_tid, fourth, fifth]);
            fork::kernel_clone(call.frame, &args.with_segment()?)
        })
    }),
    ("clone3", |frame| {
        handle(frame, |call| {
            let args = task::read_clone_args(arg(call.frame, 0), arg(call.frame, 1))?;
            fork::kernel_clone(call.frame, &args.with_segment()?)
        })
    }),
    ("execve", |frame| {
        let [path, argv, envp] = core::array::from_fn(|n| arg(frame, n));
        execute(frame, (AT_FDCWD, path, 0), [argv, envp])
    }),
    ("execveat", |frame| {
        let [dirfd, path, argv, envp, flags] = core::array::from_fn(|n| arg(frame, n));
        execute(frame, (dirfd as i32, path, flags as u32), [argv, envp])
    }),
];

fn execute(frame: &mut Frame, (dirfd, path, flags): (i32, usize, u32), [argv, envp]: [usize; 2]) -> usize {
    handle(frame, |call| -> SysResult {
        exec::do_execveat::<u32>(call.frame, dirfd, path, argv, envp, flags)
    })
}

/// Bytes of `struct robust_list_head`.
const ROBUST_HEAD: u32 = 12;

/// `struct rusage`, with words that are cut.
fn write_usage(at: UserPtr<[u32; 18]>, usage: &Usage) -> Result<(), Errno> {
    match at.non_null() {
        Some(at) => at.write(task::rusage_words(usage).map(|word| word as u32)),
        None => Ok(()),
    }
}

crate::syscalls! {
    fn wait4(pid: i32, status: UserPtr<i32>, options: u32, usage: UserPtr<[u32; 18]>) {
        let options = WaitOptions::from_bits(options).ok_or(Errno::EINVAL)?;
        let Some(report) = task::wait_for(pid, options)? else { return Ok(0) };
        if let Some(status) = status.non_null() {
            status.write(report.status)?;
        }
        write_usage(usage, &report.usage)?;
        Ok(report.pid as usize)
    }
    fn waitid(kind: u32, id: i32, info: usize, options: u32, usage: UserPtr<[u32; 18]>) {
        let report = task::wait_id(kind, id, options);
        if let Ok(Some(report)) = &report {
            write_usage(usage, &report.usage)?;
        }
        task::write_wait_info(info, 12, report.as_ref().ok().and_then(Option::as_ref))?;
        report.map(|_| 0)
    }
    fn getrusage(who: i32, at: UserPtr<[u32; 18]>) {
        at.write(task::rusage_words(&task::usage_of(who)?).map(|word| word as u32))?;
        Ok(0)
    }
    fn times(at: UserPtr<[u32; 4]>) {
        if let Some(at) = at.non_null() {
            at.write(task::ticks().map(|ticks| ticks as u32))?;
        }
        Ok(task::ticks_since_boot())
    }
    fn ptrace(request: i32, pid: i32, addr: usize, data: usize) {
        crate::ptrace::narrow::ptrace(request, pid, addr, data)
    }
    fn olduname(at: usize) {
        misc::write_old_utsname(at, 65, 65)
    }
    fn oldolduname(at: usize) {
        misc::write_old_utsname(at, 9, 8)
    }
    // At the end of the thread both lists are gone through.
    fn set_robust_list(head: u32, size: usize) {
        if size != ROBUST_HEAD as usize {
            return Err(Errno::EINVAL);
        }
        current().compat_robust_list.store(head, Ordering::Relaxed);
        Ok(0)
    }
    fn get_robust_list(tid: i32, head: UserPtr<u32>, size: UserPtr<u32>) {
        let list = task::robust_list_of(tid, |task| task.compat_robust_list.load(Ordering::Relaxed))?;
        size.write(ROBUST_HEAD)?;
        head.write(list)?;
        Ok(0)
    }
    fn set_thread_area(at: usize) {
        syscalls::set_thread_area(at)
    }
    fn get_thread_area(at: usize) {
        syscalls::get_thread_area(at)
    }
    fn arch_prctl(code: i32, at: usize) {
        syscalls::compat_arch_prctl(code, at)
    }
    fn sysinfo(at: usize) {
        misc::write_sysinfo(at, Sysinfo::new)
    }
    fn timer_create(id: i32, event: usize, out: UserPtr<i32>) {
        time::create_timer::<u32>(id, event, out)
    }
    fn sched_getaffinity(pid: i32, len: u32, mask: usize) {
        sched::affinity::<u32>(pid, len as usize, mask)
    }
    fn seccomp(operation: u32, flags: u32, at: usize) {
        seccomp::do_seccomp::<u32>(operation, flags, at)
    }
    fn prctl(call: &mut Call, option: u32, first: usize, second: usize) {
        const SET_SECCOMP: u32 = 22;
        match option {
            SET_SECCOMP => seccomp::set_mode::<u32>(first, second),
            _ => told(PRCTL(call.frame)),
        }
    }
    fn select(at: UserPtr<[u32; 5]>) {
        let [count, read, write, except, time] = at.read()?.map(|word| word as usize);
        poll::select_until::<u32, i32>(count as i32, [read, write, except], UserPtr::new(time))
    }
    fn _newselect(count: i32, read: usize, write: usize, except: usize, time: UserPtr<[i32; 2]>) {
        poll::select_until::<u32, i32>(count, [read, write, except], time)
    }
    fn pselect6(count: i32, read: usize, write: usize, except: usize, time: UserPtr<[i32; 2]>,
        mask: usize) {
        poll::select_with_mask::<u32, i32>(count, [read, write, except], time, mask)
    }
    fn pselect6_time64(count: i32, read: usize, write: usize, except: usize, time: UserPtr<[i64; 2]>,
        mask: usize) {
        poll::select_with_mask::<u32, i64>(count, [read, write, except], time, mask)
    }
    // What does not fit is shown as the largest number with a sign, and as unlimited in the newer call.
    fn getrlimit(which: u32, at: UserPtr<[i32; 2]>) {
        let limit = current().process.limits.get(task::limit_of(which)?);
        at.write([limit.soft, limit.hard].map(|n| i32::try_from(n).unwrap_or(i32::MAX)))?;
        Ok(0)
    }
    fn ugetrlimit(which: u32, at: UserPtr<[u32; 2]>) {
        let limit = current().process.limits.get(task::limit_of(which)?);
        at.write([limit.soft, limit.hard].map(|n| u32::try_from(n).unwrap_or(u32::MAX)))?;
        Ok(0)
    }
    fn setrlimit(which: u32, at: UserPtr<[u32; 2]>) {
        let wide = |n| if n == u32::MAX { u64::MAX } else { u64::from(n) };
        let [soft, hard] = at.read()?.map(wide);
        let which = task::limit_of(which)?;
        task::change_limit(&current().process, which, crate::task::rlimit::Limit { soft, hard })?;
        Ok(0)
    }
}
