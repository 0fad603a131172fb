//! The kernel's side of the threshold: what the steps of `limen_entry` do in this kernel. Only the
//! architecture's entry stubs call the functions below, with the frame that they saved.

pub mod hardened;

use crate::arch::frame::Frame;
use crate::arch::{irq, syscalls};
use crate::sched::{CurrentTask, context, preempt};
use crate::sync::lockdep;
use crate::tracepoint;
use limen_entry::token::{InKernel, IrqsOff};
use limen_entry::{
    CallWork, Cause, Crossing, FaultIrqs, Observers, Processor, SyscallVerdict, ThreadFlags, ThreadWork,
    TraceVerdict, WorkWords,
};
use limen_linux_abi::{Errno, Restart};

/// A CPU whose context is tracked has left user mode. A function of its own: some compilers merge what is
/// behind the point with the same of other ways in, and the check of early code cannot tell them apart then.
#[inline(never)]
fn user_exit() {
    tracepoint!(context_tracking::UserExit { dummy: 0 });
}

/// It is about to enter user mode.
#[inline(never)]
fn user_enter() {
    tracepoint!(context_tracking::UserEnter { dummy: 0 });
}

/// The kernel, as the threshold sees it. `TRACKED`: context tracking is told of each crossing. Which of the
/// two the entry stubs call is decided at boot (`arch::stub_calls`), so that crossings that are not tracked
/// cost nothing. `COMPAT`: the crossing is a system call of the ABI of 32-bit programs, so that others need
/// not ask.
struct Limen<const TRACKED: bool, const COMPAT: bool>;

/// Whether this instance tells context tracking.
const fn tracks(tracked: bool) -> bool {
    tracked || context::ALWAYS
}

impl<const TRACKED: bool, const COMPAT: bool> Processor for Limen<TRACKED, COMPAT> {
    type Frame = Frame;

    #[inline(always)]
    fn irqs_enable(&self, off: IrqsOff) {
        let IrqsOff { .. } = off;
        irq::local_enable();
    }
    #[inline(always)]
    fn irqs_disable(&self) -> IrqsOff {
        irq::local_disable();
        IrqsOff::established()
    }
    #[inline(always)]
    fn on_interrupt_stack<R>(&self, irqs: &IrqsOff, f: impl FnOnce() -> R) -> R {
        let _ = irqs;
        stack::on_interrupt_stack(f)
    }
    #[inline(always)]
    fn hardirq_enter(&self, _: &InKernel) {
        preempt::add(preempt::HARDIRQ);
        lockdep::enter_interrupt();
    }
    #[inline(always)]
    fn hardirq_exit(&self, _: &InKernel) {
        lockdep::leave_interrupt();
        preempt::sub(preempt::HARDIRQ);
    }
    #[inline(always)]
    fn preemptible(&self) -> bool {
        preempt::count() == 0
    }
    fn preempt_schedule(&self, mut irqs: IrqsOff, _: &InKernel) -> IrqsOff {
        loop {
            // Interrupts are on during the switch. If preemption were not off then, an interrupt would
            // preempt this code once more, the next interrupt that code, and so on until the stack overflows.
            preempt::disable();
            self.irqs_enable(irqs);
            crate::sched::switch_preempted();
            irqs = self.irqs_disable();
            preempt::enable_no_resched();
            if !self.work().has(ThreadFlags::NEED_RESCHED) {
                return irqs;
            }
        }
    }
}

