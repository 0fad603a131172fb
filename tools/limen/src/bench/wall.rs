//! `--wall`: nanoseconds of the host's clock, which include the cost of emulation. The kernels take turns, so
//! that a host that becomes busy affects both. Each figure is the median of the runs, with its spread.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};

use super::counted::{Run, Subject};
use super::rows::{self, Figures, Key, number};
use crate::arch::Arch;

/// Runs of each kernel.
pub const RUNS: usize = 5;

/// Nanoseconds per operation of every run, per kernel and row.
pub struct Wall {
    /// The names of the kernels, in order.
    pub kernels: Vec<String>,
    /// Per row: for each kernel, one figure per run, sorted.
    pub rows: BTreeMap<Key, Vec<Vec<f64>>>,
    /// Seconds from the start of QEMU to the hello program's line, per kernel, sorted.
    pub boots: Vec<Vec<f64>>,
}

impl Wall {
    /// The keys in the order of the catalogue.
    pub fn keys(&self) -> Vec<&Key> {
        let mut keys: Vec<&Key> = self.rows.keys().collect();
        keys.sort_by_key(|k| (rows::ROWS.iter().position(|r| r.name == k.0), k.1));
        keys
    }
}

/// The median of sorted values.
pub fn median(sorted: &[f64]) -> Option<f64> {
    sorted.get(sorted.len() / 2).copied()
}

/// Runs every kernel `RUNS` times, in turn.
pub fn measure(subjects: &[Subject], only: &[String]) -> Result<Wall> {
    let mut wall = Wall {
        kernels: subjects.iter().map(|s| s.kernel.name.clone()).collect(),
        rows: BTreeMap::new(),
        boots: vec![Vec::new(); subjects.len()],
    };
    for number in 1..=RUNS {
        for (index, subject) in subjects.iter().enumerate() {
            let (kernel, guest) = (subject.kernel, subject.guest);
            eprintln!(
                "limen: {} on {}: wall clock, run {number} of {RUNS}",
                kernel.name, subject.arch
            );
            // Here the guest's sleep takes real time; two seconds are enough for the end of Linux's boot.
            let mut words = vec!["settle=2".to_owned()];
            if !only.is_empty() {
                words.push(format!("only={}", only.join(",")));
            }
            let run = |initrd, words| Run {
                words,
                icount: false,
                ..subject.boot(initrd)
            };
            let ended = run(guest.rows.path.as_path(), words).run(&mut |_| {})?;
            let figures = Figures::parse(&ended.lines);
            if !figures.complete {
                bail!("{} did not get through a run by the wall clock", kernel.name);
            }
            for (key, figure) in figures.rows {
                let all = wall
                    .rows
                    .entry(key)
                    .or_insert_with(|| vec![Vec::new(); subjects.len()]);
                all[index].push(figure.per_operation());
            }
            let began = std::time::Instant::now();
            let mut arrived: Option<Duration> = None;
            run(guest.hello.path.as_path(), Vec::new()).run(&mut |line| {
                if line.contains("hello from init") {
                    arrived.get_or_insert(began.elapsed());
                }
            })?;
            wall.boots[index].extend(arrived.map(|t| t.as_secs_f64()));
        }
    }
    for list in wall.rows.values_mut().flatten().chain(&mut wall.boots) {
        list.sort_by(f64::total_cmp);
    }
    Ok(wall)
}

/// `median (least to most)`.
fn shown(sorted: &[f64]) -> String {
    match (median(sorted), sorted.first(), sorted.last()) {
        (Some(middle), Some(least), Some(most)) => {
            format!("{} ({} to {})", number(middle), number(*least), number(*most))
        }
        _ => "-".to_owned(),
    }
}

/// Prints the table.
pub fn print(arch: Arch, wall: &Wall) {
    println!();
    println!(
        "{arch}: nanoseconds of wall clock per operation under emulation, median of {RUNS} runs (least to \
         most)"
    );
    println!();
    let mut head = format!("{:<24}", "row");
    wall.kernels.iter().for_each(|n| head += &format!(" {n:>36}"));
    println!("{head}   ratio");
    let line = |name: &str, values: &[Vec<f64>]| {
        let mut line = format!("{name:<24}");
        values.iter().for_each(|v| line += &format!(" {:>36}", shown(v)));
        if let [Some(ours), Some(theirs)] = values.iter().map(|v| median(v)).collect::<Vec<_>>()[..]
            && theirs > 0.0
        {
            line += &format!("   {:5.2}", ours / theirs);
        }
        println!("{line}");
    };
    for key in wall.keys() {
        line(&rows::shown(key), &wall.rows[key]);
    }
    line("seconds to init", &wall.boots);
}
