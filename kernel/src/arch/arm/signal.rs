//! Signal frames: the layouts user space knows. With `SA_SIGINFO`, `siginfo_t` and `ucontext_t`; without, the context alone. Inside the
//! context a record with the floating-point registers.

use super::frame::{Frame, PSR_A, PSR_E, PSR_F, PSR_FLAGS, PSR_I, PSR_IT, PSR_MODE_MASK, PSR_T, PSR_USER};
use super::switch::{self, Fault, FpState};
use crate::mm::user::{Plain, UserPtr, check};
use crate::signal::{Delivery, Restored};
use core::mem::offset_of;
use limen_linux_abi::Errno;

const VFP_MAGIC: u32 = 0x5646_5001;
const VFP_SIZE: u32 = 288;
/// `uc_flags` of a frame without `siginfo_t`.
const OLD_FRAME: usize = 0x5ac3_c35a;
/// `sigreturn`: the return from such a frame.
const NR_SIGRETURN: isize = 119;

/// The least alternate stack (`MINSIGSTKSZ`).
pub const MIN_STACK_SIZE: usize = 2048;

/// `AT_MINSIGSTKSZ`: what a signal frame takes at most, with alignment.
pub fn min_frame_size() -> usize {
    INFO + size_of::<Context>() + TRAILER + 8
}

/// `siginfo_t`'s size, where the context begins in a frame that has one.
const INFO: usize = 128;
/// The two instructions of the return, for handlers without a restorer, with room for four.
const TRAILER: usize = 16;

/// `ucontext_t`.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Context {
    flags: usize,
    link: usize,
    stack_sp: usize,
    stack_flags: u32,
    stack_size: usize,
    trap: u32,
    error: u32,
    old_mask: u32,
    regs: [usize; 13],
    sp: usize,
    lr: usize,
    pc: usize,
    cpsr: usize,
    fault_address: usize,
    /// The mask's two words.
    mask: [u32; 2],
    unused: [u32; 30],
    vfp_magic: u32,
    vfp_size: u32,
    d: [u64; 32],
    fpscr: u32,
    fp_pad: u32,
    fpexc: u32,
    fpinst: u32,
    fpinst2: u32,
    fp_pad2: u32,
    /// The end mark, and the rest of the room for records.
    end: [u32; (512 - VFP_SIZE as usize) / 4],
}
// SAFETY: integers only; the padding the ABI has is in named fields, and the size is a multiple of the alignment.
unsafe impl Plain for Context {}

const _: () = assert!(offset_of!(Context, regs) == 32 && offset_of!(Context, mask) == 104);
const _: () = assert!(offset_of!(Context, vfp_magic) == 232 && size_of::<Context>() == 744);
const _: () = assert!(offset_of!(Context, end) == 232 + VFP_SIZE as usize);

/// Builds the signal frame on the user stack and makes `frame` enter the handler. `EFAULT` if the stack is not there.
pub fn setup(frame: &mut Frame, delivery: &Delivery<'_>) -> Result<(), Errno> {
    let info = if delivery.siginfo { INFO } else { 0 };
    let total = info + size_of::<Context>() + TRAILER;
    let base = delivery.stack_top.wrapping_sub(total) & !7;
    check(base, total)?;
    let fp = switch::read_fp();
    let fault = Fault::of_current();
    let context = Context {
        flags: if delivery.siginfo { 0 } else { OLD_FRAME },
        link: 0,
        stack_sp: delivery.altstack.0,
        stack_flags: delivery.altstack.1,
        stack_size: delivery.altstack.2,
        trap: fault.trap,
        error: fault.error,
        old_mask: delivery.mask as u32,
        regs: frame.regs,
        sp: frame.sp,
        lr: frame.lr,
        pc: frame.pc,
        cpsr: frame.cpsr,
        fault_address: fault.address,
        mask: [delivery.mask as u32, (delivery.mask >> 32) as u32],
        unused: [0; 30],
        vfp_magic: VFP_MAGIC,
        vfp_size: VFP_SIZE,
        d: fp.d,
        fpscr: fp.fpscr,
        fp_pad: 0,
        fpexc: 1 << 30,
        fpinst: 0,
        fpinst2: 0,
        fp_pad2: 0,
        end: [0; (512 - VFP_SIZE as usize) / 4],
    };
    UserPtr::new(base + info).write(context)?;
    if delivery.siginfo {
        delivery.info.write_to(base)?;
    }
    let restorer = match delivery.restorer {
        Some(restorer) => restorer,
        // In the kernel helpers' page: the stack need not be executable.
        None => super::kuser::sigreturn(delivery.siginfo, delivery.handler & 1 != 0),
    };
    frame.regs[0] = delivery.signal as usize;
    if delivery.siginfo {
        frame.regs[1] = base;
        frame.regs[2] = base + INFO;
    }
    frame.lr = restorer;
    frame.sp = base;
    frame.pc = delivery.handler & !1;
    frame.cpsr &= !(PSR_E | PSR_IT | PSR_T);
    if delivery.handler & 1 != 0 {
        frame.cpsr |= PSR_T;
    }
    frame.forget_syscall();
    Ok(())
}

/// Makes a user-supplied processor state safe. `false` if it asked for what it may not have; then only what user mode may choose is left.
pub fn sanitize_psr(cpsr: &mut usize) -> bool {
    *cpsr &= !(PSR_F | PSR_A);
    if *cpsr & (PSR_MODE_MASK | PSR_I) == PSR_USER {
        return true;
    }
    *cpsr = *cpsr & (PSR_FLAGS | PSR_IT | PSR_T) | PSR_USER;
    false
}

/// Restores all registers (floating point included) from the signal frame at the user stack pointer; user-controlled bits that could
/// harm the kernel are refused or masked. The frame is no longer a system call's.
pub fn restore(frame: &mut Frame) -> Result<Restored, Errno> {
    let info = if frame.syscallno == NR_SIGRETURN { 0 } else { INFO };
    frame.forget_syscall();
    let base = frame.sp;
    if !base.is_multiple_of(8) {
        return Err(Errno::EFAULT);
    }
    check(base, info + size_of::<Context>())?;
    let context = UserPtr::<Context>::new(base + info).read()?;
    frame.regs = context.regs;
    frame.sp = context.sp;
    frame.lr = context.lr;
    frame.pc = context.pc;
    frame.cpsr = context.cpsr;
    if !sanitize_psr(&mut frame.cpsr) || context.vfp_magic != VFP_MAGIC || context.vfp_size != VFP_SIZE {
        return Err(Errno::EFAULT);
    }
    switch::write_fp(&FpState {
        d: context.d,
        fpscr: context.fpscr,
        pad: 0,
    });
    Ok(Restored {
        mask: u64::from(context.mask[0]) | u64::from(context.mask[1]) << 32,
        altstack: (context.stack_sp, context.stack_flags, context.stack_size),
    })
}
