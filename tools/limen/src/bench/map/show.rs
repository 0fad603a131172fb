//! The figures of `limen bench --map`, as tables, a page, a plot and JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::super::html;
use super::super::rows::number;
use super::super::svg;
use super::super::table::whole;
use super::changes::{self, Change};
use super::reach::{self, Reach};
use super::told::Told;
use super::{Both, How, Report};
use crate::bench::counted;

/// A rate: three digits that mean something, as few as 0.001.
fn rate(value: f64) -> String {
    match value {
        v if v >= 99.95 => number(v),
        v if v >= 9.995 => format!("{v:.1}"),
        v if v >= 0.9995 => format!("{v:.2}"),
        v => format!("{v:.3}"),
    }
}

/// A size in KiB, in its largest whole unit.
fn size(kib: u64) -> String {
    let units = [(1 << 20, "G"), (1 << 10, "M")];
    let unit = units.iter().find(|(n, _)| kib >= *n && kib.is_multiple_of(*n));
    unit.map_or_else(|| format!("{kib}K"), |(n, name)| format!("{}{name}", kib / n))
}

/// A size in MiB.
fn memory(mib: u64) -> String {
    match mib {
        n if n >= 1024 && n.is_multiple_of(1024) => format!("{} GiB", n / 1024),
        n => format!("{n} MiB"),
    }
}

/// Leaves by size, the largest first.
fn leaves(leaves: &BTreeMap<u64, u64>) -> String {
    let each: Vec<String> = leaves
        .iter()
        .rev()
        .map(|(kib, n)| format!("{} {}", size(*kib), whole(*n)))
        .collect();
    each.join("; ")
}

/// What blocks save: tables, kB, and per cent of all memory (MiB).
fn saved(memory: u64, [blocks, pages]: &Both<Told>) -> (i64, i64, f64) {
    let kib = blocks.free.cast_signed() - pages.free.cast_signed();
    let tables = pages.tables.cast_signed() - blocks.tables.cast_signed();
    (tables, kib, kib as f64 * 100.0 / (memory << 10) as f64)
}

/// Prints the tables of an architecture.
pub fn print(report: &Report) {
    let machine = counted::machine(report.arch);
    if !report.boots.is_empty() {
        println!();
        println!(
            "{}: the kernel's map right after boot ({machine}, -cpu {})",
            report.arch, report.cpu
        );
        println!();
        println!(
            "{:<9} {:<7} {:>8} {:>12} {:>12}  leaves",
            "memory", "by", "tables", "MemTotal kB", "MemFree kB"
        );
    }
    for (mib, both) in &report.boots {
        for (how, told) in How::ALL.into_iter().zip(both) {
            println!(
                "{:<9} {:<7} {:>8} {:>12} {:>12}  {}",
                memory(*mib),
                how.name(),
                whole(told.tables),
                whole(told.total),
                whole(told.free),
                leaves(&told.leaves)
            );
        }
        let (tables, kib, percent) = saved(*mib, both);
        println!(
            "{:<9} {:<7} {tables:>8} {kib:>25}  {percent:.3} % of memory",
            "", "saved"
        );
    }
    if !report.changes.is_empty() {
        println!();
        println!(
            "{}: instructions of a change of one page ({}, -cpu {})",
            report.arch,
            memory(changes::memory(report.arch)),
            report.cpu
        );
        println!();
        println!(
            "{:<24} {:>10} {:>15}",
            "in a leaf of", "read-only", "writable again"
        );
    }
    for change in &report.changes {
        println!(
            "{:<24} {:>10} {:>15}",
            leaf(change),
            whole(change.split),
            whole(change.merge)
        );
    }
    if !report.rows.is_empty() {
        println!();
        println!(
            "{}: misses of simulated TLBs, per 1,000 of the kernel's instructions ({}, -cpu {})",
            report.arch,
            memory(reach::memory(report.arch)),
            report.cpu
        );
        println!();
        println!(
            "{:<13} {:<50} {:>17} {:>19}",
            "", "", "first level of 48", "and second of 1,280"
        );
        println!(
            "{:<13} {:<50} {:>8} {:>8}  {:>9} {:>8}",
            "row", "what the kernel works for", "blocks", "pages", "blocks", "pages"
        );
    }
    for (name, what, both) in &report.rows {
        let [blocks, pages] = both;
        println!(
            "{name:<13} {what:<50} {:>8} {:>8}  {:>9} {:>8}",
            rate(blocks.per_thousand(blocks.misses)),
            rate(pages.per_thousand(pages.misses)),
            rate(blocks.per_thousand(blocks.walks)),
            rate(pages.per_thousand(pages.walks))
        );
    }
    if !report.differs() {
        println!();
        println!(
            "{}: the kernel is mapped the same with `{}`: this build or this processor has one way only",
            report.arch,
            How::Pages.words(report.arch).join(" ")
        );
    }
}

