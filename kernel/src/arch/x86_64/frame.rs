//! The saved register file.

use super::espfix;
use core::fmt;
use limen_linux_abi::{Errno, Restart};

/// All general registers of the interrupted context, in the order the entry stubs save them (the layout of
/// Linux's `pt_regs`, which is also that of `user_regs_struct` up to `ss`).
#[derive(Clone, Default)]
#[repr(C)]
#[allow(missing_docs, reason = "the names are the registers'")]
pub struct Frame {
    pub r15: usize,
    pub r14: usize,
    pub r13: usize,
    pub r12: usize,
    pub rbp: usize,
    pub rbx: usize,
    pub r11: usize,
    pub r10: usize,
    pub r9: usize,
    pub r8: usize,
    pub rax: usize,
    pub rcx: usize,
    pub rdx: usize,
    pub rsi: usize,
    pub rdi: usize,
    /// The system call number as made; -1 if the frame is not a system call's.
    pub orig_rax: usize,
    pub rip: usize,
    /// The code segment selector (what `iretq` looks at), [`CHANGED`], [`COMPAT`] and [`ELSEWHERE`].
    pub cs: usize,
    pub eflags: usize,
    pub rsp: usize,
    pub ss: usize,
}

const _: () = assert!(size_of::<Frame>() == 21 * 8);

/// In the slot of `cs`, beyond the selector: something else than the result was changed since the stub saved
/// the frame, so the way back must restore all of it, with `iretq`. The stub tests the upper half of the
/// slot.
pub const CHANGED: usize = 1 << 32;
/// In the same slot: `int 0x80` made the call. Its number is one of the i386 ABI, its arguments are in RBX,
/// RCX, RDX, RSI, RDI and RBP, and the way back is always by `iretq`.
pub const COMPAT: usize = 1 << 33;
/// In the same slot, as [`CHANGED`] of a frame that says kernel mode: what it returns to is on another stack,
/// where nothing can be written (`espfix`), and user mode is next.
pub const ELSEWHERE: usize = 1 << 34;

// `sysret` faults in kernel mode, on the user's stack, if the address it returns to is not canonical; a
// `syscall` instruction can't end there.
const _: () = assert!(super::mmu::USER_END < 1 << 47);

/// Kernel code segment.
pub const KERNEL_CS: usize = 0x10;
/// Kernel data segment.
pub const KERNEL_DS: usize = 0x18;
/// User data segment (the values are those of Linux, which programs can see).
pub const USER_DS: usize = 0x2b;
/// User 64-bit code segment.
pub const USER_CS: usize = 0x33;
/// The bit of a selector that means the local table.
pub const LOCAL: usize = 1 << 2;

/// Carry flag.
pub const EFLAGS_CF: usize = 1 << 0;
/// Always one.
pub const EFLAGS_FIXED: usize = 1 << 1;
/// Trap (single step).
pub const EFLAGS_TF: usize = 1 << 8;
/// Interrupts on.
pub const EFLAGS_IF: usize = 1 << 9;
/// Direction.
pub const EFLAGS_DF: usize = 1 << 10;
/// I/O privilege level.
pub const EFLAGS_IOPL: usize = 3 << 12;
/// Nested task.
pub const EFLAGS_NT: usize = 1 << 14;
/// Resume.
pub const EFLAGS_RF: usize = 1 << 16;
/// Alignment check, and the SMAP window.
pub const EFLAGS_AC: usize = 1 << 18;
/// What user space may choose of its flags (`FIX_EFLAGS`: AC, OF, DF, TF, SF, ZF, AF, PF, CF, RF).
pub const EFLAGS_USER: usize =
    EFLAGS_AC | 1 << 11 | EFLAGS_DF | EFLAGS_TF | 1 << 7 | 1 << 6 | 1 << 4 | 1 << 2 | EFLAGS_CF | EFLAGS_RF;

