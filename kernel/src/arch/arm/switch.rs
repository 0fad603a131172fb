//! Switching between threads: callee-saved registers, floating point, thread-local storage.
//!
//! When floating-point registers are saved and loaded is `sched::float`'s business (eager policy).
//!
//! Big copies borrow some of them (`copy`): they put what is there on the kernel's stack and take it back
//! when they are done. Copies inside each other, from interrupts and faults, do the same in their turn; a
//! switch in between saves and loads the copy's values like any others. That is why kernel threads, whose
//! registers no switch saves, do not borrow ([`USER_THREAD`]).

use super::debug;
use super::frame::{FRAME_SIZE, Frame};
use super::{cpus, sysreg};
use crate::arch::stack_calls::OnStack;
use crate::sched::float::{Float, Registers, Reset};
use crate::sched::resume::Resume;
use crate::task::{Task, ThreadInfo};
use core::arch::asm;
use core::mem::offset_of;

/// `d0` to `d31`, `FPSCR`.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub struct FpState {
    /// Double-word registers.
    pub d: [u64; 32],
    /// Status and control.
    pub fpscr: u32,
    /// Keeps the size a multiple of the alignment.
    pub pad: u32,
}

impl FpState {
    /// A fresh program's.
    pub const ZERO: Self = Self {
        d: [0; 32],
        fpscr: 0,
        pad: 0,
    };
}

/// What is saved of a thread that is not running. Lives in its `Task`; only the CPU that switches the thread
/// touches it.
#[derive(Debug)]
#[repr(C)]
pub struct Context {
    sp: usize,
    /// `TPIDRURW`: user mode's own.
    scratch: usize,
    /// r6 and r11; what else lives across a switch the compiler keeps on the stack.
    kept: [usize; 2],
    /// `TPIDRURO`: the thread pointer.
    pub(super) tls: usize,
    /// Where it goes on.
    pub resume: Resume,
    pub(super) float: Float<FpState>,
    /// What signal frames say about the last exception that became a signal.
    pub(super) fault: Fault,
    /// Breakpoints and watchpoints.
    pub debug: debug::Registers,
}

/// Where the byte of a task is that says whether it is a user thread.
pub(super) const USER_THREAD: usize =
    offset_of!(Task, context) + offset_of!(Context, float) + Float::<FpState>::USED;
const _: () = assert!(USER_THREAD < 4096);

/// The boot CPU's thread until the scheduler has made a proper one. It is not a whole task; what is looked at
/// behind its beginning says that it is not a user's.
#[repr(C)]
struct BootThread {
    info: ThreadInfo,
    rest: [u8; USER_THREAD],
}

/// The thread that boots.
pub(super) fn boot_thread() -> *const ThreadInfo {
    static THREAD: BootThread = BootThread {
        info: ThreadInfo::new(),
        rest: [0; USER_THREAD],
    };
    (&raw const THREAD).cast()
}

/// An exception in user mode as signal frames show it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Fault {
    /// 14 for a bad memory access, 6 for an undefined instruction.
    pub trap: u32,
    /// The fault status.
    pub error: u32,
    /// The address of a bad memory access.
    pub address: usize,
}

impl Fault {
    const NONE: Fault = Fault {
        trap: 0,
        error: 0,
        address: 0,
    };

    /// Remembers a bad memory access of the running thread.
    #[cold]
    pub fn remember_access(fsr: u32, address: usize) {
        Self::remember(14, fsr);
        Self::change(|fault| fault.address = address);
    }

    /// Remembers what else the running thread did: the address is still that of its last bad access.
    #[cold]
    pub fn remember(trap: u32, error: u32) {
        Self::change(|fault| (fault.trap, fault.error) = (trap, error));
    }
}

const _: () = assert!(
    offset_of!(Context, sp) == 0 && offset_of!(Context, kept) == 8 && offset_of!(Context, resume) == 20
);
const _: () = assert!(offset_of!(FpState, fpscr) == 256);

unsafe extern "C" {
    fn ret_from_fork();
}

/// `FPEXC`: floating point is on.
pub(super) const FPEXC_EN: u32 = 1 << 30;

/// Reads a floating-point system register.
macro_rules! float_register {
    ($name:literal) => {{
        let value: u32;
        // SAFETY: floating point is on; the kernel has no use for the registers otherwise.
        unsafe { asm!(concat!("vmrs {}, ", $name), out(reg) value, options(nostack, preserves_flags)) }
        value
    }};
}

/// Writes `FPEXC`.
fn set_fpexc(value: u32) {
    // SAFETY: access was granted; the register is the running thread's, or nobody's yet.
    unsafe { asm!("vmsr fpexc, {}", in(reg) value, options(nostack, preserves_flags)) }
}

/// The running thread's floating-point status and control.
pub(super) fn fpscr() -> u32 {
    float_register!("fpscr")
}

