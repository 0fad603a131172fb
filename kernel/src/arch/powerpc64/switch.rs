//! Switching between threads: registers that functions keep, floating point and vectors, user registers that
//! only user mode has.
//!
//! Floating-point and vector registers come and go together; when they are saved and loaded is
//! `sched::float`'s business (lazy policy). The user's `MSR` in a thread's frame says whether they are in the
//! processor; if not, the first use traps and loads them ([`use_math`]).

use super::frame::{CR0_SO, FRAME_SIZE, Frame};
use super::spr::{self, MSR_EE, MSR_FP, MSR_MATH, MSR_VEC, MSR_VSX};
use super::stack::{FIRST, LEAST};
use super::{cpus, debug, irq};
use crate::arch::stack_calls::OnStack;
use crate::mm::peek::stack_word;
use crate::sched::float::{self, Float, Registers};
use crate::sched::resume::Resume;
use crate::sync::lockdep;
use core::arch::asm;
use core::mem::offset_of;
use core::ptr::null_mut;

/// The floating-point and vector registers. A floating-point register is the upper half of its vector-scalar
/// register; the second half of those are the vector registers.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub struct FpState {
    /// Vector-scalar registers.
    pub vs: [u128; 64],
    /// Vector status and control, in its last word.
    pub vscr: u128,
    /// Which vector registers are in use, for who wants to know; and room, for here and in signal frames it
    /// takes as much as a vector.
    pub vrsave: usize,
    _room: usize,
    /// Floating-point status and control.
    pub fpscr: u64,
}

impl FpState {
    /// A fresh program's.
    pub const ZERO: Self = Self {
        vs: [0; 64],
        vscr: 0,
        vrsave: 0,
        _room: 0,
        fpscr: 0,
    };
}

/// The priority programs have by themselves: medium low, what Linux leaves behind after every system call.
/// The kernel runs with the thread's.
const PPR_USER: usize = 3 << 50;

/// What is saved of a thread that is not running. Lives in its `Task`; only the CPU that switches the thread
/// touches it.
#[derive(Debug)]
#[repr(C)]
pub struct Context {
    /// r29 to r31; what else lives across a switch the compiler keeps on the stack.
    kept: [usize; 3],
    sp: usize,
    /// Where it goes on.
    pub resume: Resume,
    /// `VRSAVE`, data stream control, target address and priority.
    pub(super) vrsave: usize,
    pub(super) dscr: usize,
    pub(super) tar: usize,
    pub(super) ppr: usize,
    /// The thread's frame of user registers; null if it never has one (idle).
    frame: *mut Frame,
    pub(super) float: Float<FpState>,
    /// Breakpoints and watchpoints.
    pub debug: debug::Registers,
}

// SAFETY: the frame is on the thread's own stack, and only whoever may touch the context follows the pointer.
unsafe impl Send for Context {}
// SAFETY: whoever shares a context follows its pointer only when it may touch it.
unsafe impl Sync for Context {}

const _: () = assert!(offset_of!(Context, sp) == 24 && offset_of!(Context, resume) == 32);

unsafe extern "C" {
    fn ret_from_fork();
}

/// Runs `f` with the kernel allowed to touch floating-point and vector registers. Interrupts are off
/// meanwhile, so a fault in `f` goes straight to its place in the exception table. The lock validator is
/// told: the way back from such a fault leaves it as it was on the way in.
#[inline(always)]
pub(super) fn with_registers<R>(f: impl FnOnce() -> R) -> R {
    let msr = spr::msr();
    let mut allowed = msr | MSR_FP | MSR_VEC | MSR_VSX;
    // SAFETY: only calculates: a zero in the place of MSR_EE. (The compiler would make a mask of 64 bits
    // first.)
    unsafe {
        asm!(
            "rldimi {}, {}, 15, 48", inout(reg) allowed, in(reg) 0,
            options(pure, nomem, nostack, preserves_flags),
        )
    };
    let were_on = msr & MSR_EE != 0;
    spr::set_msr(allowed);
    if were_on {
        lockdep::irqs_off();
    }
    let result = f();
    if were_on {
        lockdep::irqs_on();
    }
    spr::set_msr(msr);
    result
}

