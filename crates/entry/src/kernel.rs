//! What the threshold asks of the kernel ([`Kernel`]) and of a saved register file ([`Frame`]).

use crate::token::{IrqsOff, Watching};
use crate::user::Interrupted;
use crate::work::WorkWords;
use limen_linux_abi::Restart;

/// The full register file of the interrupted context, as saved by the architecture's entry stub.
pub trait Frame {
    /// Whether it was saved on entry from user mode.
    fn from_user(&self) -> bool;
    /// Whether interrupts were on in the interrupted context.
    fn interrupts_enabled(&self) -> bool;
    /// The system call number the frame asks for; negative for "no system call" (a frame of another kind, or cancelled by a tracer).
    fn syscall_number(&self) -> isize;
    /// What a tracer sees as result until the call has run, and what stays if it is skipped: `-ENOSYS`, where the ABI's result
    /// register is not also the first argument's; where it is, only if the number is negative.
    fn preset_result(&mut self);
    /// How the system call in this frame wants to be restarted: `Some` only while the frame is inside a system call whose
    /// result is a restart code.
    fn restart(&self) -> Option<Restart>;
    /// Puts the frame back as it was before the system call ran, to run it again without going through user mode. For
    /// [`Restart::Block`] the number becomes `restart_syscall`'s.
    fn rearm(&mut self, restart: Restart);
}

/// What a tracer decided at a system call entry stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceVerdict {
    /// Go on with the (possibly changed) number in the frame.
    Continue,
    /// The task is being killed: do not run the call.
    Skip,
}

/// What seccomp decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyscallVerdict {
    /// Run the call (the filter or its tracer may have changed the number).
    Continue,
    /// Do not run it; the result is already in the frame.
    Skip,
}

/// The kernel as the threshold sees it. Every method is a step at a fixed place; the defaults do nothing.
///
/// Methods that take neither token run where nothing may be traced or instrumented: they must be inlined or live in the
/// non-instrumentable section.
pub trait Kernel {
    /// The architecture's saved register file.
    type Frame: Frame;

    // --- processor ---

    /// Turns interrupts on.
    fn irqs_enable(&self, off: IrqsOff);
    /// Turns interrupts off.
    fn irqs_disable(&self) -> IrqsOff;
    /// Architecture sanity on entry from user mode (for example: the frame sits where it should).
    #[inline(always)]
    fn sanity(&self, _frame: &Self::Frame) {}
    /// The last architecture step before user mode (for example: load user floating-point state, clear buffers).
    #[inline(always)]
    fn last_step(&self, _frame: &mut Self::Frame, _irqs: &IrqsOff) {}
    /// Runs `f` on this CPU's interrupt stack, or directly if already on it.
    fn on_interrupt_stack<R>(&self, irqs: &IrqsOff, f: impl FnOnce() -> R) -> R;

    // --- lock validator, context tracking, RCU ---

    /// The lock validator learns that interrupts went off.
    #[inline(always)]
    fn lockdep_irqs_off(&self) {}
    /// The lock validator looks whether the thread, on its way to user mode, still holds a lock.
    #[inline(always)]
    fn lockdep_sys_exit(&self, _watching: &Watching) {}
    /// The lock validator prepares for interrupts going on; no lock may be taken afterwards.
    #[inline(always)]
    fn lockdep_irqs_on_prepare(&self) {}
    /// The lock validator learns that interrupts are about to go on.
    #[inline(always)]
    fn lockdep_irqs_on(&self) {}
    /// Context tracking leaves user mode: RCU watches again.
    #[inline(always)]
    fn context_user_exit(&self) {}
    /// Context tracking enters user mode: RCU stops watching.
    #[inline(always)]
    fn context_user_enter(&self) {}
    /// On an interrupt or fault from kernel mode: if this CPU was idle (RCU not watching), RCU is told and `true` returned.
    #[inline(always)]
    fn context_irq_enter_if_idle(&self) -> bool {
        false
    }
    /// Undoes a [`Kernel::context_irq_enter_if_idle`] that returned `true`.
    #[inline(always)]
    fn context_irq_exit(&self) {}
    /// On an interrupt from kernel mode that was not idle (`rcu_irq_enter_check_tick`).
    #[inline(always)]
    fn context_irq_check_tick(&self, _watching: &Watching) {}
    /// On an NMI: context, validator and preempt count told, re-entrantly. The result goes to [`Kernel::nmi_exit`].
    #[inline(always)]
    fn nmi_enter(&self, _frame: &Self::Frame) -> u32 {
        0
    }
    /// Undoes [`Kernel::nmi_enter`].
    #[inline(always)]
    fn nmi_exit(&self, _frame: &Self::Frame, _state: u32) {}
    /// The tracers of interrupt state learn that interrupts went off.
    #[inline(always)]
    fn trace_irqs_off(&self, _watching: &Watching) {}
    /// The tracers of interrupt state learn that interrupts go on.
    #[inline(always)]
    fn trace_irqs_on(&self, _watching: &Watching) {}

    /// From here on code may be traced and instrumented. Marks the place in the linked image; costs nothing.
    #[inline(always)]
    fn instrumentation_begin(&self, _watching: &Watching) {}
    /// No tracing or instrumentation after this place.
    #[inline(always)]
    fn instrumentation_end(&self) {}

    // --- interrupts ---

