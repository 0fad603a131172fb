//! The interleavings of the work loop with other CPUs that set flags (all of them for one other CPU), under
//! the C11 memory model: no flag is ever lost. Run with `RUSTFLAGS="--cfg loom" cargo test -p limen-entry
//! --test interleavings`; without that configuration this file is empty.
//!
//! The model: a setter on another CPU sets a bit and then interrupts the CPU (`pending`). The CPU takes a
//! pending interrupt whenever its interrupts are on, and in user mode. When all have come to rest in user
//! mode, no bit may be set and each bit's work must have been done. The same model must also find the
//! mistakes in loops that are wrong in usual ways.

#![cfg(loom)]

use limen_entry::token::{InKernel, IrqsOff};
use limen_entry::{CallWork, Cause, Frame, Observers, Processor, ThreadFlags, ThreadWork, WorkWords};
use limen_linux_abi::Restart;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use std::cell::Cell;

struct Shared {
    work: WorkWords,
    /// An interrupt waits for the CPU.
    pending: AtomicBool,
    /// What the setter of `SIGPENDING` wrote before it set the bit.
    signal: AtomicBool,
}

struct Regs {
    user: bool,
}

impl Frame for Regs {
    fn from_user(&self) -> bool {
        self.user
    }
    fn interrupts_enabled(&self) -> bool {
        true
    }
    fn syscall_number(&self) -> isize {
        1
    }
    fn preset_result(&mut self) {}
    fn restart(&self) -> Option<Restart> {
        None
    }
    fn rearm(&mut self, _: Restart) {}
}

struct Cpu {
    shared: Arc<Shared>,
    scheduled: Cell<u32>,
    signals: Cell<u32>,
    saw_signal: Cell<bool>,
    nested: Cell<bool>,
}

impl Cpu {
    fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: shared.clone(),
            scheduled: Cell::new(0),
            signals: Cell::new(0),
            saw_signal: Cell::new(false),
            nested: Cell::new(false),
        }
    }
    /// Interrupts are on: a pending one arrives, in kernel mode.
    fn take_in_kernel(&self) {
        if !self.nested.get() && self.shared.pending.swap(false, Ordering::AcqRel) {
            self.nested.set(true);
            limen_entry::interrupt(self, &mut Regs { user: false }, IrqsOff::established(), |_| {});
            self.nested.set(false);
        }
    }
    /// In user mode: pending interrupts arrive until there is none.
    fn rest_in_user(&self) {
        while self.shared.pending.swap(false, Ordering::AcqRel) {
            limen_entry::interrupt(self, &mut Regs { user: true }, IrqsOff::established(), |_| {});
        }
    }
}

impl Processor for Cpu {
    type Frame = Regs;
    fn irqs_enable(&self, off: IrqsOff) {
        let IrqsOff { .. } = off;
        self.take_in_kernel();
    }
    fn irqs_disable(&self) -> IrqsOff {
        // The last moment before they are off.
        self.take_in_kernel();
        IrqsOff::established()
    }
    fn on_interrupt_stack<R>(&self, _: &IrqsOff, f: impl FnOnce() -> R) -> R {
        f()
    }
    fn preemptible(&self) -> bool {
        true
    }
    fn preempt_schedule(&self, irqs: IrqsOff, _: &InKernel) -> IrqsOff {
        self.shared.work.clear(ThreadFlags::RESCHED);
        self.scheduled.set(self.scheduled.get() + 1);
        irqs
    }
}

impl Observers for Cpu {}

impl CallWork for Cpu {
    fn dispatch(&self, _: &mut Regs, _: isize, _: &InKernel) {}
}

impl ThreadWork for Cpu {
    fn work(&self) -> &WorkWords {
        &self.shared.work
    }
    fn schedule(&self, _: &InKernel) {
        self.shared.work.clear(ThreadFlags::RESCHED);
        self.scheduled.set(self.scheduled.get() + 1);
    }
    fn signals(&self, _: &mut Regs, _: Cause, _: &InKernel) {
        self.shared.work.clear(ThreadFlags::SIGPENDING);
        self.signals.set(self.signals.get() + 1);
        // The thread that has seen the bit must see what the setter wrote before.
        self.saw_signal
            .set(self.saw_signal.get() | self.shared.signal.load(Ordering::Relaxed));
    }
    fn finish_fork(&self, _: &mut Regs, _: &InKernel) {}
}

/// Sets the bit and interrupts the CPU, as `wake` and the scheduler do.
fn set(shared: &Shared, flag: ThreadFlags) {
    if flag == ThreadFlags::SIGPENDING {
        shared.signal.store(true, Ordering::Relaxed);
    }
    shared.work.set(flag);
    // An exchange: the interrupt controller orders requests and acknowledgements of a line.
    shared.pending.swap(true, Ordering::AcqRel);
}

