//! Steps that cargo does (formatting, lints, host tests of the crates, builds of the kernels), and the
//! counting of lines.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::{Step, Verdict, licences, lines, rooms, width};
use crate::arch::Arch;
use crate::{build, frames, init_sections, noinstr, packages, toolchain};

/// Steps that other steps wait for.
pub fn first_steps() -> Vec<Step> {
    let mut steps = vec![Step::new("rustfmt", |_| {
        quiet(checking_cargo("cargo-fmt")?.args(["fmt", "--all", "--check"]))?;
        Ok(Verdict::Passed(String::new()))
    })];
    for arch in Arch::ALL {
        steps.push(Step::on(arch, "build", move |context| {
            if context.kernel.is_some() {
                return Ok(Verdict::Passed("nothing to do: --kernel is given".into()));
            }
            let built = shipped(arch).build_quietly()?;
            let size = std::fs::metadata(&built.image)?.len();
            Ok(Verdict::Passed(format!("{size} bytes")))
        }));
        steps.push(of_image(arch, "noinstr", |image| {
            let checked = noinstr::check_image(image)?;
            Ok(format!(
                "{} functions, {} bytes, {} marks: nothing traceable before the state is established",
                checked.functions, checked.bytes, checked.marks
            ))
        }));
        steps.push(of_image(arch, "frames", |image| {
            let (size, name) = frames::check_image(image)?;
            Ok(format!("at most {size} bytes: {name}"))
        }));
        steps.push(of_image(arch, "init", |image| {
            let checked = init_sections::check_image(image)?;
            Ok(format!(
                "{} functions, {} KiB: nothing that stays refers to what only boot needs",
                checked.functions,
                checked.bytes >> 10
            ))
        }));
    }
    steps
}

/// The kernel as it is shipped.
fn shipped(arch: Arch) -> build::Kernel {
    build::Kernel {
        arch,
        profile: "kernel".into(),
        features: String::new(),
    }
}

/// A step that checks the linked image of the kernel as it is shipped, and says what it found.
fn of_image(arch: Arch, name: &'static str, check: fn(&[u8]) -> Result<String>) -> Step {
    let step = Step::on(arch, name, move |context| {
        if context.kernel.is_some() {
            return Ok(Verdict::Skipped("--kernel is given".into()));
        }
        let elf = shipped(arch).ensure(false)?.elf;
        let image = std::fs::read(&elf).with_context(|| format!("cannot read {}", elf.display()))?;
        let said = check(&image).with_context(|| format!("{}", elf.display()))?;
        Ok(Verdict::Passed(said))
    });
    step.after(format!("build-{arch}"))
}

/// Steps that no other step waits for.
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
            "-p",
            "limen-rcu",
            "-p",
            "limen-ring-buffer",
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
            "the exit loop loses no flag, no RCU reader sees what is free, no trace event is torn or \
             uncounted; mistakes are caught"
                .into(),
        ))
    });
    let hostile_modules = Step::new("hostile-modules", |_| {
        const OBJECTS: &str = "10_000_000";
        let test = [
            "test",
            "--release",
            "-p",
            "limen-module",
            "--test",
            "fuzz",
            "--target-dir",
            "target/host",
            "garbled_objects",
        ];
        quiet(
            toolchain::find()?
                .cargo()
                .args(test)
                .env("LIMEN_MODULE_FUZZ", OBJECTS),
        )?;
        Ok(Verdict::Passed(format!(
            "{OBJECTS} garbled objects of all architectures, no panic"
        )))
    });
    let mut steps = vec![crates, interleavings, hostile_modules];
    let lints = Step::new("clippy", |_| {
        let flags = [
            "--workspace",
            "--exclude",
            "limen-kernel",
            "--all-targets",
            "--target-dir",
            "target/clippy",
        ];
        quiet(
            checking_cargo("cargo-clippy")?
                .arg("clippy")
                .args(flags)
                .args(["--", "-D", "warnings"]),
        )?;
        Ok(Verdict::Passed(String::new()))
    });
    steps.push(lints);
    for arch in Arch::ALL {
        steps.push(Step::on(arch, "clippy-kernel", move |_| {
            let path = checking_path("cargo-clippy")?;
            let kernel = build::Kernel {
                arch,
                profile: "kernel".into(),
                features: String::new(),
            };
            let mut cargo = kernel.cargo(&toolchain::find()?, "clippy")?;
            quiet(cargo.env("PATH", path).args(["--", "-D", "warnings"]))?;
            Ok(Verdict::Passed(String::new()))
        }));
    }
    steps.push(Step::new("width", |_| Ok(Verdict::Passed(width::check()?))));
    steps.push(Step::new("lines", |_| Ok(Verdict::Passed(lines::count()?))));
    steps.push(Step::new("licences", |_| Ok(Verdict::Passed(licences::check()?))));
    steps.push(Step::new("doc", |_| {
        let flags = [
            "doc",
            "--workspace",
            "--exclude",
            "limen-kernel",
            "--no-deps",
            "--document-private-items",
            "--target-dir",
            "target/doc",
        ];
        quiet(
            toolchain::find()?
                .cargo()
                .args(flags)
                .env("RUSTDOCFLAGS", "-D warnings"),
        )?;
        Ok(Verdict::Passed("the crates and the command; no warning".into()))
    }));
    for arch in Arch::ALL {
        steps.push(Step::on(arch, "doc-kernel", move |_| {
            let kernel = build::Kernel {
                arch,
                profile: "kernel".into(),
                features: String::new(),
            };
            let mut cargo = kernel.cargo(&toolchain::find()?, "doc")?;
            let flags = ["--no-deps", "--document-private-items"];
            quiet(cargo.args(flags).env("RUSTDOCFLAGS", "-D warnings"))?;
            Ok(Verdict::Passed(String::new()))
        }));
    }
    steps.push(Step::new("rooms", |_| Ok(Verdict::Passed(rooms::check()?))));
    steps
}

/// `PATH` with the folder of the toolchain that builds in front, so that cargo takes `tool` from that
/// toolchain. Installs the tool if it is Debian's and missing.
pub fn checking_path(tool: &str) -> Result<std::ffi::OsString> {
    let cargo = toolchain::find()?.cargo;
    let folder = cargo.parent().context("cargo has no folder")?;
    if !folder.join(tool).is_file() {
        if folder != std::path::Path::new("/usr/bin") {
            bail!(
                "{tool} is missing; run: rustup component add {}",
                if tool == "cargo-fmt" { "rustfmt" } else { "clippy" }
            );
        }
        packages::install(&["rust-web-clippy", "rustfmt-web"])?;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    Ok(std::env::join_paths(
        std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path)),
    )?)
}

/// The cargo that builds, with a `PATH` on which it finds `tool` of its own toolchain.
pub fn checking_cargo(tool: &str) -> Result<Command> {
    let mut cargo = toolchain::find()?.cargo();
    cargo.env("PATH", checking_path(tool)?);
    Ok(cargo)
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
