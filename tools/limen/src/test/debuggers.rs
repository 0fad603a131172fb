//! Debian's strace, gdb, gdbserver and ltrace, unmodified, on `programs/subject`: the cases of
//! `tests/debuggers` give the same bytes and the same status on the kernel under test and on Debian's Linux.

use anyhow::Result;

use super::guest::Guest;
use super::{Context, Step, Verdict, cases};
use crate::arch::Arch;
use crate::{agent, packages, tree};

/// Packages with the debuggers and what the cases call.
const PACKAGES: [&str; 12] = [
    "bash",
    "coreutils",
    "dash",
    "gawk",
    "gdb",
    "gdbserver",
    "grep",
    "libc-bin",
    "ltrace",
    "procps",
    "sed",
    "strace",
];

/// Commands that replace the packages' installation scripts; the cases follow.
const INSTALLED: &str = "ln -sf gawk /usr/bin/awk
exec bash /cases/run";

fn compare(context: &Context, arch: Arch) -> Result<Verdict> {
    let cases = cases::read("debuggers")?;
    let dir = cases::prepare(&cases, "bash")?;
    let root = packages::tree_with(arch, "debuggers", &PACKAGES)?;
    let source = [tree::root().join("programs/subject/subject.c")];
    let flags = [
        "-g",
        "-O1",
        "-fno-omit-frame-pointer",
        "-no-pie",
        "-pthread",
        "-Werror",
    ];
    let program = agent::parts(arch, "subject", &source, &flags)?;
    let common = tree::root().join("tests/debuggers/common");
    let guest = |g: Guest| {
        g.option(format!("--root={}", root.display()))
            .option(format!("--add={}:/cases", dir.display()))
            .option(format!("--add={}:/subject", program.display()))
            .option(format!("--add={}:/common", common.display()))
            .option("--mem=1G")
            .smp(2)
            .timeout(1200)
            .program(&["/bin/bash", "-c", INSTALLED])
    };
    let theirs = guest(Guest::linux(arch)?);
    let right = cases::compare(&cases, guest(Guest::new(context, arch)), theirs)?;
    Ok(cases::verdict(right))
}

/// The step of an architecture.
pub fn steps(arch: Arch) -> Vec<Step> {
    let step = Step::on(arch, "debuggers", move |context| compare(context, arch));
    vec![step.after(format!("boot-{arch}")).long()]
}
