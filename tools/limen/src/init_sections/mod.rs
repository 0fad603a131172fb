//! Checks the linked image: what only boot needs (`.init.text`, `.init.data`) is given back before the first
//! program starts, so nothing that stays may refer to it but the few functions that run it.
//!
//! References are found in the instructions (calls, jumps, addresses that are made of constants) and as
//! pointers in data (`references`). A closure of a function of `.init.text` counts as part of
//! it, for it need not be inlined (`rule.rs`). Nothing lies at the first address of a section (the linker
//! scripts see to it): it is only a bound.

mod rule;
mod symbols;

use anyhow::{Context, Result, bail};
use object::{File, Object, ObjectSection, ObjectSymbol, SectionKind, SymbolKind};
use std::ops::Range;

use crate::references;
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
    let found = references::of(&file, &|value| init.is_pointer(value))?;
    let found: Vec<_> = found.iter().map(|one| (one.from, one.to)).collect();
    let errors = init.errors(&found);
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

/// How many bytes of a section are not the word with which the linker fills its last page.
fn unfilled(bytes: &[u8]) -> usize {
    let (words, _) = bytes.as_chunks::<4>();
    let filling = words.iter().rev().take_while(|word| Some(*word) == words.last());
    bytes.len() - 4 * filling.count()
}

/// What only boot has, and the names of everything.
fn init(file: &File<'_>) -> Result<Init> {
    let mut contents = Vec::new();
    let mut section = |name: &str| -> Result<Range<u64>> {
        let section = file
            .section_by_name(name)
            .with_context(|| format!("the image has no section {name}"))?;
        let start = section.address();
        contents.push(start..start + unfilled(section.data()?) as u64);
        Ok(start..start + section.size())
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
        contents,
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

#[cfg(test)]
mod tests {
    use super::unfilled;

    #[test]
    fn what_fills_the_last_page() {
        assert_eq!(unfilled(&[1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0]), 4);
        assert_eq!(unfilled(&[1, 2, 3, 4, 0xcc, 0xcc, 0xcc, 0xcc]), 4);
        assert_eq!(unfilled(&[]), 0);
    }
}
