//! What is traced changes at random while four processors are busy: `programs/tracestorm`, beside
//! `programs/hostile`, the cases of BusyBox and stress-ng. By name, since it takes long.

use anyhow::{Result, bail};

use super::guest::Guest;
use super::{Context, Step, Verdict, cases, modules};
use crate::arch::Arch;
use crate::{agent, packages};

/// How often something changes.
const CHANGES: u32 = 10_000;

/// What runs in the guest. Whoever is beside the storm runs until it is over; what they say matters to other
/// steps.
const SCRIPT: &str = "\
    mkdir -p /tmp/h && chmod 777 /tmp/h
    (cd /tmp/h; while [ ! -e /tmp/over ]; do /hostile 5000 1000 $((n = n + 1)); done) > /dev/null 2>&1 &
    (while [ ! -e /tmp/over ]; do sh /cases/run; done) > /dev/null 2>&1 &
    (while [ ! -e /tmp/over ]; do
        /usr/bin/stress-ng --fork 1 --pipe 1 --futex 1 --mmap 1 --mmap-bytes 8M --timeout 10
    done) > /dev/null 2>&1 &
    /tracestorm CHANGES 5 /modules/hello.ko; echo status $?
    touch /tmp/over; wait; echo all over\n";

/// The steps of an architecture.
pub fn steps(arch: Arch) -> Vec<Step> {
    let storm = Step::on(arch, "trace-storm", move |context| storm(context, arch));
    vec![storm.after(format!("modules-{arch}")).alone()]
}

fn storm(context: &Context, arch: Arch) -> Result<Verdict> {
    let root = packages::tree_with(arch, "stress-ng", &["stress-ng"])?;
    let busy: Vec<_> = cases::read("busybox")?
        .into_iter()
        .filter(|case| !case.text.contains("sleep"))
        .collect();
    let cases = cases::prepare(&busy, "sh")?;
    let mut guest = Guest::new(context, arch)
        .smp(4)
        .timeout(6000)
        .option("--mem=1G")
        // One of stress-ng's threads registers an area of its own.
        .option("--env=GLIBC_TUNABLES=glibc.pthread.rseq=0")
        .option(format!("--root={}", root.display()))
        .option(format!("--add={}:/cases", cases.display()));
    for program in ["tracestorm", "hostile"] {
        let file = agent::program(arch, program)?;
        guest = guest.option(format!("--add={}:/{program}", file.display()));
    }
    let script = SCRIPT.replace("CHANGES", &CHANGES.to_string());
    let guest = modules::with_modules(guest, arch)?;
    let ran = guest.program(&["sh", "-c", &script]).run()?;
    let text = ran.text();
    if ran.status != 0 || !text.contains("\nstatus 0\n") || !text.ends_with("all over\n") {
        bail!("status {}\n{}", ran.status, ran.everything());
    }
    ran.clean_log()?;
    let said: Vec<&str> = text
        .lines()
        .take_while(|line| !line.starts_with("status"))
        .collect();
    Ok(Verdict::Passed(said.join("; ")))
}
