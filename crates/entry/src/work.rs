//! The two words of pending work every thread has: thread flags (what must be done before it runs in user
//! mode again) and system call work (what must be done around each of its system calls). Bit numbers are
//! Linux's generic ones (`asm-generic/thread_info_tif.h`, `linux/thread_info.h`), the same on every
//! processor.

use bitflags::bitflags;
// The checker for all interleavings (`tests/interleavings.rs`) brings its own atomics.
#[cfg(not(loom))]
use core::sync::atomic::{AtomicU32, Ordering};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering};

bitflags! {
    /// Thread flags (`TIF_*`). Three bits of Linux's are not used: 7 (user-return notifiers), 8 (user-space
    /// probes) and 12 (deferred timer events). Bits 16 to 31 belong to the architecture.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ThreadFlags: u32 {
        /// Call [`crate::ThreadWork::notify_resume`] before returning to user mode.
        const NOTIFY_RESUME = 1 << 0;
        /// A signal may be waiting that the thread does not block.
        const SIGPENDING = 1 << 1;
        /// Task work interrupts the thread's sleep as a signal would, but there is no signal.
        const NOTIFY_SIGNAL = 1 << 2;
        /// The OOM killer chose this task.
        const MEMDIE = 1 << 3;
        /// Schedule as soon as possible.
        const NEED_RESCHED = 1 << 4;
        /// Schedule at the next return to user mode or tick.
        const NEED_RESCHED_LAZY = 1 << 5;
        /// The idle loop polls `NEED_RESCHED`: no interrupt is needed to wake it.
        const POLLING_NRFLAG = 1 << 6;
        /// A live patch waits for this task.
        const PATCH_PENDING = 1 << 9;
        /// A system call replaced the signal mask (`sigsuspend`, `ppoll`, ...): restore it if no handler
        /// runs.
        const RESTORE_SIGMASK = 1 << 10;
        /// Restartable-sequence work is due before the return to user mode.
        const RSEQ = 1 << 11;
        /// Limen's own: the quick kind of `RSEQ`. The thread's `struct rseq` has to say what the kernel wrote
        /// to it last time, and no critical section has to be checked or aborted.
        const RSEQ_AGAIN = 1 << 13;
        /// Limen's own: the thread has debug registers. It stays set in user mode, and each way there loads
        /// them ([`crate::ThreadWork::debug_exit`]), so that no switch has to.
        const DEBUG = 1 << 14;
        /// Limen's own: the thread may have registers that the ordinary return to user mode does not restore.
        /// It stays set in user mode, and each way there asks the frame ([`crate::Frame::prepare_return`]).
        const RETURN = 1 << 15;
    }
}

impl ThreadFlags {
    /// Restartable-sequence work, which is done once per exit, after all other work.
    pub const ANY_RSEQ: Self = Self::RSEQ.union(Self::RSEQ_AGAIN);
    /// What the work loop handles: all that must be clear in user mode, except [`Self::ANY_RSEQ`].
    pub const EXIT_WORK: Self = Self::NOTIFY_RESUME
        .union(Self::SIGPENDING)
        .union(Self::NOTIFY_SIGNAL)
        .union(Self::NEED_RESCHED)
        .union(Self::NEED_RESCHED_LAZY)
        .union(Self::PATCH_PENDING);
    /// Everything that the way out must look at, for one single test.
    pub const ANY_EXIT: Self = Self::EXIT_WORK.union(Self::ANY_RSEQ).union(Self::LAST);
    /// What stays set in user mode: steps that come last, each time.
    pub const LAST: Self = Self::DEBUG.union(Self::RETURN);
    /// What makes the work loop call `schedule`.
    pub const RESCHED: Self = Self::NEED_RESCHED.union(Self::NEED_RESCHED_LAZY);

    /// Whether the work loop has only one thing to do, a lazy reschedule: the one kind of preemption that a
    /// time-slice extension may put off.
    #[inline(always)]
    pub fn may_put_off(self) -> bool {
        self.intersection(Self::EXIT_WORK) == Self::NEED_RESCHED_LAZY
    }
}