impl<const TRACKED: bool, const COMPAT: bool> Observers for Limen<TRACKED, COMPAT> {
    #[inline(always)]
    fn lockdep_irqs_off(&self) {
        lockdep::irqs_off();
    }
    #[inline(always)]
    fn lockdep_sys_exit(&self, in_kernel: &InKernel) {
        lockdep::to_user(in_kernel);
    }
    #[inline(always)]
    fn lockdep_irqs_on_prepare(&self) {
        lockdep::irqs_on();
    }
    #[inline(always)]
    fn lockdep_irqs_on(&self) {
        lockdep::irqs_on_quiet();
    }
    #[inline(always)]
    fn context_user_exit(&self) {
        if tracks(TRACKED) {
            context::user_exit();
        }
    }
    #[inline(always)]
    fn context_user_enter(&self) {
        if tracks(TRACKED) {
            context::user_enter();
        }
    }
    #[inline(always)]
    fn context_irq_enter_if_idle(&self) -> bool {
        tracks(TRACKED) && context::interrupt_from_idle()
    }
    #[inline(always)]
    fn context_irq_exit(&self) {
        context::interrupt_ends();
    }
    #[inline(always)]
    fn context_irq_check_tick(&self, _: &InKernel) {
        context::check_interrupt();
    }
    #[inline(always)]
    fn nmi_enter(&self, _: &Frame) -> u32 {
        preempt::add(preempt::NMI + preempt::HARDIRQ);
        let away = tracks(TRACKED) && context::nmi_begins();
        lockdep::enter_nmi() << 1 | u32::from(away)
    }
    #[inline(always)]
    fn nmi_exit(&self, _: &Frame, state: u32) {
        lockdep::leave_nmi(state >> 1);
        context::nmi_ends(state & 1 != 0);
        preempt::sub(preempt::NMI + preempt::HARDIRQ);
    }
    #[inline(always)]
    fn count(&self, what: Crossing, _: &InKernel) {
        use crate::sched::crossings::count;
        // Each place is of one of them, so that nothing is left of this.
        match what {
            Crossing::Call => count::<{ Crossing::Call as usize }>(),
            Crossing::Interrupt => count::<{ Crossing::Interrupt as usize }>(),
            Crossing::UserFault => count::<{ Crossing::UserFault as usize }>(),
            Crossing::KernelFault => count::<{ Crossing::KernelFault as usize }>(),
            Crossing::Turn => count::<{ Crossing::Turn as usize }>(),
            Crossing::Restart => count::<{ Crossing::Restart as usize }>(),
            Crossing::Reschedule => count::<{ Crossing::Reschedule as usize }>(),
            Crossing::Window => count::<{ Crossing::Window as usize }>(),
        }
    }
    #[inline(always)]
    fn trace_user_exit(&self, _: &InKernel) {
        if tracks(TRACKED) {
            user_exit();
        }
    }
    #[inline(always)]
    fn trace_user_enter(&self, _: &InKernel) {
        if tracks(TRACKED) {
            user_enter();
        }
    }
    #[inline(always)]
    fn instrumentation_begin(&self, _: &InKernel) {
        mark::begin();
    }
    #[inline(always)]
    fn instrumentation_end(&self) {
        mark::end();
    }
}

impl<const TRACKED: bool, const COMPAT: bool> ThreadWork for Limen<TRACKED, COMPAT> {
    #[inline(always)]
    fn work(&self) -> &WorkWords {
        &preempt::current_info().work
    }
    #[inline(always)]
    fn schedule(&self, _: &InKernel) {
        crate::sched::schedule();
    }
    #[inline(always)]
    fn grant_slice_extension(&self, irqs: IrqsOff, _: &InKernel) -> (IrqsOff, bool) {
        (irqs, crate::rseq::grant())
    }
    fn patch_pending(&self, _: &InKernel) {
        crate::task::patch::change_over();
    }
    fn signals(&self, frame: &mut Frame, cause: Cause, _: &InKernel) {
        crate::signal::deliver_pending(frame, cause, Rseq);
    }
    fn notify_resume(&self, frame: &mut Frame, _: &InKernel) {
        crate::mm::oom::before_user();
        crate::tracing::event::later::work();
        crate::rseq::resume(frame);
        crate::task::ptrace::before_user(frame);
    }
    #[inline(always)]
    fn rseq_again(&self, _: &IrqsOff) -> bool {
        crate::rseq::exit_again()
    }
    fn rseq_exit(&self, frame: &mut Frame, cause: Cause, _: &IrqsOff) -> bool {
        crate::rseq::exit(frame, cause)
    }
    fn debug_exit(&self, _: &IrqsOff) {
        crate::task::ptrace::load_debug();
    }
    fn finish_fork(&self, frame: &mut Frame, _: &InKernel) {
        crate::sched::start_thread();
        crate::task::fork::first_return(frame);
    }
}

/// What signals are told of restartable sequences.
struct Rseq;

