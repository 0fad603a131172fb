//! Debian's strace, gdb and gdbserver, on x86_64 ltrace as well, unmodified, on `programs/subject`: the cases
//! of `tests/debuggers` give the same bytes and the same status on the kernel under test and on Debian's
//! Linux.

use anyhow::Result;

use super::{Context, Step, Verdict, cases};
use crate::arch::Arch;
use crate::{agent, packages, tree};

/// Packages with the debuggers and what the cases call.
const PACKAGES: [&str; 11] = [
    "bash",
    "coreutils",
    "dash",
    "gawk",
    "gdb",
    "gdbserver",
    "grep",
    "libc-bin",
    "procps",
    "sed",
    "strace",
];

/// Commands that replace the packages' installation scripts; the cases follow.
const INSTALLED: &str = "ln -sf gawk /usr/bin/awk
exec bash /cases/run";

fn compare(context: &Context, arch: Arch) -> Result<Verdict> {
    let mut cases = cases::read("debuggers")?;
    let mut packages = PACKAGES.to_vec();
    // Debian has that one for no other of the architectures.
    if arch == Arch::X86_64 {
        packages.push("ltrace");
    } else {
        cases.retain(|case| !case.name.starts_with("ltrace"));
    }
    let root = packages::tree_with(arch, "debuggers", &packages)?;
    let source = [tree::root().join("programs/subject/subject.c")];
    // What the debuggers say of the source is the same in every tree.
    let here = format!("-ffile-prefix-map={}=.", tree::root().display());
    let flags = [
        &here,
        "-g",
        "-O1",
        "-fno-omit-frame-pointer",
        "-no-pie",
        "-pthread",
        "-Werror",
    ];
    let program = agent::parts(arch, "subject", &source, &flags)?;
    let common = tree::root().join("tests/debuggers/common");
    let options = [
        format!("--root={}", root.display()),
        format!("--add={}:/subject", program.display()),
        format!("--add={}:/common", common.display()),
    ];
    cases::by_bash(context, arch, &cases, &options, &["/bin/bash", "-c", INSTALLED])
}

/// The step of an architecture.
pub fn steps(arch: Arch) -> Vec<Step> {
    let step = Step::on(arch, "debuggers", move |context| compare(context, arch));
    vec![step.after(format!("boot-{arch}")).long()]
}
