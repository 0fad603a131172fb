//! Checks the linked image: what only boot needs (`.init.text`, `.init.data`) is given back before the first
//! program starts, so nothing that stays may refer to it but the few functions that run it.
//!
//! References are found in the instructions (calls, jumps, addresses that are made of constants) and as
//! pointers in data (`operands.rs`, `halves.rs`). A closure of a function of `.init.text` counts as part of
//! it, for it need not be inlined (`rule.rs`). Nothing lies at the first address of a section (the linker
//! scripts see to it): it is only a bound.

mod ends;
mod halves;
mod operands;
mod rule;
mod symbols;

use anyhow::{Context, Result, bail};
use object::{
    Architecture, File, Object, ObjectSection, ObjectSymbol, SectionFlags, SectionKind, SymbolKind,
};
use std::ops::Range;

use ends::Ends;
use operands::{decoder, instructions, words};
use rule::Init;

/// So many errors are said: one mistake may be one for each of its callers.
const MOST_ERRORS: usize = 20;

/// What was checked.
#[derive(Debug)]
pub struct Report {
    /// Functions in `.init.text`.
    pub functions: usize,
    /// Bytes from the first section to the end of the second.
    pub bytes: u64,
}

/// Checks the linked kernel whose file this is.
pub fn check_image(data: &[u8]) -> Result<Report> {
    let file = File::parse(data)?;
    let init = init(&file)?;
    let errors = init.errors(&references(&file, &init)?);
    if !errors.is_empty() {
        let mut list: Vec<String> = errors.into_iter().collect();
        let more = list.len().saturating_sub(MOST_ERRORS);
        list.truncate(MOST_ERRORS);
        if more > 0 {
            list.push(format!("and {more} more"));
        }
        bail!("{}", list.join("\n  "));
    }
    Ok(Report {
        functions: init.symbols.names(init.text.clone()).count(),
        bytes: init.freed.end - init.freed.start,
    })
}

/// What only boot has, and the names of everything.
fn init(file: &File<'_>) -> Result<Init> {
    let section = |name: &str| -> Result<Range<u64>> {
        let section = file
            .section_by_name(name)
            .with_context(|| format!("the image has no section {name}"))?;
        Ok(section.address()..section.address() + section.size())
    };
    let address = |name: &str| file.symbol_by_name(name).map(|symbol| symbol.address());
    let (text, data) = (section(".init.text")?, section(".init.data")?);
    let end = address("__init_end").context("the image has no symbol __init_end")?;
    if !(text.end <= data.start && data.end <= end) {
        bail!("{text:x?} (.init.text) and {data:x?} (.init.data) do not end at {end:x} (__init_end)");
    }
    let mut init = Init {
        freed: text.start..end,
        bounds: vec![text.start, text.end, data.start],
        code: Vec::new(),
        text,
        ..Init::default()
    };
    for section in file.sections() {
        let is_code = section.kind() == SectionKind::Text && !init.freed.contains(&section.address());
        if is_code {
            init.code
                .push(section.address()..section.address() + section.size());
        }
    }
    for symbol in file.symbols() {
        let name = symbol.name().unwrap_or("");
        let is_apart = matches!(symbol.kind(), SymbolKind::Section | SymbolKind::File);
        if !(name.is_empty() || name.starts_with('$') || is_apart) {
            let name = format!("{:#}", rustc_demangle::demangle(name));
            init.symbols.insert(symbol.address(), symbol.size(), name);
        }
    }
    // What lies between the sections is of another address, at which its symbols are.
    if let (Some(at), Some(size)) = (address("__vectors_load"), address("__vectors_size")) {
        init.symbols.insert(at, size, "__vectors_load".to_string());
    }
    Ok(init)
}

/// What is known of functions that never return; `None` where that does not matter.
fn ends<'a>(file: &File<'a>) -> Result<Option<Ends<'a>>> {
    let Some(decode) = decoder(file.architecture()) else {
        return Ok(None);
    };
    let mut sections = Vec::new();
    for section in file.sections() {
        if section.kind() == SectionKind::Text {
            sections.push((section.address(), section.data()?));
        }
    }
    let functions = file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text);
    let starts = functions.map(|symbol| symbol.address()).collect();
    Ok(Some(Ends::new(decode, starts, sections)))
}

/// What of the parts that stay refers to what: where, and to which address.
fn references(file: &File<'_>, init: &Init) -> Result<Vec<(u64, u64)>> {
    let got = file
        .section_by_name(".got")
        .filter(|_| file.architecture() == Architecture::PowerPc64);
    let toc = file.symbol_by_name(".TOC.").map_or(0, |symbol| symbol.address());
    let mut found = Vec::new();
    let ends = ends(file)?;
    for section in file.sections() {
        let name = section.name().unwrap_or("");
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else {
            continue;
        };
        let loaded = sh_flags.contains(object::elf::SHF_ALLOC);
        if !loaded || section.kind() == SectionKind::UninitializedData {
            continue;
        }
        let (bytes, at) = (section.data()?, section.address());
        let executable = sh_flags.contains(object::elf::SHF_EXECINSTR);
        // Of entries of this table only those count that are used.
        let is_got = name == ".got" && got.is_some();
        if !is_got && (!executable || file.architecture() != Architecture::X86_64) {
            let mut pointers = Vec::new();
            words(bytes, at, file.is_64(), &mut pointers);
            found.extend(pointers.into_iter().filter(|&(_, to)| init.is_pointer(to)));
        }
        if executable {
            let never_returns = |to| ends.as_ref().is_some_and(|ends| ends.never_returns(to));
            instructions(file.architecture(), bytes, at, toc, &never_returns, &mut found)?;
        }
    }
    if let Some(got) = got {
        let (at, bytes) = (got.address(), got.data()?);
        for (_, target) in &mut found {
            let entry = target
                .checked_sub(at)
                .and_then(|n| bytes.get(n as usize..)?.get(..8));
            if let Some(entry) = entry {
                *target = u64::from_le_bytes(entry.try_into().expect("eight bytes"));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_in_data() {
        let mut found = Vec::new();
        words(
            &[0, 0, 0, 0, 0x10, 0x20, 0, 0, 0, 0, 0, 0],
            0x1100,
            true,
            &mut found,
        );
        assert_eq!(found, [(0x1100, 0x2010_0000_0000), (0x1104, 0x2010)]);
        found.clear();
        words(&[0x10, 0x20, 0, 0, 1], 0x1100, false, &mut found);
        assert_eq!(found, [(0x1100, 0x2010)]);
    }
}