impl crate::signal::Areas for Rseq {
    #[inline(always)]
    fn is_settled(&self, task: &CurrentTask) -> bool {
        crate::rseq::is_settled(task)
    }
    #[inline(always)]
    fn before_handler(&self, task: &CurrentTask, frame: &mut Frame, cause: Cause) -> Result<(), Errno> {
        crate::rseq::before_handler(task, frame, cause)
    }
}

impl<const TRACKED: bool, const COMPAT: bool> CallWork for Limen<TRACKED, COMPAT> {
    #[inline(always)]
    fn dispatch(&self, frame: &mut Frame, number: isize, _: &InKernel) {
        if COMPAT {
            crate::syscall::compat::dispatch(frame, number as usize);
        } else {
            crate::syscall::dispatch(frame, number as usize);
        }
    }
    fn leaves_restart(&self, frame: &mut Frame, restart: Restart, cause: Cause) -> bool {
        // A new thread's and a new program's frames come here by the other ABI's instance. A tracer may have
        // put in the frame of a call of either ABI, which the tables and filters of this one must not judge.
        let leaves = syscalls::COMPAT.is_some()
            && (syscalls::is_compat(frame) != COMPAT
                || cause == Cause::Exception
                || crate::task::current().trace.is_traced());
        if leaves {
            syscalls::restart_in_user_mode(frame, restart);
        }
        leaves
    }
    fn old_abi(&self, frame: &mut Frame) -> bool {
        crate::task::calls::find(frame)
    }
    fn was_not_made(&self, frame: &Frame) -> bool {
        crate::arch::syscalls::was_not_made(frame)
    }
    fn user_dispatch(&self, frame: &mut Frame) -> bool {
        crate::filter::dispatch::dispatched::<COMPAT>(frame)
    }
    fn user_dispatch_rolled_back(&self) -> bool {
        crate::filter::dispatch::take_rolled_back()
    }
    fn trace_enter(&self, frame: &mut Frame) -> TraceVerdict {
        match crate::task::ptrace::call_enter(frame) {
            true => TraceVerdict::Continue,
            false => TraceVerdict::Skip,
        }
    }
    fn trace_exit(&self, frame: &mut Frame, step: bool) {
        crate::task::ptrace::call_exit(frame, step);
    }
    #[inline(always)]
    fn seccomp_always_allows(&self, frame: &Frame) -> bool {
        !COMPAT && crate::filter::seccomp::always_allows(frame)
    }
    fn seccomp(&self, frame: &mut Frame) -> SyscallVerdict {
        match crate::filter::seccomp::allows::<COMPAT>(frame) {
            true => SyscallVerdict::Continue,
            false => SyscallVerdict::Skip,
        }
    }
    fn tracepoint_enter(&self, frame: &mut Frame, number: isize) {
        crate::tracing::event::calls::enter(frame, number);
    }
    fn tracepoint_exit(&self, frame: &mut Frame) {
        crate::tracing::event::calls::exit(frame);
    }
    fn view(&self, frame: &mut Frame, number: isize) -> bool {
        crate::filter::view::has::<COMPAT>(frame, number)
    }
    fn audit_enter(&self, frame: &Frame) {
        crate::audit::call::enter(frame);
    }
    fn audit_exit(&self, frame: &Frame) {
        crate::audit::call::exit(frame);
    }
    fn rseq_slice_end(&self, frame: &mut Frame) {
        crate::rseq::ended_by_call(frame);
    }
}

/// Marks in the linked image. The build reads them and checks that no code is instrumented outside of them.
mod mark {
    use core::arch::asm;

    /// From here on code may be instrumented.
    #[inline(always)]
    pub fn begin() {
        // SAFETY: emits no instruction, only an address into a section that is not loaded.
        unsafe {
            asm!(
                "771:",
                ".pushsection .noinstr.begin,\"\",%progbits",
                crate::arch::mark_address!("771b"),
                ".popsection",
                options(nostack, preserves_flags)
            )
        }
    }

    /// No instrumentation after this place.
    #[inline(always)]
    pub fn end() {
        // SAFETY: emits no instruction, only an address into a section that is not loaded.
        unsafe {
            asm!(
                "772:",
                ".pushsection .noinstr.end,\"\",%progbits",
                crate::arch::mark_address!("772b"),
                ".popsection",
                options(nostack, preserves_flags)
            )
        }
    }
}

mod stack {
    use crate::arch::stack_calls::OnStack;
    use crate::arch::{smp, switch};
    use crate::sched::preempt;
    use core::mem::{ManuallyDrop, MaybeUninit};

