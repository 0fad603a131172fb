//! `limen bench --against lean`: a Linux that has only what the rows and an ordinary program need, built once
//! from the newest source that Debian packages. `bench/lean` has its configuration; the result is kept in
//! `target/limen/lean-linux`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::counted::Kernel;
use super::interrupt;
use crate::arch::{self, Arch};
use crate::{made, packages, tree};

/// Its name in tables.
pub const NAME: &str = "lean Linux";

/// What `make` is asked for, and where the image then is.
fn goal(arch: Arch) -> Option<(&'static str, &'static str)> {
    match arch {
        // QEMU starts the ELF file by its PVH note, as it does Limen's: nothing needs to be unpacked.
        Arch::X86_64 => Some(("vmlinux", "vmlinux")),
        Arch::Arm64 => Some(("Image", "arch/arm64/boot/Image")),
        Arch::Arm | Arch::Powerpc64 => None,
    }
}

/// Whether there is one for this architecture.
pub fn has(arch: Arch) -> bool {
    goal(arch).is_some()
}

/// Names the architectures that have one.
fn names() -> String {
    let have: Vec<&str> = Arch::ALL
        .into_iter()
        .filter(|a| has(*a))
        .map(Arch::name)
        .collect();
    have.join(" and ")
}

/// Of `arches`, those that have one. The others are named in a message, or, if none is left, in the error.
pub fn only_those(arches: Vec<Arch>) -> Result<Vec<Arch>> {
    let (have, lack): (Vec<Arch>, Vec<Arch>) = arches.into_iter().partition(|a| has(*a));
    let lack: Vec<&str> = lack.into_iter().map(Arch::name).collect();
    if have.is_empty() {
        bail!(
            "no lean Linux for {}: bench/lean configures it for {}; --against linux takes Debian's",
            lack.join(", "),
            names()
        );
    }
    if !lack.is_empty() {
        eprintln!("limen: no lean Linux for {}: left out", lack.join(" and "));
    }
    Ok(have)
}

/// The kernel, built when it is missing or older than its configuration.
pub fn kernel(arch: Arch) -> Result<Kernel> {
    let (goal, image) = goal(arch).with_context(|| format!("there is a lean Linux for {} only", names()))?;
    let parts = tree::root().join("bench/lean");
    let parts = [parts.join("common.config"), parts.join(format!("{arch}.config"))];
    // The source is the same for every architecture.
    let of = Arch::host().unwrap_or(Arch::X86_64);
    let package = packages::dependency(of, arch::NEWEST, "linux-source", "linux-source-")?;
    let made = tree::cache("lean-linux")?.join(format!("{package}-{arch}"));
    let made = if tree::fresh(&made, &parts) {
        made
    } else {
        let source = packages::fetch_from(of, arch::NEWEST, &package)?;
        install(arch)?;
        let archive = source.join("usr/src").join(format!("{package}.tar.xz"));
        let tidy = interrupt::held()?;
        made::ensure(&made, &parts, |new| {
            eprintln!("limen: building {package} for {arch}, lean (once; some minutes and 3 GB of disk)");
            build(arch, &archive, &parts, new, goal, image)?;
            tidy.check()
        })?
    };
    Ok(Kernel {
        name: NAME.to_owned(),
        image: made.join("image"),
        symbols: Some(made.join("vmlinux")),
        limen: false,
    })
}

/// Installs what building it needs, and this host lacks.
fn install(arch: Arch) -> Result<()> {
    let (compiler, brought) = arch.compiler();
    let tools: [(&str, &[&str]); 8] = [
        ("make", &["make"]),
        ("flex", &["flex"]),
        ("bison", &["bison"]),
        ("bc", &["bc"]),
        ("xz", &["xz-utils"]),
        ("perl", &["perl"]),
        ("cc", &["gcc", "libc6-dev"]),
        (&compiler, brought),
    ];
    let mut missing: Vec<&str> = tools
        .iter()
        .filter(|(tool, _)| tree::find_tool(tool).is_none())
        .flat_map(|(_, packages)| packages.iter().copied())
        .collect();
    // On x86_64 the build checks its own object files, with this library.
    if arch == Arch::X86_64 && !Path::new("/usr/include/gelf.h").is_file() {
        missing.push("libelf-dev");
    }
    missing.sort_unstable();
    missing.dedup();
    if missing.is_empty() {
        return Ok(());
    }
    packages::install(&missing)
}

