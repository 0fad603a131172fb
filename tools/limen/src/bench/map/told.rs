//! What a guest tells about its memory and the kernel's map (`map_report` of `programs/bench/map.c`): lines
//! of `/proc/meminfo`, `/sys/kernel/debug/kernel_map` and `/sys/kernel/debug/kernel_page_tables`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result, bail};

use crate::arch::Arch;

/// The line that ends it.
pub const END: &str = "map-end";

/// Addresses that are mapped by leaves of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// The first address.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// Bytes of a leaf; of a group, where the processor keeps one entry for it.
    pub size: u64,
}

/// All of it.
#[derive(Debug, Default, PartialEq)]
pub struct Told {
    /// `MemTotal`, kB.
    pub total: u64,
    /// `MemFree`, kB.
    pub free: u64,
    /// How many tables the kernel's map has.
    pub tables: u64,
    /// How many leaves, by their size in KiB: of the linear map, if the kernel counts them, else of all.
    pub leaves: BTreeMap<u64, u64>,
    /// The kernel's addresses, in order.
    pub runs: Vec<Run>,
    /// What the guest's program wants to be taken for leaves of some size.
    pub own: Vec<Run>,
}

impl Told {
    /// Reads the lines of a guest.
    pub fn parse(arch: Arch, lines: &[String]) -> Result<Told> {
        let mut told = Told::default();
        let mut direct = BTreeMap::new();
        let mut counted = None;
        let mut counted_leaves = BTreeMap::new();
        let mut listed = Vec::new();
        for line in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            let damaged = || format!("the guest's line is damaged: {line}");
            match words[..] {
                ["map-memory", "MemTotal:", kib, "kB"] => told.total = kib.parse().with_context(damaged)?,
                ["map-memory", "MemFree:", kib, "kB"] => told.free = kib.parse().with_context(damaged)?,
                ["map-memory", name, kib, "kB"] => {
                    let size = name
                        .strip_prefix("DirectMap")
                        .and_then(|n| size(n.trim_end_matches(':')));
                    let size = size.with_context(damaged)?;
                    direct.insert(size, kib.parse::<u64>().with_context(damaged)?);
                }
                ["map-count", "tables", n] => counted = Some(n.parse().with_context(damaged)?),
                ["map-count", "leaves", kib, n] => {
                    counted_leaves.insert(
                        kib.parse().with_context(damaged)?,
                        n.parse().with_context(damaged)?,
                    );
                }
                ["map-leaf", "---[", ..] => {}
                ["map-leaf", addresses, ref more @ ..] => listed.push((addresses, more.to_vec(), line)),
                ["map-own", start, end, size] => told.own.push(Run {
                    start: u64::from_str_radix(start, 16).with_context(damaged)?,
                    end: u64::from_str_radix(end, 16).with_context(damaged)?,
                    size: u64::from_str_radix(size, 16).with_context(damaged)?,
                }),
                _ => {}
            }
        }
        if listed.is_empty() {
            bail!("this kernel has no /sys/kernel/debug/kernel_page_tables");
        }
        for (addresses, more, line) in listed {
            let run = run(arch, addresses, &more, &direct);
            told.runs
                .push(run.with_context(|| format!("not understood: {line}"))?);
        }
        told.runs.sort_by_key(|r| r.start);
        told.leaves = counted_leaves;
        if told.leaves.is_empty() {
            for run in &told.runs {
                *told.leaves.entry(run.size >> 10).or_default() += (run.end - run.start) / run.size;
            }
        }
        told.leaves.retain(|_, n| *n > 0);
        told.tables = counted.unwrap_or_else(|| tables(&told.runs, shifts(arch, &direct)));
        Ok(told)
    }

    /// The file that the plugin reads.
    pub fn file(&self) -> String {
        let mut text = String::new();
        for run in self.runs.iter().chain(&self.own) {
            let _ = writeln!(text, "{:x} {:x} {:x}", run.start, run.end, run.size);
        }
        text
    }
}

/// A number with its unit, `4k` or `2M`, in bytes.
fn size(text: &str) -> Option<u64> {
    let shift = match text.chars().last()? {
        'k' => 10,
        'M' => 20,
        'G' => 30,
        _ => return None,
    };
    Some(text[..text.len() - 1].parse::<u64>().ok()? << shift)
}

