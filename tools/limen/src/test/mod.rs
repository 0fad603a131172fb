//! `limen test`: runs everything that CI runs. Each step prints one line; independent steps run at the same
//! time. `steps` lists them; each file of this folder has one kind of steps.

mod again;
mod answers;
mod bench;
mod boots;
mod busybox;
mod cargo;
mod cases;
mod command;
mod debuggers;
mod errors;
mod flavour;
mod ftracetest;
pub mod guest;
mod hardened;
mod host;
mod licences;
mod lines;
mod memory;
mod modules;
mod nmi;
mod nohz;
mod oabi;
mod programs;
mod rcu;
mod rooms;
mod rseq;
mod seccomp;
pub mod selftests;
mod strace;
mod stress;
mod suites;
mod trace_boot;
mod trace_storm;
mod traps;
mod turns;
mod width;

pub use cargo::{checking_cargo, checking_path};

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::arch::Arch;
use crate::cli::TestOptions;

/// Data that all steps share.
pub struct Context {
    /// A Linux image to run the whole-system tests on instead of Limen.
    pub kernel: Option<PathBuf>,
    /// Debian's Linux is asked even where its answer is known, and its answer noted (`answers`).
    pub update_answers: bool,
}

/// The result of a step that did not fail.
pub enum Verdict {
    /// It passed; a summary of what was tested.
    Passed(String),
    /// It could not run here; why this is acceptable.
    Skipped(String),
}

type Work = Box<dyn Fn(&Context) -> Result<Verdict> + Send + Sync>;

/// One step.
pub struct Step {
    name: String,
    arch: Option<Arch>,
    /// `--quick` leaves it out.
    long: bool,
    /// Steps that must pass before this one runs.
    after: Vec<String>,
    /// If set, it runs only when asked for by name, and is skipped otherwise with this reason.
    by_name: bool,
    /// No other step runs at the same time.
    alone: bool,
    work: Work,
}

impl Step {
    /// A step of no architecture.
    pub fn new(name: &str, work: impl Fn(&Context) -> Result<Verdict> + Send + Sync + 'static) -> Step {
        Step {
            name: name.to_owned(),
            arch: None,
            long: false,
            after: Vec::new(),
            by_name: false,
            alone: false,
            work: Box::new(work),
        }
    }

    /// A step of one architecture, whose name is appended to the step's.
    pub fn on(
        arch: Arch,
        name: &str,
        work: impl Fn(&Context) -> Result<Verdict> + Send + Sync + 'static,
    ) -> Step {
        Step {
            arch: Some(arch),
            ..Step::new(&format!("{name}-{arch}"), work)
        }
    }

    /// Marks it as one that takes long.
    pub fn long(self) -> Step {
        Step { long: true, ..self }
    }

    /// No other step runs at the same time. For guests with work for four processors or more: if their
    /// virtual CPUs get too few of the host's processors, they mostly wait for a virtual CPU that is not
    /// running. Beside another step, such a step takes three to five times as long.
    pub fn alone(self) -> Step {
        Step { alone: true, ..self }
    }

    /// Makes it run only when asked for by name.
    fn by_name(self) -> Step {
        Step {
            by_name: true,
            ..self
        }
    }

    /// Makes it wait for another step, and be skipped when that one fails.
    pub fn after(mut self, name: impl Into<String>) -> Step {
        self.after.push(name.into());
        self
    }
}

