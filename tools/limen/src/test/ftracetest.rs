//! Linux's ftracetest, from Debian's `linux-source`, unmodified, in the guest's BusyBox shell. All of it
//! runs; a case whose result is another than expected here fails the step, if it is so three times: many
//! count what happens in a time. Where it wants samples of Linux's modules, those of `programs/modules` that
//! have their names and do the like are loaded.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::again::{Wrong, again};
use super::guest::Guest;
use super::modules::with_modules;
use super::{Context, Step, Verdict};
use crate::arch::Arch;
use crate::linux::Source;

/// Cases that pass.
const PASS: &[&str] = &[
    "00basic/basic1",
    "00basic/basic2",
    "00basic/basic3",
    "00basic/basic4",
    "00basic/ringbuffer_size",
    "00basic/snapshot",
    "00basic/trace_pipe",
    "direct/ftrace-direct",
    "event/event-enable",
    "event/event-no-pid",
    "event/event-pid",
    "event/subsystem-enable",
    "event/toplevel-enable",
    "event/trace_printk",
    "ftrace/fgraph-filter",
    "ftrace/fgraph-filter-stack",
    "ftrace/func-filter-glob",
    "ftrace/func-filter-notrace-pid",
    "ftrace/func-filter-pid",
    "ftrace/func-filter-stacktrace",
    "ftrace/func_cpumask",
    "ftrace/func_event_triggers",
    "ftrace/func_mod_trace",
    "ftrace/func_profile_stat",
    "ftrace/func_profiler",
    "ftrace/func_set_ftrace_file",
    "ftrace/func_stack_tracer",
    "ftrace/func_traceonoff_triggers",
    "ftrace/tracing-error-log",
    "instances/instance",
    "instances/instance-event",
    "trigger/trigger-eventonoff",
    "trigger/trigger-filter",
    "trigger/trigger-snapshot",
    "trigger/trigger-stacktrace",
    "trigger/trigger-traceonoff",
];

/// Cases that fail, or say nothing, because of what the kernel does not have yet or the guest's tools cannot
/// do; but they do not ask for it. All others are unsupported: they ask for files that do not exist.
const OTHER: &[(&str, &str)] = &[
    // The tool that it uses is not in the guest.
    ("selftest/bashisms", "UNRESOLVED"),
];

/// The cases below a folder, by name.
fn cases(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(cases(&path)?);
        } else if path.extension().is_some_and(|end| end == "tc") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Whether a case runs in an instance, too.
fn in_instance(case: &Path) -> Result<bool> {
    let text = std::fs::read_to_string(case)?;
    let flags = text
        .lines()
        .filter_map(|line| line.strip_prefix('#')?.split_once("flags:"));
    Ok(flags
        .map(|(_, flags)| flags)
        .any(|flags| flags.contains("instance")))
}

fn expected(name: &str) -> &'static str {
    if PASS.contains(&name) {
        return "PASS";
    }
    let other = OTHER.iter().find(|(case, _)| *case == name);
    other.map_or("UNSUPPORTED", |(_, result)| result)
}

/// The result in a line `[12] what it is<tab>[RESULT]`.
fn result(line: &str) -> Option<&str> {
    line.strip_prefix('[')?.rsplit_once('[')?.1.strip_suffix(']')
}

/// Some cases look for the number of a process anywhere in lines of a trace, in which microseconds have six
/// digits. So processes get numbers of seven, as where systemd has raised the limit. A 32-bit kernel has none
/// so high: there it is large ones.
const SCRIPT: &str = "cd /proc/sys/kernel || exit 1
if echo 4194304 > pid_max; then last=1000000; else last=20000; fi 2> /dev/null
echo $last > ns_last_pid || exit 1
mount -t tracefs nodev /sys/kernel/tracing || exit 1
modules=/lib/modules/$(uname -r)
mkdir -p $modules
for name in ftrace_direct ftrace_direct_too trace_printk; do
    cp /modules/$name.ko $modules/ && echo $name.ko: >> $modules/modules.dep || exit 1
