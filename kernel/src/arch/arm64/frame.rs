//! The saved register file: what the entry stubs of `entry` push, and what everything else sees of an
//! interrupted context.
//!
//! The first 34 words are Linux's `user_pt_regs`, so register sets for tracers and core dumps are a copy.

use super::sve;
use limen_linux_abi::{Errno, Restart};

/// `PSTATE.M` and the AArch32 bit.
pub const PSTATE_MODE_MASK: usize = 0x1f;
/// EL0, AArch64.
pub const PSTATE_EL0T: usize = 0;
/// `PSTATE.I`.
pub const PSTATE_I: usize = 1 << 7;
/// `PSTATE.F`.
pub const PSTATE_F: usize = 1 << 6;
/// `PSTATE.A`.
pub const PSTATE_A: usize = 1 << 8;
/// `PSTATE.D`.
pub const PSTATE_D: usize = 1 << 9;
/// `PSTATE.BTYPE`.
pub const PSTATE_BTYPE: usize = 3 << 10;
/// N, Z, C and V.
pub const PSTATE_NZCV: usize = 0xf << 28;

/// `restart_syscall` in the arm64 table.
const NR_RESTART_SYSCALL: usize = 128;

/// All general registers of the interrupted context, in the order the entry stub saves them.
#[derive(Clone, Debug)]
#[repr(C, align(16))]
pub struct Frame {
    /// x0 to x30.
    pub regs: [usize; 31],
    /// The stack pointer.
    pub sp: usize,
    /// Where to continue.
    pub pc: usize,
    /// The processor state to continue with (`SPSR_EL1`).
    pub pstate: usize,
    /// x0 as it was when the system call was made.
    pub orig_x0: usize,
    /// The system call number, negative if the frame is not a system call's.
    pub syscallno: i32,
    /// The upper half of x8, which the stub saves with the lower.
    _x8: u32,
    /// A frame record (frame pointer, return address) so that backtraces pass through exceptions; zero at the
    /// user boundary.
    pub record: [usize; 2],
}

/// Size of a frame; the stubs keep the stack 16-byte aligned with it.
pub const FRAME_SIZE: usize = size_of::<Frame>();
const _: () = assert!(FRAME_SIZE.is_multiple_of(16));
const _: () = assert!(core::mem::offset_of!(Frame, pstate) == 33 * 8);

/// What was interrupted: how the call restarts, its result, where it ended. The frame is as before `svc`.
pub struct Interrupted(Option<(Restart, usize, usize)>);

