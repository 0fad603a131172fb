//! Switching between threads: callee-saved registers, floating point, thread-local storage. When
//! floating-point registers are saved and loaded is `sched::float`'s business (eager policy).

use super::frame::{FRAME_SIZE, Frame};
use super::vectors::Vectors;
use super::{cpus, debug};
use crate::arch::stack_calls::OnStack;
use crate::sched::float::Float;
use crate::sched::resume::Resume;
use crate::task::ThreadInfo;
use core::arch::asm;
use core::mem::offset_of;

/// What is saved of a thread that is not running. Lives in its `Task`; only the CPU that switches the thread
/// touches it.
#[derive(Debug)]
#[repr(C)]
pub struct Context {
    /// x19 and x29; what else lives across a switch the compiler keeps on the stack.
    kept: [usize; 2],
    sp: usize,
    /// `TPIDR_EL0`.
    pub(super) tls: usize,
    /// Where it goes on.
    pub resume: Resume,
    pub(super) float: Float<Vectors>,
    /// What signal frames say about the last exception that became a signal.
    pub(super) fault: Fault,
    /// It is single-stepped.
    pub(super) steps: bool,
    /// Breakpoints and watchpoints.
    pub debug: debug::Registers,
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

    /// Remembers an exception of the running thread.
    #[cold]
    pub fn remember(esr: u64, address: usize) {
        Self::change(|fault| *fault = Fault { esr, address });
    }
}

const _: () = assert!(
    offset_of!(Context, sp) == 16 && offset_of!(Context, tls) == 24 && offset_of!(Context, resume) == 32
);

unsafe extern "C" {
    fn ret_from_fork();
}

impl Context {
    /// The stack pointer with which it goes on.
    pub fn sp(&self) -> usize {
        self.sp
    }

    /// Where a backtrace of it begins, as long as it is off its CPU: its frame pointer.
    pub fn frame_pointer(&self) -> usize {
        self.kept[1]
    }

    /// For a thread that is already running (idle threads).
    pub const fn running() -> Self {
        Self {
            kept: [0; 2],
            sp: 0,
            tls: 0,
            resume: Resume::BEHIND,
            float: Float::new(Vectors::NEW),
            fault: Fault::NONE,
            steps: false,
            debug: debug::Registers::NONE,
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
        self.float.replace().inherit(parent.float.kept());
        self.float.inherit(&parent.float);
    }

    /// What the running thread, whose context `own` is, has besides what [`Self::fork_from`] copies goes to
    /// this context, or comes back.
    pub fn exchange_rest(&mut self, own: &mut Context) {
        own.float.besides().exchange(self.float.besides());
    }

    /// A fresh program: floating point and thread-local storage as at the start of `exec`. The context is the
    /// running thread's.
    pub fn reset_for_exec(&mut self) {
        let whose = core::ptr::from_ref(self).cast();
        self.float.replace().begin_program();
        self.float.begin(whose);
        self.debug = debug::Registers::NONE;
        // SAFETY: user mode's own register.
        unsafe { asm!("msr tpidr_el0, xzr", options(nomem, nostack, preserves_flags)) };
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
        (*prev).float.leave();
        (*next).float.arrive(local, next.cast());
        if (*next).steps {
            debug::step_user(true);
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

/// The caller's stack pointer.
#[inline(always)]
pub fn stack_pointer() -> usize {
    let sp: usize;
    // SAFETY: only reads a register.
    unsafe { asm!("mov {}, sp", out(reg) sp, options(nomem, nostack, preserves_flags)) };
    sp
}

/// The kernel is built so that no function uses what is below its stack pointer.
pub const RED_ZONE: usize = 0;

/// Runs `F` on another stack, or further down on the same, and comes back.
///
/// # Safety
/// `stack_top` is 16-byte aligned, and below it is a stack that nobody else uses.
#[inline(always)]
pub unsafe fn call_on_stack<F: OnStack>(stack_top: usize, data: *mut u8) {
    // SAFETY: the old stack pointer is kept in a register that `f` preserves. The frame chain goes on across
    // the stacks.
    unsafe {
        asm!(
            "mov x20, sp",
            "mov sp, {top}",
            "bl {f}",
            "mov sp, x20",
            top = in(reg) stack_top, f = sym F::run, in("x0") data, out("x20") _, clobber_abi("C")
        )
    }
}
