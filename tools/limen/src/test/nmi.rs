//! Non-maskable interrupts, some hundreds of them, wherever the guest's two processors are while programs run
//! that find out what an interrupt loses: `programs/hostile`, `programs/registers` and its `storm`, and the
//! `segments` of `programs/abi`. QEMU's monitor sends them (`nmi`), to both processors at once, from the
//! kernel's first instruction on. The kernel writes each into its log, with the registers, which tell where
//! it came from. The Arms' machines have FIQs instead, which the kernel sends itself, by the thousand, and
//! counts (`limen.nmi_storm=`).

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::guest::Guest;
use super::{Context, Step, Verdict};
use crate::agent;
use crate::arch::Arch;

/// Between two of them.
const PAUSE: Duration = Duration::from_millis(10);
/// After so many the guest is left alone for a while: on a busy host its report of one may take longer than
/// the pause, and it would do nothing else.
const BURST: usize = 20;
const REST: Duration = Duration::from_millis(200);
/// How many must have come from each of user and kernel mode.
const LEAST: usize = 100;
const SCRIPT: &str = "\
    mkdir -p /tmp/h && chmod 777 /tmp/h && cd /tmp/h && /hostile 100000 1000 9 > /tmp/said; echo hostile $?
    cd /; rm -rf /tmp/h
    /storm 4 200 | tail -n 1
    /registers | tail -n 1
    /segments > /tmp/said; echo segments $?
    end=$(($(date +%s) + 10))
    for cpu in 0 1; do
        while [ $(date +%s) -lt $end ]; do sha256sum < /hostile; done > /tmp/sums$cpu &
    done; wait
    cat /tmp/sums? | sort -u | wc -l\n";
const SAID: &str = "hostile 0\nnothing lost\nregisters kept\nsegments 0\n1\n";

/// Machines whose FIQs are the kernel's.
const FIQS: [&str; 2] = ["virt,gic-version=2", "virt,gic-version=3"];
/// How many of these must have come in each of user and kernel mode.
const LEAST_FIQS: usize = 200;

/// The step, where QEMU's machine has NMIs that are not the end.
pub fn steps(arch: Arch) -> Vec<Step> {
    let step = match arch {
        Arch::X86_64 => Step::on(arch, "nmi", move |context| nmi(context, arch)),
        Arch::Arm | Arch::Arm64 => Step::on(arch, "fiq", move |context| fiq(context, arch)),
        Arch::Powerpc64 => return Vec::new(),
    };
    vec![step.after(format!("boot-{arch}"))]
}

/// A guest with two processors that runs the script.
fn guest(context: &Context, arch: Arch) -> Result<Guest> {
    let mut guest = Guest::new(context, arch).smp(2).timeout(240).script(SCRIPT);
    for (program, of) in [
        ("hostile", "hostile"),
        ("registers", "registers"),
        ("storm", "registers"),
        ("segments", "abi"),
    ] {
        let file = agent::program_in(arch, of, program)?;
        guest = guest.option(format!("--add={}:/{program}", file.display()));
    }
    Ok(guest)
}

/// Nothing is disturbed, and what was sent has come, as often as it was sent.
fn fiq(context: &Context, arch: Arch) -> Result<Verdict> {
    if context.kernel.is_some() {
        return Ok(Verdict::Skipped("Limen's own command line".into()));
    }
    let mut said = Vec::new();
    for machine in FIQS {
        let ran = guest(context, arch)?
            .option(format!("--machine={machine}"))
            .option("--append=limen.nmi_storm=500")
            .run_well()?;
        let last = ran
            .log
            .lines()
            .filter_map(|line| line.split("nmi storm: ").nth(1))
            .next_back();
        let counts: Vec<usize> = last
            .unwrap_or_default()
            .split(' ')
            .filter_map(|word| word.parse().ok())
            .collect();
        let &[user, kernel] = counts.as_slice() else {
            bail!("{machine}: no storm, or not to its end\n{}", ran.everything());
        };
        if ran.text() != SAID || !last.unwrap_or_default().ends_with("mode") || user.min(kernel) < LEAST_FIQS
        {
            bail!("{machine}: something was lost\n{}", ran.everything());
        }
        said.push(format!("{machine}: {user} in user mode, {kernel} in kernel mode"));
    }
    Ok(Verdict::Passed(said.join("; ")))
}

fn nmi(context: &Context, arch: Arch) -> Result<Verdict> {
    if context.kernel.is_some() {
        return Ok(Verdict::Skipped("counts what Limen's log says".into()));
    }
    let monitor = std::env::temp_dir().join(format!("limen-nmi-{}", std::process::id()));
    let guest = guest(context, arch)?
        .option("--qemu-arg=-monitor")
        .option(format!(
            "--qemu-arg=unix:{},server=on,wait=off",
            monitor.display()
        ));
    let over = AtomicBool::new(false);
    let (ran, sent) = std::thread::scope(|scope| {
        let sender = scope.spawn(|| send(&monitor, &over));
        let ran = guest.run();
        over.store(true, Ordering::Relaxed);
        (ran, sender.join())
    });
    let _ = std::fs::remove_file(&monitor);
    let ran = ran?;
    let Ok(sent) = sent else {
        bail!("the sender panicked");
    };
    let sent = sent.with_context(|| format!("no NMIs\n{}", ran.everything()))?;
    ran.expect(0)?;
    if ran.text() != SAID {
        bail!("it said something else\n{}", ran.everything());
    }
    let [user, kernel] = came_from(&ran.log);
    if user.min(kernel) < LEAST {
        bail!(
            "{sent} sent, {user} came in user mode, {kernel} in kernel mode\n{}",
            ran.everything()
        );
    }
    Ok(Verdict::Passed(format!(
        "{sent} times to two processors: {user} in user mode, {kernel} in kernel mode"
    )))
}

/// How many NMIs the log has from user mode and from kernel mode: the line behind each begins with the code
/// segment, whose last two bits are the privilege level.
fn came_from(log: &str) -> [usize; 2] {
    let mut found = [0; 2];
    for part in log.split("NMI received on CPU ").skip(1) {
        let selector = part.split("RIP: ").nth(1).and_then(|rest| rest.split(':').next());
        match selector.and_then(|s| u16::from_str_radix(s, 16).ok()) {
            Some(selector) if selector & 3 == 3 => found[0] += 1,
            Some(_) => found[1] += 1,
            None => {}
        }
    }
    found
}

/// Sends NMIs until the guest is gone; how many. The monitor answers each with its prompt.
fn send(monitor: &Path, over: &AtomicBool) -> Result<usize> {
    let mut stream = loop {
        match UnixStream::connect(monitor) {
            Ok(stream) => break stream,
            Err(_) if !over.load(Ordering::Relaxed) => std::thread::sleep(PAUSE),
            Err(error) => return Err(error).context("QEMU opened no monitor"),
        }
    };
    let mut sent = 0_usize;
    while prompt(&mut stream) && stream.write_all(b"nmi\n").is_ok() {
        sent += 1;
        std::thread::sleep(if sent.is_multiple_of(BURST) { REST } else { PAUSE });
    }
    Ok(sent)
}

/// Waits for the monitor's prompt. `false`: QEMU has ended.
fn prompt(stream: &mut UnixStream) -> bool {
    let (mut said, mut bytes) = (Vec::new(), [0; 512]);
    while !said.ends_with(b"(qemu) ") {
        match stream.read(&mut bytes) {
            Ok(0) | Err(_) => return false,
            Ok(n) => said.extend_from_slice(&bytes[..n]),
        }
    }
    true
}
