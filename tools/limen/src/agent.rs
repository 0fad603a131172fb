//! Builds the guest agent (`programs/init`) and other C programs of the tree with Debian's cross compilers.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::arch::Arch;
use crate::{packages, tree};

/// The agent of one architecture, built when it is missing or older than its source.
pub fn agent(arch: Arch) -> Result<PathBuf> {
    let source = tree::root().join("programs/init");
    let page = if arch == Arch::X86_64 { "4096" } else { "65536" };
    let page = format!("-Wl,-z,max-page-size={page}");
    let flags = [
        "-nostdlib",
        "-ffreestanding",
        "-fno-stack-protector",
        "-fno-asynchronous-unwind-tables",
        "-fno-tree-loop-distribute-patterns",
        &page,
    ];
    compile(
        arch,
        "init",
        &[source.join("init.c"), source.join("relay.c")],
        &flags,
        &[source],
    )
}

/// A static program of one C file, `programs/<name>/<name>.c`, linked against the C library.
pub fn program(arch: Arch, name: &str) -> Result<PathBuf> {
    let dir = tree::root().join("programs").join(name);
    compile(
        arch,
        name,
        &[dir.join(format!("{name}.c"))],
        &["-pthread"],
        &[dir],
    )
}

fn compile(arch: Arch, name: &str, sources: &[PathBuf], flags: &[&str], of: &[PathBuf]) -> Result<PathBuf> {
    let made = tree::cache(&format!("programs/{arch}"))?.join(name);
    if tree::fresh(&made, of) {
        return Ok(made);
    }
    let (compiler, needs) = arch.compiler();
    packages::ensure_tool(&compiler, needs)?;
    eprintln!("limen: building programs/{name} for {arch}");
    let new = made.with_extension(format!("new-{}", std::process::id()));
    let output = Command::new(&compiler)
        .args([
            "-std=gnu11",
            "-O2",
            "-g0",
            "-Wall",
            "-Wextra",
            "-static",
            "-fno-pic",
            "-no-pie",
        ])
        .args(["-Wl,--build-id=none", "-Wl,-z,noexecstack", "-s", "-o"])
        .arg(&new)
        .args(flags)
        .args(sources)
        .output()
        .with_context(|| format!("cannot start {compiler}"))?;
    if !output.status.success() {
        bail!(
            "{compiler} failed on programs/{name}:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    std::fs::rename(&new, &made).with_context(|| format!("cannot make {}", made.display()))?;
    Ok(made)
}

/// Puts the agent into an archive as `/init`.
pub fn add(archive: &mut crate::cpio::Archive, arch: Arch) -> Result<()> {
    let path: &Path = &agent(arch)?;
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    archive.file("init", 0o755, &bytes);
    Ok(())
}