done
cd /ftrace; sh ./ftracetest -l /tmp/logs $cases
for log in /tmp/logs/*-log.*; do echo \"== $log\"; tail -n 8 $log; done
";

/// The names of all cases below a folder, in the order in which they run.
fn names(tests: &Path) -> Result<Vec<String>> {
    let name = |case: PathBuf| -> Result<String> {
        Ok(case
            .strip_prefix(tests)?
            .with_extension("")
            .to_string_lossy()
            .into_owned())
    };
    cases(tests)?.into_iter().map(name).collect()
}

/// What came of a run.
struct Came {
    /// The cases whose result is not the expected one.
    wrong: Wrong<String>,
    /// The number of results; those of cases that pass.
    runs: usize,
    passes: usize,
    /// All that was said.
    text: String,
}

/// Runs the cases of these names in a guest, those for an instance in one as well; `chosen` are the arguments
/// that choose them.
fn run(context: &Context, arch: Arch, suite: &Path, names: &[String], chosen: &str) -> Result<Came> {
    let mut runs: Vec<&String> = names.iter().collect();
    for name in names {
        if in_instance(&suite.join(format!("test.d/{name}.tc")))? {
            runs.push(name);
        }
    }
    let guest = Guest::new(context, arch)
        .smp(2)
        .option("--mem=512M")
        .timeout(900)
        .option(format!("--add={}:/ftrace", suite.display()));
    let script = format!("cases='{chosen}'\n{SCRIPT}");
    let ran = with_modules(guest, arch)?.script(&script).run()?;
    let text = ran.text();
    let results: Vec<&str> = text.lines().filter_map(result).collect();
    if results.len() != runs.len() {
        bail!(
            "{} cases of {} have a result\n{}",
            results.len(),
            runs.len(),
            ran.everything()
        );
    }
    ran.clean_log()?;
    let mut wrong = Wrong::new();
    for (name, result) in runs.iter().zip(&results) {
        let expected = expected(name);
        if expected != *result {
            let said: &mut String = wrong.entry((*name).clone()).or_default();
            *said += &format!("{name}: {result} instead of {expected}\n");
        }
    }
    Ok(Came {
        wrong,
        runs: runs.len(),
        passes: runs.iter().filter(|name| expected(name) == "PASS").count(),
        text,
    })
}

fn check(context: &Context, arch: Arch) -> Result<Verdict> {
    let suite = Source::Stable.selftests()?.join("ftrace");
    let first = run(context, arch, &suite, &names(&suite.join("test.d"))?, "")?;
    let mut text = first.text;
    let (wrong, later) = again(first.wrong, 2, |names| {
        let chosen: Vec<String> = names.iter().map(|name| format!("test.d/{name}.tc")).collect();
        let came = run(context, arch, &suite, names, &chosen.join(" "))?;
        text += &came.text;
        Ok(came.wrong)
    })?;
    if !wrong.is_empty() {
        let wrong: Vec<String> = wrong.into_values().collect();
        bail!("{}\n{text}", wrong.join("\n"));
    }
    Ok(Verdict::Passed(format!(
        "Linux's ftracetest: {} of {} runs pass, the others fail or are unsupported as expected{later}",
        first.passes, first.runs
    )))
}

/// The steps of one architecture.
pub fn steps(arch: Arch) -> Vec<Step> {
    let step = Step::on(arch, "ftracetest", move |context| check(context, arch));
    vec![step.after(format!("modules-{arch}")).long()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results() {
        assert_eq!(result("[4] Basic event tracing check\t[FAIL]"), Some("FAIL"));
        assert_eq!(result("[11] (instance)  Basic test\t[PASS]"), Some("PASS"));
        assert_eq!(result("# of passed:  13"), None);
        assert_eq!(expected("00basic/basic1"), "PASS");
        assert_eq!(expected("kprobe/probepoint"), "UNSUPPORTED");
    }
}
