//! The figures as one self-contained HTML page: bars per operation, growth curves, the boot and memory rows.
//! Colours follow the reader's light or dark setting; all figures are there as text, too.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};

use super::rows::{self, Key, number};
use super::{Report, boot, counted};

const STYLE: &str = include_str!("page.css");

/// Writes the page.
pub fn write(reports: &[Report], path: &Path) -> Result<()> {
    let text = page(reports);
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// The begin of a page.
pub(super) fn head(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width\">\n\
         <title>limen bench</title>\n<style>\n{STYLE}</style>\n<h1>{title}</h1>\n"
    )
}

fn page(reports: &[Report]) -> String {
    let mut out = head("What operations cost")
        + "<p>Instructions executed per operation, counted exactly (QEMU, <code>-icount \
         shift=0,sleep=off</code>): the same on every host. Linux is Debian's general-purpose configuration, \
         which does more, lean Linux a newer one without what no row needs; both settled, with \
         <code>mitigations=off</code>. Shorter is better.</p>\n";
    for report in reports {
        section(&mut out, report);
    }
    out
}

fn section(out: &mut String, report: &Report) {
    let _ = writeln!(out, "<h2>{}</h2>", report.arch);
    let _ = writeln!(
        out,
        "<p>Machine <code>{}</code>, <code>-cpu {}</code>, one processor, {} MiB.</p>",
        counted::machine(report.arch),
        escape(&report.cpu),
        super::MEMORY
    );
    legend(out, report);
    let keys = report.keys();
    let plain: Vec<&Key> = keys
        .iter()
        .filter(|k| k.0 != "calibrate" && rows::find(&k.0).is_none_or(|r| r.size.is_none()))
        .collect();
    if !plain.is_empty() {
        let _ = writeln!(out, "<table>\n<tbody>");
        for key in plain {
            let what = rows::find(&key.0).map_or(key.0.as_str(), |r| r.what);
            let values: Vec<Option<f64>> = report
                .kernels
                .iter()
                .map(|k| k.figures.rows.get(key).map(rows::Figure::per_operation))
                .collect();
            bars(out, what, &values, number);
        }
        let _ = writeln!(out, "</tbody>\n</table>");
    }
    let curves: Vec<&rows::Row> = rows::ROWS
        .iter()
        .filter(|r| r.size.is_some() && keys.iter().any(|k| k.0 == r.name))
        .collect();
    if !curves.is_empty() {
        let _ = writeln!(out, "<h3>How cost grows</h3>\n<div class=\"curves\">");
        for row in curves {
            curve(out, report, row);
        }
        let _ = writeln!(out, "</div>");
    }
    boots(out, report);
}

fn legend(out: &mut String, report: &Report) {
    let _ = write!(out, "<p class=\"legend\">");
    for (i, measured) in report.kernels.iter().enumerate() {
        let _ = write!(
            out,
            "<span><i class=\"k{i}\"></i>{}</span> ",
            escape(&measured.kernel.name)
        );
    }
    let _ = writeln!(out, "</p>");
}

/// One operation: a bar per kernel, the longest as wide as the column. `show` writes a figure.
pub(super) fn bars(out: &mut String, what: &str, values: &[Option<f64>], show: fn(f64) -> String) {
    let most = values.iter().flatten().copied().fold(0.0, f64::max).max(1e-9);
    let _ = write!(out, "<tr><th scope=\"row\">{}</th><td>", escape(what));
    for (i, value) in values.iter().enumerate() {
        if let Some(value) = value {
            let width = (70.0 * value / most).max(0.3);
            let _ = write!(
                out,
                "<div class=\"bar\"><i class=\"k{i}\" style=\"width:{width:.1}%\"></i><span>{}</span></div>",
                show(*value)
            );
        }
    }
    // To the first of the others.
    let ratio = match values {
        [Some(ours), Some(theirs), ..] if *theirs > 0.0 => format!("{:.2}", ours / theirs),
        _ => String::new(),
    };
    let _ = writeln!(out, "</td><td class=\"ratio\">{ratio}</td></tr>");
}

const WIDTH: f64 = 340.0;
const HEIGHT: f64 = 210.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 34.0;

