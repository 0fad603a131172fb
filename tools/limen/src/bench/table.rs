//! The tables of `limen bench` on the terminal.

use super::Report;
use super::rows::{self, number};

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
    println!("{head}");
    for key in report.keys() {
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
            line += &format!("   {:5.2}", ours / theirs);
        }
        println!("{line}");
    }
    for measured in &report.kernels {
        for (row, why) in &measured.figures.failed {
            println!("{}: {row} failed: {why}", measured.kernel.name);
        }
    }
}