impl Registers for FpState {
    #[inline(never)]
    unsafe fn save(&mut self) {
        // SAFETY: as the caller promises; the kernel does not use the registers otherwise.
        with_registers(|| unsafe {
            asm!(
                each!("stxv n, 16 * n({to})"; 64),
                "mffs 0",
                "mfvscr 0",
                "stxv 32, {vscr}({to})",
                "stfd 0, {fpscr}({to})",
                "lxv 0, 0({to})",
                "lxv 32, 512({to})",
                to = in(reg_nonzero) &raw mut *self,
                vscr = const offset_of!(FpState, vscr),
                fpscr = const offset_of!(FpState, fpscr),
                options(nostack, preserves_flags)
            );
        });
    }

    #[inline(never)]
    unsafe fn load(&self) {
        // SAFETY: as the caller promises.
        with_registers(|| unsafe {
            asm!(
                "lxv 32, {vscr}({from})",
                "lfd 0, {fpscr}({from})",
                "mtvscr 0",
                "mtfsf 255, 0, 1, 0",
                each!("lxv n, 16 * n({from})"; 64),
                from = in(reg_nonzero) &raw const *self,
                vscr = const offset_of!(FpState, vscr),
                fpscr = const offset_of!(FpState, fpscr),
                options(nostack, preserves_flags)
            );
        });
    }
}

impl Context {
    /// The stack pointer with which it goes on.
    pub fn sp(&self) -> usize {
        self.sp
    }

    /// Where a backtrace of it begins, as long as it is off its CPU: the frame of who called the function
    /// that switched.
    pub fn frame_pointer(&self) -> usize {
        stack_word(self.sp, self.sp).unwrap_or(0)
    }

    /// For a thread that is already running (idle threads).
    pub const fn running() -> Self {
        Self {
            kept: [0; 3],
            sp: 0,
            resume: Resume::BEHIND,
            vrsave: 0,
            dscr: 0,
            tar: 0,
            ppr: PPR_USER,
            frame: null_mut(),
            float: Float::new(FpState::ZERO),
            debug: debug::Registers::NONE,
        }
    }

    /// For a new thread: `frame` is placed at the top of its kernel stack; its first switch ends in the
    /// architecture's `ret_from_fork` stub, which calls `threshold::return_from_fork(frame)` and restores the
    /// frame.
    pub fn new(stack_top: usize, frame: &Frame) -> Self {
        let at = user_frame(stack_top);
        let sp = at as usize - LEAST;
        // SAFETY: the caller owns the stack of the new thread, which does not run yet.
        unsafe {
            at.write(frame.clone());
            (*at).complete();
            (*at).msr &= !MSR_MATH;
            // The end of the frame chain.
            (sp as *mut usize).write(0);
        }
        let mut context = Self::running();
        context.resume = Resume::at(ret_from_fork);
        context.sp = sp;
        context.frame = at;
        context
    }

    /// The register file of a new thread made from a system call: a copy of the parent's with result 0, and,
    /// if given, another stack pointer and thread-local-storage value.
    pub fn fork_from(&mut self, parent: &Context, sp: Option<usize>, tls: Option<usize>) {
        // SAFETY: `new` put the frame there; the thread does not run yet.
        let frame = unsafe { &mut *self.frame };
        frame.gpr[3] = 0;
        frame.ccr &= !CR0_SO;
        if let Some(sp) = sp {
            frame.gpr[1] = sp;
        }
        frame.gpr[13] = tls.unwrap_or(frame.gpr[13]);
        self.dscr = spr::read!(spr::DSCR);
        self.tar = spr::read!(spr::TAR);
        // The parent is the running thread.
        let flags = irq::local_save();
        // SAFETY: interrupts are off; a kernel thread's frame has no such bits.
        unsafe {
            let has = !parent.frame.is_null() && (*parent.frame).msr & MSR_MATH != 0;
            self.float.inherit_lazily(&parent.float, has);
        }
        self.vrsave = spr::read!(spr::VRSAVE);
        irq::local_restore(flags);
    }

