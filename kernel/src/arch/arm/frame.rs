//! The saved register file: what the entry stubs of `entry` build, and what everything else sees of an
//! interrupted context.

use limen_linux_abi::{Errno, Restart};

/// `CPSR.M`.
pub const PSR_MODE_MASK: usize = 0x1f;
/// User mode.
pub const PSR_USER: usize = 0x10;
/// Thumb.
pub const PSR_T: usize = 1 << 5;
/// FIQs are masked.
pub const PSR_F: usize = 1 << 6;
/// Interrupts are masked.
pub const PSR_I: usize = 1 << 7;
/// Asynchronous aborts are masked.
pub const PSR_A: usize = 1 << 8;
/// Comparisons of the parts of a register.
pub const PSR_GE: usize = 0xf << 16;
/// The state of an `it` block.
pub const PSR_IT: usize = 0x3f << 10 | 3 << 25;
/// Conditions, saturation, GE, and the execution state that user mode may choose.
pub const PSR_FLAGS: usize = 0xf80f_0000;

/// `restart_syscall` in the arm table.
const NR_RESTART_SYSCALL: isize = 0;

/// The number of the old ABI's first call (`oabi`), as its instruction and everybody else says it.
pub const OLD_BASE: usize = 0x90_0000;

/// All general registers of the interrupted context, in the order the entry stubs save them.
#[derive(Clone, Debug)]
#[repr(C, align(8))]
pub struct Frame {
    /// A frame record (frame pointer, return address) so that backtraces pass through exceptions in the
    /// kernel. Not set in user frames.
    pub record: [usize; 2],
    /// The system call number, negative if the frame is not a system call's.
    pub syscallno: isize,
    /// r0 as it was when the system call was made.
    pub orig_r0: usize,
    /// What is known about a call of a thread whose program is of the old ABI (`oabi`).
    pub found: usize,
    /// r0 to r12.
    pub regs: [usize; 13],
    /// r13.
    pub sp: usize,
    /// r14.
    pub lr: usize,
    /// Where to continue.
    pub pc: usize,
    /// The processor state to continue with.
    pub cpsr: usize,
}

/// Size of a frame; the stubs keep the stack 8-byte aligned with it.
pub const FRAME_SIZE: usize = size_of::<Frame>();
const _: () = assert!(FRAME_SIZE == 88);

/// What was interrupted: how the call restarts, its number, its result, where it began and ended. The frame
/// is as before `svc`.
pub struct Interrupted(Option<(Restart, isize, usize, [usize; 2])>);

impl Frame {
    /// The register file of a fresh program: everything zero except entry point (odd: Thumb) and stack
    /// pointer.
    pub fn new_user(entry: usize, sp: usize) -> Self {
        Self {
            record: [0; 2],
            syscallno: -1,
            orig_r0: 0,
            found: 0,
            regs: [0; 13],
            sp,
            lr: 0,
            pc: entry & !1,
            cpsr: PSR_USER | if entry & 1 != 0 { PSR_T } else { 0 },
        }
    }
    /// The running call has loaded a program, whose register file this is from now on. Who traces calls sees
    /// it return as the call that it was.
    pub fn begin_program(&mut self, entry: usize, sp: usize) {
        let (number, found) = (self.syscallno, self.found);
        *self = Self::new_user(entry, sp);
        (self.syscallno, self.found) = (number, found);
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
    /// Whether it was in Thumb state.
    #[inline(always)]
    pub(super) fn thumb(&self) -> bool {
        self.cpsr & PSR_T != 0
    }
    /// Where the instruction begins that the processor stopped behind: a system call, or, behind its first
    /// half, one that is undefined.
    pub(super) fn previous(&self) -> usize {
        self.pc.wrapping_sub(if self.thumb() { 2 } else { 4 })
    }
    /// System call argument `n` (0 to 6), as passed.
    #[inline(always)]
    pub fn arg(&self, n: usize) -> usize {
        if n == 0 { self.orig_r0 } else { self.regs[n] }
    }
    /// Sets system call argument `n` (0 to 5).
    pub fn set_arg(&mut self, n: usize, value: usize) {
        if n == 0 {
            self.orig_r0 = value;
        } else {
            self.regs[n] = value;
        }
    }
    /// Sets the system call's result.
    #[inline(always)]
    pub fn set_result(&mut self, result: Result<usize, Errno>) {
        self.set_raw_result(result.unwrap_or_else(Errno::to_return_value));
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
        self.regs[0] = self.orig_r0;
        self.pc = self.previous();
        self.forget_syscall();
    }
    /// Signals come: an interrupted call is where user mode makes it again, and no call any more.
    #[inline(always)]
    pub fn interrupt_syscall(&mut self) -> Interrupted {
        Interrupted(limen_entry::Frame::restart(self).map(|restart| {
            let (number, result, end) = (self.syscallno, self.regs[0], self.pc);
            self.rewind_syscall();
            (restart, number, result, [self.pc, end])
        }))
    }
    /// They were looked at. The call is an interrupted one again, with the arguments that are there now,
    /// unless a tracer moved the program. Its number is what it was, whatever r7 is.
    #[inline(always)]
    pub fn resume_syscall(&mut self, call: Interrupted) -> Option<Restart> {
        let (restart, number, result, [start, end]) = call.0?;
        if self.pc != start {
            return None;
        }
        self.orig_r0 = self.regs[0];
        (self.regs[0], self.pc, self.syscallno) = (result, end, number);
        Some(restart)
    }
    /// Puts the registers back as the program had them when it made the call, except that it goes on behind
    /// the call. The frame is no longer a system call's.
    #[inline]
    pub fn roll_back_syscall(&mut self) {
        self.regs[0] = self.orig_r0;
        self.forget_syscall();
    }
    /// Marks the frame as a system call's, as the stub saved it: number from r7, first argument kept. (What
    /// the `svc` instruction itself says is looked at later, if the program is of the old ABI: `oabi`.)
    #[inline(always)]
    pub(super) fn begin_syscall(&mut self) {
        self.orig_r0 = self.regs[0];
        self.syscallno = self.regs[7] as isize;
    }
}

impl limen_entry::Frame for Frame {
    #[inline(always)]
    fn from_user(&self) -> bool {
        self.cpsr & 0xf == 0
    }
    #[inline(always)]
    fn interrupts_enabled(&self) -> bool {
        self.cpsr & PSR_I == 0
    }
    #[inline(always)]
    fn syscall_number(&self) -> isize {
        self.syscallno
    }
    #[inline(always)]
    fn preset_result(&mut self) {
        // r0 is the first argument as well, so it is left alone for calls that will run.
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
        self.regs[0] = self.orig_r0;
        if restart == Restart::Block {
            // Only in here: r7 stays what the program put there. The call stays one of its ABI.
            self.syscallno = match self.syscallno >= OLD_BASE as isize {
                true => OLD_BASE as isize + NR_RESTART_SYSCALL,
                false => NR_RESTART_SYSCALL,
            };
        }
    }
}
