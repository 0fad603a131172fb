//! `limen bench --shared-lines`: lines of memory (64 bytes) that more than one processor writes while four
//! threads, each on a processor of its own, do the same at the same time. Such a line travels between the
//! caches of real processors, which no count of instructions shows. `tools/limen/plugin/shared.c` finds them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::counted::{Kernel, Run, Subject};
use super::plugin;
use super::profile::Places;
use super::rows::{Figures, number};
use super::{SETTLE, guest};
use crate::arch::Arch;
use crate::cli::BenchOptions;
use crate::tree;

/// Processors, and threads.
const CPUS: u32 = 4;
/// Turns of each thread between the two marks; `TURNS` of `programs/bench/shared.c`.
const TURNS: u64 = 1000;
/// A processor writes a line often if it does so at least once in this many turns.
const SELDOM: u64 = 100;
/// Writers of a line that are shown.
const SHOWN: usize = 3;

/// The rows that show whether the plugin sees what it should.
const ONE: &str = "one-line";
const OWN: &str = "own-lines";
/// All rows, in the order in which the guest runs them.
const ROWS: [(&str, &str); 10] = [
    (ONE, "adding to one word"),
    (OWN, "each adding to a word of its own"),
    ("getpid", "getpid"),
    ("read-zero", "read 1 byte of /dev/zero"),
    ("read-common", "the same by one descriptor"),
    ("epoll", "epoll_wait, one of its own ready"),
    ("stat", "stat of one name"),
    ("kill-0", "kill(one process, 0)"),
    ("getpriority", "getpriority of one process"),
    ("getaffinity", "sched_getaffinity of one process"),
];

/// A line that several processors write often.
#[derive(Debug, PartialEq)]
struct Line {
    /// Stores per turn of one thread.
    per_turn: f64,
    /// The processors that write it often.
    cpus: usize,
    /// Where it is.
    address: u64,
    /// The instructions that write it, with their stores, the busiest first.
    writers: Vec<(u64, u64)>,
}

/// What was found in one row.
#[derive(Default)]
struct Row {
    often: Vec<Line>,
    /// How many lines are written by several processors, but not often.
    seldom: usize,
}

/// The rows of one kernel, by name.
type Found = BTreeMap<String, Row>;

/// Measures and prints; the exit status.
pub fn bench(options: &BenchOptions, arches: Vec<Arch>) -> Result<i32> {
    for name in &options.only {
        if !ROWS.iter().any(|(row, _)| super::wanted(options, row)) {
            bail!("--only {name}: the rows of --shared-lines are in docs/bench.md");
        }
    }
    for arch in arches {
        let guest = guest::prepare(arch)?;
        let cpu = super::cpu(options, arch);
        let kernels = super::kernels(options, arch)?;
        let mut all = Vec::new();
        for kernel in &kernels {
            let subject = super::subject(options, arch, &cpu, kernel, &guest);
            all.push(measure(options, subject)?);
        }
        print(options, arch, &kernels, &all);
        for (kernel, found) in kernels.iter().zip(&all) {
            details(options, arch, kernel, &guest.programs.shared, found)?;
        }
    }
    Ok(0)
}

/// The output file of the plugin, which goes with the value.
struct Output(PathBuf);