    /// Fork copies all of it.
    pub fn exchange_rest(&mut self, _own: &mut Context) {}

    /// A fresh program: floating point and thread-local storage as at the start of `exec`. The context is the
    /// running thread's.
    pub fn reset_for_exec(&mut self) {
        let flags = irq::local_save();
        *self.float.replace() = FpState::ZERO;
        // SAFETY: the running thread's own frame and user registers, interrupts off.
        unsafe {
            (*self.frame).msr &= !MSR_MATH;
            // Data stream control stays, as documented by Linux.
            spr::write!(spr::VRSAVE, 0usize);
            spr::write!(spr::TAR, 0usize);
            spr::write!(spr::PPR, PPR_USER);
        }
        irq::local_restore(flags);
    }
}

/// Switches from `prev` (running) to `next`, with floating-point state and the user's other registers.
/// Returns when `prev` runs again, after `resumed()` if it asked for that.
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
        let frame = (*prev).frame;
        if !frame.is_null() {
            let math = (*frame).msr & MSR_MATH != 0;
            (*prev).float.leave_if(math);
            if math {
                (*frame).msr &= !MSR_MATH;
            }
            (*prev).vrsave = spr::read!(spr::VRSAVE);
            (*prev).dscr = spr::read!(spr::DSCR);
            (*prev).tar = spr::read!(spr::TAR);
            (*prev).ppr = spr::read!(spr::PPR);
        }
        let frame = (*next).frame;
        if !frame.is_null() {
            if (*next).float.still_here(local, next.cast()) {
                (*frame).msr |= MSR_MATH;
            }
            spr::write!(spr::VRSAVE, (*next).vrsave);
            spr::write!(spr::DSCR, (*next).dscr);
            spr::write!(spr::TAR, (*next).tar);
            spr::write!(spr::PPR, (*next).ppr);
        }
        asm!(
            each!("std 29 + n, 8 * n(3)"; 3),
            "std    1, 24(3)",
            "ld     0, 32(4)",
            each!("ld 29 + n, 8 * n(4)"; 3),
            "ld     1, 24(4)",
            "mtctr  0",
            "bctr",
            ".globl switch_calls, switch_goes_on",
            ".set switch_calls, {calls}",
            "switch_goes_on:",
            inout("r3") prev => _,
            inout("r4") next => _,
            out("r14") _, out("r15") _, out("r16") _, out("r17") _, out("r18") _, out("r19") _, out("r20") _,
            out("r21") _, out("r22") _, out("r23") _, out("r24") _, out("r25") _, out("r26") _, out("r27") _,
            out("r28") _, out("cr0") _, out("cr1") _, out("cr2") _, out("cr3") _, out("cr4") _, out("cr5") _,
            out("cr6") _, out("cr7") _,
            out("ctr") _, out("lr") _, out("xer") _, out("r0") _, out("r5") _, out("r6") _, out("r7") _,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _, out("r12") _,
            calls = label { resumed() },
        );
    }
}

/// The running thread used a floating-point or vector register that it does not have: now it has. Interrupts
/// are off.
pub fn use_math(frame: &mut Frame) {
    let context = crate::task::current().context.get();
    let local = cpus::cpu_local().cast_mut();
    // SAFETY: interrupts are off: this CPU's own block, and the running thread's context.
    unsafe { (*context).float.bring(local, context.cast()) }
    frame.msr |= MSR_MATH;
}

