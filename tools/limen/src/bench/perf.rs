//! Rows measured with a foreign program: `perf bench` of Debian's `linux-perf`, as packaged, on both kernels.
//! On x86_64 only, where the host's program runs in the guest.

use anyhow::{Context, Result, bail};

use super::SETTLE;
use super::counted::{Run, Subject};
use super::rows::{Figure, Figures};
use crate::arch::Arch;
use crate::cpio::Archive;
use crate::image::TemporaryFile;
use crate::{guest_files, packages, program};

/// The rows and the arguments after `perf bench`.
const COMMANDS: [(&str, &[&str]); 4] = [
    ("perf-syscall", &["syscall", "all"]),
    ("perf-pipe", &["sched", "pipe", "-l", "100000"]),
    ("perf-messaging", &["sched", "messaging"]),
    ("perf-futex-hash", &["futex", "hash", "-r", "1"]),
];

/// MiB. Its 400 processes and the initramfs with perf's libraries need more than the other rows.
const MEMORY: u64 = 1024;

/// Whether `name` is one of these rows.
pub fn is(name: &str) -> bool {
    name.starts_with("perf-")
}

/// Whether this host can measure them.
pub fn is_here() -> bool {
    Arch::host() == Some(Arch::X86_64)
}

/// Runs the rows that `wanted` selects and adds their figures.
pub fn measure(subject: Subject, wanted: &dyn Fn(&str) -> bool, figures: &mut Figures) -> Result<()> {
    let (arch, kernel) = (subject.arch, subject.kernel);
    let chosen: Vec<_> = COMMANDS.iter().filter(|(name, _)| wanted(name)).collect();
    if arch != Arch::X86_64 || chosen.is_empty() {
        return Ok(());
    }
    if !is_here() {
        eprintln!("limen: perf bench is left out: this host has no perf for {arch}");
        return Ok(());
    }
    let perf = packages::ensure_tool("perf", &["linux-perf"])?;
    let perf = perf.to_string_lossy().into_owned();
    let mut archive = Archive::default();
    let init = std::fs::read(&subject.guest.programs.init).context("cannot read the benchmark program")?;
    archive.file("init", 0o755, &init);
    guest_files::add_all(
        &mut archive,
        &program::find(perf.as_ref(), Some(arch), &program::Guest::default())?.files,
        arch,
    )?;
    guest_files::add_basics(&mut archive);
    let initrd = TemporaryFile::new(&archive.finish())?;
    let mut words = vec![format!("settle={SETTLE}")];
    for (_, arguments) in &chosen {
        words.push(format!("exec={perf}"));
        words.push("arg=bench".to_owned());
        words.extend(arguments.iter().map(|a| format!("arg={a}")));
    }
    let run = Run {
        memory: MEMORY,
        words,
        ..subject.boot(&initrd.path)
    };
    eprintln!("limen: {} on {arch}: perf bench", kernel.name);
    let ended = run.run(&mut |line| {
        if line.contains("# Running") {
            eprintln!(
                "limen: {} on {arch}: {}",
                kernel.name,
                line.trim_start_matches("# ")
            );
        }
    })?;
    if !ended.lines.iter().any(|l| l == "bench-end") {
        let from = ended.lines.len().saturating_sub(15);
        bail!(
            "{} did not get through perf bench; its console ends so:\n{}",
            kernel.name,
            ended.lines[from..].join("\n")
        );
    }
    let mut parts = ended.lines.split(|l| l.starts_with("bench-exec "));
    parts.next();
    for ((name, _), part) in chosen.iter().zip(parts) {
        match value(part) {
            Some(per_operation) => {
                let figure = Figure {
                    operations: 1_000_000,
                    rounds: vec![(per_operation * 1e6) as u64],
                };
                figures.rows.insert(((*name).to_owned(), 0), figure);
            }
            None => {
                let why = part.iter().find(|l| l.starts_with("bench-status"));
                figures.failed.push((
                    (*name).to_owned(),
                    why.cloned().unwrap_or_else(|| "it gave no figure".to_owned()),
                ));
            }
        }
    }
    Ok(())
}

/// Instructions per operation, from the times that perf prints: one nanosecond is one instruction.
fn value(lines: &[String]) -> Option<f64> {
    let first = |l: &String| l.split_whitespace().next().and_then(|w| w.parse::<f64>().ok());
    if let Some(line) = lines.iter().find(|l| l.contains("usecs/op")) {
        return first(line).map(|v| v * 1e3);
    }
    if let Some(line) = lines.iter().find_map(|l| l.strip_prefix("Averaged ")) {
        return first(&line.to_owned()).map(|v| 1e9 / v);
    }
    let line = lines.iter().find(|l| l.contains("Total time:"))?;
    let after = line.split("Total time:").nth(1)?.to_owned();
    first(&after).map(|v| v * 1e9)
}

#[cfg(test)]
mod tests {
    use super::value;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn times_become_instructions() {
        let each = value(&lines(
            "     Total time: 1.373 [sec]\n\n       0.137369 usecs/op\n",
        ))
        .unwrap();
        assert!((each - 137.369).abs() < 1e-6);
        let hash = value(&lines(
            "Averaged 2000000 operations/sec (+- 0.00%), total secs = 1",
        ))
        .unwrap();
        assert_eq!(hash, 500.0);
        assert_eq!(value(&lines("     Total time: 0.5 [sec]")).unwrap(), 5e8);
        assert_eq!(value(&lines("perf: not there")), None);
    }
}
