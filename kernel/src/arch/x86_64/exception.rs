//! Decoding of exceptions and interrupts; calls the threshold with the right handler.

use super::frame::{EFLAGS_RF, EFLAGS_TF, Frame, USER_CS, USER_DS};
use super::switch::Fault;
use super::{cpu, debug, interrupt, uaccess};
use crate::mm::Prot;
use crate::sched::entity::with_current_context;
use crate::signal::info::code::*;
use crate::signal::{SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGSEGV, SIGTRAP};
use crate::task::{current, ptrace::left_step};
use crate::threshold;
use core::sync::atomic::{AtomicBool, Ordering};
use limen_entry::Frame as _;

const DIVIDE: u8 = 0;
const DEBUG: u8 = 1;
const NMI: u8 = 2;
const BREAKPOINT: u8 = 3;
const OVERFLOW: u8 = 4;
const BOUND: u8 = 5;
const INVALID_OPCODE: u8 = 6;
const NO_COPROCESSOR: u8 = 7;
const DOUBLE_FAULT: u8 = 8;
const SEGMENT_NOT_PRESENT: u8 = 11;
const STACK_FAULT: u8 = 12;
const PAGE_FAULT: u8 = 14;
const X87_ERROR: u8 = 16;
const ALIGNMENT: u8 = 17;
const SIMD_ERROR: u8 = 19;

/// The error code of a page fault: an instruction fetch; an entry with reserved bits; made in user mode; a
/// write.
const PF_FETCH: usize = 1 << 4;
const PF_RESERVED: usize = 1 << 3;
const PF_USER: usize = 1 << 2;
const PF_WRITE: usize = 1 << 1;
/// ... the page was there.
const PF_PRESENT: usize = 1 << 0;

/// Floating-point exceptions, as in status words of x87 and SSE.
const INVALID: u32 = 1 << 0;
const DENORMAL: u32 = 1 << 1;
const ZERO_DIVIDE: u32 = 1 << 2;
const OVERFLOWED: u32 = 1 << 3;
const UNDERFLOWED: u32 = 1 << 4;

const NAMES: [&str; 22] = [
    "divide error",
    "debug",
    "NMI",
    "int3",
    "overflow",
    "bounds",
    "invalid opcode",
    "device not available",
    "double fault",
    "coprocessor segment overrun",
    "invalid TSS",
    "segment not present",
    "stack segment",
    "general protection fault",
    "page fault",
    "reserved",
    "coprocessor error",
    "alignment check",
    "machine check",
    "simd exception",
    "virtualization",
    "control protection",
];

/// Any vector but the paranoid ones. The frame's own stub restores it afterwards.
#[inline(always)]
pub fn trap<const TRACKED: bool>(frame: &mut Frame, vector: u8, error: usize) {
    if vector >= 32 {
        threshold::interrupt::<TRACKED>(frame, |_| interrupt::dispatch(vector));
    } else if vector == PAGE_FAULT {
        let addr = cpu::read_cr2();
        let access = if error & PF_FETCH != 0 {
            Prot::EXEC
        } else if error & PF_WRITE != 0 {
            Prot::WRITE
        } else {
            Prot::READ
        };
        let from_user = error & PF_USER != 0;
        threshold::fault::<TRACKED>(frame, |frame| page_fault(frame, addr, error, access, from_user));
    } else if vector == DEBUG {
        threshold::fault_irqs_off::<TRACKED>(frame, user_debug);
    } else if vector != BREAKPOINT || frame.cs & 3 != 0 || !super::sites::passes(frame) {
        fault::<TRACKED>(frame, vector, error);
    }
}

/// An exception with a handler of no special kind, of user mode or the kernel.
#[inline(always)]
pub fn fault<const TRACKED: bool>(frame: &mut Frame, vector: u8, error: usize) {
    threshold::fault::<TRACKED>(frame, |frame| exception(frame, vector, error));
}

