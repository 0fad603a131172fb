//! Register sets for tracers: general registers (`user_pt_regs`), floating point, thread pointer, system call
//! number, breakpoints and watchpoints (`user_hwdebug_state`).

use super::debug::{self, MOST, Point};
use super::float::FpState;
use super::frame::Frame;
use super::regset_sve;
use super::signal::{PSTATE_SS, sanitize_pstate};
use super::switch::Context;
use crate::arch::register_set::{RegisterSet, Requests, Step, VaryingSet, put_words, word};
use core::ops::RangeInclusive;
use limen_linux_abi::Errno;

/// `NT_PRSTATUS`, `NT_PRFPREG`, `NT_ARM_TLS`, `NT_ARM_SYSTEM_CALL`, `NT_ARM_HW_BREAK`, `NT_ARM_HW_WATCH`.
pub const SETS: &[RegisterSet] = &[
    RegisterSet {
        note: 1,
        size: || WORDS * 8,
        get: |frame, _, out| put_words(out, *frame.user_regs()),
        set: set_general,
    },
    RegisterSet {
        note: 2,
        size: || FLOAT,
        get: float,
        set: set_float,
    },
    RegisterSet {
        note: 0x401,
        // With `TPIDR2_EL0`, which reads as 0 without SME: Linux has room for it on every processor.
        size: || 16,
        get: |_, context, out| put_words(out, [context.tls, 0]),
        set: |_, context, from| {
            context.tls = word(from, 0);
            Ok(())
        },
    },
    RegisterSet {
        note: 0x404,
        size: || 4,
        get: |frame, _, out| out.copy_from_slice(&frame.syscallno.to_ne_bytes()),
        set: |frame, _, from| {
            let number = from.first_chunk().map_or(-1, |bytes| i32::from_ne_bytes(*bytes));
            set_number(frame, number);
            Ok(())
        },
    },
    RegisterSet {
        note: 0x402,
        size: || POINTS,
        get: |_, context, out| points(context, out, false),
        set: |_, context, from| set_points(context, from, false),
    },
    RegisterSet {
        note: 0x403,
        size: || POINTS,
        get: |_, context, out| points(context, out, true),
        set: |_, context, from| set_points(context, from, true),
    },
];

/// `NT_ARM_SVE`.
pub const VARYING: &[VaryingSet] = &[regset_sve::SET];

/// None.
pub const NEVER: &[(RangeInclusive<usize>, Errno)] = &[];

/// The requests' numbers: registers come as sets only.
pub const REQUESTS: Requests = Requests {
    sysemu: [31, 32],
    sets: &[],
    set_syscall: None,
    words: None,
    block_step: None,
    bases: None,
    areas: None,
};

const WORDS: usize = 34;
/// Bytes of `user_fpsimd_state`.
const FLOAT: usize = 528;
/// Bytes of `user_hwdebug_state`: what there is, then addresses and control words.
const POINTS: usize = 8 + MOST * 16;

fn set_general(frame: &mut Frame, _: &mut Context, from: &[u8]) -> Result<(), Errno> {
    let mut pstate = word(from, 33);
    if !sanitize_pstate(&mut pstate) {
        return Err(Errno::EINVAL);
    }
    frame.regs = core::array::from_fn(|n| word(from, n));
    (frame.sp, frame.pc, frame.pstate) = (word(from, 31), word(from, 32), pstate);
    Ok(())
}

fn float(_: &mut Frame, context: &mut Context, out: &mut [u8]) {
    out.fill(0);
    let state = context.float.kept().fp();
    for (to, v) in out.chunks_exact_mut(16).zip(state.v) {
        to.copy_from_slice(&v.to_ne_bytes());
    }
    out[512..516].copy_from_slice(&state.fpsr.to_ne_bytes());
    out[516..520].copy_from_slice(&state.fpcr.to_ne_bytes());
}

