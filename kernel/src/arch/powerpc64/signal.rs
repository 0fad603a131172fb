//! Signal frames: the layout user space knows (`rt_sigframe`: `ucontext_t` with the registers, floating point
//! and vectors; a trampoline's room; `siginfo_t`; what functions may use below the stack pointer).

use super::frame::{CR0_SO, Frame};
pub use super::no_compat::{restore_compat, setup_compat};
use super::spr::{self, MSR_FE0, MSR_FE1, MSR_FP, MSR_LE, MSR_MATH, MSR_USER, MSR_VEC, MSR_VSX};
use super::switch;
use super::uaccess::{self, user_asm};
use crate::mm::user::{UserPtr, check};
use crate::signal::{Delivery, Restored, mapped_sigreturn, vdso_sigreturn};
use core::arch::asm;
use core::mem::{MaybeUninit, offset_of};
use limen_linux_abi::Errno;

/// The code of the SIGSEGV for a bad signal frame, whose address is then the stack pointer. `None`: the
/// kernel's own, without one.
pub const BAD_FRAME: Option<i32> = None;

/// Bytes of the least stack frame below a signal frame: what the trampoline takes off (Linux:
/// `__SIGNAL_FRAMESIZE`).
pub const SIGNAL_STACK: usize = 128;

/// The least alternate stack (`MINSIGSTKSZ`).
pub const MIN_STACK_SIZE: usize = 8192;
/// Words of a register set after the general registers; the first of [`Frame`] come first.
const MORE_REGISTERS: usize = 16;
/// Vectors of the vector area: 32 registers, `VSCR`, `VRSAVE`.
const VECTORS: usize = 34;
/// Where the last word of those and of the second halves of floating point behind them lies.
const LAST_VECTOR: usize = 16 * VECTORS + 256 - 4;

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
/// Where the registers are in a signal frame, and the address of the vectors: for unwinders.
pub const GENERAL: usize = offset_of!(Context, gpr);
/// See [`GENERAL`].
pub const VECTORS_AT: usize = offset_of!(Context, v_regs);
// So that its code is in one line of a cache.
const _: () = assert!(offset_of!(SigFrame, trampoline).is_multiple_of(16));

/// `AT_MINSIGSTKSZ`: what a signal frame takes at most, with the stack frame below it and alignment.
pub fn min_frame_size() -> usize {
    FRAME_SIZE + SIGNAL_STACK + 16
}

/// Where the vectors of the context at `base` are: the next multiple of 16 in their room.
fn vectors(base: usize) -> usize {
    (base + offset_of!(Context, vmx_reserve)).next_multiple_of(16)
}

/// After a first attempt has failed: tries until it works. `bring` has the page of a word brought in.
#[cold]
#[inline(never)]
fn retry<R>(
    words: [usize; 4],
    bring: unsafe fn(usize) -> bool,
    mut attempt: impl FnMut() -> Option<R>,
) -> Result<R, Errno> {
    // Another thread may take them away again, but has no reason to.
    for _ in 0..8 {
        // SAFETY: the callers have checked that the words lie below `USER_END`.
        if !words.iter().all(|word| unsafe { bring(*word) }) {
            break;
        }
        if let Some(result) = attempt() {
            return Ok(result);
        }
    }
    Err(Errno::EFAULT)
}

/// Has the page of a word brought in, to be read.
///
/// # Safety
/// It lies below `USER_END`.
unsafe fn bring_in(word: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { uaccess::get_u32(word).is_some() }
}

/// Has the page of a word brought in, to be written.
///
/// # Safety
/// It lies below `USER_END`, and nobody else uses it.
unsafe fn bring_in_writable(word: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { uaccess::get_u32(word).is_some_and(|value| uaccess::put_u32(word, value)) }
}

