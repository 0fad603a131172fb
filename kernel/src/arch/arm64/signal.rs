//! Signal frames: the layout user space knows (`rt_sigframe`: `siginfo_t`, `ucontext_t`, and behind it records of what else there is: the
//! floating-point registers, the syndrome of a fault).

use super::frame::{
    Frame, PSTATE_A, PSTATE_BTYPE, PSTATE_D, PSTATE_F, PSTATE_I, PSTATE_MODE_MASK, PSTATE_NZCV,
};
use super::switch::{self, Fault, FpState};
use crate::mm::user::{Plain, UserPtr, check};
use core::mem::offset_of;
use limen_linux_abi::Errno;

/// What the portable signal code wants done.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Signal number, 1 to 64.
    pub signal: u32,
    /// `siginfo_t`, to be copied as it is.
    pub info: [u8; 128],
    /// The handler's address.
    pub handler: usize,
    /// `sa_restorer`, if `SA_RESTORER` is set.
    pub restorer: Option<usize>,
    /// Address of the vDSO's `rt_sigreturn` trampoline, for ABIs that use it.
    pub vdso_sigreturn: usize,
    /// `SA_SIGINFO` was given.
    pub siginfo: bool,
    /// The signal mask to restore when the handler returns.
    pub mask: u64,
    /// Where the frame goes below: the alternate stack's top, or the interrupted stack pointer.
    pub stack_top: usize,
    /// The alternate stack as `uc_stack`: sp, flags, size.
    pub altstack: (usize, u32, usize),
}

const FPSIMD_MAGIC: u32 = 0x4650_8001;
const ESR_MAGIC: u32 = 0x4553_5201;
const EXTRA_MAGIC: u32 = 0x4558_5401;
const FPSIMD_SIZE: u32 = 528;
/// Room for records in the frame.
const RESERVED: usize = 4096;
/// The whole frame: signal information, context, room for records.
const FRAME_SIZE: usize = offset_of!(SigFrame, fpsimd) + RESERVED;
/// The most that an extra record may point to.
const EXTRA_MAX: u32 = 65536;

#[repr(C, align(16))]
struct Fpsimd {
    magic: u32,
    size: u32,
    fpsr: u32,
    fpcr: u32,
    v: [u128; 32],
}

/// The least alternate stack (`MINSIGSTKSZ`).
pub const MIN_STACK_SIZE: usize = 5120;

/// `AT_MINSIGSTKSZ`: what a signal frame takes at most, with the frame record above it and alignment.
pub fn min_frame_size() -> usize {
    FRAME_SIZE + 16 + 16
}

/// What lies before the records.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct SigHead {
    info: [u8; 128],
    flags: u64,
    link: u64,
    stack_sp: usize,
    stack_flags: u32,
    pad: u32,
    stack_size: usize,
    mask: u64,
    unused: [u64; 16],
    fault_address: u64,
    regs: [usize; 31],
    sp: usize,
    pc: usize,
    pstate: usize,
    pad2: u64,
}

/// The part of the frame that is written and read: everything up to the last record. Piece by piece, so that a kernel stack never holds
/// the whole.
#[repr(C, align(16))]
struct SigFrame {
    head: SigHead,
    fpsimd: Fpsimd,
    /// The syndrome's record if there was a fault, and the end mark.
    tail: [u64; 4],
}
// SAFETY: integers only; the padding the ABI has is in named fields, and the size is a multiple of the alignment.
unsafe impl Plain for SigHead {}

const UCONTEXT: usize = offset_of!(SigFrame, head.flags);
const _: () = assert!(offset_of!(SigFrame, head.fault_address) == UCONTEXT + 176);
const _: () = assert!(offset_of!(SigFrame, fpsimd) == UCONTEXT + 176 + 288);
const _: () = assert!(size_of::<Fpsimd>() == FPSIMD_SIZE as usize);
const _: () = assert!(size_of::<SigFrame>() == offset_of!(SigFrame, tail) + 32);
const _: () = assert!(FRAME_SIZE == 4688);

/// Builds the signal frame on the user stack and makes `frame` enter the handler. `EFAULT` if the stack is not there.
pub fn setup(frame: &mut Frame, delivery: &Delivery) -> Result<(), Errno> {
    // A frame record above the signal frame, so that debuggers can walk through the handler.
    let record = delivery.stack_top.wrapping_sub(16) & !15;
    let base = record.wrapping_sub(FRAME_SIZE) & !15;
    check(base, FRAME_SIZE + 16)?;
    save_fpsimd(base + offset_of!(SigFrame, fpsimd))?;
    let fault = Fault::of_current();
    let head = SigHead {
        info: delivery.info,
        flags: 0,
        link: 0,
        stack_sp: delivery.altstack.0,
        stack_flags: delivery.altstack.1,
        pad: 0,
        stack_size: delivery.altstack.2,
        mask: delivery.mask,
        unused: [0; 16],
        fault_address: fault.address as u64,
        regs: frame.regs,
        sp: frame.sp,
        pc: frame.pc,
        pstate: frame.pstate,
        pad2: 0,
    };
    let tail: [u64; 4] = match fault.esr {
        0 => [0; 4],
        esr => [u64::from(ESR_MAGIC) | 16 << 32, esr, 0, 0],
    };
    UserPtr::new(base + offset_of!(SigFrame, tail)).write(tail)?;
    UserPtr::new(base).write(head)?;
    UserPtr::<[usize; 2]>::new(record).write([frame.regs[29], frame.regs[30]])?;

    frame.regs[0] = delivery.signal as usize;
    if delivery.siginfo {
        frame.regs[1] = base;
        frame.regs[2] = base + UCONTEXT;
    }
    frame.regs[29] = record;
    frame.regs[30] = delivery.restorer.unwrap_or(delivery.vdso_sigreturn);
    frame.sp = base;
    frame.pc = delivery.handler;
    frame.pstate &= !PSTATE_BTYPE;
    frame.forget_syscall();
    Ok(())
}

