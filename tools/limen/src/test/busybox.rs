//! BusyBox: the scripts of `tests/busybox`, on the kernel under test and on Linux.

use super::cases;
use super::guest::Guest;
use super::{Step, Verdict};
use crate::arch::Arch;
use crate::tree;

/// The steps of one architecture.
pub fn steps(arch: Arch) -> Vec<Step> {
    let step = Step::on(arch, "busybox", move |context| {
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
        let text = cases::compare(
            &cases,
            guest(Guest::new(context, arch)),
            guest(Guest::linux(arch)?),
        )?;
        Ok(Verdict::Passed(text))
    });
    vec![step.after(format!("boot-{arch}"))]
}
