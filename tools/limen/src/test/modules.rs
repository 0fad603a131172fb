//! Modules of the kernel: builds those of `programs/modules`, and runs `programs/abi/modules.c`, which loads
//! them; one of them maps most of the memory. `programs/abi/module_traces.c` traces their functions, and
//! `programs/abi/module_patches.c` has them replace functions of the kernel and of each other. By name,
//! `programs/abi/loads.c` loads them a thousand times under load.

use anyhow::{Result, bail};

use super::guest::Guest;
use super::{Context, Step, Verdict, flavour};
use crate::agent;
use crate::arch::Arch;
use crate::{modules, tree};

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
    let tells = if program.starts_with("module_") {
        ""
    } else {
        " && dmesg | grep vmap80:"
    };
    let program = agent::program_in(arch, "abi", program)?;
    let (mem, args) = memory(arch);
    let guest = Guest::new(context, arch)
        .smp(cpus)
        .timeout(seconds)
        .option(mem)
        .option(format!("--add={}:/test", program.display()))
        .options(options);
    let ran = with_modules(guest, arch)?
        .script(&format!("/test {}{tells}\n", args.join(" ")))
        .run()?;
    if ran.status != 0 {
        bail!("status {}\n{}", ran.status, ran.everything());
    }
    Ok(Verdict::Passed(ran.text().trim().replace('\n', "; ")))
}

/// All modules, in the guest's `/modules`.
pub fn with_modules(mut guest: Guest, arch: Arch) -> Result<Guest> {
    for folder in modules::folders(&tree::root().join("programs/modules"))? {
        let module = modules::module(arch, &folder)?;
        let name = module
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        guest = guest.option(format!("--add={}:/modules/{name}", module.display()));
    }
    Ok(guest)
}

/// The steps of one architecture.
pub fn steps(arch: Arch) -> Vec<Step> {
    let plain = Step::on(arch, "modules", move |context| {
        run(context, arch, "modules", (2, 600), &[])
    });
    let traced = Step::on(arch, "module-traces", move |context| {
        match run(context, arch, "module_traces", (2, 600), &[])? {
            Verdict::Passed(first) => match run(context, arch, "module_patches", (2, 600), &[])? {
                Verdict::Passed(second) => Ok(Verdict::Passed(format!("{first}; {second}"))),
                other => Ok(other),
            },
            other => Ok(other),
        }
    });
    let validated = flavour::LOCKDEP.on(arch, "lockdep-modules", move |context| {
        run(context, arch, "modules", (2, 600), &flavour::LOCKDEP.options())
    });
    let long = Step::on(arch, "modules-long", move |context| {
        if context.kernel.is_some() {
            return Ok(Verdict::Skipped("only for Limen".into()));
        }
        run(context, arch, "loads", (4, 3600), &[])
    });
    vec![
        plain.after(format!("boot-{arch}")),
        traced.after(format!("modules-{arch}")),
        validated.after(format!("modules-{arch}")),
        long.after(format!("modules-{arch}")).alone(),
    ]
}
