//! Restartable sequences: `programs/rseq`, and Linux's own tests of rseq and membarrier, unmodified and
//! static, of Linux 6.1 and of 6.12.

use anyhow::{Result, bail};

use super::guest::Guest;
use super::selftests::{self, ONE, OWN_RSEQ, Program};
use super::{Context, Step, Verdict};
use crate::agent;
use crate::arch::Arch;
use crate::linux::Source;

/// The steps of one architecture.
pub fn steps(arch: Arch) -> Vec<Step> {
    let boot = format!("boot-{arch}");
    let own = Step::on(arch, "rseq", move |context| own(context, arch));
    let stable = Step::on(arch, "selftests-rseq", move |context| stable(context, arch));
    let newer = Step::on(arch, "selftests-newer-rseq", move |context| newer(context, arch));
    let counts = Step::on(arch, "rseq-counts", move |context| counts(context, arch));
    vec![
        own.after(&boot),
        counts.after(&boot),
        stable.after(&boot).long(),
        newer.after(&boot).long(),
    ]
}

/// `programs/rseq`, on four processors and on one, and with the kernel's checks on.
fn own(context: &Context, arch: Arch) -> Result<Verdict> {
    let program = agent::program(arch, "rseq")?;
    let mut said = String::new();
    for (processors, options) in [
        (4, "rseq_stats=on"),
        (4, "rseq_debug=on"),
        (1, "rseq_slice_ext=on"),
    ] {
        let ran = Guest::new(context, arch)
            .smp(processors)
            .option(format!("--append={options}"))
            .program(&[&program.to_string_lossy()])
            .run_well()?;
        said = ran.text().trim().to_owned();
        if !said.starts_with("rseq works") {
            bail!("with {options} it said something else\n{}", ran.everything());
        }
    }
    Ok(Verdict::Passed(said))
}

/// A short `limen bench --rseq`: counters that must be 0 are 0, and others are not.
fn counts(context: &Context, arch: Arch) -> Result<Verdict> {
    use crate::bench::rseq::{Amount, measure};
    if context.kernel.is_some() {
        return Ok(Verdict::Skipped("only for Limen".into()));
    }
    let report = measure(arch, None, Amount::SHORT)?;
    match report.broken().join("\n") {
        none if none.is_empty() => Ok(Verdict::Passed(report.summary())),
        lines => bail!("{lines}\n{}", report.summary()),
    }
}

/// Repetitions of each run of the matrix. The suite's script has 1000, and `param_test` divides by a tenth of
/// them.
const REPETITIONS: u32 = 10;
/// Repetitions of `param_test` by itself with 200 threads; the suite has 5000.
const ALONE: u32 = 50;

const BASIC: &[&str] = &["basic_test.c", "rseq.c"];
const PER_CPU: &[&str] = &["basic_percpu_ops_test.c", "rseq.c"];
const PARAM: &[&str] = &["param_test.c", "rseq.c"];
const TWICE: &str = "-DRSEQ_COMPARE_TWICE";

/// Options for the guest that runs a matrix. When a 32-bit Arm kernel opens or closes user access
/// (`uaccess`), QEMU empties its TLB: a matrix then takes more than 15 minutes, and without one to four.
/// `programs/rseq` is run with it.
fn matrix(arch: Arch, first: &'static [&'static str]) -> Vec<&'static str> {
    let mut options = first.to_vec();
    if arch == Arch::Arm {
        options.push("--append=nopan");
    }
    options
}

/// The script of a suite: the tests its makefile lists, then all runs of `run_param_test.sh`, with six
/// threads per processor.
fn script(basic: &[&str], param: &[&str]) -> String {
    let mut script = ONE.to_owned();
    for name in basic {
        script += &format!("t ./{name}\n");
    }
    for name in param.iter().chain(&["param_test_benchmark"]) {
        script += &format!("t ./{name} -r {ALONE}\n");
    }
    script += &format!(
        "all() {{ for w in s l b 'b -M' m 'm -M' i r; do for p in {}; do\n\
         t ./$p -T $w -r {REPETITIONS} -t 24 \"$@\"; done; done; }}\n\
         all\n\
         for i in 1 2 3 4 5 6 7 8 9; do all -$i 10000; done\n\
         for how in -y -k '-s 1'; do for m in 4 2 1; do \
          for i in 7 8 9; do all -$i -1 -m $m $how; done; done; done\n\
         echo done $n\n",
        param.join(" ")
    );
    script
}

