//! Decoding of synchronous exceptions (`ESR_EL1`); calls the threshold with the right handler: page faults go
//! to `mm`, the rest becomes signals, or the end of the kernel.

use super::debug::Registers;
use super::frame::Frame;
use super::switch::Fault;
use super::{emulate, sve, sysreg, uaccess, vectors};
use crate::arch::nofault::is_nofault;
use crate::mm::Prot;
use crate::sched::entity::with_current_context;
use crate::signal::info::code::{self, *};
use crate::signal::{SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGSEGV, SIGTRAP};
use crate::task::{current, ptrace::left_step};
use crate::{signal, threshold};

/// Exception classes (Arm ARM, `ESR_EL1.EC`).
mod class {
    pub const UNKNOWN: u64 = 0x00;
    pub const WFX: u64 = 0x01;
    pub const FP: u64 = 0x07;
    pub const SVC64: u64 = 0x15;
    pub const SYS64: u64 = 0x18;
    pub const SVE: u64 = 0x19;
    pub const SME: u64 = 0x1d;
    pub const INSTRUCTION_USER: u64 = 0x20;
    pub const INSTRUCTION_KERNEL: u64 = 0x21;
    pub const PC_ALIGNMENT: u64 = 0x22;
    pub const DATA_USER: u64 = 0x24;
    pub const DATA_KERNEL: u64 = 0x25;
    pub const SP_ALIGNMENT: u64 = 0x26;
    pub const FP_EXCEPTION: u64 = 0x2c;
    pub const BREAKPOINT_USER: u64 = 0x30;
    pub const STEP_USER: u64 = 0x32;
    pub const WATCHPOINT_USER: u64 = 0x34;
    pub const BRK64: u64 = 0x3c;
}

/// What the processor says about an exception.
#[derive(Clone, Copy, Debug)]
pub struct Syndrome {
    /// `ESR_EL1`.
    pub esr: u64,
    /// `FAR_EL1`.
    pub far: u64,
}

/// What is wrong with a memory access.
enum Abort {
    /// Translation, access flag or permission: `mm` may be able to resolve it.
    Page,
    Alignment,
    External,
    Other,
}

impl Syndrome {
    /// Reads it. Before anything that could fault.
    #[inline(always)]
    pub fn read() -> Self {
        Self {
            esr: sysreg::read!("esr_el1"),
            far: sysreg::read!("far_el1"),
        }
    }

    #[inline(always)]
    fn class(&self) -> u64 {
        self.esr >> 26 & 0x3f
    }

    /// Whether the fault status code is that of a TLB conflict abort, if it is an abort.
    #[inline(always)]
    fn may_be_conflict(&self) -> bool {
        self.esr & 0x3f == 0x30
    }

    /// Decodes the fault status code (`ESR_EL1.DFSC` or `IFSC`).
    fn abort(&self) -> Abort {
        match self.esr & 0x3f {
            0x04..=0x0f => Abort::Page,
            0x21 => Abort::Alignment,
            0x10 | 0x14..=0x17 => Abort::External,
            _ => Abort::Other,
        }
    }

    fn access(&self) -> Prot {
        match self.class() {
            class::INSTRUCTION_USER | class::INSTRUCTION_KERNEL => Prot::EXEC,
            // Write, unless the write is a cache maintenance instruction's.
            _ if self.esr & 1 << 6 != 0 && self.esr & 1 << 8 == 0 => Prot::WRITE,
            _ => Prot::READ,
        }
    }

    /// The syndrome as a signal frame shows it. What is mapped in the kernel's half is not for user mode to
    /// know: an access there always looks like a translation fault of level 0.
    fn for_user(&self, addr: usize) -> u64 {
        const CLASS_AND_LENGTH: u64 = 0x3f << 26 | 1 << 25;
        const WRITE_AND_MAINTENANCE: u64 = 1 << 6 | 1 << 8;
        const TRANSLATION_LEVEL_0: u64 = 4;
        match self.class() {
            _ if addr < super::mmu::USER_END => self.esr,
            class::DATA_USER => self.esr & (CLASS_AND_LENGTH | WRITE_AND_MAINTENANCE) | TRANSLATION_LEVEL_0,
            _ => self.esr & CLASS_AND_LENGTH | TRANSLATION_LEVEL_0,
        }
    }

    /// The faulting address without the tag that user mode may keep in the top byte.
    fn address(&self) -> usize {
        let extended = ((self.far << 8) as i64 >> 8) as u64;
        (self.far & extended) as usize
    }
}

/// Whether the exception from user mode is `svc`.
#[inline(always)]
pub fn is_system_call() -> bool {
    // The upper half has fields of its own.
    sysreg::read!("esr_el1") as u32 >> 26 == class::SVC64 as u32
}

