//! The kernel's side of the threshold: what `limen_entry`'s steps do here. The architecture's stubs call the functions below
//! with the saved frame; nothing else does.

use crate::arch::frame::Frame;
use crate::arch::irq;
use crate::sched::preempt;
use crate::sync::lockdep;
use limen_entry::token::{IrqsOff, Watching};
use limen_entry::{FaultIrqs, Interrupted, Kernel, ThreadFlags, WorkWords};

/// The kernel, as the threshold sees it.
struct Limen;

impl Kernel for Limen {
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
    fn lockdep_irqs_off(&self) {
        lockdep::irqs_off();
    }
    #[inline(always)]
    fn lockdep_sys_exit(&self, watching: &Watching) {
        lockdep::to_user(watching);
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
    fn instrumentation_begin(&self, _: &Watching) {
        mark::begin();
    }
    #[inline(always)]
    fn instrumentation_end(&self) {
        mark::end();
    }
    #[inline(always)]
    fn on_interrupt_stack<R>(&self, irqs: &IrqsOff, f: impl FnOnce() -> R) -> R {
        let _ = irqs;
        stack::on_interrupt_stack(f)
    }
    #[inline(always)]
    fn hardirq_enter(&self, _: &Watching) {
        preempt::add(preempt::HARDIRQ);
        lockdep::enter_interrupt();
    }
    #[inline(always)]
    fn hardirq_exit(&self, _: &Watching) {
        lockdep::leave_interrupt();
        preempt::sub(preempt::HARDIRQ);
    }
    #[inline(always)]
    fn nmi_enter(&self, _: &Frame) -> u32 {
        preempt::add(preempt::NMI + preempt::HARDIRQ);
        lockdep::enter_nmi()
    }
    #[inline(always)]
    fn nmi_exit(&self, _: &Frame, state: u32) {
        lockdep::leave_nmi(state);
        preempt::sub(preempt::NMI + preempt::HARDIRQ);
    }
    #[inline(always)]
    fn preemptible(&self) -> bool {
        preempt::count() == 0
    }
    fn preempt_schedule(&self, irqs: IrqsOff, _: &Watching) -> IrqsOff {
        let mut irqs = irqs;
        loop {
            // Preemption is off wherever interrupts are on: one that arrives there would preempt again, on top of this, and the next on top of that.
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
    #[inline(always)]
    fn work(&self) -> &WorkWords {
        &preempt::current_info().work
    }
    #[inline(always)]
    fn dispatch(&self, frame: &mut Frame, number: isize, _: &Watching) {
        crate::syscall::dispatch(frame, number as usize);
    }
    #[inline(always)]
    fn schedule(&self, _: &Watching) {
        crate::sched::schedule();
    }
    fn signals(&self, frame: &mut Frame, interrupted: Interrupted, _: &Watching) {
        crate::signal::deliver_pending(frame, interrupted);
    }
    fn notify_resume(&self, frame: &mut Frame, _: &Watching) {
        crate::rseq::resume(frame);
    }
    #[inline(always)]
    fn grant_slice_extension(&self, _: &Watching) -> bool {
        crate::rseq::grant()
    }
    fn rseq_slice_end(&self, frame: &mut Frame) {
        crate::rseq::ended_by_call(frame);
    }
    #[inline(always)]
    fn rseq_again(&self, _: &IrqsOff) -> bool {
        crate::rseq::exit_again()
    }
    fn rseq_exit(&self, frame: &mut Frame, interrupted: Interrupted, _: &IrqsOff) -> bool {
        crate::rseq::exit(frame, interrupted)
    }
    fn finish_fork(&self, frame: &mut Frame, _: &Watching) {
        crate::sched::start_thread();
        crate::task::fork::first_return(frame);
    }
}

/// Marks in the linked image, read by the build's check that nothing runs instrumented too early.
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
        // SAFETY: as above.
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
    use crate::arch::{smp, switch};
    use crate::sched::preempt;
    use core::mem::{ManuallyDrop, MaybeUninit};

    struct Job<F, R> {
        f: ManuallyDrop<F>,
        result: MaybeUninit<R>,
    }

    extern "C" fn run<F: FnOnce() -> R, R>(data: *mut u8) {
        // SAFETY: `on_interrupt_stack` passes a `Job<F, R>` whose closure has not been taken yet.
        let job = unsafe { &mut *data.cast::<Job<F, R>>() };
        // SAFETY: taken exactly once, here.
        let f = unsafe { ManuallyDrop::take(&mut job.f) };
        job.result.write(f());
    }

    /// Runs `f` on this CPU's interrupt stack. An interrupt that arrived on it already stays there.
    #[inline(always)]
    pub fn on_interrupt_stack<F: FnOnce() -> R, R>(f: F) -> R {
        if preempt::count() & (0xf << 16) > preempt::HARDIRQ {
            return f();
        }
        let mut job = Job {
            f: ManuallyDrop::new(f),
            result: MaybeUninit::uninit(),
        };
        // SAFETY: interrupts are off, so this is the only interrupt on this CPU: its interrupt stack is free. `job` outlives the call.
        unsafe {
            let top = (*smp::cpu_local()).irq_stack_top;
            switch::call_on_stack(top, run::<F, R>, (&raw mut job).cast());
            job.result.assume_init()
        }
    }
}

/// A system call. Interrupts are off; the stub restores the frame afterwards.
#[inline(always)]
pub fn syscall(frame: &mut Frame) {
    limen_entry::syscall(&Limen, frame, IrqsOff::established());
}

/// A hardware interrupt.
#[inline(always)]
pub fn interrupt(frame: &mut Frame, handler: impl FnOnce(&mut Frame)) {
    limen_entry::interrupt(&Limen, frame, IrqsOff::established(), |frame| {
        if crate::sched::ready() {
            crate::sched::this_cpu()
                .stats
                .begin_interrupt(limen_entry::Frame::from_user(frame));
        }
        handler(frame);
    });
}

/// A fault whose handler runs with the interrupts of the faulting context.
#[inline(always)]
pub fn fault(frame: &mut Frame, handler: impl FnOnce(&mut Frame)) {
    limen_entry::fault(
        &Limen,
        frame,
        IrqsOff::established(),
        FaultIrqs::AsInterrupted,
        handler,
    );
}

/// A fault whose handler must keep interrupts off.
#[inline(always)]
#[allow(dead_code, reason = "not every processor has such faults")]
pub fn fault_irqs_off(frame: &mut Frame, handler: impl FnOnce(&mut Frame)) {
    limen_entry::fault(&Limen, frame, IrqsOff::established(), FaultIrqs::Off, handler);
}

/// An NMI.
#[inline(always)]
pub fn nmi(frame: &mut Frame, handler: impl FnOnce(&mut Frame)) {
    limen_entry::nmi(&Limen, frame, IrqsOff::established(), handler);
}

/// The first return of a new thread. Called by the architecture's `ret_from_fork` stub with the frame at the top of the
/// thread's kernel stack.
#[inline(always)]
pub fn return_from_fork(frame: &mut Frame) {
    limen_entry::return_from_fork(&Limen, frame);
}
