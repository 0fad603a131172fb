//! `limen bench --rseq`: the work that restartable sequences cause on returns to user mode, counted by the
//! kernel itself, for three jobs on four processors. The figures are shown beside those in the cover letter
//! of the Linux series that reduced this work. Each job runs with areas of 32 bytes, which the kernel must
//! check after every switch, and with longer ones (`docs/rseq.md`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value, json};

use super::table::whole;
use crate::arch::Arch;
use crate::cli::BenchOptions;
use crate::linux::Source;
use crate::test::guest::Guest;
use crate::test::selftests::OWN_RSEQ;
use crate::{agent, packages, tree};

/// The kernel's counters: key, and description.
const COUNTERS: [(&str, &str); 10] = [
    ("exit", "ways out to user mode"),
    ("signal", "looked at before a handler"),
    ("slowp", "slow path"),
    ("fastp", "fast path"),
    ("ids", "identifiers written"),
    ("cs", "critical section looked for"),
    ("clear", "one that was over cleared"),
    ("fixup", "one aborted"),
    ("again", "cleared though it was clear"),
    ("noirq", "looked for uninterrupted"),
];
/// The values of the counters.
type Counts = BTreeMap<&'static str, u64>;

/// The jobs: name, and description.
const JOBS: [(&str, &str); 3] = [
    (
        "compile",
        "a build's pattern: four units at a time of processes that read, write and touch memory as compilers \
         do",
    ),
    ("gettid", "one thread that calls gettid"),
    (
        "selftests",
        "Linux's rseq tests: basic_test, basic_percpu_ops_test, param_test",
    ),
];

/// How an area is registered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Area {
    /// 32 bytes, as glibc of Debian 12 does.
    Legacy,
    /// 33 bytes.
    Optimised,
}

impl Area {
    const ALL: [Area; 2] = [Area::Legacy, Area::Optimised];

    fn name(self) -> &'static str {
        match self {
            Area::Legacy => "legacy",
            Area::Optimised => "optimised",
        }
    }
}

/// How much work each job does.
#[derive(Clone, Copy)]
pub struct Amount {
    /// Rounds of the compile job.
    builds: u32,
    /// The number of system calls.
    calls: u32,
    /// Repetitions of each run of `param_test`.
    repetitions: u32,
    /// Whether all selftests run.
    all: bool,
}

impl Amount {
    /// For the table.
    pub const FULL: Amount = Amount {
        builds: 60,
        calls: 5_000_000,
        repetitions: 500,
        all: true,
    };
    /// For a test: enough to see whether a counter that must stay 0 does.
    pub const SHORT: Amount = Amount {
        builds: 4,
        calls: 200_000,
        repetitions: 300,
        all: false,
    };
}

