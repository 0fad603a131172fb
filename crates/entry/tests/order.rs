//! The order of the steps, for each kind of entry and each kind of work, against the model kernel.

mod common;

use common::{ALL_WORK, Context, Model, ModelFrame, Outcome, RESTART_SYSCALL, run_syscall};
use limen_entry::{Crossing, FaultIrqs, SyscallVerdict, SyscallWork, ThreadFlags, ThreadWork, TraceVerdict};
use limen_linux_abi::Restart;
use std::cell::Cell;

const ENTER: [&str; 3] = ["lockdep_off", "user_exit", "trace_off"];
const EXIT: [&str; 5] = [
    "lockdep_user",
    "trace_on",
    "lockdep_prepare",
    "user_enter",
    "lockdep_on",
];

/// The steps between entry and exit, which must both be there, in this order.
fn between(m: &Model) -> Vec<String> {
    let log = m.take_log();
    let n = log.len();
    assert!(n >= ENTER.len() + EXIT.len(), "{log:?}");
    assert_eq!(log[..ENTER.len()], ENTER, "{log:?}");
    assert_eq!(log[n - EXIT.len()..], EXIT, "{log:?}");
    log[ENTER.len()..n - EXIT.len()].to_vec()
}

#[test]
fn a_plain_system_call() {
    let m = Model::in_user();
    m.outcomes.borrow_mut().push_back(Outcome::Done(42));
    assert_eq!(run_syscall(&m, 39).result, 42);
    assert_eq!(between(&m), ["dispatch 39"]);
    assert_eq!(
        m.crossings.iter().map(Cell::get).sum::<u32>(),
        m.counted(Crossing::Call)
    );
    assert_eq!(m.counted(Crossing::Call), 1);
}

#[test]
fn all_work_in_the_documented_order() {
    let m = Model::in_user();
    m.work.set_syscall_work(ALL_WORK.difference(SyscallWork::EMU));
    run_syscall(&m, 5);
    assert_eq!(
        between(&m),
        [
            "old_abi",
            "sud",
            "slice_end",
            "trace_enter 5",
            "seccomp 5",
            "sys_enter 5",
            "audit_enter",
            "view 5",
            "dispatch 5",
            "audit_exit",
            "sys_exit",
            "trace_exit step"
        ]
    );
}

#[test]
fn user_dispatch_hides_the_call_from_everybody() {
    let m = Model::in_user();
    m.work.set_syscall_work(ALL_WORK);
    m.dispatches_user.set(true);
    assert_eq!(run_syscall(&m, 5).result, 0);
    assert_eq!(between(&m), ["old_abi", "sud"]);
    // The mark has been cleared: the next call is visible again.
    run_syscall(&m, 6);
    assert!(between(&m).contains(&"audit_exit".into()));
}

#[test]
fn a_call_that_cannot_be_read_is_nobodys() {
    let m = Model::in_user();
    m.work.set_syscall_work(ALL_WORK);
    m.unreadable.set(true);
    run_syscall(&m, 5);
    assert_eq!(between(&m), ["old_abi"]);
}

#[test]
fn which_call_it_is_is_found_before_anybody_asks() {
    let m = Model::in_user();
    m.work
        .set_syscall_work(SyscallWork::OLD_ABI | SyscallWork::SECCOMP);
    m.at("old_abi", |_, f| f.number = 9);
    run_syscall(&m, 5);
    assert_eq!(between(&m), ["old_abi", "seccomp 9", "dispatch 9"]);
}

#[test]
fn a_view_is_asked_last() {
    let m = Model::in_user();
    m.work.set_syscall_work(SyscallWork::TRACE | SyscallWork::VIEW);
    m.absent.set(true);
    m.at("trace_enter", |_, f| f.number = 6);
    assert_eq!(run_syscall(&m, 5).result, -38);
    assert_eq!(between(&m), ["trace_enter 5", "view 6", "trace_exit"]);
}

#[test]
fn emulation_skips_the_call_and_reports_no_exit() {
    let m = Model::in_user();
    m.work
        .set_syscall_work(SyscallWork::EMU | SyscallWork::SECCOMP | SyscallWork::EXIT_TRAP);
    let frame = run_syscall(&m, 5);
    assert_eq!(between(&m), ["trace_enter 5"]);
    assert_eq!(frame.result, -38);
}

