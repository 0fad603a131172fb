//! Register sets for tracers: general registers (`user_regs_struct`), floating point, extended state, debug
//! registers.

use super::frame::{CHANGED, COMPAT, EFLAGS_TF, Frame};
use super::mmu::USER_END;
use super::switch::Context;
use super::syscalls::{ARCH_GET_FS, ARCH_GET_GS, ARCH_SET_FS, ARCH_SET_GS};
use super::{cpu, debug, fpu, tables, thread_area};
use crate::arch::register_set::{
    Areas, Base, RegisterSet, Requests, Step, VaryingSet, all_of, put_words, word,
};
use core::ops::RangeInclusive;
use limen_linux_abi::Errno;

/// `NT_PRSTATUS`, `NT_PRFPREG`, `NT_X86_XSTATE`, `u_debugreg`, and descriptions of the thread's own segments.
/// (The number that the last has in 32-bit programs, `NT_386_TLS`, is none in 64-bit ones.)
pub const SETS: &[RegisterSet] = &[
    RegisterSet {
        note: 1,
        size: || WORDS * 8,
        get: general,
        set: set_general,
    },
    RegisterSet {
        note: 2,
        size: || fpu::LEGACY,
        get: float,
        set: set_float,
    },
    RegisterSet {
        note: 0x202,
        size: extended_size,
        get: extended,
        set: set_extended,
    },
    RegisterSet {
        note: 0,
        size: || debug::WORDS * 8,
        get: |_, context, out| put_words(out, context.debug.words()),
        set: set_debug,
    },
    RegisterSet {
        note: 0,
        size: || tables::OWN_COUNT * DESCRIBED,
        get: own_segments,
        set: set_own_segments,
    },
];

/// None.
pub const VARYING: &[VaryingSet] = &[];

/// None.
pub const NEVER: &[(RangeInclusive<usize>, Errno)] = &[];

/// The requests' numbers.
pub const REQUESTS: Requests = Requests {
    sysemu: [31, 32],
    sets: &[all_of(0, 12, 13), all_of(1, 14, 15)],
    set_syscall: None,
    words: None,
    block_step: Some(33),
    bases: Some((30, |code| match code {
        ARCH_GET_FS => Some((false, FS)),
        ARCH_GET_GS => Some((false, GS)),
        ARCH_SET_FS => Some((true, FS)),
        ARCH_SET_GS => Some((true, GS)),
        _ => None,
    })),
    areas: Some(Areas {
        get: 25,
        set: 26,
        of: 4,
        len: DESCRIBED,
        at: |number| Ok(thread_area::place(number)? * DESCRIBED),
    }),
};

/// Bytes of `struct user_desc`.
const DESCRIBED: usize = 16;

/// Words of `user_regs_struct`: the frame's, bases of FS and GS, DS, ES, FS, GS.
const WORDS: usize = 27;
const FRAME_WORDS: usize = 21;
/// Bases in `user_regs_struct`, with their selectors.
const FS: Base = Base {
    base: 21,
    selector: 25,
};
const GS: Base = Base {
    base: 22,
    selector: 26,
};
/// Where `SW_BYTES` of the legacy area says which components there are.
const COMPONENTS: usize = 464;
const MXCSR: usize = 24;
const MXCSR_MASK: usize = 28;

fn general(frame: &mut Frame, context: &mut Context, out: &mut [u8]) {
    let f = &*frame;
    let [fs_base, gs_base] = context.bases();
    let all = context.selectors();
    let selector = |n: u32| (all >> (16 * n) & 0xffff) as usize;
    put_words(
        out,
        [
            f.r15,
            f.r14,
            f.r13,
            f.r12,
            f.rbp,
            f.rbx,
            f.r11,
            f.r10,
            f.r9,
            f.r8,
            f.rax,
            f.rcx,
            f.rdx,
            f.rsi,
            f.rdi,
            f.orig_rax,
            f.rip,
            f.cs & 0xffff,
            f.eflags,
            f.rsp,
            f.ss,
            fs_base,
            gs_base,
            selector(0),
            selector(1),
            selector(2),
            selector(3),
        ],
    );
}

