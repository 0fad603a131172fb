//! The reach of TLBs: rows of `programs/bench/map.c` whose accesses to the kernel's memory go through a model
//! of TLBs (`tools/limen/plugin/reach.c`), with the leaf sizes of the very boot that runs them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::super::counted::{Run, Subject};
use super::super::rows::Figures;
use super::super::{SETTLE, plugin};
use super::told::{self, Told};
use crate::arch::Arch;
use crate::{made, tree};

/// Rows whose figures are known: each load is looked up in both levels; in the first; hardly any misses.
const FAR: &str = "stride-far";
const NEAR: &str = "stride-near";
const BLOCKS: &str = "stride-blocks";

/// The other rows, in the guest's order.
pub const ROWS: [(&str, &str); 4] = [
    ("read-large", "read a file of up to 256 MiB, 64 KiB at a time"),
    ("fork-exec", "fork + exec of a tiny static program"),
    (
        "store-memory",
        "a key-value store, four clients, values in memory",
    ),
    ("store-file", "the same, values in a file"),
];

/// Of their free memory the rows use about 300 MiB, where there is that much.
pub fn memory(arch: Arch) -> u64 {
    match arch {
        Arch::Arm => 512,
        Arch::X86_64 | Arch::Arm64 | Arch::Powerpc64 => 4096,
    }
}

/// The first of the kernel's addresses.
fn kernel(arch: Arch) -> u64 {
    match arch {
        Arch::X86_64 | Arch::Arm64 => 0xffff << 48,
        Arch::Arm => 0xc000_0000,
        Arch::Powerpc64 => 0xc << 60,
    }
}

/// The figures of a row, of all its rounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reach {
    /// The kernel's instructions.
    pub instructions: u64,
    /// Accesses that were looked up.
    pub accesses: u64,
    /// Those to addresses that were mapped after the list was made.
    pub unlisted: u64,
    /// Those that the first level did not have.
    pub misses: u64,
    /// Those that no level had.
    pub walks: u64,
}

impl Reach {
    /// A count for each thousand of the kernel's instructions.
    pub fn per_thousand(&self, count: u64) -> f64 {
        count as f64 * 1000.0 / self.instructions.max(1) as f64
    }
}

/// Files of a run, which go with the value.
struct Files {
    output: PathBuf,
    map: PathBuf,
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.output);
        let _ = std::fs::remove_file(&self.map);
    }
}

