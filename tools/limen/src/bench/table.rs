//! The tables of `limen bench` on the terminal.

use super::Report;
use super::rows::{self, number};

/// The boot and memory rows.
fn boots(report: &Report) {
    let mut head = true;
    for (name, what, value) in super::boot::ROWS {
        let values: Vec<Option<u64>> = report.kernels.iter().map(|k| value(&k.boot)).collect();
        if values.iter().all(Option::is_none) {
            continue;
        }
        if head {
            println!();
            head = false;
        }
        let mut line = format!("{name:<16} {what:<62}");
        for value in &values {
            line += &format!(" {:>13}", value.map_or("-".to_owned(), whole));
        }
        if let [Some(ours), Some(theirs)] = values[..]
            && theirs > 0
        {
            line += &format!("   {}", ratio(ours as f64 / theirs as f64));
        }
        println!("{line}");
    }
}

/// A ratio, with more digits if it is very small.
fn ratio(value: f64) -> String {
    if value < 0.01 {
        format!("{value:.4}")
    } else {
        format!("{value:6.2}")
    }
}

/// A whole number with its thousands separated.
pub fn whole(value: u64) -> String {
    if value < 100 {
        value.to_string()
    } else {
        number(value as f64)
    }
}

/// Prints the table of an architecture.
pub fn print(report: &Report) {
    let names: Vec<&str> = report.kernels.iter().map(|k| k.kernel.name.as_str()).collect();
    println!();
    println!(
        "{}: instructions per operation ({}, -cpu {}, one processor)",
        report.arch,
        super::counted::machine(report.arch),
        report.cpu
    );
    println!();
    let mut head = format!("{:<24} {:<46}", "row", "operation");
    names.iter().for_each(|n| head += &format!(" {n:>13}"));
    if names.len() == 2 {
        head += "   ratio";
    }
    let rows = report.keys();
    if !rows.is_empty() {
        println!("{head}");
    }
    for key in rows {
        let what = rows::find(&key.0).map_or("", |r| r.what);
        let values: Vec<Option<f64>> = report
            .kernels
            .iter()
            .map(|k| k.figures.rows.get(&key).map(rows::Figure::per_operation))
            .collect();
        let mut line = format!("{:<24} {what:<46}", rows::shown(&key));
        for value in &values {
            line += &format!(" {:>13}", value.map_or("-".to_owned(), number));
        }
        if let [Some(ours), Some(theirs)] = values[..]
            && theirs > 0.0
        {
            line += &format!("   {}", ratio(ours / theirs));
        }
        println!("{line}");
    }
    boots(report);
    for measured in &report.kernels {
        for (row, why) in &measured.figures.failed {
            println!("{}: {row} failed: {why}", measured.kernel.name);
        }
    }
}
