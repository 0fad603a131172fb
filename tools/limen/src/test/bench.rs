//! The counts of `limen bench` against `bench/limits.toml`: a figure that got worse fails here. Whether
//! `limen bench --shared-lines` sees a line that several processors write, and only that. Whether the TLBs of
//! `limen bench --map` miss as often as they should.

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
    let shared = Step::on(arch, "bench-shared-lines", move |context| {
        if context.kernel.is_some() {
            return Ok(Verdict::Skipped("only for Limen".into()));
        }
        // The command itself fails if one of its two known rows comes out wrong.
        let rows = "one-line,getpid,read-common,epoll,stat,kill-0,getpriority,getaffinity";
        let output = Command::new(tree::own_program())
            .args(["bench", "--arch", arch.name()])
            .args(["--shared-lines", "--against", "none", "--only", rows])
            .stdin(Stdio::null())
            .output()
            .context("cannot start limen bench")?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let seen = |often: usize| {
            let found = format!(": lines written often {often},");
            said.lines().filter(|line| line.contains(&found)).count()
        };
        // None of the others may write a common line.
        let none = rows.split(',').count() - 1;
        if !output.status.success()
            || !said.contains("adding to one word: lines written often 1,")
            || seen(0) != none
        {
            bail!("{said}{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(Verdict::Passed(format!(
            "a shared line is seen; {none} calls write none"
        )))
    });
    let map = Step::on(arch, "bench-map", move |context| {
        if context.kernel.is_some() {
            return Ok(Verdict::Skipped("only for Limen".into()));
        }
        // The command itself fails if one of its rows with known answers comes out wrong.
        let output = Command::new(tree::own_program())
            .args(["bench", "--map", "--arch", arch.name(), "--only", "fork-exec"])
            .stdin(Stdio::null())
            .output()
            .context("cannot start limen bench")?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let row = said.lines().find(|line| line.starts_with("fork-exec "));
        match row {
            Some(row) if output.status.success() => Ok(Verdict::Passed(row.to_owned())),
            None if output.status.success() && said.contains("no guest with") => {
                Ok(Verdict::Skipped(said.trim().to_owned()))
            }
            _ => bail!("{said}{}", String::from_utf8_lossy(&output.stderr)),
        }
    });
    [check, shared, map]
        .map(|step| step.after(format!("boot-{arch}")))
        .into()
}
