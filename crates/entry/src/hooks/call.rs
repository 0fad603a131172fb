//! A system call: running it, and the hooks around it on the way in and out (user dispatch, tracer, seccomp,
//! tracepoints, audit).

use super::Processor;
use crate::frame::Cause;
use crate::token::InKernel;
use limen_linux_abi::Restart;

/// What a tracer decided at a system call entry stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceVerdict {
    /// Go on with the number in the frame, which the tracer may have changed.
    Continue,
    /// The task is being killed: do not run the call.
    Skip,
}

/// What seccomp decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyscallVerdict {
    /// Run the call. The filter, or the filter's tracer, may have changed the number.
    Continue,
    /// Do not run it; the result is already in the frame.
    Skip,
}

/// What is done around a system call, in the order in which Linux does it. All but `dispatch` are called only
/// while their bit of [`crate::SyscallWork`] is set.
pub trait CallWork: Processor {
    /// Runs the system call with number `number` and puts its result into the frame. Unknown numbers give
    /// `ENOSYS`.
    fn dispatch(&self, frame: &mut Self::Frame, number: isize, in_kernel: &InKernel);
    /// An interrupted call is about to run again without a round trip to user mode; by which way its frame
    /// came to the exit is `cause`. `true`: its ABI is not, or may not be, the one that this kernel's way of
    /// entry serves, and user mode has been made to make it again.
    #[inline(always)]
    fn leaves_restart(&self, _frame: &mut Self::Frame, _restart: Restart, _cause: Cause) -> bool {
        false
    }
    /// Finds out which call of which ABI it is, and puts its number into the frame. `false`: that could not
    /// be read; the call was not made, and user mode makes it again.
    #[inline(always)]
    fn old_abi(&self, _frame: &mut Self::Frame) -> bool {
        true
    }
    /// Whether [`CallWork::old_abi`] said that the call which now ends was not made.
    #[inline(always)]
    fn was_not_made(&self, _frame: &Self::Frame) -> bool {
        false
    }
    /// `PR_SET_SYSCALL_USER_DISPATCH`. `true`: the call was turned into `SIGSYS`, and no other entry work is
    /// done.
    #[inline(always)]
    fn user_dispatch(&self, _frame: &mut Self::Frame) -> bool {
        false
    }
    /// Whether user dispatch turned the call that now ends into `SIGSYS`. Forgets it.
    #[inline(always)]
    fn user_dispatch_rolled_back(&self) -> bool {
        false
    }
    /// The call ends the thread's granted rseq time slice.
    #[inline(always)]
    fn rseq_slice_end(&self, _frame: &mut Self::Frame) {}
    /// Stops the thread for its tracer, at the entry of a system call.
    #[inline(always)]
    fn trace_enter(&self, _frame: &mut Self::Frame) -> TraceVerdict {
        TraceVerdict::Continue
    }
    /// Whether the thread's seccomp filters allow this call whatever its arguments are. Its number is not
    /// negative then. A quick way past [`CallWork::seccomp`], for threads that nothing else watches; `false`
    /// says nothing.
    #[inline(always)]
    fn seccomp_always_allows(&self, _frame: &Self::Frame) -> bool {
        false
    }
    /// Runs the thread's seccomp filters.
    #[inline(always)]
    fn seccomp(&self, _frame: &mut Self::Frame) -> SyscallVerdict {
        SyscallVerdict::Continue
    }
    /// The `sys_enter` tracepoint. Its programs may change the number in the frame.
    #[inline(always)]
    fn tracepoint_enter(&self, _frame: &mut Self::Frame, _number: isize) {}
    /// Whether the thread has the call `number`, which nobody changes any more. If not, its result is in the
    /// frame.
    #[inline(always)]
    fn view(&self, _frame: &mut Self::Frame, _number: isize) -> bool {
        true
    }
    /// Audit, on entry.
    #[inline(always)]
    fn audit_enter(&self, _frame: &Self::Frame) {}
    /// Audit, on exit.
    #[inline(always)]
    fn audit_exit(&self, _frame: &Self::Frame) {}
    /// The `sys_exit` tracepoint.
    #[inline(always)]
    fn tracepoint_exit(&self, _frame: &mut Self::Frame) {}
    /// Stops the thread for its tracer: at the exit of a system call, or (`step`) because the thread was to
    /// trap after a single step over the call.
    #[inline(always)]
    fn trace_exit(&self, _frame: &mut Self::Frame, _step: bool) {}
}
