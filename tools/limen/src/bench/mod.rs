//! `limen bench`: exact instruction counts of Limen beside Linux's. Under `-icount shift=0,sleep=off` a
//! guest's nanosecond is one executed instruction, so counts are the same on every machine, however busy.
//! `docs/bench.md` describes the method and the files.

mod boot;
mod counted;
mod guest;
mod html;
mod interrupt;
mod json;
mod lean;
mod limits;
mod map;
mod modes;
mod perf;
mod plugin;
mod profile;
mod rows;
pub mod rseq;
mod shared;
mod svg;
mod table;
mod trace;
mod wall;

use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::arch::Arch;
use crate::build;
use crate::cli::BenchOptions;
use crate::linux;
use counted::{Kernel, Run, Subject};
use guest::Guest;
use rows::{Figures, Key};

/// Everything measured on one architecture.
pub struct Report {
    /// The architecture.
    pub arch: Arch,
    /// QEMU's processor model.
    pub cpu: String,
    /// The kernels: Limen first.
    pub kernels: Vec<Measured>,
    /// Wall-clock figures, when they were asked for.
    pub wall: Option<wall::Wall>,
}

/// The results of one kernel.
pub struct Measured {
    /// The kernel.
    pub kernel: Kernel,
    /// Its rows.
    pub figures: Figures,
    /// Its boot and memory rows.
    pub boot: boot::Boot,
}

impl Report {
    /// The keys that any kernel has, in the order of the catalogue.
    pub fn keys(&self) -> Vec<Key> {
        let mut keys: Vec<Key> = Vec::new();
        for measured in &self.kernels {
            for key in measured.figures.rows.keys() {
                if !keys.contains(key) {
                    keys.push(key.clone());
                }
            }
        }
        let place = |k: &Key| rows::ROWS.iter().position(|r| r.name == k.0);
        keys.sort_by_key(|k| (place(k), k.1));
        keys
    }
}

/// Runs the benchmarks; returns the exit status.
pub fn bench(options: &BenchOptions) -> Result<i32> {
    if options.rseq {
        return rseq::bench(options);
    }
    let mut arches = Arch::chosen(options.arch);
    let compares = !(options.check
        || options.update_limits
        || options.map
        || options.trace
        || options.profile.is_some());
    let lean = options.kernel.as_deref() == Some(LEAN.as_ref());
    if lean || compares && options.against.iter().any(|a| a == LEAN) {
        arches = lean::only_those(arches)?;
    }
    if options.shared_lines {
        return shared::bench(options, arches);
    }
    if options.trace {
        return trace::bench(options, arches);
    }
    if options.map {
        return map::bench(options, arches);
    }
    if let Some(name) = &options.profile {
        for arch in arches {
            let kernel = limen(options, arch)?;
            let guest = guest::prepare(arch)?;
            profile::profile(
                subject(options, arch, &cpu(options, arch), &kernel, &guest),
                name,
                options.json.as_deref(),
            )?;
        }
        return Ok(0);
    }
    if options.check {
        let mut bad = 0;
        for arch in arches {
            bad += i32::from(!check(options, arch)?);
        }
        return Ok(bad.min(1));
    }
    let mut reports = Vec::new();
    for arch in arches {
        let report = measure(options, arch)?;
        table::print(&report);
        if let Some(wall) = &report.wall {
            wall::print(arch, wall);
        }
        reports.push(report);
    }
    if let Some(path) = &options.json {
        json::write(&reports, path)?;
    }
    if let Some(path) = &options.html {
        html::write(&reports, path)?;
    }
    if let Some(path) = &options.svg {
        svg::write(&reports, path)?;
    }
    if options.update_limits {
        limits::update(&reports)?;
    }
    Ok(0)
}