bitflags! {
    /// System call work (`SYSCALL_WORK_*`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SyscallWork: u32 {
        /// A seccomp filter is attached.
        const SECCOMP = 1 << 0;
        /// The raw system call tracepoints are on.
        const TRACEPOINT = 1 << 1;
        /// A tracer wants system call stops (`PTRACE_SYSCALL`).
        const TRACE = 1 << 2;
        /// A tracer emulates system calls (`PTRACE_SYSEMU`).
        const EMU = 1 << 3;
        /// System call auditing.
        const AUDIT = 1 << 4;
        /// `PR_SET_SYSCALL_USER_DISPATCH`.
        const USER_DISPATCH = 1 << 5;
        /// Trap after the system call: single-stepping over it.
        const EXIT_TRAP = 1 << 6;
        /// The thread runs in a granted rseq time slice, which its next system call ends.
        const RSEQ_SLICE = 1 << 7;
        /// Limen's own: the thread's program is one whose calls say in the instruction which they are, by an
        /// old ABI's rules, or was one until now.
        const OLD_ABI = 1 << 8;
        /// Limen's own: the thread has only some of the system calls.
        const VIEW = 1 << 9;
    }
}

impl SyscallWork {
    /// Bits that matter on the way in.
    pub const ENTER: Self = Self::SECCOMP
        .union(Self::TRACEPOINT)
        .union(Self::TRACE)
        .union(Self::EMU)
        .union(Self::AUDIT)
        .union(Self::USER_DISPATCH)
        .union(Self::RSEQ_SLICE)
        .union(Self::OLD_ABI)
        .union(Self::VIEW);
    /// Bits that matter on the way out.
    pub const EXIT: Self = Self::TRACEPOINT
        .union(Self::TRACE)
        .union(Self::AUDIT)
        .union(Self::USER_DISPATCH)
        .union(Self::EXIT_TRAP);
}

/// A thread's two work words. Any thread, on any CPU, and any interrupt handler may set bits.
///
/// A setter that wants the thread to notice soon sets the bit first, and then interrupts the CPU on which the
/// thread runs, or wakes the thread. The thread reads its flags with interrupts off, as its last step before
/// user mode. So either that read sees the bit, or the setter's interrupt is still pending and arrives as
/// soon as the thread is in user mode.
#[derive(Debug)]
#[repr(C)]
pub struct WorkWords {
    flags: AtomicU32,
    syscall: AtomicU32,
}

impl WorkWords {
    /// Where the thread flags are in it, in bytes, for code that is not Rust.
    pub const FLAGS: usize = core::mem::offset_of!(Self, flags);

    /// No work.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self {
            flags: AtomicU32::new(0),
            syscall: AtomicU32::new(0),
        }
    }

    /// No work.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self {
            flags: AtomicU32::new(0),
            syscall: AtomicU32::new(0),
        }
    }

    /// The thread flags now.
    #[inline(always)]
    pub fn flags(&self) -> ThreadFlags {
        ThreadFlags::from_bits_retain(self.flags.load(Ordering::Relaxed))
    }

    /// Whether any of `flags` is set.
    #[inline(always)]
    pub fn has(&self, flags: ThreadFlags) -> bool {
        self.flags().intersects(flags)
    }

    /// Sets `flags` and returns the flags from before. A thread that sees one of these bits (by
    /// [`WorkWords::clear`]) also sees all that the setter wrote before.
    #[inline(always)]
    pub fn set(&self, flags: ThreadFlags) -> ThreadFlags {
        ThreadFlags::from_bits_retain(self.flags.fetch_or(flags.bits(), Ordering::AcqRel))
    }

    /// Clears `flags` and returns the flags from before. The caller sees all that the setter of a cleared bit
    /// wrote before setting it.
    #[inline(always)]
    pub fn clear(&self, flags: ThreadFlags) -> ThreadFlags {
        ThreadFlags::from_bits_retain(self.flags.fetch_and(!flags.bits(), Ordering::AcqRel))
    }

    /// [`WorkWords::set`] by the thread itself, which needs no ordering with its own earlier writes.
    #[inline(always)]
    pub fn set_own(&self, flags: ThreadFlags) {
        self.flags.fetch_or(flags.bits(), Ordering::Relaxed);
    }

    /// [`WorkWords::clear`] of flags that only the thread itself sets.
    #[inline(always)]
    pub fn clear_own(&self, flags: ThreadFlags) {
        self.flags.fetch_and(!flags.bits(), Ordering::Relaxed);
    }

    /// The system call work now.
    #[inline(always)]
    pub fn syscall_work(&self) -> SyscallWork {
        SyscallWork::from_bits_retain(self.syscall.load(Ordering::Relaxed))
    }

    /// Sets system call work.
    #[inline(always)]
    pub fn set_syscall_work(&self, work: SyscallWork) {
        self.syscall.fetch_or(work.bits(), Ordering::AcqRel);
    }

    /// Clears system call work.
    #[inline(always)]
    pub fn clear_syscall_work(&self, work: SyscallWork) {
        self.syscall.fetch_and(!work.bits(), Ordering::AcqRel);
    }
}

impl Default for WorkWords {
    fn default() -> Self {
        Self::new()
    }
}
