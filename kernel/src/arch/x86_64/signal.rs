//! Signal frames: the layout user space knows (`struct rt_sigframe`, `ucontext`, `sigcontext` with the
//! floating-point state behind a pointer).

use super::frame::{EFLAGS_DF, EFLAGS_RF, EFLAGS_TF, Frame, USER_CS, USER_DS};
use super::signal_fpu::{fpu_size, restore_fpu, save_fpu};
pub use super::signal_i386::{restore_compat, setup_compat};
use super::switch::Fault;
use super::{fpu, selector};
use crate::mm::user::{Plain, UserBlock};
use crate::signal::deliver::SS_ONSTACK;
use crate::signal::{Delivery, Restored, info};
use core::mem::offset_of;
use limen_linux_abi::Errno;

/// The code of the SIGSEGV for a bad signal frame, whose address is then the stack pointer. `None`: the
/// kernel's own, without one.
pub const BAD_FRAME: Option<i32> = None;

/// The least size of an alternate signal stack (`MINSIGSTKSZ`).
pub const MIN_STACK_SIZE: usize = 2048;

/// `uc_flags`: the floating-point state is followed by extended state.
const UC_FP_XSTATE: usize = 1;
/// `uc_flags`: the stack segment is saved, and restored as it is.
const UC_SIGCONTEXT_SS: usize = 2;
const UC_STRICT_RESTORE_SS: usize = 4;
/// What the ABI lets leaf functions use below the stack pointer.
const RED_ZONE: usize = 128;

/// `struct sigcontext` (64-bit).
#[derive(Clone, Copy)]
#[repr(C)]
struct SigContext {
    /// r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags.
    regs: [usize; 18],
    cs: u16,
    gs: u16,
    fs: u16,
    ss: u16,
    err: usize,
    trapno: usize,
    oldmask: usize,
    cr2: usize,
    fpstate: usize,
    reserved: [usize; 8],
}

/// `struct ucontext`.
#[derive(Clone, Copy)]
#[repr(C)]
struct UContext {
    flags: usize,
    link: usize,
    stack_sp: usize,
    stack_flags: u32,
    _pad: u32,
    stack_size: usize,
    context: SigContext,
    mask: u64,
}

/// `struct rt_sigframe`.
#[derive(Clone, Copy)]
#[repr(C)]
struct SigFrame {
    restorer: usize,
    ucontext: UContext,
    info: [u64; info::SIZE / 8],
}

/// Where the `siginfo_t` is.
const INFO: usize = offset_of!(SigFrame, info);
/// Bytes of the frame.
const FRAME_SIZE: usize = size_of::<SigFrame>();
/// What of a `ucontext` is read by a return from a handler: from the alternate stack to the floating-point
/// state's address.
const READ_FROM: usize = offset_of!(UContext, stack_sp);

const _: () = assert!(size_of::<SigContext>() == 256 && size_of::<UContext>() == 304 && FRAME_SIZE == 440);

// SAFETY: integers only, padding spelled out.
unsafe impl Plain for SigFrame {}
// SAFETY: integers only, padding spelled out.
unsafe impl Plain for Restorable {}

/// The middle of a `ucontext`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Restorable {
    stack_sp: usize,
    stack_flags: u32,
    _pad: u32,
    stack_size: usize,
    regs: [usize; 18],
    /// The selectors of code, GS, FS and the stack, 16 bits each from the lowest.
    segments: usize,
    /// Error code, trap number, old mask, fault address.
    unread: [usize; 4],
    fpstate: usize,
}

const _: () = assert!(
    READ_FROM + offset_of!(Restorable, fpstate)
        == offset_of!(UContext, context) + offset_of!(SigContext, fpstate)
);

/// Bytes the largest signal frame takes (`AT_MINSIGSTKSZ`).
pub fn min_frame_size() -> usize {
    FRAME_SIZE + fpu_size() + 64 + 16 + RED_ZONE
}

