//! Builds the guest agent (`programs/init`) and other C programs of the tree with Debian's cross compilers.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::arch::Arch;
use crate::{made, packages, tree};

/// The agent of one architecture, built when it is missing or older than its source.
pub fn agent(arch: Arch) -> Result<PathBuf> {
    let source = tree::root().join("programs/init");
    let page = format!("-Wl,-z,max-page-size={}", arch.largest_page());
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
        &["init.c", "relay.c", "trace.c"].map(|name| source.join(name)),
        &flags,
        &[source],
    )
}

/// A static program of one C file, `programs/<name>/<name>.c`, linked against the C library.
pub fn program(arch: Arch, name: &str) -> Result<PathBuf> {
    program_in(arch, name, name)
}

/// A static program of one C file, `programs/<folder>/<name>.c`. Only tests build these, so a warning is an
/// error.
pub fn program_in(arch: Arch, folder: &str, name: &str) -> Result<PathBuf> {
    let dir = tree::root().join("programs").join(folder);
    compile(
        arch,
        name,
        &[dir.join(format!("{name}.c"))],
        &["-pthread", "-Werror"],
        &[dir],
    )
}

/// As [`program`], linked with the dynamic C library.
pub fn dynamic(arch: Arch, name: &str) -> Result<PathBuf> {
    let dir = tree::root().join("programs").join(name);
    let source = [dir.join(format!("{name}.c"))];
    build(
        arch,
        &format!("{name}-dynamic"),
        &source,
        &["-pthread", "-s", "-Werror"],
        &[dir],
    )
}

/// As [`program`], with Debian's musl, static (`fixed`) or dynamic. With it the tree that has musl's dynamic
/// loader.
pub fn musl(arch: Arch, name: &str, fixed: bool) -> Result<(PathBuf, PathBuf)> {
    let dir = tree::root().join("programs").join(name);
    let source = [dir.join(format!("{name}.c"))];
    let (library, headers) = (packages::fetch(arch, "musl")?, packages::fetch(arch, "musl-dev")?);
    let (compiler, brought) = arch.compiler();
    packages::ensure_tool(&compiler, brought)?;
    let output = Command::new(&compiler)
        .arg("-print-file-name=include")
        .output()
        .with_context(|| format!("cannot start {compiler}"))?;
    let own = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let (triplet, loader, more) = arch.musl();
    let include = headers.join("usr/include").join(triplet).display().to_string();
    // The compiler looks for `crt1.o` and the like there first.
    let parts = format!("-B{}", headers.join("usr/lib").join(triplet).display());
    let shared = format!("-L{}", library.join("lib").join(triplet).display());
    let loader = format!("-Wl,-dynamic-linker,{loader}");
    let (to, kind): (_, &[&str]) = if fixed {
        (format!("{name}-musl"), &["-static"])
    } else {
        (format!("{name}-musl-dynamic"), &[&shared, &loader])
    };
    let places = ["-nostdinc", "-isystem", &include, "-isystem", &own, &parts];
    let flags = [&places[..], &["-no-pie", "-pthread", "-s"], more, kind].concat();
    Ok((build(arch, &to, &source, &flags, &[dir])?, library))
}

/// A static program of one C file that is not under `programs/`.
pub fn foreign(arch: Arch, name: &str, source: &Path) -> Result<PathBuf> {
    let source = [source.to_owned()];
    compile(arch, name, &source, &[], &source)
}

/// A static program of several C files that are not under `programs/`, with additional flags.
pub fn foreign_parts(arch: Arch, name: &str, sources: &[PathBuf], flags: &[&str]) -> Result<PathBuf> {
    compile(arch, name, sources, flags, sources)
}

/// A dynamic program or a library of several C files.
pub fn parts(arch: Arch, name: &str, sources: &[PathBuf], flags: &[&str]) -> Result<PathBuf> {
    build(arch, name, sources, flags, sources)
}

/// The programs of `programs/bench`.
pub struct Bench {
    /// `/init` of a benchmark run, with its symbols.
    pub init: PathBuf,
    /// A program that ends at once, without a C library.
    pub tiny: PathBuf,
    /// The same with the static C library.
    pub fixed: PathBuf,
    /// The same with the dynamic C library.
    pub dynamic: PathBuf,
    /// `/init` of the boot rows.
    pub hello: PathBuf,
    /// `/init` of the rows of `--shared-lines`, with its symbols.
    pub shared: PathBuf,
    /// `/init` of the rows of `--map`, with its symbols.
    pub map: PathBuf,
}

/// Builds the benchmark programs of one architecture.
pub fn bench(arch: Arch) -> Result<Bench> {
    let dir = tree::root().join("programs/bench");
    let of = [dir.clone(), tree::root().join("programs/init/sys.h")];
    let bare = [
        "-static",
        "-no-pie",
        "-s",
        "-nostdlib",
        "-ffreestanding",
        "-fno-stack-protector",
        "-fno-asynchronous-unwind-tables",
    ];
    let parts = [
        "main",
        "calls",
        "signals",
        "faults",
        "regions",
        "processes",
        "switches",
        "files",
        "waits",
        "timers",
        "watched",
    ];
    let make = |name: &str, sources: &[&str], flags: &[&str]| {
        let sources: Vec<PathBuf> = sources.iter().map(|s| dir.join(format!("{s}.c"))).collect();
        build(arch, name, &sources, flags, &of)
    };
    Ok(Bench {
        // Not stripped: the profiler looks two of its symbols up.
        init: make("bench", &parts, &["-static", "-no-pie", "-pthread"])?,
        tiny: make("bench-tiny", &["tiny"], &bare)?,
        fixed: make("bench-static", &["empty"], &["-static", "-no-pie", "-s"])?,
        dynamic: make("bench-dynamic", &["empty"], &["-s"])?,
        hello: make("bench-hello", &["hello"], &bare)?,
        shared: make(
            "bench-shared",
            &["main", "shared"],
            &["-static", "-no-pie", "-pthread", "-DSHARED"],
        )?,
        map: make(
            "bench-map",
            &["main", "map", "store"],
            &["-static", "-no-pie", "-pthread", "-DMAP"],
        )?,
    })
}

fn compile(arch: Arch, name: &str, sources: &[PathBuf], flags: &[&str], of: &[PathBuf]) -> Result<PathBuf> {
    let flags = [&["-static", "-fno-pic", "-no-pie", "-s"], flags].concat();
    build(arch, name, sources, &flags, of)
}

fn build(arch: Arch, name: &str, sources: &[PathBuf], flags: &[&str], of: &[PathBuf]) -> Result<PathBuf> {
    let (compiler, brought) = arch.compiler();
    let made = tree::cache(&format!("programs/{arch}"))?.join(name);
    // The name may contain a folder.
    if let Some(folder) = made.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    made::ensure(&made, of, |new| {
        packages::ensure_tool(&compiler, brought)?;
        eprintln!("limen: building programs/{name} for {arch}");
        let output = Command::new(&compiler)
            .args(["-std=gnu11", "-O2", "-g0", "-Wall", "-Wextra"])
            .args(["-Wl,--build-id=none", "-Wl,-z,noexecstack", "-o"])
            .arg(new)
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
        Ok(())
    })
}

/// Puts the agent into an archive as `/init`.
pub fn add(archive: &mut crate::cpio::Archive, arch: Arch) -> Result<()> {
    let path: &Path = &agent(arch)?;
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    archive.file("init", 0o755, &bytes);
    Ok(())
}
