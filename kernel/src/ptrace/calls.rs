//! A tracee's system call, at its stops, its user dispatch and its area of restartable sequences.

use super::regs::with;
use crate::arch::{frame::Frame, regset, syscalls};
use crate::mm::user::{UserPtr, read_bytes, write_bytes};
use crate::signal::SIGTRAP;
use crate::task::ptrace::Event;
use crate::task::{Task, calls};
use alloc::sync::Arc;
use limen_entry::Frame as _;
use limen_linux_abi::{Errno, SysResult};

/// `PTRACE_SYSCALL_INFO_*`.
const NONE: u8 = 0;
const ENTRY: u8 = 1;
const EXIT: u8 = 2;
const SECCOMP: u8 = 3;

/// Bytes of `struct ptrace_syscall_info`, of what all kinds have, and of each kind.
const SIZE: usize = 88;
const COMMON: usize = 24;
const OF_ENTRY: usize = COMMON + 7 * 8;
const OF_EXIT: usize = COMMON + 9;
const OF_SECCOMP: usize = OF_ENTRY + 4;

/// At which kind of stop the tracee is, and the stop's message.
fn kind(task: &Arc<Task>) -> Result<(u8, usize), Errno> {
    let mut state = task.trace.state();
    let message = state.message;
    let code = state
        .stopped()
        .ok_or(Errno::ESRCH)?
        .info
        .map_or(0, |info| info.code());
    let call = SIGTRAP as i32 | 0x80;
    let seccomp = SIGTRAP as i32 | (Event::Seccomp as i32) << 8;
    let kind = match message {
        1 if code == call => ENTRY,
        2 if code == call => EXIT,
        _ if code == seccomp => SECCOMP,
        _ => NONE,
    };
    Ok((kind, message))
}

fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(to) = bytes.get_mut(at..at + N) {
        to.copy_from_slice(&value);
    }
}

fn number_at(bytes: &[u8], at: usize) -> u64 {
    let found = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    found.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

/// `PTRACE_GET_SYSCALL_INFO`: writes as much as `size` bytes take; returns how much there is.
pub fn info(task: &Arc<Task>, size: usize, to: usize) -> SysResult {
    let (kind, message) = kind(task)?;
    let mut bytes = [0; SIZE];
    let len = with(task, |frame, _| {
        put(&mut bytes, 0, [kind]);
        put(&mut bytes, 4, calls::audit_arch(task, frame).to_ne_bytes());
        put(&mut bytes, 8, (frame.ip() as u64).to_ne_bytes());
        put(&mut bytes, 16, (frame.sp() as u64).to_ne_bytes());
        if kind == ENTRY || kind == SECCOMP {
            put(
                &mut bytes,
                COMMON,
                (frame.syscall_number() as i64 as u64).to_ne_bytes(),
            );
            for n in 0..6 {
                put(
                    &mut bytes,
                    COMMON + 8 + 8 * n,
                    (syscalls::call_arg(frame, n) as u64).to_ne_bytes(),
                );
            }
        }
        match kind {
            ENTRY => OF_ENTRY,
            SECCOMP => {
                put(&mut bytes, OF_ENTRY, (message as u32).to_ne_bytes());
                OF_SECCOMP
            }
            EXIT => {
                let (result, is_error) = regset::result(frame);
                put(&mut bytes, COMMON, (result as isize as i64).to_ne_bytes());
                put(&mut bytes, COMMON + 8, [u8::from(is_error)]);
                OF_EXIT
            }
            _ => COMMON,
        }
    })?;
    write_bytes(to, &bytes[..len.min(size)])?;
    Ok(len)
}

/// `PTRACE_SET_SYSCALL_INFO`. `EINVAL`: it does not fit the stop; `ERANGE`: a number is too large.
pub fn set_info(task: &Arc<Task>, size: usize, from: usize) -> SysResult {
    let (kind, _) = kind(task)?;
    if size < SIZE {
        return Err(Errno::EINVAL);
    }
    let mut bytes = [0; SIZE];
    read_bytes(&mut bytes, from)?;
    if bytes[0] != kind || bytes[1..4].iter().any(|byte| *byte != 0) {
        return Err(Errno::EINVAL);
    }
    let word = |at| usize::try_from(number_at(&bytes, at)).map_err(|_| Errno::ERANGE);
    match kind {
        ENTRY | SECCOMP => {
            let number = i32::try_from(number_at(&bytes, COMMON) as i64).map_err(|_| Errno::ERANGE)?;
            if kind == SECCOMP && bytes[OF_SECCOMP..].iter().any(|byte| *byte != 0) {
                return Err(Errno::EINVAL);
            }
            let mut args = [0; 6];
            for (n, arg) in args.iter_mut().enumerate() {
                *arg = word(COMMON + 8 + 8 * n)?;
            }
            with(task, |frame, _| set_call(frame, number, args))?;
        }
        EXIT => {
            let result = number_at(&bytes, COMMON) as i64;
            let result = isize::try_from(result).map_err(|_| Errno::ERANGE)?;
            with(task, |frame, _| frame.set_skipped_result(result as usize))?;
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

fn set_call(frame: &mut Frame, number: i32, args: [usize; 6]) {
    regset::set_number(frame, number);
    // A call that is skipped may have its result where the first argument was.
    if number != -1 {
        for (n, arg) in args.into_iter().enumerate() {
            syscalls::set_call_arg(frame, n, arg);
        }
        regset::arguments_set(frame);
    }
}

/// `PTRACE_SET_SYSCALL`.
pub fn set_number(task: &Arc<Task>, number: usize) -> SysResult {
    with(task, |frame, _| regset::set_number(frame, number as i32))?;
    Ok(0)
}

/// `PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG`.
pub fn dispatch(task: &Arc<Task>, size: usize, to: usize) -> SysResult {
    if size != 4 * size_of::<u64>() {
        return Err(Errno::EINVAL);
    }
    UserPtr::new(to).write(task.dispatch.choice(task).map(|word| word as u64))?;
    Ok(0)
}

/// `PTRACE_SET_SYSCALL_USER_DISPATCH_CONFIG`.
pub fn set_dispatch(task: &Arc<Task>, size: usize, from: usize) -> SysResult {
    if size != 4 * size_of::<u64>() {
        return Err(Errno::EINVAL);
    }
    let [mode, selector, from, len] = UserPtr::<[u64; 4]>::new(from).read()?.map(|word| word as usize);
    // With its signals locked it cannot leave its stop.
    let shared = task.process.signals.lock();
    task.trace.state_under(&shared).stopped().ok_or(Errno::ESRCH)?;
    task.dispatch.set(task, mode, [from, len, selector])?;
    Ok(0)
}

/// `PTRACE_GET_RSEQ_CONFIGURATION`: writes as much as `size` bytes take; returns how much there is.
pub fn rseq(task: &Arc<Task>, size: usize, to: usize) -> SysResult {
    let (at, len, signature) = task
        .rseq
        .area()
        .map_or((0, 0, 0), |area| (area.at, area.len, area.signature));
    let mut bytes = [0; 24];
    put(&mut bytes, 0, (at as u64).to_ne_bytes());
    put(&mut bytes, 8, len.to_ne_bytes());
    put(&mut bytes, 12, signature.to_ne_bytes());
    write_bytes(to, &bytes[..size.min(bytes.len())])?;
    Ok(bytes.len())
}