impl Drop for Output {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// All wanted rows of one kernel, in one boot.
fn measure(options: &BenchOptions, subject: Subject) -> Result<Found> {
    let (name, arch) = (&subject.kernel.name, subject.arch);
    let init = &subject.guest.programs.shared;
    let output = Output(tree::cache("run")?.join(format!("{}.lines", std::process::id())));
    let mut plugin = format!(
        "{},output={}",
        plugin::built("shared")?.display(),
        output.0.display()
    );
    for (mark, function) in [
        ("row", "shared_row"),
        ("begin", "shared_begin"),
        ("end", "shared_end"),
    ] {
        plugin += &format!(",{mark}={:x}", plugin::function(init, function)?);
    }
    let only: Vec<&str> = ROWS
        .iter()
        .map(|r| r.0)
        .filter(|row| [ONE, OWN].contains(row) || super::wanted(options, row))
        .collect();
    let words = vec![format!("settle={SETTLE}"), format!("only={}", only.join(","))];
    let run = Run {
        words,
        cpus: CPUS,
        plugin: Some(plugin),
        ..subject.boot(&subject.guest.shared.path)
    };
    eprintln!("limen: {name} on {arch} boots, {CPUS} processors");
    let ended = run.run(&mut |line| {
        if let Some(row) = line.strip_prefix("bench-begin ") {
            eprintln!("limen: {name} on {arch}: {}", row.trim_end_matches(" 0"));
        }
    })?;
    let figures = Figures::parse(&ended.lines);
    if let Some((row, why)) = figures.failed.first() {
        bail!("{name}: {row} failed: {why}");
    }
    if !figures.complete {
        let from = ended.lines.len().saturating_sub(15);
        bail!(
            "{name} did not get through the rows; its console ends so:\n{}",
            ended.lines[from..].join("\n")
        );
    }
    let text = std::fs::read_to_string(&output.0)
        .context("QEMU's plugin wrote nothing; does this QEMU have plugins (qemu-system-* -plugin help)?")?;
    let found = parse(&text, &only)?;
    check(&found).with_context(|| format!("{name} on {arch}"))?;
    Ok(found)
}

/// Reads the plugin's output.
fn parse(text: &str, rows: &[&str]) -> Result<Found> {
    let mut turns: Vec<u64> = Vec::new();
    // Per row and line: what each processor stored there, and where; what each instruction did.
    type Seen = (u64, BTreeMap<u64, u64>, BTreeMap<u64, u64>);
    let mut seen: BTreeMap<(usize, u64), Seen> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["stretches", _, n] = words[..] {
            turns.push(n.parse::<u64>()? * TURNS);
            continue;
        }
        let [row, line, cpu, count, pc, address] = words[..] else {
            bail!("the plugin's output is damaged: {line}");
        };
        let hex = |text| u64::from_str_radix(text, 16);
        let (count, address) = (count.parse::<u64>()?, hex(address)?);
        let entry = seen.entry((row.parse()?, hex(line)?)).or_default();
        entry.0 = address;
        *entry.1.entry(cpu.parse()?).or_default() += count;
        *entry.2.entry(hex(pc)?).or_default() += count;
    }
    if turns.len() != rows.len() || turns.contains(&0) {
        bail!("of {} rows the plugin saw {}", rows.len(), turns.len());
    }
    let mut found: Found = rows.iter().map(|r| ((*r).to_owned(), Row::default())).collect();
    for ((row, _), (address, cpus, pcs)) in seen {
        let Some(name) = row.checked_sub(1).and_then(|r| rows.get(r)) else {
            continue;
        };
        let turns = turns[row - 1];
        let often = cpus.values().filter(|n| **n >= turns / u64::from(CPUS) / SELDOM);
        let cpus_often = often.count();
        let entry = found.entry((*name).to_owned()).or_default();
        if cpus_often < 2 {
            entry.seldom += 1;
            continue;
        }
        let mut writers: Vec<(u64, u64)> = pcs.into_iter().collect();
        writers.sort_by_key(|w| std::cmp::Reverse(w.1));
        entry.often.push(Line {
            per_turn: cpus.values().sum::<u64>() as f64 / turns as f64,
            cpus: cpus_often,
            address,
            writers,
        });
    }
    for row in found.values_mut() {
        row.often.sort_by(|a, b| b.per_turn.total_cmp(&a.per_turn));
    }
    Ok(found)
}

/// Fails unless the two rows whose answer is known have it.
fn check(found: &Found) -> Result<()> {
    let all = |line: &Line| line.cpus == CPUS as usize && (line.per_turn - 1.0).abs() < 0.01;
    if !found.get(ONE).is_some_and(|row| row.often.iter().any(all)) {
        bail!(
            "the plugin does not see the line that {CPUS} threads write in {ONE}: no figure means anything"
        );
    }
    if let Some(line) = found.get(OWN).and_then(|row| row.often.first()) {
        bail!(
            "the plugin sees a shared line at {:#x} in {OWN}, which has none: no figure means anything",
            line.address
        );
    }
    Ok(())
}