#[inline(always)]
fn page_fault(frame: &mut Frame, addr: usize, error: usize, access: Prot, from_user: bool) {
    // An entry with reserved bits set: a table is corrupt.
    if error & PF_RESERVED != 0 {
        fatal(frame, PAGE_FAULT, error);
    }
    if !from_user && frame.cs & 3 != 0 {
        return own_access(addr);
    }
    crate::arch::events::page_fault(frame, addr, access, from_user);
    if crate::mm::handle_fault(frame, addr, access, from_user) {
        // Whether something is mapped in the kernel's half is not for user mode to know.
        let present = if addr >= super::mmu::USER_END {
            PF_PRESENT
        } else {
            0
        };
        Fault::remember(PAGE_FAULT, error | present, Some(addr));
    }
}

/// The processor's own access in user mode failed: to a descriptor, or (QEMU, which makes these as the
/// kernel) to the stack of a far return. Linux ends the process, too.
#[cold]
fn own_access(addr: usize) {
    crate::signal::force_fault(SIGKILL, KERNEL, addr);
}

/// A single step, a breakpoint, a watchpoint, or `int1`, in user mode. Interrupts are off.
fn user_debug(frame: &mut Frame) {
    let happened = debug::take_status() ^ debug::NOTHING;
    let mut step = happened & debug::STEP;
    let own = with_current_context(|context| context.debug.own_hits(happened));
    let (mut hits, before) = own;
    if happened & debug::HITS != 0 && (hits == 0 || !current().trace.is_traced()) {
        // They are those of a thread that ran here before, or of a tracer that has gone.
        hits = 0;
        debug::off();
        with_current_context(|context| context.debug.forget_left(current().trace.is_traced()));
    } else if before {
        frame.eflags |= EFLAGS_RF;
    }
    if step != 0 && left_step(frame) {
        step = 0;
    }
    with_current_context(|context| context.debug.note(hits | step));
    let code = match (hits | step, happened & (debug::HITS | debug::STEP)) {
        (0, 0) => TRAP_BRKPT,
        (0, _) => return,
        // The flag stays: user mode set it, and steps on.
        _ if step != 0 => TRAP_TRACE,
        _ => TRAP_HWBKPT,
    };
    Fault::remember(DEBUG, 0, None);
    crate::signal::force_fault(SIGTRAP, code, frame.rip);
}

/// The same in the kernel, which touched memory that is watched for user mode. The registers come back on the
/// way there. Nothing in the kernel steps; a trap flag that leaked in is dropped.
fn kernel_debug(frame: &mut Frame) {
    debug::off();
    debug::take_status();
    frame.eflags &= !EFLAGS_TF;
}

#[cold]
fn exception(frame: &mut Frame, vector: u8, error: usize) {
    if frame.cs & 3 == 0 {
        if let Some(fixup) = uaccess::fixup(frame.rip) {
            frame.rip = fixup;
            return;
        }
        fatal(frame, vector, error);
    }
    if vector == STACK_FAULT && may_try_again(frame, error) {
        return;
    }
    let ip = frame.rip;
    let (signal, code, addr) = match vector {
        DIVIDE => (SIGFPE, FPE_INTDIV, ip),
        BREAKPOINT => (SIGTRAP, KERNEL, 0),
        OVERFLOW | BOUND => (SIGSEGV, KERNEL, 0),
        INVALID_OPCODE | NO_COPROCESSOR => (SIGILL, ILL_ILLOPN, ip),
        SEGMENT_NOT_PRESENT | STACK_FAULT => (SIGBUS, KERNEL, 0),
        ALIGNMENT => (SIGBUS, BUS_ADRALN, 0),
        X87_ERROR => (SIGFPE, float_code(super::fpu::x87_exceptions()), ip),
        SIMD_ERROR => (SIGFPE, float_code(super::fpu::simd_exceptions()), ip),
        _ => (SIGSEGV, KERNEL, 0),
    };
    Fault::remember(vector, error, None);
    crate::signal::force_fault(signal, code, addr);
}

