//! Modules in Rust: a package of cargo's becomes one object, with what it uses of `core` in it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::arch::Arch;
use crate::{build, packages, target_spec, toolchain, tree};

/// Whether the folder has a module in Rust.
pub fn is_module(dir: &Path) -> bool {
    dir.join("Cargo.toml").is_file()
}

/// Builds the object `new` of the package in `dir`. Whatever cargo needs is under `target/modules`.
pub fn build(arch: Arch, dir: &Path, name: &str, new: &Path) -> Result<()> {
    let tools = toolchain::find()?;
    tools.need_source()?;
    let (compiler, brought) = arch.compiler();
    packages::ensure_tool(&compiler, brought)?;
    let target = tree::target().join("modules").join(arch.name()).join("cargo");
    std::fs::create_dir_all(&target).with_context(|| format!("cannot make {}", target.display()))?;
    // It stays there: cargo makes it only if something has changed.
    let object = target.join(format!("{name}.o"));
    let mut cargo = tools.cargo();
    cargo
        .args([
            "rustc",
            "--quiet",
            "--release",
            "--crate-type",
            "staticlib",
            "--manifest-path",
        ])
        .arg(dir.join("Cargo.toml"))
        .arg("--target")
        .arg(target_spec::write(&tools, arch, &target)?)
        .args(target_spec::options(&tools))
        .args(["-Zbuild-std=core", "-Zbuild-std-features=compiler-builtins-mem"])
        // All in one: what the module does not use of `core` goes.
        .args(["--config", "profile.release.lto=\"fat\""])
        .args(["--config", "profile.release.codegen-units=1"])
        .args(["--config", "profile.release.panic=\"abort\""])
        // One folder for all: `core` is compiled once.
        .arg("--target-dir")
        .arg(target.join("made"))
        .args(["--", &format!("--emit=obj={}", object.display())])
        .env(
            "CARGO_ENCODED_RUSTFLAGS",
            build::module_flags(arch).join("\u{1f}"),
        );
    super::run(&mut cargo)?;
    // The compiler makes several sections of one name, of which the kernel reads the first.
    let mut link = Command::new(format!("{}-ld", arch.gnu()));
    super::run(link.arg("-r").arg(&object).arg("-o").arg(new))
}
