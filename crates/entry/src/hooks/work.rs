//! What a thread may have to do on its way to user mode: the work loop's hooks, and a new thread's first
//! step.

use super::Processor;
use crate::frame::Cause;
use crate::token::{InKernel, IrqsOff};
use crate::work::WorkWords;

/// The running thread's work.
pub trait ThreadWork: Processor {
    /// The running thread's work words.
    fn work(&self) -> &WorkWords;
    /// Calls the scheduler, which clears the reschedule flags. Interrupts are on. Sleeps.
    fn schedule(&self, in_kernel: &InKernel);
    /// A lazy reschedule, and no other work, is due on the way out of an interrupt or a fault. `true`: a
    /// time-slice extension puts it off, and [`crate::ThreadFlags::NEED_RESCHED_LAZY`] (no other flag) is
    /// clear now. Interrupts may be turned on in between.
    #[inline(always)]
    fn grant_slice_extension(&self, irqs: IrqsOff, _in_kernel: &InKernel) -> (IrqsOff, bool) {
        (irqs, false)
    }
    /// Lets a live patch move this task to the new code.
    #[inline(always)]
    fn patch_pending(&self, _in_kernel: &InKernel) {}
    /// Delivers pending signals: sets up handler frames (which turns a restart code into `EINTR`, or rewinds
    /// to the system call instruction), stops, or ends the task and does not return. If no handler runs, a
    /// restart code stays in the frame and the threshold restarts the call. Recomputes `SIGPENDING`. May
    /// sleep.
    fn signals(&self, frame: &mut Self::Frame, cause: Cause, in_kernel: &InKernel);
    /// `NOTIFY_RESUME` work. The flag is already clear. Interrupts are on; may sleep.
    #[inline(always)]
    fn notify_resume(&self, _frame: &mut Self::Frame, _in_kernel: &InKernel) {}
    /// [`crate::ThreadFlags::RSEQ_AGAIN`] is the only flag. Called once per exit, with interrupts off and
    /// page faults disabled. `true`: the thread's `struct rseq` has been brought up to date and the flag is
    /// clear. `false`: [`ThreadWork::rseq_exit`] must do it. This is part of each way out and must be small.
    #[inline(always)]
    fn rseq_again(&self, _irqs: &IrqsOff) -> bool {
        false
    }
    /// All work for restartable sequences. Called once per exit, with interrupts off and page faults
    /// disabled. Clears both flags. `false`: the access to user memory faulted; the kernel has arranged for
    /// its notify-resume hook to do the work, and the loop runs again. `cause` matters because only a thread
    /// that an interrupt or a fault found in user mode can be inside a critical section.
    #[inline(always)]
    fn rseq_exit(&self, _frame: &mut Self::Frame, _cause: Cause, _irqs: &IrqsOff) -> bool {
        true
    }
    /// [`crate::ThreadFlags::DEBUG`] is set: this CPU's debug registers become the thread's. Called once per
    /// exit, last, with interrupts off; the flag stays.
    #[inline(always)]
    fn debug_exit(&self, _irqs: &IrqsOff) {}
    /// The first thing that a new thread does: finish the switch to it (Linux: `schedule_tail`). A kernel
    /// thread then runs its function, and returns from here only if it became a user thread by `exec`.
    fn finish_fork(&self, frame: &mut Self::Frame, in_kernel: &InKernel);
}
