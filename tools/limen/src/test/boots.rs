//! Boots on every machine, number of processors, processor model and interrupt controller that Limen
//! supports; the kernel's self-tests; the same with lock validation.

use anyhow::{Context as _, Result, bail};

use super::guest::Guest;
use super::{Context, Step, Verdict, flavour};
use crate::agent;
use crate::arch::Arch;

/// Seconds for the self-tests, of which they need a tenth: the host may be busy.
const SELFTESTS: u32 = 600;

/// Prints known lines if the shell, processes and procfs work.
const SCRIPT: &str = "echo up; nproc; cat /proc/self/comm; (echo sub; exit 3); echo $?\n";

fn boot(context: &Context, arch: Arch, smp: u32, options: &[&str]) -> Result<String> {
    let guest = Guest::new(context, arch).smp(smp).timeout(60).script(SCRIPT);
    let guest = guest.options(options);
    let began = std::time::Instant::now();
    let ran = guest.run_well()?;
    if ran.text() != format!("up\n{smp}\ncat\nsub\n3\n") {
        bail!("the shell said something else\n{}", ran.everything());
    }
    Ok(format!(
        "{} {smp} CPUs {:.1} s",
        options.join(" "),
        began.elapsed().as_secs_f64()
    ))
}

/// Other ways in which the kernel's map may be made and changed, for the self-tests, and what the log says
/// then.
const MAPS: &[(Arch, &str, &str)] = &[
    (Arch::X86_64, "--append=kernel_map=pages", ""),
    (Arch::X86_64, "--append=rodata=noalias", ""),
    (Arch::X86_64, "--append=rodata=full", ""),
    (
        Arch::X86_64,
        "--append=rodata=some",
        "Invalid option string for rodata: 'some'",
    ),
    (Arch::Arm64, "--append=arm64.bbml2=off", ""),
    (Arch::Arm64, "--cpu=cortex-a57", ""),
    (
        Arch::Arm64,
        "--append=arm64.bbml2_lacks=1",
        "CPU 1 cannot bear live changes",
    ),
    (Arch::Arm, "--append=kernel_map=pages", ""),
    (Arch::Powerpc64, "--append=kernel_map=pages", ""),
];

/// What is free is not in the kernel's map: the self-tests, a boot, and that a use of such a page ends in a
/// panic that says why.
fn debug_pagealloc(context: &Context, arch: Arch) -> Result<String> {
    const ON: &str = "--append=debug_pagealloc=on";
    const WHY: &str = "(debug_pagealloc: the page is free)";
    let said = selftest(context, arch, &[ON])?;
    boot(context, arch, 2, &[ON])?;
    let guest = Guest::new(context, arch).smp(2).timeout(SELFTESTS);
    let words = ["--append=limen.selftest", "--append=limen.use_after_free", ON];
    let ran = guest.options(&words).run()?;
    if !ran
        .log
        .lines()
        .any(|l| l.contains("Kernel panic") && l.contains(WHY))
    {
        bail!("a page was used after it was freed\n{}", ran.everything());
    }
    Ok(said)
}

/// Runs the kernel's self-tests; returns their last line.
fn selftest(context: &Context, arch: Arch, options: &[&str]) -> Result<String> {
    // One CPU changes the map, the others read.
    selftest_in(Guest::new(context, arch).smp(4).timeout(SELFTESTS), options, "")
}

/// The same in this guest, whose log must say that.
fn selftest_in(guest: Guest, options: &[&str], says: &str) -> Result<String> {
    let ran = guest.option("--append=limen.selftest").options(options).run()?;
    let Some(line) = ran
        .log
        .lines()
        .find(|l| l.contains("selftest:") && l.contains("passed"))
    else {
        bail!("the self-tests did not end\n{}", ran.everything());
    };
    if !line.trim_end().ends_with(", 0 failed") {
        bail!("{}\n{}", line.trim(), ran.everything());
    }
    ran.clean_log()?;
    if !ran.log.contains(says) {
        bail!("the log does not say {says:?}\n{}", ran.everything());
    }
    Ok(line
        .split("selftest:")
        .nth(1)
        .unwrap_or_default()
        .trim()
        .to_owned())
}

