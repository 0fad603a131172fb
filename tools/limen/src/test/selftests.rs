//! Programs of Linux's own test suite, from Debian's `linux-source`: fetched when the test runs, built unchanged.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use super::guest::Guest;
use super::{Context, Step, Verdict};
use crate::arch::Arch;
use crate::{agent, linux, tree};

/// The benchmark of the powerpc selftests: ten million calls, timed by the clock and by the time base.
const NULL_SYSCALL: &str = "tools/testing/selftests/powerpc/benchmarks/null_syscall.c";

/// The steps of one architecture.
pub fn steps(arch: Arch) -> Vec<Step> {
    let boot = format!("boot-{arch}");
    let mut steps = vec![
        Step::on(arch, "selftests-futex", move |context| futex(context, arch)).after(&boot),
        Step::on(arch, "selftests-rseq", move |context| rseq(context, arch))
            .after(&boot)
            .long(),
    ];
    if arch == Arch::Powerpc64 {
        steps.push(Step::on(arch, "null-syscall", null_syscall).after(&boot));
    }
    steps
}

/// A test to be built: its name, what of the suite it is made of, and with which flags.
type Program = (&'static str, &'static [&'static str], &'static [&'static str]);

/// Builds `programs` of the suite's folder `folder` into a folder of their own and gives that.
fn build(arch: Arch, folder: &str, include: &[&str], programs: &[Program]) -> Result<PathBuf> {
    let suite = linux::selftests(arch, "tests", &["rseq", "membarrier", "futex"])?;
    let out = tree::cache(&format!("programs/{arch}/linux-{folder}"))?;
    for (name, sources, flags) in programs {
        let sources: Vec<PathBuf> = sources.iter().map(|s| suite.join(folder).join(s)).collect();
        let include: Vec<String> = [".", ".."]
            .iter()
            .chain(include)
            .map(|i| format!("-I{}", suite.join(folder).join(i).display()))
            .collect();
        // Their makefiles have no warnings turned on that theirs do not pass.
        let mut all = vec!["-D_GNU_SOURCE", "-pthread", "-w"];
        all.extend(include.iter().map(String::as_str));
        all.extend(*flags);
        let made = agent::foreign_parts(arch, &format!("linux-{folder}/{name}"), &sources, &all)?;
        debug_assert!(made.starts_with(&out));
    }
    Ok(out)
}

/// Runs a shell script with the built programs in `/t` on four processors; its last line must be `done N`, which it gives.
fn run(context: &Context, arch: Arch, programs: &std::path::Path, script: &str, seconds: u32) -> Result<u32> {
    let ran = Guest::new(context, arch)
        .smp(4)
        .timeout(seconds)
        .option(format!("--add={}:/t", programs.display()))
        // The tests register for themselves; a static program's C library cannot be asked whether it has.
        .option("--env=GLIBC_TUNABLES=glibc.pthread.rseq=0")
        .script(script)
        .run()?;
    let text = ran.text();
    let count = text
        .lines()
        .last()
        .and_then(|l| l.strip_prefix("done ")?.parse().ok());
    let Some(count) = count.filter(|_| ran.status == 0) else {
        bail!("status {}\n{}", ran.status, ran.everything());
    };
    ran.clean_log()?;
    Ok(count)
}

/// What each test of a script goes through: says nothing unless it fails.
const ONE: &str = "n=0; cd /t\n\
    t() { \"$@\" >/tmp/out 2>&1; r=$?; if [ $r != 0 ]; then cat /tmp/out; echo \"$* failed: $r\"; exit 1; fi; n=$((n+1)); }\n";

/// The futex and membarrier tests. Left out: `futex_wait` and `futex_waitv`, which want System V shared memory, and `futex_requeue`, which
/// fails on Linux, too, when ten threads do not fall asleep within ten milliseconds.
fn futex(context: &Context, arch: Arch) -> Result<Verdict> {
    const NO_FLAGS: &[&str] = &[];
    const FUTEX: [Program; 7] = [
        ("futex_requeue_pi", &["functional/futex_requeue_pi.c"], NO_FLAGS),
        (
            "futex_requeue_pi_mismatched_ops",
            &["functional/futex_requeue_pi_mismatched_ops.c"],
            NO_FLAGS,
        ),
        (
            "futex_requeue_pi_signal_restart",
            &["functional/futex_requeue_pi_signal_restart.c"],
            NO_FLAGS,
        ),
        (
            "futex_wait_timeout",
            &["functional/futex_wait_timeout.c"],
            NO_FLAGS,
        ),
        (
            "futex_wait_wouldblock",
            &["functional/futex_wait_wouldblock.c"],
            NO_FLAGS,
        ),
        (
            "futex_wait_uninitialized_heap",
            &["functional/futex_wait_uninitialized_heap.c"],
            NO_FLAGS,
        ),
        (
            "futex_wait_private_mapped_file",
            &["functional/futex_wait_private_mapped_file.c"],
            NO_FLAGS,
        ),
    ];
    // As the suite's run.sh has them.
    const REQUEUE_PI: [&str; 11] = [
        "",
        "-b",
        "-b -l",
        "-b -o",
        "-b -l -o",
        "-l",
        "-l -t 5000",
        "-l -t 500000",
        "-b -t 5000",
        "-b -t 500000",
        "-b -l -t 2000000000",
    ];
    const MEMBARRIER: [Program; 2] = [
        (
            "membarrier_test_single_thread",
            &["membarrier_test_single_thread.c"],
            NO_FLAGS,
        ),
        (
            "membarrier_test_multi_thread",
            &["membarrier_test_multi_thread.c"],
            NO_FLAGS,
        ),
    ];
    let programs = build(arch, "futex", &["include", "functional", "../futex"], &FUTEX)?;
    let mut script = ONE.to_owned();
    for (name, ..) in &FUTEX[1..] {
        script += &format!("t ./{name}\n");
    }
    for options in REQUEUE_PI {
        script += &format!("t ./futex_requeue_pi {options}\n");
    }
    let futexes = run(context, arch, &programs, &(script + "echo done $n\n"), 120)?;
    let programs = build(arch, "membarrier", &[], &MEMBARRIER)?;
    let script = format!(
        "{ONE}t ./{}\nt ./{}\necho done $n\n",
        MEMBARRIER[0].0, MEMBARRIER[1].0
    );
    let barriers = run(context, arch, &programs, &script, 60)?;
    Ok(Verdict::Passed(format!(
        "Linux's futex ({futexes} runs) and membarrier ({barriers}) tests"
    )))
}

/// Repetitions of each run of `param_test`; the suite's script makes 1000, and the program divides by a tenth of them.
const REPETITIONS: u32 = 10;

/// The restartable sequence tests: the whole matrix of `run_param_test.sh`, 592 runs of six threads per processor, with fewer repetitions.
fn rseq(context: &Context, arch: Arch) -> Result<Verdict> {
    const SOURCES: [&[&str]; 3] = [
        &["basic_test.c", "rseq.c"],
        &["basic_percpu_ops_test.c", "rseq.c"],
        &["param_test.c", "rseq.c"],
    ];
    const PROGRAMS: [Program; 4] = [
        ("basic_test", SOURCES[0], &[]),
        ("basic_percpu_ops_test", SOURCES[1], &[]),
        ("param_test", SOURCES[2], &[]),
        ("param_test_compare_twice", SOURCES[2], &["-DRSEQ_COMPARE_TWICE"]),
    ];
    let programs = build(arch, "rseq", &["../../../include"], &PROGRAMS)?;
    let script = format!(
        "{ONE}t ./basic_test\nt ./basic_percpu_ops_test\n\
         all() {{ for w in s l b 'b -M' m 'm -M' i r; do for p in param_test param_test_compare_twice; do\n\
         t ./$p -T $w -r {REPETITIONS} -t 24 \"$@\"; done; done; }}\n\
         all\n\
         for i in 1 2 3 4 5 6 7 8 9; do all -$i 10000; done\n\
         for how in -y -k '-s 1'; do for m in 4 2 1; do for i in 7 8 9; do all -$i -1 -m $m $how; done; done; done\n\
         echo done $n\n"
    );
    let count = run(context, arch, &programs, &script, 900)?;
    Ok(Verdict::Passed(format!(
        "Linux's rseq tests: {count} runs, param_test with {REPETITIONS} of 1000 repetitions"
    )))
}

fn null_syscall(context: &Context) -> Result<Verdict> {
    let arch = Arch::Powerpc64;
    let source = linux::source_file(arch, NULL_SYSCALL)?;
    let program = agent::foreign(arch, "null_syscall", &source)?;
    let ran = Guest::new(context, arch)
        .program(&[&program.to_string_lossy()])
        .timeout(300)
        .run_well()?;
    // "    123.45 ns    246.90 cycles"
    let text = ran.text();
    let words: Vec<&str> = text.split_whitespace().collect();
    let [time, "ns", cycles, "cycles"] = words[..] else {
        bail!("it said something else\n{}", ran.everything());
    };
    let number = |w: &str| w.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0);
    number(time).zip(number(cycles)).with_context(|| {
        format!(
            "no time or no cycles (/proc/cpuinfo tells the frequencies)\n{}",
            ran.everything()
        )
    })?;
    Ok(Verdict::Passed(format!(
        "Linux's null_syscall: {time} ns, {cycles} cycles per call"
    )))
}
