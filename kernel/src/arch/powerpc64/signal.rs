//! Signal frames: the layout user space knows (`rt_sigframe`: `ucontext_t` with the registers, floating point and vectors; a trampoline's room;
//! `siginfo_t`; what functions may use below the stack pointer).

use super::frame::{CR0_SO, Frame};
use super::spr::{MSR_FP, MSR_MATH, MSR_USER, MSR_VEC, MSR_VSX};
use super::switch::{self, FpState};
use super::uaccess;
use super::vdso::SIGNAL_STACK;
use crate::mm::user::{UserPtr, check, read_bytes};
use crate::signal::{Delivery, Restored, vdso_sigreturn};
use core::mem::offset_of;
use limen_linux_abi::Errno;

/// The least alternate stack (`MINSIGSTKSZ`).
pub const MIN_STACK_SIZE: usize = 8192;
/// Words of a register set after the general registers; the first of [`Frame`] come first.
const MORE_REGISTERS: usize = 16;
/// Vectors of the vector area: 32 registers, `VSCR`, `VRSAVE`.
const VECTORS: usize = 34;

/// `ucontext_t` up to the registers, in words. What is unused is not written, as on Linux.
#[repr(C)]
struct Head {
    /// Flags, link, the alternate stack (address, flags, size), mask.
    start: [usize; 6],
    unused: [u64; 15],
    unused2: [u64; 4],
    /// Signal, handler, mask, where the registers are.
    told: [usize; 4],
}

/// The whole context: registers, floating point, where the vectors are, room for them.
#[repr(C)]
struct Context {
    head: Head,
    gpr: [usize; 32],
    more: [usize; MORE_REGISTERS],
    fp_regs: [u64; 33],
    v_regs: usize,
    vmx_reserve: [u64; 2 * VECTORS + 1 + 32],
}

#[repr(C)]
struct SigFrame {
    context: Context,
    /// Linux: a second context for transactions.
    transaction: Context,
    unused: [u64; 2],
    trampoline: [u32; 6],
    info_at: usize,
    context_at: usize,
    info: [u8; 128],
    below: [u8; 512],
}

const _: () = assert!(offset_of!(Head, unused2) == 168 && offset_of!(Context, fp_regs) == 168 + 64 + 384);
const _: () = assert!(size_of::<Context>() == 1696);
const FRAME_SIZE: usize = size_of::<SigFrame>();

/// `AT_MINSIGSTKSZ`: what a signal frame takes at most, with the stack frame below it and alignment.
pub fn min_frame_size() -> usize {
    FRAME_SIZE + SIGNAL_STACK + 16
}

/// Where the vectors of the context at `base` are: the next multiple of 16 in their room.
fn vectors(base: usize) -> usize {
    (base + offset_of!(Context, vmx_reserve)).next_multiple_of(16)
}

/// Writes the context of `frame` to `base`.
fn write_context(
    base: usize,
    frame: &Frame,
    mask: u64,
    link: usize,
    altstack: (usize, u32, usize),
    signal: u32,
    handler: usize,
) -> Result<(), Errno> {
    let (sp, flags, size) = altstack;
    UserPtr::new(base).write([0, link, sp, flags as usize, size, mask as usize])?;
    let regs = base + offset_of!(Context, gpr);
    UserPtr::new(base + offset_of!(Head, told)).write([signal as usize, handler, mask as usize, regs])?;
    // The frame begins as the context does; two words are the kernel's alone.
    let regs = UserPtr::<usize>::new(regs);
    regs.cast().write_from(frame.shown())?;
    regs.add(offset_of!(Frame, msr) / 8)
        .write(frame.msr & !MSR_MATH | MSR_FP | MSR_VEC | MSR_VSX)?;
    regs.add(offset_of!(Frame, trap) / 8).write(frame.trap & !1)?;
    let v_regs = vectors(base);
    // SAFETY: the caller has checked that the whole context is below `USER_END`.
    switch::with_math(frame, |math| unsafe {
        uaccess::store_math(math, base + offset_of!(Context, fp_regs), v_regs)
    })?;
    UserPtr::<usize>::new(base + offset_of!(Context, v_regs)).write(v_regs)
}