#[test]
fn emulation_is_decided_before_the_stop() {
    // The tracer turns emulation off while the task is stopped: this call is still skipped, the next one
    // runs.
    let m = Model::in_user();
    m.work.set_syscall_work(SyscallWork::EMU);
    m.at("trace_enter", |m, _| m.work.clear_syscall_work(SyscallWork::EMU));
    run_syscall(&m, 5);
    assert_eq!(between(&m), ["trace_enter 5"]);
    run_syscall(&m, 5);
    assert_eq!(between(&m), ["dispatch 5"]);
    // The opposite: if it is turned on during a stop for `PTRACE_SYSCALL`, this call is not skipped.
    m.work.set_syscall_work(SyscallWork::TRACE);
    m.at("trace_enter", |m, _| m.work.set_syscall_work(SyscallWork::EMU));
    run_syscall(&m, 5);
    assert!(between(&m).contains(&"dispatch 5".into()));
}

#[test]
fn a_tracer_changes_or_cancels_the_call() {
    let m = Model::in_user();
    m.work.set_syscall_work(SyscallWork::TRACE);
    m.at("trace_enter", |_, f| f.number = 77);
    run_syscall(&m, 5);
    assert_eq!(between(&m), ["trace_enter 5", "dispatch 77", "trace_exit"]);
    m.at("trace_enter", |_, f| {
        f.number = -1;
        f.result = 1234;
    });
    assert_eq!(run_syscall(&m, 5).result, 1234);
    assert_eq!(between(&m), ["trace_enter 5", "trace_exit"]);
    // Killed at the stop.
    m.tracer.set(TraceVerdict::Skip);
    run_syscall(&m, 5);
    assert_eq!(between(&m), ["trace_enter 5", "trace_exit"]);
}

#[test]
fn seccomp_and_tracepoints_see_what_the_tracer_left() {
    let m = Model::in_user();
    m.work
        .set_syscall_work(SyscallWork::TRACE | SyscallWork::SECCOMP | SyscallWork::TRACEPOINT);
    m.at("trace_enter", |_, f| f.number = 6);
    m.at("seccomp", |_, f| f.number = 7);
    m.at("sys_enter", |_, f| f.number = 8);
    run_syscall(&m, 5);
    assert_eq!(
        between(&m)[..4],
        ["trace_enter 5", "seccomp 6", "sys_enter 7", "dispatch 8"]
    );
    m.seccomp.set(SyscallVerdict::Skip);
    m.at("seccomp", |_, f| f.result = -1);
    assert_eq!(run_syscall(&m, 5).result, -1);
    assert_eq!(
        between(&m),
        ["trace_enter 5", "seccomp 5", "sys_exit", "trace_exit"]
    );
}

#[test]
fn each_flag_has_its_work_and_is_clear_afterwards() {
    let cases: &[(ThreadFlags, &[&str])] = &[
        (ThreadFlags::NEED_RESCHED, &["schedule"]),
        (ThreadFlags::NEED_RESCHED_LAZY, &["schedule"]),
        (ThreadFlags::PATCH_PENDING, &["patch"]),
        (ThreadFlags::SIGPENDING, &["signals"]),
        (ThreadFlags::NOTIFY_SIGNAL, &["signals"]),
        (ThreadFlags::NOTIFY_RESUME, &["notify_resume"]),
        (ThreadFlags::RSEQ, &["rseq"]),
        (ThreadFlags::RSEQ_AGAIN, &["rseq again"]),
        (ThreadFlags::RSEQ.union(ThreadFlags::RSEQ_AGAIN), &["rseq"]),
        (ThreadFlags::DEBUG, &["debug"]),
        (ThreadFlags::RETURN, &[]),
        (ThreadFlags::MEMDIE, &[]),
        (ThreadFlags::POLLING_NRFLAG, &[]),
        (ThreadFlags::RESTORE_SIGMASK, &[]),
    ];
    for (flag, work) in cases {
        let m = Model::in_user();
        m.work.set(*flag);
        run_syscall(&m, 1);
        let mut expected = vec!["dispatch 1".to_string()];
        expected.extend(work.iter().map(ToString::to_string));
        assert_eq!(between(&m), expected, "{flag:?}");
    }
}

