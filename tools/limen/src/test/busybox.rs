//! BusyBox: the scripts of `tests/busybox`, on the kernel under test and on Linux.

use anyhow::Result;

use super::guest::Guest;
use super::{Context, Step, Verdict, boots, cases};
use crate::arch::Arch;
use crate::tree;

/// Compares all cases, Limen with more options than `limen run` gives it by itself.
fn compare(context: &Context, arch: Arch, options: &[&str]) -> Result<Verdict> {
    let cases = cases::read("busybox")?;
    let dir = tree::cache("test")?.join(format!("busybox-{arch}"));
    cases::prepare(&cases, &dir, "sh")?;
    let add = format!("--add={}:/cases", dir.display());
    let guest = |g: Guest| {
        g.option(&add)
            .option("--mem=512M")
            .smp(2)
            .timeout(600)
            .script("sh /cases/run\n")
    };
    let ours = options
        .iter()
        .fold(Guest::new(context, arch), |g, option| g.option(*option));
    let text = cases::compare(&cases, guest(ours), guest(Guest::linux(arch)?))?;
    Ok(Verdict::Passed(text))
}

/// The steps of one architecture.
pub fn steps(arch: Arch) -> Vec<Step> {
    let plain = Step::on(arch, "busybox", move |context| compare(context, arch, &[]));
    // The same work on a kernel that validates its locks: the same answers, and silence.
    let validated = Step::on(arch, "lockdep-busybox", move |context| {
        if context.kernel.is_some() {
            return Ok(Verdict::Skipped("only for Limen".into()));
        }
        compare(context, arch, &boots::LOCKDEP_KERNEL)
    });
    let mut steps = vec![
        plain.after(format!("boot-{arch}")),
        validated
            .after(format!("busybox-{arch}"))
            .after(format!("lockdep-{arch}"))
            .long(),
    ];
    if arch == Arch::Arm {
        let short = Step::on(arch, "short-busybox", move |context| {
            if context.kernel.is_some() {
                return Ok(Verdict::Skipped("only for Limen".into()));
            }
            compare(context, arch, &boots::SHORT_KERNEL)
        });
        steps.push(
            short
                .after(format!("busybox-{arch}"))
                .after(format!("short-descriptors-{arch}"))
                .long(),
        );
    }
    steps
}
