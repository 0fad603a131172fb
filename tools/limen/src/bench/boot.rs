//! The boot and memory rows: instructions from reset to power-off with a program that prints one line, the
//! least memory with which that program runs, figures of `/proc/meminfo`, and the size of the image.

use std::time::Duration;

use anyhow::{Result, bail};

use super::MEMORY;
use super::counted::{Run, Subject};
use super::plugin::Counting;

/// The figures of one kernel; `None` for rows that were not asked for.
#[derive(Default)]
pub struct Boot {
    /// Instructions from reset to power-off.
    pub instructions: Option<u64>,
    /// The least memory, in MiB, with which the kernel starts init.
    pub smallest: Option<u64>,
    /// `MemTotal` in kB, with 512 MiB.
    pub mem_total: Option<u64>,
    /// `MemFree` in kB, with 512 MiB.
    pub mem_free: Option<u64>,
    /// Bytes of the kernel file.
    pub image: Option<u64>,
}

/// The rows: name, description, and how to get the value.
pub const ROWS: [(&str, &str, fn(&Boot) -> Option<u64>); 5] = [
    (
        "boot",
        "instructions from reset to power-off, a hello program as init",
        |b| b.instructions,
    ),
    ("smallest-memory", "MiB that reach init", |b| b.smallest),
    ("mem-total", "MemTotal in kB, of 512 MiB", |b| b.mem_total),
    ("mem-free", "MemFree in kB, of 512 MiB", |b| b.mem_free),
    ("image-size", "bytes of the kernel file", |b| b.image),
];

/// A boot that takes longer counts as one that fails.
const PATIENCE: Duration = Duration::from_secs(240);

/// Measures the rows that `wanted` names.
pub fn measure(subject: Subject, wanted: &dyn Fn(&str) -> bool) -> Result<Boot> {
    let mut boot = Boot::default();
    let (name, arch) = (&subject.kernel.name, subject.arch);
    let run = |memory: u64, words: &[&str], icount: bool, plugin: Option<String>, timeout: Duration| {
        Run {
            memory,
            words: words.iter().map(|w| (*w).to_owned()).collect(),
            icount,
            plugin,
            timeout,
            ..subject.boot(&subject.guest.hello.path)
        }
        .run(&mut |_| {})
    };
    let arrived = |lines: &[String]| lines.iter().any(|l| l.contains("hello from init"));
    if wanted("image-size") {
        boot.image = Some(std::fs::metadata(&subject.kernel.image)?.len());
    }
    if wanted("boot") {
        eprintln!("limen: {name} on {arch}: boot");
        let counting = Counting::new(None)?;
        let ended = run(MEMORY, &[], true, Some(counting.option.clone()), PATIENCE)?;
        if !arrived(&ended.lines) || !ended.by_itself {
            bail!("{name} did not run the hello program and switch the machine off");
        }
        boot.instructions = Some(counting.read()?.total());
    }
    if wanted("mem-total") || wanted("mem-free") {
        eprintln!("limen: {name} on {arch}: memory");
        let ended = run(MEMORY, &["meminfo"], true, None, PATIENCE)?;
        let field = |key: &str| {
            let line = ended.lines.iter().find_map(|l| l.trim().strip_prefix(key))?;
            line.split_whitespace().next()?.parse().ok()
        };
        boot.mem_total = field("MemTotal:");
        boot.mem_free = field("MemFree:");
    }
    if wanted("smallest-memory") {
        // Without `-icount`, which is quicker, as nothing is counted. A boot that hangs is ended after a few
        // times the duration of a good one.
        let began = std::time::Instant::now();
        let reaches = |memory: u64, timeout: Duration| -> Result<bool> {
            eprintln!("limen: {name} on {arch}: {memory} MiB");
            Ok(run(memory, &[], false, None, timeout).is_ok_and(|ended| arrived(&ended.lines)))
        };
        let (mut enough, mut too_little) = (256, 1);
        if !reaches(enough, PATIENCE)? {
            bail!("{name} does not reach init with {enough} MiB");
        }
        let patience = (began.elapsed() * 4).max(Duration::from_secs(10));
        while enough - too_little > 1 {
            let middle = enough.midpoint(too_little);
            if reaches(middle, patience)? {
                enough = middle;
            } else {
                too_little = middle;
            }
        }
        boot.smallest = Some(enough);
    }
    Ok(boot)
}

/// Whether the kernel starts init with this much memory, in MiB.
pub fn reaches(subject: Subject, memory: u64) -> Result<bool> {
    let run = Run {
        memory,
        timeout: Duration::from_secs(60),
        ..subject.boot(&subject.guest.hello.path)
    };
    let ended = run.run(&mut |_| {})?;
    Ok(ended.lines.iter().any(|l| l.contains("hello from init")))
}