/// Writes the floating-point record.
#[inline(never)]
fn save_fpsimd(at: usize) -> Result<(), Errno> {
    let fp = switch::read_fp();
    UserPtr::new(at).write([FPSIMD_MAGIC, FPSIMD_SIZE, fp.fpsr, fp.fpcr])?;
    UserPtr::new(at + offset_of!(Fpsimd, v)).write(fp.v)
}

/// Sets the floating-point registers from their record.
#[inline(never)]
fn restore_fpsimd(at: usize) -> Result<(), Errno> {
    let [fpsr, fpcr] = UserPtr::new(at + offset_of!(Fpsimd, fpsr)).read()?;
    let v = UserPtr::new(at + offset_of!(Fpsimd, v)).read()?;
    switch::write_fp(&FpState { v, fpsr, fpcr });
    Ok(())
}

/// What `rt_sigreturn` found in the signal frame.
#[derive(Clone, Copy, Debug)]
pub struct Restored {
    /// The signal mask.
    pub mask: u64,
    /// The alternate stack: sp, flags, size.
    pub altstack: (usize, u32, usize),
}

/// Bits of `PSTATE` that mean nothing at EL0, or that only the kernel may use: dropped.
const PSTATE_DROPPED: usize = 0xffff_ffff_0000_0000 | 3 << 26 | 3 << 22 | 0xff << 13 | 1 << 5;

/// Makes a user-supplied processor state safe. `false` if it asked for what it may not have; then only the conditions are left.
pub fn sanitize_pstate(pstate: &mut usize) -> bool {
    *pstate &= !PSTATE_DROPPED;
    if *pstate & (PSTATE_MODE_MASK | PSTATE_D | PSTATE_A | PSTATE_I | PSTATE_F) == 0 {
        return true;
    }
    *pstate &= PSTATE_NZCV;
    false
}

/// Finds the floating-point record among those behind the context: its address. `EFAULT` if they are not well formed.
fn find_fpsimd(reserved: usize) -> Result<usize, Errno> {
    let (mut base, mut limit, mut offset) = (reserved, RESERVED, 0);
    let mut found: Option<usize> = None;
    let mut extra = false;
    loop {
        if limit - offset < 8 || offset % 16 != 0 {
            return Err(Errno::EFAULT);
        }
        let [magic, size] = UserPtr::<[u32; 2]>::new(base + offset).read()?;
        if limit - offset < size as usize {
            return Err(Errno::EFAULT);
        }
        match magic {
            0 if size == 0 => break,
            FPSIMD_MAGIC if found.is_none() && size == FPSIMD_SIZE => found = Some(base + offset),
            ESR_MAGIC if size >= 8 => {}
            EXTRA_MAGIC if !extra && size == 32 => {
                extra = true;
                let [data, bytes] = UserPtr::<[u64; 2]>::new(base + offset + 8).read()?;
                let bytes = bytes as u32;
                let [end_magic, end_size] = UserPtr::<[u32; 2]>::new(base + offset + 32).read()?;
                // It must follow at once, behind its own end mark.
                let expected = base + offset + 32 + 16;
                if end_magic != 0
                    || end_size != 0
                    || data as usize != expected
                    || !bytes.is_multiple_of(16)
                    || bytes > EXTRA_MAX
                {
                    return Err(Errno::EFAULT);
                }
                (base, limit, offset) = (expected, bytes as usize, 0);
                continue;
            }
            _ => return Err(Errno::EFAULT),
        }
        if size < 8 {
            return Err(Errno::EFAULT);
        }
        offset += size as usize;
    }
    found.ok_or(Errno::EFAULT)
}

/// Restores all registers (floating point included) from the signal frame at the user stack pointer; user-controlled bits that could
/// harm the kernel are refused or masked. The frame is no longer a system call's.
pub fn restore(frame: &mut Frame) -> Result<Restored, Errno> {
    frame.forget_syscall();
    let base = frame.sp;
    if !base.is_multiple_of(16) {
        return Err(Errno::EFAULT);
    }
    check(base, FRAME_SIZE)?;
    let context = UserPtr::<SigHead>::new(base).read()?;
    frame.regs = context.regs;
    frame.sp = context.sp;
    frame.pc = context.pc;
    frame.pstate = context.pstate;
    if !sanitize_pstate(&mut frame.pstate) {
        return Err(Errno::EFAULT);
    }
    restore_fpsimd(find_fpsimd(base + offset_of!(SigFrame, fpsimd))?)?;
    Ok(Restored {
        mask: context.mask,
        altstack: (context.stack_sp, context.stack_flags, context.stack_size),
    })
}
