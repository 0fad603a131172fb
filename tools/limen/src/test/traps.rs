//! Signals after forbidden accesses and instructions (`programs/traps`), with all their details: on the
//! kernel under test and on Linux, with the same processor.

use std::hash::{DefaultHasher, Hash, Hasher};

use anyhow::Result;

use super::guest::Guest;
use super::{Context, Step, Verdict, cases, flavour};
use crate::agent;
use crate::arch::Arch;

/// The processor models. Features of a newer model that Limen does not use (`docs/abi.md`) are turned off.
fn models(arch: Arch) -> &'static [&'static str] {
    match arch {
        Arch::X86_64 => &["qemu64", "max,la57=off,umip=off"],
        Arch::Arm64 => &["cortex-a57"],
        Arch::Arm => &["cortex-a7", "max"],
        Arch::Powerpc64 => &["power9", "power10"],
    }
}

/// Compares on every model. `options` are given to Limen in addition to the usual ones.
fn compare(context: &Context, arch: Arch, options: &[&str]) -> Result<Verdict> {
    let program = agent::program(arch, "traps")?;
    let mut hasher = DefaultHasher::new();
    std::fs::read(&program)?.hash(&mut hasher);
    // The results on Linux are kept while the program is the same.
    let text = format!("# {:016x}\nexec /traps\n", hasher.finish());
    for model in models(arch) {
        let script = [cases::Case {
            name: format!("traps-{model}"),
            text: text.clone(),
        }];
        let guest = |guest: Guest, add: &str| {
            guest
                .option(format!("--cpu={model}"))
                .option(add)
                .option(format!("--add={}:/traps", program.display()))
                .timeout(300)
                .script("sh /cases/run\n")
        };
        let ours = Guest::new(context, arch).options(options);
        cases::compare(context, &script, "sh", (ours, Guest::linux(arch)?), guest)
            .map_err(|error| error.context(format!("on {model}")))?;
    }
    Ok(Verdict::Passed(format!(
        "the same as on Linux: {}",
        models(arch).join(", ")
    )))
}

/// The steps of one architecture.
pub fn steps(arch: Arch) -> Vec<Step> {
    let plain = Step::on(arch, "traps", move |context| compare(context, arch, &[]));
    let mut steps = vec![plain.after(format!("boot-{arch}"))];
    if arch == Arch::Arm {
        let short = flavour::SHORT.on(arch, "short-traps", move |context| {
            compare(context, arch, &flavour::SHORT.options())
        });
        steps.push(short.after(format!("traps-{arch}")));
    }
    steps
}
