//! `limen bench --profile NAME`: the kernel's instructions during a row, by symbol. Every instruction between
//! the start and the end of the measured rounds is counted at its address; this is no sampling.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::counted::{Run, Subject};
use super::perf;
use super::plugin::{self, Counting, Counts};
use super::rows::{self, Figures};
use crate::arch::Arch;

/// The symbols of addresses.
pub struct Places {
    arch: Arch,
    functions: Vec<(u64, u64, String)>,
    /// The kernel's physical addresses, at which it runs before paging is on.
    early: Vec<(u64, u64)>,
    boot: bool,
}

/// One line of the profile.
struct Line {
    instructions: u64,
    calls: u64,
}

/// Profiles one row (`NAME` or `NAME/SIZE`) or the boot, and prints the table.
pub fn profile(subject: Subject, name: &str, json: Option<&Path>) -> Result<()> {
    let (arch, kernel, guest) = (subject.arch, subject.kernel, subject.guest);
    let symbols = kernel
        .symbols
        .as_deref()
        .context("this kernel has no file with symbols")?;
    let functions = plugin::functions(symbols)?;
    if functions.is_empty() {
        bail!(
            "{} has no symbols; give Limen's ELF file with --kernel",
            symbols.display()
        );
    }
    if perf::is(name) {
        bail!(
            "--profile {name}: perf's own program does not say where a measurement begins and ends; the rows \
             of programs/bench do"
        );
    }
    let boot = name == "boot";
    let counting = if boot {
        Counting::new(None)?
    } else {
        let init: &Path = &guest.programs.init;
        let begin = plugin::function(init, "profile_begin")?;
        Counting::new(Some((begin, plugin::function(init, "profile_end")?)))?
    };
    let (row, size) = name.split_once('/').unwrap_or((name, ""));
    let mut words = Vec::new();
    if !boot {
        let Some(found) = rows::find(row) else {
            bail!("--profile {name}: no such row; docs/bench.md lists them");
        };
        if found.size.is_some() && size.parse::<u64>().is_err() {
            bail!("--profile {name}: say at which size: {name}/N");
        }
        words.push(format!("only={row}"));
        if found.size.is_some() {
            words.push(format!("size={size}"));
        }
    }
    eprintln!("limen: {} on {arch}: {name}", kernel.name);
    let run = Run {
        words,
        plugin: Some(counting.option.clone()),
        ..subject.boot(if boot { &guest.hello.path } else { &guest.rows.path })
    };
    let ended = run.run(&mut |_| {})?;
    let counts = counting.read()?;
    let mut divisor = 1.0;
    let mut measured = None;
    if !boot {
        let figures = Figures::parse(&ended.lines);
        let Some(figure) = figures.rows.values().next() else {
            let why = figures.failed.first().map_or("no figures", |f| f.1.as_str());
            bail!("{name} failed: {why}");
        };
        divisor = figure.operations as f64 * counts.stretches.max(1) as f64;
        measured = Some(figure.rounds.iter().sum::<u64>() as f64 / divisor);
    }
    let mut places = Places::of_run(arch, functions);
    if boot {
        (places.early, places.boot) = (plugin::loaded(arch, symbols)?, true);
    }
    print(name, &counts, &places, divisor, measured);
    if let Some(file) = json {
        write(file, arch, name, &counts, &places, divisor)?;
    }
    Ok(())
}

/// Writes the counts by address, to study single instructions; `docs/bench.md` documents the format.
fn write(file: &Path, arch: Arch, name: &str, counts: &Counts, places: &Places, divisor: f64) -> Result<()> {
    let addresses: Vec<_> = counts
        .at
        .iter()
        .map(|(address, count)| {
            serde_json::json!({
                "address": format!("{address:#x}"),
                "symbol": places.symbol_at(*address).0,
                "count": count,
            })
        })
        .collect();
    let all = serde_json::json!({
        "format": 1,
        "tool": "limen bench --profile",
        "arch": arch.name(),
        "name": name,
        "operations": divisor,
        "addresses": addresses,
    });
    let text = serde_json::to_string_pretty(&all)? + "\n";
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

fn print(name: &str, counts: &Counts, places: &Places, divisor: f64, measured: Option<f64>) {
    let mut lines: BTreeMap<&str, Line> = BTreeMap::new();
    for (&address, &count) in &counts.at {
        let (symbol, first) = places.symbol_at(address);
        let line = lines.entry(symbol).or_insert(Line {
            instructions: 0,
            calls: 0,
        });
        line.instructions += count;
        if first {
            line.calls += count;
        }
    }
    let total = counts.total() as f64;
    let mut sorted: Vec<(&str, Line)> = lines.into_iter().collect();
    sorted.sort_by_key(|(_, l)| std::cmp::Reverse(l.instructions));
    println!();
    let what = if name == "boot" {
        "instructions from reset to power-off"
    } else {
        "instructions per operation"
    };
    println!("{}: {name}: {what}, by symbol", places.arch);
    println!();
    println!("{:>14} {:>6} {:>10}  symbol", "instructions", "share", "entered");
    for (symbol, line) in &sorted {
        let each = line.instructions as f64 / divisor;
        // Lines below this come from a timer tick during a long row and are left out.
        if each < 0.05 {
            continue;
        }
        println!(
            "{:>14} {:>5.1}% {:>10}  {symbol}",
            rows::number(each),
            100.0 * line.instructions as f64 / total.max(1.0),
            if line.calls == 0 {
                "-".to_owned()
            } else {
                rows::number(line.calls as f64 / divisor)
            },
        );
    }
    println!(
        "{:>14} {:>6} {:>10}  in all",
        rows::number(total / divisor),
        "100%",
        ""
    );
    if let Some(measured) = measured {
        println!(
            "{:>14} {:>6} {:>10}  by the guest's clock",
            rows::number(measured),
            "",
            ""
        );
    }
}

impl Places {
    /// The symbols of a kernel that has booted, and of what else is in `functions`.
    pub fn of_run(arch: Arch, functions: Vec<(u64, u64, String)>) -> Places {
        Places {
            arch,
            functions,
            early: Vec::new(),
            boot: false,
        }
    }

    /// Whether an address belongs to the kernel's part of the address space. User space is the lower half,
    /// with 32-bit addresses the lower three quarters.
    fn is_kernel(&self, address: u64) -> bool {
        match self.arch {
            Arch::X86_64 | Arch::Arm64 | Arch::Powerpc64 => address >> 63 != 0,
            Arch::Arm => address >= 0xc000_0000,
        }
    }

    /// The symbol of an address, and whether the address is that of its first instruction.
    pub fn symbol_at(&self, address: u64) -> (&str, bool) {
        let at = self.functions.partition_point(|f| f.0 <= address);
        if let Some((start, size, name)) = at.checked_sub(1).and_then(|i| self.functions.get(i)) {
            let inside = if *size == 0 {
                // An assembler label without a size extends to the next symbol.
                let next = self.functions.get(at);
                next.is_some_and(|next| address < next.0) && self.is_kernel(address) == self.is_kernel(*start)
            } else {
                address < start + size
            };
            if inside {
                return (name, address == *start);
            }
        }
        // Firmware and the kernel before paging run at low addresses, too.
        let name = if self.is_kernel(address) {
            "(the kernel, outside of any symbol)"
        } else if self.early.iter().any(|e| (e.0..e.1).contains(&address)) {
            "(the kernel before paging)"
        } else if self.boot {
            "(firmware, and init)"
        } else {
            "(user space)"
        };
        (name, false)
    }
}
