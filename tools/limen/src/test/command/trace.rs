//! `limen run --trace`: what it shows of a program, in each format, and what it says when it cannot. Call
//! graphs and events are tried on Debian's Linux.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::{check, expect_line, folder};
use crate::arch::Arch;
use crate::test::guest::{Guest, Ran};
use crate::test::{Context, Verdict};
use crate::{agent, packages, tree};

/// A shell and a program that it starts; the status is 3.
const PROGRAM: [&str; 3] = [
    "/bin/sh",
    "-c",
    "echo out; echo err >&2; /.limen/bin/cat /proc/version; exit 3",
];

/// Runs the program traced, and checks that its output and its status are its own.
fn traced(guest: Guest, options: &[&str]) -> Result<(Ran, String)> {
    let guest = options.iter().fold(guest, |g, option| g.option(*option));
    let ran = guest.program(&PROGRAM).run()?;
    check("the program's status is not 3", ran.status == 3, || {
        ran.everything()
    })?;
    let (stdout, stderr) = (ran.text(), String::from_utf8_lossy(&ran.stderr).into_owned());
    let own = stdout.starts_with("out\nLinux version ") && stdout.lines().count() == 2;
    check("the program's output changed", own, || ran.everything())?;
    let stderr: String = stderr
        .split_inclusive('\n')
        .filter(|l| !l.contains("building") && !l.contains("fetching"))
        .collect();
    let rest = stderr.strip_prefix("err\n").map(str::to_owned);
    let rest = rest.with_context(|| format!("standard error does not begin with err\n{stderr}"))?;
    Ok((ran, rest))
}

/// What a traced program looks like in text, JSON and HTML.
fn formats(context: &Context, arch: Arch, dir: &Path) -> Result<usize> {
    let guest = || Guest::new(context, arch);
    let (ran, text) = traced(guest(), &["--trace=*open*"])?;
    ran.clean_log()?;
    let whole = text.starts_with("# tracer: function\n") && text.contains(" <-");
    check("no trace of functions", whole, || ran.everything())?;
    let only = |line: &str| {
        let called = line.split(" <-").next().unwrap_or_default();
        line.starts_with('#') || called.contains("open")
    };
    check(
        "a function that was not asked for",
        text.lines().all(only),
        || text.clone(),
    )?;

    let file = dir.join("trace.json");
    let (ran, rest) = traced(
        guest(),
        // Some of what each processor's build has not inlined.
        &[
            "--trace=*open*,*read*,*path*",
            &format!("--trace-out={}", file.display()),
        ],
    )?;
    check(
        "standard error has more than the program's",
        rest.is_empty(),
        || ran.everything(),
    )?;
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&file)?)?;
    let events = json["traceEvents"].as_array().cloned().unwrap_or_default();
    let threads = events.iter().filter(|e| e["name"] == "thread_name").count();
    let instants = events
        .iter()
        .filter(|e| e["ph"] == "i" && e["cat"] == "function")
        .count();
    let why = || format!("{threads} threads, {instants} functions\n{}", ran.everything());
    check(
        "no track of the shell, or nothing on it",
        threads >= 2 && instants > 5,
        why,
    )?;

    let file = dir.join("trace.html");
    let small = format!("--trace-out={}", file.display());
    let (ran, rest) = traced(guest(), &["--trace=*", &small, "--append=trace_buf_size=8K"])?;
    let lost = rest.lines().count() == 1 && rest.contains("events, the buffer") && rest.contains("size=16M");
    check("lost events are not told of", lost, || ran.everything())?;
    let page = std::fs::read_to_string(&file)?;
    check(
        "no page",
        page.starts_with("<!doctype html>") && page.ends_with("</html>\n"),
        || page.clone(),
    )?;
    Ok(instants)
}

/// What `--trace-syscalls` shows of `programs/calls`, from its first call to its last: the same everywhere.
fn calls(context: &Context, arch: Arch, dir: &Path) -> Result<usize> {
    let program = agent::program(arch, "calls")?.display().to_string();
    let guest = || {
        Guest::new(context, arch)
            .option("--trace-syscalls")
            .program(&[&program])
    };
    let ran = guest().run()?;
    check("the program's status is not 3", ran.status == 3, || {
        ran.everything()
    })?;
    ran.clean_log()?;
    let stderr = String::from_utf8_lossy(&ran.stderr).into_owned();
    let own = |line: &str| {
        line.strip_prefix("calls-")?
            .split_once(' ')
            .map(|(_, call)| call.to_owned())
    };
    let expected = include_str!("calls.txt").lines().collect::<Vec<&str>>();
    let shown: Vec<String> = stderr
        .lines()
        .filter_map(own)
        .skip_while(|call| Some(&**call) != expected.first().copied())
        .collect();
    for (line, call) in expected.iter().enumerate() {
        let found = shown.get(line).map_or("nothing", |call| call);
        check("a call is not what it was", found == *call, || {
            format!("{found}\ninstead of\n{call}\n{stderr}")
        })?;
    }
    check(
        "something behind the last call",
        shown.len() == expected.len(),
        || stderr.clone(),
    )?;
    let file = dir.join("calls.json");
    let ran = guest().option(format!("--trace-out={}", file.display())).run()?;
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&file)?)?;
    let events = json["traceEvents"].as_array().cloned().unwrap_or_default();
    let named = |name: &str| events.iter().filter(|event| event["name"] == name).count();
    check(
        "no calls in the other formats",
        named("sys_symlinkat") == 2,
        || ran.everything(),
    )?;
    Ok(expected.len())
}

