//! The counts of `limen bench` against `bench/limits.toml`: a figure that got worse fails here.

use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use super::{Step, Verdict};
use crate::arch::Arch;
use crate::tree;

/// The steps of one architecture.
pub fn steps(arch: Arch) -> Vec<Step> {
    let check = Step::on(arch, "bench-check", move |context| {
        if context.kernel.is_some() {
            return Ok(Verdict::Skipped("only for Limen".into()));
        }
        let own = tree::own_program();
        let output = Command::new(own)
            .args(["bench", "--check", "--arch", arch.name()])
            .stdin(Stdio::null())
            .output()
            .context("cannot start limen bench")?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            bail!("{said}{}", String::from_utf8_lossy(&output.stderr));
        }
        let last = said.lines().find(|l| l.contains("counts")).unwrap_or_default();
        Ok(Verdict::Passed(last.to_owned()))
    });
    vec![check.after(format!("boot-{arch}"))]
}
