//! Register sets for tracers: general registers (`pt_regs`), VFP.

use super::frame::{Frame, PSR_A, PSR_F};
use super::signal::sanitize_psr;
use super::switch::Context;
use crate::arch::register_set::{RegisterSet, Requests, put_words, word};
use limen_linux_abi::Errno;

/// `NT_PRSTATUS`, `NT_ARM_VFP`, `PTRACE_GET_THREAD_AREA`.
pub const SETS: &[RegisterSet] = &[
    RegisterSet {
        note: 1,
        size: || WORDS * 4,
        get: general,
        set: set_general,
    },
    RegisterSet {
        note: 0x400,
        size: || VFP,
        get: float,
        set: set_float,
    },
    // The thread pointer, which only a request of its own reads.
    RegisterSet {
        note: 0,
        size: || 4,
        get: |_, context, out| put_words(out, [context.tls]),
        set: |_, _, _| Err(Errno::EIO),
    },
];

/// The requests' numbers. Linux has no emulation of system calls here; 31 is `PTRACE_GETFDPIC`.
pub const REQUESTS: Requests = Requests {
    sysemu: [32, 33],
    sets: &[(12, 13, 0), (27, 28, 1), (22, -1, 2)],
    set_syscall: Some(23),
};

const WORDS: usize = 18;
/// `d0` to `d31`, `FPSCR`.
const VFP: usize = 32 * 8 + 4;

fn general(frame: &mut Frame, _: &mut Context, out: &mut [u8]) {
    let rest = [frame.sp, frame.lr, frame.pc, frame.cpsr, frame.orig_r0];
    put_words(out, frame.regs.into_iter().chain(rest));
}

fn set_general(frame: &mut Frame, _: &mut Context, from: &[u8]) -> Result<(), Errno> {
    let (cpsr, allowed) = sanitize_psr(word(from, 16));
    if !allowed {
        return Err(Errno::EINVAL);
    }
    frame.regs = core::array::from_fn(|n| word(from, n));
    (frame.sp, frame.lr, frame.pc) = (word(from, 13), word(from, 14), word(from, 15));
    frame.cpsr = cpsr & !(PSR_F | PSR_A);
    frame.orig_r0 = word(from, 17);
    Ok(())
}

fn float(_: &mut Frame, context: &mut Context, out: &mut [u8]) {
    let state = context.float.kept();
    for (to, d) in out.chunks_exact_mut(8).zip(state.d) {
        to.copy_from_slice(&d.to_ne_bytes());
    }
    out[256..VFP].copy_from_slice(&state.fpscr.to_ne_bytes());
}

fn set_float(_: &mut Frame, context: &mut Context, from: &[u8]) -> Result<(), Errno> {
    let state = context.float.replace();
    for (d, from) in state.d.iter_mut().zip(from.chunks_exact(8)) {
        *d = from.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
    }
    state.fpscr = word(from, 64) as u32;
    Ok(())
}

/// How many bytes of the `USER` area can be read; what no set has is zero.
pub const USER_SIZE: usize = 0;

/// The word of the `USER` area at byte `offset`: its set and place in it.
pub fn user_word(offset: usize) -> Option<(usize, usize)> {
    (offset < WORDS * 4).then_some((0, offset))
}

/// Whether the processor steps: it cannot.
pub fn stepping(_: &mut Frame, _: &mut Context, _: bool) -> Option<bool> {
    None
}

/// At a stop at a system call r12 says whether it is the entry (0) or the exit (1).
pub fn begin_stop(frame: &mut Frame, exit: bool) -> usize {
    core::mem::replace(&mut frame.regs[12], usize::from(exit))
}

/// The end of that: r12 is what it was.
pub fn end_stop(frame: &mut Frame, r12: usize) {
    frame.regs[12] = r12;
}

/// The tracer may have changed the call: its first argument.
pub fn changed_at_entry(frame: &mut Frame) {
    frame.orig_r0 = frame.regs[0];
}

/// Another number of the system call.
pub fn set_number(frame: &mut Frame, number: i32) {
    frame.syscallno = number as isize;
}

/// All arguments of a call that has not begun were set.
pub fn arguments_set(frame: &mut Frame) {
    frame.regs[0] = frame.orig_r0;
}
