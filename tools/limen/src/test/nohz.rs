//! `nohz_full=`: a program that computes on a CPU of the list takes not one interrupt in ten seconds, while
//! the other CPUs work and grace periods of RCU begin and end. Its time is charged all the same, and a limit
//! of CPU time ends it.

use anyhow::{Context as _, Result, bail};

use super::guest::Guest;
use super::{Context, Step, Verdict};
use crate::arch::Arch;

/// Three CPUs: 0 does the kernel's work, the shell's and that of all that runs already, 1 computes, 2 makes
/// processes and waits for grace periods.
const SCRIPT: &str = "\
    for p in /proc/[0-9]*; do taskset -p 1 ${p#/proc/}; done > /dev/null 2>&1
    mkdir -p /sys/kernel/debug; mount -t debugfs none /sys/kernel/debug
    rcu=/sys/kernel/debug/rcu
    row() { sed -n 's/^ALL: *[0-9]* *\\([0-9]*\\) .*/\\1/p' /proc/interrupts; }
    periods() { sed -n 's/^grace_periods *//p' $rcu; }
    user() { cut -d' ' -f14 /proc/$1/stat; }
    echo list $(cat /sys/devices/system/cpu/nohz_full)
    taskset 2 sh -c 'while :; do :; done' & alone=$!
    taskset 4 sh -c 'while :; do echo synchronize > /sys/kernel/debug/rcu; ls -lR /proc/self > /dev/null; \
        done' 2> /dev/null & busy=$!
    sleep 3
    before=$(row); began=$(periods); used=$(user $alone)
    sleep 10
    after=$(row); ended=$(periods); now=$(user $alone)
    echo interrupts $((after - before)) periods $((ended - began)) user $((now - used))
    kill $alone $busy; wait
    taskset 2 sh -c 'ulimit -S -t 2; while :; do :; done'; echo limit $?\n";

/// Hundredths of a second that the program must have computed of the ten seconds. The host may be busy.
const LEAST_USER: u64 = 800;
/// Grace periods that must have ended meanwhile.
const LEAST_PERIODS: u64 = 50;

/// The step of one architecture.
pub fn steps(arch: Arch) -> Vec<Step> {
    vec![Step::on(arch, "nohz", move |context| nohz(context, arch)).after(format!("boot-{arch}"))]
}

fn nohz(context: &Context, arch: Arch) -> Result<Verdict> {
    if context.kernel.is_some() {
        return Ok(Verdict::Skipped("counts what Limen tells".into()));
    }
    let guest = Guest::new(context, arch).smp(3).timeout(120).script(SCRIPT);
    let ran = guest.option("--append=nohz_full=1").run()?;
    ran.expect(0)?;
    ran.clean_log()?;
    let text = ran.text();
    let number = |name: &str| {
        let mut words = text.split_whitespace().skip_while(|word| *word != name);
        words
            .nth(1)
            .and_then(|word| word.parse::<u64>().ok())
            .with_context(|| format!("it did not tell {name}\n{}", ran.everything()))
    };
    let [interrupts, periods, user] = [number("interrupts")?, number("periods")?, number("user")?];
    // 128 and SIGXCPU.
    if number("list")? != 1 || number("limit")? != 128 + 24 {
        bail!("list of CPUs or limit of CPU time\n{}", ran.everything());
    }
    if interrupts != 0 || periods < LEAST_PERIODS || user < LEAST_USER {
        bail!(
            "{interrupts} interrupts, {periods} grace periods, {user} hundredths in user mode\n{}",
            ran.everything()
        );
    }
    Ok(Verdict::Passed(format!(
        "0 interrupts in 10 s of computing, {periods} grace periods meanwhile"
    )))
}