fn set_general(frame: &mut Frame, context: &mut Context, from: &[u8]) -> Result<(), Errno> {
    let words: [usize; WORDS] = core::array::from_fn(|n| word(from, n));
    let [cs, ss] = [words[17] & 0xffff, words[20] & 0xffff];
    // None with the kernel's rights; what is there may stay. Whether there is such a segment is found out
    // when the thread runs: what cannot be loaded becomes 0, and with a code or stack segment that it cannot
    // have the return to user mode faults.
    let all = context.selectors();
    let mut selectors = 0;
    for n in 0..4 {
        let new = words[23 + n] as u64 & 0xffff;
        if new != 0 && new & 3 != 3 && new != all >> (16 * n) & 0xffff {
            return Err(Errno::EIO);
        }
        selectors |= new << (16 * n);
    }
    let mut bases = context.bases().into_iter().zip([words[21], words[22]]);
    let are_addresses = bases.all(|(old, new)| new < USER_END || new == old);
    if cs & 3 != 3 || ss & 3 != 3 || !are_addresses {
        return Err(Errno::EIO);
    }
    let (eflags, was) = (words[18], frame.cs);
    [
        frame.r15,
        frame.r14,
        frame.r13,
        frame.r12,
        frame.rbp,
        frame.rbx,
        frame.r11,
        frame.r10,
        frame.r9,
        frame.r8,
        frame.rax,
        frame.rcx,
        frame.rdx,
        frame.rsi,
        frame.rdi,
        frame.orig_rax,
        frame.rip,
        _,
        _,
        frame.rsp,
        frame.ss,
    ] = *words.first_chunk::<FRAME_WORDS>().unwrap_or(&[0; FRAME_WORDS]);
    frame.ss = ss;
    frame.cs = cs | CHANGED | was & COMPAT;
    frame.set_user_flags(eflags);
    context.set_bases(words[21], words[22], selectors);
    Ok(())
}

fn copy_range(area: &[u8], out: &mut [u8], start: usize, len: usize) {
    let range = start..start + len;
    if let (Some(from), Some(to)) = (area.get(range.clone()), out.get_mut(range)) {
        to.copy_from_slice(from);
    }
}

/// Copies what the processor writes of the legacy area. What is between that was never written: it may be
/// left over from anything.
fn legacy(area: &[u8], out: &mut [u8]) {
    copy_range(area, out, 0, 32);
    for register in 0..8 {
        copy_range(area, out, 32 + 16 * register, 10);
    }
    copy_range(area, out, 160, 256);
}

fn float(_: &mut Frame, context: &mut Context, out: &mut [u8]) {
    out.fill(0);
    context.float_bytes(|area| legacy(area, out));
}

/// Whether `mxcsr` can be loaded, with a state that is there.
fn is_valid_mxcsr(mxcsr: &[u8], now: &[u8]) -> bool {
    let number = |bytes: &[u8]| {
        bytes
            .first_chunk::<4>()
            .map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    };
    let mask = match number(&now[MXCSR_MASK..]) {
        0 => 0xffbf,
        mask => mask,
    };
    number(mxcsr) & !mask == 0
}

fn set_float(_: &mut Frame, context: &mut Context, from: &[u8]) -> Result<(), Errno> {
    context.change_float_bytes(|area| {
        if !is_valid_mxcsr(&from[MXCSR..], area) {
            return Err(Errno::EINVAL);
        }
        // What the mask is, and what is software's, stays.
        area[..MXCSR_MASK].copy_from_slice(&from[..MXCSR_MASK]);
        area[MXCSR_MASK + 4..COMPONENTS].copy_from_slice(&from[MXCSR_MASK + 4..COMPONENTS]);
        if let Some(present) = area.get_mut(fpu::LEGACY) {
            *present |= 3;
        }
        Ok(())
    })
}

fn extended_size() -> usize {
    if fpu::components() != 0 {
        fpu::state_size()
    } else {
        0
    }
}

fn extended(_: &mut Frame, context: &mut Context, out: &mut [u8]) {
    out.fill(0);
    context.float_bytes(|area| {
        legacy(area, out);
        copy_range(area, out, fpu::LEGACY, 8);
        for component in (2..64).filter(|n| fpu::components() >> n & 1 != 0) {
            let leaf = cpu::cpuid(0xd, component);
            copy_range(area, out, leaf.ebx as usize, leaf.eax as usize);
        }
    });
    if let Some(at) = out.get_mut(COMPONENTS..COMPONENTS + 8) {
        at.copy_from_slice(&fpu::components().to_ne_bytes());
    }
}