impl Frame {
    /// The register file of a fresh program: everything zero except entry point and stack pointer.
    pub fn new_user(entry: usize, sp: usize) -> Self {
        Self {
            regs: [0; 31],
            sp,
            pc: entry,
            pstate: PSTATE_EL0T,
            orig_x0: 0,
            syscallno: -1,
            _x8: 0,
            record: [0; 2],
        }
    }
    /// The registers as Linux's `user_pt_regs` has them: x0 to x30, sp, pc, pstate.
    pub fn user_regs(&self) -> &[usize; 34] {
        // SAFETY: the frame is `repr(C)` and begins with these words (asserted above).
        unsafe { &*(&raw const *self).cast() }
    }
    /// The running call has loaded a program, whose register file this is from now on. Who traces calls sees
    /// it return as the call that it was.
    pub fn begin_program(&mut self, entry: usize, sp: usize) {
        let number = self.syscallno;
        *self = Self::new_user(entry, sp);
        self.syscallno = number;
    }
    /// Instruction pointer.
    pub fn ip(&self) -> usize {
        self.pc
    }
    /// Sets the instruction pointer.
    pub fn set_ip(&mut self, ip: usize) {
        self.pc = ip;
    }
    /// Stack pointer.
    pub fn sp(&self) -> usize {
        self.sp
    }
    /// Sets the stack pointer.
    pub fn set_sp(&mut self, sp: usize) {
        self.sp = sp;
    }
    /// System call argument `n` (0 to 5), as passed.
    #[inline(always)]
    pub fn arg(&self, n: usize) -> usize {
        if n == 0 { self.orig_x0 } else { self.regs[n] }
    }
    /// Sets system call argument `n` (0 to 5).
    pub fn set_arg(&mut self, n: usize, value: usize) {
        if n == 0 {
            self.orig_x0 = value;
        } else {
            self.regs[n] = value;
        }
    }
    /// Sets the system call's result.
    #[inline(always)]
    pub fn set_result(&mut self, result: Result<usize, Errno>) {
        self.set_raw_result(match result {
            Ok(value) => value,
            Err(errno) => errno.to_return_value(),
        });
    }
    /// Sets the result register.
    #[inline(always)]
    pub fn set_raw_result(&mut self, value: usize) {
        self.regs[0] = value;
    }
    /// Sets the result register of a call that does not run, in the form of [`Self::set_raw_result`],
    /// whatever [`limen_entry::Frame::preset_result`] left.
    #[inline(always)]
    pub fn set_skipped_result(&mut self, value: usize) {
        self.set_raw_result(value);
    }
    /// The raw result register.
    #[inline(always)]
    pub fn result(&self) -> usize {
        self.regs[0]
    }
    /// Makes the frame no longer a system call's (after signal return).
    #[inline(always)]
    pub fn forget_syscall(&mut self) {
        self.syscallno = -1;
    }
    /// A handler will run: rewinds the instruction pointer so that the call is made again when the handler
    /// returns.
    pub fn rewind_syscall(&mut self) {
        self.regs[0] = self.orig_x0;
        self.pc = self.pc.wrapping_sub(4);
        self.forget_syscall();
    }
    /// Signals come: an interrupted call is where user mode makes it again, and no call any more.
    #[inline(always)]
    pub fn interrupt_syscall(&mut self) -> Interrupted {
        Interrupted(limen_entry::Frame::restart(self).map(|restart| {
            let found = (restart, self.regs[0], self.pc);
            self.rewind_syscall();
            found
        }))
    }
    /// They were looked at. The call is an interrupted one again, with the registers that user mode would
    /// make it with, unless a tracer moved the program. With what is no number in x8 it does not restart.
    #[inline(always)]
    pub fn resume_syscall(&mut self, call: Interrupted) -> Option<Restart> {
        let (restart, result, end) = call.0?;
        let number = self.regs[8] as i32;
        if self.pc != end.wrapping_sub(4) {
            return None;
        }
        self.orig_x0 = self.regs[0];
        (self.regs[0], self.pc, self.syscallno) = (result, end, number);
        Some(restart)
    }
    /// Puts the registers back as the program had them when it made the call, except that it goes on behind
    /// the call. The frame is no longer a system call's.
    #[inline]
    pub fn roll_back_syscall(&mut self) {
        self.regs[0] = self.orig_x0;
        self.forget_syscall();
    }
    /// Marks the frame as a system call's: the stub has stored x0 and x8 where the first argument and the
    /// number are kept.
    #[inline(always)]
    pub(super) fn begin_syscall(&mut self) {
        // The architecture cannot tell the branch type across `svc`; Linux clears it, too.
        self.pstate &= !PSTATE_BTYPE;
    }
}

impl limen_entry::Frame for Frame {
    #[inline(always)]
    fn from_user(&self) -> bool {
        self.pstate & 0xf == PSTATE_EL0T
    }
    #[inline(always)]
    fn interrupts_enabled(&self) -> bool {
        self.pstate & PSTATE_I == 0
    }
    #[inline(always)]
    fn syscall_number(&self) -> isize {
        self.syscallno as isize
    }
    #[inline(always)]
    fn preset_result(&mut self) {
        // x0 is the first argument as well, so it is left alone for calls that will run.
        if self.syscallno < 0 {
            self.regs[0] = Errno::ENOSYS.to_return_value();
        }
    }
    #[inline(always)]
    fn restart(&self) -> Option<Restart> {
        if self.syscallno < 0 {
            return None;
        }
        Errno::from_return_value(self.regs[0])?.restart()
    }
    fn rearm(&mut self, restart: Restart) {
        self.regs[0] = self.orig_x0;
        if restart == Restart::Block {
            self.regs[8] = NR_RESTART_SYSCALL;
            self.syscallno = NR_RESTART_SYSCALL as i32;
        }
        if sve::is_on() {
            // A tracer may have given it registers at the stop before.
            sve::deny();
        }
    }
}
