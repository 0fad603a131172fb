//! What a change of the kernel's map costs: the kernel measures it itself, as one of its self-tests, with a
//! clock that counts instructions.

use anyhow::{Result, bail};

use super::super::counted::Subject;
use super::{PATIENCE, explained};
use crate::arch::Arch;

/// What `--only` calls these figures.
pub const NAME: &str = "changes";

/// One page of a leaf becomes read-only and writable again.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// KiB of the leaf.
    pub kib: u64,
    /// Whether it is one of a group.
    pub grouped: bool,
    /// Instructions that it takes to make the page read-only; the leaf is split.
    pub split: u64,
    /// Instructions until it is writable; the leaf is whole again.
    pub merge: u64,
}

impl Change {
    /// From a line of the kernel's log; `None`: it is another line.
    fn parse(line: &str) -> Option<Change> {
        let (_, text) = line.split_once("map cost: a page of a leaf of ")?;
        let number = |before: &str, after: &str| -> Option<u64> {
            text.split_once(before)?.1.split_once(after)?.0.parse().ok()
        };
        Some(Change {
            kib: text.split_once(" KiB")?.0.parse().ok()?,
            grouped: text.contains("in a group"),
            split: number("read-only ", " ns")?,
            merge: number("writable ", " ns")?,
        })
    }
}

/// Memory, in MiB, in which there are leaves of all sizes.
pub fn memory(arch: Arch) -> u64 {
    match arch {
        Arch::Arm => 512,
        Arch::X86_64 | Arch::Arm64 | Arch::Powerpc64 => 4096,
    }
}

/// The changes of all kinds of leaves that the map has, the smallest leaf first.
pub fn measure(subject: Subject) -> Result<Vec<Change>> {
    let arch = subject.arch;
    let mut run = subject.boot(&subject.guest.map.path);
    let words = ["limen.selftest", "limen.map_costs", "loglevel=7"];
    run.kernel_words = words.map(str::to_owned).to_vec();
    run.memory = memory(arch);
    run.timeout = PATIENCE;
    eprintln!("limen: {arch} changes its map with {} MiB", run.memory);
    let ended = run.run(&mut |_| {}).map_err(|why| explained(why, &run))?;
    let mut changes: Vec<Change> = ended.lines.iter().filter_map(|l| Change::parse(l)).collect();
    if changes.is_empty() {
        let from = ended.lines.len().saturating_sub(15);
        bail!(
            "the kernel did not say what changes of its map cost; its console ends so:\n{}",
            ended.lines[from..].join("\n")
        );
    }
    changes.sort_by_key(|c| (c.kib, c.grouped));
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_log() {
        let line = "[    3.1] map cost: a page of a leaf of 2048 KiB: read-only 3210 ns, writable 4321 ns";
        let change = Change {
            kib: 2048,
            grouped: false,
            split: 3210,
            merge: 4321,
        };
        assert_eq!(Change::parse(line), Some(change));
        let grouped = line.replace("KiB", "KiB in a group");
        assert!(Change::parse(&grouped).is_some_and(|c| c.grouped && c.kib == 2048 && c.split == 3210));
        assert_eq!(
            Change::parse("[    3.1] selftest map: what changes cost: ok"),
            None
        );
    }
}
