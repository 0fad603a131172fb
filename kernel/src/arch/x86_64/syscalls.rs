//! System calls only this architecture has.

use super::mmu::USER_END;
pub use super::one_abi::{OLD_ABI, find_call, is_old_call, program_is_old, was_not_made};
use super::{irq, switch};
use crate::mm::user::UserPtr;
use crate::sched::entity::with_current_context;
use limen_linux_abi::{Errno, SysResult};

pub(super) const ARCH_SET_GS: i32 = 0x1001;
pub(super) const ARCH_SET_FS: i32 = 0x1002;
pub(super) const ARCH_GET_FS: i32 = 0x1003;
pub(super) const ARCH_GET_GS: i32 = 0x1004;
const ARCH_GET_CPUID: i32 = 0x1011;
const ARCH_SET_CPUID: i32 = 0x1012;

/// This file's system calls, by name.
pub const HANDLERS: &[(&str, crate::arch::Handler)] = &[("arch_prctl", |frame| {
    arch_prctl(frame.arg(0) as i32, frame.arg(1)).unwrap_or_else(Errno::to_return_value)
})];

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
        // `cpuid` always works, and its faulting cannot be turned on.
        ARCH_GET_CPUID => return Ok(1),
        ARCH_SET_CPUID => return Err(Errno::ENODEV),
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
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
