//! Debian's `stress-ng`, dynamic and unmodified, on four processors: each stressor for a moment, four of it at a time, with its own checks;
//! once more with lock validation.

use anyhow::{Result, bail};

use super::guest::Guest;
use super::{Context, Step, Verdict, flavour};
use crate::arch::Arch;
use crate::{made, packages, tree};

/// The stressors, and what some are told: `vm` would take all memory. What later versions call `sched` is `schedpolicy` in Debian's.
const STRESSORS: [(&str, &str); 19] = [
    ("cpu", ""),
    ("fork", ""),
    ("clone", ""),
    ("futex", ""),
    ("mutex", ""),
    ("pthread", "pthread-max 64\n"),
    ("rseq", ""),
    ("schedpolicy", ""),
    ("affinity", ""),
    ("sigrt", ""),
    ("sigsuspend", ""),
    ("switch", ""),
    ("yield", ""),
    ("membarrier", ""),
    ("mmap", "mmap-bytes 32m\n"),
    ("vm", "vm-bytes 64m\n"),
    ("pipe", ""),
    ("poll", ""),
    ("timer", ""),
];

/// Those whose threads run with real-time priorities. They may keep the other instances' first threads from all processors for most of each second
/// (`sched_rt_runtime_us`), so that these find their time over before they began, and call that a failure.
const REAL_TIME: [&str; 2] = ["mutex", "schedpolicy"];

/// The steps of one architecture.
pub fn steps(arch: Arch) -> Vec<Step> {
    if !matches!(arch, Arch::X86_64 | Arch::Arm64) {
        return Vec::new();
    }
    let plain = Step::on(arch, "stress-ng", move |context| stress(context, arch, &[]));
    let lockdep = flavour::LOCKDEP.on(arch, "stress-ng-lockdep", move |context| {
        stress(context, arch, flavour::LOCKDEP.options)
    });
    let boot = format!("boot-{arch}");
    vec![plain.after(&boot).long().alone(), lockdep.alone()]
}

fn stress(context: &Context, arch: Arch, options: &[&str]) -> Result<Verdict> {
    let hogs = STRESSORS.iter().filter(|(name, _)| REAL_TIME.contains(name));
    let others = STRESSORS.iter().filter(|(name, _)| !REAL_TIME.contains(name));
    run(context, arch, options, "others", &job(1, others))?;
    run(context, arch, options, "hogs", &job(5, hogs))?;
    Ok(Verdict::Passed(format!("{} stressors", STRESSORS.len())))
}

/// A job file: one stressor after the other, each for so many seconds.
fn job<'a>(seconds: u32, stressors: impl Iterator<Item = &'a (&'a str, &'a str)>) -> String {
    let mut text = format!("run sequential\ntimeout {seconds}s\nverify\n");
    for (name, more) in stressors {
        text += &format!("{name} 4\n{more}");
    }
    text
}

fn run(context: &Context, arch: Arch, options: &[&str], name: &str, text: &str) -> Result<()> {
    let root = packages::tree_with(arch, "stress-ng", &["stress-ng"])?;
    let job = tree::cache("test")?.join(format!("stress-ng-{name}.job"));
    made::replace(&job, text.as_bytes())?;
    let guest = Guest::new(context, arch)
        .smp(4)
        .timeout(400)
        .option("--mem=1G")
        // The rseq stressor registers for itself.
        .option("--env=GLIBC_TUNABLES=glibc.pthread.rseq=0")
        .option(format!("--root={}", root.display()))
        .option(format!("--add={}:/job", job.display()));
    let ran = options
        .iter()
        .fold(guest, |g, o| g.option(*o))
        .program(&["/usr/bin/stress-ng", "--job", "/job"])
        .run()?;
    let said = format!("{}{}", ran.text(), String::from_utf8_lossy(&ran.stderr));
    let bad = said
        .lines()
        .find(|l| l.contains("skipped") || l.contains(" fail: ") || l.contains("unsuccessful"));
    if ran.status != 0 || !said.contains("successful run completed") || bad.is_some() {
        bail!(
            "status {}: {}\n{}",
            ran.status,
            bad.unwrap_or("it did not end well"),
            ran.everything()
        );
    }
    ran.clean_log()
}
