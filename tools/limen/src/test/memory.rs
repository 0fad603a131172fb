//! Memory pressure: guests with 16 MiB and with more memory than their kernel can map, a program that
//! allocates everything, a fork bomb, and whether all memory is free afterwards.

use anyhow::{Result, bail};

use super::guest::Guest;
use super::{Context, Step, Verdict, flavour};
use crate::agent;
use crate::arch::Arch;

/// The steps of one architecture.
pub fn steps(arch: Arch) -> Vec<Step> {
    let small = Step::on(arch, "memory-16m", move |context| {
        if context.kernel.is_some() {
            return Ok(Verdict::Skipped("Linux does not boot in 16 MiB".into()));
        }
        let script = "echo hello; ls / | wc -l | awk '{ print ($1 > 3) }'; awk '/MemTotal/ { print $2 }' \
            /proc/meminfo\n";
        let ran = Guest::new(context, arch)
            .option("--mem=16M")
            .script(script)
            .run_well()?;
        let text = ran.text();
        let Some(total) = text.strip_prefix("hello\n1\n") else {
            bail!("the shell said something else\n{}", ran.everything());
        };
        Ok(Verdict::Passed(format!(
            "a shell in 16 MiB; MemTotal {} kB",
            total.trim()
        )))
    });
    let under_pressure = Step::on(arch, "memory-pressure", move |context| {
        pressure(context, arch, "128M", &[])
    });
    // More than a 32-bit kernel can map.
    let large = Step::on(arch, "memory-large", move |context| {
        let program = agent::program(arch, "memory")?;
        let script = "\
            /memory large 1700; echo large $?
            /memory eat; s=$?; [ $s = 137 ] || [ $s = 12 ]; echo eater $?
            /memory rounds 100 > /dev/null
            /memory rounds 300; echo rounds $?
            awk '/MemTotal/ { print ($2 > 2000000) }' /proc/meminfo\n";
        let guest = Guest::new(context, arch).smp(2).option("--mem=2G").timeout(400);
        let ran = guest
            .option(format!("--add={}:/memory", program.display()))
            .script(script)
            .run()?;
        let text = ran.text();
        let wanted = ["large 0", "eater 0", "rounds 0", "1"];
        let lines: Vec<&str> = text.lines().filter(|l| wanted.contains(l)).collect();
        if ran.status != 0 || lines != wanted || ran.log.contains("Kernel panic") {
            bail!("status {}\n{}", ran.status, ran.everything());
        }
        Ok(Verdict::Passed("1700 MiB of 2 GiB in one program".into()))
    });
    let boot = format!("boot-{arch}");
    let mut steps = vec![small.after(&boot), under_pressure.after(&boot)];
    for flavour in flavour::pages(arch) {
        steps.push(
            flavour.on(arch, &flavour.named("memory-pressure"), move |context| {
                // Large pages: two hundred processes take as much for their page tables alone.
                pressure(context, arch, "512M", &flavour.options())
            }),
        );
    }
    if arch == Arch::Arm {
        steps.push(large.after(&boot));
    }
    steps
}

/// Little memory: everything is taken, by one program and by many, and all comes back. `options` choose the
/// kernel.
fn pressure(context: &Context, arch: Arch, memory: &str, options: &[&str]) -> Result<Verdict> {
    let program = agent::program(arch, "memory")?;
    let script = "\
        /memory locks; echo locks $?
        /memory eat; s=$?; [ $s = 137 ] || [ $s = 12 ]; echo eater $?
        echo alive
        /memory touch; s=$?; [ $s = 137 ] || [ $s = 12 ]; echo toucher $?
        /memory bomb; echo bomb $?
        for i in $(seq 50); do n=$(ps | wc -l); [ $n -lt 100 ] && break; sleep 0.2; done
        [ $n -lt 100 ] && echo few || ps
        /memory rounds 100 > /dev/null
        /memory rounds 1000; echo rounds $?
        echo end\n";
    let guest = Guest::new(context, arch).smp(2).timeout(400);
    let ran = guest
        .options(options)
        .option(format!("--mem={memory}"))
        .option(format!("--add={}:/memory", program.display()))
        .script(script)
        .run()?;
    let text = ran.text();
    let wanted = [
        "locks 0",
        "eater 0",
        "alive",
        "toucher 0",
        "bomb 0",
        "few",
        "rounds 0",
        "end",
    ];
    let lines: Vec<&str> = text.lines().filter(|l| wanted.contains(l)).collect();
    if ran.status != 0 || lines != wanted {
        bail!("status {}\n{}", ran.status, ran.everything());
    }
    if ran.log.contains("Kernel panic") {
        bail!("the kernel panicked\n{}", ran.everything());
    }
    Ok(Verdict::Passed(
        text.lines()
            .find(|l| l.starts_with("free"))
            .unwrap_or_default()
            .to_owned(),
    ))
}
