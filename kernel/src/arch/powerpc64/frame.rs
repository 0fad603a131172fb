//! The saved register file: what the entry stubs of `entry` save, and what everything else sees of an
//! interrupted context.
//!
//! The first 44 words are Linux's `pt_regs`, so register sets for tracers, core dumps and signal frames are a
//! copy.

use super::spr::{MSR_EE, MSR_PR, MSR_USER};
use limen_linux_abi::{Errno, Restart};

/// `trap` of `sc`.
pub const TRAP_SC: usize = 0xc00;
/// `trap` of `scv 0`.
pub const TRAP_SCV: usize = 0x3000;
/// `CR0.SO`: how `sc` says that the result is an error.
pub const CR0_SO: usize = 1 << 28;

/// `restart_syscall` in the powerpc table.
const NR_RESTART_SYSCALL: usize = 0;

/// All general registers of the interrupted context.
#[derive(Clone, Debug, Default)]
#[repr(C, align(16))]
pub struct Frame {
    /// r0 to r31.
    pub gpr: [usize; 32],
    /// Where to continue.
    pub nip: usize,
    /// The machine state to continue with.
    pub msr: usize,
    /// r3 as it was when the system call was made.
    pub orig_gpr3: usize,
    /// Count register.
    pub ctr: usize,
    /// Link register.
    pub link: usize,
    /// Fixed-point exception register.
    pub xer: usize,
    /// Condition register.
    pub ccr: usize,
    /// Linux: interrupts are on for software.
    pub softe: usize,
    /// The interrupt vector that brought us here; its lowest bit: the frame is no longer a system call's, or
    /// the stub had to use the emergency stack.
    pub trap: usize,
    /// The faulting data address.
    pub dar: usize,
    /// Why the access failed.
    pub dsisr: usize,
    /// Linux: the system call's result.
    pub result: usize,
    /// The system call number, negative if the frame is not a system call's.
    pub syscallno: isize,
    /// Not zero: all of the frame is there ([`Frame::complete`]) and must be restored. Zero, in a call: no
    /// register that Rust functions keep (r14 to r31), or that calls destroy, was changed.
    pub changed: usize,
}

/// Size of a frame; the stubs keep the stack 16-byte aligned with it.
pub const FRAME_SIZE: usize = size_of::<Frame>();
const _: () = assert!(FRAME_SIZE.is_multiple_of(16));
const _: () = assert!(core::mem::offset_of!(Frame, result) == 43 * 8);

/// What was interrupted: the frame says so itself.
pub struct Interrupted;

