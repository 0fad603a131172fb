//! What cargo does: formatting, lints, host tests of the crates, the kernels; and the counting of lines.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::{Step, Verdict, lines};
use crate::arch::Arch;
use crate::{build, noinstr, toolchain, tree};

/// Steps that others wait for.
pub fn first_steps() -> Vec<Step> {
    let mut steps = vec![Step::new("rustfmt", |_| {
        let tools = toolchain::find()?;
        if rustfmt().is_none() {
            return Ok(Verdict::Skipped(
                "no rustfmt on this host; rustup component add rustfmt".into(),
            ));
        }
        let mut cargo = tools.cargo();
        if let Some(path) = rustfmt() {
            cargo.env("RUSTFMT", path);
        }
        quiet(cargo.args(["fmt", "--all", "--check"]))?;
        Ok(Verdict::Passed(String::new()))
    })];
    for arch in Arch::ALL {
        steps.push(Step::on(arch, "build", move |context| {
            if context.kernel.is_some() {
                return Ok(Verdict::Skipped("--kernel is given".into()));
            }
            let kernel = build::Kernel {
                arch,
                profile: "kernel".into(),
                features: String::new(),
            };
            let built = kernel.build_quietly()?;
            let size = std::fs::metadata(&built.image)?.len();
            Ok(Verdict::Passed(format!("{size} bytes")))
        }));
        steps.push(
            Step::on(arch, "noinstr", move |context| {
                if context.kernel.is_some() {
                    return Ok(Verdict::Skipped("--kernel is given".into()));
                }
                let kernel = build::Kernel {
                    arch,
                    profile: "kernel".into(),
                    features: String::new(),
                };
                let checked = noinstr::check(&kernel.ensure(false)?.elf)?;
                Ok(Verdict::Passed(format!(
                    "{} functions, {} bytes, {} marks: nothing traceable before the state is established",
                    checked.functions, checked.bytes, checked.marks
                )))
            })
            .after(format!("build-{arch}")),
        );
    }
    steps
}

/// Steps nobody waits for.
pub fn last_steps() -> Vec<Step> {
    let crates = Step::new("crates", |_| {
        let output = quiet(toolchain::find()?.cargo().args([
            "test",
            "--workspace",
            "--exclude",
            "limen-kernel",
            "--target-dir",
            "target/host",
        ]))?;
        let count: usize = output
            .lines()
            .filter_map(|l| l.strip_prefix("test result: ok. "))
            .filter_map(|l| l.split(' ').next().and_then(|n| n.parse::<usize>().ok()))
            .sum();
        Ok(Verdict::Passed(format!("{count} tests")))
    });
    let interleavings = Step::new("interleavings", |_| {
        let test = [
            "test",
            "-p",
            "limen-entry",
            "--release",
            "--test",
            "interleavings",
            "--target-dir",
            "target/loom",
        ];
        quiet(
            toolchain::find()?
                .cargo()
                .args(test)
                .env("RUSTFLAGS", "--cfg loom"),
        )?;
        Ok(Verdict::Passed(
            "the exit loop loses no flag; wrong loops are caught".into(),
        ))
    });
    let mut steps = vec![crates, interleavings];
    let lints = Step::new("clippy", |_| {
        let Some(mut cargo) = lint_cargo() else {
            return Ok(Verdict::Skipped(NO_CLIPPY.into()));
        };
        let flags = [
            "--workspace",
            "--exclude",
            "limen-kernel",
            "--all-targets",
            "--target-dir",
            "target/clippy",
        ];
        quiet(cargo.arg("clippy").args(flags).args(["--", "-D", "warnings"]))?;
        Ok(Verdict::Passed(String::new()))
    });
    steps.push(lints);
    for arch in Arch::ALL {
        steps.push(Step::on(arch, "clippy-kernel", move |_| {
            let Some(mut cargo) = lint_cargo() else {
                return Ok(Verdict::Skipped(NO_CLIPPY.into()));
            };
            let target = arch.kernel_target();
            // Clippy's compiler may be another than the one that builds: it brings its own `core` for the target.
            let _ = Command::new("rustup").args(["target", "add", target]).output();
            let flags = build::flags(arch, &toolchain::find()?.linker()?).join("\u{1f}");
            let options = [
                "clippy",
                "-p",
                "limen-kernel",
                "--target",
                target,
                "--target-dir",
                "target/clippy",
            ];
            quiet(
                cargo
                    .args(options)
                    .env("CARGO_ENCODED_RUSTFLAGS", flags)
                    .args(["--", "-D", "warnings"]),
            )?;
            Ok(Verdict::Passed(String::new()))
        }));
    }
    steps.push(Step::new("lines", |_| Ok(Verdict::Passed(lines::count()?))));
    steps
}

fn rustfmt() -> Option<std::path::PathBuf> {
    tree::find_tool("rustfmt")
}

const NO_CLIPPY: &str = "no clippy on this host; rustup component add clippy";

/// The cargo of the toolchain that has clippy, which need not be the one that builds.
fn lint_cargo() -> Option<Command> {
    let clippy = tree::find_tool("cargo-clippy")?;
    let mut cargo = Command::new(clippy.with_file_name("cargo"));
    cargo
        .current_dir(tree::root())
        .env("RUSTC_BOOTSTRAP", "1")
        .env_remove("RUSTC")
        .env_remove("RUSTFLAGS");
    Some(cargo)
}

/// Runs a command; its output is the error when it fails.
fn quiet(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("cannot start {:?}", command.get_program()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("{}{}", text, String::from_utf8_lossy(&output.stderr));
    }
    Ok(text)
}