/// Unpacks, configures and builds in the folder `new`, where at last only the results are: `image`,
/// `vmlinux` (with symbols) and `config`.
fn build(arch: Arch, archive: &Path, parts: &[PathBuf], new: &Path, goal: &str, image: &str) -> Result<()> {
    let (source, build) = (new.join("source"), new.join("build"));
    for folder in [&source, &build] {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let log = new.join("log");
    let mut tar = Command::new("tar");
    tar.arg("-xJf").arg(archive).arg("-C").arg(&source);
    interrupt::run(tar.arg("--strip-components=1"), &log)
        .with_context(|| format!("unpacking {}", archive.display()))?;
    let mut wanted = String::new();
    for part in parts {
        wanted +=
            &std::fs::read_to_string(part).with_context(|| format!("cannot read {}", part.display()))?;
    }
    let all = new.join("wanted");
    std::fs::write(&all, &wanted)?;
    let make = |goal: &str| {
        let mut make = Command::new("make");
        make.arg("-C").arg(&source);
        make.arg(format!("O={}", build.display()));
        // The variable has the name and the values of Limen's own.
        make.arg(format!("ARCH={arch}"));
        make.arg(format!("CROSS_COMPILE={}-", arch.gnu()));
        make.arg(format!("KCONFIG_ALLCONFIG={}", all.display()));
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        make.arg(format!("-j{jobs}")).arg(goal);
        // The same bytes on every host that has the same compiler.
        for (name, value) in [("TIMESTAMP", "2026-01-01"), ("USER", "limen"), ("HOST", "limen")] {
            make.env(format!("KBUILD_BUILD_{name}"), value);
        }
        for inherited in ["MAKEFLAGS", "MFLAGS", "MAKELEVEL"] {
            make.env_remove(inherited);
        }
        interrupt::run(&mut make, &log).context("building the lean Linux")
    };
    make("allnoconfig")?;
    let config = std::fs::read_to_string(build.join(".config")).context("make made no .config")?;
    for option in not_taken(&wanted, &config) {
        eprintln!("limen: this Linux does not take {option} of bench/lean");
    }
    make(goal)?;
    for (from, to) in [(image, "image"), ("vmlinux", "vmlinux"), (".config", "config")] {
        std::fs::copy(build.join(from), new.join(to))
            .with_context(|| format!("make {goal} made no {from}"))?;
    }
    for needless in [&source, &build] {
        std::fs::remove_dir_all(needless).with_context(|| format!("cannot remove {}", needless.display()))?;
    }
    std::fs::remove_file(all)?;
    Ok(std::fs::remove_file(log)?)
}

/// The lines of a wanted configuration that the made one does not have. An option that is unknown is off.
fn not_taken(wanted: &str, config: &str) -> Vec<String> {
    let is = |line: &str| config.lines().any(|l| l == line);
    wanted
        .lines()
        .filter(|line| match line.strip_suffix(" is not set") {
            Some(option) => {
                let option = option.trim_start_matches("# ");
                config
                    .lines()
                    .any(|l| l.strip_prefix(option).is_some_and(|value| value.starts_with('=')))
            }
            None => line.starts_with("CONFIG_") && !is(line),
        })
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_are_not_taken_are_found() {
        let wanted = "# A comment.\nCONFIG_A=y\nCONFIG_B=y\n# CONFIG_C is not set\n# CONFIG_D is not set\n\
                      # CONFIG_E is not set\nCONFIG_F=\"-lean\"\n";
        let made = "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=y\n# CONFIG_D is not set\nCONFIG_DD=y\n\
                    CONFIG_F=\"-lean\"\n";
        assert_eq!(not_taken(wanted, made), ["CONFIG_B=y", "# CONFIG_C is not set"]);
    }

    #[test]
    fn only_architectures_that_have_one() {
        let all = only_those(Arch::ALL.to_vec()).unwrap();
        assert_eq!(all, [Arch::X86_64, Arch::Arm64]);
        let error = only_those(vec![Arch::Arm]).unwrap_err().to_string();
        assert!(error.starts_with("no lean Linux for arm: bench/lean configures it for x86_64 and arm64"));
        for arch in all {
            let part = tree::root().join(format!("bench/lean/{arch}.config"));
            assert!(part.is_file(), "{}", part.display());
        }
    }
}