/// Stores all registers into the context at `base` and the vectors at `v_regs`; `None` after a fault.
/// `fresh`: exceptions and rounding are then as a program starts with.
///
/// # Safety
/// Inside [`switch::in_processor`]; both lie below `USER_END`.
#[inline(always)]
unsafe fn store_registers(base: usize, v_regs: usize, frame: &Frame, fresh: bool) -> Option<()> {
    let mut kept = MaybeUninit::<[u128; 2]>::uninit();
    // SAFETY: as the caller promises. The two registers used are put back.
    unsafe {
        let done = user_asm!(
            [
                each!("stxv 32 * n, 16 * n({kept})"; 2),
                each!("stxv 32 + n, 16 * n({v_regs})"; 32),
                each!("stfd n, 8 * n + {fp}({base})"; 32),
                each!(
                    "xxmrgld 32, 2 * n + 1, 2 * n",
                    "stxv 32, 16 * n + {others}({v_regs})";
                    16
                ),
                "mffs 0",
                "stfd 0, {fp} + 256({base})",
                "mfvscr 0",
                "stxv 32, {vscr}({v_regs})",
                "mfspr {word}, {vrsave}",
                "stw {word}, {vscr} + 16({v_regs})",
                each!(
                    "ld {word}, 8 * n({frame})",
                    "std {word}, 8 * n + {gpr}({base})";
                    44
                ),
                "std {msr}, {gpr} + {msr_at}({base})",
                "std {trap}, {gpr} + {trap_at}({base})"
            ],
            kept = in(reg_nonzero) kept.as_mut_ptr(), base = in(reg_nonzero) base,
            v_regs = in(reg_nonzero) v_regs,
            frame = in(reg_nonzero) frame, msr = in(reg) frame.msr & !MSR_MATH | MSR_FP | MSR_VEC | MSR_VSX,
            trap = in(reg) frame.trap & !1, word = out(reg) _, fp = const offset_of!(Context, fp_regs),
            vscr = const 16 * (VECTORS - 2),
            others = const 16 * VECTORS, gpr = const offset_of!(Context, gpr),
            msr_at = const offset_of!(Frame, msr),
            trap_at = const offset_of!(Frame, trap), vrsave = const spr::VRSAVE
        );
        if done && fresh {
            asm!(
                "xxlxor 0, 0, 0",
                "mtfsf 255, 0, 1, 0",
                options(nostack, preserves_flags)
            );
        }
        asm!(
            each!("lxv 32 * n, 16 * n({0})"; 2), in(reg_nonzero) kept.as_ptr(),
            options(nostack, preserves_flags, readonly),
        );
        done.then_some(())
    }
}

/// What [`load_registers`] finds besides: the machine state; alternate stack (address, flags, size) and mask.
type Found = (usize, [usize; 4]);

/// Loads all registers from the context at `base` and the vectors at `v_regs`. `None`: a fault; some have
/// changed. The machine state is user mode's in any case: only the byte order is taken from the context, and
/// which floating-point exceptions are interrupts stays.
///
/// # Safety
/// Inside [`switch::load_math`]; both lie below `USER_END`.
#[inline(always)]
unsafe fn load_registers(base: usize, v_regs: usize, frame: &mut Frame) -> Option<Found> {
    let [sp, flags, size, mask]: [usize; 4];
    let exceptions = frame.msr & (MSR_FE0 | MSR_FE1);
    // SAFETY: as the caller promises. Nobody looks at the frame meanwhile.
    let done = unsafe {
        user_asm!(
            [
                each!("ld 5 + n, 16 + 8 * n({base})"; 4),
                each!(
                    "ld {word}, 8 * n + {gpr}({base})",
                    "std {word}, 8 * n({frame})";
                    39
                ),
                "lxv 32, {vscr}({v_regs})",
                "mtvscr 0",
                "lfd 0, 256({fp})",
                "mtfsf 255, 0, 1, 0",
                each!(
                    "lxv 32, 16 * n({fp})",
                    "lxv 2 * n + 1, 16 * n + {others}({v_regs})",
                    "xxmrgld 2 * n, 32, 2 * n + 1",
                    "xxmrghd 2 * n + 1, 32, 2 * n + 1";
                    16
                ),
                each!("lxv 32 + n, 16 * n({v_regs})"; 32),
                "lwz {word}, {vscr} + 16({v_regs})",
                "mtspr {vrsave}, {word}"
            ],
            base = in(reg_nonzero) base, fp = in(reg_nonzero) base + offset_of!(Context, fp_regs),
            v_regs = in(reg_nonzero) v_regs,
            frame = in(reg_nonzero) &raw mut *frame, out("r5") sp, out("r6") flags, out("r7") size,
            out("r8") mask,
            word = out(reg) _, vscr = const 16 * (VECTORS - 2), others = const 16 * VECTORS,
            gpr = const offset_of!(Context, gpr),
            vrsave = const spr::VRSAVE
        )
    };
    let msr = frame.msr;
    frame.msr = MSR_USER & !1 | msr & 1 | exceptions;
    frame.nip &= !3;
    done.then_some((msr, [sp, flags, size, mask]))
}

