//! The kernel stack as the command line hardens it (`kernel/src/threshold/hardened.rs`): a module says where
//! on it calls run and what they find there, and with everything on the guest stands heavy work.

use anyhow::{Context as _, Result, bail};
use std::collections::BTreeSet;

use super::guest::Guest;
use super::modules::with_modules;
use super::{Context, Step, Verdict};
use crate::agent;
use crate::arch::Arch;

/// How often the place is asked for, and how many a random distance must give: of 64 that there are.
const CALLS: usize = 300;
const PLACES: usize = 32;
/// How often it is looked for an earlier call's words: where calls begin at a random distance, one look may
/// find that the calls in between went over all of them.
const LOOKS: usize = 32;
/// Distances are less than this, bytes.
const MOST: u64 = 1024;

/// What a guest tells.
struct Told {
    /// The places on the stack at which its function ran.
    places: BTreeSet<u64>,
    /// How many words of earlier calls were found, in all looks.
    left: u32,
}

/// Boots with these words, and asks the module.
fn ask(context: &Context, arch: Arch, words: &str) -> Result<Told> {
    // One process, and no other: its kernel stack is the same all the time.
    let script = format!(
        "insmod /modules/stack.ko && i=0; while [ $i -lt {CALLS} ]; do read a </proc/stack_place; \
         echo place $a; i=$((i+1)); done; i=0; while [ $i -lt {LOOKS} ]; do \
         read a </proc/stack_secret; read b </proc/stack_left; echo left $b; i=$((i+1)); done\n"
    );
    let guest = Guest::new(context, arch).smp(1).timeout(120);
    let guest = guest.option(format!("--append={words}"));
    let ran = with_modules(guest, arch)?.script(&script).run_well()?;
    ran.clean_log()?;
    let text = ran.text();
    let mut places = BTreeSet::new();
    let (mut left, mut looks) = (0, 0);
    for line in text.lines() {
        match line.split_once(' ') {
            Some(("place", place)) => _ = places.insert(place.parse().context("no place")?),
            Some(("left", words)) => {
                left += words.parse::<u32>().context("no count")?;
                looks += 1;
            }
            _ => bail!("unexpected: {line}\n{}", ran.everything()),
        }
    }
    if looks != LOOKS {
        bail!("{looks} looks of {LOOKS}\n{}", ran.everything());
    }
    Ok(Told { places, left })
}

fn check(context: &Context, arch: Arch) -> Result<Verdict> {
    if context.kernel.is_some() {
        return Ok(Verdict::Skipped("only for Limen".into()));
    }
    let plain = ask(context, arch, "randomize_kstack_offset=off stack_erasing=off")?;
    if plain.left == 0 || plain.places.len() > 2 {
        bail!(
            "off, {} words are left and there are {} places: the test finds nothing",
            plain.left,
            plain.places.len()
        );
    }
    let mut most = 0;
    for (words, moves, erases) in [
        ("randomize_kstack_offset=on", true, false),
        ("stack_erasing=on", false, true),
        ("randomize_kstack_offset=1 stack_erasing=1", true, true),
        (
            "randomize_kstack_offset=y stack_erasing=y context_tracking=force",
            true,
            true,
        ),
    ] {
        let told = ask(context, arch, words)?;
        let (first, last) = (told.places.first(), told.places.last());
        let apart = last.zip(first).map_or(0, |(last, first)| last - first);
        if moves != (told.places.len() >= PLACES) || apart >= MOST {
            bail!("{words}: {} places, {apart} bytes apart", told.places.len());
        }
        if erases != (told.left == 0) {
            bail!("{words}: {} words of an earlier call are left", told.left);
        }
        most = most.max(told.places.len());
    }
    let load = agent::program(arch, "load")?;
    let traps = agent::program(arch, "traps")?;
    for words in ["", " context_tracking=force"] {
        let ran = Guest::new(context, arch)
            .smp(4)
            .timeout(240)
            .option(format!("--add={}:/load", load.display()))
            .option(format!("--add={}:/traps", traps.display()))
            .option(format!(
                "--append=randomize_kstack_offset=on stack_erasing=on{words}"
            ))
            .script("/load 5 && /traps | wc -l\n")
            .run_well()?;
        ran.clean_log()?;
    }
    Ok(Verdict::Passed(format!(
        "{CALLS} calls at {} place, {most} of 64 with a random distance; {} words of earlier calls are \
         left in {LOOKS} looks, 0 with erasing; load and traps with both",
        plain.places.len(),
        plain.left
    )))
}

/// The step of one architecture.
pub fn steps(arch: Arch) -> Vec<Step> {
    let step = Step::on(arch, "hardened", move |context| check(context, arch));
    vec![step.after(format!("modules-{arch}"))]
}
