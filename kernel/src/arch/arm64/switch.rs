//! Switching between threads: callee-saved registers, floating point, thread-local storage.
//!
//! The kernel never touches floating-point registers, so while a user thread is current they hold its state,
//! or exactly what is in its [`Context`]. They are saved when the thread is switched away from, and loaded
//! when one is switched to, unless this CPU still has them: a thread that sleeps and wakes with only kernel
//! threads (idle) in between gets its registers for free.

use super::cpus;
use super::frame::{FRAME_SIZE, Frame};
use crate::sched::{cpu::CpuLocal, resume::Resume};
use crate::task::ThreadInfo;
use core::arch::asm;
use core::mem::offset_of;

/// `V0` to `V31`, `FPSR`, `FPCR`: also what a signal frame's `fpsimd_context` carries.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub struct FpState {
    /// Vector registers.
    pub v: [u128; 32],
    /// Floating-point status.
    pub fpsr: u32,
    /// Floating-point control.
    pub fpcr: u32,
}

impl FpState {
    /// A fresh program's.
    pub const ZERO: Self = Self {
        v: [0; 32],
        fpsr: 0,
        fpcr: 0,
    };
}

/// No CPU has this context's floating-point registers.
const NOWHERE: usize = usize::MAX;

/// What is saved of a thread that is not running. Lives in its `Task`; only the CPU that switches the thread
/// touches it.
#[derive(Debug)]
#[repr(C)]
pub struct Context {
    /// x19 and x29; what else lives across a switch the compiler keeps on the stack.
    kept: [usize; 2],
    sp: usize,
    /// `TPIDR_EL0`.
    tls: usize,
    /// Where it goes on.
    pub resume: Resume,
    /// Whether it runs (or will run) in user mode, so has floating-point state.
    user: bool,
    /// The CPU that loaded the floating-point registers last.
    fp_cpu: usize,
    fp: FpState,
    /// What signal frames say about the last exception that became a signal.
    fault: Fault,
}

/// The thread that boots: the boot CPU's until the scheduler has made a proper one.
pub(super) fn boot_thread() -> *const ThreadInfo {
    static THREAD: ThreadInfo = ThreadInfo::new();
    &raw const THREAD
}

/// An exception in user mode as signal frames show it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Fault {
    /// `ESR_EL1`; zero if there was none yet.
    pub esr: u64,
    /// The address of a bad memory access, else zero.
    pub address: usize,
}

impl Fault {
    const NONE: Fault = Fault { esr: 0, address: 0 };

    /// The running thread's.
    pub fn of_current() -> Fault {
        // SAFETY: only the running thread itself reads or writes this field of its context.
        unsafe { (*crate::task::current().context.get()).fault }
    }

    /// Remembers an exception of the running thread.
    #[cold]
    pub fn remember(esr: u64, address: usize) {
        // SAFETY: only the running thread itself reads or writes this field of its context.
        unsafe { (*crate::task::current().context.get()).fault = Fault { esr, address } };
    }
}

const _: () = assert!(
    offset_of!(Context, sp) == 16 && offset_of!(Context, tls) == 24 && offset_of!(Context, resume) == 32
);
/// Instruction `$op` (`st1` or `ld1`) for all vector registers and the memory at `{at}`, which is what
/// follows that memory then.
macro_rules! vectors {
    ($op:literal) => {
        $crate::arch::imp::switch::vectors!($op, "0" "3", "4" "7", "8" "11", "12" "15", "16" "19", "20" "23",
            "24" "27", "28" "31")
    };
    ($op:literal, $($first:literal $last:literal),+) => {
        concat!(
            ".arch_extension fp\n.arch_extension simd\n",
            $($op, " {{v", $first, ".2d-v", $last, ".2d}}, [{at}], #64\n"),+
        )
    };
}
pub(super) use vectors;

unsafe extern "C" {
    fn ret_from_fork();
}

/// Saves the floating-point registers.
///
/// # Safety
/// `to` is writable.
#[inline(never)]
unsafe fn save_fp(to: *mut FpState) {
    let (status, control): (u64, u64);
    // SAFETY: as the caller promises.
    unsafe {
        asm!(
            vectors!("st1"),
            "mrs {status}, fpsr",
            "mrs {control}, fpcr",
            at = inout(reg) to => _, status = out(reg) status, control = out(reg) control, options(nostack)
        );
        ((*to).fpsr, (*to).fpcr) = (status as u32, control as u32);
    }
}

/// Loads the floating-point registers.
///
/// # Safety
/// They are whose state it is, or nobody's.
#[inline(never)]
unsafe fn load_fp(from: *const FpState) {
    // SAFETY: as the caller promises.
    unsafe {
        asm!(
            vectors!("ld1"),
            "msr fpsr, {status}",
            "msr fpcr, {control}",
            at = inout(reg) from => _, status = in(reg) u64::from((*from).fpsr),
            control = in(reg) u64::from((*from).fpcr), options(nostack)
        );
    }
}

/// The scratch word of the local block that says whose floating-point state the registers hold.
const FP_OWNER: usize = 0;

impl Context {
    /// For a thread that is already running (idle threads).
    pub const fn running() -> Self {
        Self {
            kept: [0; 2],
            sp: 0,
            tls: 0,
            resume: Resume::BEHIND,
            user: false,
            fp_cpu: NOWHERE,
            fp: FpState::ZERO,
            fault: Fault::NONE,
        }
    }

