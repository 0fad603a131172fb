//! Modules of the kernel: builds those of `programs/modules`, and runs `programs/abi/modules.c`, which loads
//! them; one of them maps most of the memory. By name, `programs/abi/loads.c` does so a thousand times under
//! load, and Debian's `stress-ng` does.

use anyhow::{Result, bail};

use super::guest::Guest;
use super::{Context, Step, Verdict, flavour};
use crate::agent;
use crate::arch::Arch;
use crate::{modules, packages, tree};

/// The memory of the guest, and how much of it `vmap80` maps: 32-bit Arm has few addresses.
fn memory(arch: Arch) -> (&'static str, &'static [&'static str]) {
    match arch {
        Arch::Arm => ("--mem=512M", &["percent=80", "most=100"]),
        _ => ("--mem=512M", &["percent=80"]),
    }
}

/// Runs the program on so many CPUs, in so many seconds; `options` choose the kernel.
fn run(
    context: &Context,
    arch: Arch,
    program: &str,
    (cpus, seconds): (u32, u32),
    options: &[&str],
) -> Result<Verdict> {
    let program = agent::program_in(arch, "abi", program)?;
    let (mem, args) = memory(arch);
    let mut guest = Guest::new(context, arch)
        .smp(cpus)
        .timeout(seconds)
        .option(mem)
        .option(format!("--add={}:/test", program.display()));
    for option in options {
        guest = guest.option(*option);
    }
    let ran = with_modules(guest, arch, "/modules")?
        .script(&format!("/test {} && dmesg | grep vmap80:\n", args.join(" ")))
        .run()?;
    if ran.status != 0 {
        bail!("status {}\n{}", ran.status, ran.everything());
    }
    Ok(Verdict::Passed(ran.text().trim().replace('\n', "; ")))
}

/// All modules, in this folder of the guest.
fn with_modules(mut guest: Guest, arch: Arch, at: &str) -> Result<Guest> {
    for folder in modules::folders(&tree::root().join("programs/modules"))? {
        let module = modules::module(arch, &folder)?;
        let name = module
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        guest = guest.option(format!("--add={}:{at}/{name}", module.display()));
    }
    Ok(guest)
}

/// What the guest says if its `stress-ng` is older than this stressor: Debian 12's is.
const TOO_OLD: &str = "this stress-ng has no --module";

/// Debian's `stress-ng`: four processes load and unload one module, which only one of them can at a time.
/// Returns whether it could.
fn stress(context: &Context, arch: Arch) -> Result<bool> {
    let root = packages::tree_with(arch, "stress-ng", &["stress-ng"])?;
    let guest = Guest::new(context, arch)
        .smp(4)
        .timeout(300)
        .option(format!("--root={}", root.display()));
    let ran = with_modules(guest, arch, "/modules")?
        .script(&format!(
            "stress-ng --help | grep -q -e --module || {{ echo {TOO_OLD}; exit 0; }}\n\
             folder=/lib/modules/$(uname -r) && mkdir -p $folder && cp /modules/hello.ko $folder/ && \
             echo hello.ko: > $folder/modules.dep && \
             stress-ng --module 4 --module-name hello --timeout 30 --metrics --verify 2>&1\n",
        ))
        .run()?;
    let said = ran.text();
    if ran.status == 0 && said.contains(TOO_OLD) {
        return Ok(false);
    }
    let ended = said.contains("successful run completed") && !said.contains("skipped");
    if ran.status != 0 || !ended || !ran.log.contains("hello: unloaded") {
        bail!("status {}\n{}", ran.status, ran.everything());
    }
    Ok(true)
}

/// The steps of one architecture.
pub fn steps(arch: Arch) -> Vec<Step> {
    let plain = Step::on(arch, "modules", move |context| {
        run(context, arch, "modules", (2, 600), &[])
    });
    let validated = flavour::LOCKDEP.on(arch, "lockdep-modules", move |context| {
        run(context, arch, "modules", (2, 600), &flavour::LOCKDEP.options())
    });
    let long = Step::on(arch, "modules-long", move |context| {
        if context.kernel.is_some() {
            return Ok(Verdict::Skipped("only for Limen".into()));
        }
        let stressed = stress(context, arch)?;
        let verdict = run(context, arch, "loads", (4, 3600), &[])?;
        Ok(match verdict {
            Verdict::Passed(said) if !stressed => Verdict::Passed(format!("{said}; {TOO_OLD}")),
            verdict => verdict,
        })
    });
    vec![
        plain.after(format!("boot-{arch}")),
        validated.after(format!("modules-{arch}")),
        long.after(format!("modules-{arch}")).alone(),
    ]
}