/// All steps, in the order in which they start. Long chains come first, so that the run does not end with one
/// long step alone.
fn steps() -> Vec<Step> {
    let mut steps = cargo::first_steps();
    for arch in Arch::ALL {
        steps.extend(boots::first_steps(arch));
    }
    steps.extend(flavour::builds());
    for arch in Arch::ALL {
        steps.extend(busybox::steps(arch));
        steps.extend(host::debian_steps(arch));
        steps.extend(host::audit_steps(arch));
    }
    steps.extend(host::steps());
    for arch in Arch::ALL {
        steps.extend(programs::steps(arch));
        steps.extend(traps::steps(arch));
        steps.extend(oabi::steps(arch));
        steps.extend(errors::steps(arch));
        steps.extend(memory::steps(arch));
        steps.extend(modules::steps(arch));
        steps.extend(debuggers::steps(arch));
        steps.extend(strace::steps(arch));
        steps.extend(hardened::steps(arch));
        steps.extend(trace_boot::steps(arch));
        steps.extend(nmi::steps(arch));
        steps.extend(nohz::steps(arch));
        steps.extend(selftests::steps(arch));
        steps.extend(suites::steps(arch));
        steps.extend(rseq::steps(arch));
        steps.extend(seccomp::steps(arch));
        steps.extend(rcu::steps(arch));
        steps.extend(ftracetest::steps(arch));
        steps.extend(stress::steps(arch));
        steps.extend(trace_storm::steps(arch));
        steps.extend(boots::more_steps(arch));
        steps.extend(bench::steps(arch));
    }
    steps.extend(command::steps());
    steps.extend(cargo::last_steps());
    steps
        .into_iter()
        .map(|step| {
            if LENGTHY.contains(&step.name.as_str()) {
                step.by_name()
            } else {
                step
            }
        })
        .collect()
}

/// Steps that take too long for a run of all tests (`docs/testing.md` has them by kind).
const LENGTHY: &[&str] = &[
    "16k-abi-arm64",
    "16k-busybox-arm64",
    "16k-hostile-arm64",
    "16k-memory-pressure-arm64",
    "16k-threads-arm64",
    "64k-abi-powerpc64",
    "64k-busybox-arm64",
    "64k-busybox-powerpc64",
    "64k-hostile-arm64",
    "64k-hostile-powerpc64",
    "64k-memory-pressure-arm64",
    "64k-memory-pressure-powerpc64",
    "64k-threads-arm64",
    "64k-threads-powerpc64",
    "auditctl-arm",
    "auditctl-arm64",
    "auditctl-powerpc64",
    "build-16k-arm64",
    "build-64k-powerpc64",
    "build-lockdep-arm",
    "build-lockdep-arm64",
    "build-lockdep-powerpc64",
    "build-short-arm",
    "command-status-arm64",
    "command-status-powerpc64",
    "debian-programs-arm",
    "debian-programs-powerpc64",
    "debuggers-arm",
    "debuggers-arm64",
    "debuggers-powerpc64",
    "doc-kernel-arm",
    "doc-kernel-arm64",
    "doc-kernel-powerpc64",
    "errors-arm",
    "errors-arm64",
    "errors-powerpc64",
    "errors-x86_64",
    "fiq-arm64",
    "ftracetest-arm",
    "ftracetest-powerpc64",
    "hostile-arm64",
    "hostile-modules",
    "hostile-powerpc64",
    "lockdep-abi-arm",
    "lockdep-abi-arm64",
    "lockdep-abi-powerpc64",
    "lockdep-abi-x86_64",
    "lockdep-arm",
    "lockdep-arm64",
    "lockdep-busybox-arm",
    "lockdep-busybox-arm64",
    "lockdep-busybox-powerpc64",
    "lockdep-busybox-x86_64",
    "lockdep-modules-arm",
    "lockdep-modules-arm64",
    "lockdep-modules-powerpc64",
    "lockdep-oabi-arm",
    "lockdep-powerpc64",
    "map-long-arm",
    "map-long-arm64",
    "map-long-powerpc64",
    "map-long-x86_64",
    "memory-large-arm",
    "module-traces-arm64",
    "module-traces-powerpc64",
    "modules-long-arm",
    "modules-long-arm64",
    "modules-long-powerpc64",
    "modules-long-x86_64",
    "nohz-arm",
    "nohz-powerpc64",
    "perf-ftrace-arm",
    "perf-ftrace-powerpc64",
    "python-x86_64",
    "rcutorture-arm",
    "rcutorture-arm64",
    "rcutorture-long-arm",
    "rcutorture-long-arm64",
    "rcutorture-long-powerpc64",
    "rcutorture-long-x86_64",
    "rcutorture-powerpc64",
    "rseq-counts-arm",
    "rseq-counts-arm64",
    "rseq-counts-powerpc64",
    "rseq-counts-x86_64",
    "selftests-futex-arm",
    "selftests-futex-arm64",
    "selftests-futex-powerpc64",
    "selftests-newer-rseq-arm",
    "selftests-newer-rseq-arm64",
    "selftests-newer-rseq-powerpc64",
    "selftests-newer-rseq-x86_64",
    "selftests-powerpc-math-powerpc64",
    "selftests-rseq-arm",
    "selftests-rseq-arm64",
    "selftests-rseq-powerpc64",
    "selftests-rseq-x86_64",
    "selftests-seccomp-arm",
    "selftests-seccomp-arm64",
    "selftests-seccomp-powerpc64",
    "selftests-seccomp-x86_64",
    "selftests-timers-arm",
    "selftests-timers-arm64",
    "selftests-timers-powerpc64",
    "short-busybox-arm",
    "short-descriptors-arm",
    "short-traps-arm",
    "strace-long-arm",
    "strace-long-arm64",
    "strace-long-powerpc64",
    "strace-long-x86_64",
    "stress-ng-arm",
    "stress-ng-arm64",
    "stress-ng-lockdep-arm",
    "stress-ng-lockdep-arm64",
    "stress-ng-lockdep-powerpc64",
    "stress-ng-powerpc64",
    "stress-ng-x86_64",
    "trace-storm-arm",
    "trace-storm-arm64",
    "trace-storm-powerpc64",
    "trace-storm-x86_64",
    "tracer-long-arm",
    "tracer-long-arm64",
    "tracer-long-powerpc64",
    "tracer-long-x86_64",
];
const MINUTES: &str = "takes minutes of processor time; run by name";

