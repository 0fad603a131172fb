//! Signal frames: the layouts user space knows. With `SA_SIGINFO`, `siginfo_t` and `ucontext_t`; without, the
//! context alone. Inside the context a record with the floating-point registers.

use super::frame::{
    Frame, OLD_BASE, PSR_A, PSR_F, PSR_FLAGS, PSR_GE, PSR_I, PSR_IT, PSR_MODE_MASK, PSR_T, PSR_USER,
};
pub use super::no_compat::{restore_compat, setup_compat};
use super::switch::Fault;
use super::uaccess;
use crate::mm::user::{Plain, UserPtr, check};
use crate::signal::{Delivery, Restored};
use core::mem::offset_of;
use limen_linux_abi::Errno;

/// The mark of the floating-point record: magic number and size.
const VFP_MARK: u64 = 0x5646_5001 | VFP_SIZE << 32;
const VFP_SIZE: u64 = 288;
/// `uc_flags` of a frame without `siginfo_t`.
const OLD_FRAME: usize = 0x5ac3_c35a;
/// `sigreturn`: the return from such a frame.
const NR_SIGRETURN: isize = 119;

/// The code of the SIGSEGV for a bad signal frame, whose address is then the stack pointer. `None`: the
/// kernel's own, without one.
pub const BAD_FRAME: Option<i32> = None;

/// The least alternate stack (`MINSIGSTKSZ`).
pub const MIN_STACK_SIZE: usize = 2048;

/// `AT_MINSIGSTKSZ`: what a signal frame takes at most, with alignment.
pub fn min_frame_size() -> usize {
    INFO + CONTEXT + TRAILER + 8
}

/// `siginfo_t`'s size, where the context begins in a frame that has one.
const INFO: usize = 128;
/// The two instructions of the return, for handlers without a restorer, with room for four.
const TRAILER: usize = 16;

/// `ucontext_t` without its room for more signals and the floating-point record behind that.
#[derive(Clone, Copy)]
#[repr(C)]
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
}
// SAFETY: integers only, and no padding.
unsafe impl Plain for Context {}

const _: () = assert!(offset_of!(Context, regs) == 32 && size_of::<Context>() == 112);

/// The size of a whole `ucontext_t`; where in it the floating-point record begins with its mark, and goes on.
const CONTEXT: usize = 744;
const VFP: usize = 232;
const VFP_RECORD: usize = VFP + 8;
const _: () = assert!(8 + uaccess::FP_RECORD - 4 == VFP_SIZE as usize);

/// Builds the signal frame on the user stack and makes `frame` enter the handler. `EFAULT` if the stack is
/// not there.
#[inline(always)]
pub fn setup(frame: &mut Frame, delivery: &Delivery<'_>) -> Result<(), Errno> {
    let info = if delivery.siginfo { INFO } else { 0 };
    let total = info + CONTEXT + TRAILER;
    let base = delivery.stack_top.wrapping_sub(total) & !7;
    check(base, total)?;
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
    };
    UserPtr::new(base + info).write(context)?;
    // SAFETY: the frame was checked.
    if !unsafe { uaccess::save_fp(base + info + VFP, VFP_MARK) } {
        return Err(Errno::EFAULT);
    }
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
    // In user mode whatever the frame says. As on Linux nothing else is left of it but GE.
    frame.cpsr = PSR_USER | frame.cpsr & PSR_GE | if delivery.handler & 1 != 0 { PSR_T } else { 0 };
    frame.forget_syscall();
    Ok(())
}

/// A user-supplied processor state made safe. `false` if it asked for what it may not have; then only what
/// user mode may choose is left.
pub(super) fn sanitize_psr(cpsr: usize) -> (usize, bool) {
    if cpsr & (PSR_MODE_MASK | PSR_I) == PSR_USER {
        return (cpsr & !(PSR_F | PSR_A), true);
    }
    (cpsr & (PSR_FLAGS | PSR_IT | PSR_T) | PSR_USER, false)
}

/// Restores all registers (floating point included) from the signal frame at the user stack pointer;
/// user-controlled bits that could harm the kernel are refused or masked. The frame is no longer a system
/// call's.
pub fn restore(frame: &mut Frame) -> Result<Restored, Errno> {
    let is_old = frame.syscallno == NR_SIGRETURN || frame.syscallno == OLD_BASE as isize + NR_SIGRETURN;
    let info = if is_old { 0 } else { INFO };
    frame.forget_syscall();
    let base = frame.sp;
    if !base.is_multiple_of(8) {
        return Err(Errno::EFAULT);
    }
    check(base, info + CONTEXT)?;
    let context = UserPtr::<Context>::new(base + info).read()?;
    frame.regs = context.regs;
    frame.sp = context.sp;
    frame.lr = context.lr;
    frame.pc = context.pc;
    // Before anything fails: the handler of the SIGSEGV for a bad frame begins with what is left here.
    let allowed;
    (frame.cpsr, allowed) = sanitize_psr(context.cpsr);
    let mark: u64 = UserPtr::new(base + info + VFP).read()?;
    if !allowed || mark != VFP_MARK {
        return Err(Errno::EFAULT);
    }
    // SAFETY: the frame was checked.
    if !unsafe { uaccess::load_fp(base + info + VFP_RECORD) } {
        return Err(Errno::EFAULT);
    }
    Ok(Restored {
        mask: u64::from(context.mask[0]) | u64::from(context.mask[1]) << 32,
        altstack: (context.stack_sp, context.stack_flags, context.stack_size),
    })
}

/// Whether a handler that is returning through the kernel's own code goes on at `ip` behind its system call.
pub fn is_trampoline(ip: usize) -> bool {
    super::kuser::is_sigreturn(ip)
}
