//! Register sets for tracers: general registers (`pt_regs`), floating point, vectors, the second halves of
//! vector-scalar registers, and three that are alone.

use super::frame::{CR0_SO, Frame, TRAP_SCV};
use super::spr::{MSR_BE, MSR_MATH, MSR_SE, MSR_STEP};
use super::switch::Context;
use crate::arch::register_set::{Copies, RegisterSet, Requests, Step, VaryingSet, all_of, put_words, word};
use core::ops::RangeInclusive;
use limen_linux_abi::Errno;

/// `NT_PRSTATUS`, `NT_PRFPREG`, `NT_PPC_VMX`, `NT_PPC_VSX`, `struct ppc_debug_info`, `NT_PPC_PPR`,
/// `NT_PPC_DSCR`, `NT_PPC_TAR`, `NT_PPC_PMU`.
pub const SETS: &[RegisterSet] = &[
    RegisterSet {
        note: 1,
        size: || WORDS * 8,
        get: general,
        set: set_general,
    },
    RegisterSet {
        note: 2,
        size: || 33 * 8,
        get: float,
        set: set_float,
    },
    RegisterSet {
        note: 0x100,
        size: || 34 * 16,
        get: vectors,
        set: set_vectors,
    },
    RegisterSet {
        note: 0x102,
        size: || 32 * 8,
        get: halves,
        set: set_halves,
    },
    // Version; no breakpoints of any kind; their alignment; that they may be ranges.
    RegisterSet {
        note: 0,
        size: || 32,
        get: |_, _, out| put_words(out, [1, 0, 8, 4]),
        set: |_, _, _| Err(Errno::EIO),
    },
    RegisterSet {
        note: 0x104,
        size: || 8,
        get: |_, context, out| put_words(out, [context.ppr]),
        set: |_, context, from| {
            context.ppr = word(from, 0);
            Ok(())
        },
    },
    RegisterSet {
        note: 0x105,
        size: || 8,
        get: |_, context, out| put_words(out, [context.dscr]),
        set: |_, context, from| {
            context.dscr = word(from, 0);
            Ok(())
        },
    },
    RegisterSet {
        note: 0x103,
        size: || 8,
        get: |_, context, out| put_words(out, [context.tar]),
        set: |_, context, from| {
            context.tar = word(from, 0);
            Ok(())
        },
    },
    // What counts events, which programs never do by themselves.
    RegisterSet {
        note: 0x107,
        size: || 5 * 8,
        get: |_, _, out| out.fill(0),
        set: |_, _, from| match from.iter().all(|byte| *byte == 0) {
            true => Ok(()),
            false => Err(Errno::EIO),
        },
    },
];

/// None.
pub const VARYING: &[VaryingSet] = &[];

/// Event-based branches, which no thread has used, and transactional memory, which the machine has not.
pub const NEVER: &[(RangeInclusive<usize>, Errno)] =
    &[(0x106..=0x106, Errno::ENODATA), (0x108..=0x10f, Errno::ENODEV)];

/// The requests' numbers.
pub const REQUESTS: Requests = Requests {
    sysemu: [29, 30],
    sets: &[
        general_words(12, 13),
        all_of(1, 14, 15),
        // VRSAVE has four bytes of its own here.
        Copies {
            get: 18,
            set: 19,
            of: 2,
            len: 33 * 16 + 4,
        },
        general_words(22, 23),
        all_of(3, 27, 28),
        all_of(4, 0x89, -1),
    ],
    set_syscall: None,
    words: None,
    block_step: Some(0x100),
    bases: None,
    areas: None,
};

/// `ELF_NGREG`: the frame's first words, and room.
const WORDS: usize = 48;
/// Words of `pt_regs`.
const FRAME_WORDS: usize = 44;

/// Requests for `pt_regs`.
const fn general_words(get: i32, set: i32) -> Copies {
    let len = FRAME_WORDS * 8;
    Copies { get, set, of: 0, len }
}

