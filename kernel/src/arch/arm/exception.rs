//! Decoding of aborts (`DFSR`, `IFSR`) and undefined instructions: page faults go to `mm`, the rest becomes
//! signals, or the end of the kernel.

use super::debug::{self, Hit};
use super::frame::Frame;
use super::mmu::{SHORT, sync_root};
use super::switch::Fault;
use super::{align, sysreg, uaccess};
use crate::mm::Prot;
use crate::sched::entity::with_current_context;
use crate::signal::{self, SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGSEGV, SIGTRAP, SigInfo, info::code};
use crate::task::{current, ptrace::left_step};
use crate::trace::symbols::Symbol;
use limen_arm_registers::Abort;

/// What Linux adds to the error code of a prefetch abort: a bit that `IFSR` does not have.
const FSR_PREFETCH: u32 = 1 << 31;

/// What the processor says about an abort.
#[derive(Clone, Copy, Debug)]
pub struct Syndrome {
    /// `DFSR` or `IFSR`.
    pub fsr: u32,
    /// `DFAR` or `IFAR`.
    pub far: usize,
}

impl Syndrome {
    /// For exceptions that have none.
    pub const NONE: Self = Self { fsr: 0, far: 0 };

    /// Of a data abort. Before anything that could fault.
    #[inline(always)]
    pub fn data() -> Self {
        Self {
            fsr: sysreg::read!(DFSR),
            far: sysreg::read!(DFAR) as usize,
        }
    }

    /// Of a prefetch abort.
    #[inline(always)]
    pub fn prefetch() -> Self {
        Self {
            fsr: sysreg::read!(IFSR) & 0x3fff | FSR_PREFETCH,
            far: sysreg::read!(IFAR) as usize,
        }
    }

    fn abort(&self) -> Abort {
        limen_arm_registers::abort(self.fsr, SHORT)
    }

    fn access(&self) -> Prot {
        if self.fsr & FSR_PREFETCH != 0 {
            Prot::EXEC
        } else if limen_arm_registers::is_write(self.fsr) {
            Prot::WRITE
        } else {
            Prot::READ
        }
    }
}

/// A data or prefetch abort from user mode.
pub fn user_abort(frame: &mut Frame, syndrome: &Syndrome) {
    let addr = syndrome.far;
    let abort = syndrome.abort();
    if matches!(abort, Abort::Page) && addr < super::mmu::USER_END {
        if sync_root(addr) {
            return;
        }
        crate::arch::events::page_fault(frame, addr, syndrome.access(), true);
        if crate::mm::handle_fault(frame, addr, syndrome.access(), true) {
            Fault::remember_access(syndrome.fsr, addr);
        }
        sync_root(addr);
        return;
    }
    other_abort(frame, syndrome, abort);
}

#[cold]
fn other_abort(frame: &mut Frame, syndrome: &Syndrome, abort: Abort) {
    let addr = syndrome.far;
    let (signal, code) = match abort {
        Abort::Page => (SIGSEGV, code::SEGV_MAPERR),
        Abort::Alignment => match align::fix(frame, addr) {
            align::Outcome::Done => return,
            align::Outcome::Fault(_) => (SIGSEGV, code::SEGV_MAPERR),
            align::Outcome::Unknown => (SIGBUS, code::BUS_ADRALN),
        },
        Abort::Debug => return debug_event(frame, syndrome),
        Abort::External => (SIGBUS, code::BUS_OBJERR),
        Abort::Other => (SIGKILL, code::KERNEL),
    };
    if signal == SIGSEGV {
        Fault::remember_access(syndrome.fsr, addr);
    } else {
        Fault::remember(0, syndrome.fsr & !FSR_PREFETCH);
    }
    signal::force_fault(signal, code, addr);
}

