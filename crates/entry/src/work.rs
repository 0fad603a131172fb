//! The two words of pending work every thread has: thread flags (what must be done before it runs in user mode again)
//! and system call work (what must be done around each of its system calls). Bit numbers are Linux's generic ones
//! (`asm-generic/thread_info_tif.h`, `linux/thread_info.h`), the same on every processor.

use bitflags::bitflags;
// The checker for all interleavings (`tests/interleavings.rs`) brings its own atomics.
#[cfg(not(loom))]
use core::sync::atomic::{AtomicU32, Ordering};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering};

bitflags! {
    /// Thread flags (`TIF_*`). Bits 16 to 31 belong to the architecture.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ThreadFlags: u32 {
        /// Call the notify-resume hook before returning to user mode.
        const NOTIFY_RESUME = 1 << 0;
        /// A signal may be deliverable.
        const SIGPENDING = 1 << 1;
        /// Like a signal, but without one: task work that must interrupt sleeps.
        const NOTIFY_SIGNAL = 1 << 2;
        /// The out-of-memory killer chose this task.
        const MEMDIE = 1 << 3;
        /// Schedule as soon as possible.
        const NEED_RESCHED = 1 << 4;
        /// Schedule at the next return to user mode or tick.
        const NEED_RESCHED_LAZY = 1 << 5;
        /// The idle loop polls `NEED_RESCHED`: no interrupt is needed to wake it.
        const POLLING_NRFLAG = 1 << 6;
        /// Call user-return notifiers.
        const USER_RETURN_NOTIFY = 1 << 7;
        /// A user-space probe was hit.
        const UPROBE = 1 << 8;
        /// A live patch waits for this task.
        const PATCH_PENDING = 1 << 9;
        /// Restore the signal mask that a system call replaced, if no handler runs.
        const RESTORE_SIGMASK = 1 << 10;
        /// Restartable-sequence work before the return to user mode.
        const RSEQ = 1 << 11;
        /// A timer's hardware event must be programmed again (interrupt exits only).
        const HRTIMER_REARM = 1 << 12;
        /// Limen's own: the quick kind of `RSEQ`. The area is to say what it was last told, and there is nothing else to be done about it.
        const RSEQ_AGAIN = 1 << 13;
        /// Anything an architecture defines for itself.
        const ARCH = 0xffff_0000;
    }
}

impl ThreadFlags {
    /// Work for a restartable sequence, which comes once, last.
    pub const ANY_RSEQ: Self = Self::RSEQ.union(Self::RSEQ_AGAIN);
    /// What the exit loop handles (everything that must be clear in user mode except [`Self::ANY_RSEQ`]).
    pub const EXIT_WORK: Self = Self::NOTIFY_RESUME
        .union(Self::SIGPENDING)
        .union(Self::NOTIFY_SIGNAL)
        .union(Self::NEED_RESCHED)
        .union(Self::NEED_RESCHED_LAZY)
        .union(Self::USER_RETURN_NOTIFY)
        .union(Self::UPROBE)
        .union(Self::PATCH_PENDING)
        .union(Self::ARCH);
    /// What the way out must look at, in one test.
    pub const ANY_EXIT: Self = Self::EXIT_WORK.union(Self::ANY_RSEQ);
    /// The same on the way out of an interrupt.
    pub const ANY_IRQ_EXIT: Self = Self::ANY_EXIT.union(Self::HRTIMER_REARM);
    /// What must lead to `schedule`.
    pub const RESCHED: Self = Self::NEED_RESCHED.union(Self::NEED_RESCHED_LAZY);
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
        /// A granted rseq time slice ends with a system call.
        const RSEQ_SLICE = 1 << 7;
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
        .union(Self::RSEQ_SLICE);
    /// Bits that matter on the way out.
    pub const EXIT: Self = Self::TRACEPOINT
        .union(Self::TRACE)
        .union(Self::AUDIT)
        .union(Self::USER_DISPATCH)
        .union(Self::EXIT_TRAP);
}

/// A thread's two work words. Bits are set by anyone, from any CPU and from interrupts.
///
/// A setter that needs the thread to notice soon sets the bit and then interrupts the CPU the thread runs on (or wakes it). The
/// thread reads its flags with interrupts off as the last thing before user mode, so a bit is either seen by that read or
/// its interrupt is still pending and arrives at once in user mode.
#[derive(Debug)]
#[repr(C)]
pub struct WorkWords {
    flags: AtomicU32,
    syscall: AtomicU32,
}

impl WorkWords {
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

    /// Sets `flags`; returns what was set before. What the caller wrote before is visible to the thread that sees the bit.
    #[inline(always)]
    pub fn set(&self, flags: ThreadFlags) -> ThreadFlags {
        ThreadFlags::from_bits_retain(self.flags.fetch_or(flags.bits(), Ordering::AcqRel))
    }

    /// Clears `flags`; returns what was set before. What was written before the bit was set is visible to the caller afterwards.
    #[inline(always)]
    pub fn clear(&self, flags: ThreadFlags) -> ThreadFlags {
        ThreadFlags::from_bits_retain(self.flags.fetch_and(!flags.bits(), Ordering::AcqRel))
    }

    /// [`WorkWords::set`] by the thread itself: there is nobody to whom what was written before must be visible.
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
