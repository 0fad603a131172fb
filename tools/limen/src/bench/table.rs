//! The tables of `limen bench` on the terminal. Beside one other kernel there is room for what each row does;
//! beside several there is not.

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
        let begin = if values.len() > 2 {
            format!("{name:<24}")
        } else {
            format!("{name:<16} {what:<62}")
        };
        let values: Vec<_> = values
            .into_iter()
            .map(|v| v.map(|v| (v as f64, whole(v))))
            .collect();
        println!("{begin}{}", figures(&values));
    }
}

/// The figures of a row, each but the first with what share of it the first is.
fn figures(values: &[Option<(f64, String)>]) -> String {
    let mut line = String::new();
    let ours = values.first().and_then(Option::as_ref).map(|v| v.0);
    for (i, value) in values.iter().enumerate() {
        let (value, text) = value.as_ref().map_or((0.0, "-"), |v| (v.0, &v.1));
        line += &format!(" {text:>13}");
        if i > 0 {
            line += &match ours {
                Some(ours) if value > 0.0 => format!("   {:<6}", ratio(ours / value)),
                _ => " ".repeat(9),
            };
        }
    }
    line.trim_end().to_owned()
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
    println!();
    println!(
        "{}: instructions per operation ({}, -cpu {}, one processor)",
        report.arch,
        super::counted::machine(report.arch),
        report.cpu
    );
    println!();
    let several = report.kernels.len() > 2;
    let begin = |name: &str, what: &str| {
        if several {
            format!("{name:<24}")
        } else {
            format!("{name:<24} {what:<46}")
        }
    };
    let mut head = begin("row", "operation");
    for (i, measured) in report.kernels.iter().enumerate() {
        head += &format!(" {:>13}", measured.kernel.name);
        if i > 0 {
            head += "   ratio ";
        }
    }
    let rows = report.keys();
    if !rows.is_empty() {
        println!("{}", head.trim_end());
    }
    for key in rows {
        let what = rows::find(&key.0).map_or("", |r| r.what);
        let values: Vec<Option<(f64, String)>> = report
            .kernels
            .iter()
            .map(|k| {
                let value = k.figures.rows.get(&key).map(rows::Figure::per_operation)?;
                Some((value, number(value)))
            })
            .collect();
        println!("{}{}", begin(&rows::shown(&key), what), figures(&values));
    }
    boots(report);
    for measured in &report.kernels {
        for (row, why) in &measured.figures.failed {
            println!("{}: {row} failed: {why}", measured.kernel.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::figures;

    #[test]
    fn each_other_kernel_has_its_ratio() {
        let value = |v: f64| Some((v, format!("{v}")));
        assert_eq!(
            figures(&[value(50.0), value(100.0), value(200.0)]),
            format!("{:>14}{:>14}     0.50{:>14}     0.25", 50, 100, 200)
        );
        assert_eq!(
            figures(&[value(1.0), None, value(1000.0)]),
            format!("{:>14}{:>14}{:9}{:>14}   0.0010", 1, "-", "", 1000)
        );
        assert_eq!(figures(&[None, value(2.0)]), format!("{:>14}{:>14}", "-", 2));
    }
}