/// A breakpoint or a watchpoint was hit, or `bkpt` was executed.
#[cold]
fn debug_event(frame: &mut Frame, syndrome: &Syndrome) {
    let (pc, executes) = (frame.pc as u32, syndrome.fsr & FSR_PREFETCH != 0);
    let hit = with_current_context(|context| {
        if executes {
            context.debug.at(pc, frame.thumb())
        } else {
            context.debug.accessed(syndrome.far as u32)
        }
    });
    let addr = if executes { frame.pc } else { syndrome.far };
    match hit {
        Some(Hit::Step) if left_step(frame) => {}
        Some(Hit::Step) => signal::force_fault(SIGTRAP, code::TRAP_TRACE, addr),
        Some(Hit::Point(number)) if current().trace.is_traced() => {
            Fault::remember(0, syndrome.fsr & !FSR_PREFETCH);
            signal::force(
                SIGTRAP,
                SigInfo::numbered_fault(SIGTRAP, code::TRAP_HWBKPT, addr, number),
            );
        }
        // Its tracer has gone, and nobody could let it go on.
        Some(Hit::Point(_)) => with_current_context(|context| {
            context.debug.forget();
            context.debug.load();
        }),
        None if executes && limen_arm_align::is_bkpt(&align::User, frame.thumb(), pc) => {
            Fault::remember(0, syndrome.fsr & !FSR_PREFETCH);
            // Not where it is: Linux, too, tells what the processor leaves as the address of the fault.
            signal::force_fault(SIGTRAP, code::TRAP_HWBKPT, syndrome.far);
        }
        // It was meant for a thread that ran on this CPU before.
        None => crate::sync::without_interrupts(debug::off),
    }
}

/// An undefined instruction in user mode.
pub fn user_undefined(frame: &mut Frame) {
    // The processor leaves the address behind the (first half of the) instruction.
    frame.pc = frame.previous();
    let pc = frame.pc;
    let (signal, code) = if super::switch::float_exception() {
        (SIGFPE, 0)
    } else if limen_arm_align::is_breakpoint(&align::User, frame.thumb(), pc as u32) {
        (SIGTRAP, code::TRAP_BRKPT)
    } else {
        (SIGILL, code::ILL_ILLOPC)
    };
    if signal == SIGILL {
        Fault::remember(6, 0);
    }
    signal::force_fault(signal, code, pc);
}

/// An abort in kernel mode. Only copies to and from user memory may fault.
pub fn kernel_abort(frame: &mut Frame, syndrome: &Syndrome) {
    let page = matches!(syndrome.abort(), Abort::Page);
    if let Some(fixup) = uaccess::fixup(frame.pc) {
        if page && syndrome.far < super::mmu::USER_END {
            if !sync_root(syndrome.far) {
                crate::arch::events::page_fault(frame, syndrome.far, syndrome.access(), false);
                crate::mm::handle_fault(frame, syndrome.far, syndrome.access(), false);
                sync_root(syndrome.far);
            }
        } else {
            frame.pc = fixup;
        }
        return;
    }
    let what = match syndrome.fsr & FSR_PREFETCH {
        0 if page && syndrome.far < super::mmu::USER_END => "user memory accessed outside a copy",
        0 => "bad memory access",
        _ => "bad instruction address",
    };
    die(frame, syndrome, what)
}

/// An exception the kernel cannot survive: registers, call chain, end.
#[cold]
pub fn die(frame: &Frame, syndrome: &Syndrome, what: &str) -> ! {
    super::irq::local_disable();
    log!(
        Emerg,
        "{}: FSR {:#010x}, FAR {:#010x}, CPU {}",
        what,
        syndrome.fsr,
        syndrome.far,
        super::cpus::cpu_id()
    );
    for (name, at) in [("pc", frame.pc), ("lr", frame.lr)] {
        log!(Emerg, "{} : {:08x} {}", name, at, Symbol(at));
    }
    log!(
        Emerg,
        "sp : {:08x} psr: {:08x} r12: {:08x}",
        frame.sp,
        frame.cpsr,
        frame.regs[12]
    );
    for n in [0, 4, 8] {
        let [a, b, c, d] = [n, n + 1, n + 2, n + 3].map(|n| frame.regs[n]);
        log!(Emerg, "r{n} : {a:08x} {b:08x} {c:08x} {d:08x}");
    }
    log!(Emerg, "Call trace of the interrupted code:");
    crate::trace::backtrace::walk(super::stack::from(frame.regs[11]), |ip| {
        log!(Emerg, "  [<{:08x}>] {}", ip, Symbol(ip - 1));
    });
    let note = crate::mm::fault::note(syndrome.far);
    panic!("{} at {:#x}{note}", what, frame.pc)
}
