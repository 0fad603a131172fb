//! powerpc's `switch_endian`, unmodified. Its makefile makes one of the sources from another: the check of
//! all registers once more, with the bytes of each instruction turned around, for a processor that has
//! changed its byte order.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, bail};
use object::{Object as _, ObjectSection as _};

use super::{Context, Guest, STABLE, Verdict};
use crate::arch::Arch;
use crate::{agent, made};

const FOLDER: &str = "powerpc/switch_endian";

/// Builds and runs it.
pub fn run(context: &Context) -> Result<Verdict> {
    let arch = Arch::Powerpc64;
    let (source, name) = STABLE;
    let suite = source.selftests()?;
    let dir = suite.join(FOLDER);
    let own = format!("-I{}", dir.display());
    let shared = format!("-I{}", suite.join("powerpc/include").display());
    let build = |file: &str, from: &str, flags: &[&str]| {
        let flags = [&["-nostdlib", &own, &shared], flags].concat();
        agent::foreign_parts(
            arch,
            &format!("{name}-{FOLDER}/{file}"),
            &[dir.join(from)],
            &flags,
        )
    };
    let check = build("check.o", "check.S", &["-c"])?;
    let folder = check.parent().context("a program lies in no folder")?;
    made::replace(
        &folder.join("check-reversed.S"),
        reversed(&std::fs::read(&check)?)?.as_bytes(),
    )?;
    let made_here = format!("-I{}", folder.display());
    build("switch_endian_test", "switch_endian_test.S", &[&made_here])?;
    let ran = Guest::new(context, arch)
        .option(format!("--add={}:/t", folder.display()))
        .script("/t/switch_endian_test; exit $?\n")
        .run()?;
    ran.clean_log()?;
    if ran.status != 0 || !ran.text().contains("success: switch_endian_test") {
        bail!("status {}\n{}", ran.status, ran.everything());
    }
    Ok(Verdict::Passed(format!("Linux's {FOLDER}")))
}

/// The code of an object, each instruction's bytes turned around, for an assembler.
fn reversed(object: &[u8]) -> Result<String> {
    let file = object::File::parse(object)?;
    let text = file.section_by_name(".text").context("no code in the object")?;
    let mut source = String::new();
    for instruction in text.data()?.chunks(4) {
        for byte in instruction.iter().rev() {
            writeln!(source, ".byte {byte:#04x}")?;
        }
    }
    Ok(source)
}
