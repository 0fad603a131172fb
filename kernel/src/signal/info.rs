//! `siginfo_t`: the details of a signal, kept in the layout that programs see.

use crate::mm::copy;
use crate::mm::user::UserPtr;
use crate::task::current;
use crate::task::ns::user;
use limen_linux_abi::Errno;
use limen_linux_abi::id::OVERFLOW_UID;

mod narrow;

/// `si_code` values.
#[allow(missing_docs, dead_code, reason = "Linux's list, whole")]
pub mod code {
    pub const USER: i32 = 0;
    pub const KERNEL: i32 = 0x80;
    pub const QUEUE: i32 = -1;
    pub const TIMER: i32 = -2;
    pub const MESGQ: i32 = -3;
    pub const SIGIO: i32 = -5;
    pub const TKILL: i32 = -6;
    pub const CLD_EXITED: i32 = 1;
    pub const CLD_KILLED: i32 = 2;
    pub const CLD_DUMPED: i32 = 3;
    pub const CLD_TRAPPED: i32 = 4;
    pub const CLD_STOPPED: i32 = 5;
    pub const CLD_CONTINUED: i32 = 6;
    pub const SEGV_MAPERR: i32 = 1;
    pub const SEGV_ACCERR: i32 = 2;
    pub const SEGV_BNDERR: i32 = 3;
    pub const BUS_ADRALN: i32 = 1;
    pub const BUS_ADRERR: i32 = 2;
    pub const BUS_OBJERR: i32 = 3;
    pub const ILL_ILLOPC: i32 = 1;
    pub const ILL_ILLOPN: i32 = 2;
    pub const ILL_ILLTRP: i32 = 4;
    pub const ILL_PRVOPC: i32 = 5;
    pub const TRAP_BRKPT: i32 = 1;
    pub const TRAP_TRACE: i32 = 2;
    pub const TRAP_HWBKPT: i32 = 4;
    pub const FPE_INTDIV: i32 = 1;
    pub const FPE_FLTDIV: i32 = 3;
    pub const FPE_FLTOVF: i32 = 4;
    pub const FPE_FLTUND: i32 = 5;
    pub const FPE_FLTRES: i32 = 6;
    pub const FPE_FLTINV: i32 = 7;
    pub const FPE_FLTUNK: i32 = 14;
    pub const SYS_SECCOMP: i32 = 1;
    pub const SYS_USER_DISPATCH: i32 = 2;
}

/// The size in bytes of a program's `siginfo_t`. What the kernel does not keep is zero.
pub const SIZE: usize = 128;
/// How many 32-bit words the kernel keeps: enough for every layout.
const WORDS: usize = 12;
/// How many words a pointer has.
const POINTER: usize = size_of::<usize>() / 4;
/// The word at which the union behind the three first integers starts. It holds pointers and is aligned for
/// them.
const UNION: usize = if POINTER == 2 { 4 } else { 3 };

/// The word `si_errno`.
const ERRNO: usize = 1;

/// The number in the word `si_signo`. While a timer's signal is pending, a bit above the number says of which
/// timer: programs can neither see nor make these.
const NUMBER: u32 = 0xff;
/// `ITIMER_REAL`'s.
const OF_ITIMER: u32 = 1 << 8;
/// A POSIX timer's.
const OF_TIMER: u32 = 1 << 9;
/// A POSIX timer's that has been deleted.
const OF_NONE: u32 = 1 << 10;

/// The first words of a signal's `siginfo_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub struct SigInfo {
    words: [u32; WORDS],
}

impl SigInfo {
    /// All words are zero.
    pub const NOTHING: Self = Self { words: [0; WORDS] };

