//! `limen bench --map`: what the kernel's map costs, by blocks and by pages. How many tables there are and
//! how much memory is left, at several sizes of memory; what a change costs; how often TLBs like a real
//! processor's would miss.

mod changes;
mod reach;
mod show;
mod told;

use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::counted::{Run, Subject};
use super::{SETTLE, counted, guest};
use crate::arch::Arch;
use crate::cli::BenchOptions;
use reach::Reach;
use told::Told;

/// What `--only` calls the figures of the boots.
const MEMORY: &str = "memory";
/// Wall-clock time of one boot; with TLBs every access costs.
const PATIENCE: Duration = Duration::from_secs(3600);

/// How the kernel maps memory.
#[derive(Clone, Copy, PartialEq)]
enum How {
    Blocks,
    Pages,
}

impl How {
    const ALL: [How; 2] = [How::Blocks, How::Pages];

    fn name(self) -> &'static str {
        match self {
            How::Blocks => "blocks",
            How::Pages => "pages",
        }
    }

    /// The words for the kernel's command line.
    fn words(self, arch: Arch) -> Vec<String> {
        let words: &[&str] = match (self, arch) {
            (How::Blocks, _) => &[],
            // Without it, arm64 may not change blocks in place.
            (How::Pages, Arch::Arm64) => &["kernel_map=pages", "arm64.bbml2=off"],
            (How::Pages, Arch::X86_64 | Arch::Arm | Arch::Powerpc64) => &["kernel_map=pages"],
        };
        words.iter().map(|w| (*w).to_owned()).collect()
    }
}

/// A figure of each way.
type Both<T> = [T; 2];

/// The figures of one architecture.
struct Report {
    arch: Arch,
    cpu: String,
    /// By memory in MiB.
    boots: Vec<(u64, Both<Told>)>,
    /// By leaf.
    changes: Vec<changes::Change>,
    /// By row, in their order.
    rows: Vec<(&'static str, &'static str, Both<Reach>)>,
}

impl Report {
    /// Whether the kernel knows how to map by pages.
    fn differs(&self) -> bool {
        let by_boots = self.boots.iter().any(|(_, [b, p])| b.leaves != p.leaves);
        let by_rows = self.boots.is_empty() && self.rows.iter().any(|(_, _, [b, p])| b != p);
        // Or neither was measured.
        by_boots || by_rows || self.boots.is_empty() && self.rows.is_empty()
    }
}