fn print(options: &BenchOptions, arch: Arch, kernels: &[Kernel], all: &[Found]) {
    println!();
    println!(
        "{arch}: lines of 64 bytes that several of {CPUS} processors write, and stores to them per call"
    );
    println!();
    let mut head = format!("{:<12} {:<34}", "row", "what each processor does");
    kernels.iter().for_each(|k| head += &format!(" {:>16}", k.name));
    println!("{head}");
    for (row, what) in ROWS {
        if [ONE, OWN].contains(&row) || !super::wanted(options, row) {
            continue;
        }
        let mut line = format!("{row:<12} {what:<34}");
        for found in all {
            let Some(lines) = found.get(row).map(|r| &r.often) else {
                continue;
            };
            // The sum of nothing is a negative zero.
            let stores: f64 = lines.iter().map(|l| l.per_turn).fold(0.0, |a, b| a + b);
            line += &format!(" {:>7} {:>8}", lines.len(), number(stores));
        }
        println!("{line}");
    }
}

/// Who writes the lines of one kernel, when its symbols are known.
fn details(
    options: &BenchOptions,
    arch: Arch,
    kernel: &Kernel,
    init: &std::path::Path,
    found: &Found,
) -> Result<()> {
    let Some(symbols) = &kernel.symbols else {
        return Ok(());
    };
    let mut functions = plugin::functions(symbols)?;
    functions.extend(plugin::functions(init)?);
    functions.sort_by_key(|f| f.0);
    let places = Places::of_run(arch, functions);
    let mut data = plugin::data(symbols)?;
    data.extend(plugin::data(init)?);
    data.sort_by_key(|d| d.0);
    for (row, what) in ROWS {
        let Some(lines) = found.get(row).filter(|_| super::wanted(options, row)) else {
            continue;
        };
        println!();
        println!(
            "{}, {what}: lines written often {}, now and then {}",
            kernel.name,
            lines.often.len(),
            lines.seldom
        );
        for line in &lines.often {
            let at = plugin::inside(&data, line.address).unwrap_or("");
            let what = format!(
                "{:>8} per call, {} processors: {:#x} {at}",
                number(line.per_turn),
                line.cpus,
                line.address
            );
            println!("{}", what.trim_end());
            let mut by_symbol: Vec<(&str, u64)> = Vec::new();
            for (pc, count) in &line.writers {
                let symbol = places.symbol_at(*pc).0;
                match by_symbol.iter_mut().find(|s| s.0 == symbol) {
                    Some(known) => known.1 += count,
                    None => by_symbol.push((symbol, *count)),
                }
            }
            by_symbol.sort_by_key(|s| std::cmp::Reverse(s.1));
            for (symbol, _) in by_symbol.iter().take(SHOWN) {
                println!("{:>12}by {symbol}", "");
            }
            if by_symbol.len() > SHOWN {
                println!("{:>12}and {} more", "", by_symbol.len() - SHOWN);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two rows: in the first, every processor writes line 1 once per turn; in the second, lines 2 and 3 have
    /// one busy writer each.
    const TEXT: &str = "stretches 1 4\nstretches 2 4\n\
        1 1 0 1000 400 1040\n1 1 1 1000 400 1040\n1 1 2 1000 400 1040\n1 1 3 990 404 1040\n\
        1 1 3 10 408 1040\n2 2 0 1000 400 2040\n2 2 1 3 400 2040\n2 3 1 1000 400 3040\n2 3 0 9 400 3040\n";

    #[test]
    fn often_and_seldom_are_told_apart() {
        let found = parse(TEXT, &[ONE, OWN]).unwrap();
        assert_eq!(
            found[ONE].often,
            [Line {
                per_turn: 1.0,
                cpus: 4,
                address: 0x1040,
                writers: vec![(0x400, 3000), (0x404, 990), (0x408, 10)],
            }]
        );
        assert_eq!((found[OWN].often.len(), found[OWN].seldom), (0, 2));
        check(&found).unwrap();
    }

    #[test]
    fn a_plugin_that_sees_wrong_is_refused() {
        let found = parse(TEXT, &[OWN, ONE]).unwrap();
        assert!(check(&found).is_err());
        let both = parse(&TEXT.replace("2 3 0 9 ", "2 3 0 10 "), &[ONE, OWN]).unwrap();
        assert!(check(&both).unwrap_err().to_string().contains("own-lines"));
        assert!(parse(TEXT, &[ONE]).is_err());
        assert!(parse("stretches 1 4\nx\n", &[ONE]).is_err());
    }
}