/// The chosen steps, and the steps that they wait for, in order.
fn with_what_they_need(steps: Vec<Step>, chosen: impl Fn(&Step) -> bool) -> Vec<Step> {
    let mut wanted: Vec<bool> = steps.iter().map(chosen).collect();
    let mut again = true;
    while again {
        again = false;
        for i in 0..steps.len() {
            if wanted[i]
                && let Some(j) =
                    (0..steps.len()).find(|&j| !wanted[j] && steps[i].after.contains(&steps[j].name))
            {
                wanted[j] = true;
                again = true;
            }
        }
    }
    let mut wanted = wanted.into_iter();
    let mut steps = steps;
    steps.retain(|_| wanted.next() == Some(true));
    steps
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Passed,
    Failed,
    Skipped,
}

/// Runs the tests; returns the exit status.
pub fn test(options: &TestOptions) -> Result<i32> {
    let arches = Arch::chosen(options.arch);
    let steps = steps();
    // Of a name that a step has, no other steps are meant.
    let whole = |name: &String| steps.iter().any(|s| s.name == *name);
    let only: Vec<(&str, bool)> = options.only.iter().map(|o| (o.as_str(), whole(o))).collect();
    let named = |s: &Step| {
        let is = |&(name, whole): &(&str, bool)| {
            if whole {
                s.name == name
            } else {
                s.name.contains(name)
            }
        };
        only.is_empty() || only.iter().any(is)
    };
    let chosen =
        |s: &Step| s.arch.is_none_or(|a| arches.contains(&a)) && named(s) && !(options.quick && s.long);
    let steps = with_what_they_need(steps, chosen);
    if options.list {
        steps
            .iter()
            .for_each(|s| println!("{}{}", s.name, if s.long { "  (long)" } else { "" }));
        return Ok(0);
    }
    if steps.is_empty() {
        anyhow::bail!("no test of that name; limen test --list shows them");
    }
    let context = Context {
        kernel: options.kernel.clone(),
        update_answers: options.update_answers,
    };
    let index: BTreeMap<&str, usize> = steps
        .iter()
        .enumerate()
        .map(|(i, s)| (s.name.as_str(), i))
        .collect();
    let states = Mutex::new(vec![State::Waiting; steps.len()]);
    let changed = Condvar::new();
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| {
                while let Some((i, blocked)) = next(&steps, &index, &states, &changed) {
                    let began = Instant::now();
                    let chosen = !steps[i].by_name || !options.only.is_empty() || options.all;
                    let result = match &blocked {
                        _ if !chosen => Ok(Verdict::Skipped(MINUTES.to_owned())),
                        Some(why) => Ok(Verdict::Skipped(format!("{why} did not pass"))),
                        None => run(&steps[i], &context),
                    };
                    let state = report(&steps[i], &result, began.elapsed());
                    states.lock().unwrap_or_else(|e| e.into_inner())[i] = state;
                    changed.notify_all();
                }
            });
        }
    });
    let states = states.into_inner().unwrap_or_else(|e| e.into_inner());
    let count = |wanted: State| states.iter().filter(|s| **s == wanted).count();
    let failed: Vec<&str> = steps
        .iter()
        .zip(&states)
        .filter(|(_, s)| **s == State::Failed)
        .map(|(s, _)| s.name.as_str())
        .collect();
    println!("in {:.0} s", start.elapsed().as_secs_f64());
    if !failed.is_empty() {
        println!("failed: {}", failed.join(" "));
    }
    println!(
        "{} passed, {} failed, {} skipped",
        count(State::Passed),
        failed.len(),
        count(State::Skipped)
    );
    Ok(i32::from(!failed.is_empty()))
}