fn set_float(_: &mut Frame, context: &mut Context, from: &[u8]) -> Result<(), Errno> {
    let mut state = FpState::ZERO;
    for (v, from) in state.v.iter_mut().zip(from.chunks_exact(16)) {
        *v = from.first_chunk().map_or(0, |bytes| u128::from_ne_bytes(*bytes));
    }
    let [status, control] = [512, 516].map(|at: usize| {
        let bytes = from.get(at..).and_then(|from| from.first_chunk());
        bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    });
    (state.fpsr, state.fpcr) = (status, control);
    context.float.replace().set_fp(state);
    Ok(())
}

/// Debug architecture and how many there are; each one's address and control word.
fn points(context: &mut Context, out: &mut [u8], watches: bool) {
    let (breaks, watched) = debug::available();
    let count = if watches { watched } else { breaks };
    let all = context.debug.points(watches).iter();
    let pairs = all.flat_map(|point| [point.at as usize, point.control as usize]);
    put_words(
        out,
        core::iter::once((debug::version() as usize) << 8 | count).chain(pairs),
    );
}

fn set_points(context: &mut Context, from: &[u8], watches: bool) -> Result<(), Errno> {
    let (breaks, watched) = debug::available();
    let count = if watches { watched } else { breaks };
    for n in 0..MOST {
        let wanted = Point {
            at: word(from, 1 + 2 * n) as u64,
            control: word(from, 2 + 2 * n) as u32,
        };
        match context.debug.points(watches).get_mut(n) {
            Some(point) if n < count => *point = wanted.check(watches)?,
            _ if wanted.at == 0 && wanted.control == 0 => {}
            _ => return Err(Errno::ENOSPC),
        }
    }
    Ok(())
}

/// How many bytes of the `USER` area can be read; what no set has is zero.
pub const USER_SIZE: usize = 0;

/// The word of the `USER` area at byte `offset`: there is none.
pub fn user_word(_: usize) -> Option<(usize, usize)> {
    None
}

/// Whether the processor steps: after the next instruction in user mode there is an exception. Changes it if
/// `step` says so; returns how it was. When the thread is switched to, its CPU learns of it.
pub fn stepping(frame: &mut Frame, context: &mut Context, step: Option<Step>) -> Option<bool> {
    frame.pstate &= !PSTATE_SS;
    if step.is_some() {
        frame.pstate |= PSTATE_SS;
    }
    Some(core::mem::replace(&mut context.steps, step.is_some()))
}

/// The processor does steps.
pub const STEPS_BY_SOFTWARE: bool = false;
pub fn begin_step(_: &mut Frame) -> bool {
    false
}

/// The details of a single step over a system call are those of a fault with this code, or of nobody's
/// signal.
pub const STEP_OVER_CALL: Option<i32> = None;

/// At a stop at a system call x7 says whether it is the entry (0) or the exit (1).
pub fn begin_stop(frame: &mut Frame, exit: bool) -> usize {
    core::mem::replace(&mut frame.regs[7], usize::from(exit))
}

/// The end of that: x7 is what it was.
pub fn end_stop(frame: &mut Frame, x7: usize) {
    frame.regs[7] = x7;
}

/// The tracer may have changed the call: its first argument.
pub fn changed_at_entry(frame: &mut Frame) {
    frame.orig_x0 = frame.regs[0];
}

/// The result that a tracer hears of at the exit of a call, and whether it is an error.
pub fn result(frame: &Frame) -> (usize, bool) {
    (frame.result(), Errno::from_return_value(frame.result()).is_some())
}

/// At a filter's stop the registers are those of the entry, and mean the same.
pub fn begin_filter_stop(_: &mut Frame) {}
pub use changed_at_entry as end_filter_stop;

/// Another number of the system call.
pub fn set_number(frame: &mut Frame, number: i32) {
    frame.syscallno = number;
}

/// All arguments of a call that has not begun were set.
pub fn arguments_set(frame: &mut Frame) {
    frame.regs[0] = frame.orig_x0;
}
