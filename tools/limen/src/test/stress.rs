//! Debian's `stress-ng`, dynamic and unmodified, on four processors: each stressor for a short time, four
//! instances of it at a time, with its own checks (`--verify`); once more with lock validation.

use anyhow::{Result, bail};

use super::guest::{Guest, Ran};
use super::{Context, Step, Verdict, flavour};
use crate::arch::Arch;
use crate::{made, packages, tree};

/// The stressors and options for some: `vm` would take all memory. Later versions call `schedpolicy` `sched`.
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

/// Stressors whose threads run with real-time priorities. They may keep the first threads of other instances
/// off all processors for most of each second (`sched_rt_runtime_us`). An instance whose time is over before
/// it has begun reports a failure.
const REAL_TIME: [&str; 2] = ["mutex", "schedpolicy"];

/// This stressor has a bug: if its time ends while its first thread creates a thread, the first thread does
/// not wait for the new one, and reuses the memory it passed to it. The new thread then stores to an invalid
/// address, and the process ends by SIGSEGV (stress-ng 0.15.06; 4 of 480 such processes on Debian's Linux
/// 6.1, and as many on Limen). If the invalid address is not aligned (0x17 was seen, by an `ldrex` of the C
/// library), the signal on 32-bit Arm is SIGBUS, as on Linux. Only these failures are run again.
const LEAVES_A_THREAD: &str = "pthread";
const SIGBUS: u32 = 7;
const SIGSEGV: u32 = 11;
const TIMES: usize = 3;

/// The steps of one architecture.
pub fn steps(arch: Arch) -> Vec<Step> {
    let plain = Step::on(arch, "stress-ng", move |context| stress(context, arch, &[]));
    let lockdep = flavour::LOCKDEP.on(arch, "stress-ng-lockdep", move |context| {
        stress(context, arch, &flavour::LOCKDEP.options())
    });
    let boot = format!("boot-{arch}");
    vec![plain.after(&boot).long().alone(), lockdep.alone()]
}

fn stress(context: &Context, arch: Arch, options: &[&str]) -> Result<Verdict> {
    let of = |wanted: fn(&str) -> bool| STRESSORS.iter().filter(move |(name, _)| wanted(name));
    let hogs = of(|name| REAL_TIME.contains(&name));
    let leaver = of(|name| name == LEAVES_A_THREAD);
    let others = of(|name| !REAL_TIME.contains(&name) && name != LEAVES_A_THREAD);
    check(&run(context, arch, options, "others", &job(1, others))?)?;
    check(&run(context, arch, options, "hogs", &job(5, hogs))?)?;
    let job = job(1, leaver);
    for time in 1.. {
        let ran = run(context, arch, options, LEAVES_A_THREAD, &job)?;
        let ended = |signal| format!("({LEAVES_A_THREAD}) terminated on signal: {signal} ");
        let said = said(&ran);
        let left = said.contains(&ended(SIGSEGV)) || arch == Arch::Arm && said.contains(&ended(SIGBUS));
        let only_that = left && complaint(&ran).is_none_or(|c| c.contains(UNSUCCESSFUL));
        if time == TIMES || !only_that {
            check(&ran)?;
            break;
        }
        ran.clean_log()?;
    }
    Ok(Verdict::Passed(format!("{} stressors", STRESSORS.len())))
}

const UNSUCCESSFUL: &str = "unsuccessful";

/// All output of stress-ng.
fn said(ran: &Ran) -> String {
    format!("{}{}", ran.text(), String::from_utf8_lossy(&ran.stderr))
}

/// The line of the output that reports a failure, if any.
fn complaint(ran: &Ran) -> Option<String> {
    let signs = ["skipped", " fail: ", UNSUCCESSFUL];
    let said = said(ran);
    let line = said.lines().find(|l| signs.iter().any(|sign| l.contains(sign)))?;
    Some(line.to_owned())
}

/// An error unless the run succeeded.
fn check(ran: &Ran) -> Result<()> {
    let complaint = complaint(ran);
    if ran.status != 0 || !said(ran).contains("successful run completed") || complaint.is_some() {
        let ended: Vec<_> = said(ran)
            .lines()
            .filter(|l| l.contains("terminated on signal"))
            .map(str::to_owned)
            .collect();
        bail!(
            "status {}: {}\n{}\n{}",
            ran.status,
            complaint.unwrap_or("it did not end well".into()),
            ended.join("\n"),
            ran.everything()
        );
    }
    ran.clean_log()
}

/// A job file that runs one stressor after the other, each for this many seconds.
fn job<'a>(seconds: u32, stressors: impl Iterator<Item = &'a (&'a str, &'a str)>) -> String {
    // Only with `verbose` it prints how a process ended.
    let mut text = format!("run sequential\ntimeout {seconds}s\nverify\nverbose\n");
    for (name, more) in stressors {
        text += &format!("{name} 4\n{more}");
    }
    text
}

fn run(context: &Context, arch: Arch, options: &[&str], name: &str, text: &str) -> Result<Ran> {
    let root = packages::tree_with(arch, "stress-ng", &["stress-ng"])?;
    let job = tree::cache("test")?.join(format!("stress-ng-{name}.job"));
    made::replace(&job, text.as_bytes())?;
    let guest = Guest::new(context, arch)
        .smp(4)
        .timeout(400)
        .option("--mem=1G")
        // The rseq stressor registers its own area.
        .option("--env=GLIBC_TUNABLES=glibc.pthread.rseq=0")
        .option(format!("--root={}", root.display()))
        .option(format!("--add={}:/job", job.display()));
    guest
        .options(options)
        .program(&["/usr/bin/stress-ng", "--job", "/job"])
        .run()
}