/// The counters of one architecture. A job that could not run has no entry.
pub struct Report {
    arch: Arch,
    counts: BTreeMap<(&'static str, Area), Counts>,
}

/// The figures for Linux on x86 in the cover letter: before the series, and with it. Before, `slowp` was the
/// only path.
const LINUX: [(&str, [&[(&str, u64)]; 2]); 2] = [
    (
        "compile",
        [
            &[
                ("exit", 50_106_428),
                ("signal", 24_703),
                ("slowp", 943_785),
                ("ids", 968_488),
                ("cs", 888_768),
                ("clear", 888_768),
                ("fixup", 0),
            ],
            &[
                ("exit", 50_071_399),
                ("signal", 182),
                ("slowp", 8_149),
                ("fastp", 763_366),
                ("ids", 78_419),
                ("cs", 0),
            ],
        ],
    ),
    (
        "selftests",
        [
            &[
                ("exit", 736_568_321),
                ("signal", 62_002_182),
                ("slowp", 358_362_121),
                ("ids", 358_362_129),
                ("cs", 358_362_110),
                ("clear", 347_611_246),
                ("fixup", 10_750_863),
            ],
            &[
                ("exit", 736_477_630),
                ("signal", 0),
                ("slowp", 1_367),
                ("fastp", 114_230_240),
                ("ids", 106_498_492),
                ("cs", 7_665_511),
                ("clear", 2_092_386),
                ("fixup", 5_573_118),
            ],
        ],
    ),
];

/// `limen bench --rseq`; returns the exit status.
pub fn bench(options: &BenchOptions) -> Result<i32> {
    let mut reports = Vec::new();
    let mut bad = 0;
    for arch in Arch::chosen(options.arch) {
        eprintln!("limen: counting rseq work on {arch}");
        let kernel = options.kernel.as_deref();
        let report = measure(arch, kernel, Amount::FULL)?;
        print(&report);
        for line in report.broken().into_iter().chain(report.slow()) {
            println!("{arch}: {line}");
            bad = 1;
        }
        reports.push(report);
    }
    if let Some(path) = &options.json {
        let all: Vec<Value> = reports.iter().map(Report::json).collect();
        let all = json!({ "format": 1, "tool": "limen bench --rseq", "unit": "events", "reports": all });
        std::fs::write(path, serde_json::to_string_pretty(&all)? + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(bad)
}

/// Runs the jobs with each kind of area.
pub fn measure(arch: Arch, kernel: Option<&Path>, amount: Amount) -> Result<Report> {
    let mut report = Report {
        arch,
        counts: BTreeMap::new(),
    };
    for area in Area::ALL {
        let programs = programs(arch, area)?;
        let root = packages::tree_with(arch, "busybox", &["busybox"])?;
        let mut guest = Guest::on(kernel, arch)
            .smp(4)
            .timeout(1800)
            .option("--append=rseq_stats=on")
            .option(format!("--root={}", root.display()))
            .option(format!("--add={}:/t", programs.display()));
        if area == Area::Optimised {
            guest = guest.option(OWN_RSEQ).option("--env=LD_PRELOAD=/t/optimised.so");
        }
        let ran = guest
            .program(&["/bin/busybox", "sh", "-e"])
            .script(&script(area, amount, &programs))
            .run_well()?;
        report.read(area, &ran.text()).with_context(|| ran.everything())?;
    }
    Ok(report)
}

/// The programs that run with one kind of area.
fn programs(arch: Arch, area: Area) -> Result<PathBuf> {
    let ours = tree::root().join("programs/rseq");
    let folder = format!("rseq-{}", area.name());
    let more = ours.join("optimised.c");
    for name in ["gettid", "unit"] {
        let source = [ours.join(name).with_extension("c")];
        agent::parts(arch, &format!("{folder}/{name}"), &source, &["-s"])?;
    }
    let source = match area {
        Area::Legacy => Source::Stable.selftests(),
        Area::Optimised => {
            let shared = ["-s", "-shared", "-fPIC"];
            agent::parts(
                arch,
                &format!("{folder}/optimised.so"),
                std::slice::from_ref(&more),
                &shared,
            )?;
            // Only these tests have room for a longer area.
            Source::Newer.selftests()
        }
    };
    let out = tree::cache(&format!("programs/{arch}/{folder}"))?;
    let suite = match (source, area) {
        (Ok(suite), _) => suite.join("rseq"),
        (Err(why), Area::Optimised) => {
            eprintln!("limen: no source of Linux 6.12: {why:#}");
            return Ok(out);
        }
        (Err(why), Area::Legacy) => return Err(why),
    };
    for name in ["basic_test", "basic_percpu_ops_test", "param_test"] {
        let mut include = vec![
            format!("-I{}", suite.display()),
            format!("-I{}", suite.join("../../../include").display()),
        ];
        if area == Area::Optimised {
            include.splice(0..0, Source::Newer.headers(arch)?);
        }
        let mut sources = vec![suite.join(name).with_extension("c"), suite.join("rseq.c")];
        let mut flags = vec!["-D_GNU_SOURCE", "-pthread", "-w"];
        flags.extend(include.iter().map(String::as_str));
        if area == Area::Optimised {
            sources.push(more.clone());
            flags.extend(["-DWRAP", "-Wl,--wrap=syscall"]);
        }
        agent::foreign_parts(arch, &format!("{folder}/{name}"), &sources, &flags)?;
    }
    Ok(out)
}

/// The script that the guest runs.
fn script(area: Area, amount: Amount, programs: &Path) -> String {
    let Amount {
        builds,
        calls,
        repetitions,
        all,
    } = amount;
    let (per_cpu, delays) = if all {
        (" && /t/basic_percpu_ops_test", "'' '-1 10000' '-5 10000'")
    } else {
        ("", "'-5 10000'")
    };
    // Tests that register an area themselves fail if the C library has registered one.
    let own = match area {
        Area::Legacy => "export GLIBC_TUNABLES=glibc.pthread.rseq=0; ",
        Area::Optimised => "",
    };
    let mut script = format!(
        "/bin/busybox mkdir -p /tmp; /bin/busybox --install -s /bin; cd /tmp\n\
         mount -t debugfs none /sys/kernel/debug\n\
         job() {{ name=$1; shift; echo \"before $name\"; cat /sys/kernel/debug/rseq/stats; \"$@\" \
         >/tmp/said 2>&1 </dev/null || {{ cat /tmp/said; exit 1; }}\n\
         echo \"after $name\"; cat /sys/kernel/debug/rseq/stats; }}\n\
         unit() {{ seq 1 300 | sed \"s/^/int $1_/\" >$1.c; grep -v 7 $1.c | /t/unit 40 >$1.s; \
         /t/unit 8 <$1.s | gzip >$1.o; }}\n\
         compile() {{ for i in $(seq {builds}); do for u in a b c d; do unit $u & done; wait; \
         zcat *.o | sort >lib; rm *.c *.o *.s; done; }}\n\
         tests() {{ {own}/t/basic_test{per_cpu} || return 1\n\
         for w in s l b 'b -M' m 'm -M' i r; do for more in {delays}; do\n\
         /t/param_test -T $w -r {repetitions} -t 24 $more || return 1; done; done; }}\n\
         job compile compile\n\
         job gettid /t/gettid {calls}\n"
    );
    if programs.join("param_test").exists() {
        script += "job selftests tests\n";
    }
    script + "echo done\n"
}

impl Report {
    /// Reads the output of a guest: counters before and after each job.
    fn read(&mut self, area: Area, said: &str) -> Result<()> {
        if said.lines().last() != Some("done") {
            bail!("the guest did not get to its end");
        }
        let mut job = None;
        let mut before = true;
        for line in said.lines() {
            let mut words = line.split_whitespace();
            let (Some(first), Some(second)) = (words.next(), words.next()) else {
                continue;
            };
            if let "before" | "after" = first {
                before = first == "before";
                job = JOBS.iter().map(|(name, _)| *name).find(|name| *name == second);
                continue;
            }
            let key = COUNTERS
                .iter()
                .map(|(key, _)| *key)
                .find(|key| first.strip_suffix(':') == Some(key));
            if let (Some(job), Some(key), Ok(value)) = (job, key, second.parse::<u64>()) {
                let count = self
                    .counts
                    .entry((job, area))
                    .or_default()
                    .entry(key)
                    .or_default();
                *count = if before { value } else { value - *count };
            }
        }
        for (_, counts) in self.counts.iter().filter(|((_, of), _)| *of == area) {
            if counts.len() != COUNTERS.len() || counts["exit"] == 0 {
                bail!("the kernel's counters are not what they should be");
            }
        }
        Ok(())
    }

    fn get(&self, job: &'static str, area: Area, key: &str) -> Option<u64> {
        self.counts.get(&(job, area))?.get(key).copied()
    }

    /// Jobs in which more than 0.02 % of returns to user mode took the slow path. Short jobs have too few
    /// returns for this to mean anything.
    fn slow(&self) -> Vec<String> {
        let slow = self
            .counts
            .iter()
            .filter(|(_, counts)| counts["slowp"] * 5000 > counts["exit"]);
        slow.map(|((job, area), counts)| {
            let (area, slow, exits) = (area.name(), counts["slowp"], counts["exit"]);
            format!("{job}, {area} areas: {slow} of {exits} ways out took the slow path: more than 0.02 %")
        })
        .collect()
    }

    /// Counters that must be 0 and are not, and counters that must not be 0 and are.
    pub fn broken(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for ((job, area), counts) in &self.counts {
            let mut say = |text: String| lines.push(format!("{job}, {} areas: {text}", area.name()));
            if *job == "selftests" && counts["cs"] == 0 {
                say("no critical section was looked for, though threads were preempted in them".to_owned());
            }
            if counts["again"] != 0 {
                say(format!(
                    "{} times a field was cleared that was clear",
                    counts["again"]
                ));
            }
            if *area == Area::Optimised && counts["noirq"] != 0 {
                say(format!(
                    "{} critical sections were looked for though user mode had not been interrupted",
                    counts["noirq"]
                ));
            }
        }
        lines
    }

    /// A few words about each job.
    pub fn summary(&self) -> String {
        let words = self.counts.iter().map(|((job, area), counts)| {
            format!(
                "{job} {}: {} of {} slow, {} looked for, {} aborted",
                area.name(),
                counts["slowp"],
                counts["exit"],
                counts["cs"],
                counts["fixup"]
            )
        });
        words.collect::<Vec<_>>().join("; ")
    }

    fn json(&self) -> Value {
        let object = |pairs: &mut dyn Iterator<Item = (&str, u64)>| {
            Value::Object(pairs.map(|(k, v)| (k.to_owned(), json!(v))).collect())
        };
        let jobs = JOBS.map(|(name, what)| {
            let mut areas = Map::new();
            for area in Area::ALL {
                if let Some(counts) = self.counts.get(&(name, area)) {
                    areas.insert(
                        area.name().to_owned(),
                        object(&mut counts.iter().map(|(k, v)| (*k, *v))),
                    );
                }
            }
            let linux = linux(name).map(|[before, after]| {
                json!({
                    "before": object(&mut before.iter().copied()),
                    "after": object(&mut after.iter().copied()),
                })
            });
            json!({ "name": name, "what": what, "areas": areas, "linux": linux })
        });
        json!({ "arch": self.arch.name(), "processors": 4, "jobs": jobs })
    }
}

/// Linux's figures for a job, before the series and with it.
fn linux(job: &str) -> Option<[&'static [(&'static str, u64)]; 2]> {
    LINUX
        .iter()
        .find(|(name, _)| *name == job)
        .map(|(_, figures)| *figures)
}

/// A count, and its percentage of all returns to user mode.
fn cell(count: Option<u64>, exits: Option<u64>) -> String {
    let Some(count) = count else {
        return "-".to_owned();
    };
    match exits {
        Some(exits) if exits > 0 => format!("{} {:8.4} %", whole(count), count as f64 * 100.0 / exits as f64),
        _ => whole(count),
    }
}

fn print(report: &Report) {
    for (job, what) in JOBS {
        println!();
        println!("{}: {what}", report.arch);
        println!();
        let series = linux(job);
        let mut head = format!("{job:<30} {:>24} {:>24}", "legacy", "optimised");
        if series.is_some() {
            head += &format!(" {:>24} {:>24}", "Linux before", "Linux with the series");
        }
        println!("{head}");
        for (key, what) in COUNTERS {
            let theirs = series.into_iter().flatten().map(|figures| {
                let of = |key: &str| figures.iter().find(|(k, _)| *k == key).map(|(_, n)| *n);
                (of(key), of("exit"))
            });
            let ours = Area::ALL.map(|area| (report.get(job, area, key), report.get(job, area, "exit")));
            let mut line = format!("{what:<30}");
            for (count, exits) in ours.into_iter().chain(theirs) {
                line += &format!(" {:>24}", cell(count, exits.filter(|_| key != "exit")));
            }
            println!("{line}");
        }
    }
}