/// A TLB conflict abort: this CPU has two translations of the address, from before and after a change of a
/// block's size. It forgets all of them, and the access is tried again. `false`: it is something else.
#[cold]
pub(super) fn forgets(syndrome: &Syndrome) -> bool {
    let abort = matches!(
        syndrome.class(),
        class::DATA_USER | class::INSTRUCTION_USER | class::DATA_KERNEL | class::INSTRUCTION_KERNEL
    );
    let conflict = abort && syndrome.may_be_conflict();
    if conflict {
        sysreg::flush_own();
    }
    conflict
}

/// Any synchronous exception from user mode but a system call.
#[inline(always)]
pub fn from_user<const TRACKED: bool>(frame: &mut Frame, syndrome: Syndrome) {
    match syndrome.class() {
        class::DATA_USER | class::INSTRUCTION_USER => {
            threshold::fault::<TRACKED>(frame, |frame| user_abort(frame, &syndrome));
        }
        class::BREAKPOINT_USER | class::STEP_USER | class::WATCHPOINT_USER => {
            threshold::fault_irqs_off::<TRACKED>(frame, |frame| user_other(frame, &syndrome));
        }
        _ => threshold::fault::<TRACKED>(frame, |frame| user_other(frame, &syndrome)),
    }
}

/// Inlined into both instances of the entry, as it was when there was one.
#[inline(always)]
fn user_abort(frame: &mut Frame, syndrome: &Syndrome) {
    let addr = syndrome.address();
    let abort = syndrome.abort();
    if matches!(abort, Abort::Page) && addr < super::mmu::USER_END {
        crate::arch::events::page_fault(frame, addr, syndrome.access(), true);
        if crate::mm::handle_fault(frame, addr, syndrome.access(), true) {
            Fault::remember(syndrome.esr, addr);
        }
    } else {
        user_abort_for_good(syndrome, abort, addr);
    }
}

#[cold]
#[inline(never)]
fn user_abort_for_good(syndrome: &Syndrome, abort: Abort, addr: usize) {
    if forgets(syndrome) {
        return;
    }
    Fault::remember(syndrome.for_user(addr), addr);
    match abort {
        Abort::Page => signal::force_fault(SIGSEGV, SEGV_MAPERR, addr),
        Abort::Alignment => signal::force_fault(SIGBUS, BUS_ADRALN, addr),
        Abort::External => signal::force_fault(SIGBUS, BUS_OBJERR, addr),
        Abort::Other => signal::force_fault(SIGKILL, code::KERNEL, addr),
    }
}

/// Whether a breakpoint or watchpoint that was hit is the thread's, and its tracer is still there. If not,
/// this CPU has no more of them. Interrupts are off.
#[cold]
fn is_own_point(pc: usize, syndrome: &Syndrome) -> bool {
    let traced = current().trace.is_traced();
    let own = with_current_context(|context| {
        if !traced {
            context.debug = Registers::NONE;
        }
        match syndrome.class() {
            class::BREAKPOINT_USER => context.debug.stops_at(pc),
            _ => context.debug.watches(),
        }
    });
    if !own {
        super::debug::off();
    }
    own
}

#[cold]
fn user_other(frame: &mut Frame, syndrome: &Syndrome) {
    let pc = frame.pc;
    let (signal, code, addr) = match syndrome.class() {
        class::WFX => {
            // `wfi`: nothing to wait for.
            frame.pc += 4;
            return;
        }
        class::UNKNOWN | class::SYS64 => {
            if emulate::instruction(frame) {
                return;
            }
            (SIGILL, ILL_ILLOPC, pc)
        }
        class::SVE if sve::is_there() => {
            if vectors::first_use().is_err() {
                signal::force_fatal(SIGKILL);
            }
            return;
        }
        class::PC_ALIGNMENT => (SIGBUS, BUS_ADRALN, syndrome.far as usize),
        class::SP_ALIGNMENT => (SIGBUS, BUS_ADRALN, frame.sp),
        class::FP_EXCEPTION => (SIGFPE, float_code(syndrome.esr), pc),
        class::BREAKPOINT_USER | class::WATCHPOINT_USER if !is_own_point(pc, syndrome) => return,
        class::BREAKPOINT_USER => (SIGTRAP, TRAP_HWBKPT, pc),
        class::WATCHPOINT_USER => (SIGTRAP, TRAP_HWBKPT, syndrome.address()),
        class::STEP_USER if !with_current_context(|context| context.steps) => {
            // It was another thread, before this one came to the CPU.
            return super::debug::step_user(false);
        }
        class::STEP_USER if left_step(frame) => return,
        class::STEP_USER => (SIGTRAP, TRAP_TRACE, pc),
        class::BRK64 => (SIGTRAP, TRAP_BRKPT, pc),
        // SME and the like trap because their state is not switched, SVE if there is none: to programs they
        // are not there.
        _ => (SIGILL, ILL_ILLOPC, pc),
    };
    match syndrome.class() {
        // What programs ask for themselves leaves no trace.
        class::BRK64 | class::FP_EXCEPTION => {}
        // Nor is it said why an instruction is none.
        class::UNKNOWN | class::SYS64 | class::FP | class::SVE | class::SME => Fault::remember(0, 0),
        _ => Fault::remember(syndrome.esr, 0),
    }
    signal::force_fault(signal, code, addr);
}