fn set_extended(_: &mut Frame, context: &mut Context, from: &[u8]) -> Result<(), Errno> {
    let Some(header) = from.get(fpu::LEGACY..fpu::LEGACY + 64) else {
        return Err(Errno::EINVAL);
    };
    let present = word(header, 0) as u64;
    if present & !fpu::components() != 0 || header[8..].iter().any(|byte| *byte != 0) {
        return Err(Errno::EINVAL);
    }
    context.change_float_bytes(|area| {
        if !is_valid_mxcsr(&from[MXCSR..], area) {
            return Err(Errno::EINVAL);
        }
        area[..MXCSR_MASK].copy_from_slice(&from[..MXCSR_MASK]);
        area[MXCSR_MASK + 4..COMPONENTS].copy_from_slice(&from[MXCSR_MASK + 4..COMPONENTS]);
        for (to, from) in area.iter_mut().zip(from).skip(fpu::LEGACY) {
            *to = *from;
        }
        Ok(())
    })
}

fn own_segments(_: &mut Frame, context: &mut Context, out: &mut [u8]) {
    out.fill(0);
    let words = context.own_segments();
    for (n, (to, descriptor)) in out.chunks_exact_mut(DESCRIBED).zip(words).enumerate() {
        let described = thread_area::described(tables::OWN_FIRST + n, descriptor);
        for (to, word) in to.chunks_exact_mut(4).zip(described) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
    }
}

/// Registers of the thread with the selectors of those that change get what they say.
fn set_own_segments(_: &mut Frame, context: &mut Context, from: &[u8]) -> Result<(), Errno> {
    let mut new = [0; tables::OWN_COUNT];
    for (to, from) in new.iter_mut().zip(from.chunks_exact(DESCRIBED)) {
        let word = |n: usize| u32::from_ne_bytes(core::array::from_fn(|byte| from[4 * n + byte]));
        *to = thread_area::checked([word(0), word(1), word(2), word(3)])?;
    }
    let old = context.own_segments();
    for (place, descriptor) in new.into_iter().enumerate() {
        if descriptor != old[place] {
            context.give_own_segment(place, descriptor);
        }
    }
    Ok(())
}

fn set_debug(_: &mut Frame, context: &mut Context, from: &[u8]) -> Result<(), Errno> {
    for (n, old) in context.debug.words().into_iter().enumerate() {
        let new = word(from, n);
        if new != old {
            context.debug.set(n, new)?;
        }
    }
    Ok(())
}

/// How many bytes of the `USER` area can be read; what no set has is zero.
pub const USER_SIZE: usize = 912;

/// The word of the `USER` area at byte `offset`: its set and place in it.
pub fn user_word(offset: usize) -> Option<(usize, usize)> {
    /// `u_debugreg`, at the end.
    const DEBUG: usize = USER_SIZE - debug::WORDS * 8;
    match offset {
        DEBUG..USER_SIZE => Some((3, offset - DEBUG)),
        _ => (offset < WORDS * 8).then_some((0, offset)),
    }
}

/// Whether the processor steps: after the next instruction in user mode, or the next branch, there is a trap.
/// Changes it if `step` says so; returns how it was. `None`: it cannot.
pub fn stepping(frame: &mut Frame, context: &mut Context, step: Option<Step>) -> Option<bool> {
    let was = frame.eflags & EFLAGS_TF != 0;
    context.debug.set_steps(step)?;
    if was != step.is_some() {
        frame.mark_changed();
        frame.eflags ^= EFLAGS_TF;
    }
    Some(was)
}

/// The processor does steps.
pub const STEPS_BY_SOFTWARE: bool = false;
pub fn begin_step(_: &mut Frame) -> bool {
    false
}

/// The details of a single step over a system call are those of a fault with this code, or of nobody's
/// signal.
pub const STEP_OVER_CALL: Option<i32> = Some(crate::signal::info::code::TRAP_BRKPT);

/// What of the frame a stop at a system call changes: nothing.
pub fn begin_stop(_: &mut Frame, _: bool) -> usize {
    0
}

/// The end of that.
pub fn end_stop(_: &mut Frame, _: usize) {}

/// The tracer may have changed the call: number and arguments are where the kernel looks already.
pub fn changed_at_entry(_: &mut Frame) {}

/// The result that a tracer hears of at the exit of a call, and whether it is an error.
pub fn result(frame: &Frame) -> (usize, bool) {
    (frame.result(), Errno::from_return_value(frame.result()).is_some())
}

/// At a filter's stop the registers are those of the entry, and mean the same.
pub fn begin_filter_stop(_: &mut Frame) {}
pub use changed_at_entry as end_filter_stop;

/// `PTRACE_SET_SYSCALL_INFO`, or the architecture's request: another number.
pub fn set_number(frame: &mut Frame, number: i32) {
    frame.orig_rax = number as isize as usize;
}

/// All arguments of a call that has not begun were set.
pub fn arguments_set(_: &mut Frame) {}