/// A line of `kernel_page_tables`; `direct` has the kB of the linear map by the size of leaves.
fn run(arch: Arch, addresses: &str, more: &[&str], direct: &BTreeMap<u64, u64>) -> Option<Run> {
    let hex = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    let (start, end) = addresses.split_once('-')?;
    let (start, mut end) = (hex(start)?, hex(end)?);
    let has = |word| more.contains(&word);
    let size = match arch {
        Arch::X86_64 => match *more.last()? {
            "pte" => 1 << 12,
            "pmd" => 1 << 21,
            "pud" => 1 << 30,
            _ => return None,
        },
        Arch::Arm64 | Arch::Arm => {
            let shift = if has("PTE") {
                12
            } else if has("PMD") {
                if direct.contains_key(&(1 << 20)) { 20 } else { 21 }
            } else if has("PUD") || has("PGD") {
                30
            } else {
                return None;
            };
            // Sixteen leaves are one entry of a TLB.
            1 << if has("CON") { shift + 4 } else { shift }
        }
        // The list does not say the size. Each line has leaves of one size and memory that hangs together:
        // the largest size that the linear map has and that fits.
        Arch::Powerpc64 => {
            end = end.checked_add(1)?;
            let memory = hex(more.first()?)?;
            let has = |size: u64| direct.get(&size).is_some_and(|kib| *kib > 0);
            let fits = |size: u64| has(size) && (start | end | memory).is_multiple_of(size);
            [1 << 30, 1 << 21]
                .into_iter()
                .find(|s| fits(*s))
                .unwrap_or(1 << 12)
        }
    };
    let whole = start < end && (end - start).is_multiple_of(size);
    whole.then_some(Run { start, end, size })
}

/// The log2 of what an entry of a table covers, from pages to the root.
fn shifts(arch: Arch, direct: &BTreeMap<u64, u64>) -> &'static [u32] {
    match arch {
        Arch::X86_64 | Arch::Arm64 | Arch::Powerpc64 => &[12, 21, 30, 39],
        Arch::Arm if direct.contains_key(&(1 << 20)) => &[12, 20],
        Arch::Arm => &[12, 21, 30],
    }
}

