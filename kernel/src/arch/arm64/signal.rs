//! Signal frames: the layout user space knows (`rt_sigframe`: `siginfo_t`, `ucontext_t`, and behind it
//! records of what else there is: the floating-point registers, the syndrome of a fault).

use super::float::FpState;
use super::frame::{
    Frame, PSTATE_A, PSTATE_BTYPE, PSTATE_D, PSTATE_F, PSTATE_I, PSTATE_MODE_MASK, PSTATE_NZCV,
};
pub use super::no_compat::{restore_compat, setup_compat};
use super::switch::Fault;
use super::{signal_vectors, sve, sysreg, uaccess, vectors};
use crate::mm::user::{Plain, UserBlock, UserPtr};
use crate::signal::{Delivery, Restored, vdso_sigreturn};
use core::mem::{MaybeUninit, offset_of};
use limen_linux_abi::Errno;

const FPSIMD_MAGIC: u32 = 0x4650_8001;
const ESR_MAGIC: u32 = 0x4553_5201;
const FPSIMD_SIZE: u32 = 528;
const ESR_SIZE: usize = 16;
/// Room for records in the frame.
const RESERVED: usize = 4096;
/// The whole frame: signal information, context, room for records.
const FRAME_SIZE: usize = offset_of!(SigFrame, fpsimd) + RESERVED;
/// How long a frame may be with what an extra record points to (`SIGFRAME_MAXSZ`).
const LONGEST_FRAME: usize = 65536;

#[repr(C, align(16))]
struct Fpsimd {
    magic: u32,
    size: u32,
    fpsr: u32,
    fpcr: u32,
    v: [u128; 32],
}

/// The code of the SIGSEGV for a bad signal frame, whose address is then the stack pointer. `None`: the
/// kernel's own, without one.
pub const BAD_FRAME: Option<i32> = Some(crate::signal::info::code::SEGV_ACCERR);

/// The least alternate stack (`MINSIGSTKSZ`).
pub const MIN_STACK_SIZE: usize = 5120;

/// `AT_MINSIGSTKSZ`: what a signal frame takes at most, with the frame record above it and alignment.
pub fn min_frame_size() -> usize {
    let most = offset_of!(SigFrame, fpsimd) + signal_vectors::most();
    most.max(FRAME_SIZE) + 16 + 16
}

/// The frame up to the end of what is written and read: a description, never made as a whole.
#[repr(C, align(16))]
struct SigFrame {
    info: [u8; 128],
    /// `uc_flags`, `uc_link`.
    flags: [u64; 2],
    /// `uc_stack` (sp, flags, size), `uc_sigmask`.
    state: [u64; 4],
    unused: [u64; 16],
    fault_address: u64,
    /// x0 to x30, sp, pc, pstate.
    regs: [usize; 34],
    pad: u64,
    fpsimd: Fpsimd,
    /// The syndrome's record if there was a fault, and the end mark.
    tail: [u64; 4],
}

/// What is written at once.
#[derive(Clone, Copy)]
#[repr(C)]
struct Start {
    info: [u64; 16],
    flags: [u64; 2],
    state: [u64; 4],
}

// SAFETY: integers only, no padding.
unsafe impl Plain for Start {}

const UCONTEXT: usize = offset_of!(SigFrame, flags);
const _: () = assert!(offset_of!(SigFrame, fault_address) == UCONTEXT + 176);
const _: () = assert!(offset_of!(SigFrame, fpsimd) == UCONTEXT + 176 + 288);
const _: () = assert!(size_of::<Fpsimd>() == FPSIMD_SIZE as usize);
const _: () = assert!(size_of::<SigFrame>() == offset_of!(SigFrame, tail) + 32);
const _: () = assert!(FRAME_SIZE == 4688);

/// Where the running thread's record of SVE goes. `None`: there is none. The same until it is in user mode.
fn sve_place() -> Option<signal_vectors::Place> {
    let fault = if Fault::of_current().esr != 0 { ESR_SIZE } else { 0 };
    signal_vectors::Place::find(FPSIMD_SIZE as usize + fault, RESERVED)
}

/// Bytes of the frame with it.
#[cold]
fn size_with_sve() -> usize {
    let end = sve_place().map_or(0, |place| offset_of!(SigFrame, fpsimd) + place.end());
    end.max(FRAME_SIZE)
}

/// Writes it; records begin at `records`. `EFAULT`.
#[cold]
fn write_sve(records: usize) -> Result<(), Errno> {
    sve_place().map_or(Ok(()), |place| place.write(records))
}