/// A leaf of which a page is changed.
fn leaf(change: &Change) -> String {
    let group = if change.grouped { ", one of a group" } else { "" };
    size(change.kib) + group
}

/// All figures that can be compared: what is shown, a short name, and the figures.
fn figures(report: &Report) -> Vec<(String, String, Both<f64>)> {
    let mut all = Vec::new();
    for (mib, both) in &report.boots {
        let memory = memory(*mib);
        all.push((
            format!("tables, {memory} of memory"),
            format!("tables: {memory}"),
            both.each_ref().map(|told| told.tables as f64),
        ));
        all.push((
            format!("kB not free after boot, {memory}"),
            format!("used kB: {memory}"),
            both.each_ref()
                .map(|told| (mib << 10).saturating_sub(told.free) as f64),
        ));
    }
    type Count = fn(&Reach) -> u64;
    let levels: [(&str, &str, Count); 2] = [
        ("misses of the first level", "L1", |r| r.misses),
        ("misses of both levels", "walks", |r| r.walks),
    ];
    for (name, what, both) in &report.rows {
        for (level, short, count) in levels {
            all.push((
                format!("{level}, {what}"),
                format!("{short}: {name}"),
                both.each_ref().map(|reach| reach.per_thousand(count(reach))),
            ));
        }
    }
    all
}

/// The page.
pub fn html(reports: &[Report]) -> String {
    let mut out = html::head("What the kernel's map costs, by blocks and by pages")
        + "<p>Tables and memory right after boot, and misses of simulated TLBs (48 entries, then 1,280 in 5 \
           ways) per 1,000 instructions of the kernel, for its accesses to data. Shorter is better; the last \
           column has blocks as a share of pages.</p>\n";
    for report in reports {
        let _ = writeln!(
            out,
            "<h2>{}</h2>\n<p>Machine <code>{}</code>, <code>-cpu {}</code>, one processor; TLBs with {}.</p>",
            report.arch,
            counted::machine(report.arch),
            html::escape(&report.cpu),
            memory(reach::memory(report.arch))
        );
        let _ = writeln!(
            out,
            "<p class=\"legend\"><span><i class=\"k0\"></i>blocks</span> <span><i \
             class=\"k1\"></i>pages</span></p>\n<table>\n<tbody>"
        );
        for (what, _, values) in figures(report) {
            html::bars(&mut out, &what, &values.map(Some), rate);
        }
        let _ = writeln!(out, "</tbody>\n</table>");
        changes_html(&mut out, report);
    }
    out
}

/// What changes cost, if that was measured.
fn changes_html(out: &mut String, report: &Report) {
    if report.changes.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "<p>Instructions of a change of one page, in a leaf that is split for it and merged afterwards \
         ({}).</p>\n<table>\n<tbody>\n<tr><th>leaf</th><th>read-only</th><th>writable again</th></tr>",
        memory(changes::memory(report.arch))
    );
    for change in &report.changes {
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
            leaf(change),
            whole(change.split),
            whole(change.merge)
        );
    }
    let _ = writeln!(out, "</tbody>\n</table>");
}

/// The plot; `None` if there is nothing to show.
pub fn svg(reports: &[Report]) -> Option<String> {
    let panels: Vec<svg::Panel> = reports
        .iter()
        .map(|report| {
            let lines: Vec<svg::Line> = figures(report)
                .into_iter()
                .filter(|(_, _, [_, pages])| *pages > 0.0)
                .map(|(_, short, values)| (short, values.map(Some).to_vec()))
                .collect();
            let heading = format!("{}: the kernel's map", report.arch);
            (heading, How::ALL.map(How::name).to_vec(), lines)
        })
        .filter(|(_, _, lines)| !lines.is_empty())
        .collect();
    let title = |other: &str| {
        format!(
            "Tables, memory in use, and TLB misses per 1,000 kernel instructions, as a share of those with \
             {other}"
        )
    };
    svg::plot(&panels, &title, rate)
}