/// What trace-cmd reads of a `.dat` file.
fn dat(context: &Context, arch: Arch, dir: &Path) -> Result<usize> {
    let file = dir.join("trace.dat");
    let out = format!("--trace-out={}", file.display());
    let options = [
        "--trace=*open*",
        "--trace-events=sched:sched_process_exec",
        "--trace-syscalls",
        &out,
    ];
    let (ran, rest) = traced(Guest::new(context, arch), &options)?;
    check(
        "standard error has more than the program's",
        rest.is_empty(),
        || ran.everything(),
    )?;
    let report = packages::ensure_tool("trace-cmd", &["trace-cmd"])?;
    let report = Command::new(report).arg("report").arg("-i").arg(&file).output()?;
    let text = String::from_utf8_lossy(&report.stdout);
    let errors = String::from_utf8_lossy(&report.stderr);
    let whole = || format!("{text}{errors}");
    check("trace-cmd does not read it", report.status.success(), whole)?;
    check("trace-cmd has complaints", errors.is_empty(), whole)?;
    let lines = |with: &[&str]| {
        let has = |line: &&str| with.iter().all(|word| line.contains(word));
        text.lines().filter(has).count()
    };
    check(
        "no events",
        lines(&["sched_process_exec:", "filename=", "cat"]) > 0,
        whole,
    )?;
    check("no functions", lines(&["function:", "open"]) > 5, whole)?;
    check(
        "no calls",
        lines(&["sys_enter_openat:", "\"/proc/version\""]) > 0,
        whole,
    )?;
    Ok(text.lines().count())
}

/// The steps `run-trace-ARCH`.
pub(super) fn trace(context: &Context, arch: Arch) -> Result<Verdict> {
    let dir = folder(&format!("trace-{arch}"))?;
    let instants = formats(context, arch, &dir)?;
    let shown = calls(context, arch, &dir)?;
    let reported = dat(context, arch, &dir)?;
    // What cannot work: some of it is found before the guest is booted.
    let inside = dir.join("no/such/dir/trace.txt");
    let (other, inside) = (
        dir.join("t.xyz").display().to_string(),
        inside.display().to_string(),
    );
    let cases: [(&[&str], &str); 10] = [
        (&["--trace="], "empty"),
        (&["--trace=a b"], "is in no name"),
        (&["--trace=[a"], "["),
        (&["--trace=x", "--trace-out", &other], ".html"),
        (&["--trace-syscalls", "--trace-graph=x"], "--trace-graph"),
        (&["--trace=x", "--trace-out", &inside], "cannot write"),
        (&["--trace-out", "/dev/null"], "--trace-graph"),
        (&["--trace=x", "--initrd=/dev/null"], "--initrd"),
        (&["--trace=no_such_function_here"], "no function of this kernel"),
        (&["--trace-events=no:such_event"], "event"),
    ];
    let mut common = vec!["run".to_owned(), "--accel=tcg".into(), format!("--arch={arch}")];
    common.extend(context.kernel.iter().map(|k| format!("--kernel={}", k.display())));
    for (options, word) in cases {
        let mut command = Command::new(tree::own_program());
        command
            .args(&common)
            .args(options)
            .args(["--timeout=120", "--", "true"]);
        expect_line(command, None, 125, word).with_context(|| options.join(" "))?;
    }
    Ok(Verdict::Passed(format!(
        "{instants} functions and {shown} calls, trace-cmd: {reported} lines, four formats, {} errors",
        cases.len()
    )))
}

/// The step `run-trace-linux`: call graphs and events.
pub(super) fn on_linux(arch: Arch) -> Result<Verdict> {
    let dir = folder("trace-linux")?;
    let file = dir.join("trace.json");
    let out = format!("--trace-out={}", file.display());
    let graph = [
        // Only some functions: to change all of them takes a slow host half a minute.
        "--trace-graph=do_sys_open*,vfs_write",
        "--trace=*open*,*write*,*path*",
        "--trace-events=sched:sched_process_exec,sched:sched_switch",
        &out,
    ];
    let (ran, rest) = traced(Guest::linux(arch)?.timeout(240), &graph)?;
    check(
        "standard error has more than the program's",
        rest.is_empty(),
        || ran.everything(),
    )?;
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&file)?)?;
    let events = json["traceEvents"].as_array().cloned().unwrap_or_default();
    let of = |kind: &str, name: &str| {
        events
            .iter()
            .filter(|e| e["ph"] == kind && e["name"] == name)
            .count()
    };
    let calls = events
        .iter()
        .filter(|e| e["ph"] == "X" && e["dur"].as_f64() > Some(0.0))
        .count();
    let why = || format!("{calls} calls of {} entries\n{}", events.len(), ran.everything());
    check("no calls", calls > 20 && of("X", "vfs_write") > 0, why)?;
    check("no track of the child", of("M", "thread_name") >= 2, || {
        ran.everything()
    })?;
    check("no events", of("i", "sched_process_exec") >= 2, || {
        ran.everything()
    })?;
    let mut command = Command::new(tree::own_program());
    command.args(["run", "--accel=tcg", "--kernel=linux", "--append=mitigations=off"]);
    command.args([
        &format!("--arch={arch}"),
        "--trace-events=sched:sched_swich",
        "--",
        "true",
    ]);
    expect_line(command, None, 125, "sched:sched_switch")?;
    Ok(Verdict::Passed(format!("{calls} calls, and events")))
}