const NOT_A_SYSCALL: usize = usize::MAX;
const SYS_EXECVE: usize = 59;
const SYS_RESTART_SYSCALL: usize = 219;
/// `restart_syscall` of the i386 ABI.
const SYS_RESTART_SYSCALL_I386: usize = 0;
/// Length of the `syscall` instruction, and of `int 0x80`.
const SYSCALL_LENGTH: usize = 2;

/// What was interrupted: the frame says so itself.
pub struct Interrupted;

impl Frame {
    /// The register file of a fresh program: everything zero except entry point and stack pointer.
    pub fn new_user(entry: usize, sp: usize) -> Self {
        Self {
            rip: entry,
            rsp: sp,
            cs: USER_CS | CHANGED,
            ss: USER_DS,
            eflags: EFLAGS_IF | EFLAGS_FIXED,
            orig_rax: NOT_A_SYSCALL,
            ..Self::default()
        }
    }
    /// The running call has loaded a program, whose register file this is from now on. Who traces calls sees
    /// it return as the call, by the number of `execve`, whichever it was.
    pub fn begin_program(&mut self, entry: usize, sp: usize) {
        let was_call = self.orig_rax != NOT_A_SYSCALL;
        *self = Self::new_user(entry, sp);
        if was_call {
            self.orig_rax = SYS_EXECVE;
        }
    }
    /// Instruction pointer.
    #[inline(always)]
    pub fn ip(&self) -> usize {
        self.rip
    }
    /// Sets the instruction pointer.
    #[inline(always)]
    pub fn set_ip(&mut self, ip: usize) {
        self.mark_changed();
        self.rip = ip;
    }
    /// Stack pointer.
    #[inline(always)]
    pub fn sp(&self) -> usize {
        self.rsp
    }
    /// Sets the stack pointer.
    #[inline(always)]
    pub fn set_sp(&mut self, sp: usize) {
        self.mark_changed();
        self.rsp = sp;
    }
    /// System call argument `n` (0 to 5), as passed.
    #[inline(always)]
    pub fn arg(&self, n: usize) -> usize {
        match n {
            0 => self.rdi,
            1 => self.rsi,
            2 => self.rdx,
            3 => self.r10,
            4 => self.r8,
            _ => self.r9,
        }
    }
    /// Sets system call argument `n` (0 to 5).
    pub fn set_arg(&mut self, n: usize, value: usize) {
        *match n {
            0 => &mut self.rdi,
            1 => &mut self.rsi,
            2 => &mut self.rdx,
            3 => &mut self.r10,
            4 => &mut self.r8,
            _ => &mut self.r9,
        } = value;
    }
    /// Whether the call is one of the i386 ABI.
    #[inline(always)]
    pub fn is_compat(&self) -> bool {
        self.cs & COMPAT != 0
    }
    /// Argument `n` (0 to 5) of a call of the i386 ABI: the whole register, of which the call itself looks at
    /// the lower half only.
    pub fn compat_arg(&self, n: usize) -> usize {
        match n {
            0 => self.rbx,
            1 => self.rcx,
            2 => self.rdx,
            3 => self.rsi,
            4 => self.rdi,
            _ => self.rbp,
        }
    }
    /// Sets it.
    pub fn set_compat_arg(&mut self, n: usize, value: usize) {
        *match n {
            0 => &mut self.rbx,
            1 => &mut self.rcx,
            2 => &mut self.rdx,
            3 => &mut self.rsi,
            4 => &mut self.rdi,
            _ => &mut self.rbp,
        } = value;
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
        self.rax = value;
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
        self.rax
    }
    /// Makes the frame no longer a system call's (after signal return).
    pub fn forget_syscall(&mut self) {
        self.orig_rax = NOT_A_SYSCALL;
    }
    /// A handler will run: rewinds the instruction pointer so that the call is made again when the handler
    /// returns.
    pub fn rewind_syscall(&mut self) {
        self.mark_changed();
        self.rax = self.orig_rax;
        self.rip = self.rip.wrapping_sub(SYSCALL_LENGTH);
    }
    /// The call becomes the one that restarts it; `compat`: of the i386 ABI.
    pub fn rearm_of(&mut self, restart: Restart, compat: bool) {
        if restart == Restart::Block {
            self.orig_rax = if compat {
                SYS_RESTART_SYSCALL_I386
            } else {
                SYS_RESTART_SYSCALL
            };
        }
        self.rax = self.orig_rax;
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
        self.rax = self.orig_rax;
        self.forget_syscall();
    }
    /// Sets the flags user space may choose; the others stay.
    pub fn set_user_flags(&mut self, flags: usize) {
        self.mark_changed();
        self.eflags = self.eflags & !EFLAGS_USER | flags & EFLAGS_USER;
    }
    /// To be called by whoever changes registers of a system call's frame other than its result: the quick
    /// way back restores only what a system call itself can change, from the values of its entry.
    #[inline(always)]
    pub fn mark_changed(&mut self) {
        self.cs |= CHANGED;
    }
    /// Whether it was marked.
    pub fn is_changed(&self) -> bool {
        self.cs & CHANGED != 0
    }
    /// Whether an unmarked frame is what the quick way back makes of it, for checks. What `syscall` saved is
    /// canonical and has no RF; TF comes back as it was, and traps before the next instruction.
    pub fn fits_sysret(&self) -> bool {
        self.rcx == self.rip && self.r11 == self.eflags && self.rip >> 47 == 0 && self.eflags & EFLAGS_RF == 0
    }
}

