//! The jump table: the places that are changed with a static key (`kernel/src/jump_label`). An entry is three
//! words of 32 bits: how far the place is from the first, how far its target from the second, and the key.
//! [`embed`] checks each place, and sorts the table by their addresses.

use crate::image::{self, Image};
use anyhow::{Context, Result, bail, ensure};
use goblin::elf::Elf;
use goblin::elf::header::{EM_AARCH64, EM_ARM, EM_PPC64, EM_X86_64};
use std::ops::Range;

/// Bytes of an entry.
pub const ENTRY: u64 = 12;
/// Where places may be: sections that stay.
const TEXT: [&str; 2] = [".text", ".noinstr.text"];

/// How a processor's places look.
struct Form {
    /// What the compiler puts there.
    nop: &'static [u8],
    /// What the address of a place, and of its target, is a multiple of.
    align: u64,
    /// How far a jump reaches, bytes.
    reach: u64,
}

/// The entry at `at` of a table, whose words are `words`, of an image with addresses of 64 bits (`wide`) or
/// 32: the addresses of a place and its target, the key.
pub fn resolve(at: u64, words: [u32; 3], wide: bool) -> (u64, u64, u32) {
    let [site, target, key] = words;
    let mask = if wide { u64::MAX } else { u64::from(u32::MAX) };
    let far = |from: u64, word: u32| from.wrapping_add_signed(i64::from(word as i32)) & mask;
    (far(at, site), far(at + 4, target), key)
}

/// Checks and sorts the jump table of the kernel ELF file `bytes`; returns how many places there are. Errors:
/// one that is not what the kernel takes it for.
pub fn embed(bytes: &mut [u8]) -> Result<usize> {
    let elf = Elf::parse(bytes).context("the kernel is not an ELF file")?;
    let form = match elf.header.e_machine {
        EM_X86_64 => Form {
            nop: &[0x0f, 0x1f, 0x44, 0, 8],
            align: 1,
            reach: 1 << 31,
        },
        EM_AARCH64 => Form {
            nop: &[0x1f, 0x20, 0x03, 0xd5],
            align: 4,
            reach: 1 << 27,
        },
        EM_ARM => Form {
            nop: &[0, 0xf0, 0x20, 0xe3],
            align: 4,
            reach: 1 << 25,
        },
        EM_PPC64 => Form {
            nop: &[0, 0, 0, 0x60],
            align: 4,
            reach: 1 << 25,
        },
        other => bail!("jumps of processor {other} are not known"),
    };
    let symbol = |name: &str| {
        let found = elf
            .syms
            .iter()
            .find(|symbol| elf.strtab.get_at(symbol.st_name) == Some(name));
        let found = found.map(|symbol| symbol.st_value);
        found.with_context(|| format!("the kernel has no {name}"))
    };
    let table = symbol("__jump_table_start")?..symbol("__jump_table_end")?;
    let user = symbol("__vdso_text_start")?..symbol("__vdso_text_end")?;
    let text: Vec<Range<u64>> = elf
        .section_headers
        .iter()
        .filter(|section| {
            elf.shdr_strtab
                .get_at(section.sh_name)
                .is_some_and(|name| TEXT.contains(&name))
        })
        .map(|section| section.sh_addr..section.sh_addr + section.sh_size)
        .collect();
    let functions: Vec<(Range<u64>, String)> = elf
        .syms
        .iter()
        .filter(goblin::elf::Sym::is_function)
        .map(|symbol| {
            let name = elf.strtab.get_at(symbol.st_name).unwrap_or("");
            let name = format!("{:#}", rustc_demangle::demangle(name));
            (symbol.st_value..symbol.st_value + symbol.st_size, name)
        })
        .collect();
    ensure!(
        (table.end - table.start).is_multiple_of(ENTRY),
        "the jump table is not of whole entries"
    );
    let (sections, wide) = (image::sections(&elf), elf.is_64);
    let mut image = Image { bytes, sections };
    let mut entries = Vec::new();
    for at in table.clone().step_by(ENTRY as usize) {
        let words = [image.word(at)?, image.word(at + 4)?, image.word(at + 8)?];
        let (site, target, key) = resolve(at, words, wide);
        let name = functions.iter().find(|(range, _)| range.contains(&site));
        let (function, name) = name.with_context(|| format!("the place at {site:#x} is in no function"))?;
        let checked = (|| {
            ensure!(
                text.iter().any(|section| section.contains(&site)) && !user.contains(&site),
                "it is in code that does not stay or is a program's"
            );
            ensure!(function.contains(&target), "it leads out of its function");
            ensure!(
                site.is_multiple_of(form.align) && target.is_multiple_of(form.align),
                "it is misaligned"
            );
            ensure!(
                site.abs_diff(target) + 8 < form.reach,
                "its target is too far away"
            );
            let found = image.at(site, form.nop.len() as u64)?;
            ensure!(*found == *form.nop, "it has other instructions: {found:02x?}");
            Ok(())
        })();
        checked.with_context(|| format!("the jump at {site:#x} in {name}"))?;
        entries.push((site, target, key));
    }
    ensure!(!entries.is_empty(), "the kernel asks no static key");
    entries.sort_unstable();
    let overlap = entries
        .windows(2)
        .any(|two| two[0].0 + form.nop.len() as u64 > two[1].0);
    ensure!(!overlap, "two places of the jump table are one");
    for (at, (site, target, key)) in table.step_by(ENTRY as usize).zip(&entries) {
        image.write(at, site.wrapping_sub(at) as u32)?;
        image.write(at + 4, target.wrapping_sub(at + 4) as u32)?;
        image.write(at + 8, *key)?;
    }
    Ok(entries.len())
}