/// Builds the signal frame on the user stack and makes `frame` enter the handler. `EFAULT` if the stack is not there.
pub fn setup(frame: &mut Frame, delivery: &Delivery<'_>) -> Result<(), Errno> {
    let base = delivery.stack_top.wrapping_sub(FRAME_SIZE) & !15;
    let sp = base.wrapping_sub(SIGNAL_STACK);
    check(sp, FRAME_SIZE + SIGNAL_STACK)?;
    write_context(
        base,
        frame,
        delivery.mask,
        0,
        delivery.altstack,
        delivery.signal,
        delivery.handler,
    )?;
    let info = base + offset_of!(SigFrame, info);
    UserPtr::<[usize; 2]>::new(base + offset_of!(SigFrame, info_at)).write([info, base])?;
    delivery.info.write_to(info)?;
    UserPtr::<usize>::new(sp).write(frame.gpr[1])?;

    frame.gpr[1] = sp;
    frame.gpr[3] = delivery.signal as usize;
    if delivery.siginfo {
        frame.gpr[4] = info;
        frame.gpr[5] = base;
        frame.gpr[6] = base;
    } else {
        frame.gpr[4] = base + offset_of!(Head, unused2);
    }
    frame.gpr[12] = delivery.handler;
    // As on Linux, a restorer of the program is not used.
    frame.link = vdso_sigreturn();
    frame.ctr = delivery.handler;
    frame.nip = delivery.handler;
    frame.ccr &= !CR0_SO;
    frame.changed = 1;
    // A handler starts with exceptions and rounding as a program does.
    switch::reset_rounding(frame);
    Ok(())
}

/// Reads what of floating point and vectors `msr` says is there; the rest becomes zero.
fn read_math(math: &mut FpState, base: usize, msr: usize) -> Result<(), Errno> {
    let v_regs: usize = UserPtr::new(base + offset_of!(Context, v_regs)).read()?;
    let (at, msr) = if v_regs == 0 {
        (vectors(base), 0)
    } else {
        (v_regs, msr)
    };
    check(at, 16 * VECTORS + 256)?;
    // SAFETY: just checked; the caller has checked the context.
    unsafe { uaccess::load_math(math, base + offset_of!(Context, fp_regs), at)? };
    if v_regs == 0 {
        math.vrsave = 0;
    }
    if msr & MSR_VEC == 0 {
        math.vs[32..].fill(0);
        math.vscr = 0;
    }
    if msr & MSR_VSX == 0 {
        math.vs[..32]
            .iter_mut()
            .for_each(|register| *register &= !0 << 64);
    }
    Ok(())
}

/// Makes `frame` what the context at `base` says. Nothing there can harm the kernel: only byte order and step bits of the machine state are the user's.
fn read_context(frame: &mut Frame, base: usize) -> Result<Restored, Errno> {
    // The alternate stack (address, flags, size) and the mask.
    let [sp, flags, size, mask]: [usize; 4] = UserPtr::new(base + 2 * size_of::<usize>()).read()?;
    let [nip, msr, orig_gpr3, ctr, link, xer, ccr]: [usize; 7] =
        UserPtr::new(base + offset_of!(Context, more)).read()?;
    switch::replace_math(frame, |math| read_math(math, base, msr))?;
    let len = size_of_val(&frame.gpr);
    // SAFETY: its own bytes, of integers.
    let gpr = unsafe { core::slice::from_raw_parts_mut(frame.gpr.as_mut_ptr().cast(), len) };
    read_bytes(gpr, base + offset_of!(Context, gpr))?;
    frame.nip = nip & !3;
    frame.msr = MSR_USER & !1 | msr & 1;
    frame.orig_gpr3 = orig_gpr3;
    frame.ctr = ctr;
    frame.link = link;
    frame.xer = xer;
    frame.ccr = ccr;
    frame.changed = 1;
    Ok(Restored {
        mask: mask as u64,
        altstack: (sp, flags as u32, size),
    })
}

/// Restores all registers (floating point included) from the signal frame at the user stack pointer. The frame is no longer a system call's.
pub fn restore(frame: &mut Frame) -> Result<Restored, Errno> {
    frame.forget_syscall();
    // The trampoline has taken the handler's stack frame off.
    let base = frame.gpr[1];
    check(base, size_of::<Context>())?;
    read_context(frame, base)
}

/// `swapcontext`: writes the context of `frame` to `to`, leaving what is not registers or mask as it is.
pub(super) fn save_context(to: usize, frame: &Frame, mask: u64) -> Result<(), Errno> {
    check(to, size_of::<Context>())?;
    let [_, link, sp, flags, size]: [usize; 5] = UserPtr::new(to).read()?;
    write_context(to, frame, mask, link, (sp, flags as u32, size), 0, 0)
}

/// `swapcontext`: makes `frame` what the context at `from` says; the mask there.
pub(super) fn load_context(frame: &mut Frame, from: usize) -> Result<u64, Errno> {
    check(from, size_of::<Context>())?;
    frame.forget_syscall();
    Ok(read_context(frame, from)?.mask)
}

/// Bytes of a context.
pub(super) const CONTEXT_SIZE: usize = size_of::<Context>();