/// As `docs/bench.md` describes it.
pub fn json(reports: &[Report]) -> Value {
    let both = |values: Both<Value>| -> Map<String, Value> {
        let names = How::ALL.map(|how| how.name().to_owned());
        names.into_iter().zip(values).collect()
    };
    let boot = |(mib, told): &(u64, Both<Told>)| {
        let (tables, kib, percent) = saved(*mib, told);
        let mut boot = both(told.each_ref().map(|told| {
            let leaves: Map<String, Value> = told
                .leaves
                .iter()
                .map(|(kib, n)| (kib.to_string(), json!(n)))
                .collect();
            json!({
                "tables": told.tables,
                "mem_total_kib": told.total,
                "mem_free_kib": told.free,
                "leaves_by_kib": leaves,
            })
        }));
        boot.insert("memory_mib".to_owned(), json!(mib));
        boot.insert(
            "saved".to_owned(),
            json!({ "tables": tables, "kib": kib, "percent": percent }),
        );
        Value::Object(boot)
    };
    let change = |change: &Change| {
        json!({
            "leaf_kib": change.kib,
            "grouped": change.grouped,
            "read_only": change.split,
            "writable": change.merge,
        })
    };
    let row = |(name, what, reach): &(&str, &str, Both<Reach>)| {
        let mut row = both(reach.each_ref().map(|reach| {
            json!({
                "instructions": reach.instructions,
                "accesses": reach.accesses,
                "unlisted": reach.unlisted,
                "first_level_misses": reach.misses,
                "walks": reach.walks,
            })
        }));
        row.insert("name".to_owned(), json!(name));
        row.insert("what".to_owned(), json!(what));
        Value::Object(row)
    };
    let reports: Vec<Value> = reports
        .iter()
        .map(|report| {
            json!({
                "arch": report.arch.name(),
                "machine": counted::machine(report.arch),
                "cpu": report.cpu,
                "differs": report.differs(),
                "boots": report.boots.iter().map(boot).collect::<Vec<_>>(),
                "changes": report.changes.iter().map(change).collect::<Vec<_>>(),
                "tlb_memory_mib": reach::memory(report.arch),
                "rows": report.rows.iter().map(row).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({ "format": 1, "tool": "limen bench --map", "reports": reports })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Arch;

    fn report() -> Report {
        let told = |tables, free, kib| Told {
            total: 500_000,
            free,
            tables,
            leaves: BTreeMap::from([(kib, 262_144 * 4 / kib)]),
            ..Told::default()
        };
        let reach = |misses, walks| Reach {
            instructions: 1_000_000,
            accesses: 300_000,
            unlisted: 10,
            misses,
            walks,
        };
        Report {
            arch: Arch::X86_64,
            cpu: "max".to_owned(),
            boots: vec![(1024, [told(4, 401_024, 1 << 20), told(516, 398_976, 4)])],
            changes: vec![Change {
                kib: 2048,
                grouped: false,
                split: 3000,
                merge: 4000,
            }],
            rows: vec![("fork-exec", "fork & exec", [reach(500, 0), reach(2000, 1000)])],
        }
    }

    #[test]
    fn what_is_saved() {
        let report = report();
        assert!(report.differs());
        let (mib, both) = &report.boots[0];
        let (tables, kib, percent) = saved(*mib, both);
        assert_eq!((tables, kib), (512, 2048));
        assert!((percent - 0.1953).abs() < 0.001);
        let json = json(&[report]);
        let first = &json["reports"][0];
        assert_eq!(first["boots"][0]["saved"]["tables"], 512);
        assert_eq!(first["boots"][0]["pages"]["leaves_by_kib"]["4"], 262_144);
        assert_eq!(first["rows"][0]["pages"]["walks"], 1000);
        assert_eq!(first["changes"][0]["writable"], 4000);
    }

    #[test]
    fn plots_have_both_ways() {
        let image = svg(&[report()]).unwrap();
        assert!(
            image.contains(">walks: fork-exec<") && image.contains(">1.00<"),
            "{image}"
        );
        let page = html(&[report()]);
        assert!(
            page.contains("fork &amp; exec")
                && page.contains("0.500")
                && page.contains("<td>2M</td><td>3,000"),
            "{page}"
        );
        let mut none = report();
        none.boots.clear();
        none.rows.clear();
        assert!(svg(&[none]).is_none());
    }

    #[test]
    fn texts() {
        assert_eq!(
            [rate(0.0), rate(1.234), rate(12.34), rate(1234.5)],
            ["0.000", "1.23", "12.3", "1,234"]
        );
        assert_eq!(
            [size(4), size(64), size(2048), size(1 << 20)],
            ["4K", "64K", "2M", "1G"]
        );
        assert_eq!([memory(760), memory(12288)], ["760 MiB", "12 GiB"]);
        assert_eq!(leaves(&BTreeMap::from([(4, 1000), (2048, 3)])), "2M 3; 4K 1,000");
    }
}
