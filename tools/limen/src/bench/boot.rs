//! The boot and memory rows: instructions from reset to power-off with a program that says hello, the smallest memory that
//! gets there, what `/proc/meminfo` says, and the size of the image.

use std::time::Duration;

use anyhow::{Result, bail};

use super::MEMORY;
use super::counted::{Run, Subject};
use super::plugin::Counting;

/// What one kernel gave; what was not asked for is `None`.
#[derive(Default)]
pub struct Boot {
    /// Instructions from reset to power-off.
    pub instructions: Option<u64>,
    /// MiB: the least that reaches init.
    pub smallest: Option<u64>,
    /// kB, with 512 MiB.
    pub mem_total: Option<u64>,
    /// kB, with 512 MiB.
    pub mem_free: Option<u64>,
    /// Bytes of the kernel file.
    pub image: Option<u64>,
}

/// The rows: name, what it is, and its value.
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

/// A boot may take this long before it counts as one that never arrives.
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
            ..subject.boot(&subject.guest.hello.0)
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
        // Without counting: it is quicker, and nothing is counted. A boot that hangs is given a few times what a good
        // one took.
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

/// Whether the kernel reaches init with so many MiB.
pub fn reaches(subject: Subject, memory: u64) -> Result<bool> {
    let run = Run {
        memory,
        timeout: Duration::from_secs(60),
        ..subject.boot(&subject.guest.hello.0)
    };
    let ended = run.run(&mut |_| {})?;
    Ok(ended.lines.iter().any(|l| l.contains("hello from init")))
}