    struct Job<F, R> {
        f: ManuallyDrop<F>,
        result: MaybeUninit<R>,
    }

    impl<F: FnOnce() -> R, R> OnStack for Job<F, R> {
        extern "C" fn run(data: *mut u8) {
            // SAFETY: `on_interrupt_stack` passes a `Job<F, R>` whose closure nobody has taken out yet.
            let job = unsafe { &mut *data.cast::<Self>() };
            // SAFETY: taken exactly once, here.
            let f = unsafe { ManuallyDrop::take(&mut job.f) };
            job.result.write(f());
        }
    }

    /// Runs `f` on this CPU's interrupt stack. An interrupt that interrupted another one is on that stack
    /// already and stays where it is. Interrupts are off.
    #[inline(always)]
    pub fn on_interrupt_stack<F: FnOnce() -> R, R>(f: F) -> R {
        if preempt::count() & preempt::HARDIRQ_MASK > preempt::HARDIRQ {
            return f();
        }
        let mut job = Job {
            f: ManuallyDrop::new(f),
            result: MaybeUninit::uninit(),
        };
        // SAFETY: interrupts are off and this one interrupted no other, so nothing uses this CPU's interrupt
        // stack. `job` outlives the call.
        unsafe {
            let top = (*smp::cpu_local()).irq_stack_top;
            switch::call_on_stack::<Job<F, R>>(top, (&raw mut job).cast());
            job.result.assume_init()
        }
    }
}

/// A system call. Interrupts are off. The caller, the entry stub, restores the frame afterwards.
#[inline(always)]
pub fn syscall<const TRACKED: bool>(frame: &mut Frame) {
    limen_entry::syscall(&Limen::<TRACKED, false>, frame, IrqsOff::established());
}

/// A system call of the ABI of 32-bit programs, as [`syscall`].
#[inline(always)]
#[allow(dead_code, reason = "not every processor has such calls")]
pub fn compat_syscall<const TRACKED: bool>(frame: &mut Frame) {
    limen_entry::syscall(&Limen::<TRACKED, true>, frame, IrqsOff::established());
}

/// A hardware interrupt. `handler` runs on the interrupt stack, with interrupts off, and may not sleep.
#[inline(always)]
pub fn interrupt<const TRACKED: bool>(frame: &mut Frame, handler: impl FnOnce(&mut Frame)) {
    limen_entry::interrupt(&Limen::<TRACKED, false>, frame, IrqsOff::established(), |frame| {
        // Interrupts are first turned on by the scheduler.
        crate::sched::this_cpu()
            .stats
            .begin_interrupt(limen_entry::Frame::from_user(frame));
        handler(frame);
    });
}

/// A fault whose handler runs with interrupts as the faulting code had them. It may sleep if they were on.
#[inline(always)]
pub fn fault<const TRACKED: bool>(frame: &mut Frame, handler: impl FnOnce(&mut Frame)) {
    limen_entry::fault(
        &Limen::<TRACKED, false>,
        frame,
        IrqsOff::established(),
        FaultIrqs::AsInterrupted,
        handler,
    );
}

/// A fault whose handler must run with interrupts off.
#[inline(always)]
#[allow(dead_code, reason = "not every processor has such faults")]
pub fn fault_irqs_off<const TRACKED: bool>(frame: &mut Frame, handler: impl FnOnce(&mut Frame)) {
    limen_entry::fault(
        &Limen::<TRACKED, false>,
        frame,
        IrqsOff::established(),
        FaultIrqs::Off,
        handler,
    );
}

/// An NMI. `handler` may neither sleep nor take a lock.
#[inline(always)]
pub fn nmi<const TRACKED: bool>(frame: &mut Frame, handler: impl FnOnce(&mut Frame)) {
    limen_entry::nmi(&Limen::<TRACKED, false>, frame, IrqsOff::established(), handler);
}

/// A new thread's first way to user mode. The architecture's `ret_from_fork` stub calls it with the frame at
/// the top of the thread's kernel stack.
#[inline(always)]
pub fn return_from_fork<const TRACKED: bool>(frame: &mut Frame) {
    limen_entry::return_from_fork(&Limen::<TRACKED, false>, frame);
}