/// How many tables such leaves need, the root included.
fn tables(runs: &[Run], shifts: &[u32]) -> u64 {
    let mut count = 1;
    for pair in shifts.windows(2) {
        // The tables whose entries cover `1 << pair[0]` bytes; the next one that is not counted yet.
        let mut next = 0;
        for run in runs.iter().filter(|r| r.size < 1 << pair[1]) {
            let (first, last) = (run.start >> pair[1], (run.end - 1) >> pair[1]);
            let first = first.max(next);
            if first <= last {
                count += last - first + 1;
                next = last + 1;
            }
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    const RUN: fn(u64, u64, u64) -> Run = |start, end, size| Run { start, end, size };

    #[test]
    fn x86_64() {
        let told = Told::parse(
            Arch::X86_64,
            &lines(
                "map-memory MemTotal:         500000 kB\nmap-memory MemFree:          400000 kB\n\
                 map-memory DirectMap4k:          2048 kB\nmap-memory DirectMap2M:          2048 kB\n\
                 map-memory DirectMap1G:       1048576 kB\nmap-leaf ---[ Low Kernel Mapping ]---\n\
                 map-leaf 0xffff888000000000-0xffff888000200000           2M     RW                     GLB \
                 NX pte\n\
                 map-leaf 0xffff888000200000-0xffff888000400000           2M     RW         PSE         GLB \
                 NX pmd\n\
                 map-leaf 0xffff888040000000-0xffff888080000000           1G     RW         PSE         GLB \
                 NX pud\n\
                 map-leaf ---[ vmalloc() Area ]---\n\
                 map-leaf 0xffffc90000000000-0xffffc90000004000          16K     RW                     GLB \
                 NX pte\n\
                 map-own 30000000 30800000 1000\nmap-end",
            ),
        )
        .unwrap();
        assert_eq!((told.total, told.free), (500_000, 400_000));
        assert_eq!(
            told.runs[1],
            RUN(0xffff_8880_0020_0000, 0xffff_8880_0040_0000, 1 << 21)
        );
        assert_eq!(told.leaves, BTreeMap::from([(4, 516), (2048, 1), (1 << 20, 1)]));
        // The root, two of 512 GiB, two of 1 GiB, two of 2 MiB.
        assert_eq!(told.tables, 7);
        assert_eq!(told.own, [RUN(0x3000_0000, 0x3080_0000, 4096)]);
        let file = told.file();
        assert!(
            file.starts_with("ffff888000000000 ffff888000200000 1000\n"),
            "{file}"
        );
        assert!(file.ends_with("30000000 30800000 1000\n"), "{file}");
    }

    #[test]
    fn what_the_kernel_counted_is_preferred() {
        let told = Told::parse(
            Arch::X86_64,
            &lines(
                "map-count tables 1234\nmap-count leaves 4 99\nmap-count leaves 2048 0\n\
                 map-leaf 0xffff888000000000-0xffff888000200000 2M RW GLB NX pte",
            ),
        )
        .unwrap();
        assert_eq!((told.tables, told.leaves), (1234, BTreeMap::from([(4, 99)])));
    }

    #[test]
    fn arm64() {
        let told = Told::parse(
            Arch::Arm64,
            &lines(
                "map-leaf 0xffff000040000000-0xffff000040010000   64K PTE       RW NX SHD AF    CON     UXN \
                 MEM/NORMAL\n\
                 map-leaf 0xffff000042000000-0xffff000044000000   32M PMD       RW NX SHD AF    CON BLK UXN \
                 MEM/NORMAL\n\
                 map-leaf 0xffff000080000000-0xffff0000c0000000    1G PUD       RW NX SHD AF        BLK UXN \
                 MEM/NORMAL",
            ),
        )
        .unwrap();
        let sizes: Vec<u64> = told.runs.iter().map(|r| r.size).collect();
        assert_eq!(sizes, [1 << 16, 1 << 25, 1 << 30]);
        // The root, one of 512 GiB, one of 1 GiB, one of 2 MiB.
        assert_eq!(told.tables, 4);
    }

    #[test]
    fn arm() {
        let line = "map-leaf 0xc0000000-0xc0200000      2M PMD     RW NX SHD MEM/CACHED/WBWA";
        let told = Told::parse(Arch::Arm, &lines(line)).unwrap();
        assert_eq!((told.runs[0].size, told.tables), (1 << 21, 2));
        let short = format!("map-memory DirectMap1M: 2048 kB\n{line}");
        let told = Told::parse(Arch::Arm, &lines(&short)).unwrap();
        assert_eq!((told.runs[0].size, told.tables), (1 << 20, 1));
    }

    #[test]
    fn powerpc64_has_the_largest_size_that_fits() {
        let list = "map-leaf 0xc000000000000000-0xc0000000001fffff  0x0000000000000000   2M    r  w\n\
                    map-leaf 0xc000000040000000-0xc00000007fffffff  0x0000000040000000   1G    r  w\n\
                    map-leaf 0xc008000000000000-0xc0080000001fffff  0x0000000000001000   2M    r  w";
        let sizes = |direct: &str| -> Vec<u64> {
            let told = Told::parse(Arch::Powerpc64, &lines(&format!("{direct}{list}"))).unwrap();
            told.runs.iter().map(|r| r.size).collect()
        };
        let blocks = "map-memory DirectMap2M: 2048 kB\nmap-memory DirectMap1G: 1048576 kB\n";
        assert_eq!(sizes(blocks), [1 << 21, 1 << 30, 1 << 12]);
        assert_eq!(sizes("map-memory DirectMap2M: 0 kB\n"), [1 << 12; 3]);
    }

    #[test]
    fn what_is_damaged_is_refused() {
        let refused = |text| Told::parse(Arch::X86_64, &lines(text)).is_err();
        assert!(refused("map-end"));
        assert!(refused("map-leaf 0xffff888000000000-0xffff888000200000 2M RW"));
        assert!(refused(
            "map-leaf 0xffff888000000000-0xffff888000100000 1M RW pmd"
        ));
        assert!(refused("map-leaf 0xffff8880[ 1.0] a message"));
        assert!(refused("map-memory MemFree: 4x kB"));
    }
}
