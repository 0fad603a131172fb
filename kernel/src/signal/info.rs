//! `siginfo_t`: what a signal tells about itself, kept in the layout user space knows.

use limen_linux_abi::Errno;

/// `si_code` values.
#[allow(missing_docs, dead_code, reason = "Linux's list, whole")]
pub mod code {
    pub const USER: i32 = 0;
    pub const KERNEL: i32 = 0x80;
    pub const QUEUE: i32 = -1;
    pub const TIMER: i32 = -2;
    pub const TKILL: i32 = -6;
    pub const CLD_EXITED: i32 = 1;
    pub const CLD_KILLED: i32 = 2;
    pub const CLD_DUMPED: i32 = 3;
    pub const CLD_TRAPPED: i32 = 4;
    pub const CLD_STOPPED: i32 = 5;
    pub const CLD_CONTINUED: i32 = 6;
    pub const SEGV_MAPERR: i32 = 1;
    pub const SEGV_ACCERR: i32 = 2;
    pub const BUS_ADRALN: i32 = 1;
    pub const BUS_ADRERR: i32 = 2;
    pub const ILL_ILLOPC: i32 = 1;
    pub const TRAP_BRKPT: i32 = 1;
    pub const TRAP_TRACE: i32 = 2;
}

/// Bytes of `siginfo_t`.
pub const SIZE: usize = 128;
/// Where the union after the three leading integers starts: it holds pointers, so it is aligned like one.
const UNION: usize = if size_of::<usize>() == 8 { 16 } else { 12 };

/// A signal's `siginfo_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub struct SigInfo {
    bytes: [u8; SIZE],
}

impl SigInfo {
    /// All zero except number and code.
    pub fn new(sig: u32, code: i32) -> Self {
        let mut info = Self { bytes: [0; SIZE] };
        info.put(0, &sig.to_ne_bytes());
        info.put(8, &code.to_ne_bytes());
        info
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
        info.put(UNION, &pid.to_ne_bytes());
        info.put(UNION + 4, &uid.to_ne_bytes());
        info
    }
    /// A fault at `addr`.
    pub fn fault(sig: u32, code: i32, addr: usize) -> Self {
        let mut info = Self::new(sig, code);
        info.put(UNION, &addr.to_ne_bytes());
        info
    }
    /// A child's change of state; `status` is an exit code or a signal number, times are clock ticks (1/100 s).
    pub fn child(code: i32, pid: i32, uid: u32, status: i32, utime: usize, stime: usize) -> Self {
        let mut info = Self::from_sender(super::SIGCHLD, code, pid, uid);
        info.put(UNION + 8, &status.to_ne_bytes());
        // Times are `long`s after the status, aligned.
        let at = (UNION + 12).next_multiple_of(size_of::<usize>());
        info.put(at, &utime.to_ne_bytes());
        info.put(at + size_of::<usize>(), &stime.to_ne_bytes());
        info
    }
    /// A POSIX timer's expiry.
    pub fn timer(sig: u32, timer_id: i32, overrun: i32, value: usize) -> Self {
        let mut info = Self::new(sig, code::TIMER);
        info.put(UNION, &timer_id.to_ne_bytes());
        info.put(UNION + 4, &overrun.to_ne_bytes());
        info.put(UNION + 8, &value.to_ne_bytes());
        info
    }
    /// As user space passed it to `rt_sigqueueinfo`; the number is `sig`.
    pub fn from_user(sig: u32, bytes: [u8; SIZE]) -> Self {
        let mut info = Self { bytes };
        info.put(0, &sig.to_ne_bytes());
        info
    }
    /// The same with another signal number (children that end with another signal than SIGCHLD).
    pub fn with_signal(mut self, sig: u32) -> Self {
        self.put(0, &sig.to_ne_bytes());
        self
    }
    fn put(&mut self, at: usize, value: &[u8]) {
        self.bytes[at..at + value.len()].copy_from_slice(value);
    }
    fn i32_at(&self, at: usize) -> i32 {
        let mut b = [0; 4];
        b.copy_from_slice(&self.bytes[at..at + 4]);
        i32::from_ne_bytes(b)
    }
    /// The signal number.
    pub fn signal(&self) -> u32 {
        self.i32_at(0) as u32
    }
    /// `si_errno`.
    pub fn errno(&self) -> i32 {
        self.i32_at(4)
    }
    /// `si_code`.
    pub fn code(&self) -> i32 {
        self.i32_at(8)
    }
    /// `si_pid` (or `si_tid` of a timer).
    pub fn pid(&self) -> i32 {
        self.i32_at(UNION)
    }
    /// `si_uid` (or `si_overrun`).
    pub fn uid(&self) -> u32 {
        self.i32_at(UNION + 4) as u32
    }
    /// `si_status` of a child's signal, `si_int` of a queued one.
    pub fn status(&self) -> i32 {
        self.i32_at(UNION + 8)
    }
    /// `si_addr` of a fault.
    pub fn addr(&self) -> usize {
        let mut b = [0; size_of::<usize>()];
        b.copy_from_slice(&self.bytes[UNION..UNION + size_of::<usize>()]);
        usize::from_ne_bytes(b)
    }
    /// `si_ptr` of a queued signal or timer.
    pub fn value(&self) -> usize {
        let at = UNION + 8;
        let mut b = [0; size_of::<usize>()];
        b.copy_from_slice(&self.bytes[at..at + size_of::<usize>()]);
        usize::from_ne_bytes(b)
    }
    /// Whether a process, not the kernel, made it.
    pub fn is_from_user(&self) -> bool {
        self.code() <= 0
    }
    /// The bytes user space gets.
    pub fn to_bytes(&self) -> [u8; SIZE] {
        self.bytes
    }
}

/// A signal number from a system call's argument: `EINVAL` beyond the last one, `None` for 0 ("only check").
pub fn parse_signal(sig: i32) -> Result<Option<u32>, Errno> {
    match sig {
        0 => Ok(None),
        1..=64 => Ok(Some(sig as u32)),
        _ => Err(Errno::EINVAL),
    }
}
