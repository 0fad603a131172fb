//! Traces that begin with the kernel (`kernel/src/ftrace/boot.rs`): what the files of tracefs then say.

use anyhow::{Result, bail};

use super::guest::Guest;
use super::{Context, Step, Verdict};
use crate::arch::Arch;

/// A guest: words of the command line, what the script asks, what it answers, and lines of the log.
struct Case {
    words: &'static str,
    asks: &'static str,
    answers: &'static str,
    log: &'static [&'static str],
}

const CASES: [Case; 3] = [
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
    },
    Case {
        words: "ftrace=function_graph ftrace_graph_filter=kernel_clone ftrace_graph_max_depth=2 \
                alloc_snapshot traceoff_after_boot",
        asks: "cat current_tracer set_graph_function max_graph_depth tracing_on; head -n 5 snapshot | grep \
               -o allocated",
        answers: "function_graph\nkernel_clone\n2\n0\nallocated\n",
        log: &[],
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
        let ran = guest.script(&script).run()?;
        if ran.text() != case.answers {
            bail!("{}: not as expected\n{}", case.words, ran.everything());
        }
        if let Some(line) = case.log.iter().find(|line| !ran.log.contains(*line)) {
            bail!(
                "{}: the log does not say {line:?}\n{}",
                case.words,
                ran.everything()
            );
        }
    }
    Ok(Verdict::Passed("tracers, functions, events, instances".into()))
}

/// The step of one architecture.
pub fn steps(arch: Arch) -> Vec<Step> {
    let step = Step::on(arch, "trace-boot", move |context| check(context, arch));
    vec![step.after(format!("boot-{arch}"))]
}
