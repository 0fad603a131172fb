//! A model of a kernel and its processor. Every hook checks that the state allows it to be called, and is
//! recorded.

#![allow(dead_code)]

use limen_entry::token::{InKernel, IrqsOff};
use limen_entry::{
    CallWork, Cause, Crossing, Frame, Observers, Processor, SyscallVerdict, SyscallWork, ThreadFlags,
    ThreadWork, TraceVerdict, WorkWords,
};
use limen_linux_abi::Restart;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// Where context tracking takes the CPU to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    User,
    Kernel,
    Idle,
}

/// What the handler of a system call leaves in the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done(i64),
    Restart(Restart),
}

#[derive(Clone, Debug)]
pub struct ModelFrame {
    pub user: bool,
    pub irqs: bool,
    pub number: isize,
    pub result: i64,
    pub restart: Option<Restart>,
    /// How often it was prepared for a return of its own.
    pub prepared: usize,
}

impl ModelFrame {
    pub fn syscall(number: isize) -> Self {
        Self {
            user: true,
            irqs: true,
            number,
            result: 0,
            restart: None,
            prepared: 0,
        }
    }
    pub fn user() -> Self {
        Self {
            user: true,
            irqs: true,
            number: -1,
            result: 0,
            restart: None,
            prepared: 0,
        }
    }
    pub fn kernel(irqs: bool) -> Self {
        Self {
            user: false,
            irqs,
            number: -1,
            result: 0,
            restart: None,
            prepared: 0,
        }
    }
}

pub const RESTART_SYSCALL: isize = 219;

impl Frame for ModelFrame {
    fn from_user(&self) -> bool {
        self.user
    }
    fn interrupts_enabled(&self) -> bool {
        self.irqs
    }
    fn syscall_number(&self) -> isize {
        self.number
    }
    fn preset_result(&mut self) {
        self.result = -38;
    }
    fn restart(&self) -> Option<Restart> {
        self.restart
    }
    fn rearm(&mut self, restart: Restart) {
        assert_eq!(self.restart.take(), Some(restart));
        self.result = 0;
        if restart == Restart::Block {
            self.number = RESTART_SYSCALL;
        }
    }
    fn prepare_return(&mut self) {
        self.prepared += 1;
    }
}

/// What a hook does when it is called next, as a test wants.
pub type Action = Box<dyn FnMut(&Model, &mut ModelFrame)>;