    /// A hardware interrupt begins (`irq_enter`: preempt count, tick accounting).
    #[inline(always)]
    fn hardirq_enter(&self, _watching: &Watching) {}
    /// A hardware interrupt ends.
    #[inline(always)]
    fn hardirq_exit(&self, _watching: &Watching) {}
    /// Whether the interrupted kernel code may be preempted now (preempt count zero).
    fn preemptible(&self) -> bool;
    /// Schedules away from interrupted kernel code; returns with interrupts off.
    fn preempt_schedule(&self, irqs: IrqsOff, watching: &Watching) -> IrqsOff;
    /// The current thread was interrupted in user mode (restartable sequences care).
    #[inline(always)]
    fn note_user_interrupted(&self) {}

    // --- the current thread's work ---

    /// The current thread's work words.
    fn work(&self) -> &WorkWords;
    /// Runs the system call with number `number` and puts its result into the frame. Unknown numbers give `ENOSYS`.
    fn dispatch(&self, frame: &mut Self::Frame, number: isize, watching: &Watching);
    /// Calls the scheduler (it clears the reschedule flags). Interrupts are on.
    fn schedule(&self, watching: &Watching);
    /// A reschedule is due on the way out of an interrupt: whether a granted time-slice extension defers it.
    #[inline(always)]
    fn grant_slice_extension(&self, _watching: &Watching) -> bool {
        false
    }
    /// Handles a hit user-space probe.
    #[inline(always)]
    fn uprobe(&self, _frame: &mut Self::Frame, _watching: &Watching) {}
    /// Lets a live patch switch this task.
    #[inline(always)]
    fn patch_pending(&self, _watching: &Watching) {}
    /// Delivers pending signals: sets up handler frames (turning a restart code into `EINTR` or a rewound instruction), stops, or ends
    /// the task (then it does not return). If no handler ran, the frame is left as it is: the threshold restarts the call.
    /// Recomputes `SIGPENDING`. `interrupted`: what brought the thread into the kernel.
    fn signals(&self, frame: &mut Self::Frame, interrupted: Interrupted, watching: &Watching);
    /// `NOTIFY_RESUME` work (the flag is already clear).
    #[inline(always)]
    fn notify_resume(&self, _frame: &mut Self::Frame, _watching: &Watching) {}
    /// User-return notifiers (the flag is already clear).
    #[inline(always)]
    fn user_return_notify(&self, _watching: &Watching) {}
    /// Architecture work: the bits of [`crate::ThreadFlags::ARCH`] that are set. The architecture clears them.
    #[inline(always)]
    fn arch_work(&self, _frame: &mut Self::Frame, _bits: u32, _watching: &Watching) {}
    /// [`crate::ThreadFlags::RSEQ_AGAIN`] alone, once per exit, interrupts off, page faults disabled: whether the area says what it is to say, and
    /// nothing is left to do. Clears the flag then. `false`: [`Kernel::rseq_exit`] must do it. It is part of each way out and must be small.
    #[inline(always)]
    fn rseq_again(&self, _irqs: &IrqsOff) -> bool {
        false
    }
    /// Restartable sequences, once per exit, interrupts off, page faults disabled. Clears both flags. `false`: user memory was
    /// not there; the kernel has arranged for its notify-resume hook to do it, and the loop runs again. `interrupted`: what brought the
    /// thread into the kernel; only one interrupted in user mode can be in a critical section.
    #[inline(always)]
    fn rseq_exit(&self, _frame: &mut Self::Frame, _interrupted: Interrupted, _irqs: &IrqsOff) -> bool {
        true
    }
    /// Programs a deferred hardware timer event.
    #[inline(always)]
    fn hrtimer_rearm(&self, _irqs: &IrqsOff) {}
    /// Counts a system call that was restarted without a round trip to user mode.
    #[inline(always)]
    fn count_restart(&self) {}

    // --- system call work, cold ---

    /// `PR_SET_SYSCALL_USER_DISPATCH`: `true` if the call was turned into SIGSYS (nothing else happens on entry).
    #[inline(always)]
    fn user_dispatch(&self, _frame: &mut Self::Frame) -> bool {
        false
    }
    /// Whether the call now ending was turned into SIGSYS by user dispatch; clears that mark.
    #[inline(always)]
    fn user_dispatch_rolled_back(&self) -> bool {
        false
    }
    /// A granted rseq slice ends.
    #[inline(always)]
    fn rseq_slice_end(&self, _frame: &mut Self::Frame) {}
    /// A system call entry stop for the tracer.
    #[inline(always)]
    fn trace_enter(&self, _frame: &mut Self::Frame) -> TraceVerdict {
        TraceVerdict::Continue
    }
    /// seccomp.
    #[inline(always)]
    fn seccomp(&self, _frame: &mut Self::Frame) -> SyscallVerdict {
        SyscallVerdict::Continue
    }
    /// The `sys_enter` tracepoint (its programs may change the number in the frame).
    #[inline(always)]
    fn tracepoint_enter(&self, _frame: &mut Self::Frame, _number: isize) {}
    /// Audit, on entry.
    #[inline(always)]
    fn audit_enter(&self, _frame: &Self::Frame) {}
    /// rseq's debug check that no system call happened in a critical section.
    #[inline(always)]
    fn rseq_debug_check(&self, _frame: &mut Self::Frame) {}
    /// Audit, on exit.
    #[inline(always)]
    fn audit_exit(&self, _frame: &Self::Frame) {}
    /// The `sys_exit` tracepoint.
    #[inline(always)]
    fn tracepoint_exit(&self, _frame: &mut Self::Frame) {}
    /// A system call exit stop, or the trap of a single step over a system call (`step`).
    #[inline(always)]
    fn trace_exit(&self, _frame: &mut Self::Frame, _step: bool) {}

    // --- fork ---

    /// The first thing a new thread does: finish the switch to it (`schedule_tail`); for a kernel thread, run its function
    /// (and return only if it became a user thread).
    fn finish_fork(&self, frame: &mut Self::Frame, watching: &Watching);
}