/// Runs a step's work. A panic is a failure of this step only: the others continue.
fn run(step: &Step, context: &Context) -> Result<Verdict> {
    let work = std::panic::AssertUnwindSafe(|| (step.work)(context));
    std::panic::catch_unwind(work).unwrap_or_else(|payload| {
        let said = payload.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| payload.downcast_ref::<&str>().copied());
        Err(anyhow::anyhow!(
            "the test panicked: {}",
            said.unwrap_or("without a word")
        ))
    })
}

/// Takes the next step that can run now; waits until there is one. If a step it waits for has failed, that
/// step's name is returned with it. `None` when all steps have been taken.
fn next(
    steps: &[Step],
    index: &BTreeMap<&str, usize>,
    states: &Mutex<Vec<State>>,
    changed: &Condvar,
) -> Option<(usize, Option<String>)> {
    let mut states = states.lock().unwrap_or_else(|e| e.into_inner());
    loop {
        let running = |alone: Option<bool>| {
            let of_kind = |step: &Step| alone.is_none_or(|wanted| step.alone == wanted);
            (steps.iter().zip(states.iter())).any(|(step, state)| *state == State::Running && of_kind(step))
        };
        let startable = |alone: bool| {
            let waiting = |&i: &usize| states[i] == State::Waiting && steps[i].alone == alone;
            (0..steps.len())
                .filter(waiting)
                .find_map(|i| Some((i, ready(&steps[i], index, &states)?)))
        };
        // Steps that run alone are taken when no other can start, so that processors are idle only once for
        // all of them.
        let mut found = None;
        if !running(Some(true)) {
            found = startable(false);
        }
        if found.is_none() && !running(None) {
            found = startable(true);
        }
        if let Some((i, blocked)) = found {
            states[i] = State::Running;
            return Some((i, blocked));
        }
        if !states.contains(&State::Waiting) {
            return None;
        }
        states = changed.wait(states).unwrap_or_else(|e| e.into_inner());
    }
}

/// `Some` if all steps that `step` waits for have ended; in it, the one that did not pass, if any.
fn ready(step: &Step, index: &BTreeMap<&str, usize>, states: &[State]) -> Option<Option<String>> {
    let mut blocked = None;
    for name in &step.after {
        match index.get(name.as_str()).map(|i| states[*i]) {
            Some(State::Waiting | State::Running) => return None,
            Some(State::Failed | State::Skipped) => blocked = Some(name.clone()),
            Some(State::Passed) | None => {}
        }
    }
    Some(blocked)
}

/// Prints the line of a step, and its output if it failed.
fn report(step: &Step, result: &Result<Verdict>, took: Duration) -> State {
    let (word, state, text) = match result {
        Ok(Verdict::Passed(text)) => ("ok", State::Passed, text.clone()),
        Ok(Verdict::Skipped(why)) => ("skipped", State::Skipped, why.clone()),
        Err(_) => ("FAILED", State::Failed, String::new()),
    };
    let mut out = std::io::stdout().lock();
    let _ = writeln!(
        out,
        "{word:7} {:<28} {:6.1} s  {text}",
        step.name,
        took.as_secs_f64()
    );
    if let Err(error) = result {
        let message = format!("{error:#}");
        let lines: Vec<&str> = message.lines().collect();
        for line in lines.iter().take(120) {
            let _ = writeln!(out, "        | {line}");
        }
        if lines.len() > 120 {
            let _ = writeln!(out, "        | ... {} more lines", lines.len() - 120);
        }
    }
    let _ = out.flush();
    state
}
