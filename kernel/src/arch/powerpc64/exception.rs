//! Which interrupt is what; calls the threshold with the right handler: page faults go to `mm`, the rest
//! becomes signals, or the end of the kernel.

use super::frame::{Frame, TRAP_SCV};
use super::layout::{LINEAR_BASE, USER_END};
use super::spr::{self, MSR_EE, MSR_PR, MSR_RELOCATE};
use super::window::{AMR_SHUT, set_window};
use super::{cpus, emulate, interrupt, irq, pid, stack, switch, time, uaccess};
use crate::mm::Prot;
use crate::signal::info::code::*;
use crate::signal::{SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP};
use crate::task::ptrace::left_step;
use crate::{signal, threshold};
use core::arch::asm;
use core::ops::Range;

/// Vectors (Power ISA, book III, chapter 7).
mod vector {
    pub const SCV_OTHER: usize = 0;
    pub const DATA_STORAGE: usize = 0x300;
    pub const DATA_SEGMENT: usize = 0x380;
    pub const INSTRUCTION_STORAGE: usize = 0x400;
    pub const INSTRUCTION_SEGMENT: usize = 0x480;
    pub const EXTERNAL: usize = 0x500;
    pub const ALIGNMENT: usize = 0x600;
    pub const PROGRAM: usize = 0x700;
    pub const FP_UNAVAILABLE: usize = 0x800;
    pub const DECREMENTER: usize = 0x900;
    pub const DOORBELL: usize = 0xa00;
    pub const TRACE: usize = 0xd00;
    pub const PERFORMANCE: usize = 0xf00;
    pub const VEC_UNAVAILABLE: usize = 0xf20;
    pub const VSX_UNAVAILABLE: usize = 0xf40;
}

/// What Linux calls the vectors of `scv` with other levels than 0 in `trap`.
const TRAP_SCV_OTHER: usize = 0x7ff0;
/// In `trap`: the stub had to use the emergency stack.
const EMERGENCY: usize = 1;
/// The first steps of `scv`, the only code among the vectors that runs with interrupts on.
const SCV_STUBS: Range<usize> = LINEAR_BASE + TRAP_SCV..LINEAR_BASE + TRAP_SCV + 0x1000;

/// Why a page fault happened: permission, store; and bits that page tables cannot resolve (bad tables, bad
/// instruction for the memory).
const STORE: usize = 0x0200_0000;
const UNRESOLVABLE: usize = 0x000a_0000 | 0x0400_0000;

/// `SRR1` at a program interrupt: floating point, privileged, trap; otherwise it is an illegal instruction.
const PROGRAM_FP: usize = 0x10_0000;
const PROGRAM_PRIVILEGED: usize = 0x4_0000;
const PROGRAM_TRAP: usize = 0x2_0000;
/// What a program interrupt, an instruction fault and the like put into `SRR1` besides the machine state.
const SRR1_STATUS: usize = 0x783f_0000;

/// Any interrupt but a system call.
#[inline(always)]
pub fn handle<const TRACKED: bool>(frame: &mut Frame) {
    if frame.msr & MSR_PR != 0 {
        return dispatch::<TRACKED>(frame);
    }
    if SCV_STUBS.contains(&frame.nip) && frame.trap & EMERGENCY == 0 {
        // In the first steps of `scv`, with the user's registers still: what came comes again when they go
        // on.
        frame.msr &= !MSR_EE;
        return;
    }
    // The window to user memory is not the interrupted copy's alone: shut for us, and open again for it.
    let window = spr::read!(spr::AMR);
    if window == AMR_SHUT {
        dispatch::<TRACKED>(frame);
    } else {
        set_window(AMR_SHUT);
        dispatch::<TRACKED>(frame);
        set_window(window);
    }
    // The thread may go on on another CPU than it was interrupted on.
    frame.gpr[13] = cpus::cpu_local() as usize;
}

