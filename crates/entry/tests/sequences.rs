//! Random sequences of all that can happen to a thread, run on the model kernel, whose hooks check when they
//! are called.

mod common;

use common::{Model, ModelFrame, Outcome};
use limen_entry::token::IrqsOff;
use limen_entry::{FaultIrqs, SyscallVerdict, SyscallWork, ThreadFlags, TraceVerdict};
use limen_linux_abi::Restart;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Event {
    Syscall {
        number: isize,
        outcomes: Vec<Outcome>,
        handler: bool,
    },
    Interrupt {
        flags: u32,
        idle_slice: bool,
    },
    Fault {
        flags: u32,
        off: bool,
    },
    Nmi,
    Nested {
        flags: u32,
    },
    Fork,
    SetWork(u32),
    SetFlags(u32),
    Arriving(Vec<u32>),
    RseqFaults(u32),
    Tracer(bool),
    Seccomp(bool),
    Dispatch,
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        any::<i64>().prop_map(Outcome::Done),
        prop_oneof![
            Just(Restart::Sys),
            Just(Restart::NoIntr),
            Just(Restart::NoHand),
            Just(Restart::Block)
        ]
        .prop_map(Outcome::Restart),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (-1isize..450, prop::collection::vec(outcome(), 0..4), any::<bool>())
            .prop_map(|(number, outcomes, handler)| Event::Syscall { number, outcomes, handler }),
        2 => (any::<u32>(), any::<bool>()).prop_map(|(flags, idle_slice)| Event::Interrupt { flags,
        idle_slice }),
        2 => (any::<u32>(), any::<bool>()).prop_map(|(flags, off)| Event::Fault { flags, off }),
        1 => Just(Event::Nmi),
        1 => any::<u32>().prop_map(|flags| Event::Nested { flags }),
        1 => Just(Event::Fork),
        2 => any::<u32>().prop_map(Event::SetWork),
        2 => any::<u32>().prop_map(Event::SetFlags),
        2 => prop::collection::vec(any::<u32>(), 0..5).prop_map(Event::Arriving),
        1 => (0u32..4).prop_map(Event::RseqFaults),
        1 => any::<bool>().prop_map(Event::Tracer),
        1 => any::<bool>().prop_map(Event::Seccomp),
        1 => Just(Event::Dispatch),
    ]
}

fn flags(bits: u32) -> ThreadFlags {
    ThreadFlags::from_bits_truncate(bits)
}

fn run(m: &Model, event: Event) {
    match event {
        Event::Syscall {
            number,
            outcomes,
            handler,
        } => {
            m.handler.set(handler);
            m.outcomes.borrow_mut().extend(outcomes);
            // A call that asks for a restart was interrupted by a signal.
            m.work.set(ThreadFlags::SIGPENDING);
            common::run_syscall(m, number);
            m.outcomes.borrow_mut().clear();
        }
        Event::Interrupt {
            flags: bits,
            idle_slice,
        } => {
            m.slice.set(idle_slice);
            limen_entry::interrupt(m, &mut ModelFrame::user(), m.off(), |_| {
                m.work.set(flags(bits));
            });
            m.check_user();
        }
        Event::Fault { flags: bits, off } => {
            let mode = if off {
                FaultIrqs::Off
            } else {
                FaultIrqs::AsInterrupted
            };
            limen_entry::fault(m, &mut ModelFrame::user(), m.off(), mode, |_| {
                m.work.set(flags(bits));
            });
            m.check_user();
        }
        Event::Nmi => {
            let before = m.work.flags();
            limen_entry::nmi(m, &mut ModelFrame::user(), m.off(), |_| {});
            assert_eq!(m.work.flags(), before);
        }
        Event::Nested { flags: bits } => {
            m.at("dispatch", move |m, _| {
                m.irqs_on.set(false);
                limen_entry::interrupt(m, &mut ModelFrame::kernel(true), IrqsOff::established(), |_| {
                    m.work.set(flags(bits));
                });
                m.irqs_on.set(true);
                m.instrumentable.set(true);
            });
            // The action runs once, whether the call is cancelled or not.
            m.work.clear_syscall_work(SyscallWork::all());
            common::run_syscall(m, 1);
        }
        Event::Fork => {
            // The new thread starts in the kernel.
            m.context.set(common::Context::Kernel);
            limen_entry::return_from_fork(m, &mut ModelFrame::syscall(56));
            m.check_user();
        }
        Event::SetWork(bits) => {
            m.work.clear_syscall_work(SyscallWork::all());
            m.work.set_syscall_work(SyscallWork::from_bits_truncate(bits));
        }
        Event::SetFlags(bits) => {
            m.work.set(flags(bits));
        }
        Event::Arriving(list) => m.arriving.borrow_mut().extend(list.into_iter().map(flags)),
        Event::RseqFaults(n) => m.rseq_faults.set(n),
        Event::Tracer(go_on) => m.tracer.set(if go_on {
            TraceVerdict::Continue
        } else {
            TraceVerdict::Skip
        }),
        Event::Seccomp(go_on) => m.seccomp.set(if go_on {
            SyscallVerdict::Continue
        } else {
            SyscallVerdict::Skip
        }),
        Event::Dispatch => m.dispatches_user.set(true),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn user_mode_is_only_reached_with_nothing_left_to_do(events in prop::collection::vec(event(), 1..30)) {
        let m = Model::in_user();
        for event in events {
            run(&m, event);
        }
    }
}