/// A suite's membarrier tests; returns their number.
fn membarrier(context: &Context, arch: Arch, suite: (Source, &str)) -> Result<u32> {
    const SINGLE: &str = "membarrier_test_single_thread";
    const MULTI: &str = "membarrier_test_multi_thread";
    const PROGRAMS: [Program; 2] = [
        (SINGLE, &["membarrier_test_single_thread.c"], &[]),
        (MULTI, &["membarrier_test_multi_thread.c"], &[]),
    ];
    let programs = selftests::build(arch, suite, "membarrier", &[], &PROGRAMS)?;
    let text = format!("{ONE}t ./{SINGLE}\nt ./{MULTI}\necho done $n\n");
    selftests::run(context, arch, &programs, &text, (60, &[]))
}

/// Linux 6.1's tests, which register areas of 32 bytes themselves.
fn stable(context: &Context, arch: Arch) -> Result<Verdict> {
    const PROGRAMS: [Program; 5] = [
        ("basic_test", BASIC, &[]),
        ("basic_percpu_ops_test", PER_CPU, &[]),
        ("param_test", PARAM, &[]),
        ("param_test_compare_twice", PARAM, &[TWICE]),
        ("param_test_benchmark", PARAM, &["-DBENCHMARK"]),
    ];
    let suite = (Source::Stable, "linux");
    let barriers = membarrier(context, arch, suite)?;
    let programs = selftests::build(arch, suite, "rseq", &["../../../include"], &PROGRAMS)?;
    let text = script(
        &["basic_test", "basic_percpu_ops_test"],
        &["param_test", "param_test_compare_twice"],
    );
    let runs = selftests::run(
        context,
        arch,
        &programs,
        &text,
        (1800, &matrix(arch, &[OWN_RSEQ])),
    )?;
    Ok(Verdict::Passed(format!(
        "Linux 6.1's rseq ({runs} runs, {REPETITIONS} of 1000 repetitions) and membarrier ({barriers} runs) \
         tests"
    )))
}

/// Linux 6.12's tests, which use the area that the C library registers, and concurrency ids.
fn newer(context: &Context, arch: Arch) -> Result<Verdict> {
    const MM_CID: &str = "-DBUILDOPT_RSEQ_PERCPU_MM_CID";
    const PROGRAMS: [Program; 8] = [
        ("basic_test", BASIC, &[]),
        ("basic_percpu_ops_test", PER_CPU, &[]),
        ("basic_percpu_ops_mm_cid_test", PER_CPU, &[MM_CID]),
        ("param_test", PARAM, &[]),
        ("param_test_compare_twice", PARAM, &[TWICE]),
        ("param_test_mm_cid", PARAM, &[MM_CID]),
        ("param_test_mm_cid_compare_twice", PARAM, &[MM_CID, TWICE]),
        ("param_test_benchmark", PARAM, &["-DBENCHMARK"]),
    ];
    if let Err(why) = Source::Newer.selftests() {
        return Ok(Verdict::Skipped(format!("no source of Linux 6.12: {why:#}")));
    }
    let suite = (Source::Newer, "linux-6.12");
    let barriers = membarrier(context, arch, suite)?;
    let programs = selftests::build(arch, suite, "rseq", &["../../../include"], &PROGRAMS)?;
    let text = script(
        &[
            "basic_test",
            "basic_percpu_ops_test",
            "basic_percpu_ops_mm_cid_test",
        ],
        &[
            "param_test",
            "param_test_compare_twice",
            "param_test_mm_cid",
            "param_test_mm_cid_compare_twice",
        ],
    );
    let runs = selftests::run(context, arch, &programs, &text, (1800, &matrix(arch, &[])))?;
    Ok(Verdict::Passed(format!(
        "Linux 6.12's rseq ({runs} runs, {REPETITIONS} of 1000 repetitions) and membarrier ({barriers} runs) \
         tests"
    )))
}