#[inline(always)]
fn dispatch<const TRACKED: bool>(frame: &mut Frame) {
    match frame.trap {
        vector::DATA_STORAGE => {
            frame.dar = spr::read!(spr::DAR);
            frame.dsisr = spr::read!(spr::DSISR);
            threshold::fault::<TRACKED>(frame, |frame| {
                let access = if frame.dsisr & STORE != 0 {
                    Prot::WRITE
                } else {
                    Prot::READ
                };
                page_fault(frame, frame.dar, access, frame.dsisr);
            });
        }
        vector::INSTRUCTION_STORAGE => {
            frame.dsisr = frame.msr & SRR1_STATUS;
            frame.dar = frame.nip;
            threshold::fault::<TRACKED>(frame, |frame| {
                page_fault(frame, frame.nip, Prot::EXEC, frame.dsisr)
            });
        }
        vector::DECREMENTER => threshold::interrupt::<TRACKED>(frame, |_| time::interrupt()),
        vector::EXTERNAL => threshold::interrupt::<TRACKED>(frame, |_| interrupt::handle()),
        vector::FP_UNAVAILABLE | vector::VEC_UNAVAILABLE | vector::VSX_UNAVAILABLE
            if frame.msr & MSR_PR != 0 =>
        {
            threshold::fault_irqs_off::<TRACKED>(frame, switch::use_math);
        }
        vector::DOORBELL | vector::PERFORMANCE => threshold::interrupt::<TRACKED>(frame, |_| ()),
        vector::TRACE => threshold::fault_irqs_off::<TRACKED>(frame, other),
        trap if trap & EMERGENCY != 0 => emergency(frame),
        _ => {
            if matches!(frame.trap, vector::DATA_SEGMENT | vector::ALIGNMENT) {
                frame.dar = spr::read!(spr::DAR);
            }
            threshold::fault::<TRACKED>(frame, other);
        }
    }
}

/// The kernel stack is full, or the interrupt (a machine check, a system reset) turned translation off: then
/// this does not run where it is linked.
#[cold]
#[unsafe(link_section = ".noinstr.text")]
fn emergency(frame: &mut Frame) -> ! {
    let msr = spr::msr();
    if msr & MSR_RELOCATE == 0 {
        frame.trap &= !EMERGENCY;
    }
    // SAFETY: goes on there, where it is linked, with translation on.
    unsafe {
        spr::write!(spr::SRR0, fatal as *const ());
        spr::write!(spr::SRR1, msr | MSR_RELOCATE);
        asm!("rfid", in("r12") fatal as *const (), in("r3") frame, options(noreturn))
    }
}

#[unsafe(link_section = ".noinstr.text")]
extern "C" fn fatal(frame: &mut Frame) {
    threshold::nmi::<false>(frame, |frame| die(frame, name(frame.trap)));
}

#[inline(always)]
fn page_fault(frame: &mut Frame, addr: usize, access: Prot, why: usize) {
    let user = frame.msr & MSR_PR != 0;
    if addr >= USER_END || why & UNRESOLVABLE != 0 {
        return bad_access(frame, addr);
    }
    if pid::sync_root(addr) {
        return;
    }
    crate::arch::events::page_fault(frame, addr, access, user);
    crate::mm::handle_fault(frame, addr, access, user);
    pid::sync_root(addr);
}

#[cold]
fn bad_access(frame: &mut Frame, addr: usize) {
    if frame.msr & MSR_PR != 0 {
        signal::force_fault(SIGSEGV, SEGV_MAPERR, addr);
    } else if let Some(fixup) = uaccess::fixup(frame.nip) {
        frame.nip = fixup;
    } else {
        die(frame, "bad memory access");
    }
}