/// Measures and prints; the exit status.
pub fn bench(options: &BenchOptions, arches: Vec<Arch>) -> Result<i32> {
    let mut rows = [MEMORY, changes::NAME]
        .into_iter()
        .chain(reach::ROWS.iter().map(|r| r.0));
    if !rows.any(|row| super::wanted(options, row)) {
        let only = options.only.join(",");
        bail!("--only {only}: the rows of --map are in docs/bench.md");
    }
    let mut reports = Vec::new();
    for arch in arches {
        let report = measure(options, arch)?;
        show::print(&report);
        reports.push(report);
    }
    if let Some(path) = &options.json {
        let text = serde_json::to_string_pretty(&show::json(&reports))? + "\n";
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(path) = &options.html {
        std::fs::write(path, show::html(&reports))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(path) = &options.svg {
        let image = show::svg(&reports).context("--svg: no figure differs from 0; there is no plot")?;
        std::fs::write(path, image).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(0)
}

/// The processor model: on arm64 one that has both ways.
fn cpu(options: &BenchOptions, arch: Arch) -> String {
    let given = options.cpu.clone();
    given.unwrap_or_else(|| match arch {
        // The other way of signing addresses, QARMA, would take most of the time in QEMU.
        Arch::Arm64 => "max,pauth-impdef=on".to_owned(),
        Arch::X86_64 | Arch::Arm | Arch::Powerpc64 => counted::fair_cpu(arch).to_owned(),
    })
}

/// Sizes of memory, in MiB. On 32-bit Arm, the largest that the kernel's map holds is the last.
fn sizes(arch: Arch) -> [u64; 3] {
    match arch {
        Arch::Arm => [256, 512, 760],
        Arch::X86_64 | Arch::Arm64 | Arch::Powerpc64 => [512, 4096, 12288],
    }
}

fn measure(options: &BenchOptions, arch: Arch) -> Result<Report> {
    let guest = guest::prepare(arch)?;
    let kernel = super::limen(options, arch)?;
    if !kernel.limen {
        bail!("--map compares two ways of Limen; --kernel takes another build of it");
    }
    let cpu = cpu(options, arch);
    let subject = super::subject(options, arch, &cpu, &kernel, &guest);
    let mut boots = Vec::new();
    for memory in sizes(arch) {
        if super::wanted(options, MEMORY) && has_room(arch, memory) {
            boots.push((memory, both(How::ALL.map(|how| boot(subject, memory, how)))?));
        }
    }
    let wanted = |row: &str| super::wanted(options, row);
    let mut changes = Vec::new();
    if wanted(changes::NAME) && has_room(arch, changes::memory(arch)) {
        changes = changes::measure(subject)?;
    }
    let mut rows = Vec::new();
    if reach::ROWS.iter().any(|r| wanted(r.0)) && has_room(arch, reach::memory(arch)) {
        let [mut blocks, mut pages] =
            both(How::ALL.map(|how| reach::measure(subject, how.words(arch), how.name(), &wanted)))?;
        for (name, what) in reach::ROWS {
            if let (Some(blocks), Some(pages)) = (blocks.remove(name), pages.remove(name)) {
                rows.push((name, what, [blocks, pages]));
            }
        }
    }
    Ok(Report {
        arch,
        cpu,
        boots,
        changes,
        rows,
    })
}

fn both<T>([one, other]: Both<Result<T>>) -> Result<Both<T>> {
    Ok([one?, other?])
}

/// One boot: what the guest tells.
fn boot(subject: Subject, memory: u64, how: How) -> Result<Told> {
    let arch = subject.arch;
    let run = Run {
        words: vec![format!("settle={SETTLE}"), "only=none".to_owned()],
        kernel_words: how.words(arch),
        memory,
        timeout: PATIENCE,
        ..subject.boot(&subject.guest.map.path)
    };
    eprintln!("limen: {arch} boots with {memory} MiB, {}", how.name());
    let ended = run.run(&mut |_| {}).map_err(|why| explained(why, &run))?;
    if !ended.lines.iter().any(|l| l == told::END) {
        let from = ended.lines.len().saturating_sub(15);
        bail!(
            "the guest with {memory} MiB did not come up; its console ends so:\n{}",
            ended.lines[from..].join("\n")
        );
    }
    Told::parse(arch, &ended.lines)
}

/// What to say when QEMU did not start.
fn explained(why: anyhow::Error, run: &Run) -> anyhow::Error {
    let said = format!("{why:#}");
    if run.plugin.is_some() && said.contains("plugin") {
        return why.context(
            "this QEMU has no plugins, which the rows with TLBs need (it is built with them by \
             --enable-plugins); `--only memory` does without",
        );
    }
    if said.contains("memory") {
        return why.context(format!("the host does not give QEMU {} MiB", run.memory));
    }
    why
}

/// Whether the host has the memory for a guest; if not, it is said. A guest gets only what it touches: its
/// kernel's list of frames, the tables, what the rows use.
fn has_room(arch: Arch, memory: u64) -> bool {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let why = no_room(&text, memory);
    if let Some(why) = &why {
        println!("{arch}: no guest with {memory} MiB: {why}");
    }
    why.is_none()
}

/// Why the host of this `/proc/meminfo` has no room for a guest, if so.
fn no_room(meminfo: &str, memory: u64) -> Option<String> {
    let field = |name: &str| -> Option<u64> {
        let line = meminfo.lines().find_map(|l| l.strip_prefix(name))?;
        Some(line.split_whitespace().next()?.parse::<u64>().ok()? >> 10)
    };
    // Where it cannot be known, QEMU says it.
    let (all, swap) = (field("MemTotal:")?, field("SwapTotal:").unwrap_or(0));
    if all + swap < memory {
        return Some(format!("the host has {} MiB in all", all + swap));
    }
    let (free, needed) = (field("MemAvailable:")?, memory / 8 + 512);
    (free < needed).then(|| format!("the host has {free} MiB free, and it may touch {needed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_room_is_seen() {
        let host = "MemTotal:        8388608 kB\nMemAvailable:    1048576 kB\nSwapTotal:             0 kB\n";
        assert_eq!(no_room(host, 512), None);
        assert_eq!(no_room(host, 4096), None);
        assert!(no_room(host, 8000).unwrap().contains("1024 MiB free"));
        assert!(no_room(host, 12288).unwrap().contains("8192 MiB in all"));
        assert_eq!(no_room("", 12288), None);
    }
}
