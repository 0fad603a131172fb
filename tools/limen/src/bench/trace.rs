//! `limen bench --trace`: what a call of a traced function costs, by how many tracers it has and how many
//! trace other functions. The kernel measures it itself, as one of its self-tests, with a clock that counts
//! instructions.

use anyhow::{Context, Result, bail};
use std::time::Duration;

use super::counted::{self, Subject};
use super::guest;
use crate::arch::Arch;
use crate::cli::BenchOptions;

/// Wall-clock time of one boot.
const PATIENCE: Duration = Duration::from_secs(600);

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Row {
    /// So many tracers of the function, so many of others.
    Tracers(u64, u64),
    /// One, which records into the ring buffer.
    Recorded,
    /// One, which records calls and returns.
    Graph,
}

impl Row {
    fn name(self) -> String {
        match self {
            Row::Tracers(relevant, irrelevant) => format!("{relevant}/{irrelevant}"),
            Row::Recorded => "recorded".into(),
            Row::Graph => "graph".into(),
        }
    }
}

/// Instructions of all calls, and how many there were.
type Cost = (u64, u64);

/// From a line of the kernel's log; `None`: it is another line.
fn parse(line: &str) -> Option<(Row, Cost)> {
    let (_, text) = line.split_once("trace cost: ")?;
    let (what, cost) = text.split_once(": ")?;
    let (took, calls) = cost.split_once(" ns, ")?;
    let cost = (took.parse().ok()?, calls.strip_suffix(" calls")?.parse().ok()?);
    match what {
        "recorded" => return Some((Row::Recorded, cost)),
        "graph" => return Some((Row::Graph, cost)),
        _ => {}
    }
    let (relevant, irrelevant) = what.split_once(" relevant, ")?;
    let irrelevant = irrelevant.strip_suffix(" irrelevant")?;
    Some((
        Row::Tracers(relevant.parse().ok()?, irrelevant.parse().ok()?),
        cost,
    ))
}

/// Measures and prints; the exit status: 1 if other functions' tracers cost anything.
pub fn bench(options: &BenchOptions, arches: Vec<Arch>) -> Result<i32> {
    let mut reports = Vec::new();
    for arch in arches {
        reports.push((arch, measure(options, arch)?));
    }
    println!("Instructions per call of a function, with so many tracers of it / of other functions:\n");
    for (arch, rows) in &reports {
        let base = rows.iter().find(|(row, _)| *row == Row::Tracers(0, 0));
        let (_, (base, _)) = base.context("the kernel did not measure calls without tracers")?;
        println!("{arch}");
        for (row, (took, calls)) in rows {
            let more = (*took as f64 - *base as f64) / *calls as f64;
            let each = *took as f64 / *calls as f64;
            println!("  {:<10}{each:>12.2}{more:>+12.2}", row.name());
        }
        println!();
    }
    if let Some(path) = &options.json {
        let text = serde_json::to_string_pretty(&json(&reports))? + "\n";
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let mut status = 0;
    for (arch, rows) in &reports {
        if let Some(what) = unequal(rows) {
            eprintln!("limen: {arch}: {what}");
            status = 1;
        }
    }
    Ok(status)
}

/// Whether tracers of other functions cost anything.
fn unequal(rows: &[(Row, Cost)]) -> Option<String> {
    let same = |relevant: u64| {
        let of = |row: &&(Row, Cost)| matches!(row.0, Row::Tracers(own, _) if own == relevant);
        let (low, high) = rows
            .iter()
            .filter(of)
            .fold((u64::MAX, 0), |(low, high), (_, (took, calls))| {
                (low.min(took / calls), high.max(took.div_ceil(*calls)))
            });
        (high > low.saturating_add(1)).then(|| {
            format!("{relevant} tracers: {low} to {high} instructions a call, by how many trace others")
        })
    };
    [0, 1].into_iter().find_map(same)
}

fn json(reports: &[(Arch, Vec<(Row, Cost)>)]) -> serde_json::Value {
    let one = |(arch, rows): &(Arch, Vec<(Row, Cost)>)| {
        let rows: serde_json::Map<String, serde_json::Value> = rows
            .iter()
            .map(|(row, (took, calls))| (row.name(), serde_json::json!({ "ns": took, "calls": calls })))
            .collect();
        (arch.to_string(), serde_json::Value::Object(rows))
    };
    serde_json::Value::Object(reports.iter().map(one).collect())
}

fn measure(options: &BenchOptions, arch: Arch) -> Result<Vec<(Row, Cost)>> {
    let guest = guest::prepare(arch)?;
    let kernel = super::limen(options, arch)?;
    if !kernel.limen {
        bail!("--trace measures Limen; --kernel takes another build of it");
    }
    let cpu = options
        .cpu
        .clone()
        .unwrap_or_else(|| counted::fair_cpu(arch).to_owned());
    let subject = super::subject(options, arch, &cpu, &kernel, &guest);
    costs(subject)
}

fn costs(subject: Subject) -> Result<Vec<(Row, Cost)>> {
    let mut run = subject.boot(&subject.guest.map.path);
    let words = ["limen.selftest", "limen.trace_costs", "loglevel=7"];
    run.kernel_words = words.map(str::to_owned).to_vec();
    run.timeout = PATIENCE;
    eprintln!("limen: {} traces", subject.arch);
    let ended = run.run(&mut |_| {})?;
    let rows: Vec<(Row, Cost)> = ended.lines.iter().filter_map(|l| parse(l)).collect();
    if rows.is_empty() {
        let from = ended.lines.len().saturating_sub(15);
        bail!(
            "the kernel did not say what tracers cost; its console ends so:\n{}",
            ended.lines[from..].join("\n")
        );
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_log() {
        let line = "[    3.1] trace cost: 1 relevant, 100 irrelevant: 4600000 ns, 100000 calls";
        assert_eq!(parse(line), Some((Row::Tracers(1, 100), (4_600_000, 100_000))));
        let line = "[    3.1] trace cost: recorded: 12300000 ns, 100000 calls";
        assert_eq!(parse(line), Some((Row::Recorded, (12_300_000, 100_000))));
        let line = "[    3.1] trace cost: graph: 45600000 ns, 100000 calls";
        assert_eq!(parse(line), Some((Row::Graph, (45_600_000, 100_000))));
        assert_eq!(parse("[    3.1] selftest ftrace: what tracers cost: ok"), None);
    }

    #[test]
    fn others_cost_nothing() {
        let rows = |last| {
            [
                (Row::Tracers(1, 0), (30_00, 100)),
                (Row::Tracers(1, 100), (last, 100)),
            ]
        };
        assert_eq!(unequal(&rows(30_01)), None);
        assert!(unequal(&rows(33_00)).is_some());
    }
}
