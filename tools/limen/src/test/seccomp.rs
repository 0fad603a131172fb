//! Linux's own tests of seccomp and of syscall user dispatch, of 6.1, unmodified and static.

use std::collections::BTreeSet;

use anyhow::{Result, bail};

use super::guest::Guest;
use super::selftests::{self, Program};
use super::{Context, Step, Verdict};
use crate::arch::Arch;
use crate::linux::Source;

/// The suite, and what the names of its programs' folders begin with.
const SUITE: (Source, &str) = (Source::Stable, "linux");
/// Tests of `seccomp_bpf` that fail on 32-bit Arm, where Linux, too, sends `SIGILL` for calls with a negative
/// number, and the C library sleeps by a call that the test's filter does not know
/// (`clock_nanosleep_time64`).
const FAIL_ON_ARM: [&str; 3] = [
    "global.negative_ENOSYS",
    "TRACE_syscall.seccomp.negative_ENOSYS",
    "global.syscall_restart",
];
/// The steps of one architecture.
pub fn steps(arch: Arch) -> Vec<Step> {
    let boot = format!("boot-{arch}");
    let filters = Step::on(arch, "selftests-seccomp", move |context| filters(context, arch));
    let benchmark = Step::on(arch, "selftests-seccomp-benchmark", move |context| {
        benchmark(context, arch)
    });
    let mut steps = vec![filters.after(&boot).long(), benchmark.after(&boot)];
    // In 6.1 the other architectures do not have it, nor does the test know their registers.
    if arch == Arch::X86_64 {
        let dispatch = Step::on(arch, "selftests-dispatch", move |context| dispatch(context, arch));
        steps.push(dispatch.after(&boot));
    }
    steps
}

/// What the suite's harness says of its tests.
#[derive(Debug, Default, PartialEq)]
struct Said {
    passed: usize,
    skipped: usize,
    failed: BTreeSet<String>,
}

/// Reads the harness's lines: `ok 1 NAME`, `not ok 2 NAME`, `ok 3 # SKIP why`.
fn read(text: &str) -> Said {
    let mut said = Said::default();
    for line in text.lines() {
        let (good, rest) = match (line.strip_prefix("ok "), line.strip_prefix("not ok ")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => continue,
        };
        let Some((_, name)) = rest.split_once(' ') else {
            continue;
        };
        match good {
            true if name.starts_with("# SKIP") => said.skipped += 1,
            true => said.passed += 1,
            false => _ = said.failed.insert(name.to_owned()),
        }
    }
    said
}

/// Builds a program of a folder of the suite and runs it; returns what it said.
fn run(
    context: &Context,
    arch: Arch,
    (folder, program): (&str, Program),
    script: &str,
    seconds: u32,
) -> Result<String> {
    let programs = selftests::build(arch, SUITE, folder, &[], &[program])?;
    let ran = Guest::new(context, arch)
        .smp(4)
        .timeout(seconds)
        .option(format!("--add={}:/t", programs.display()))
        .script(script)
        .run()?;
    if ran.status != 0 {
        bail!("status {}\n{}", ran.status, ran.everything());
    }
    ran.clean_log()?;
    Ok(ran.text())
}

/// `seccomp_bpf`. On Linux everything passes.
fn filters(context: &Context, arch: Arch) -> Result<Verdict> {
    let program: Program = ("seccomp_bpf", &["seccomp_bpf.c"], &[]);
    let script = "cd /t; ./seccomp_bpf; exit 0\n";
    let text = run(context, arch, ("seccomp", program), script, 300)?;
    let said = read(&text);
    let on_arm = FAIL_ON_ARM.iter().filter(|_| arch == Arch::Arm);
    let expected: BTreeSet<String> = on_arm.map(|name| (*name).to_owned()).collect();
    if said.failed != expected {
        let differences: Vec<&String> = said.failed.symmetric_difference(&expected).collect();
        bail!("other tests fail than should: {differences:?}\n{text}");
    }
    if said.passed == 0 || said.skipped != 0 {
        bail!("{} passed, {} skipped\n{text}", said.passed, said.skipped);
    }
    Ok(Verdict::Passed(format!(
        "Linux's seccomp_bpf: {} passed, {} fail as expected",
        said.passed,
        said.failed.len()
    )))
}

/// `seccomp_benchmark`, which only has to come to its end: the guest's clock says little.
fn benchmark(context: &Context, arch: Arch) -> Result<Verdict> {
    let program: Program = ("seccomp_benchmark", &["seccomp_benchmark.c"], &[]);
    let script = "cd /t; ./seccomp_benchmark 100000\n";
    let text = run(context, arch, ("seccomp", program), script, 300)?;
    let of = |what: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(what));
        line.map(|rest| rest.trim_start_matches(':').trim().to_owned())
    };
    let rows = [
        "getpid native",
        "getpid RET_ALLOW 1 filter (bitmap)",
        "getpid RET_ALLOW 3 filters (full)",
        "getpid RET_ALLOW 4 filters (full)",
    ];
    let Some(times) = rows.iter().map(|&row| of(row)).collect::<Option<Vec<_>>>() else {
        bail!("it said something else\n{text}");
    };
    Ok(Verdict::Passed(format!(
        "a call, with a filter known to allow it, with three and with four that are run: {}",
        times.join(", ")
    )))
}

/// `sud_test`, all of it.
fn dispatch(context: &Context, arch: Arch) -> Result<Verdict> {
    let program: Program = ("sud_test", &["sud_test.c"], &[]);
    let text = run(
        context,
        arch,
        ("syscall_user_dispatch", program),
        "cd /t; ./sud_test\n",
        300,
    )?;
    let said = read(&text);
    if said.passed == 0 || said.skipped != 0 || !said.failed.is_empty() {
        bail!("not all passed\n{text}");
    }
    Ok(Verdict::Passed(format!(
        "Linux's sud_test: {} tests",
        said.passed
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_harness_is_understood() {
        let text = "TAP version 13\n1..3\n#  RUN           global.a ...\nok 1 global.a\n\
                    not ok 2 F.b\nok 3 # SKIP no namespaces\n# Totals: pass:1 fail:1\n";
        let said = read(text);
        assert_eq!((said.passed, said.skipped), (1, 1));
        assert_eq!(said.failed, BTreeSet::from(["F.b".to_owned()]));
    }
}