/// Words of `pt_regs` by number.
const MSR: usize = 33;
const ORIG_GPR3: usize = 34;
const TRAP: usize = 40;

fn general(frame: &mut Frame, _: &mut Context, out: &mut [u8]) {
    frame.complete();
    let f = &*frame;
    let more = [
        f.nip,
        f.msr,
        f.orig_gpr3,
        f.ctr,
        f.link,
        f.xer,
        // What is above the 32 bits is not defined.
        f.ccr & 0xffff_ffff,
        // Linux says that they are always on in user mode.
        1,
        f.trap & !1,
        f.dar,
        f.dsisr,
        f.result,
    ];
    put_words(out, f.gpr.into_iter().chain(more));
}

fn set_general(frame: &mut Frame, _: &mut Context, from: &[u8]) -> Result<(), Errno> {
    frame.complete();
    // It says whether this is a call, which may be made again. The lowest bit is the kernel's.
    frame.trap = word(from, TRAP) & !1 | frame.trap & 1;
    frame.gpr = core::array::from_fn(|n| word(from, n));
    frame.nip = word(from, 32) & !3;
    frame.msr = frame.msr & !MSR_STEP | word(from, MSR) & MSR_STEP;
    [frame.orig_gpr3, frame.ctr, frame.link, frame.xer, frame.ccr] =
        core::array::from_fn(|n| word(from, ORIG_GPR3 + n));
    frame.ccr &= 0xffff_ffff;
    frame.changed = 1;
    Ok(())
}

/// The upper half of a floating-point register's vector-scalar register, and the lower.
fn parts(vs: u128) -> [u64; 2] {
    [(vs >> 64) as u64, vs as u64]
}

fn float(_: &mut Frame, context: &mut Context, out: &mut [u8]) {
    let state = context.float.kept();
    let registers = state.vs[..32].iter().map(|vs| parts(*vs)[0] as usize);
    put_words(out, registers.chain([state.fpscr as usize]));
}

fn set_float(frame: &mut Frame, context: &mut Context, from: &[u8]) -> Result<(), Errno> {
    frame.msr &= !MSR_MATH;
    let state = context.float.replace();
    for (n, vs) in state.vs[..32].iter_mut().enumerate() {
        *vs = u128::from(word(from, n) as u64) << 64 | u128::from(parts(*vs)[1]);
    }
    state.fpscr = word(from, 32) as u64;
    Ok(())
}

fn vectors(_: &mut Frame, context: &mut Context, out: &mut [u8]) {
    let vrsave = context.vrsave;
    let state = context.float.kept();
    let last = [state.vscr, u128::from(vrsave as u32)];
    for (to, v) in out.chunks_exact_mut(16).zip(state.vs[32..].iter().chain(&last)) {
        to.copy_from_slice(&v.to_ne_bytes());
    }
}

fn set_vectors(frame: &mut Frame, context: &mut Context, from: &[u8]) -> Result<(), Errno> {
    frame.msr &= !MSR_MATH;
    let vector = |n: usize| {
        let bytes = from.get(16 * n..).and_then(|from| from.first_chunk());
        bytes.map_or(0, |bytes| u128::from_ne_bytes(*bytes))
    };
    let state = context.float.replace();
    for (n, vs) in state.vs[32..].iter_mut().enumerate() {
        *vs = vector(n);
    }
    state.vscr = vector(32);
    context.vrsave = vector(33) as u32 as usize;
    Ok(())
}

fn halves(_: &mut Frame, context: &mut Context, out: &mut [u8]) {
    let state = context.float.kept();
    put_words(out, state.vs[..32].iter().map(|vs| parts(*vs)[1] as usize));
}

fn set_halves(frame: &mut Frame, context: &mut Context, from: &[u8]) -> Result<(), Errno> {
    frame.msr &= !MSR_MATH;
    let state = context.float.replace();
    for (n, vs) in state.vs[..32].iter_mut().enumerate() {
        *vs = u128::from(parts(*vs)[0]) << 64 | u128::from(word(from, n) as u64);
    }
    Ok(())
}

