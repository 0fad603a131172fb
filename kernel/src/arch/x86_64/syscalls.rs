//! System calls only this architecture has.

use super::frame::Frame;
pub use super::i386::COMPAT;
use super::mmu::USER_END;
pub use super::one_abi::{OLD_ABI, find_call, is_old_call, program_is_old, was_not_made};
use super::segments::modify_ldt;
pub use super::thread_area::{Segment, get_thread_area, give_segment, read_segment, set_thread_area};
use super::{irq, switch};
use crate::mm::user::UserPtr;
use crate::sched::entity::with_current_context;
use limen_linux_abi::{Errno, Restart, SysResult};

pub(super) const ARCH_SET_GS: i32 = 0x1001;
pub(super) const ARCH_SET_FS: i32 = 0x1002;
pub(super) const ARCH_GET_FS: i32 = 0x1003;
pub(super) const ARCH_GET_GS: i32 = 0x1004;
const ARCH_GET_CPUID: i32 = 0x1011;
const ARCH_SET_CPUID: i32 = 0x1012;

/// This file's system calls, by name.
pub const HANDLERS: &[(&str, crate::arch::Handler)] = &[
    ("arch_prctl", |frame| {
        arch_prctl(frame.arg(0) as i32, frame.arg(1)).unwrap_or_else(Errno::to_return_value)
    }),
    ("modify_ldt", |frame| {
        let done = modify_ldt(frame.arg(0) as i32, frame.arg(1), frame.arg(2));
        // Its results are of 32 bits, as on Linux: errors have nothing in the upper half.
        done.unwrap_or_else(Errno::to_return_value) as u32 as usize
    }),
];

fn arch_prctl(code: i32, addr: usize) -> SysResult {
    let settable = || {
        if addr < USER_END {
            Ok(addr)
        } else {
            Err(Errno::EPERM)
        }
    };
    match code {
        ARCH_SET_FS => {
            let base = settable()?;
            with_current_context(|context| context.choose_fs_base(base));
        }
        ARCH_SET_GS => {
            let base = settable()?;
            with_current_context(|context| context.choose_gs_base(base));
        }
        ARCH_GET_FS => UserPtr::<usize>::new(addr).write(switch::fs_base())?,
        ARCH_GET_GS => {
            let flags = irq::local_save();
            let base = switch::gs_base();
            irq::local_restore(flags);
            UserPtr::<usize>::new(addr).write(base)?;
        }
        _ => return compat_arch_prctl(code, addr),
    }
    Ok(0)
}

/// `arch_prctl` of 32-bit programs, which have no bases to set.
pub fn compat_arch_prctl(code: i32, _: usize) -> SysResult {
    match code {
        // `cpuid` always works, and its faulting cannot be turned on.
        ARCH_GET_CPUID => Ok(1),
        ARCH_SET_CPUID => Err(Errno::ENODEV),
        _ => Err(Errno::EINVAL),
    }
}

/// Whether the call is one of the i386 ABI.
#[inline(always)]
pub fn is_compat(frame: &Frame) -> bool {
    frame.is_compat()
}

/// Argument `n` (from 0) of the call, whichever ABI's that is.
pub fn call_arg(frame: &Frame, n: usize) -> usize {
    if frame.is_compat() {
        frame.compat_arg(n)
    } else {
        frame.arg(n)
    }
}

/// Makes it another one.
pub fn set_call_arg(frame: &mut Frame, n: usize, value: usize) {
    if frame.is_compat() {
        frame.set_compat_arg(n, value);
    } else {
        frame.set_arg(n, value);
    }
}

/// The frame of an exception, which a tracer has made that of a call to be restarted, goes back to the
/// instruction of the call: which ABI's that is nobody else knows. It is asked for `restart_syscall`, too.
#[cold]
pub fn restart_in_user_mode(frame: &mut Frame, restart: Restart) {
    const INT_80: [u8; 2] = [0xcd, 0x80];
    let instruction = UserPtr::<[u8; 2]>::new(frame.rip.wrapping_sub(INT_80.len())).read();
    frame.rearm_of(restart, instruction == Ok(INT_80));
    frame.rewind_syscall();
}

/// A call with a number beyond the table: none.
pub fn private(_: &mut crate::arch::frame::Frame) -> Option<usize> {
    None
}

/// `prctl` options that only this architecture has: whether the time stamp counter can be read.
pub fn prctl(_: &mut crate::arch::frame::Frame, option: u32, arg: usize) -> Result<usize, Errno> {
    const GET_TSC: u32 = 25;
    const SET_TSC: u32 = 26;
    const ENABLE: usize = 1;
    const SIGSEGV: usize = 2;
    match (option, arg) {
        (GET_TSC, _) => {
            let readable = with_current_context(|context| context.reads_counter());
            UserPtr::<u32>::new(arg).write(if readable { ENABLE } else { SIGSEGV } as u32)?;
        }
        (SET_TSC, ENABLE | SIGSEGV) => {
            with_current_context(|context| context.let_read_counter(arg == ENABLE));
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

/// Strict mode also takes the time stamp counter from the running thread.
pub fn enter_strict_mode() {
    with_current_context(|context| context.let_read_counter(false));
}
