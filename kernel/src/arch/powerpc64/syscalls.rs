//! System calls only this architecture has.

use super::frame::Frame;
pub use super::no_compat::{
    COMPAT, Segment, call_arg, compat_arch_prctl, get_thread_area, give_segment, is_compat, read_segment,
    restart_in_user_mode, set_call_arg, set_thread_area,
};
pub use super::one_abi::{OLD_ABI, find_call, is_old_call, program_is_old, was_not_made};
use super::signal;
use super::spr::{MSR_FE0, MSR_FE1, MSR_LE};
use crate::mm::user::UserPtr;
use crate::signal::{SIGSEGV, SigSet, force_fault, info::code, set_mask};
use crate::task::creds::cap;
use crate::task::current;
use limen_linux_abi::{Errno, SysResult};

/// This file's system calls, by name.
pub const HANDLERS: &[(&str, crate::arch::Handler)] = &[
    ("swapcontext", |frame| {
        swapcontext(frame).unwrap_or_else(Errno::to_return_value)
    }),
    ("switch_endian", |frame| {
        switch_endian(frame).unwrap_or_else(Errno::to_return_value)
    }),
    ("rtas", |_| rtas().unwrap_or_else(Errno::to_return_value)),
];

fn swapcontext(frame: &mut Frame) -> SysResult {
    let (old, new, size) = (frame.arg(0), frame.arg(1), frame.arg(2));
    if new != 0 {
        UserPtr::<usize>::new(new.wrapping_add(signal::CONTEXT_MSR)).read()?;
    }
    if size < signal::CONTEXT_SIZE {
        return Err(Errno::EINVAL);
    }
    let task = current();
    if old != 0 {
        let mask = task.signals.lock().blocked;
        frame.complete();
        signal::save_context(old, frame, mask.0)?;
    }
    if new == 0 {
        return Ok(0);
    }
    // What is not there is an error. What goes wrong later leaves registers of both contexts.
    for at in [new, new.wrapping_add(signal::CONTEXT_SIZE - 1)] {
        UserPtr::<u8>::new(at).read()?;
    }
    match signal::load_context(frame, new) {
        Ok(mask) => set_mask(&task, SigSet(mask)),
        Err(_) => force_fault(SIGSEGV, code::KERNEL, new),
    }
    // The registers are complete, the result among them.
    Ok(frame.result())
}

fn switch_endian(frame: &mut Frame) -> SysResult {
    frame.msr ^= MSR_LE;
    // r3 stays as it is.
    frame.gpr[3] = frame.orig_gpr3;
    frame.forget_syscall();
    Ok(frame.result())
}

fn rtas() -> SysResult {
    // Firmware's services are the kernel's alone.
    Err(if current().creds().capable(cap::SYS_ADMIN) {
        Errno::EINVAL
    } else {
        Errno::EPERM
    })
}

/// `prctl` options that only this architecture has: which floating-point exceptions are signals, the byte
/// order.
pub fn prctl(frame: &mut Frame, option: u32, arg: usize) -> Result<usize, Errno> {
    const GET_FPEXC: u32 = 11;
    const SET_FPEXC: u32 = 12;
    const GET_ENDIAN: u32 = 19;
    const SET_ENDIAN: u32 = 20;
    let bit = |bit: usize| u32::from(frame.msr & bit != 0);
    match (option, arg) {
        (GET_FPEXC, at) => UserPtr::new(at).write(bit(MSR_FE0) << 1 | bit(MSR_FE1))?,
        // None, imprecise and not to be recovered from, imprecise, precise. Modes that software would have to
        // enable are another processor's.
        (SET_FPEXC, 0..=3) => {
            frame.msr &= !(MSR_FE0 | MSR_FE1);
            frame.msr |= ((arg & 2) / 2 * MSR_FE0) | ((arg & 1) * MSR_FE1);
        }
        (GET_ENDIAN, at) => UserPtr::new(at).write(bit(MSR_LE))?,
        (SET_ENDIAN, 0 | 1) => frame.msr = frame.msr & !MSR_LE | (arg * MSR_LE),
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

/// A call with a number beyond the table: none.
pub fn private(_: &mut Frame) -> Option<usize> {
    None
}

/// Strict mode takes nothing but system calls from a thread.
pub fn enter_strict_mode() {}