/// One growth curve: both axes logarithmic, so that a cost that does not grow is a level line.
fn curve(out: &mut String, report: &Report, row: &rows::Row) {
    let series: Vec<Vec<(f64, f64)>> = report
        .kernels
        .iter()
        .map(|k| {
            k.figures
                .rows
                .iter()
                .filter(|(key, _)| key.0 == row.name)
                .map(|(key, figure)| (key.1 as f64, figure.per_operation().max(0.1)))
                .collect()
        })
        .collect();
    let all: Vec<(f64, f64)> = series.iter().flatten().copied().collect();
    let range = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::MAX, 0.0f64), |(low, high), v| (low.min(v), high.max(v)))
    };
    let (x0, x1) = range(&mut all.iter().map(|p| p.0));
    let (y0, y1) = range(&mut all.iter().map(|p| p.1));
    // The axis ends at powers of ten, so that small differences do not look large.
    let (y0, y1) = (
        10f64.powf(y0.log10().floor()),
        10f64.powf((y1 * 1.01).log10().ceil()),
    );
    let x = |v: f64| {
        let share = if x1 > x0 {
            (v / x0).ln() / (x1 / x0).ln()
        } else {
            0.5
        };
        LEFT + share * (WIDTH - LEFT - RIGHT)
    };
    let y = |v: f64| HEIGHT - BOTTOM - (v / y0).ln() / (y1 / y0).ln() * (HEIGHT - TOP - BOTTOM);
    let _ = writeln!(
        out,
        "<figure><figcaption>{}</figcaption>\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"{}\">",
        escape(row.what),
        escape(row.what)
    );
    let mut decade = y0;
    while decade <= y1 * 1.001 {
        let at = y(decade);
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text \
             x=\"{:.1}\" y=\"{:.1}\" \
             text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0,
            short(decade)
        );
        decade *= 10.0;
    }
    let mut sizes: Vec<f64> = all.iter().map(|p| p.0).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    for size in sizes {
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            x(size),
            HEIGHT - BOTTOM + 15.0,
            short(size)
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 4.0,
        row.size.unwrap_or_default()
    );
    for (i, points) in series.iter().enumerate() {
        let path: Vec<String> = points
            .iter()
            .map(|p| format!("{:.1},{:.1}", x(p.0), y(p.1)))
            .collect();
        let _ = writeln!(out, "<polyline class=\"k{i}\" points=\"{}\"/>", path.join(" "));
        for p in points {
            let _ = writeln!(
                out,
                "<circle class=\"k{i}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.2\"><title>{}: {}</title></circle>",
                x(p.0),
                y(p.1),
                number(p.0).trim_end_matches(".0"),
                number(p.1)
            );
        }
    }
    let _ = writeln!(out, "</svg></figure>");
}

fn boots(out: &mut String, report: &Report) {
    let mut rows = String::new();
    for (_, what, value) in boot::ROWS {
        let values: Vec<Option<f64>> = report
            .kernels
            .iter()
            .map(|k| value(&k.boot).map(|v| v as f64))
            .collect();
        if values.iter().any(Option::is_some) {
            bars(&mut rows, what, &values, number);
        }
    }
    if !rows.is_empty() {
        let _ = writeln!(
            out,
            "<h3>Boot and memory</h3>\n<table>\n<tbody>\n{rows}</tbody>\n</table>"
        );
    }
}

/// A number, short enough for an axis: `10k`, `30M`; powers of two as `4Ki`.
fn short(value: f64) -> String {
    let whole = value as u64;
    let units = [(1 << 20, "Mi"), (1_000_000, "M"), (1 << 10, "Ki"), (1000, "k")];
    for (unit, name) in units {
        if whole >= unit && whole.is_multiple_of(unit) {
            return format!("{}{name}", whole / unit);
        }
    }
    number(value).trim_end_matches(".0").to_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn text_is_escaped() {
        assert_eq!(super::escape("a<b & \"c\""), "a&lt;b &amp; &quot;c&quot;");
    }

    #[test]
    fn axis_labels_are_short() {
        let of = [
            (1.0, "1"),
            (64.0, "64"),
            (4096.0, "4Ki"),
            (1_048_576.0, "1Mi"),
            (1e4, "10k"),
            (1e7, "10M"),
        ];
        for (value, label) in of {
            assert_eq!(super::short(value), label);
        }
    }
}