/// The build with lock validation. All boots, the self-tests and heavy work must give no complaint, and every
/// planted fault must be found.
fn lockdep(context: &Context, arch: Arch) -> Result<Verdict> {
    const PLANTED: [(&str, &str); 14] = [
        ("order", "possible circular locking dependency detected"),
        ("irq", "inconsistent {HARDIRQ-ON-W} -> {IN-HARDIRQ-W} usage"),
        ("inversion", "possible irq lock inversion dependency detected"),
        ("recursion", "possible recursive locking detected"),
        ("sleep", "BUG: sleeping function called from invalid context"),
        ("exit", "lock held at task exit time!"),
        (
            "allocation",
            "BUG: the heap is used under a lock of the allocators",
        ),
        (
            "atomic",
            "BUG: sleeping function called from invalid context at kernel/src/mm/heap.rs",
        ),
        ("size", "BUG: allocation of 1048576 bytes that cannot fail"),
        ("rcu-sleep", "BUG: sleeping function called from invalid context"),
        ("rcu-outside", "what RCU protects is used outside of a reader"),
        ("rcu-away", "a reader in user mode or idle"),
        (
            "rcu-nested",
            "an interrupt came before the CPU was back in the kernel",
        ),
        ("rcu-stall", "rcu_preempt detected stalls on CPUs"),
    ];
    let options: &[_] = &flavour::LOCKDEP.options();
    let guest = |smp| Guest::new(context, arch).smp(smp).options(options);
    for smp in [1, 2, 4, 8] {
        boot(context, arch, smp, options)?;
    }
    machines(context, arch, options)?;
    boot(context, arch, 1, &[options, &["--mem=16M"]].concat())?;
    selftest(context, arch, options)?;
    let load = agent::program(arch, "load")?;
    let arrivals = agent::program_in(arch, "load", "arrivals")?;
    let hostile = agent::program(arch, "hostile")?;
    let traps = agent::program(arch, "traps")?;
    let script = "for i in 1 2 3; do ls -lR /proc/self /sys /dev >/dev/null 2>&1; (seq 1000 | sort | md5sum; \
                  sleep 0.1) & done; wait; \
                  mkdir -p /tmp/h; chmod 777 /tmp/h; cd /tmp/h; /load 10 || exit 1; /arrivals 5 || exit 1; \
                  /traps | wc -l; /hostile 6000 0 7 || exit 1; /hostile 3000 1000 8 || exit 1; kill -9 $$\n";
    let ran = guest(3)
        .timeout(240)
        .option(format!("--add={}:/load", load.display()))
        .option(format!("--add={}:/arrivals", arrivals.display()))
        .option(format!("--add={}:/hostile", hostile.display()))
        .option(format!("--add={}:/traps", traps.display()))
        .script(script)
        .run()?;
    ran.expect(137)?;
    for (name, report) in PLANTED {
        let ran = guest(2)
            .timeout(60)
            .option(format!(
                "--append=limen.lockdep_selftest={name} rcupdate.rcu_cpu_stall_timeout=1"
            ))
            // Until it is reported: a guest on a busy host may need a while to come to it.
            .script(&format!(
                "for i in $(seq 100); do dmesg | grep -qF '{report}' && break; sleep 0.1; done; sleep 0.1\n"
            ))
            .run()?;
        // What RCU reports is no reason to stop validating locks.
        let went_off = ran.log.contains("turning off the locking correctness validator");
        if !ran.log.contains(report) || !went_off && !report.contains("RCU") && !name.starts_with("rcu") {
            bail!("the planted fault {name} was not found\n{}", ran.everything());
        }
    }
    let lines: Vec<String> = ran.text().lines().map(str::to_owned).collect();
    let rounds = |first| {
        lines
            .iter()
            .find(|l| l.starts_with(first))
            .cloned()
            .unwrap_or_default()
    };
    Ok(Verdict::Passed(format!(
        "silent on 1, 2, 4, 8 CPUs, all machines, in 16 MiB, in self-tests and under load ({}; {}); {} \
         planted faults found",
        rounds("forks "),
        rounds("fifos "),
        PLANTED.len()
    )))
}

/// Two hundred processes at a time, each with a kernel stack.
fn crowd(context: &Context, arch: Arch, options: &[&str]) -> Result<()> {
    let script = "mkfifo /tmp/f; exec 3<>/tmp/f; for i in $(seq 200); do read x </tmp/f & done; kill $(jobs \
        -p); wait; echo all\n";
    let guest = Guest::new(context, arch).smp(4).timeout(60).options(options);
    let ran = guest.script(script).run_well()?;
    if ran.text() != "all\n" {
        bail!("not all of them began\n{}", ran.everything());
    }
    Ok(())
}

/// The build with short descriptors: all boots, the self-tests, registers, many faults, memory pressure and
/// heavy work.
fn short_descriptors(context: &Context, arch: Arch) -> Result<Verdict> {
    let options: &[_] = &flavour::SHORT.options();
    for smp in [1, 2, 4, 8] {
        boot(context, arch, smp, options)?;
    }
    let count = machines(context, arch, options)?;
    boot(context, arch, 1, &[options, &["--mem=16M"]].concat())?;
    boot(
        context,
        arch,
        8,
        &[options, &["--machine=virt,gic-version=3"]].concat(),
    )?;
    crowd(context, arch, options)?;
    let tests = selftest(context, arch, options)?;
    let guest = Guest::new(context, arch).smp(4).timeout(400).option("--mem=2G");
    let mut guest = guest.options(options);
    let programs = [
        ("registers", "registers"),
        ("registers", "storm"),
        ("memory", "memory"),
        ("load", "load"),
        ("load", "arrivals"),
        ("hostile", "hostile"),
    ];
    for (folder, name) in programs {
        let program = agent::program_in(arch, folder, name)?;
        guest = guest.option(format!("--add={}:/{name}", program.display()));
    }
    let script = "/registers | tail -n 1; /storm 8 100 | tail -n 1; /memory large 1000; echo large $?; \
                  /memory rounds 300 > /dev/null; echo rounds $?; \
                  mkdir -p /tmp/h; chmod 777 /tmp/h; cd /tmp/h; \
                  /load 5 > /dev/null; echo load $?; /arrivals 5 > /dev/null; echo arrivals $?; \
                  /hostile 20000 0 7 > /dev/null || exit 1; \
                  /hostile 20000 1000 8 > /dev/null || exit 1; echo alive\n";
    let ran = guest.script(script).run_well()?;
    if ran.text() != "registers kept\nnothing lost\nlarge 0\nrounds 0\nload 0\narrivals 0\nalive\n" {
        bail!("it said something else\n{}", ran.everything());
    }
    ran.clean_log()?;
    Ok(Verdict::Passed(format!(
        "1, 2, 4, 8 CPUs, {count} machines and processors, 16 MiB, 200 processes; {tests}; registers, storm, \
         memory, load, hostile calls"
    )))
}

