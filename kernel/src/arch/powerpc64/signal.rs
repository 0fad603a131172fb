//! Signal frames: the layout user space knows (`rt_sigframe`: `ucontext_t` with the registers, floating point and vectors; a trampoline's room;
//! `siginfo_t`; what functions may use below the stack pointer).

use super::frame::{CR0_SO, Frame};
use super::spr::{MSR_FP, MSR_MATH, MSR_USER, MSR_VEC, MSR_VSX};
use super::switch::{self, FpState};
use super::vdso::SIGNAL_STACK;
use crate::mm::user::{Plain, UserPtr, check};
use crate::signal::{Delivery, Restored, vdso_sigreturn};
use core::mem::offset_of;
use limen_linux_abi::Errno;

/// The least alternate stack (`MINSIGSTKSZ`).
pub const MIN_STACK_SIZE: usize = 8192;
/// Words of a register set; those of [`Frame`] come first.
const REGISTERS: usize = 48;
const FRAME_REGISTERS: usize = 44;
/// The machine state among them.
const PT_MSR: usize = 33;
/// Vectors of the vector area: 32 registers, `VSCR`, `VRSAVE`.
const VECTORS: usize = 34;

/// `ucontext_t` up to the registers.
#[derive(Clone, Copy)]
#[repr(C)]
struct Head {
    flags: u64,
    link: u64,
    stack_sp: usize,
    stack_flags: u32,
    pad: u32,
    stack_size: usize,
    mask: u64,
    unused: [u64; 15],
    unused2: [u64; 4],
    signal: u32,
    pad2: u32,
    handler: usize,
    old_mask: u64,
    regs: usize,
    gp_regs: [usize; REGISTERS],
}
// SAFETY: integers only; padding is in named fields.
unsafe impl Plain for Head {}

/// The rest of the context: floating point, where the vectors are, room for them.
#[repr(C)]
struct Context {
    head: Head,
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
    link: u64,
    altstack: (usize, u32, usize),
    signal: u32,
    handler: usize,
) -> Result<(), Errno> {
    let v_regs = vectors(base);
    let mut gp_regs = [0; REGISTERS];
    gp_regs[..32].copy_from_slice(&frame.gpr);
    let rest = [
        frame.nip,
        frame.msr & !MSR_MATH | MSR_FP | MSR_VEC | MSR_VSX,
        frame.orig_gpr3,
        frame.ctr,
        frame.link,
        frame.xer,
        frame.ccr,
        1,
        frame.trap & !1,
        frame.dar,
        frame.dsisr,
        0,
    ];
    gp_regs[32..FRAME_REGISTERS].copy_from_slice(&rest);
    UserPtr::new(base).write(Head {
        flags: 0,
        link,
        stack_sp: altstack.0,
        stack_flags: altstack.1,
        pad: 0,
        stack_size: altstack.2,
        mask,
        unused: [0; 15],
        unused2: [0; 4],
        signal,
        pad2: 0,
        handler,
        old_mask: mask,
        regs: base + offset_of!(Head, gp_regs),
        gp_regs,
    })?;
    let fp_at = base + offset_of!(Context, fp_regs);
    switch::with_math(frame, |math| write_math(math, fp_at, v_regs))?;
    UserPtr::<usize>::new(base + offset_of!(Context, v_regs)).write(v_regs)
}

#[inline(never)]
fn write_math(math: &FpState, fp_at: usize, v_regs: usize) -> Result<(), Errno> {
    let mut fp = [0u64; 33];
    let mut low = [0u64; 32];
    for n in 0..32 {
        fp[n] = (math.vs[n] >> 64) as u64;
        low[n] = math.vs[n] as u64;
    }
    fp[32] = math.fpscr;
    UserPtr::new(fp_at).write(fp)?;
    let upper: &[u128; 32] = math.vs[32..].try_into().map_err(|_| Errno::EFAULT)?;
    UserPtr::<[u128; 32]>::new(v_regs).write(*upper)?;
    UserPtr::<u128>::new(v_regs + 512).write(math.vscr)?;
    UserPtr::<[u64; 2]>::new(v_regs + 528).write([math.vrsave as u64, 0])?;
    UserPtr::new(v_regs + 16 * VECTORS).write(low)
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
    frame.forget_syscall();
    // A handler starts with exceptions and rounding as a program does.
    switch::change_math(frame, |math| math.fpscr = 0);
    Ok(())
}

#[inline(never)]
fn read_math(base: usize, msr: usize) -> Result<FpState, Errno> {
    let mut math = FpState::ZERO;
    let fp: [u64; 33] = UserPtr::new(base + offset_of!(Context, fp_regs)).read()?;
    for (n, fp) in fp[..32].iter().enumerate() {
        math.vs[n] = u128::from(*fp) << 64;
    }
    math.fpscr = fp[32];
    let v_regs: usize = UserPtr::new(base + offset_of!(Context, v_regs)).read()?;
    if v_regs == 0 {
        return Ok(math);
    }
    check(v_regs, 16 * VECTORS + 256)?;
    if msr & MSR_VEC != 0 {
        let upper: [u128; 32] = UserPtr::new(v_regs).read()?;
        math.vs[32..].copy_from_slice(&upper);
        math.vscr = UserPtr::new(v_regs + 512).read()?;
    }
    math.vrsave = UserPtr::<u32>::new(v_regs + 528).read()? as usize;
    if msr & MSR_VSX != 0 {
        let low: [u64; 32] = UserPtr::new(v_regs + 16 * VECTORS).read()?;
        for (n, low) in low.iter().enumerate() {
            math.vs[n] |= u128::from(*low);
        }
    }
    Ok(math)
}

/// Makes `frame` what the context at `base` says. Nothing there can harm the kernel: only byte order and step bits of the machine state are the user's.
fn read_context(frame: &mut Frame, base: usize) -> Result<Restored, Errno> {
    let head = UserPtr::<Head>::new(base).read()?;
    let math = read_math(base, head.gp_regs[PT_MSR])?;
    let regs = &head.gp_regs;
    frame.gpr.copy_from_slice(&regs[..32]);
    frame.nip = regs[32] & !3;
    frame.msr = MSR_USER & !1 | regs[PT_MSR] & 1;
    frame.orig_gpr3 = regs[34];
    frame.ctr = regs[35];
    frame.link = regs[36];
    frame.xer = regs[37];
    frame.ccr = regs[38];
    frame.changed = 1;
    switch::change_math(frame, |state| *state = math);
    Ok(Restored {
        mask: head.mask,
        altstack: (head.stack_sp, head.stack_flags, head.stack_size),
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
    let old = UserPtr::<Head>::new(to).read()?;
    let stack = (old.stack_sp, old.stack_flags, old.stack_size);
    write_context(to, frame, mask, old.link, stack, 0, 0)
}

/// `swapcontext`: makes `frame` what the context at `from` says; the mask there.
pub(super) fn load_context(frame: &mut Frame, from: usize) -> Result<u64, Errno> {
    check(from, size_of::<Context>())?;
    frame.forget_syscall();
    Ok(read_context(frame, from)?.mask)
}

/// Bytes of a context.
pub(super) const CONTEXT_SIZE: usize = size_of::<Context>();