/// Compares one architecture with `bench/limits.toml` and prints the counts that got worse; true if there are
/// none.
fn check(options: &BenchOptions, arch: Arch) -> Result<bool> {
    let mut limits = limits::read()?.remove(arch.name()).unwrap_or_default();
    limits.retain(|row, _| wanted(options, row.split('/').next().unwrap_or_default()));
    let smallest = limits.remove("smallest-memory");
    let kernel = limen(options, arch)?;
    let guest = guest::prepare(arch)?;
    let cpu = cpu(options, arch);
    let subject = subject(options, arch, &cpu, &kernel, &guest);
    let mut figures = rows_of(subject, &options.only, &[])?;
    let has_limit = |name: &str| limits.contains_key(name);
    modes::measure(subject, &has_limit, &mut figures)?;
    perf::measure(subject, &has_limit, &mut figures)?;
    let only_boot = |name: &str| name == "boot" && wanted(options, name);
    let boot = boot::measure(subject, &only_boot)?;
    let mut failed: Vec<String> = figures
        .failed
        .iter()
        .map(|(row, why)| format!("{row}: {why}"))
        .collect();
    if let Some(smallest) = smallest {
        // One MiB is the margin.
        let memory = smallest as u64 + 1;
        if !boot::reaches(subject, memory)? {
            failed.push(format!("smallest-memory: does not reach init with {memory} MiB"));
        }
    }
    let report = Report {
        arch,
        cpu,
        kernels: vec![Measured {
            kernel,
            figures,
            boot,
        }],
        wall: None,
    };
    let counts = limits::counts(&report);
    let (worse, better) = limits::compare(&limits, &counts);
    failed.extend(worse);
    for line in &failed {
        println!("{arch}: {line}");
    }
    println!(
        "{arch}: {} counts, {} worse, {better} better",
        counts.len(),
        failed.len()
    );
    if better > 0 {
        println!("{arch}: limen bench --update-limits --arch {arch} keeps what got better");
    }
    Ok(failed.is_empty())
}

/// What `--against` and `--kernel` call the lean Linux.
const LEAN: &str = "lean";

/// The kernels to measure: Limen, and those to compare with.
fn kernels(options: &BenchOptions, arch: Arch) -> Result<Vec<Kernel>> {
    let mut kernels = vec![limen(options, arch)?];
    if options.update_limits {
        return Ok(kernels);
    }
    for against in options.against.iter().filter(|a| *a != "none") {
        let other = match against.as_str() {
            "linux" => debian(arch)?,
            LEAN => lean::kernel(arch)?,
            file => given(file, arch)?,
        };
        if kernels.iter().any(|k| k.name == other.name) {
            bail!(
                "--against {against}: there is a kernel called {} already",
                other.name
            );
        }
        kernels.push(other);
    }
    Ok(kernels)
}

/// The kernel file that `--against` names.
fn given(file: &str, arch: Arch) -> Result<Kernel> {
    let bytes = std::fs::read(file)
        .with_context(|| format!("--against {file}: give linux, lean, none, or a kernel file"))?;
    let (kind, its_arch) = linux::identify(file.as_ref(), &bytes)?;
    if its_arch != arch {
        bail!("--against {file}: that is an {its_arch} kernel; add --arch {its_arch}");
    }
    let limen = kind == linux::Kind::Limen;
    Ok(Kernel {
        name: if limen { "other Limen" } else { "Linux" }.to_owned(),
        image: file.into(),
        symbols: None,
        limen,
    })
}

/// Debian's image.
fn debian(arch: Arch) -> Result<Kernel> {
    Ok(Kernel {
        name: "Linux".to_owned(),
        image: linux::debian_image(arch)?,
        symbols: None,
        limen: false,
    })
}

/// The kernel under test: the tree's, or the one that `--kernel` names.
fn limen(options: &BenchOptions, arch: Arch) -> Result<Kernel> {
    let (image, symbols) = match &options.kernel {
        Some(file) if file.as_os_str() == crate::kernel::LINUX => return debian(arch),
        Some(file) if file.as_os_str() == LEAN => return lean::kernel(arch),
        Some(file) => {
            // A flat image has no symbols; they are in the ELF file beside it.
            let beside = file.with_extension("elf");
            let symbols = if beside.is_file() { beside } else { file.clone() };
            (file.clone(), Some(symbols))
        }
        None => {
            let kernel = build::Kernel {
                arch,
                profile: "kernel".to_owned(),
                features: String::new(),
            };
            let built = kernel.ensure(options.verbose)?;
            (built.image, Some(built.elf))
        }
    };
    Ok(Kernel {
        name: "Limen".to_owned(),
        image,
        symbols,
        limen: true,
    })
}

