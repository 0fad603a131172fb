//! Debian's `perf ftrace` in a guest, unmodified: it needs tracefs and nothing of `perf_event_open`. The rest
//! of perf does, and says so.

use anyhow::Result;

use super::check;
use crate::arch::Arch;
use crate::packages;
use crate::test::guest::Guest;
use crate::test::{Context, Verdict};

/// What is run, each behind a line with its number.
const SCRIPT: &str = r#"
set -f
mount -t tracefs tracefs /sys/kernel/tracing
n=0
each() { n=$((n + 1)); echo "== $n"; perf ftrace "$@" 2>&1; }
each -T '*openat*' -- cat /dev/null
each -a -T '*openat*' -N openat2 -- cat /dev/null
each -G '*openat*' -- cat /dev/null
each -g '*openat*' --graph-opts depth=1 -- cat /dev/null
each -F '*openat*'
each latency -T openat -- cat /dev/null
each -T no_such_function -- cat /dev/null
echo "== $(cat /sys/kernel/tracing/current_tracer /sys/kernel/tracing/set_ftrace_filter)"
"#;

/// The steps `perf-ftrace-ARCH`.
pub(super) fn ftrace(context: &Context, arch: Arch) -> Result<Verdict> {
    let root = packages::tree_with(arch, "perf", &["linux-perf"])?;
    let ran = Guest::new(context, arch)
        .timeout(400)
        .option("--mem=768M")
        .option(format!("--root={}", root.display()))
        .program(&["sh", "-c", SCRIPT])
        .run_well()?;
    ran.clean_log()?;
    let text = ran.text();
    let parts: Vec<&str> = text.split("== ").skip(1).collect();
    let all = || text.clone();
    check("not all of them ran", parts.len() == 8, all)?;
    let has = |part: usize, words: &[&str]| words.iter().all(|word| parts[part].contains(word));
    check("no calls", has(0, &["# tracer: function\n", "openat <-"]), all)?;
    check(
        "not those of all CPUs",
        has(1, &["# tracer: function\n", "openat <-"]),
        all,
    )?;
    check(
        "no graph",
        has(2, &["# tracer: function_graph\n", "openat() {", " us "]),
        all,
    )?;
    check(
        "no calls within others",
        has(3, &["# tracer: function_graph\n", "();"]),
        all,
    )?;
    check(
        "no list of functions",
        has(4, &["\nopenat\n", "\nopenat2\n"]),
        all,
    )?;
    check("no times", has(5, &["DURATION", "############"]), all)?;
    check(
        "a name that does not exist is taken",
        has(6, &["failed to set tracing filters"]),
        all,
    )?;
    check(
        "something is still traced",
        has(7, &["nop", "#### all functions enabled ####"]),
        all,
    )?;
    Ok(Verdict::Passed("functions, graphs, a histogram of times".into()))
}