#[test]
fn all_flags_at_once_in_order() {
    let m = Model::in_user();
    m.work.set(ThreadFlags::all());
    run_syscall(&m, 1);
    assert_eq!(
        between(&m),
        [
            "dispatch 1",
            "schedule",
            "patch",
            "signals",
            "notify_resume",
            "rseq",
            "debug"
        ]
    );
    // Each time.
    let frame = run_syscall(&m, 2);
    assert_eq!(between(&m), ["dispatch 2", "debug"]);
    assert_eq!(frame.prepared, 1);
}

#[test]
fn a_return_of_its_own_is_prepared_once_and_after_all_other_work() {
    let m = Model::in_user();
    m.work
        .set(ThreadFlags::RETURN | ThreadFlags::SIGPENDING | ThreadFlags::NEED_RESCHED);
    m.at("signals", |m, frame| {
        assert_eq!(frame.prepared, 0);
        m.work.set(ThreadFlags::NOTIFY_RESUME);
    });
    m.at("notify_resume", |_, frame| assert_eq!(frame.prepared, 0));
    assert_eq!(run_syscall(&m, 1).prepared, 1);
    m.work.clear(ThreadFlags::RETURN);
    assert_eq!(run_syscall(&m, 2).prepared, 0);
}

#[test]
fn work_that_makes_work_is_done_too() {
    let m = Model::in_user();
    m.work.set(ThreadFlags::NOTIFY_RESUME);
    m.at("notify_resume", |m, _| {
        m.work.set(ThreadFlags::SIGPENDING | ThreadFlags::NEED_RESCHED);
    });
    m.at("signals", |m, _| {
        m.work.set(ThreadFlags::RSEQ);
    });
    run_syscall(&m, 1);
    assert_eq!(
        between(&m),
        ["dispatch 1", "notify_resume", "schedule", "signals", "rseq"]
    );
}

#[test]
fn restarts_without_a_handler_stay_in_the_kernel() {
    for restart in [Restart::Sys, Restart::NoIntr, Restart::NoHand, Restart::Block] {
        let m = Model::in_user();
        m.work.set_syscall_work(SyscallWork::TRACE | SyscallWork::SECCOMP);
        m.outcomes.borrow_mut().push_back(Outcome::Restart(restart));
        m.outcomes.borrow_mut().push_back(Outcome::Done(7));
        m.at("dispatch", |m, _| {
            m.work.set(ThreadFlags::SIGPENDING);
        });
        assert_eq!(run_syscall(&m, 35).result, 7);
        let again = if restart == Restart::Block {
            RESTART_SYSCALL
        } else {
            35
        };
        assert_eq!(
            between(&m),
            [
                "trace_enter 35".to_string(),
                "seccomp 35".into(),
                "dispatch 35".into(),
                "trace_exit".into(),
                "signals".into(),
                format!("trace_enter {again}"),
                format!("seccomp {again}"),
                format!("dispatch {again}"),
                "trace_exit".into()
            ],
            "{restart:?}"
        );
        assert_eq!(m.counted(Crossing::Restart), 1);
    }
}

#[test]
fn a_handler_ends_the_restart() {
    for restart in [Restart::Sys, Restart::NoIntr, Restart::NoHand, Restart::Block] {
        let m = Model::in_user();
        m.outcomes.borrow_mut().push_back(Outcome::Restart(restart));
        m.work.set(ThreadFlags::SIGPENDING);
        m.handler.set(true);
        run_syscall(&m, 35);
        assert_eq!(between(&m), ["dispatch 35", "signals"]);
        assert_eq!(m.counted(Crossing::Restart), 0);
    }
}

#[test]
fn many_restarts_in_a_row() {
    let m = Model::in_user();
    for _ in 0..5 {
        m.outcomes.borrow_mut().push_back(Outcome::Restart(Restart::Sys));
        m.at("dispatch", |m, _| {
            m.work.set(ThreadFlags::SIGPENDING);
        });
    }
    run_syscall(&m, 35);
    assert_eq!(m.counted(Crossing::Restart), 5);
    assert_eq!((m.counted(Crossing::Call), m.counted(Crossing::Turn)), (1, 5));
    assert_eq!(between(&m).iter().filter(|s| *s == "dispatch 35").count(), 6);
}

#[test]
fn rseq_faults_are_retried_with_interrupts_on() {
    let m = Model::in_user();
    m.work.set(ThreadFlags::RSEQ);
    m.rseq_faults.set(3);
    run_syscall(&m, 1);
    assert_eq!(
        between(&m),
        [
            "dispatch 1",
            "rseq",
            "notify_resume",
            "rseq",
            "notify_resume",
            "rseq",
            "notify_resume",
            "rseq"
        ]
    );
}

