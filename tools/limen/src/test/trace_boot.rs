//! Words of the command line about traces (`kernel/src/ftrace/boot.rs`, `kernel/src/tracing`): what the files
//! of tracefs and the log then say, also when the kernel panics.

use anyhow::{Result, bail};

use super::guest::Guest;
use super::modules::with_modules;
use super::{Context, Step, Verdict};
use crate::arch::Arch;
use crate::status;

/// A guest: words of the command line, what the script asks, what it answers, and lines of the log.
struct Case {
    words: &'static str,
    asks: &'static str,
    answers: &'static str,
    log: &'static [&'static str],
    /// What the log must not say.
    not: &'static [&'static str],
    /// How it ends.
    status: i32,
}

/// The kernel of a guest that has written into its trace panics.
const PANIC: &str = "echo marked >trace_marker; sleep 1; echo c >/proc/sysrq-trigger; sleep 5";

const CASES: [Case; 7] = [
    Case {
        words: "ftrace=function ftrace_filter=schedule,kernel_clone ftrace_notrace=schedule,none_such \
                trace_event=sched:sched_switch trace_instance=own,sched:sched_wakeup,irq:none_such",
        asks: "cat current_tracer set_ftrace_filter set_ftrace_notrace events/sched/sched_switch/enable; ls \
               instances; cd instances/own; cat current_tracer events/sched/sched_wakeup/enable \
               events/sched/sched_switch/enable; cd ../..; grep -c ' schedule <-' trace; grep -q \
               ' kernel_clone <-' trace && echo clone",
        answers: "function\nkernel_clone\nschedule\nschedule\n1\nown\nnop\n1\n0\n0\nclone\n",
        log: &[
            "ftrace: there is no function none_such",
            "trace_instance own: there is no event irq:none_such",
        ],
        not: &[],
        status: 0,
    },
    Case {
        words: "ftrace=function_graph ftrace_graph_filter=kernel_clone ftrace_graph_max_depth=2 \
                alloc_snapshot traceoff_after_boot",
        asks: "cat current_tracer set_graph_function max_graph_depth tracing_on; head -n 5 snapshot | grep \
               -o allocated",
        answers: "function_graph\nkernel_clone\n2\n0\nallocated\n",
        log: &[],
        not: &[],
        status: 0,
    },
    Case {
        words: "ftrace=none_such ftrace_graph_max_depth=many trace_instance=a/b",
        asks: "cat current_tracer max_graph_depth; ls instances",
        answers: "nop\n0\n",
        log: &[
            "ftrace: there is no tracer none_such; known are ",
            "ftrace_graph_max_depth: cannot be many",
            "trace_instance: cannot be a/b",
        ],
        not: &[],
        status: 0,
    },
    Case {
        words: "ftrace_dump_on_oops=1,own=2,none_such trace_event=sched:sched_process_exec \
                trace_instance=own,sched:sched_switch",
        asks: PANIC,
        answers: "",
        log: &[
            "Dumping ftrace buffer:",
            "---------------------------------",
            "us : sched_process_exec: filename=",
            " tracing_mark_write: marked",
            "Dumping ftrace instance own buffer:",
            " sched_switch: prev_comm=",
            "Instance none_such not found",
            "---[ end Kernel panic",
        ],
        not: &["buffer empty", "somebody reads"],
        status: status::PANIC,
    },
    Case {
        words: "ftrace_dump_on_oops",
        asks: "cd /proc/sys/kernel; cat ftrace_dump_on_oops; echo orig_cpu >ftrace_dump_on_oops; cat \
               ftrace_dump_on_oops; echo 0 >ftrace_dump_on_oops; cat ftrace_dump_on_oops; cd /t; echo marked \
               >trace_marker; sleep 1; echo c >/proc/sysrq-trigger; sleep 5",
        answers: "1\norig_cpu\n0\n",
        log: &["---[ end Kernel panic"],
        not: &["Dumping ftrace"],
        status: status::PANIC,
    },
    Case {
        words: "tp_printk trace_event=sched:sched_process_exec",
        asks: "cd /proc/sys/kernel; cat tracepoint_printk traceoff_on_warning; env true; echo 0 \
               >tracepoint_printk; cat tracepoint_printk; env false; cat /t/tracing_on",
        answers: "1\n0\n0\n1\n",
        log: &["] sched_process_exec: filename="],
        not: &["/false"],
        status: 0,
    },
    Case {
        words: "traceoff_on_warning trace_event=sched:sched_process_exec",
        asks: "cd /proc/sys/kernel; echo 1 >tracepoint_printk; cat tracepoint_printk traceoff_on_warning; \
               cat /t/tracing_on; insmod /modules/bad.ko warns=1 2>/dev/null; cat /t/tracing_on; grep -c \
               'disable_trace_on_warning: Disabling tracing due to warning' /t/trace; \
               echo $(($(cat tainted) & 512))",
        answers: "0\n1\n1\n0\n1\n512\n",
        log: &["WARNING: bad warns"],
        not: &["] sched_process_exec: "],
        status: 0,
    },
];

fn check(context: &Context, arch: Arch) -> Result<Verdict> {
    for case in &CASES {
        let script = format!(
            "mkdir -p /t && mount -t tracefs none /t && cd /t; {}\n",
            case.asks
        );
        let guest = Guest::new(context, arch).smp(2).timeout(120);
        let guest = guest.option(format!("--append={}", case.words));
        let ran = with_modules(guest, arch)?.script(&script).run()?;
        if ran.text() != case.answers || ran.status != case.status {
            bail!("{}: not as expected\n{}", case.words, ran.everything());
        }
        if let Some(line) = case.not.iter().find(|line| ran.log.contains(*line)) {
            bail!("{}: the log says {line:?}\n{}", case.words, ran.everything());
        }
        if let Some(line) = case.log.iter().find(|line| !ran.log.contains(*line)) {
            bail!(
                "{}: the log does not say {line:?}\n{}",
                case.words,
                ran.everything()
            );
        }
    }
    Ok(Verdict::Passed(
        "tracers, functions, events, instances, panics, warnings".into(),
    ))
}

/// The step of one architecture.
pub fn steps(arch: Arch) -> Vec<Step> {
    let step = Step::on(arch, "trace-boot", move |context| check(context, arch));
    vec![
        step.after(format!("boot-{arch}"))
            .after(format!("modules-{arch}")),
    ]
}