impl Frame {
    /// The register file of a fresh program: everything zero except entry point (r12 has it, too: functions
    /// find their data by it) and stack pointer.
    pub fn new_user(entry: usize, sp: usize) -> Self {
        let mut gpr = [0; 32];
        gpr[1] = sp;
        gpr[12] = entry;
        Self {
            gpr,
            nip: entry,
            msr: MSR_USER,
            softe: 1,
            trap: TRAP_SC | 1,
            syscallno: -1,
            changed: 1,
            ..Self::default()
        }
    }
    /// The running call has loaded a program, whose register file this is from now on. Who traces calls sees
    /// it return as the call that it was.
    pub fn begin_program(&mut self, entry: usize, sp: usize) {
        let number = self.syscallno;
        *self = Self::new_user(entry, sp);
        self.syscallno = number;
        if number >= 0 {
            self.gpr[0] = number as usize;
        }
    }
    /// Instruction pointer.
    pub fn ip(&self) -> usize {
        self.nip
    }
    /// Sets the instruction pointer.
    pub fn set_ip(&mut self, ip: usize) {
        self.nip = ip;
    }
    /// Stack pointer.
    pub fn sp(&self) -> usize {
        self.gpr[1]
    }
    /// Sets the stack pointer.
    pub fn set_sp(&mut self, sp: usize) {
        self.gpr[1] = sp;
    }
    /// System call argument `n` (0 to 5), as passed.
    #[inline(always)]
    pub fn arg(&self, n: usize) -> usize {
        if n == 0 { self.orig_gpr3 } else { self.gpr[3 + n] }
    }
    /// Sets system call argument `n` (0 to 5).
    pub fn set_arg(&mut self, n: usize, value: usize) {
        if n == 0 {
            self.orig_gpr3 = value;
        } else {
            self.gpr[3 + n] = value;
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
    /// Sets the result register. `sc` wants errors positive, and told by `CR0.SO`.
    #[inline(always)]
    pub fn set_raw_result(&mut self, value: usize) {
        self.gpr[3] = value;
        if value > usize::MAX - 4095 {
            self.tell_error();
        }
    }
    /// Whether it is a call whose errors are positive, and told by `CR0.SO`. A tracer may have made of
    /// `trap` what it likes.
    #[inline(always)]
    fn tells_errors(&self) -> bool {
        self.trap & 1 == 0 && self.trap != TRAP_SCV
    }
    /// The result is an error.
    #[cold]
    fn tell_error(&mut self) {
        if self.tells_errors() {
            self.gpr[3] = self.gpr[3].wrapping_neg();
            self.ccr |= CR0_SO;
        }
    }
    /// Sets the result register of a call that does not run, in the form of [`Self::set_raw_result`],
    /// whatever [`limen_entry::Frame::preset_result`] left.
    pub fn set_skipped_result(&mut self, value: usize) {
        // A number that is negative was told to be an error before.
        self.ccr &= !CR0_SO;
        self.set_raw_result(value);
    }
    /// The raw result register: errors negative.
    #[inline(always)]
    pub fn result(&self) -> usize {
        if self.tells_errors() && self.ccr & CR0_SO != 0 {
            self.gpr[3].wrapping_neg()
        } else {
            self.gpr[3]
        }
    }
    /// The registers that a system call destroys and its stub does not save, for who looks at all of them.
    #[inline(always)]
    pub fn complete(&mut self) {
        if self.changed == 0 {
            self.gpr[9..13].fill(0);
            (self.ctr, self.xer) = (0, 0);
            self.changed = 1;
        }
    }
    /// Makes the frame no longer a system call's (after signal return).
    #[inline(always)]
    pub fn forget_syscall(&mut self) {
        self.complete();
        self.syscallno = -1;
        self.trap |= 1;
    }
    /// A handler will run: rewinds the instruction pointer so that the call is made again when the handler
    /// returns.
    pub fn rewind_syscall(&mut self) {
        self.gpr[3] = self.orig_gpr3;
        self.ccr &= !CR0_SO;
        self.nip = self.nip.wrapping_sub(4);
        self.forget_syscall();
    }
    /// Signals come: an interrupted call stays what it is.
    #[inline(always)]
    pub fn interrupt_syscall(&mut self) -> Interrupted {
        Interrupted
    }
    /// They were looked at: what the frame says now counts.
    #[inline(always)]
    pub fn resume_syscall(&mut self, _: Interrupted) -> Option<Restart> {
        limen_entry::Frame::restart(self)
    }
    /// Puts the registers back as the program had them when it made the call, except that it goes on behind
    /// the call. The frame is no longer a system call's.
    #[inline]
    pub fn roll_back_syscall(&mut self) {
        self.gpr[3] = self.orig_gpr3;
        self.ccr &= !CR0_SO;
        self.forget_syscall();
    }
}

impl limen_entry::Frame for Frame {
    #[inline(always)]
    fn from_user(&self) -> bool {
        self.msr & MSR_PR != 0
    }
    #[inline(always)]
    fn interrupts_enabled(&self) -> bool {
        self.msr & MSR_EE != 0
    }
    #[inline(always)]
    fn syscall_number(&self) -> isize {
        self.syscallno
    }
    #[inline(always)]
    fn preset_result(&mut self) {
        // r3 is the first argument as well, so it is left alone for calls that will run.
        if self.syscallno < 0 {
            self.set_raw_result(Errno::ENOSYS.to_return_value());
        }
    }
    #[inline(always)]
    fn restart(&self) -> Option<Restart> {
        // A tracer decides with this word alone, both ways.
        if !matches!(self.trap, TRAP_SC | TRAP_SCV) {
            return None;
        }
        Errno::from_return_value(self.result())?.restart()
    }
    fn rearm(&mut self, restart: Restart) {
        self.gpr[3] = self.orig_gpr3;
        self.ccr &= !CR0_SO;
        if restart == Restart::Block {
            self.gpr[0] = NR_RESTART_SYSCALL;
        }
        self.syscallno = self.gpr[0] as isize;
    }
}