#[test]
fn a_quick_rseq_that_is_not_leads_to_the_other() {
    for (flags, order) in [
        (
            ThreadFlags::RSEQ_AGAIN,
            vec!["dispatch 1", "rseq again", "rseq again", "rseq"],
        ),
        (
            ThreadFlags::RSEQ_AGAIN | ThreadFlags::NEED_RESCHED,
            vec!["dispatch 1", "schedule", "rseq again", "rseq"],
        ),
    ] {
        let m = Model::in_user();
        m.work.set(flags);
        m.rseq_as_told.set(false);
        run_syscall(&m, 1);
        assert_eq!(between(&m), order, "{flags:?}");
        assert!(!m.work.has(ThreadFlags::ANY_RSEQ));
    }
}

#[test]
fn an_interrupt_from_user_mode() {
    let m = Model::in_user();
    m.work.set(ThreadFlags::RSEQ);
    let mut frame = ModelFrame::user();
    limen_entry::interrupt(&m, &mut frame, m.off(), |_| {
        assert!(m.on_irq_stack.get());
        m.say("handler");
        m.work.set(ThreadFlags::NEED_RESCHED);
    });
    let counted = |what| m.counted(what);
    assert_eq!(
        (counted(Crossing::Interrupt), counted(Crossing::Reschedule)),
        (1, 1)
    );
    assert_eq!((counted(Crossing::Call), counted(Crossing::UserFault)), (0, 0));
    m.check_user();
    assert_eq!(
        between(&m),
        ["hardirq_enter", "handler", "hardirq_exit", "schedule", "rseq"]
    );
}

#[test]
fn a_slice_extension_defers_a_lazy_reschedule_only_if_nothing_else_is_due() {
    let lazy = ThreadFlags::NEED_RESCHED_LAZY;
    let m = Model::in_user();
    let scheduled = || m.take_log().contains(&"schedule".into());
    let interrupted = |flags| {
        m.slice.set(true);
        m.work.set(flags);
        limen_entry::interrupt(&m, &mut ModelFrame::user(), m.off(), |_| {});
        m.check_user();
        scheduled()
    };
    assert!(!interrupted(lazy));
    assert!(!interrupted(lazy | ThreadFlags::RSEQ), "that comes anyway");
    for flag in ThreadFlags::EXIT_WORK.difference(lazy).iter() {
        assert!(interrupted(lazy | flag), "{flag:?}");
    }
    assert!(interrupted(ThreadFlags::NEED_RESCHED), "that cannot wait");
    m.slice.set(true);
    m.work.set(lazy);
    run_syscall(&m, 1);
    assert!(scheduled(), "system calls don't defer");
}

#[test]
fn an_interrupt_from_kernel_mode_preempts_when_it_may() {
    let log = |flags, count, irqs| {
        let m = Model::in_kernel();
        m.work.set(flags);
        m.preempt_count.set(count);
        limen_entry::interrupt(&m, &mut ModelFrame::kernel(irqs), m.off(), |_| {});
        assert_eq!(m.context.get(), Context::Kernel);
        m.take_log().contains(&"preempt".into())
    };
    assert!(log(ThreadFlags::NEED_RESCHED, 0, true));
    assert!(!log(ThreadFlags::NEED_RESCHED, 1, true), "a lock is held");
    assert!(!log(ThreadFlags::NEED_RESCHED, 0, false), "interrupts were off");
    assert!(
        !log(ThreadFlags::NEED_RESCHED_LAZY, 0, true),
        "lazy waits for user mode"
    );
    assert!(!log(ThreadFlags::SIGPENDING, 0, true));
}

#[test]
fn an_interrupt_of_the_idle_loop_tells_rcu_and_never_preempts() {
    let m = Model::in_idle();
    m.work.set(ThreadFlags::NEED_RESCHED);
    limen_entry::interrupt(&m, &mut ModelFrame::kernel(true), m.off(), |_| m.say("handler"));
    assert_eq!(m.context.get(), Context::Idle);
    assert_eq!(
        m.take_log(),
        [
            "lockdep_off",
            "irq_enter",
            "trace_off",
            "hardirq_enter",
            "handler",
            "hardirq_exit",
            "trace_on",
            "lockdep_prepare",
            "irq_exit",
            "lockdep_on"
        ]
    );
}