/// `si_code` of a trapped floating-point exception.
fn float_code(esr: u64) -> i32 {
    /// `ESR_EL1.TFV`: the processor says which exception it is.
    const TFV: u64 = 1 << 23;
    match esr {
        e if e & TFV == 0 => FPE_FLTUNK,
        e if e & 1 != 0 => FPE_FLTINV,
        e if e & 1 << 1 != 0 => FPE_FLTDIV,
        e if e & 1 << 2 != 0 => FPE_FLTOVF,
        e if e & 1 << 3 != 0 => FPE_FLTUND,
        e if e & 1 << 4 != 0 => FPE_FLTRES,
        _ => FPE_FLTUNK,
    }
}

/// Any synchronous exception from kernel mode. Only copies to and from user memory may fault.
#[inline(always)]
pub fn from_kernel<const TRACKED: bool>(frame: &mut Frame, syndrome: Syndrome) {
    // Before anything else of the linear map is used.
    if syndrome.may_be_conflict() && forgets(&syndrome) {
        return;
    }
    threshold::fault::<TRACKED>(frame, |frame| kernel(frame, &syndrome));
}

fn kernel(frame: &mut Frame, syndrome: &Syndrome) {
    if syndrome.class() == class::DATA_KERNEL
        && let Some(fixup) = uaccess::fixup(frame.pc)
    {
        let addr = syndrome.address();
        let of_user = addr < super::mmu::USER_END && !is_nofault(frame.pc);
        if matches!(syndrome.abort(), Abort::Page) && of_user {
            crate::arch::events::page_fault(frame, addr, syndrome.access(), false);
            crate::mm::handle_fault(frame, addr, syndrome.access(), false);
        } else {
            frame.pc = fixup;
        }
        return;
    }
    let what = match (syndrome.class(), syndrome.abort()) {
        (class::DATA_KERNEL, Abort::Page) if (syndrome.far as usize) < super::mmu::USER_END => {
            "user memory accessed outside a copy"
        }
        (class::DATA_KERNEL, _) => "bad memory access",
        (class::INSTRUCTION_KERNEL, _) => "bad instruction address",
        (class::BRK64, _) => "brk instruction",
        (class::UNKNOWN, _) => "undefined instruction",
        (class::FP, _) => "floating point used in the kernel",
        _ => "unexpected exception in the kernel",
    };
    die(frame, syndrome, what)
}

/// An exception the kernel cannot survive: registers, call chain, end.
#[cold]
pub fn die(frame: &Frame, syndrome: &Syndrome, what: &str) -> ! {
    super::irq::local_disable();
    log!(
        Emerg,
        "{}: ESR {:#010x} (class {:#x}), FAR {:#018x}, CPU {}",
        what,
        syndrome.esr,
        syndrome.class(),
        syndrome.far,
        super::cpus::cpu_id()
    );
    log!(
        Emerg,
        "pc : {:016x} {}",
        frame.pc,
        crate::trace::symbols::Symbol(frame.pc)
    );
    log!(
        Emerg,
        "lr : {:016x} {}",
        frame.regs[30],
        crate::trace::symbols::Symbol(frame.regs[30])
    );
    log!(Emerg, "sp : {:016x} pstate: {:08x}", frame.sp, frame.pstate);
    for n in (0..30).step_by(3) {
        log!(
            Emerg,
            "x{:<2}: {:016x} x{:<2}: {:016x} x{:<2}: {:016x}",
            n,
            frame.regs[n],
            n + 1,
            frame.regs[n + 1],
            n + 2,
            frame.regs[n + 2]
        );
    }
    log!(Emerg, "Call trace of the interrupted code:");
    crate::trace::backtrace::walk(super::stack::from(frame.regs[29]), |ip| {
        log!(
            Emerg,
            "  [<{:016x}>] {}",
            ip,
            crate::trace::symbols::Symbol(ip - 1)
        );
    });
    let note = match syndrome.class() {
        class::DATA_KERNEL => crate::mm::fault::note(syndrome.far as usize),
        _ => "",
    };
    panic!("{} at {:#x}{note}", what, frame.pc)
}