pub struct Model {
    pub work: WorkWords,
    pub log: RefCell<Vec<String>>,
    pub irqs_on: Cell<bool>,
    pub context: Cell<Context>,
    pub was_idle: Cell<bool>,
    pub instrumentable: Cell<bool>,
    pub preempt_count: Cell<u32>,
    pub on_irq_stack: Cell<bool>,
    /// The results of the next system calls.
    pub outcomes: RefCell<VecDeque<Outcome>>,
    /// The signal has a handler: delivery changes the frame to the handler's.
    pub handler: Cell<bool>,
    pub tracer: Cell<TraceVerdict>,
    pub seccomp: Cell<SyscallVerdict>,
    pub dispatches_user: Cell<bool>,
    pub rolled_back: Cell<bool>,
    /// Which call it is cannot be read.
    pub unreadable: Cell<bool>,
    pub not_made: Cell<bool>,
    /// The thread does not have the call.
    pub absent: Cell<bool>,
    pub rseq_faults: Cell<u32>,
    pub rseq_as_told: Cell<bool>,
    pub slice: Cell<bool>,
    /// How often each [`Crossing`] was counted.
    pub crossings: [Cell<u32>; Crossing::COUNT],
    /// Flags that other CPUs or interrupts set, one each time interrupts are turned on.
    pub arriving: RefCell<VecDeque<ThreadFlags>>,
    pub actions: RefCell<Vec<(&'static str, Action)>>,
}

impl Model {
    /// A CPU running user code.
    pub fn in_user() -> Self {
        Self {
            work: WorkWords::new(),
            log: RefCell::default(),
            irqs_on: Cell::new(false),
            context: Cell::new(Context::User),
            was_idle: Cell::new(false),
            instrumentable: Cell::new(false),
            preempt_count: Cell::new(0),
            on_irq_stack: Cell::new(false),
            outcomes: RefCell::default(),
            handler: Cell::new(false),
            tracer: Cell::new(TraceVerdict::Continue),
            seccomp: Cell::new(SyscallVerdict::Continue),
            dispatches_user: Cell::new(false),
            rolled_back: Cell::new(false),
            unreadable: Cell::new(false),
            not_made: Cell::new(false),
            absent: Cell::new(false),
            rseq_faults: Cell::new(0),
            rseq_as_told: Cell::new(true),
            slice: Cell::new(false),
            crossings: Default::default(),
            arriving: RefCell::default(),
            actions: RefCell::default(),
        }
    }
    /// A CPU running kernel code, interrupted just now.
    pub fn in_kernel() -> Self {
        let m = Self::in_user();
        m.context.set(Context::Kernel);
        m
    }
    /// How often something was counted.
    pub fn counted(&self, what: Crossing) -> u32 {
        self.crossings[what as usize].get()
    }
    /// A CPU in its idle loop, interrupted just now.
    pub fn in_idle() -> Self {
        let m = Self::in_user();
        m.context.set(Context::Idle);
        m
    }
    pub fn off(&self) -> IrqsOff {
        self.irqs_on.set(false);
        IrqsOff::established()
    }
    /// At the next call of hook `name`, runs `f` once.
    pub fn at(&self, name: &'static str, f: impl FnMut(&Model, &mut ModelFrame) + 'static) {
        self.actions.borrow_mut().push((name, Box::new(f)));
    }
    pub fn take_log(&self) -> Vec<String> {
        self.log.take()
    }
    pub fn say(&self, what: impl Into<String>) {
        self.log.borrow_mut().push(what.into());
    }
    fn act(&self, name: &'static str, frame: &mut ModelFrame) {
        let found = {
            let mut actions = self.actions.borrow_mut();
            actions
                .iter()
                .position(|(n, _)| *n == name)
                .map(|i| actions.remove(i))
        };
        if let Some((_, mut f)) = found {
            f(self, frame);
        }
    }
    /// A hook that may be traced: RCU must be watching, and instrumentation open.
    fn traced(&self, what: &str) {
        assert_eq!(
            self.context.get(),
            Context::Kernel,
            "{what} while RCU does not watch"
        );
        assert!(
            self.instrumentable.get(),
            "{what} outside the instrumentable part"
        );
        self.say(what);
    }
    /// A hook that must not be traced.
    fn quiet(&self, what: &str) {
        assert!(!self.irqs_on.get(), "{what} with interrupts on");
        assert!(
            !self.instrumentable.get(),
            "{what} inside the instrumentable part"
        );
        self.say(what);
    }
    fn with_irqs(&self, what: &str) {
        assert!(self.irqs_on.get(), "{what} with interrupts off");
        self.traced(what);
    }
    fn without_irqs(&self, what: &str) {
        assert!(!self.irqs_on.get(), "{what} with interrupts on");
        self.traced(what);
    }
    /// What must be true whenever user mode is entered.
    pub fn check_user(&self) {
        assert_eq!(self.context.get(), Context::User);
        assert!(!self.instrumentable.get());
        assert!(
            !self.irqs_on.get(),
            "the stub restores the interrupt state, nobody else"
        );
        let left = self
            .work
            .flags()
            .intersection(ThreadFlags::EXIT_WORK | ThreadFlags::RSEQ);
        assert!(left.is_empty(), "reached user mode with {left:?} set");
        assert_eq!(self.preempt_count.get(), 0);
        assert!(!self.on_irq_stack.get());
    }
}

impl Processor for Model {
    type Frame = ModelFrame;

