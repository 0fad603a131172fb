//! Programs of 32-bit Arm's old ABI (`programs/oabi`). Debian's Linux is built without it.

use anyhow::{Result, bail};

use super::guest::Guest;
use super::{Context, Step, Verdict, flavour};
use crate::agent;
use crate::arch::Arch;

/// Runs the program; `options` choose the kernel.
fn run(context: &Context, options: &[&str]) -> Result<Verdict> {
    if context.kernel.is_some() {
        return Ok(Verdict::Skipped("only for Limen".into()));
    }
    let program = agent::program(Arch::Arm, "oabi")?;
    let ran = Guest::new(context, Arch::Arm)
        .smp(2)
        .timeout(300)
        .options(options)
        .option(format!("--add={}:/oabi", program.display()))
        .script("mkdir /tmp/oabi && cd /tmp/oabi && exec /oabi\n")
        .run()?;
    if ran.status != 0 {
        bail!("status {}\n{}", ran.status, ran.everything());
    }
    ran.clean_log()?;
    Ok(Verdict::Passed(ran.text().trim().replace('\n', "; ")))
}

/// The steps of one architecture.
pub fn steps(arch: Arch) -> Vec<Step> {
    if arch != Arch::Arm {
        return Vec::new();
    }
    let plain = Step::on(arch, "oabi", |context| run(context, &[])).after(format!("boot-{arch}"));
    let validated = flavour::LOCKDEP
        .on(arch, "lockdep-oabi", |context| {
            run(context, &flavour::LOCKDEP.options())
        })
        .after(format!("oabi-{arch}"));
    vec![plain, validated]
}