impl limen_entry::Frame for Frame {
    #[inline(always)]
    fn from_user(&self) -> bool {
        self.cs & 3 != 0
    }
    #[inline(always)]
    fn interrupts_enabled(&self) -> bool {
        self.eflags & EFLAGS_IF != 0
    }
    #[inline(always)]
    fn syscall_number(&self) -> isize {
        // Numbers are 32 bits wide, as in the C prototype of the system call entry.
        self.orig_rax as i32 as isize
    }
    #[inline(always)]
    fn preset_result(&mut self) {
        self.rax = Errno::ENOSYS.to_return_value();
    }
    #[inline(always)]
    fn restart(&self) -> Option<Restart> {
        if limen_entry::Frame::syscall_number(self) < 0 {
            return None;
        }
        Errno::from_return_value(self.rax)?.restart()
    }
    fn rearm(&mut self, restart: Restart) {
        self.rearm_of(restart, self.is_compat());
    }
    fn prepare_return(&mut self) {
        if self.ss & LOCAL != 0 {
            let cs = self.cs & 0xffff;
            let [rip, rsp] = espfix::prepare([self.rip, cs, self.eflags, self.rsp, self.ss]);
            (self.rip, self.rsp) = (rip, rsp);
            (self.cs, self.ss) = (KERNEL_CS | CHANGED | ELSEWHERE, KERNEL_DS);
            self.eflags = EFLAGS_FIXED;
        }
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let r = self;
        writeln!(
            f,
            "RIP: {:04x}:{:016x}  EFLAGS: {:08x}",
            r.cs as u16, r.rip, r.eflags
        )?;
        writeln!(
            f,
            "RSP: {:04x}:{:016x}  ORIG_RAX: {:016x}",
            r.ss, r.rsp, r.orig_rax
        )?;
        writeln!(f, "RAX: {:016x} RBX: {:016x} RCX: {:016x}", r.rax, r.rbx, r.rcx)?;
        writeln!(f, "RDX: {:016x} RSI: {:016x} RDI: {:016x}", r.rdx, r.rsi, r.rdi)?;
        writeln!(f, "RBP: {:016x} R08: {:016x} R09: {:016x}", r.rbp, r.r8, r.r9)?;
        writeln!(f, "R10: {:016x} R11: {:016x} R12: {:016x}", r.r10, r.r11, r.r12)?;
        write!(f, "R13: {:016x} R14: {:016x} R15: {:016x}", r.r13, r.r14, r.r15)
    }
}
