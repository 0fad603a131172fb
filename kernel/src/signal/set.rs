//! Signal numbers and sets of them.

/// Signal numbers, the same on every architecture Limen supports.
#[allow(missing_docs, dead_code, reason = "Linux's list, whole")]
mod numbers {
    pub const SIGHUP: u32 = 1;
    pub const SIGINT: u32 = 2;
    pub const SIGQUIT: u32 = 3;
    pub const SIGILL: u32 = 4;
    pub const SIGTRAP: u32 = 5;
    pub const SIGABRT: u32 = 6;
    pub const SIGBUS: u32 = 7;
    pub const SIGFPE: u32 = 8;
    pub const SIGKILL: u32 = 9;
    pub const SIGUSR1: u32 = 10;
    pub const SIGSEGV: u32 = 11;
    pub const SIGUSR2: u32 = 12;
    pub const SIGPIPE: u32 = 13;
    pub const SIGALRM: u32 = 14;
    pub const SIGTERM: u32 = 15;
    pub const SIGSTKFLT: u32 = 16;
    pub const SIGCHLD: u32 = 17;
    pub const SIGCONT: u32 = 18;
    pub const SIGSTOP: u32 = 19;
    pub const SIGTSTP: u32 = 20;
    pub const SIGTTIN: u32 = 21;
    pub const SIGTTOU: u32 = 22;
    pub const SIGURG: u32 = 23;
    pub const SIGXCPU: u32 = 24;
    pub const SIGXFSZ: u32 = 25;
    pub const SIGVTALRM: u32 = 26;
    pub const SIGPROF: u32 = 27;
    pub const SIGWINCH: u32 = 28;
    pub const SIGIO: u32 = 29;
    pub const SIGPWR: u32 = 30;
    pub const SIGSYS: u32 = 31;
    pub const SIGRTMIN: u32 = 32;
    pub const NSIG: u32 = 64;
}
pub use numbers::*;

/// A set of signals: bit `n - 1` stands for signal `n`, as in the `sigset_t` of system calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct SigSet(pub u64);

impl SigSet {
    /// No signal.
    pub const EMPTY: Self = Self(0);
    /// Signals that can be neither caught nor ignored nor blocked.
    pub const UNBLOCKABLE: Self = Self::of(&[SIGKILL, SIGSTOP]);
    /// Signals of a thread's own faults. They are delivered before others.
    pub const SYNCHRONOUS: Self = Self::of(&[SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE, SIGSYS]);
    /// Signals that by default end the process with a core file (which is not written).
    pub const COREDUMP: Self = Self::of(&[
        SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGFPE, SIGSEGV, SIGBUS, SIGSYS, SIGXCPU, SIGXFSZ,
    ]);
    /// Signals that by default stop the process.
    pub const STOP: Self = Self::of(&[SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU]);
    /// Signals that by default are ignored.
    pub const IGNORED: Self = Self::of(&[SIGCONT, SIGCHLD, SIGWINCH, SIGURG]);

    /// The set of the listed signals.
    pub const fn of(signals: &[u32]) -> Self {
        let mut set = 0;
        let mut i = 0;
        while i < signals.len() {
            set |= 1 << (signals[i] - 1);
            i += 1;
        }
        Self(set)
    }
    /// Whether `sig` is in it.
    #[inline(always)]
    pub const fn has(self, sig: u32) -> bool {
        self.0 >> (sig - 1) & 1 != 0
    }
    /// The set with `sig` added.
    #[inline(always)]
    pub const fn with(self, sig: u32) -> Self {
        Self(self.0 | 1 << (sig - 1))
    }
    /// The set with `sig` removed.
    #[inline(always)]
    pub const fn without(self, sig: u32) -> Self {
        Self(self.0 & !(1 << (sig - 1)))
    }
    /// The signals that are in both sets.
    #[inline(always)]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
    /// The signals that are in one of the sets or both.
    #[inline(always)]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    /// The signals of this set that are not in `other`.
    #[inline(always)]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
    /// Whether it is empty.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// The lowest signal.
    #[inline(always)]
    pub const fn first(self) -> Option<u32> {
        if self.0 == 0 {
            None
        } else {
            Some(self.0.trailing_zeros() + 1)
        }
    }
}
