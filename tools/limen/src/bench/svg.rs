//! `--svg`: one plot of some rows, an image for a text: how much of the first other kernel's instructions
//! Limen executes. It has its own background and follows the reader's light or dark setting.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::Report;
use super::html::escape;
use super::rows::{self, number};

/// The rows of the plot, with their sizes and labels.
const ROWS: &[(&str, u64, &str)] = &[
    ("getppid", 0, "getppid"),
    ("read-zero", 0, "read of /dev/zero"),
    ("open-close", 0, "open + close"),
    ("stat", 0, "stat"),
    ("read-file", 4096, "read 4 KiB"),
    ("poll", 100, "poll of 100"),
    ("signal", 0, "signal + handler"),
    ("fault-write", 0, "page fault"),
    ("munmap-touched", 0, "munmap of a page"),
    ("mmap-munmap", 0, "mmap + munmap"),
    ("pipe", 0, "pipe round trip"),
    ("futex", 0, "futex round trip"),
    ("yield-pair", 0, "yield with a switch"),
    ("pthread", 0, "thread: create, join"),
    ("fork", 0, "fork + exit + wait"),
    ("fork-exec-static", 0, "fork + exec"),
];

const STYLE: &str = "\
text { font: 12px system-ui, sans-serif; fill: #1c2024; }
.soft { fill: #60646c; } .end { text-anchor: end; } .head { font-weight: 600; }
.back { fill: #fcfcfd; } .grid { stroke: #dddfe4; }
.k0 { fill: #2f6fde; } .k1 { stroke: #b27a14; stroke-width: 2; } .k2 { fill: #8a8f98; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6e8ec; } .soft { fill: #a0a6b0; } .back { fill: #15171a; } .grid { stroke: #33373d; }
  .k0 { fill: #6ea2ff; } .k1 { stroke: #dcae55; } .k2 { fill: #9097a1; }
}
";

/// Where things are in a panel, one per architecture; two stand side by side.
const PANEL: f64 = 500.0;
const LABEL: f64 = 128.0;
const PLOT: f64 = 160.0;
const COLUMN: f64 = 68.0;
const EDGE: f64 = 12.0;
const TOP: f64 = 64.0;
const ROW: f64 = 22.0;
/// Where the axis ends at most, in multiples of the kernel that is compared with.
const FARTHEST: f64 = 3.0;

/// One line of a panel: the label and the figures of the kernels.
pub type Line = (String, Vec<Option<f64>>);
/// A panel: its heading, the kernels' names, the lines.
pub type Panel<'a> = (String, Vec<&'a str>, Vec<Line>);

/// Writes the plot.
pub fn write(reports: &[Report], path: &Path) -> Result<()> {
    let panels: Vec<Panel> = reports
        .iter()
        .map(|report| {
            let names = report.kernels.iter().map(|k| k.kernel.name.as_str()).collect();
            let heading = format!("{}: instructions per operation", report.arch);
            (heading, names, lines(report))
        })
        .filter(|(_, _, lines)| !lines.is_empty())
        .collect();
    let title = |other: &str| format!("Instructions per operation, as a share of what {other} executes");
    let Some(text) = plot(&panels, &title, number) else {
        bail!(
            "--svg: no row of the plot was measured on Limen and on another kernel; choose --against, and no \
             --only"
        );
    };
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// The rows that Limen and the first other kernel have.
fn lines(report: &Report) -> Vec<Line> {
    ROWS.iter()
        .map(|(name, size, label)| {
            let key = ((*name).to_owned(), *size);
            let of = |k: &super::Measured| k.figures.rows.get(&key).map(rows::Figure::per_operation);
            (
                (*label).to_owned(),
                report.kernels.iter().map(of).collect::<Vec<_>>(),
            )
        })
        .filter(|(_, values)| matches!(values[..], [Some(_), Some(other), ..] if other > 0.0))
        .collect()
}

/// The image; `None` if there is nothing to show. `title` gets the name of the kernel that is compared with,
/// `show` writes a figure.
pub fn plot(panels: &[Panel], title: &dyn Fn(&str) -> String, show: fn(f64) -> String) -> Option<String> {
    let (_, names, _) = panels.first()?;
    let across = panels.len().min(2);
    let most = panels.iter().map(|p| p.2.len()).max().unwrap_or(0) as f64;
    let high = TOP + most * ROW + 30.0;
    let (width, height) = (
        PANEL * across as f64 + EDGE,
        high * panels.len().div_ceil(2) as f64,
    );
    let title = escape(&title(names.get(1)?));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n\
         <rect class=\"back\" width=\"{width}\" height=\"{height}\" rx=\"6\"/>\n"
    );
    for (i, panel) in panels.iter().enumerate() {
        let (x, y) = ((i % 2) as f64 * PANEL + EDGE, (i / 2) as f64 * high);
        let _ = writeln!(out, "<g transform=\"translate({x} {y})\">");
        draw(&mut out, panel, show);
        let _ = writeln!(out, "</g>");
    }
    out += "</svg>\n";
    Some(out)
}

/// One panel: a bar for Limen, a line for the kernel that is 100 %, a dot for a third one, and the counts.
fn draw(out: &mut String, (heading, names, lines): &Panel, show: fn(f64) -> String) {
    let share = |values: &[Option<f64>], i: usize| Some(values.get(i)?.as_ref()? / values[1]?);
    let farthest = lines
        .iter()
        .flat_map(|(_, values)| (0..values.len()).filter_map(move |i| share(values, i)))
        .fold(1.2, f64::max)
        .min(FARTHEST);
    let x = |share: f64| LABEL + share.min(farthest) / farthest * PLOT;
    let bottom = TOP + lines.len() as f64 * ROW;
    let _ = writeln!(out, "<text class=\"head\" y=\"24\">{}</text>", escape(heading));
    let mut tick = 0.0;
    while tick <= farthest {
        let at = x(tick);
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{bottom:.1}\"/>",
            TOP - 6.0
        );
        if tick.fract() == 0.0 {
            let _ = writeln!(
                out,
                "<text class=\"soft\" text-anchor=\"middle\" x=\"{at:.1}\" y=\"{:.1}\">{:.0} %</text>",
                bottom + 18.0,
                tick * 100.0
            );
        }
        tick += 0.5;
    }
    let right = |i: usize| PANEL - EDGE - COLUMN * (names.len().min(3) - 1 - i) as f64;
    for (i, name) in names.iter().take(3).enumerate() {
        // The mark of the kernel above its column of counts.
        let (at, y) = (right(i) - 5.0, TOP - 30.0);
        let _ = match i {
            0 => writeln!(
                out,
                "<rect class=\"k0\" x=\"{:.1}\" y=\"{:.1}\" width=\"16\" height=\"9\"/>",
                at - 11.0,
                y - 4.5
            ),
            1 => writeln!(
                out,
                "<line class=\"k1\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
                y - 6.0,
                y + 6.0
            ),
            _ => writeln!(out, "<circle class=\"k2\" cx=\"{at:.1}\" cy=\"{y:.1}\" r=\"4\"/>"),
        };
        let _ = writeln!(
            out,
            "<text class=\"soft end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            right(i),
            TOP - 10.0,
            escape(name)
        );
    }
    for (n, (label, values)) in lines.iter().enumerate() {
        let y = TOP + (n as f64 + 0.5) * ROW;
        let _ = writeln!(out, "<text y=\"{:.1}\">{}</text>", y + 4.0, escape(label));
        if let Some(ours) = share(values, 0) {
            let _ = writeln!(
                out,
                "<rect class=\"k0\" x=\"{LABEL}\" y=\"{:.1}\" width=\"{:.1}\" height=\"12\"/>",
                y - 6.0,
                x(ours) - LABEL
            );
        }
        if let Some(third) = share(values, 2) {
            let _ = writeln!(
                out,
                "<circle class=\"k2\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\"/>",
                x(third)
            );
        }
        for (i, value) in values.iter().take(3).enumerate() {
            if let Some(value) = value {
                let _ = writeln!(
                    out,
                    "<text class=\"{}end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                    if i == 0 { "" } else { "soft " },
                    right(i),
                    y + 4.0,
                    show(*value).trim_end_matches(".0")
                );
            }
        }
    }
    let at = x(1.0);
    let _ = writeln!(
        out,
        "<line class=\"k1\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{bottom:.1}\"/>",
        TOP - 6.0
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_exists() {
        for (name, size, _) in ROWS {
            let row = rows::find(name).unwrap();
            assert_eq!(row.size.is_some(), *size > 0, "{name}");
        }
    }

    #[test]
    fn bars_are_shares_of_the_first_other_kernel() {
        let names = vec!["Limen", "lean Linux", "Linux"];
        let lines = vec![("a<b".to_owned(), vec![Some(50.0), Some(100.0), Some(200.0)])];
        let title = |other: &str| format!("as a share of {other}");
        let text = plot(&[("x86_64".to_owned(), names, lines)], &title, number).unwrap();
        assert!(text.contains("<title>as a share of lean Linux</title>"), "{text}");
        // The axis ends at 200 %, where the dot is.
        let bar = format!("width=\"{:.1}\" height=\"12\"", PLOT / 4.0);
        assert!(text.contains(&bar), "{text}");
        assert!(text.contains(&format!("cx=\"{:.1}\"", LABEL + PLOT)));
        assert!(text.contains("a&lt;b") && !text.contains("a<b"));
        assert!(plot(&[], &title, number).is_none());
    }
}
