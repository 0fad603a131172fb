//! Programs of Linux's selftests, from Debian's `linux-source`: fetched when the test runs, built unchanged.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use super::guest::Guest;
use super::{Context, Step, Verdict};
use crate::arch::Arch;
use crate::linux::Source;
use crate::{agent, tree};

/// The benchmark of the powerpc selftests: ten million system calls, measured by the clock and the time base.
const NULL_SYSCALL: &str = "tools/testing/selftests/powerpc/benchmarks/null_syscall.c";

/// The steps of one architecture.
pub fn steps(arch: Arch) -> Vec<Step> {
    let boot = format!("boot-{arch}");
    let mut steps = vec![
        Step::on(arch, "selftests-futex", move |context| futex(context, arch)).after(&boot),
        Step::on(arch, "selftests-ptrace", move |context| ptrace(context, arch)).after(&boot),
    ];
    // The others have no such call.
    if matches!(arch, Arch::X86_64 | Arch::Arm64) {
        steps.push(Step::on(arch, "selftests-secret", move |context| secret(context, arch)).after(&boot));
    }
    if arch == Arch::Powerpc64 {
        steps.push(Step::on(arch, "null-syscall", null_syscall).after(&boot));
    }
    steps
}

/// A test to build: its name, its source files in the suite, and compiler flags.
pub type Program = (&'static str, &'static [&'static str], &'static [&'static str]);

/// Flags for a test that passes its times to a system call which takes 64-bit times on every architecture.
const TIME64: &[&str] = &["-D_FILE_OFFSET_BITS=64", "-D_TIME_BITS=64"];

/// Builds `programs` from `folder` of a suite into a folder of their own, whose name starts with `name`;
/// returns its path.
pub fn build(
    arch: Arch,
    (source, name): (Source, &str),
    folder: &str,
    include: &[&str],
    programs: &[Program],
) -> Result<PathBuf> {
    let suite = source.selftests()?;
    let out = tree::cache(&format!("programs/{arch}/{name}-{folder}"))?;
    let headers = source.headers(arch)?;
    for (program, sources, flags) in programs {
        let sources: Vec<PathBuf> = sources.iter().map(|s| suite.join(folder).join(s)).collect();
        let folder_of = |i: &&str| format!("-I{}", suite.join(folder).join(i).display());
        let include: Vec<String> = ([".", ".."].iter().map(folder_of))
            .chain(headers.iter().cloned())
            .chain(include.iter().map(folder_of))
            .collect();
        // `-w`: the suite's makefiles turn on no warning that these sources do not pass.
        let mut all = vec!["-D_GNU_SOURCE", "-pthread", "-w"];
        let times = tree::root().join("tests/time64.h");
        let times = times.to_string_lossy();
        if *flags == TIME64 {
            all.extend(["-include", &*times]);
        }
        let capability = format!("-I{}", tree::root().join("tests/capability").display());
        all.push(&capability);
        all.extend(include.iter().map(String::as_str));
        all.extend(*flags);
        agent::foreign_parts(arch, &format!("{name}-{folder}/{program}"), &sources, &all)?;
    }
    Ok(out)
}

/// Tells the C library not to register an rseq area: for programs that register one themselves and, being
/// static, cannot ask the library.
pub const OWN_RSEQ: &str = "--env=GLIBC_TUNABLES=glibc.pthread.rseq=0";

/// Runs a shell script with the built programs in `/t` on four processors. Its last line must be `done N`;
/// returns N.
pub fn run(
    context: &Context,
    arch: Arch,
    programs: &std::path::Path,
    script: &str,
    limits: (u32, &[&str]),
) -> Result<u32> {
    Ok(said(context, arch, programs, script, limits)?.0)
}

/// The same; returns also all that was said.
fn said(
    context: &Context,
    arch: Arch,
    programs: &std::path::Path,
    script: &str,
    (seconds, options): (u32, &[&str]),
) -> Result<(u32, String)> {
    let guest = Guest::new(context, arch)
        .smp(4)
        .timeout(seconds)
        .option(format!("--add={}:/t", programs.display()));
    let ran = guest.options(options).script(script).run()?;
    let text = ran.text();
    let count = text
        .lines()
        .last()
        .and_then(|l| l.strip_prefix("done ")?.parse().ok());
    let Some(count) = count.filter(|_| ran.status == 0) else {
        bail!("status {}\n{}", ran.status, ran.everything());
    };
    ran.clean_log()?;
    Ok((count, text))
}

/// A shell function that runs a test and prints nothing unless it fails.
pub const ONE: &str = "n=0; cd /t\n\
    t() { \"$@\" >/tmp/out 2>&1; r=$?; if [ $r != 0 ]; then cat /tmp/out; echo \"$* failed: $r\"; exit 1; \
        fi; n=$((n+1)); }\n";

/// Some tests fail on a busy host, on Linux, too; they are then run again, which is said. `futex_requeue_pi`
/// with `-o`: the owner of a futex is told to release it by a single wake-up; if the owner is not asleep yet,
/// it sleeps for ever. With `-b` alone, all threads must have run by the thousandth turn of a loop that does
/// not wait for them; without, by the end of 1,010 turns of a tenth of a millisecond.
/// `futex_requeue_pi_mismatched_ops` gives a thread a second to fall asleep.
/// `futex_requeue_pi_signal_restart` notes that it has requeued a thread only afterwards: a signal that came
/// late lets the thread return in between.
const AGAIN: &str = "late() { case \"$*\" in *-o*) [ $r = 137 ] && return;; esac; [ $r != 0 ] && \
    grep -q -e 'max broadcast iterations' -e 'max signaling iterations' \
    -e 'futex_cmp_requeue_pi found no waiters' \
    -e 'from futex_wait_requeue_pi: -1 (Resource temporarily unavailable)' /tmp/out; }
    again() { for i in 1 2 3 4; do timeout -s KILL 30 \"$@\" >/tmp/out 2>&1; r=$?; \
    late \"$@\" || break; done; \
    if [ $r != 0 ]; then cat /tmp/out; echo \"$* failed: $r\"; exit 1; fi; \
    [ $i = 1 ] || echo \"again $*\"; n=$((n+1)); }\n";

/// The futex tests. Left out: `futex_wait` and `futex_waitv`, which need System V shared memory, and
/// `futex_requeue`, which also fails on Linux when ten threads do not fall asleep within ten milliseconds.
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
            "futex_wait_timeout_64",
            &["functional/futex_wait_timeout.c"],
            TIME64,
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
    // The options in the suite's run.sh.
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
    let programs = build(
        arch,
        (Source::Stable, "linux"),
        "futex",
        &["include", "functional", "../futex"],
        &FUTEX,
    )?;
    let mut script = ONE.to_owned();
    script += AGAIN;
    for (name, ..) in &FUTEX[1..] {
        let by = if name.contains("requeue") { "again" } else { "t" };
        script += &format!("{by} ./{name}\n");
    }
    for options in REQUEUE_PI {
        script += &format!("again ./futex_requeue_pi {options}\n");
    }
    let (futexes, text) = said(context, arch, &programs, &(script + "echo done $n\n"), (600, &[]))?;
    let later = match text.lines().filter(|line| line.starts_with("again ")).count() {
        0 => String::new(),
        later => format!(", {later} not the first time"),
    };
    Ok(Verdict::Passed(format!(
        "Linux's futex tests: {futexes} runs{later}"
    )))
}

/// The tests of ptrace and of alternate stacks; where there are some, those of breakpoints and watchpoints of
/// the processor; on x86_64 also those of what a tracer, a step or a handler meets at a system call. Left
/// out: `vmaccess`, which fails on Linux, too; `sysret_ss_attrs`, which does not end there; `ptrace_syscall`,
/// `ldt_gdt`, `sigreturn` and `fsgsbase`, which `selftests-x86` runs; and `step_after_suspend_test`, which
/// suspends the machine.
fn ptrace(context: &Context, arch: Arch) -> Result<Verdict> {
    const PTRACE: &[Program] = &[
        ("get_syscall_info", &["get_syscall_info.c"], &[]),
        ("peeksiginfo", &["peeksiginfo.c"], &[]),
    ];
    const STACKS: &[Program] = &[("sas", &["sas.c"], &[])];
    const X86: &[Program] = &[
        ("single_step_syscall", &["single_step_syscall.c"], &["-no-pie"]),
        ("syscall_nt", &["syscall_nt.c"], &["-no-pie"]),
        ("sysret_rip", &["sysret_rip.c"], &["-no-pie"]),
        ("syscall_arg_fault", &["syscall_arg_fault.c"], &["-no-pie"]),
        ("sigaltstack", &["sigaltstack.c"], &["-no-pie"]),
        ("test_mremap_vdso", &["test_mremap_vdso.c"], &["-no-pie"]),
        ("iopl", &["iopl.c"], &["-no-pie"]),
        ("ioperm", &["ioperm.c"], &["-no-pie"]),
    ];
    // It counts on each access that it makes.
    const POINTS: [&[Program]; 2] = [
        &[("breakpoint_test", &["breakpoint_test.c"], &["-no-pie", "-O0"])],
        &[("breakpoint_test_arm64", &["breakpoint_test_arm64.c"], &[])],
    ];
    let mut folders = vec![("ptrace", PTRACE), ("sigaltstack", STACKS)];
    match arch {
        Arch::X86_64 => folders.extend([("x86", X86), ("breakpoints", POINTS[0])]),
        Arch::Arm64 => folders.push(("breakpoints", POINTS[1])),
        _ => {}
    }
    let mut done = 0;
    for (folder, tests) in folders {
        let programs = build(arch, (Source::Stable, "linux"), folder, &[], tests)?;
        let mut script = ONE.to_owned();
        for (name, ..) in tests {
            if *name == "breakpoint_test" {
                // The last two of its 110 fail on Linux, too: they expect a stop that is over.
                script += &format!("p() {{ ./{name} | tee /tmp/points | grep -c '^ok '; }}\n");
                script += "[ \"$(p)\" = 108 ] || { cat /tmp/points; exit 1; }; n=$((n+1))\n";
                continue;
            }
            script += &format!("t ./{name}\n");
        }
        done += run(context, arch, &programs, &(script + "echo done $n\n"), (120, &[]))?;
    }
    Ok(Verdict::Passed(format!(
        "Linux's tests of ptrace and of what it meets: {done}"
    )))
}

/// The test of secret memory (`memfd_secret`): its own limit, what the kernel may not read, a tracer.
fn secret(context: &Context, arch: Arch) -> Result<Verdict> {
    let test: Program = ("memfd_secret", &["memfd_secret.c"], &[]);
    let programs = build(arch, (Source::Stable, "linux"), "vm", &[], &[test])?;
    // Its exit status says nothing of what it skipped.
    let script = "cd /t; ./memfd_secret >/tmp/out 2>&1 || { cat /tmp/out; exit 1; }\n\
        grep -q SKIP /tmp/out && { cat /tmp/out; exit 1; }\n\
        echo done $(grep -c '^ok' /tmp/out)\n";
    let passed = run(context, arch, &programs, script, (60, &[]))?;
    Ok(Verdict::Passed(format!("Linux's memfd_secret: {passed} tests")))
}

fn null_syscall(context: &Context) -> Result<Verdict> {
    let arch = Arch::Powerpc64;
    let source = Source::Stable.file(NULL_SYSCALL)?;
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