/// Builds the signal frame on the user stack and makes `frame` enter the handler. `EFAULT` if the stack is
/// not there.
#[inline(always)]
pub fn setup(frame: &mut Frame, delivery: &Delivery<'_>) -> Result<(), Errno> {
    let base = delivery.stack_top.wrapping_sub(FRAME_SIZE) & !15;
    let sp = base.wrapping_sub(SIGNAL_STACK);
    check(sp, FRAME_SIZE + SIGNAL_STACK)?;
    let info = base + offset_of!(SigFrame, info);
    let v_regs = vectors(base);
    let (stack, flags, size) = delivery.altstack;
    // SAFETY: just checked; what is stored is known, `SigInfo` among it.
    let done = unsafe {
        user_asm!(
            [
                each!("std 5 + n, 16 + 8 * n({base})"; 3),
                "std 10, 40({base})",
                each!("std 8 + n, {told} + 8 * n({base})"; 4),
                "std {v_regs}, {v_regs_at}({base})",
                "std {info}, {info_at}({base})",
                "std {base}, {info_at} + 8({base})",
                "std {old}, -{below}({base})",
                each!(
                    "ld {word}, 8 * n({from})",
                    "std {word}, 8 * n({info})";
                    6
                ),
                each!("std {zero}, 8 * n({base})"; 2),
                each!("std {zero}, 8 * n + 48({info})"; 10)
            ],
            base = in(reg_nonzero) base, info = in(reg_nonzero) info, from = in(reg_nonzero) delivery.info,
            in("r5") stack,
            in("r6") flags as usize, in("r7") size, in("r8") delivery.signal as usize,
            in("r9") delivery.handler, in("r10") delivery.mask,
            in("r11") base + offset_of!(Context, gpr), v_regs = in(reg) v_regs, old = in(reg) frame.gpr[1],
            word = out(reg) _,
            zero = in(reg) 0, told = const offset_of!(Head, told),
            v_regs_at = const offset_of!(Context, v_regs),
            info_at = const offset_of!(SigFrame, info_at), below = const SIGNAL_STACK
        )
    };
    if !done {
        return Err(Errno::EFAULT);
    }
    // SAFETY: just checked.
    unsafe { write_registers(base, v_regs, frame, true)? };

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
    frame.link = match mapped_sigreturn() {
        Some(at) => at,
        None => write_trampoline(base)?,
    };
    frame.ctr = delivery.handler;
    frame.nip = delivery.handler;
    // In the kernel's byte order, whatever was interrupted.
    frame.msr |= MSR_LE;
    frame.ccr &= !CR0_SO;
    frame.changed = 1;
    Ok(())
}

/// Writes the way back into the signal frame at `base`, for a program that has unmapped its vDSO: it may have
/// made its stack executable. Returns where a handler is to return to. `EFAULT`.
#[cold]
fn write_trampoline(base: usize) -> Result<usize, Errno> {
    /// `bctrl`, which Linux has here to call the handler; behind it `addi 1, 1, 128`, `li 0, 172`, `sc`.
    const CODE: [u32; 4] = [
        0x4e80_0421,
        0x3821_0000 | SIGNAL_STACK as u32,
        0x3800_00ac,
        0x4400_0002,
    ];
    let at = base + offset_of!(SigFrame, trampoline);
    // SAFETY: it lies in the frame, which the caller has checked. In one cache line: 16 bytes, aligned.
    let done = unsafe {
        user_asm!(
            [
                "stw {a}, 0({at})",
                "stw {b}, 4({at})",
                "stw {c}, 8({at})",
                "stw {d}, 12({at})",
                "dcbst 0, {at}",
                "sync",
                "icbi 0, {at}",
                "isync"
            ],
            at = in(reg_nonzero) at,
            a = in(reg) CODE[0], b = in(reg) CODE[1], c = in(reg) CODE[2], d = in(reg) CODE[3]
        )
    };
    if done { Ok(at + 4) } else { Err(Errno::EFAULT) }
}