/// How many bytes of the `USER` area can be read; what no set has is zero.
pub const USER_SIZE: usize = 0;

/// The word of the `USER` area at byte `offset`: its set and place in it.
pub fn user_word(offset: usize) -> Option<(usize, usize)> {
    /// `PT_FPR0`.
    const FLOAT: usize = 48 * 8;
    /// `PT_DSCR`.
    const DSCR: usize = FRAME_WORDS * 8;
    match offset {
        0..DSCR => Some((0, offset)),
        DSCR => Some((6, 0)),
        _ if offset < FLOAT => None,
        _ => (offset < FLOAT + 33 * 8).then(|| (1, offset - FLOAT)),
    }
}

/// Whether the processor steps: after the next instruction in user mode, or the next branch, there is a trap.
/// Changes it if `step` says so; returns how it was.
pub fn stepping(frame: &mut Frame, _: &mut Context, step: Option<Step>) -> Option<bool> {
    let was = frame.msr & MSR_STEP != 0;
    frame.msr &= !MSR_STEP;
    frame.msr |= match step {
        None => 0,
        Some(Step::Instruction) => MSR_SE,
        Some(Step::Block) => MSR_BE,
    };
    Some(was)
}

/// The processor does steps.
pub const STEPS_BY_SOFTWARE: bool = false;
pub fn begin_step(_: &mut Frame) -> bool {
    false
}

/// The details of a single step over a system call are those of a fault with this code, or of nobody's
/// signal.
pub const STEP_OVER_CALL: Option<i32> = None;

/// What of the frame a stop at a system call changes: at the entry, r3 is the first argument even if there is
/// no such call.
pub fn begin_stop(frame: &mut Frame, exit: bool) -> usize {
    if !exit && frame.syscallno < 0 {
        frame.ccr &= !CR0_SO;
        frame.gpr[3] = frame.orig_gpr3;
    }
    0
}

/// The end of that.
pub fn end_stop(_: &mut Frame, _: usize) {}

/// The tracer may have changed the call: its number and first argument. That of a call that does not run is
/// not its result.
pub fn changed_at_entry(frame: &mut Frame) {
    frame.syscallno = frame.gpr[0] as i32 as isize;
    frame.orig_gpr3 = frame.gpr[3];
    if frame.syscallno < 0 {
        frame.set_skipped_result(Errno::ENOSYS.to_return_value());
    }
}

/// At a filter's stop r3 is the result.
pub fn begin_filter_stop(frame: &mut Frame) {
    frame.ccr &= !CR0_SO;
    frame.gpr[3] = Errno::ENOSYS.to_return_value();
}

/// The end of that. The first argument is the one that was kept, which the tracer may have changed.
pub fn end_filter_stop(frame: &mut Frame) {
    frame.syscallno = frame.gpr[0] as i32 as isize;
    if frame.syscallno < 0 {
        // With a positive number, the tracer has said in `ccr` whether that is an error.
        frame.set_raw_result(frame.gpr[3]);
    } else {
        frame.gpr[3] = frame.orig_gpr3;
    }
}

/// The result that a tracer hears of at the exit of a call, and whether it is an error: by what the registers
/// say, whether they are the call's or come from a signal frame.
pub fn result(frame: &Frame) -> (usize, bool) {
    if frame.trap & !1 == TRAP_SCV {
        (frame.gpr[3], Errno::from_return_value(frame.gpr[3]).is_some())
    } else if frame.ccr & CR0_SO != 0 {
        (frame.gpr[3].wrapping_neg(), true)
    } else {
        (frame.gpr[3], false)
    }
}

/// Another number of the system call.
pub fn set_number(frame: &mut Frame, number: i32) {
    frame.gpr[0] = number as isize as usize;
    frame.syscallno = number as isize;
}

/// All arguments of a call that has not begun were set.
pub fn arguments_set(frame: &mut Frame) {
    frame.gpr[3] = frame.orig_gpr3;
}
