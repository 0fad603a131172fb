//! The boot and memory rows: instructions from reset to power-off with a program that says hello, the smallest memory that
//! gets there, what `/proc/meminfo` says, and the size of the image.

use std::time::Duration;

use anyhow::{Result, bail};

use super::MEMORY;
use super::counted::{Kernel, Run};
use super::guest::Guest;
use super::plugin::Counting;
use crate::arch::Arch;

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
pub fn measure(
    arch: Arch,
    cpu: &str,
    kernel: &Kernel,
    guest: &Guest,
    wanted: &dyn Fn(&str) -> bool,
    verbose: bool,
) -> Result<Boot> {
    let mut boot = Boot::default();
    let name = &kernel.name;
    let run = |memory: u64, words: &[&str], icount: bool, plugin: Option<String>, timeout: Duration| {
        Run {
            arch,
            kernel,
            initrd: &guest.hello.0,
            cpu,
            memory,
            words: words.iter().map(|w| (*w).to_owned()).collect(),
            icount,
            plugin,
            timeout,
            verbose,
        }
        .run(&mut |_| {})
    };
    let arrived = |lines: &[String]| lines.iter().any(|l| l.contains("hello from init"));
    if wanted("image-size") {
        boot.image = Some(std::fs::metadata(&kernel.image)?.len());
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
pub fn reaches(arch: Arch, cpu: &str, kernel: &Kernel, guest: &Guest, memory: u64) -> Result<bool> {
    let run = Run {
        arch,
        kernel,
        initrd: &guest.hello.0,
        cpu,
        memory,
        words: Vec::new(),
        icount: true,
        plugin: None,
        timeout: Duration::from_secs(60),
        verbose: false,
    };
    let ended = run.run(&mut |_| {})?;
    Ok(ended.lines.iter().any(|l| l.contains("hello from init")))
}