/// Whether a stack fault of user mode may have been the kernel's doing (`Context::mend_stack`).
#[cold]
fn may_try_again(frame: &Frame, error: usize) -> bool {
    error == 0
        && frame.ss == USER_DS
        && frame.cs & 0xffff != USER_CS
        && with_current_context(|context| context.mend_stack())
}

/// `si_code` for unmasked floating-point exceptions (the order in which the processor reports them).
fn float_code(exceptions: u32) -> i32 {
    if exceptions & INVALID != 0 {
        FPE_FLTINV
    } else if exceptions & ZERO_DIVIDE != 0 {
        FPE_FLTDIV
    } else if exceptions & OVERFLOWED != 0 {
        FPE_FLTOVF
    } else if exceptions & (DENORMAL | UNDERFLOWED) != 0 {
        FPE_FLTUND
    } else {
        FPE_FLTRES
    }
}

static PANICKING: AtomicBool = AtomicBool::new(false);

/// NMI, double fault, machine check, and debug exceptions in the kernel.
#[inline(always)]
pub fn paranoid<const TRACKED: bool>(frame: &mut Frame, vector: u8, error: usize) {
    threshold::nmi::<TRACKED>(frame, |frame| {
        emergency(frame, vector, error);
        if frame.cs & 3 != 0 {
            // No work is done on this way to user mode, but its stack segment may be one of its own.
            frame.prepare_return();
        }
    });
}

/// The NMI may have come between the `sti` and the `hlt` of a CPU that is about to sleep: the way back ends
/// the moment in which no interrupt arrives, one that wakes a thread may come first, and the CPU would sleep
/// all the same. It does not sleep: its loop looks again.
fn wake_idle(frame: &mut Frame) {
    const HLT: u8 = 0xf4;
    if frame.cs & 3 == 0 {
        // SAFETY: the kernel was about to execute what is there.
        let next = unsafe { (frame.rip as *const u8).read() };
        frame.rip += usize::from(next == HLT);
    }
}

#[cold]
fn emergency(frame: &mut Frame, vector: u8, error: usize) {
    if vector == DEBUG {
        return kernel_debug(frame);
    }
    if vector == NMI {
        let asked = super::tlb::serve_now();
        if crate::sched::nmi::came(frame.cs & 3 == 3) || asked {
            wake_idle(frame);
            return;
        }
        // Nobody else sends NMIs but a host that wants to look at a hanging machine.
        if !PANICKING.load(Ordering::Relaxed) {
            log!(
                Emerg,
                "NMI received on CPU {}\n{:?}",
                super::cpus::cpu_id(),
                frame
            );
        }
        return;
    }
    if vector == DOUBLE_FAULT {
        // A push that hit a guard page: the stack pointer is still inside or just above it.
        let cr2 = cpu::read_cr2();
        if frame.rsp.abs_diff(cr2) <= crate::mm::PAGE_SIZE {
            log!(
                Emerg,
                "kernel stack overflow (stack pointer {:#x}, fault at {:#x})",
                frame.rsp,
                cr2
            );
        }
    }
    fatal(frame, vector, error)
}

/// An exception the kernel cannot survive: registers, call chain, end.
#[cold]
pub fn fatal(frame: &Frame, vector: u8, error: usize) -> ! {
    super::irq::local_disable();
    PANICKING.store(true, Ordering::Relaxed);
    let name = NAMES.get(vector as usize).copied().unwrap_or("exception");
    log!(
        Emerg,
        "{} (vector {}, error code {:#x}) on CPU {}, CR2 {:#x}, CR3 {:#x}\n{:?}",
        name,
        vector,
        error,
        super::cpus::cpu_id(),
        cpu::read_cr2(),
        cpu::read_cr3(),
        frame
    );
    panic!("{} at {:#x}", name, frame.rip)
}
