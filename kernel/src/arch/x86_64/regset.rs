//! Register sets for tracers: general registers (`user_regs_struct`), floating point, extended state, debug
//! registers.

use super::frame::{CHANGED, EFLAGS_TF, Frame, USER_DS};
use super::mmu::USER_END;
use super::switch::Context;
use super::syscalls::{ARCH_GET_FS, ARCH_GET_GS, ARCH_SET_FS, ARCH_SET_GS};
use super::{cpu, debug, fpu};
use crate::arch::register_set::{Base, RegisterSet, Requests, Step, put_words, word};
use limen_linux_abi::Errno;

/// `NT_PRSTATUS`, `NT_PRFPREG`, `NT_X86_XSTATE`, `u_debugreg`.
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
];

/// The requests' numbers.
pub const REQUESTS: Requests = Requests {
    sysemu: [31, 32],
    sets: &[(12, 13, 0), (14, 15, 1)],
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
};

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
    // The kernel loads the others itself: only what is there, or can always be loaded.
    let all = context.selectors();
    let mut selectors = 0;
    for n in 0..4 {
        let new = words[23 + n] as u64 & 0xffff;
        if ![0, USER_DS as u64, all >> (16 * n) & 0xffff].contains(&new) {
            return Err(Errno::EIO);
        }
        selectors |= new << (16 * n);
    }
    if cs & 3 != 3 || ss & 3 != 3 || words[21] >= USER_END || words[22] >= USER_END {
        return Err(Errno::EIO);
    }
    let eflags;
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
        eflags,
        frame.rsp,
        frame.ss,
    ] = *words.first_chunk::<FRAME_WORDS>().unwrap_or(&[0; FRAME_WORDS]);
    frame.ss = ss;
    frame.cs = cs | CHANGED;
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