    fn irqs_enable(&self, off: IrqsOff) {
        let IrqsOff { .. } = off;
        assert!(!self.irqs_on.replace(true));
        // Interrupts that were held up arrive now.
        let flags = self.arriving.borrow_mut().pop_front();
        if let Some(flags) = flags {
            self.work.set(flags);
        }
    }
    fn irqs_disable(&self) -> IrqsOff {
        assert!(self.irqs_on.replace(false));
        IrqsOff::established()
    }
    fn on_interrupt_stack<R>(&self, _: &IrqsOff, f: impl FnOnce() -> R) -> R {
        assert!(!self.irqs_on.get());
        let nested = self.on_irq_stack.replace(true);
        let r = f();
        self.on_irq_stack.set(nested);
        r
    }
    fn hardirq_enter(&self, _: &InKernel) {
        self.without_irqs("hardirq_enter");
        self.preempt_count.set(self.preempt_count.get() + 0x10000);
    }
    fn hardirq_exit(&self, _: &InKernel) {
        self.without_irqs("hardirq_exit");
        self.preempt_count.set(self.preempt_count.get() - 0x10000);
    }
    fn preemptible(&self) -> bool {
        self.preempt_count.get() == 0
    }
    fn preempt_schedule(&self, irqs: IrqsOff, _: &InKernel) -> IrqsOff {
        self.without_irqs("preempt");
        assert_eq!(self.preempt_count.get(), 0);
        self.work.clear(ThreadFlags::RESCHED);
        irqs
    }
}

impl Observers for Model {
    fn count(&self, what: Crossing, _: &InKernel) {
        assert!(
            self.instrumentable.get(),
            "{what:?} is counted where code may not be instrumented"
        );
        let counter = &self.crossings[what as usize];
        counter.set(counter.get() + 1);
    }
    fn lockdep_irqs_off(&self) {
        // In the kernel the interrupted code may have been instrumentable; only the order matters here.
        self.instrumentable.set(false);
        self.quiet("lockdep_off");
    }
    fn lockdep_sys_exit(&self, _: &InKernel) {
        self.without_irqs("lockdep_user");
    }
    fn lockdep_irqs_on_prepare(&self) {
        assert!(!self.irqs_on.get());
        self.say("lockdep_prepare");
    }
    fn lockdep_irqs_on(&self) {
        self.quiet("lockdep_on");
    }
    fn context_user_exit(&self) {
        assert_eq!(self.context.replace(Context::Kernel), Context::User);
        self.quiet("user_exit");
    }
    fn context_user_enter(&self) {
        assert_eq!(self.context.replace(Context::User), Context::Kernel);
        self.quiet("user_enter");
    }
    fn context_irq_enter_if_idle(&self) -> bool {
        self.quiet("irq_enter");
        self.context.replace(Context::Kernel) == Context::Idle
    }
    fn context_irq_exit(&self) {
        assert_eq!(self.context.replace(Context::Idle), Context::Kernel);
        self.quiet("irq_exit");
    }
    fn context_irq_check_tick(&self, _: &InKernel) {
        self.without_irqs("check_tick");
    }
    fn nmi_enter(&self, _: &ModelFrame) -> u32 {
        self.say("nmi_enter");
        7
    }
    fn nmi_exit(&self, _: &ModelFrame, state: u32) {
        assert_eq!(state, 7);
        self.say("nmi_exit");
    }
    fn trace_irqs_off(&self, _: &InKernel) {
        self.without_irqs("trace_off");
    }
    fn trace_irqs_on(&self, _: &InKernel) {
        self.without_irqs("trace_on");
    }
    fn instrumentation_begin(&self, _: &InKernel) {
        assert!(!self.instrumentable.replace(true));
    }
    fn instrumentation_end(&self) {
        assert!(self.instrumentable.replace(false));
    }
}

impl ThreadWork for Model {
    fn work(&self) -> &WorkWords {
        &self.work
    }
    fn schedule(&self, _: &InKernel) {
        self.with_irqs("schedule");
        self.work.clear(ThreadFlags::RESCHED);
    }
    fn grant_slice_extension(&self, irqs: IrqsOff, _: &InKernel) -> (IrqsOff, bool) {
        self.without_irqs("slice");
        assert!(self.work.flags().may_put_off());
        let granted = self.slice.take();
        if granted {
            self.work.clear(ThreadFlags::NEED_RESCHED_LAZY);
        }
        (irqs, granted)
    }
    fn patch_pending(&self, _: &InKernel) {
        self.with_irqs("patch");
        self.work.clear(ThreadFlags::PATCH_PENDING);
    }
    fn signals(&self, frame: &mut ModelFrame, _: Cause, _: &InKernel) {
        self.with_irqs("signals");
        self.work.clear(ThreadFlags::SIGPENDING);
        if self.handler.take() {
            // The handler's frame belongs to no system call.
            frame.restart = None;
            frame.number = -1;
        }
        self.act("signals", frame);
    }
    fn notify_resume(&self, frame: &mut ModelFrame, _: &InKernel) {
        self.with_irqs("notify_resume");
        self.act("notify_resume", frame);
    }
    fn rseq_again(&self, _: &IrqsOff) -> bool {
        self.without_irqs("rseq again");
        let quick = self.rseq_as_told.get();
        if quick {
            self.work.clear(ThreadFlags::RSEQ_AGAIN);
        }
        quick
    }
    fn rseq_exit(&self, _: &mut ModelFrame, _: Cause, _: &IrqsOff) -> bool {
        self.without_irqs("rseq");
        let faults = self.rseq_faults.get();
        if faults > 0 {
            self.rseq_faults.set(faults - 1);
            return false;
        }
        self.work.clear(ThreadFlags::ANY_RSEQ);
        true
    }
    fn debug_exit(&self, _: &IrqsOff) {
        self.without_irqs("debug");
    }
    fn finish_fork(&self, _: &mut ModelFrame, _: &InKernel) {
        // The switch is complete: interrupts go on.
        self.irqs_on.set(true);
        self.with_irqs("finish_fork");
    }
}

impl CallWork for Model {
    fn dispatch(&self, frame: &mut ModelFrame, number: isize, _: &InKernel) {
        self.with_irqs(&format!("dispatch {number}"));
        match self.outcomes.borrow_mut().pop_front().unwrap_or(Outcome::Done(0)) {
            Outcome::Done(result) => {
                frame.result = result;
                frame.restart = None;
            }
            Outcome::Restart(restart) => frame.restart = Some(restart),
        }
        self.act("dispatch", frame);
    }
    fn old_abi(&self, frame: &mut ModelFrame) -> bool {
        self.with_irqs("old_abi");
        self.act("old_abi", frame);
        self.not_made.set(self.unreadable.take());
        !self.not_made.get()
    }
    fn was_not_made(&self, _: &ModelFrame) -> bool {
        self.not_made.get()
    }
    fn view(&self, frame: &mut ModelFrame, number: isize) -> bool {
        self.with_irqs(&format!("view {number}"));
        if self.absent.get() {
            frame.result = -38;
        }
        !self.absent.get()
    }
    fn user_dispatch(&self, frame: &mut ModelFrame) -> bool {
        self.with_irqs("sud");
        assert_eq!(frame.result, 0, "user dispatch sees the frame untouched");
        let rolled = self.dispatches_user.take();
        self.rolled_back.set(rolled);
        rolled
    }
    fn user_dispatch_rolled_back(&self) -> bool {
        self.rolled_back.take()
    }
    fn rseq_slice_end(&self, _: &mut ModelFrame) {
        self.with_irqs("slice_end");
    }
    fn trace_enter(&self, frame: &mut ModelFrame) -> TraceVerdict {
        self.with_irqs(&format!("trace_enter {}", frame.number));
        self.act("trace_enter", frame);
        self.tracer.get()
    }
    fn seccomp(&self, frame: &mut ModelFrame) -> SyscallVerdict {
        self.with_irqs(&format!("seccomp {}", frame.number));
        self.act("seccomp", frame);
        self.seccomp.get()
    }
    fn tracepoint_enter(&self, frame: &mut ModelFrame, number: isize) {
        self.with_irqs(&format!("sys_enter {number}"));
        self.act("sys_enter", frame);
    }
    fn audit_enter(&self, _: &ModelFrame) {
        self.with_irqs("audit_enter");
    }
    fn audit_exit(&self, _: &ModelFrame) {
        self.with_irqs("audit_exit");
    }
    fn tracepoint_exit(&self, _: &mut ModelFrame) {
        self.with_irqs("sys_exit");
    }
    fn trace_exit(&self, _: &mut ModelFrame, step: bool) {
        self.with_irqs(if step { "trace_exit step" } else { "trace_exit" });
    }
}

/// One system call of the model's thread; returns the frame.
pub fn run_syscall(m: &Model, number: isize) -> ModelFrame {
    let mut frame = ModelFrame::syscall(number);
    limen_entry::syscall(m, &mut frame, m.off());
    m.check_user();
    frame
}

/// All bits for the way in.
pub const ALL_WORK: SyscallWork = SyscallWork::all();
