//! BusyBox: the scripts of `tests/busybox`, on the kernel under test and on Linux.

use anyhow::{Result, anyhow};

use super::guest::Guest;
use super::{Context, Step, Verdict, cases, flavour};
use crate::arch::Arch;

/// Compares all cases. `options` are given to Limen in addition to the usual ones. Cases that sleep have a
/// machine of their own, which runs at the same time.
fn compare(context: &Context, arch: Arch, options: &[&str]) -> Result<Verdict> {
    let (idle, busy): (Vec<_>, Vec<_>) = cases::read("busybox")?
        .into_iter()
        .partition(|case| case.text.contains("sleep"));
    let one = |cases: &[cases::Case]| {
        let guest = |guest: Guest, add: &str| {
            guest
                .option(add)
                .option("--mem=512M")
                .smp(2)
                .timeout(1200)
                .script("sh /cases/run\n")
        };
        let ours = Guest::new(context, arch).options(options);
        cases::compare(context, cases, "sh", (ours, Guest::linux(arch)?), guest)
    };
    let (idle, busy) = std::thread::scope(|scope| {
        let idle = scope.spawn(|| one(&idle));
        let busy = one(&busy);
        (idle.join(), busy)
    });
    let idle = idle.map_err(|_| anyhow!("a thread of this test ended early"))??;
    Ok(cases::verdict(&[idle, busy?]))
}

/// The steps of one architecture.
pub fn steps(arch: Arch) -> Vec<Step> {
    let plain = Step::on(arch, "busybox", move |context| compare(context, arch, &[]));
    // The same cases on a kernel with lock validation: the same answers, and no complaint.
    let validated = flavour::LOCKDEP.on(arch, "lockdep-busybox", move |context| {
        compare(context, arch, &flavour::LOCKDEP.options())
    });
    let mut steps = vec![
        plain.after(format!("boot-{arch}")),
        validated.after(format!("busybox-{arch}")),
    ];
    for flavour in flavour::pages(arch) {
        let step = flavour.on(arch, &flavour.named("busybox"), move |context| {
            compare(context, arch, &flavour.options())
        });
        steps.push(step.after(format!("busybox-{arch}")));
    }
    if arch == Arch::Arm {
        let short = flavour::SHORT.on(arch, "short-busybox", move |context| {
            compare(context, arch, &flavour::SHORT.options())
        });
        steps.push(short.after(format!("busybox-{arch}")));
    }
    steps
}