/// Builds the signal frame on the user stack and makes `frame` enter the handler. `EFAULT` if the stack is
/// not there.
#[inline(always)]
pub fn setup(frame: &mut Frame, delivery: &Delivery<'_>) -> Result<(), Errno> {
    // SVE's record may make the frame larger.
    let size = if sve::is_on() { size_with_sve() } else { FRAME_SIZE };
    // A frame record above the signal frame, so that debuggers can walk through the handler.
    let record = delivery.stack_top.wrapping_sub(16) & !15;
    let base = record.wrapping_sub(size) & !15;
    let place = UserBlock::<{ FRAME_SIZE + 16 }>::new(base)?;
    save_fpsimd(&place)?;
    let fault = Fault::of_current();
    let (sp, flags, size) = delivery.altstack;
    let mut start = Start {
        info: [0; 16],
        flags: [0; 2],
        state: [sp as u64, u64::from(flags), size as u64, delivery.mask],
    };
    delivery.info.fill(&mut start.info);
    place.write(0, &start)?;
    place.write(offset_of!(SigFrame, fault_address), &fault.address)?;
    place.write(offset_of!(SigFrame, regs), frame.user_regs())?;
    const TAIL: usize = offset_of!(SigFrame, tail);
    if fault.esr == 0 {
        place.write(TAIL, &0u64)?;
    } else {
        place.write(
            TAIL,
            &[u64::from(ESR_MAGIC) | (ESR_SIZE as u64) << 32, fault.esr, 0, 0],
        )?;
    }
    if sve::is_on() {
        write_sve(base + offset_of!(SigFrame, fpsimd))?;
    }
    let record = UserBlock::<16>::new(record)?;
    record.write(0, &frame.regs[29])?;
    record.write(8, &frame.regs[30])?;
    let record = record.addr();

    frame.regs[0] = delivery.signal as usize;
    if delivery.siginfo {
        frame.regs[1] = base;
        frame.regs[2] = base + UCONTEXT;
    }
    frame.regs[29] = record;
    frame.regs[30] = delivery.restorer.unwrap_or_else(vdso_sigreturn);
    frame.sp = base;
    frame.pc = delivery.handler;
    frame.pstate &= !PSTATE_BTYPE;
    frame.forget_syscall();
    Ok(())
}

/// Two halves of a word of the frame: the first one in memory first.
#[inline(always)]
fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

/// Writes the floating-point record (`FPSR` and `FPCR`, which the assembler knows only with floating point
/// on, by their encodings).
#[inline(always)]
fn save_fpsimd(place: &UserBlock<{ FRAME_SIZE + 16 }>) -> Result<(), Errno> {
    const AT: usize = offset_of!(SigFrame, fpsimd);
    let (fpsr, fpcr) = (
        sysreg::read!("S3_3_C4_C4_1") as u32,
        sysreg::read!("S3_3_C4_C4_0") as u32,
    );
    place.write(AT, &(u64::from(FPSIMD_MAGIC) | u64::from(FPSIMD_SIZE) << 32))?;
    place.write(
        AT + offset_of!(Fpsimd, fpsr),
        &(u64::from(fpsr) | u64::from(fpcr) << 32),
    )?;
    // SAFETY: the range was checked.
    if unsafe { uaccess::save_fp(place.addr() + AT + offset_of!(Fpsimd, v)) } {
        Ok(())
    } else {
        Err(Errno::EFAULT)
    }
}

/// Sets the floating-point registers from their record.
#[inline(always)]
fn restore_fpsimd(at: usize) -> Result<(), Errno> {
    let record = UserBlock::<{ size_of::<Fpsimd>() }>::new(at)?;
    let [fpsr, fpcr] = halves(record.read(offset_of!(Fpsimd, fpsr))?);
    // SAFETY: the range was checked; any value is allowed in these registers, their reserved bits ignore
    // writes.
    unsafe {
        sysreg::write!("S3_3_C4_C4_1", fpsr);
        sysreg::write!("S3_3_C4_C4_0", fpcr);
        if uaccess::load_fp(at + offset_of!(Fpsimd, v)) {
            Ok(())
        } else {
            Err(Errno::EFAULT)
        }
    }
}

/// The next instruction is a single step.
pub const PSTATE_SS: usize = 1 << 21;
/// Bits of `PSTATE` that mean nothing at EL0, or that only the kernel may use: dropped.
const PSTATE_DROPPED: usize = 0xffff_ffff_0000_0000 | 3 << 26 | 3 << 22 | PSTATE_SS | 0xff << 13 | 1 << 5;

/// Makes a user-supplied processor state safe. `false` if it asked for what it may not have; then only the
/// conditions are left.
pub fn sanitize_pstate(pstate: &mut usize) -> bool {
    *pstate &= !PSTATE_DROPPED;
    if *pstate & (PSTATE_MODE_MASK | PSTATE_D | PSTATE_A | PSTATE_I | PSTATE_F) == 0 {
        return true;
    }
    *pstate &= PSTATE_NZCV;
    false
}

