//! Programs of Linux's own test suite, from Debian's `linux-source`: fetched when the test runs, built unchanged.

use anyhow::{Context as _, bail};

use super::guest::Guest;
use super::{Step, Verdict};
use crate::agent;
use crate::arch::Arch;
use crate::linux;

/// The benchmark of the powerpc selftests: ten million calls, timed by the clock and by the time base.
const NULL_SYSCALL: &str = "tools/testing/selftests/powerpc/benchmarks/null_syscall.c";

/// The steps of one architecture.
pub fn steps(arch: Arch) -> Vec<Step> {
    if arch != Arch::Powerpc64 {
        return Vec::new();
    }
    let null_syscall = Step::on(arch, "null-syscall", move |context| {
        let source = linux::source_file(arch, NULL_SYSCALL)?;
        let program = agent::foreign(arch, "null_syscall", &source)?;
        let ran = Guest::new(context, arch)
            .program(&[&program.to_string_lossy()])
            .timeout(300)
            .run_well()?;
        // "    123.45 ns    246.90 cycles"
        let text = ran.text();
        let words: Vec<&str> = text.split_whitespace().collect();
        let [time, "ns", cycles, "cycles"] = words[..] else {
            bail!("it said something else\n{}", ran.everything());
        };
        let number = |w: &str| w.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0);
        number(time).zip(number(cycles)).with_context(|| {
            format!(
                "no time or no cycles (/proc/cpuinfo tells the frequencies)\n{}",
                ran.everything()
            )
        })?;
        Ok(Verdict::Passed(format!(
            "Linux's null_syscall: {time} ns, {cycles} cycles per call"
        )))
    });
    vec![null_syscall.after(format!("boot-{arch}"))]
}