/// Wall-clock time that one kernel has for all rows; a busy host needs a few times the usual.
const PATIENCE: Duration = Duration::from_secs(900);
/// Guest seconds a kernel sleeps before it is measured. They take no time: no instruction is executed.
const SETTLE: u32 = 12;
const MEMORY: u64 = 512;

fn cpu(options: &BenchOptions, arch: Arch) -> String {
    let given = options.cpu.clone();
    given.unwrap_or_else(|| counted::fair_cpu(arch).to_owned())
}

fn subject<'a>(
    options: &BenchOptions,
    arch: Arch,
    cpu: &'a str,
    kernel: &'a Kernel,
    guest: &'a Guest,
) -> Subject<'a> {
    Subject {
        arch,
        cpu,
        kernel,
        guest,
        verbose: options.verbose,
    }
}

/// Whether `--only` selects a row; the guest's program decides by the same rule.
fn wanted(options: &BenchOptions, name: &str) -> bool {
    options.only.is_empty()
        || options.only.iter().any(|o| match o.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == o,
        })
}

fn measure(options: &BenchOptions, arch: Arch) -> Result<Report> {
    let guest = guest::prepare(arch)?;
    let cpu = cpu(options, arch);
    let mut measured = Vec::new();
    for kernel in kernels(options, arch)? {
        let subject = subject(options, arch, &cpu, &kernel, &guest);
        let ours = |r: &&rows::Row| !perf::is(r.name) && !modes::is(r.name) && wanted(options, r.name);
        let mut figures = if rows::ROWS.iter().any(|r| ours(&r)) {
            rows_of(subject, &options.only, &[])?
        } else {
            Figures::default()
        };
        let is_wanted = |name: &str| wanted(options, name);
        modes::measure(subject, &is_wanted, &mut figures)?;
        // What these rows cost is written into the limits by hand: not every host measures them.
        if !options.update_limits {
            perf::measure(subject, &is_wanted, &mut figures)?;
        }
        let boot = boot::measure(subject, &is_wanted)?;
        measured.push(Measured {
            kernel,
            figures,
            boot,
        });
    }
    let wall = if options.wall {
        let subjects: Vec<Subject> = measured
            .iter()
            .map(|m: &Measured| subject(options, arch, &cpu, &m.kernel, &guest))
            .collect();
        Some(wall::measure(&subjects, &options.only)?)
    } else {
        None
    };
    Ok(Report {
        arch,
        cpu,
        kernels: measured,
        wall,
    })
}

/// All rows of one kernel, or those that `only` names, in one boot with more words for the kernel.
fn rows_of(subject: Subject, only: &[String], kernel_words: &[&str]) -> Result<Figures> {
    let mut words = vec![format!("settle={SETTLE}")];
    if !only.is_empty() {
        words.push(format!("only=calibrate,{}", only.join(",")));
    }
    let run = Run {
        words,
        kernel_words: kernel_words.iter().map(|word| (*word).to_owned()).collect(),
        ..subject.boot(&subject.guest.rows.path)
    };
    let (name, arch) = (&subject.kernel.name, subject.arch);
    eprintln!("limen: {name} on {arch} boots");
    let ended = run.run(&mut |line| {
        if let Some(row) = line.strip_prefix("bench-begin ") {
            let row = row.strip_suffix(" 0").unwrap_or(row);
            eprintln!("limen: {name} on {arch}: {row}");
        }
    })?;
    let figures = Figures::parse(&ended.lines);
    if !figures.complete {
        let from = ended.lines.len().saturating_sub(15);
        bail!(
            "{name} did not get through the benchmarks{}; its console ends so:\n{}",
            if ended.by_itself { "" } else { " in time" },
            ended.lines[from..].join("\n")
        );
    }
    figures.check_calibration(name)?;
    Ok(figures)
}