/// [`store_registers`], with pages brought in.
///
/// # Safety
/// Both lie below `USER_END`.
#[inline(always)]
unsafe fn write_registers(base: usize, v_regs: usize, frame: &mut Frame, fresh: bool) -> Result<(), Errno> {
    let mut attempt = || {
        // SAFETY: the caller's promise.
        switch::in_processor(frame, |frame| unsafe {
            store_registers(base, v_regs, frame, fresh)
        })
    };
    if attempt().is_some() {
        return Ok(());
    }
    let words = [base, base + size_of::<Head>(), v_regs, v_regs + LAST_VECTOR];
    retry(words, bring_in_writable, attempt)
}

/// Makes `frame` what the context at `base` says. Nothing there can harm the kernel: only the byte order in
/// the machine state is the user's.
fn read_context(frame: &mut Frame, base: usize) -> Result<Restored, Errno> {
    let v_regs: usize = UserPtr::new(base + offset_of!(Context, v_regs)).read()?;
    let at = if v_regs == 0 { vectors(base) } else { v_regs };
    check(at, 16 * VECTORS + 256)?;
    // SAFETY: just checked; the caller has checked the context.
    let mut attempt = || switch::load_math(frame, |frame| unsafe { load_registers(base, at, frame) });
    let (msr, [sp, flags, size, mask]) = match attempt() {
        Some(found) => found,
        None => retry(
            [base, base + size_of::<Context>() - 4, at, at + LAST_VECTOR],
            bring_in,
            attempt,
        )?,
    };
    if v_regs == 0 && msr & MSR_VSX != 0 {
        return Err(Errno::EFAULT);
    }
    if v_regs == 0 || !msr & (MSR_VEC | MSR_VSX) != 0 {
        forget_vectors(frame, if v_regs == 0 { 0 } else { msr }, v_regs == 0);
    }
    frame.changed = 1;
    Ok(Restored {
        mask: mask as u64,
        altstack: (sp, flags as u32, size),
    })
}

/// What `msr` says is not there becomes zero.
#[cold]
fn forget_vectors(frame: &mut Frame, msr: usize, no_vrsave: bool) {
    switch::with_math(frame, |_| ());
    switch::replace_math(frame, |math| {
        if no_vrsave {
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
    });
}

/// Restores all registers (floating point included) from the signal frame at the user stack pointer. The
/// frame is no longer a system call's.
pub fn restore(frame: &mut Frame) -> Result<Restored, Errno> {
    frame.forget_syscall();
    // The trampoline has taken the handler's stack frame off.
    let base = frame.gpr[1];
    check(base, size_of::<Context>())?;
    read_context(frame, base)
}

/// `swapcontext`: writes the context of `frame` to `to`, leaving what is not registers or mask as it is.
pub(super) fn save_context(to: usize, frame: &mut Frame, mask: u64) -> Result<(), Errno> {
    check(to, size_of::<Context>())?;
    let (regs, v_regs) = (to + offset_of!(Context, gpr), vectors(to));
    UserPtr::new(to).write(0usize)?;
    UserPtr::new(to + 5 * size_of::<usize>()).write(mask)?;
    UserPtr::new(to + offset_of!(Head, told)).write([0, 0, mask as usize, regs])?;
    UserPtr::new(to + offset_of!(Context, v_regs)).write(v_regs)?;
    // SAFETY: just checked.
    unsafe { write_registers(to, v_regs, frame, false) }
}

/// `swapcontext`: makes `frame` what the context at `from` says; the mask there. The thread stays itself
/// (r13), and the byte order what it is.
pub(super) fn load_context(frame: &mut Frame, from: usize) -> Result<u64, Errno> {
    check(from, size_of::<Context>())?;
    frame.forget_syscall();
    let (thread, msr) = (frame.gpr[13], frame.msr);
    let mask = read_context(frame, from)?.mask;
    frame.gpr[13] = thread;
    frame.msr = frame.msr & !MSR_LE | msr & MSR_LE;
    Ok(mask)
}

/// Bytes of a context, and where in it the machine state is.
pub(super) const CONTEXT_SIZE: usize = size_of::<Context>();
pub(super) const CONTEXT_MSR: usize = offset_of!(Context, gpr) + offset_of!(Frame, msr);

/// Whether a handler that is returning through the kernel's own code goes on at `ip` behind its system call.
pub fn is_trampoline(ip: usize) -> bool {
    /// The longest way in bytes from its first instruction to the one behind its system call.
    const LENGTH: usize = 16;
    let start = vdso_sigreturn();
    start != 0 && (1..=LENGTH).contains(&ip.wrapping_sub(start))
}
