//! System calls about the machine, and others: uname, sysinfo, getrandom, prctl, reboot.

use super::SysResult;
use crate::arch::frame::Frame;
use crate::mm::copy::copy_out;
use crate::mm::current_space;
use crate::mm::user::{self, Abi, UserPtr, read_bytes, write_bytes};
use crate::random;
use crate::signal;
use crate::task::ns::{pid, time::shown_boottime};
use crate::task::uts::{NAME_MAX, RELEASE, VERSION, domainname, hostname, set_domainname, set_hostname};
use crate::task::{self, creds::cap, current};
use core::sync::atomic::Ordering;
use limen_linux_abi::{Errno, Layout, SystemInfo, native};

/// The size in bytes of a field of `struct new_utsname`.
const FIELD: usize = NAME_MAX + 1;

fn set_name(set: fn(&[u8]), at: usize, len: i32) -> SysResult {
    task::uts::may_set()?;
    let len = usize::try_from(len).map_err(|_| Errno::EINVAL)?;
    if len > NAME_MAX {
        return Err(Errno::EINVAL);
    }
    let mut new = [0; NAME_MAX];
    if len > 0 {
        read_bytes(&mut new[..len], at)?;
    }
    set(&new[..len]);
    Ok(0)
}

/// `struct new_utsname`.
type Names = [u8; 6 * FIELD];

#[inline(always)]
fn names() -> Names {
    let mut out = [0; 6 * FIELD];
    let mut field = |n: usize, value: &[u8]| out[n * FIELD..n * FIELD + value.len()].copy_from_slice(value);
    field(0, b"Linux");
    field(1, &hostname());
    field(2, RELEASE.as_bytes());
    field(3, VERSION.as_bytes());
    field(4, crate::arch::UTS_MACHINE.as_bytes());
    field(5, &domainname());
    out
}

fn write_utsname(at: usize) -> SysResult {
    write_bytes(at, &names())?;
    Ok(0)
}

/// The first two kinds of `uname`: five names, of which `field` bytes are there, and the first `most` are
/// given.
pub(super) fn write_old_utsname(at: usize, field: usize, most: usize) -> SysResult {
    let names = names();
    let mut out = [0; 5 * FIELD];
    for (to, from) in out.chunks_exact_mut(field).zip(names.chunks_exact(FIELD)).take(5) {
        to[..most].copy_from_slice(&from[..most]);
    }
    write_bytes(at, &out[..5 * field])?;
    Ok(0)
}

pub(super) fn write_sysinfo<T: Layout>(at: usize, layout: impl Fn(&SystemInfo) -> T) -> SysResult {
    let memory = crate::mm::stats();
    let page = crate::mm::PAGE_SIZE as u64;
    let info = SystemInfo {
        uptime: shown_boottime(crate::time::now_ns()) / 1_000_000_000,
        // Load averages have 11 fraction bits, those of `sysinfo` 16.
        loads: crate::sched::stats::load_averages().map(|load| load << 5),
        total: memory.total as u64 * page,
        free: memory.free as u64 * page,
        processes: task::user::total().min(u16::MAX.into()) as u16,
        ..SystemInfo::default()
    };
    UserPtr::new(at).write(Abi(layout(&info)))?;
    Ok(0)
}