#[test]
fn a_kernel_context_with_interrupts_off_stays_so() {
    let m = Model::in_kernel();
    limen_entry::fault(
        &m,
        &mut ModelFrame::kernel(false),
        m.off(),
        FaultIrqs::AsInterrupted,
        |_| {
            assert!(!m.irqs_on.get());
        },
    );
    assert_eq!(
        m.take_log(),
        ["lockdep_off", "irq_enter", "check_tick", "trace_off"]
    );
}

#[test]
fn fault_handlers_run_with_the_interrupts_of_the_faulting_context() {
    let m = Model::in_user();
    limen_entry::fault(
        &m,
        &mut ModelFrame::user(),
        m.off(),
        FaultIrqs::AsInterrupted,
        |_| {
            assert!(m.irqs_on.get());
            assert!(!m.on_irq_stack.get());
            m.say("fault");
        },
    );
    m.check_user();
    assert_eq!(between(&m), ["fault"]);
    limen_entry::fault(&m, &mut ModelFrame::user(), m.off(), FaultIrqs::Off, |_| {
        assert!(!m.irqs_on.get())
    });
    m.check_user();
}

#[test]
fn an_interrupt_inside_a_fault_inside_a_system_call() {
    let m = Model::in_user();
    m.at("dispatch", |m, _| {
        // A fault on user memory in the middle of the call ...
        m.irqs_on.set(false);
        limen_entry::fault(
            m,
            &mut ModelFrame::kernel(true),
            limen_entry::token::IrqsOff::established(),
            FaultIrqs::AsInterrupted,
            |_| {
                // ... and an interrupt in its handler, which wants the thread to be rescheduled.
                m.irqs_on.set(false);
                limen_entry::interrupt(
                    m,
                    &mut ModelFrame::kernel(true),
                    limen_entry::token::IrqsOff::established(),
                    |_| {
                        m.work.set(ThreadFlags::NEED_RESCHED);
                    },
                );
                m.irqs_on.set(true);
                m.instrumentable.set(true);
            },
        );
        m.irqs_on.set(true);
        m.instrumentable.set(true);
    });
    run_syscall(&m, 9);
    let log = m.take_log();
    assert_eq!(log.iter().filter(|s| *s == "preempt").count(), 1);
    assert_eq!(log.iter().filter(|s| *s == "lockdep_off").count(), 3);
    assert_eq!(log.iter().filter(|s| *s == "lockdep_on").count(), 3);
}

#[test]
fn an_nmi_does_no_exit_work() {
    let m = Model::in_user();
    m.work.set(ThreadFlags::all());
    let before = m.work.flags();
    limen_entry::nmi(&m, &mut ModelFrame::user(), m.off(), |_| m.say("handler"));
    assert_eq!(m.take_log(), ["nmi_enter", "handler", "nmi_exit"]);
    assert_eq!(m.work.flags(), before);
}

#[test]
fn a_new_thread_leaves_like_a_system_call() {
    let m = Model::in_kernel();
    m.work.set_syscall_work(SyscallWork::TRACE);
    m.work.set(ThreadFlags::RSEQ | ThreadFlags::SIGPENDING);
    let mut frame = ModelFrame::syscall(57);
    limen_entry::return_from_fork(&m, &mut frame);
    m.check_user();
    let log = m.take_log();
    assert_eq!(log[..4], ["finish_fork", "trace_exit", "signals", "rseq"]);
    assert_eq!(log[4..], EXIT);
}

#[test]
fn flags_that_arrive_whenever_interrupts_go_on_are_all_seen() {
    let m = Model::in_user();
    for flag in [
        ThreadFlags::NEED_RESCHED,
        ThreadFlags::SIGPENDING,
        ThreadFlags::NOTIFY_RESUME,
        ThreadFlags::PATCH_PENDING,
    ] {
        m.arriving.borrow_mut().push_back(flag);
    }
    run_syscall(&m, 1);
    // The first flag arrives during the call, the others during the passes of the loop.
    assert_eq!(
        between(&m),
        ["dispatch 1", "schedule", "signals", "notify_resume", "patch"]
    );
    let IrqsOff { .. } = m.off();
    let _ = m.work();
}

use limen_entry::token::IrqsOff;