    /// Only number and code are not zero.
    pub fn new(sig: u32, code: i32) -> Self {
        let mut words = [0; WORDS];
        words[0] = sig;
        words[2] = code as u32;
        Self { words }
    }
    /// From the kernel (`SI_KERNEL`).
    pub fn kernel(sig: u32) -> Self {
        Self::new(sig, code::KERNEL)
    }
    /// From `kill` (`SI_USER`).
    pub fn user(sig: u32, pid: i32, uid: u32) -> Self {
        Self::from_sender(sig, code::USER, pid, uid)
    }
    /// From a process, with another code (`SI_TKILL`).
    pub fn from_sender(sig: u32, code: i32, pid: i32, uid: u32) -> Self {
        let mut info = Self::new(sig, code);
        info.words[UNION] = pid as u32;
        info.words[UNION + 1] = uid;
        info
    }
    /// The same with what the program wants to come with it (`si_value`), for codes that have that.
    pub fn with_value(mut self, value: usize) -> Self {
        self.put_pointer(UNION + 2, value);
        self
    }
    /// A fault at `addr`.
    pub fn fault(sig: u32, code: i32, addr: usize) -> Self {
        let mut info = Self::new(sig, code);
        info.put_pointer(UNION, addr);
        info
    }
    /// A fault at `addr`, with a small number in `si_errno` that says more.
    #[allow(dead_code, reason = "of one architecture")]
    pub fn numbered_fault(sig: u32, code: i32, addr: usize, number: i32) -> Self {
        let mut info = Self::fault(sig, code, addr);
        info.words[ERRNO] = number as u32;
        info
    }
    /// A child's change of state. `status` is an exit code or a signal's number; the times are clock ticks
    /// (1/100 s).
    pub fn child(code: i32, pid: i32, uid: u32, status: i32, utime: usize, stime: usize) -> Self {
        let mut info = Self::from_sender(super::SIGCHLD, code, pid, uid);
        info.words[UNION + 2] = status as u32;
        // The times are `long`s behind the status, and aligned.
        let at = (UNION + 3).next_multiple_of(POINTER);
        info.put_pointer(at, utime);
        info.put_pointer(at + POINTER, stime);
        info
    }
    /// A system call that was refused: `at` is where the program goes on, `number` the call's, `arch` its ABI
    /// (`AUDIT_ARCH_*`), `errno` a word for the handler, at most 65,535.
    pub fn refused(code: i32, errno: u16, at: usize, number: i32, arch: u32) -> Self {
        let mut info = Self::fault(super::SIGSYS, code, at);
        info.words[ERRNO] = errno.into();
        info.words[UNION + POINTER] = number as u32;
        info.words[UNION + POINTER + 1] = arch;
        info
    }
    /// An event of a file: `band` is a set of `poll`'s bits, `fd` the descriptor.
    pub fn poll(sig: u32, code: i32, band: usize, fd: i32) -> Self {
        let mut info = Self::new(sig, code);
        info.put_pointer(UNION, band);
        info.words[UNION + POINTER] = fd as u32;
        info
    }
    /// The expiry of a POSIX timer, which wants to be told when the signal is taken.
    pub fn timer(sig: u32, timer_id: i32, value: usize) -> Self {
        let mut info = Self::new(sig, code::TIMER);
        info.words[UNION] = timer_id as u32;
        info.put_pointer(UNION + 2, value);
        info.words[0] |= OF_TIMER;
        info
    }
    /// The expiry of an interval timer, which wants to be told as well.
    pub fn itimer(sig: u32) -> Self {
        let mut info = Self::kernel(sig);
        info.words[0] |= OF_ITIMER;
        info
    }
    /// A signal that is pending without details: those of an interval timer may be missing, too.
    pub fn unknown(sig: u32) -> Self {
        let mut info = Self::user(sig, 0, 0);
        if sig == super::SIGALRM {
            info.words[0] |= OF_ITIMER;
        }
        info
    }
    /// Whether a timer has to be told that this was taken. Asked for every signal that is taken.
    #[inline(always)]
    pub fn is_awaited(&self) -> bool {
        self.words[0] > NUMBER
    }
    /// Makes what was pending what programs may see.
    pub fn settle(&mut self) {
        self.words[0] &= NUMBER;
    }
    /// Whether `ITIMER_REAL` sent it. For what has not been settled.
    pub fn is_of_itimer(&self) -> bool {
        self.words[0] & OF_ITIMER != 0
    }
    /// The number of the POSIX timer that sent it and has not been deleted. For what has not been settled.
    #[inline(always)]
    pub fn timer_id(&self) -> Option<i32> {
        (self.words[0] & OF_TIMER != 0).then_some(self.words[UNION] as i32)
    }
    /// The POSIX timer that sent it has been deleted: nothing is to be told, and nobody gets the signal.
    pub fn forget_timer(&mut self) {
        self.words[0] = self.words[0] & NUMBER | OF_NONE;
    }
    /// `si_overrun`.
    pub fn set_overrun(&mut self, overrun: i32) {
        self.words[UNION + 1] = overrun as u32;
    }
    /// Reads what a program passed to `rt_sigqueueinfo` at `at`, with number `sig`. `EFAULT`; `E2BIG`: it has
    /// more than the kernel keeps.
    pub fn read_from(at: usize, sig: u32) -> Result<Self, Errno> {
        let bytes: [u32; SIZE / 4] = UserPtr::new(at).read()?;
        let (kept, rest) = bytes.split_at(WORDS);
        let mut info = Self { words: [0; WORDS] };
        info.words.copy_from_slice(kept);
        info.words[0] = sig;
        if !info.has_known_layout() && rest.iter().any(|&word| word != 0) {
            return Err(Errno::E2BIG);
        }
        Ok(info)
    }
    /// Whether Linux knows its code, and so its layout.
    fn has_known_layout(&self) -> bool {
        /// `SI_DETHREAD`, `SI_ASYNCNL`.
        const LOWEST: i32 = -7;
        const ASYNCNL: i32 = -60;
        let last = match self.signal() {
            super::SIGILL => 11,
            super::SIGFPE => 15,
            super::SIGSEGV => 9,
            super::SIGBUS => 5,
            super::SIGSYS => 2,
            _ => 6,
        };
        matches!(self.code(), LOWEST..=0 | code::KERNEL | ASYNCNL) || (1..=last).contains(&self.code())
    }
    /// The whole `siginfo_t`.
    pub fn bytes(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        for (to, from) in bytes.chunks_exact_mut(4).zip(self.words) {
            to.copy_from_slice(&from.to_ne_bytes());
        }
        bytes
    }
    /// Writes the whole `siginfo_t` to user memory. `EFAULT`.
    #[inline]
    pub fn write_to(&self, at: usize) -> Result<(), Errno> {
        UserPtr::new(at).write_from(&self.words)?;
        let (rest, len) = (at.wrapping_add(WORDS * 4), SIZE - WORDS * 4);
        if copy::clear(rest, len) == len {
            Ok(())
        } else {
            Err(Errno::EFAULT)
        }
    }
    /// Fills in the first words of a whole `siginfo_t`, the rest of which is zero. For 64-bit processors.
    #[inline(always)]
    #[allow(dead_code, reason = "32-bit processors' frames are written with `write_to`")]
    pub fn fill(&self, whole: &mut [u64; SIZE / 8]) {
        for (to, from) in whole.iter_mut().zip(self.words.as_chunks::<2>().0) {
            let [first, second] = from.map(u32::to_ne_bytes);
            *to = u64::from_ne_bytes([
                first[0], first[1], first[2], first[3], second[0], second[1], second[2], second[3],
            ]);
        }
    }
    /// The same details with another signal number, for children that end with another signal than `SIGCHLD`.
    pub fn with_signal(mut self, sig: u32) -> Self {
        self.words[0] = sig;
        self
    }
    fn put_pointer(&mut self, at: usize, value: usize) {
        self.words[at] = value as u32;
        if POINTER == 2 {
            self.words[at + 1] = (value as u64 >> 32) as u32;
        }
    }
    fn pointer(&self, at: usize) -> usize {
        let high = if POINTER == 2 { self.words[at + 1] } else { 0 };
        (u64::from(high) << 32 | u64::from(self.words[at])) as usize
    }
    /// The signal number.
    #[inline(always)]
    pub fn signal(&self) -> u32 {
        self.words[0] & NUMBER
    }
    /// Whether `si_signo` is `sig`. A tracer can put any word there (`PTRACE_SETSIGINFO`).
    pub fn is_of_signal(&self, sig: u32) -> bool {
        self.words[0] == sig
    }
    /// `si_errno`.
    pub fn errno(&self) -> i32 {
        self.words[1] as i32
    }
    /// `si_code`.
    #[inline(always)]
    pub fn code(&self) -> i32 {
        self.words[2] as i32
    }
    /// `si_pid` (or `si_tid` of a timer).
    pub fn pid(&self) -> i32 {
        self.words[UNION] as i32
    }
    /// `si_uid` (or `si_overrun`).
    pub fn uid(&self) -> u32 {
        self.words[UNION + 1]
    }
    /// Whether a user's id is in it, which each receiver sees as its user namespace has it.
    #[inline]
    pub fn has_uid(&self) -> bool {
        match self.code() {
            code::TIMER | code::SIGIO => false,
            ..=0 => true,
            1..=6 => self.signal() == super::SIGCHLD,
            _ => false,
        }
    }
    /// What the running program wrote, or was shown, becomes what the kernel has: its own user ids.
    #[inline]
    pub fn mean_ids(&mut self) {
        if current().has_user_ns() && self.has_uid() {
            self.words[UNION + 1] = user::uid_meant(self.uid())
                .unwrap_or_else(|_| OVERFLOW_UID.load(core::sync::atomic::Ordering::Relaxed) as u32);
        }
    }
    /// It has this user's id.
    pub fn set_uid(&mut self, uid: u32) {
        self.words[UNION + 1] = uid;
    }
    /// `si_status` of a child's signal, `si_int` of a queued one.
    pub fn status(&self) -> i32 {
        self.words[UNION + 2] as i32
    }
    /// `si_addr` of a fault.
    pub fn addr(&self) -> usize {
        self.pointer(UNION)
    }
    /// `si_ptr` of a queued signal or timer.
    pub fn value(&self) -> usize {
        self.pointer(UNION + 2)
    }
    /// Whether `si_pid` is the running process, as that put it in. What the kernel tells of a child has the
    /// receiver's number of that already, whoever runs: it may be a tracer outside that lets go of it.
    pub fn names_sender(&self) -> bool {
        !matches!(self.code(), code::TIMER | code::SIGIO | 1..code::KERNEL)
    }
    /// The sender is not seen by whoever gets it.
    pub fn forget_sender(&mut self) {
        self.words[UNION] = 0;
    }
    /// Whether a process sent it, not the kernel.
    pub fn is_from_user(&self) -> bool {
        self.code() <= 0
    }
}

/// A signal number that a program passed. `EINVAL`: beyond the last one; `None` for 0, which only checks.
pub fn parse_signal(sig: i32) -> Result<Option<u32>, Errno> {
    match sig {
        0 => Ok(None),
        1..=64 => Ok(Some(sig as u32)),
        _ => Err(Errno::EINVAL),
    }
}