/// Calls `f` with the running thread's floating-point and vector registers. `frame` is its frame.
pub fn with_math<R>(frame: &Frame, f: impl FnOnce(&FpState) -> R) -> R {
    let context = crate::task::current().context.get();
    let flags = irq::local_save();
    // SAFETY: interrupts are off: the registers are the running thread's if its frame says so. Only the
    // thread itself, and the switch away from it, write the saved ones, and that writes what the thread had.
    let state = unsafe {
        let state = (*context).float.update(frame.msr & MSR_MATH != 0);
        state.vrsave = spr::read!(spr::VRSAVE);
        &*state
    };
    irq::local_restore(flags);
    f(state)
}

/// Lets `f` replace the running thread's registers, which are loaded at its next use of them.
pub fn replace_math<R>(frame: &mut Frame, f: impl FnOnce(&mut FpState) -> R) -> R {
    let context = crate::task::current().context.get();
    frame.msr &= !MSR_MATH;
    // SAFETY: the frame says that the registers are not the thread's, so nobody but us touches the saved
    // ones. The last is the user's own register.
    unsafe {
        let state = (*context).float.replace();
        let result = f(state);
        spr::write!(spr::VRSAVE, state.vrsave);
        result
    }
}

/// Runs `f` with the running thread's registers in the processor and the kernel allowed to touch them,
/// interrupts off: see [`with_registers`].
#[inline(always)]
pub fn in_processor<R>(frame: &mut Frame, f: impl FnOnce(&Frame) -> R) -> R {
    let flags = irq::local_save();
    if frame.msr & MSR_MATH == 0 {
        use_math(frame);
    }
    let result = with_registers(|| f(frame));
    irq::local_restore(flags);
    result
}

/// Lets `f` load all of them, as it does `frame` with a machine state as if there were none. `None` from `f`:
/// some may have changed.
#[inline(always)]
pub fn load_math<R>(frame: &mut Frame, f: impl FnOnce(&mut Frame) -> Option<R>) -> Option<R> {
    let context = crate::task::current().context.get();
    let flags = irq::local_save();
    let local = cpus::cpu_local().cast_mut();
    let had = frame.msr & MSR_MATH != 0;
    // SAFETY: interrupts are off: this CPU's own block, and the running thread's context. Whoever's the
    // registers were, they are in memory as well.
    let result = unsafe {
        if !had {
            float::disown(local);
        }
        let result = with_registers(|| f(frame));
        if result.is_some() {
            (*context).float.claim(local, context.cast());
        }
        result
    };
    if had || result.is_some() {
        frame.msr |= MSR_MATH;
    }
    irq::local_restore(flags);
    result
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
    unsafe { asm!("mr {}, 1", out(reg) sp, options(nomem, nostack, preserves_flags)) };
    sp
}

/// Bytes below its stack pointer that a function that calls none may use (Power's ELF V2 ABI, 2.2.3.4).
pub const RED_ZONE: usize = 288;

/// Runs `F` on another stack, or further down on the same, and comes back. The frame chain goes on across the
/// stacks.
///
/// # Safety
/// `stack_top` is 16-byte aligned, and below it is a stack that nobody else uses.
#[inline(always)]
pub unsafe fn call_on_stack<F: OnStack>(stack_top: usize, data: *mut u8) {
    // SAFETY: as the caller promises; what functions may change is listed.
    unsafe {
        asm!(
            "std 1, -{first}({top})",
            "addi 1, {top}, -{first}",
            "bl {f}",
            "nop",
            "ld 1, 0(1)",
            top = in(reg_nonzero) stack_top,
            first = const FIRST,
            f = sym F::run,
            inout("r3") data => _, out("r12") _, out("r0") _, out("r4") _, out("r5") _, out("r6") _,
            out("r7") _, out("r8") _,
            out("r9") _, out("r10") _, out("r11") _, out("cr0") _, out("cr1") _, out("cr5") _, out("cr6") _,
            out("cr7") _, out("ctr") _,
            out("lr") _, out("xer") _
        );
    }
}