/// Turns floating point on, on this CPU (which was allowed it). Returns `MVFR0` and, above it, `MVFR1`.
pub(super) fn init_fp() -> u64 {
    set_fpexc(FPEXC_EN);
    u64::from(float_register!("mvfr0")) | u64::from(float_register!("mvfr1")) << 32
}

/// Whether a floating-point operation has an exception to report (which is then taken).
pub(super) fn float_exception() -> bool {
    const EX: u32 = 1 << 31;
    let value = float_register!("fpexc");
    set_fpexc(value & !EX);
    value & EX != 0
}

impl Registers for FpState {
    unsafe fn save(&mut self) {
        // SAFETY: as the caller promises.
        unsafe {
            asm!(
                "vstm {to}!, {{d0-d15}}", "vstm {to}, {{d16-d31}}", to = inout(reg) &raw mut *self => _,
                options(nostack, preserves_flags),
            );
        }
        self.fpscr = fpscr();
    }

    unsafe fn load(&self) {
        // SAFETY: as the caller promises.
        unsafe {
            asm!(
                "vldm {from}!, {{d0-d15}}", "vldm {from}, {{d16-d31}}",
                from = inout(reg) &raw const *self => _, options(nostack, preserves_flags, readonly),
            );
            asm!("vmsr fpscr, {}", in(reg) self.fpscr, options(nostack, preserves_flags));
        }
    }
}

impl Reset for FpState {
    unsafe fn reset() {
        // SAFETY: as the caller promises.
        unsafe { Self::ZERO.load() }
    }
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
            sp: 0,
            scratch: 0,
            kept: [0; 2],
            tls: 0,
            resume: Resume::BEHIND,
            float: Float::new(FpState::ZERO),
            fault: Fault::NONE,
            debug: debug::Registers::NONE,
        }
    }

    /// For a new thread: `frame` is placed at the top of its kernel stack; its first switch ends in the
    /// architecture's `ret_from_fork` stub, which calls `threshold::return_from_fork(frame)` and restores the
    /// frame.
    pub fn new(stack_top: usize, frame: &Frame) -> Self {
        let at = user_frame(stack_top);
        // SAFETY: the caller owns the stack of the new thread, which does not run yet.
        unsafe { at.write(frame.clone()) }
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
            (*frame).sp = sp.unwrap_or((*frame).sp);
        }
        self.tls = tls.unwrap_or(parent.tls);
        self.scratch = sysreg::read!(TPIDRURW) as usize;
        self.float.inherit(&parent.float);
    }

    /// Fork copies all of it.
    pub fn exchange_rest(&mut self, _own: &mut Context) {}

    /// A fresh program: floating point and thread-local storage as at the start of `exec`. The context is the
    /// running thread's.
    pub fn reset_for_exec(&mut self) {
        let whose = core::ptr::from_ref(self).cast();
        self.float.begin(whose);
        self.tls = 0;
        self.debug = debug::Registers::NONE;
        // SAFETY: user mode's own registers: TPIDRURW and TPIDRURO.
        unsafe {
            sysreg::write!(TPIDRURW, 0u32);
            sysreg::write!(TPIDRURO, 0u32);
        }
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
        asm!(
            "mov    r2, sp",
            "mrc    p15, 0, r3, c13, c0, 2",    // TPIDRURW
            "stmia  r0, {{r2, r3, r6, r11}}",
            "ldmia  r1, {{r2, r3, r6, r11, r12, lr}}",
            "mov    sp, r2",
            "mcr    p15, 0, r3, c13, c0, 2",    // TPIDRURW
            "mcr    p15, 0, r12, c13, c0, 3",   // TPIDRURO
            "clrex",                        // a reservation belongs to the thread that made it
            "bx     lr",
            ".globl switch_calls, switch_goes_on",
            ".set switch_calls, {calls}",
            "switch_goes_on:",
            inout("r0") prev => _,
            inout("r1") next => _,
            out("r2") _, out("r3") _, out("r4") _, out("r5") _, out("r7") _, out("r8") _, out("r9") _,
            out("r10") _,
            out("r12") _, out("lr") _,
            calls = label { resumed() },
        );
    }
}

/// The running thread's thread pointer.
pub fn thread_pointer() -> usize {
    sysreg::read!(TPIDRURO) as usize
}

/// Sets it.
pub fn set_thread_pointer(value: usize) {
    let task = crate::task::current();
    // SAFETY: the running thread's own context; if a switch comes between the two, it loads the register from
    // the context.
    unsafe {
        (*task.context.get()).tls = value;
        sysreg::write!(TPIDRURO, value as u32);
    }
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
    // SAFETY: as the caller promises. What the call does not spoil is kept by it, the stack pointer in r4.
    unsafe {
        asm!(
            "mov r4, sp",
            "mov sp, {stack_top}",
            "bl {f}",
            "mov sp, r4",
            stack_top = in(reg) stack_top,
            f = sym F::run,
            inout("r0") data => _,
            out("r4") _,
            out("r1") _,
            out("r2") _,
            out("r3") _,
            out("r12") _,
            out("lr") _,
        )
    }
}