/// Boots on every machine, processor model and interrupt controller, each with `options`; returns the number
/// of boots.
fn machines(context: &Context, arch: Arch, options: &[&str]) -> Result<usize> {
    let sets: &[&str] = match arch {
        Arch::X86_64 => &["--machine=q35", "--machine=microvm", "--cpu=qemu64", "--mem=6G"],
        Arch::Arm64 => &[
            "--machine=virt,gic-version=3",
            "--machine=virt,gic-version=2",
            "--machine=virt,virtualization=on",
            "--cpu=cortex-a53",
            "--cpu=cortex-a57",
            "--cpu=cortex-a72",
            "--cpu=cortex-a76",
            "--mem=6G",
        ],
        Arch::Arm => &[
            "--cpu=cortex-a7",
            "--cpu=cortex-a15",
            "--cpu=max",
            "--machine=virt,virtualization=on",
            "--machine=vexpress-a15",
            "--mem=3G",
        ],
        Arch::Powerpc64 => &[
            "--cpu=power9",
            "--cpu=power10",
            "--machine=pseries,x-vof=off",
            "--mem=6G",
        ],
    };
    let mut done = 0;
    for set in sets {
        if context.kernel.is_some() && set.contains("microvm") {
            continue; // Debian's Linux has no drivers for microvm without ACPI
        }
        let all: Vec<&str> = options.iter().copied().chain([*set]).collect();
        boot(context, arch, 2, &all).with_context(|| (*set).to_owned())?;
        done += 1;
    }
    Ok(done)
}

/// The first boot, which the others depend on.
pub fn first_steps(arch: Arch) -> Vec<Step> {
    let first = Step::on(arch, "boot", move |context| {
        Ok(Verdict::Passed(boot(context, arch, 1, &[])?))
    });
    vec![first.after(format!("build-{arch}"))]
}

/// All other boots.
pub fn more_steps(arch: Arch) -> Vec<Step> {
    let smp = Step::on(arch, "smp", move |context| {
        let runs: Result<Vec<String>> = [2, 4, 8]
            .map(|n| boot(context, arch, n, &[]))
            .into_iter()
            .collect();
        Ok(Verdict::Passed(runs?.join(", ")))
    });
    let machines = Step::on(arch, "machines", move |context| {
        let count = machines(context, arch, &[])?;
        Ok(Verdict::Passed(format!("{count} machines and processors")))
    });
    let lockdep = flavour::LOCKDEP.on(arch, "lockdep", move |context| lockdep(context, arch));
    let map_long = Step::on(arch, "map-long", move |context| {
        if context.kernel.is_some() {
            return Ok(Verdict::Skipped("only for Limen".into()));
        }
        let guest = Guest::new(context, arch).smp(4).timeout(7200);
        let rounds = "--append=limen.map_rounds=100000";
        Ok(Verdict::Passed(selftest_in(guest, &[rounds], "")?))
    });
    let selftest = Step::on(arch, "selftest", move |context| {
        if context.kernel.is_some() {
            return Ok(Verdict::Skipped("only for Limen".into()));
        }
        let said = selftest(context, arch, &[])?;
        for (_, option, says) in MAPS.iter().filter(|(of, ..)| *of == arch) {
            let guest = Guest::new(context, arch).smp(4).timeout(SELFTESTS);
            selftest_in(guest, &[*option], says).with_context(|| (*option).to_owned())?;
        }
        Ok(Verdict::Passed(said))
    });
    let map = Step::on(arch, "map", move |context| {
        if context.kernel.is_some() {
            return Ok(Verdict::Skipped("only for Limen".into()));
        }
        Ok(Verdict::Passed(debug_pagealloc(context, arch)?))
    });
    let first = format!("boot-{arch}");
    let mut steps = vec![
        smp.after(&first),
        machines.after(&first),
        lockdep.alone(),
        selftest.after(&first),
        map.after(&first),
        map_long.after(&first).alone(),
    ];
    if arch == Arch::Arm {
        let short = flavour::SHORT.on(arch, "short-descriptors", move |context| {
            short_descriptors(context, arch)
        });
        steps.push(short.alone());
    }
    steps
}
