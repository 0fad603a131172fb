//! RCU under torture: the kernel's own (`limen.rcutorture`), which must be silent, a third as long with
//! context tracking, and the same with a writer that does not wait, which must be found.

use anyhow::{Result, bail};

use super::guest::{Guest, Ran};
use super::{Context, Step, Verdict};
use crate::arch::Arch;

/// Seconds of torture in every run, and of the long step, which runs by name.
const SHORT: u32 = 30;
const LONG: u32 = 600;
/// Seconds after which the planted mistake must have been found; the kernel ends when it has.
const PLANTED: u32 = 60;

fn torture(context: &Context, arch: Arch, seconds: u32, words: &str) -> Result<Ran> {
    Guest::new(context, arch)
        .smp(4)
        .timeout(seconds * 2 + 60)
        .option(format!("--append=limen.rcutorture={seconds}{words}"))
        .run()
}

/// The last line of the torture that begins with `what`.
fn line<'a>(ran: &'a Ran, what: &str) -> Option<&'a str> {
    let lines = ran.log.lines().rev();
    lines
        .filter_map(|l| l.split_once("rcu-torture: "))
        .map(|(_, l)| l)
        .find(|l| l.starts_with(what))
}

fn check(context: &Context, arch: Arch, seconds: u32) -> Result<Verdict> {
    if context.kernel.is_some() {
        return Ok(Verdict::Skipped("only for Limen".into()));
    }
    let mut counts = String::new();
    for (seconds, words) in [(seconds / 3, " context_tracking=force"), (seconds, "")] {
        let ran = torture(context, arch, seconds, words)?;
        line(&ran, "reads ").unwrap_or_default().clone_into(&mut counts);
        if line(&ran, "--- End of test: SUCCESS").is_none() {
            bail!("RCU did not stand the torture{words}\n{}", ran.everything());
        }
        ran.clean_log()?;
    }
    let planted = torture(context, arch, PLANTED, " limen.rcutorture.planted")?;
    if !line(&planted, "--- End of test: FAILURE").is_some_and(|l| l.contains("must not see")) {
        bail!(
            "a writer that does not wait was not found\n{}",
            planted.everything()
        );
    }
    Ok(Verdict::Passed(format!(
        "{seconds} s: {counts}; the planted mistake found"
    )))
}

/// The steps.
pub fn steps(arch: Arch) -> Vec<Step> {
    [("rcutorture", SHORT), ("rcutorture-long", LONG)]
        .map(|(name, seconds)| {
            Step::on(arch, name, move |context| check(context, arch, seconds))
                .after(format!("boot-{arch}"))
                .long()
        })
        .into()
}