/// Builds the signal frame on the user stack and makes `frame` enter the handler. `EFAULT` if the stack is
/// not there.
#[inline(always)]
pub fn setup(frame: &mut Frame, delivery: &Delivery<'_>) -> Result<(), Errno> {
    let Some(restorer) = delivery.restorer else {
        return Err(Errno::EFAULT);
    };
    let mut sp = delivery.stack_top;
    let (bottom, flags, size) = delivery.altstack;
    let mut alternate = true;
    if sp == frame.rsp {
        sp = sp.wrapping_sub(RED_ZONE);
        alternate = flags & SS_ONSTACK != 0;
    }
    let fpu_size = fpu_size();
    let fp = sp.wrapping_sub(fpu_size) & !63;
    // As after a call: 8 below a multiple of 16.
    let at = (fp.wrapping_sub(FRAME_SIZE) & !15).wrapping_sub(8);
    // Only on x86 is the alternate stack's lower end one: nothing is written below it.
    if alternate && !(at > bottom && at - bottom <= size) {
        return Err(Errno::EFAULT);
    }
    let place = UserBlock::<FRAME_SIZE>::new(at)?;
    save_fpu(fp, fpu_size)?;
    // (The extended state is never so small.)
    let extended = usize::from(fpu_size != fpu::LEGACY) * UC_FP_XSTATE;
    let f = &*frame;
    let (flags_of_stack, stack) = if f.cs as u16 == USER_CS as u16 && f.ss == USER_DS {
        (UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS, USER_DS)
    } else {
        unusual(f)
    };
    let fault = Fault::of_current();
    let context = SigContext {
        regs: [
            f.r8, f.r9, f.r10, f.r11, f.r12, f.r13, f.r14, f.r15, f.rdi, f.rsi, f.rbp, f.rbx, f.rdx, f.rax,
            f.rcx, f.rsp, f.rip, f.eflags,
        ],
        cs: f.cs as u16,
        gs: 0,
        fs: 0,
        ss: f.ss as u16,
        err: fault.error,
        trapno: fault.trap,
        oldmask: delivery.mask as usize,
        cr2: fault.cr2,
        fpstate: fp,
        reserved: [0; 8],
    };
    let ucontext = UContext {
        flags: extended | flags_of_stack,
        link: 0,
        stack_sp: bottom,
        stack_flags: flags,
        _pad: 0,
        stack_size: size,
        context,
        mask: delivery.mask,
    };
    let mut whole = SigFrame {
        restorer,
        ucontext,
        info: [0; info::SIZE / 8],
    };
    delivery.info.fill(&mut whole.info);
    place.write(0, &whole)?;
    fpu::load_initial();
    frame.cs = USER_CS;
    frame.mark_changed();
    frame.ss = stack;
    frame.rdi = delivery.signal as usize;
    let at = place.addr();
    frame.rsi = at + INFO;
    frame.rdx = at + offset_of!(SigFrame, ucontext);
    frame.rax = 0;
    frame.rip = delivery.handler;
    frame.rsp = at;
    frame.eflags &= !(EFLAGS_DF | EFLAGS_RF | EFLAGS_TF);
    Ok(())
}

/// The words of a context's segments that a return looks at: code and stack.
const SEGMENTS_READ: usize = 0xffff << 48 | 0xffff;

/// The code and stack segment selectors of a frame with others than programs usually have. They go back as
/// they are, and if they cannot be used the return faults; but if the frame does not ask for its stack
/// segment, 64-bit code gets the ordinary one instead.
#[cold]
fn other_segments(segments: usize, flags: usize) -> (usize, usize) {
    let code = segments & 0xffff | 3;
    let stack = segments >> 48 | 3;
    if flags & UC_STRICT_RESTORE_SS == 0 && code == USER_CS {
        (code, usable_stack(stack))
    } else {
        (code, stack)
    }
}

/// `stack`, or the ordinary stack segment if user mode cannot run with that.
fn usable_stack(stack: usize) -> usize {
    if selector::is_stack(stack as u16) {
        stack
    } else {
        USER_DS
    }
}

/// `uc_flags`, and the stack segment for the handler, of a thread that has other segments than programs
/// usually have: a handler keeps a stack segment of the program's own if it can be used, and which one the
/// return restores is up to the frame only if it came from 64-bit code.
#[cold]
fn unusual(frame: &Frame) -> (usize, usize) {
    let strict = if frame.cs & 0xffff == USER_CS {
        UC_STRICT_RESTORE_SS
    } else {
        0
    };
    (UC_SIGCONTEXT_SS | strict, usable_stack(frame.ss))
}

/// Restores all registers (floating point included) from the signal frame at the user stack pointer;
/// user-controlled bits that could harm the kernel are refused or masked. The frame is no longer a system
/// call's.
pub fn restore(frame: &mut Frame) -> Result<Restored, Errno> {
    // The handler's return has taken the restorer's address off the stack.
    let at = frame
        .rsp
        .wrapping_sub(8)
        .wrapping_add(offset_of!(SigFrame, ucontext));
    let block = UserBlock::<{ size_of::<UContext>() }>::new(at)?;
    let mut place = core::mem::MaybeUninit::<Restorable>::uninit();
    let uc = block.read_into(READ_FROM, &mut place)?;
    let mask = block.read(offset_of!(UContext, mask))?;
    let segments = if uc.segments & SEGMENTS_READ == USER_CS | USER_DS << 48 {
        (USER_CS, USER_DS)
    } else {
        // Before any register changes: it may not be there.
        other_segments(uc.segments, block.read(offset_of!(UContext, flags))?)
    };
    let eflags;
    [
        frame.r8, frame.r9, frame.r10, frame.r11, frame.r12, frame.r13, frame.r14, frame.r15, frame.rdi,
        frame.rsi, frame.rbp, frame.rbx, frame.rdx, frame.rax, frame.rcx, frame.rsp, frame.rip, eflags,
    ] = uc.regs;
    frame.set_user_flags(eflags);
    (frame.cs, frame.ss) = segments;
    frame.mark_changed();
    frame.forget_syscall();
    restore_fpu(uc.fpstate)?;
    Ok(Restored {
        mask,
        altstack: (uc.stack_sp, uc.stack_flags, uc.stack_size),
    })
}

/// Whether a handler that is returning through the kernel's own code goes on at `ip` behind its system call.
pub fn is_trampoline(_ip: usize) -> bool {
    // Handlers return through code of the program's.
    false
}
