//! Finds the Rust toolchain for all builds: the one the `limen` script chose, else Debian's, else the one on
//! `PATH`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{packages, tree};

/// A cargo and the compiler it is told to use.
pub struct Toolchain {
    /// Path of cargo.
    pub cargo: PathBuf,
    /// Path of rustc.
    pub rustc: PathBuf,
    /// The folder that has `lib/rustlib`.
    pub sysroot: PathBuf,
    /// What `rustc --version` says.
    pub version: String,
}

/// Finds the toolchain.
pub fn find() -> Result<Toolchain> {
    let chosen = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let debian = (PathBuf::from("/usr/bin/cargo"), PathBuf::from("/usr/bin/rustc"));
    let (cargo, rustc) = match (chosen("LIMEN_CARGO"), chosen("LIMEN_RUSTC")) {
        (Some(cargo), Some(rustc)) => (cargo, rustc),
        _ if debian.0.is_file() && debian.1.is_file() => debian,
        _ => match (tree::find_tool("cargo"), tree::find_tool("rustc")) {
            (Some(cargo), Some(rustc)) => (cargo, rustc),
            _ => bail!("no Rust toolchain found; start limen through ./limen, which installs one"),
        },
    };
    let ask = |what: &[&str]| -> Result<String> {
        let output = Command::new(&rustc).args(what).output();
        let output = output.with_context(|| format!("cannot start {}", rustc.display()))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let sysroot = PathBuf::from(ask(&["--print", "sysroot"])?);
    let version = ask(&["--version"])?;
    Ok(Toolchain {
        cargo,
        rustc,
        sysroot,
        version,
    })
}

impl Toolchain {
    /// A cargo command that uses this compiler and may use unstable features, at the top of the tree.
    pub fn cargo(&self) -> Command {
        let mut command = Command::new(&self.cargo);
        // A toolchain file or rustup's variables must not change the choice.
        command
            .current_dir(tree::root())
            .env("RUSTC", &self.rustc)
            .env("RUSTDOC", self.rustc.with_file_name("rustdoc"))
            .env("RUSTC_BOOTSTRAP", "1");
        command
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env_remove("CARGO_TARGET_DIR");
        command
    }

    /// The source of the standard library, needed to build `core` for the kernel.
    pub fn need_source(&self) -> Result<()> {
        let source = self.sysroot.join("lib/rustlib/src/rust/library/core");
        if source.is_dir() {
            return Ok(());
        }
        if self.rustc.starts_with("/usr/bin") {
            return packages::install(&["rust-web-src"]);
        }
        bail!(
            "{} has no rust-src; run: rustup component add rust-src",
            self.sysroot.display()
        );
    }

    /// The linker for the kernel: lld, the toolchain's own or Debian's.
    pub fn linker(&self) -> Result<PathBuf> {
        let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let own = self.sysroot.join("lib/rustlib").join(host).join("bin/rust-lld");
        if own.is_file() {
            return Ok(own);
        }
        for name in ["ld.lld-22", "ld.lld", "ld.lld-21", "ld.lld-20", "ld.lld-19"] {
            if let Some(path) = tree::find_tool(name) {
                return Ok(path);
            }
        }
        packages::ensure_tool("ld.lld-22", &["lld-22"])
    }
}
