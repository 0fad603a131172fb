//! `bench/limits.toml`: Limen's exact counts, and the comparison with today's. Counts are the same on every
//! machine, so the margin is small: it allows for another compiler version and for random addresses that need
//! more or fewer page tables, not for noise.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::{Report, boot, perf, rows};
use crate::tree;

/// A count may exceed its limit by this fraction plus `FEW` instructions.
const MARGIN: f64 = 0.03;
const FEW: f64 = 2.0;

const HEAD: &str = "\
# What Limen's operations cost, in instructions (see docs/bench.md). `limen bench --check` fails when a count
# is more than 3 % and 2 instructions above its line here; `limen bench --update-limits` rewrites the file.
";

/// Counts by row.
pub type Counts = BTreeMap<String, f64>;

fn path() -> PathBuf {
    tree::root().join("bench/limits.toml")
}

/// The limits of every architecture.
pub fn read() -> Result<BTreeMap<String, Counts>> {
    let path = path();
    if !path.exists() {
        return Ok(BTreeMap::new());
    }
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text).with_context(|| format!("{} is damaged", path.display()))
}

fn parse(text: &str) -> Result<BTreeMap<String, Counts>> {
    let table: toml::Table = text.parse()?;
    let mut all = BTreeMap::new();
    for (arch, section) in table {
        let toml::Value::Table(section) = section else {
            bail!("{arch} is no section");
        };
        let mut counts = Counts::new();
        for (row, value) in section {
            let number = value.as_float().or(value.as_integer().map(|i| i as f64));
            counts.insert(
                row.clone(),
                number.with_context(|| format!("{row} is no number"))?,
            );
        }
        all.insert(arch, counts);
    }
    Ok(all)
}

/// Limen's counts in a report, by their names in the file.
pub fn counts(report: &Report) -> Counts {
    let mut counts = Counts::new();
    let Some(limen) = report.kernels.iter().find(|k| k.kernel.limen) else {
        return counts;
    };
    for (key, figure) in limen.figures.rows.iter().filter(|(k, _)| k.0 != "calibrate") {
        counts.insert(rows::shown(key), (figure.per_operation() * 10.0).round() / 10.0);
    }
    for (name, _, value) in boot::ROWS {
        if let ("boot" | "smallest-memory", Some(v)) = (name, value(&limen.boot)) {
            counts.insert(name.to_owned(), v as f64);
        }
    }
    counts
}

/// Writes the counts of the reports into the file; rows that were not measured are kept.
pub fn update(reports: &[Report]) -> Result<()> {
    let mut all = read()?;
    for report in reports {
        let section = all.entry(report.arch.name().to_owned()).or_default();
        section.extend(counts(report));
    }
    let mut text = HEAD.to_owned();
    for (arch, section) in &all {
        text += &format!("\n[{arch}]\n");
        // Sorted as the tables are.
        let place = |name: &str| {
            let (row, size) = name.split_once('/').unwrap_or((name, "0"));
            let at = rows::ROWS.iter().position(|r| r.name == row);
            (at.unwrap_or(usize::MAX), size.parse::<u64>().unwrap_or(0))
        };
        let mut names: Vec<&String> = section.keys().collect();
        names.sort_by_key(|n| (place(n), n.to_string()));
        for name in names {
            text += &format!("{:<26} = {:.1}\n", format!("\"{name}\""), section[name]);
        }
    }
    let path = path();
    std::fs::create_dir_all(path.parent().unwrap_or(&path))?;
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("limen: {} rewritten", path.display());
    Ok(())
}

/// One line for each count that exceeds its limit; and the number of counts that are clearly below theirs.
pub fn compare(limits: &Counts, counts: &Counts) -> (Vec<String>, usize) {
    let mut worse = Vec::new();
    let mut better = 0;
    for (row, &limit) in limits {
        let Some(&count) = counts.get(row) else {
            if perf::is(row) && !perf::is_here() {
                continue;
            }
            worse.push(format!("{row}: was not measured (limit {})", rows::number(limit)));
            continue;
        };
        if count > limit * (1.0 + MARGIN) + FEW {
            worse.push(format!(
                "{row}: {} instead of {} ({:+.1} %)",
                rows::number(count),
                rows::number(limit),
                100.0 * (count / limit - 1.0)
            ));
        }
        if count < limit * (1.0 - MARGIN) - FEW {
            better += 1;
        }
    }
    (worse, better)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(list: &[(&str, f64)]) -> Counts {
        list.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect()
    }

    #[test]
    fn only_what_got_worse_is_told() {
        let limits = counts(&[("a", 1000.0), ("b", 1000.0), ("c", 10.0), ("d", 5.0)]);
        let today = counts(&[("a", 1031.0), ("b", 1033.0), ("c", 1.0), ("e", 9.0)]);
        let (worse, better) = compare(&limits, &today);
        assert_eq!(worse.len(), 2);
        assert!(worse[0].starts_with("b: 1,033 instead of 1,000"));
        assert!(worse[1].starts_with("d: was not measured"));
        assert_eq!(better, 1);
    }

    #[test]
    fn the_file_is_read() {
        let all = parse("# x\n[x86_64]\n\"poll/10\" = 5.5\n\"boot\" = 7\n").unwrap();
        assert_eq!(all["x86_64"]["poll/10"], 5.5);
        assert_eq!(all["x86_64"]["boot"], 7.0);
        assert!(parse("x = 1").is_err());
    }
}