/// Runs `cpu_side` against setters of `flags`, each on a CPU of its own, in every interleaving.
fn explore(flags: &'static [ThreadFlags], cpu_side: fn(&Cpu)) {
    let mut model = loom::model::Builder::new();
    if flags.len() > 1 {
        // With three CPUs there are too many interleavings: only those with up to three involuntary switches
        // are visited.
        model.preemption_bound = Some(3);
    }
    model.check(move || {
        let shared = Arc::new(Shared {
            work: WorkWords::new(),
            pending: AtomicBool::new(false),
            signal: AtomicBool::new(false),
        });
        let setters: Vec<_> = flags
            .iter()
            .map(|&flag| {
                let shared = shared.clone();
                thread::spawn(move || set(&shared, flag))
            })
            .collect();
        let cpu = Cpu::new(&shared);
        cpu_side(&cpu);
        cpu.rest_in_user();
        for setter in setters {
            setter.join().unwrap();
        }
        // The interrupt for a bit that was set after the last check is still to come.
        cpu.rest_in_user();
        let left = shared.work.flags();
        assert!(left.is_empty(), "lost: {left:?}");
        assert_eq!(
            cpu.scheduled.get() > 0,
            flags.contains(&ThreadFlags::NEED_RESCHED),
            "a reschedule got lost"
        );
        assert_eq!(
            cpu.signals.get() > 0,
            flags.contains(&ThreadFlags::SIGPENDING),
            "a signal got lost"
        );
        assert_eq!(
            cpu.saw_signal.get(),
            flags.contains(&ThreadFlags::SIGPENDING),
            "a signal's data was not visible"
        );
    });
}

fn system_call(cpu: &Cpu) {
    limen_entry::syscall(cpu, &mut Regs { user: true }, IrqsOff::established());
}

#[test]
fn one_flag_and_a_system_call() {
    explore(&[ThreadFlags::NEED_RESCHED], system_call);
    explore(&[ThreadFlags::SIGPENDING], system_call);
}

#[test]
fn two_flags_from_two_cpus_and_a_system_call() {
    explore(&[ThreadFlags::NEED_RESCHED, ThreadFlags::SIGPENDING], system_call);
}

#[test]
fn a_flag_and_an_interrupt_from_user_mode() {
    explore(&[ThreadFlags::SIGPENDING], |cpu| {
        limen_entry::interrupt(cpu, &mut Regs { user: true }, IrqsOff::established(), |_| {});
    });
}

/// A wrong loop: clears everything that it has read with a plain store at the end.
fn stores_zero(cpu: &Cpu) {
    let flags = cpu.shared.work.flags();
    if flags.contains(ThreadFlags::NEED_RESCHED) {
        cpu.scheduled.set(1);
    }
    if flags.contains(ThreadFlags::SIGPENDING) {
        cpu.signals.set(1);
        cpu.saw_signal.set(cpu.shared.signal.load(Ordering::Relaxed));
    }
    // As if the word were not shared.
    let all = ThreadFlags::all();
    cpu.shared.work.clear(all);
}

/// A wrong loop: reads the flags before it turns interrupts off. An interrupt in between is handled as if its
/// bit had been seen.
fn reads_too_early(cpu: &Cpu) {
    let flags = cpu.shared.work.flags();
    if cpu.shared.pending.swap(false, Ordering::AcqRel) {
        // Interrupt in kernel mode: sees no reason to do anything, the exit will.
    }
    if flags.contains(ThreadFlags::NEED_RESCHED) {
        cpu.shared.work.clear(ThreadFlags::NEED_RESCHED);
        cpu.scheduled.set(1);
    }
}

/// A wrong loop: one pass only.
fn looks_once(cpu: &Cpu) {
    let flags = cpu.shared.work.flags();
    if flags.contains(ThreadFlags::SIGPENDING) {
        // Delivering takes a while, with interrupts on: the other CPU's interrupt is taken here ...
        cpu.shared.pending.swap(false, Ordering::AcqRel);
        cpu.shared.work.clear(ThreadFlags::SIGPENDING);
        cpu.signals.set(1);
        cpu.saw_signal.set(true);
    }
    // ... and its bit is never looked at.
}

/// A wrong handler: does the work first and clears the bit afterwards.
fn clears_after_the_work(cpu: &Cpu) {
    let work = &cpu.shared.work;
    if work.has(ThreadFlags::SIGPENDING | ThreadFlags::NEED_RESCHED) {
        cpu.signals.set(1);
        cpu.saw_signal.set(cpu.shared.signal.load(Ordering::Relaxed));
        cpu.shared.pending.swap(false, Ordering::AcqRel);
        work.clear(ThreadFlags::SIGPENDING | ThreadFlags::NEED_RESCHED);
    }
}

#[test]
#[should_panic]
fn storing_zero_is_caught() {
    explore(&[ThreadFlags::NEED_RESCHED, ThreadFlags::SIGPENDING], stores_zero);
}

#[test]
#[should_panic]
fn reading_too_early_is_caught() {
    explore(&[ThreadFlags::NEED_RESCHED], reads_too_early);
}

#[test]
#[should_panic]
fn looking_once_is_caught() {
    explore(&[ThreadFlags::SIGPENDING, ThreadFlags::NEED_RESCHED], looks_once);
}

#[test]
#[should_panic]
fn clearing_after_the_work_is_caught() {
    explore(
        &[ThreadFlags::SIGPENDING, ThreadFlags::NEED_RESCHED],
        clears_after_the_work,
    );
}