    /// For a new thread: `frame` is placed at the top of its kernel stack; its first switch ends in the
    /// architecture's `ret_from_fork` stub, which calls `threshold::return_from_fork(frame)` and restores the
    /// frame.
    pub fn new(stack_top: usize, frame: &Frame) -> Self {
        let at = user_frame(stack_top);
        // SAFETY: the caller owns the stack of the new thread, which does not run yet.
        unsafe {
            at.write(frame.clone());
            (*at).record = [0; 2];
        }
        let mut context = Self::running();
        context.resume = Resume::at(ret_from_fork);
        context.sp = at as usize;
        // A kernel thread is made with an empty frame; it has no user state until it executes a program.
        context.user = frame.pc != 0;
        context
    }

    /// The register file of a new thread made from a system call: a copy of the parent's with result 0, and,
    /// if given, another stack pointer and thread-local-storage value.
    pub fn fork_from(&mut self, parent: &Context, sp: Option<usize>, tls: Option<usize>) {
        let frame = self.sp as *mut Frame;
        // SAFETY: `new` put the frame there; the thread does not run yet.
        unsafe {
            (*frame).regs[0] = 0;
            if let Some(sp) = sp {
                (*frame).sp = sp;
            }
        }
        self.tls = tls.unwrap_or_else(thread_pointer);
        self.user = true;
        if parent.user {
            // SAFETY: the parent is the running thread, whose state is in the registers; a switch in between
            // saves and restores it.
            unsafe { save_fp(&raw mut self.fp) };
        } else {
            self.fp = FpState::ZERO;
        }
    }

    /// A fresh program: floating point and thread-local storage as at the start of `exec`. The context is the
    /// running thread's.
    pub fn reset_for_exec(&mut self) {
        let flags = super::irq::local_save();
        self.user = true;
        self.fp = FpState::ZERO;
        let local = cpus::cpu_local().cast_mut();
        // SAFETY: interrupts are off: this CPU's own block, and the registers are the running thread's.
        unsafe {
            load(local, core::ptr::from_mut(self));
            asm!("msr tpidr_el0, xzr", options(nomem, nostack, preserves_flags));
        }
        super::irq::local_restore(flags);
    }
}

/// # Safety
/// Interrupts are off; `local` is this CPU's block; `context` is the one that runs, or is about to.
unsafe fn load(local: *mut CpuLocal, context: *mut Context) {
    // SAFETY: as the caller promises.
    unsafe {
        load_fp(&raw const (*context).fp);
        (*context).fp_cpu = (*local).id;
        (*local).scratch[FP_OWNER] = context as usize;
    }
}

/// Switches from `prev` (running) to `next`, with floating-point state and the TLS register. Returns when
/// `prev` runs again, after `resumed()` if it asked for that.
///
/// # Safety
/// Interrupts are off; both contexts stay valid; `next` is not running anywhere.
#[inline(always)]
#[expect(
    named_asm_labels,
    reason = "contexts name these places, and the one caller is not copied"
)]
pub unsafe fn switch(prev: *mut Context, next: *const Context, resumed: impl FnOnce()) {
    let local = cpus::cpu_local().cast_mut();
    let next = next.cast_mut();
    // SAFETY: interrupts are off and nobody else touches either context.
    unsafe {
        if (*prev).user {
            save_fp(&raw mut (*prev).fp);
        }
        if (*next).user && ((*local).scratch[FP_OWNER] != next as usize || (*next).fp_cpu != (*local).id) {
            load(local, next);
        }
        asm!(
            "mov    x10, sp",
            "mrs    x11, tpidr_el0",
            "stp    x19, x29, [x0]",
            "stp    x10, x11, [x0, #16]",
            "ldp    x19, x29, [x1]",
            "ldp    x10, x11, [x1, #16]",
            "ldr    x9, [x1, #32]",
            "mov    sp, x10",
            "msr    tpidr_el0, x11",
            "br     x9",
            ".globl switch_calls, switch_goes_on",
            ".set switch_calls, {calls}",
            "switch_goes_on:",
            inout("x0") prev => _,
            inout("x1") next => _,
            out("x20") _, out("x21") _, out("x22") _, out("x23") _, out("x24") _,
            out("x25") _, out("x26") _, out("x27") _, out("x28") _,
            clobber_abi("C"),
            calls = label { resumed() },
        );
    }
}

/// The running thread's `TPIDR_EL0`.
pub fn thread_pointer() -> usize {
    super::sysreg::read!("tpidr_el0") as usize
}

/// The user register frame of the running thread, at the top of its kernel stack.
pub fn user_frame(stack_top: usize) -> *mut Frame {
    (stack_top - FRAME_SIZE) as *mut Frame
}

/// Runs `f(data)` on another stack (the interrupt stack) and comes back.
///
/// # Safety
/// `stack_top` is the 16-byte aligned top of a mapped stack nobody else uses.
#[inline(always)]
pub unsafe fn call_on_stack(stack_top: usize, f: extern "C" fn(*mut u8), data: *mut u8) {
    // SAFETY: the old stack pointer is kept in a register that `f` preserves. The frame chain goes on across
    // the stacks.
    unsafe {
        asm!(
            "mov x20, sp",
            "mov sp, {top}",
            "blr {f}",
            "mov sp, x20",
            top = in(reg) stack_top, f = in(reg) f, in("x0") data, out("x20") _, clobber_abi("C")
        )
    }
}