/// Runs the rows that `wanted` chooses in one boot, with more words for the kernel.
pub fn measure(
    subject: Subject,
    kernel_words: Vec<String>,
    how: &str,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<BTreeMap<String, Reach>> {
    let arch = subject.arch;
    let init = &subject.guest.programs.map;
    let run = tree::cache("run")?;
    let id = std::process::id();
    let files = Files {
        output: run.join(format!("{id}.reach")),
        map: run.join(format!("{id}.map")),
    };
    let _ = std::fs::remove_file(&files.map);
    let mut option = format!(
        "{},output={},map={},kernel={:x}",
        plugin::built("reach")?.display(),
        files.output.display(),
        files.map.display(),
        kernel(arch)
    );
    for (mark, function) in [
        ("row", "map_row"),
        ("begin", "profile_begin"),
        ("end", "profile_end"),
    ] {
        option += &format!(",{mark}={:x}", plugin::function(init, function)?);
    }
    let functions = plugin::functions(init)?;
    let (start, size, _) = functions
        .iter()
        .find(|f| f.2 == "stride_touch")
        .context("bench-map has no stride_touch")?;
    option += &format!(",user={start:x},user_end={:x}", start + size);
    let names: Vec<&str> = [FAR, NEAR, BLOCKS]
        .into_iter()
        .chain(ROWS.iter().map(|r| r.0).filter(|r| wanted(r)))
        .collect();
    let run = Run {
        words: vec![format!("settle={SETTLE}"), format!("only={}", names.join(","))],
        kernel_words,
        memory: memory(arch),
        plugin: Some(option),
        timeout: super::PATIENCE,
        ..subject.boot(&subject.guest.map.path)
    };
    eprintln!("limen: {arch} boots with {} MiB, {how}, and TLBs", run.memory);
    let mut said = Vec::new();
    let mut heard = Ok(());
    let ended = run.run(&mut |line| {
        if let Some(row) = line.strip_prefix("bench-begin ") {
            eprintln!("limen: {arch}, {how}: {}", row.trim_end_matches(" 0"));
        }
        said.push(line.to_owned());
        if line == told::END {
            // The plugin waits for it at the first row.
            heard =
                Told::parse(arch, &said).and_then(|told| made::replace(&files.map, told.file().as_bytes()));
        }
    });
    let ended = ended.map_err(|why| super::explained(why, &run))?;
    heard?;
    let figures = Figures::parse(&ended.lines);
    if let Some((row, why)) = figures.failed.first() {
        bail!("{row} failed: {why}");
    }
    if !figures.complete {
        let from = ended.lines.len().saturating_sub(15);
        bail!(
            "the guest did not get through the rows; its console ends so:\n{}",
            ended.lines[from..].join("\n")
        );
    }
    let text = std::fs::read_to_string(&files.output)
        .context("QEMU's plugin wrote nothing; does this QEMU have plugins (qemu-system-* -plugin help)?")?;
    let found = parse(&text, &names)?;
    let loads = |row: &str| {
        let figure = figures.rows.get(&(row.to_owned(), 0));
        figure.map_or(0, |f| f.operations * f.rounds.len() as u64)
    };
    check(&found, &loads).with_context(|| format!("{arch}, {how}"))?;
    Ok(found)
}

/// Reads the plugin's output.
fn parse(text: &str, names: &[&str]) -> Result<BTreeMap<String, Reach>> {
    let mut lines = text.lines();
    let ranges = lines.next().and_then(|l| l.strip_prefix("ranges "));
    match ranges.and_then(|n| n.parse::<u64>().ok()) {
        None => bail!("the plugin's output is damaged"),
        Some(0) => bail!("the plugin did not get the list of leaves"),
        Some(_) => {}
    }
    let mut found = BTreeMap::new();
    for line in lines {
        let numbers: Result<Vec<u64>, _> = line.split_whitespace().map(str::parse).collect();
        let Ok(&[row, stretches, instructions, accesses, unlisted, second, walks]) = numbers.as_deref()
        else {
            bail!("the plugin's output is damaged: {line}");
        };
        let name = usize::try_from(row)
            .ok()
            .and_then(|r| names.get(r.checked_sub(1)?));
        let name = name.with_context(|| format!("the plugin saw a row too many: {line}"))?;
        if stretches == 0 {
            bail!("the plugin saw no round of {name}");
        }
        found.insert(
            (*name).to_owned(),
            Reach {
                instructions,
                accesses,
                unlisted,
                misses: second + walks,
                walks,
            },
        );
    }
    if found.len() != names.len() {
        bail!("of {} rows the plugin saw {}", names.len(), found.len());
    }
    Ok(found)
}

/// Fails unless the rows whose answer is known have it; `loads` says how many loads each makes.
fn check(found: &BTreeMap<String, Reach>, loads: &dyn Fn(&str) -> u64) -> Result<()> {
    for (row, misses, walks) in [(FAR, 1, 1), (NEAR, 1, 0), (BLOCKS, 0, 0)] {
        let (reach, loads) = (found.get(row).cloned().unwrap_or_default(), loads(row));
        // A timer's interrupt may come between.
        let near = |count: u64, times: u64| loads > 0 && count.abs_diff(loads * times) <= loads / 100;
        if !near(reach.accesses, 1) || !near(reach.misses, misses) || !near(reach.walks, walks) {
            bail!(
                "of {loads} loads in {row} the TLBs saw {}, {} of them missed the first level and {} both: \
                 no figure means anything",
                reach.accesses,
                reach.misses,
                reach.walks
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "ranges 7\n1 3 900 10002 0 1 10000\n2 3 900 10000 0 10000 2\n3 3 900 10000 5 2 2\n";

    #[test]
    fn lines_become_figures() {
        let found = parse(TEXT, &[FAR, NEAR, BLOCKS]).unwrap();
        assert_eq!(
            found[NEAR],
            Reach {
                instructions: 900,
                accesses: 10000,
                unlisted: 0,
                misses: 10002,
                walks: 2,
            }
        );
        assert_eq!(found[NEAR].per_thousand(9), 10.0);
        check(&found, &|_| 10000).unwrap();
    }

    #[test]
    fn a_model_that_sees_wrong_is_refused() {
        let swapped = parse(TEXT, &[FAR, BLOCKS, NEAR]).unwrap();
        assert!(check(&swapped, &|_| 10000).is_err());
        let found = parse(TEXT, &[FAR, NEAR, BLOCKS]).unwrap();
        assert!(check(&found, &|_| 20000).is_err());
        assert!(check(&found, &|_| 0).is_err());
    }

    #[test]
    fn damaged_output_is_refused() {
        let said = |text: &str, names: &[&str]| parse(text, names).unwrap_err().to_string();
        assert!(said("", &[FAR]).contains("damaged"));
        assert!(said("ranges 0\n", &[FAR]).contains("list of leaves"));
        assert!(said(TEXT, &[FAR, NEAR]).contains("too many"));
        assert!(said("ranges 1\n1 0 0 0 0 0 0\n", &[FAR]).contains("no round"));
        assert!(said("ranges 1\n", &[FAR]).contains("of 1 rows the plugin saw 0"));
        assert!(said("ranges 1\n1 2 3\n", &[FAR]).contains("damaged"));
    }

    /// `tools/limen/plugin/tlb_test.c`: the model by itself. Without a C compiler, nothing is checked.
    #[test]
    fn the_model_misses_as_often_as_computed() {
        let program = std::env::temp_dir().join(format!("limen-tlb-test-{}", std::process::id()));
        let source = tree::root().join("tools/limen/plugin/tlb_test.c");
        let built = std::process::Command::new("cc")
            .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
            .args([&program, &source])
            .output();
        let Ok(built) = built else { return };
        assert!(
            built.status.success(),
            "{}",
            String::from_utf8_lossy(&built.stderr)
        );
        let ran = std::process::Command::new(&program).output();
        let _ = std::fs::remove_file(&program);
        let ran = ran.unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
    }
}
