//! Register sets for tracers: general registers (`pt_regs`), VFP, breakpoints and watchpoints.

use super::debug::{self, MOST};
use super::frame::{Frame, PSR_A, PSR_F};
use super::signal::sanitize_psr;
use super::switch::Context;
use crate::arch::register_set::{RegisterSet, Requests, Step, VaryingSet, Words, all_of, put_words, word};
use core::ops::RangeInclusive;
use limen_linux_abi::Errno;

/// `NT_PRSTATUS`, `NT_ARM_VFP`, `PTRACE_GET_THREAD_AREA`, `PTRACE_GETHBPREGS`.
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
    // What there is; addresses and control words of breakpoints, then of watchpoints.
    RegisterSet {
        note: 0,
        size: || (1 + 4 * MOST) * 4,
        get: points,
        set: set_points,
    },
];

/// None.
pub const VARYING: &[VaryingSet] = &[];

/// None.
pub const NEVER: &[(RangeInclusive<usize>, Errno)] = &[];

/// The requests' numbers. Linux has no emulation of system calls here; 31 is `PTRACE_GETFDPIC`.
pub const REQUESTS: Requests = Requests {
    sysemu: [32, 33],
    sets: &[all_of(0, 12, 13), all_of(1, 27, 28), all_of(2, 22, -1)],
    set_syscall: Some(23),
    words: Some(Words {
        get: 29,
        set: 30,
        set_and_place,
    }),
    block_step: None,
    bases: None,
    areas: None,
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

/// The word `number` of breakpoints (from 1 on) and watchpoints (from -1 on), or what there is (0). `None`:
/// there is no such word.
fn set_and_place(number: isize) -> Option<(usize, usize)> {
    let word = match number {
        ..0 => 2 * MOST + number.unsigned_abs(),
        _ => number as usize,
    };
    let within = number.unsigned_abs() <= 2 * MOST;
    within.then_some((3, 4 * word))
}

/// The breakpoint or watchpoint whose address is word `1 + 2 * n`.
fn place(n: usize) -> (bool, usize) {
    (n >= MOST, n % MOST)
}

fn points(_: &mut Frame, context: &mut Context, out: &mut [u8]) {
    let pairs = (0..2 * MOST).flat_map(|n| {
        let (watches, n) = place(n);
        let point = context.debug.point(watches, n);
        point.map_or([0; 2], |point| [point.at as usize, point.control as usize])
    });
    let words = core::iter::once(debug::information() as usize).chain(pairs);
    put_words(out, words);
}

fn set_points(_: &mut Frame, context: &mut Context, from: &[u8]) -> Result<(), Errno> {
    let (breaks, watched) = debug::available();
    for n in 0..2 * MOST {
        let [at, control] = [1, 2].map(|part| word(from, part + 2 * n) as u32);
        let (watches, n) = place(n);
        let wanted = debug::Point::new(at, control, watches);
        let have = if watches { watched } else { breaks };
        match context.debug.point(watches, n) {
            Some(point) if n < have => {
                if *point != wanted {
                    *point = wanted.check(watches)?;
                }
            }
            _ if at == 0 && control == 0 => {}
            _ => return Err(Errno::ENOSPC),
        }
    }
    Ok(())
}

/// Whether the thread is to do a single step; how it was. The step begins on its way to user mode
/// ([`begin_step`]).
pub fn stepping(_: &mut Frame, context: &mut Context, step: Option<Step>) -> Option<bool> {
    context.debug.set_steps(core::iter::empty());
    Some(core::mem::replace(&mut context.debug.wanted, step.is_some()))
}

/// The processor does not step.
pub const STEPS_BY_SOFTWARE: bool = true;
pub use super::step::begin as begin_step;

/// The details of a single step over a system call are those of a fault with this code, or of nobody's
/// signal.
pub const STEP_OVER_CALL: Option<i32> = None;

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

/// The result that a tracer hears of at the exit of a call, and whether it is an error.
pub fn result(frame: &Frame) -> (usize, bool) {
    (frame.result(), Errno::from_return_value(frame.result()).is_some())
}

/// At a filter's stop the registers are those of the entry, and mean the same.
pub fn begin_filter_stop(_: &mut Frame) {}
pub use changed_at_entry as end_filter_stop;

/// Another number of the system call.
pub fn set_number(frame: &mut Frame, number: i32) {
    frame.syscallno = number as isize;
}

/// All arguments of a call that has not begun were set.
pub fn arguments_set(frame: &mut Frame) {
    frame.regs[0] = frame.orig_r0;
}