/// The options of `prctl` for threads and processes.
fn task_prctl(frame: &mut Frame, option: u32, arg: [usize; 4]) -> SysResult {
    const SET_PDEATHSIG: u32 = 1;
    const GET_PDEATHSIG: u32 = 2;
    const GET_DUMPABLE: u32 = 3;
    const SET_DUMPABLE: u32 = 4;
    const GET_TIMING: u32 = 13;
    const SET_TIMING: u32 = 14;
    const SET_NAME: u32 = 15;
    const GET_NAME: u32 = 16;
    const GET_SECCOMP: u32 = 21;
    const SET_SECCOMP: u32 = 22;
    const SET_TIMERSLACK: u32 = 29;
    const GET_TIMERSLACK: u32 = 30;
    const MCE_KILL_GET: u32 = 34;
    const SET_CHILD_SUBREAPER: u32 = 36;
    const GET_CHILD_SUBREAPER: u32 = 37;
    const GET_TID_ADDRESS: u32 = 40;
    const SET_THP_DISABLE: u32 = 41;
    const GET_THP_DISABLE: u32 = 42;
    const SET_SYSCALL_USER_DISPATCH: u32 = 59;
    const RSEQ_SLICE_EXTENSION: u32 = 79;
    const SET_VMA: u32 = 0x5356_4d41;
    // Limen's own.
    const SET_CALL_VIEW: u32 = 0x4c56_0001;
    const GET_CALL_VIEW: u32 = 0x4c56_0002;
    let task = current();
    match option {
        SET_PDEATHSIG => {
            if arg[0] > signal::NSIG as usize {
                return Err(Errno::EINVAL);
            }
            task.parent_death_signal.store(arg[0] as i32, Ordering::Relaxed);
        }
        GET_PDEATHSIG => {
            UserPtr::<i32>::new(arg[0]).write(task.parent_death_signal.load(Ordering::Relaxed))?
        }
        GET_DUMPABLE => return Ok(current_space().map_or(0, |mm| mm.dump_mode().into())),
        SET_DUMPABLE if arg[0] > 1 => return Err(Errno::EINVAL),
        SET_DUMPABLE => {
            if let Some(mm) = current_space() {
                mm.set_dump_mode(arg[0] as u8);
            }
        }
        // `PR_TIMING_STATISTICAL` is the only kind.
        GET_TIMING => {}
        SET_TIMING if arg[0] != 0 => return Err(Errno::EINVAL),
        SET_TIMING => {}
        SET_NAME => {
            let mut name = [0u8; 16];
            // Byte by byte up to the NUL: memory behind it may not be mapped.
            for (n, byte) in name[..15].iter_mut().enumerate() {
                *byte = UserPtr::<u8>::new(arg[0]).add(n).read()?;
                if *byte == 0 {
                    break;
                }
            }
            task.set_comm(&name);
        }
        GET_NAME => write_bytes(arg[0], &task.comm())?,
        GET_SECCOMP => return Ok(task.seccomp.mode() as usize),
        SET_SECCOMP => return super::seccomp::set_mode::<usize>(arg[0], arg[1]),
        SET_SYSCALL_USER_DISPATCH => task.dispatch.set(&task, arg[0], [arg[1], arg[2], arg[3]])?,
        SET_TIMERSLACK => task.set_timer_slack(arg[0] as u64),
        GET_TIMERSLACK => return Ok(usize::try_from(task.timer_slack()).unwrap_or(usize::MAX)),
        // PR_MCE_KILL_DEFAULT.
        MCE_KILL_GET => return Ok(2),
        SET_CHILD_SUBREAPER => {
            task.process.child_subreaper.store(arg[0] != 0, Ordering::Relaxed);
            if arg[0] != 0 {
                task::process::mark_descendants(&task.process);
            }
        }
        GET_CHILD_SUBREAPER => {
            let is = task.process.child_subreaper.load(Ordering::Relaxed);
            UserPtr::<i32>::new(arg[0]).write(is.into())?;
        }
        GET_TID_ADDRESS => {
            UserPtr::<usize>::new(arg[0]).write(task.clear_child_tid.load(Ordering::Relaxed))?
        }
        SET_THP_DISABLE if arg[1..] != [0; 3] => return Err(Errno::EINVAL),
        GET_THP_DISABLE if arg != [0; 4] => return Err(Errno::EINVAL),
        // There are no huge pages.
        SET_THP_DISABLE | GET_THP_DISABLE => {}
        SET_VMA if arg[0] != 0 => return Err(Errno::EINVAL),
        // Names of anonymous mappings are accepted but not shown.
        SET_VMA => {}
        SET_CALL_VIEW => return super::views::set(arg),
        GET_CALL_VIEW => return super::views::get(arg),
        RSEQ_SLICE_EXTENSION => return crate::rseq::prctl(arg[0], arg[1], [arg[2], arg[3]]),
        _ => return crate::arch::syscalls::prctl(frame, option, arg[0]),
    }
    Ok(0)
}