#[cold]
fn other(frame: &mut Frame) {
    let status = frame.msr & SRR1_STATUS;
    if frame.msr & MSR_PR == 0 {
        if let Some(fixup) = uaccess::fixup(frame.nip) {
            frame.nip = fixup;
            return;
        }
        die(frame, name(frame.trap));
    }
    let nip = frame.nip;
    let (signal, code, addr) = match frame.trap {
        vector::DATA_SEGMENT => (SIGSEGV, SEGV_BNDERR, frame.dar),
        vector::INSTRUCTION_SEGMENT => (SIGSEGV, SEGV_BNDERR, nip),
        vector::ALIGNMENT => match emulate::unaligned(frame) {
            Some(Ok(())) => return,
            Some(Err(at)) => {
                frame.dar = at;
                (SIGSEGV, SEGV_ACCERR, at)
            }
            None => (SIGBUS, BUS_ADRALN, frame.dar),
        },
        vector::TRACE => {
            frame.msr &= !spr::MSR_STEP;
            if left_step(frame) {
                return;
            }
            (SIGTRAP, TRAP_TRACE, nip)
        }
        vector::PROGRAM => match status {
            s if s & PROGRAM_FP != 0 => (SIGFPE, float_code(frame), nip),
            s if s & PROGRAM_TRAP != 0 => (SIGTRAP, TRAP_BRKPT, nip),
            _ if emulate::instruction(frame) => return,
            s if s & PROGRAM_PRIVILEGED != 0 => (SIGILL, ILL_PRVOPC, nip),
            _ => (SIGILL, ILL_ILLOPC, nip),
        },
        vector::SCV_OTHER => {
            frame.trap = TRAP_SCV_OTHER;
            (SIGILL, ILL_ILLOPC, nip)
        }
        _ => (SIGILL, ILL_ILLOPC, nip),
    };
    signal::force_fault(signal, code, addr);
}

/// `si_code` of a floating-point exception: the one that is both pending and enabled.
fn float_code(frame: &Frame) -> i32 {
    let codes = [FPE_FLTINV, FPE_FLTOVF, FPE_FLTUND, FPE_FLTDIV, FPE_FLTRES];
    let fpscr = switch::with_math(frame, |math| math.fpscr);
    limen_power_emulate::float_exception(fpscr).map_or(FPE_FLTUNK, |n| codes[n])
}

/// What an interrupt that the kernel does not survive is called.
fn name(trap: usize) -> &'static str {
    match trap {
        t if t & EMERGENCY != 0 => "kernel stack overflow",
        0x100 => "system reset",
        0x200 => "machine check",
        vector::DATA_SEGMENT => "bad data address",
        vector::INSTRUCTION_SEGMENT | vector::INSTRUCTION_STORAGE => "bad instruction address",
        vector::ALIGNMENT => "alignment interrupt",
        vector::PROGRAM => "illegal instruction or trap",
        vector::FP_UNAVAILABLE | vector::VEC_UNAVAILABLE | vector::VSX_UNAVAILABLE => {
            "floating point used in the kernel"
        }
        _ => "unexpected interrupt in the kernel",
    }
}

/// An interrupt the kernel cannot survive: registers, call chain, end.
#[cold]
pub fn die(frame: &Frame, what: &str) -> ! {
    irq::local_disable();
    let symbol = crate::trace::symbols::Symbol;
    log!(
        Emerg,
        "{}: vector {:#x}, DAR {:#018x}, DSISR {:#010x}, CPU {}",
        what,
        frame.trap,
        frame.dar,
        frame.dsisr,
        cpus::cpu_id()
    );
    log!(Emerg, "nip: {:016x} {}", frame.nip, symbol(frame.nip));
    log!(Emerg, "lr : {:016x} {}", frame.link, symbol(frame.link));
    log!(
        Emerg,
        "msr: {:016x} ctr: {:016x} cr: {:08x} xer: {:08x}",
        frame.msr,
        frame.ctr,
        frame.ccr,
        frame.xer
    );
    for (n, four) in frame.gpr.chunks(4).enumerate() {
        log!(Emerg, "r{:<2}: {:016x?}", 4 * n, four);
    }
    if frame.msr & MSR_PR == 0 {
        log!(Emerg, "Call trace of the interrupted code:");
        crate::trace::backtrace::walk(stack::from(frame.gpr[1]), |ip| {
            log!(Emerg, "  [<{:016x}>] {}", ip, symbol(ip - 1));
        });
    }
    let note = match frame.trap {
        vector::DATA_STORAGE => crate::mm::fault::note(frame.dar),
        _ => "",
    };
    panic!("{} at {:#x}{note}", what, frame.nip)
}