/// Finds the floating-point record among those behind the context: its address, and if there may be one
/// (`SVE`) that of SVE's record, with its size. `EFAULT` if they are not well formed.
#[inline(always)]
fn find<const SVE: bool>(reserved: usize) -> Result<(usize, Option<(usize, usize)>), Errno> {
    let (mut base, mut limit, mut offset) = (reserved, RESERVED, 0);
    let last = reserved - offset_of!(SigFrame, fpsimd) + LONGEST_FRAME;
    let mut found: Option<usize> = None;
    let mut sve = None;
    let mut extra = false;
    loop {
        if limit - offset < 8 || offset % 16 != 0 {
            return Err(Errno::EFAULT);
        }
        let [magic, size] = halves(UserPtr::new(base + offset).read()?);
        if limit - offset < size as usize {
            return Err(Errno::EFAULT);
        }
        match magic {
            0 if size == 0 => break,
            FPSIMD_MAGIC if found.is_none() && size == FPSIMD_SIZE => found = Some(base + offset),
            ESR_MAGIC if size >= 8 => {}
            signal_vectors::SVE_MAGIC if SVE && sve.is_none() && size as usize >= signal_vectors::HEADER => {
                sve = Some((base + offset, size as usize));
            }
            signal_vectors::EXTRA_MAGIC if !extra && size as usize >= signal_vectors::EXTRA_SIZE => {
                extra = true;
                let behind = offset + size as usize;
                if limit - behind < signal_vectors::END {
                    return Err(Errno::EFAULT);
                }
                let [data, bytes] = UserPtr::<[u64; 2]>::new(base + offset + 8).read()?;
                let bytes = bytes as u32 as usize;
                let [end_magic, end_size] = halves(UserPtr::new(base + behind).read()?);
                // It must follow at once, behind its own end mark.
                let expected = base + behind + signal_vectors::END;
                if end_magic != 0
                    || end_size != 0
                    || data as usize != expected
                    || !bytes.is_multiple_of(16)
                    || expected + bytes > last
                {
                    return Err(Errno::EFAULT);
                }
                (base, limit, offset) = (expected, bytes, 0);
                continue;
            }
            _ => return Err(Errno::EFAULT),
        }
        if size < 8 {
            return Err(Errno::EFAULT);
        }
        offset += size as usize;
    }
    Ok((found.ok_or(Errno::EFAULT)?, sve))
}

/// Finds the floating-point record if there can be no other.
fn find_fpsimd(reserved: usize) -> Result<usize, Errno> {
    find::<false>(reserved).map(|(fpsimd, _)| fpsimd)
}

/// Restores floating-point registers and SVE's from the records.
#[inline(never)]
fn restore_with_sve(reserved: usize) -> Result<(), Errno> {
    if !sve::is_there() {
        return restore_fpsimd(find_fpsimd(reserved)?);
    }
    let (fpsimd, sve) = find::<true>(reserved)?;
    let Some(mut memory) = sve.map_or(Ok(None), |(at, size)| signal_vectors::read(at, size))? else {
        vectors::end_running_live();
        return restore_fpsimd(fpsimd);
    };
    let record = UserBlock::<{ size_of::<Fpsimd>() }>::new(fpsimd)?;
    let [fpsr, fpcr] = halves(record.read(offset_of!(Fpsimd, fpsr))?);
    let v = record.read(offset_of!(Fpsimd, v))?;
    vectors::set_running(FpState { v, fpsr, fpcr }, &mut memory);
    Ok(())
}

/// Restores all registers (floating point included) from the signal frame at the user stack pointer;
/// user-controlled bits that could harm the kernel are refused or masked. The frame is no longer a system
/// call's.
pub fn restore(frame: &mut Frame) -> Result<Restored, Errno> {
    frame.forget_syscall();
    let base = frame.sp;
    if !base.is_multiple_of(16) {
        return Err(Errno::EFAULT);
    }
    let place = UserBlock::<FRAME_SIZE>::new(base)?;
    const STATE: usize = offset_of!(SigFrame, state);
    let (sp, flags, size): (usize, u64, usize) = (
        place.read(STATE)?,
        place.read(STATE + 8)?,
        place.read(STATE + 16)?,
    );
    let mask = place.read(STATE + 24)?;
    const REGS: usize = offset_of!(SigFrame, regs);
    let (new_sp, pc) = (place.read(REGS + 31 * 8)?, place.read(REGS + 32 * 8)?);
    let mut pstate = place.read(REGS + 33 * 8)?;
    let allowed = sanitize_pstate(&mut pstate);
    // SAFETY: initialised memory that only gets new bytes, any of which are valid.
    let regs = unsafe { &mut *(&raw mut frame.regs).cast::<MaybeUninit<[usize; 31]>>() };
    place.read_into(REGS, regs)?;
    frame.sp = new_sp;
    frame.pc = pc;
    frame.pstate = pstate;
    if !allowed {
        return Err(Errno::EFAULT);
    }
    let reserved = base + offset_of!(SigFrame, fpsimd);
    if sve::is_on() {
        restore_with_sve(reserved)?;
    } else {
        restore_fpsimd(find_fpsimd(reserved)?)?;
    }
    Ok(Restored {
        mask,
        altstack: (sp, flags as u32, size),
    })
}

/// Whether a handler that is returning through the kernel's own code goes on at `ip` behind its system call.
pub fn is_trampoline(ip: usize) -> bool {
    /// The longest way in bytes from its first instruction to the one behind its system call.
    const LENGTH: usize = 16;
    let start = vdso_sigreturn();
    start != 0 && (1..=LENGTH).contains(&ip.wrapping_sub(start))
}
