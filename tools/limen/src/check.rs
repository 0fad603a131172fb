//! `limen check`: tells within seconds whether an edit is sound. It checks formatting, types and lints of the
//! kernel, and runs lints and host tests of the packages that changed. Everything else is in `limen test`.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::arch::Arch;
use crate::build;
use crate::cli::CheckOptions;
use crate::test::checking_cargo;
use crate::{toolchain, tree};

/// `limen check`. Stops at the first part that fails; that part's messages have been shown.
pub fn check(options: &CheckOptions) -> Result<()> {
    part(
        "formatting",
        checking_cargo("cargo-fmt")?.args(["fmt", "--all", "--check"]),
    )?;
    let changed = if options.all { packages()? } else { changed()? };
    let mut packages: Vec<&str> = changed.iter().map(String::as_str).collect();
    packages.retain(|name| *name != "limen-kernel");
    if !packages.is_empty() {
        let chosen = |mut cargo: Command, what: &str, folder: &str| {
            cargo.args([what, "--quiet", "--target-dir", folder]);
            for package in &packages {
                cargo.args(["-p", package]);
            }
            cargo
        };
        let names = packages.join(", ");
        let mut clippy = chosen(checking_cargo("cargo-clippy")?, "clippy", "target/clippy");
        part(
            &format!("lints of {names}"),
            clippy.args(["--all-targets", "--", "-D", "warnings"]),
        )?;
        let mut test = chosen(toolchain::find()?.cargo(), "test", "target/host");
        part(&format!("tests of {names}"), &mut test)?;
    }
    // The kernel uses nearly all crates: it is checked whatever changed.
    for arch in Arch::chosen(options.arch) {
        let kernel = build::Kernel {
            arch,
            profile: "kernel".into(),
            features: String::new(),
        };
        let tools = toolchain::find()?;
        tools.need_source()?;
        let mut clippy = kernel.cargo(&tools, "clippy")?;
        clippy
            .env("PATH", crate::test::checking_path("cargo-clippy")?)
            .args(["--quiet", "--", "-D", "warnings"]);
        part(&format!("the kernel for {arch}"), &mut clippy)?;
    }
    Ok(())
}

/// Runs one part, whose output is shown, and tells how long it took.
fn part(name: &str, command: &mut Command) -> Result<()> {
    let began = Instant::now();
    let status = command
        .stdin(std::process::Stdio::null())
        .stdout(std::io::stderr())
        .status()
        .with_context(|| format!("cannot start {:?}", command.get_program()))?;
    if !status.success() {
        bail!("{name}: not as it should be; the messages are above");
    }
    eprintln!("limen: {name}: good ({:.1} s)", began.elapsed().as_secs_f32());
    Ok(())
}

/// All packages of the workspace, by the folders that the workspace takes them from.
fn packages() -> Result<BTreeSet<String>> {
    let mut all = BTreeSet::from([
        "limen-kernel".to_owned(),
        "limen".to_owned(),
        SYMBOLS.1.to_owned(),
    ]);
    for entry in std::fs::read_dir(tree::root().join("crates"))? {
        all.insert(format!("limen-{}", entry?.file_name().to_string_lossy()));
    }
    Ok(all)
}

/// The one package that is not named after its folder.
const SYMBOLS: (&str, &str) = ("tools/symbols", "limen-embed-symbols");

/// The packages with a file that differs from the last commit or is new to git; all packages if git cannot
/// tell.
fn changed() -> Result<BTreeSet<String>> {
    let git = Command::new("git")
        .current_dir(tree::root())
        .args([
            "status",
            "--porcelain",
            "-z",
            "--untracked-files=all",
            "--no-renames",
        ])
        .output();
    match git {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            Ok(text
                .split('\0')
                .filter_map(|row| package(row.get(3..)?))
                .collect())
        }
        _ => {
            eprintln!("limen: git does not say what changed; everything is looked at");
            packages()
        }
    }
}

/// The package that a file of the tree belongs to, if any.
fn package(path: &str) -> Option<String> {
    if path.starts_with("kernel/") {
        return Some("limen-kernel".into());
    }
    if path.starts_with(SYMBOLS.0) {
        return Some(SYMBOLS.1.into());
    }
    if path.starts_with("tools/limen/") {
        return Some("limen".into());
    }
    let rest = path.strip_prefix("crates/")?;
    Some(format!("limen-{}", rest.split_once('/')?.0))
}

#[cfg(test)]
mod tests {
    use super::package;

    #[test]
    fn files_belong_to_packages() {
        let of = |path| package(path);
        assert_eq!(of("crates/tty/src/input.rs").as_deref(), Some("limen-tty"));
        assert_eq!(of("kernel/src/mm/heap.rs").as_deref(), Some("limen-kernel"));
        assert_eq!(
            of("tools/symbols/src/lib.rs").as_deref(),
            Some("limen-embed-symbols")
        );
        assert_eq!(of("docs/rseq.md"), None);
    }
}
