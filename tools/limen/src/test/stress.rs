//! Debian's `stress-ng`, dynamic and unmodified, on four processors: each stressor for a moment, four of it at a time, with its own checks;
//! once more with lock validation.

use anyhow::{Result, bail};

use super::guest::{Guest, Ran};
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

/// Its first thread does not wait for the last one that it made when its time ends meanwhile, and goes on to use the memory that it gave that
/// thread: where the thread then stores the time, at an address that is no longer one, the process ends by SIGSEGV (stress-ng 0.15.06; of 480
/// such processes four on Debian's Linux 6.1, and as many here). So that, and nothing else, is tried again.
const LEAVES_A_THREAD: &str = "pthread";
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
        let left = format!("({LEAVES_A_THREAD}) terminated on signal: 11");
        let only_that =
            said(&ran).contains(&left) && complaint(&ran).is_none_or(|c| c.contains(UNSUCCESSFUL));
        if time == TIMES || !only_that {
            check(&ran)?;
            break;
        }
        ran.clean_log()?;
    }
    Ok(Verdict::Passed(format!("{} stressors", STRESSORS.len())))
}

const UNSUCCESSFUL: &str = "unsuccessful";

/// All that stress-ng wrote.
fn said(ran: &Ran) -> String {
    format!("{}{}", ran.text(), String::from_utf8_lossy(&ran.stderr))
}

/// The line that says what went wrong, if any.
fn complaint(ran: &Ran) -> Option<String> {
    let signs = ["skipped", " fail: ", UNSUCCESSFUL];
    let said = said(ran);
    let line = said.lines().find(|l| signs.iter().any(|sign| l.contains(sign)))?;
    Some(line.to_owned())
}

/// An error unless all went well.
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

/// A job file: one stressor after the other, each for so many seconds.
fn job<'a>(seconds: u32, stressors: impl Iterator<Item = &'a (&'a str, &'a str)>) -> String {
    // Only when it is to say much it says how a process ended.
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
        // The rseq stressor registers for itself.
        .option("--env=GLIBC_TUNABLES=glibc.pthread.rseq=0")
        .option(format!("--root={}", root.display()))
        .option(format!("--add={}:/job", job.display()));
    options
        .iter()
        .fold(guest, |g, o| g.option(*o))
        .program(&["/usr/bin/stress-ng", "--job", "/job"])
        .run()
}