fn do_reboot(magic1: u32, magic2: u32, command: u32) -> SysResult {
    const MAGIC1: u32 = 0xfee1_dead;
    const MAGIC2: [u32; 4] = [672_274_793, 85_072_278, 369_367_448, 537_993_216];
    const RESTART: u32 = 0x0123_4567;
    const RESTART2: u32 = 0xa1b2_c3d4;
    const HALT: u32 = 0xcdef_0123;
    const CAD_ON: u32 = 0x89ab_cdef;
    const CAD_OFF: u32 = 0;
    const POWER_OFF: u32 = 0x4321_fedc;
    let me = current();
    let ns = me.pid_ns();
    if !me.creds().capable_in(pid::owner(ns), cap::SYS_BOOT) {
        return Err(Errno::EPERM);
    }
    if magic1 != MAGIC1 || !MAGIC2.contains(&magic2) {
        return Err(Errno::EINVAL);
    }
    if let Some(ns) = ns {
        match command {
            RESTART | RESTART2 => pid::reboot(ns, false),
            HALT | POWER_OFF => pid::reboot(ns, true),
            _ => return Err(Errno::EINVAL),
        }
    }
    match command {
        CAD_ON | CAD_OFF => Ok(0),
        RESTART | RESTART2 => {
            info!("reboot: Restarting system");
            crate::arch::platform::reset()
        }
        // The machine is turned off, as a halted virtual machine would only use up its host's time.
        HALT | POWER_OFF => {
            info!("reboot: Power down");
            crate::arch::platform::power_off()
        }
        _ => Err(Errno::EINVAL),
    }
}

crate::syscalls! {
    fn uname(at: usize) { write_utsname(at) }
    fn sethostname(at: usize, len: i32) { set_name(set_hostname, at, len) }
    fn setdomainname(at: usize, len: i32) { set_name(set_domainname, at, len) }
    fn sysinfo(at: usize) { write_sysinfo(at, native::Sysinfo::new) }

    fn getrandom(at: usize, len: usize, flags: u32) {
        // GRND_NONBLOCK, GRND_RANDOM, GRND_INSECURE. The pool is seeded at boot, so nothing ever blocks.
        if flags & !7 != 0 || flags & 6 == 6 { return Err(Errno::EINVAL); }
        let len = len.min(i32::MAX as usize & !(crate::mm::PAGE_SIZE - 1));
        user::check(at, len)?;
        let mut done = 0;
        let mut chunk = [0; 256];
        while done < len {
            let n = (len - done).min(chunk.len());
            random::fill(&mut chunk[..n]);
            let copied = copy_out(at.wrapping_add(done), &chunk[..n]);
            done += copied;
            if copied < n {
                return if done > 0 { Ok(done) } else { Err(Errno::EFAULT) };
            }
            if done < len && current().signal_pending() { break; }
        }
        Ok(done)
    }

    fn prctl(call: &mut Call) {
        let (option, arg) = (call.frame.arg(0) as u32, [1, 2, 3, 4].map(|n| call.frame.arg(n)));
        if let Some(result) = super::ids::prctl(option, arg) {
            return result;
        }
        task_prctl(call.frame, option, arg)
    }

    fn personality(persona: u32) {
        let task = current();
        let old = task.personality.load(Ordering::Relaxed);
        if persona != u32::MAX {
            task.personality.store(persona, Ordering::Relaxed);
        }
        Ok(old as usize)
    }

    fn syslog(action: i32, buf: usize, len: i32) { crate::driver::kmsg::syslog(action, buf, len) }

    fn reboot(magic1: u32, magic2: u32, command: u32) { do_reboot(magic1, magic2, command) }

    fn membarrier(command: u32, flags: u32,
        cpu: i32) { crate::sched::membarrier::membarrier(command, flags, cpu) }

    fn vhangup() {
        if !current().creds().capable(cap::SYS_TTY_CONFIG) { return Err(Errno::EPERM); }
        Ok(0)
    }
}
