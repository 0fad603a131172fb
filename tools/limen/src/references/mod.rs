//! What refers to what in a linked image: calls and jumps, addresses that instructions have as operands or
//! make of constants, and pointers in data (`operands.rs`, `halves.rs`).

mod ends;
mod halves;
mod operands;

use anyhow::Result;
use limen_embed_symbols::Reference;
use object::{
    Architecture, File, Object, ObjectSection, ObjectSymbol, SectionFlags, SectionKind, SymbolKind,
};

use crate::linked;
use crate::noinstr::{self, Flow};
use ends::Ends;
use operands::{decoder, instructions, words};

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

/// The references to functions in the linked kernel whose file this is.
pub fn of_functions(data: &[u8]) -> Result<Vec<Reference>> {
    let file = File::parse(data)?;
    let functions = linked::functions(&file);
    of(&file, &|value| functions.contains_key(&value))
}

/// All references of an image. Of words of data, those are pointers of whose values `is_pointer` says so.
pub fn of(file: &File<'_>, is_pointer: &dyn Fn(u64) -> bool) -> Result<Vec<Reference>> {
    let got = file
        .section_by_name(".got")
        .filter(|_| file.architecture() == Architecture::PowerPc64);
    let toc = file.symbol_by_name(".TOC.").map_or(0, |symbol| symbol.address());
    let (mut found, mut jumps) = (Vec::new(), Vec::new());
    let (ends, decode) = (ends(file)?, noinstr::decoder(file.architecture())?);
    for section in file.sections() {
        let name = section.name().unwrap_or("");
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else {
            continue;
        };
        let loaded = sh_flags.contains(object::elf::SHF_ALLOC);
        // The compiler's list of functions is no use of them.
        if !loaded || section.kind() == SectionKind::UninitializedData || name == ".sites" {
            continue;
        }
        let (bytes, at) = (section.data()?, section.address());
        let executable = sh_flags.contains(object::elf::SHF_EXECINSTR);
        // Of entries of this table only those count that are used.
        let is_got = name == ".got" && got.is_some();
        if !is_got && (!executable || file.architecture() != Architecture::X86_64) {
            let mut pointers = Vec::new();
            words(bytes, at, file.is_64(), &mut pointers);
            found.extend(pointers.into_iter().filter(|&(_, to)| is_pointer(to)));
        }
        if executable {
            let never_returns = |to| ends.as_ref().is_some_and(|ends| ends.never_returns(to));
            let first = found.len();
            instructions(file.architecture(), bytes, at, toc, &never_returns, &mut found)?;
            jumps.resize(first, false);
            jumps.extend(found[first..].iter().map(|&(from, to)| {
                let flow = decode(&bytes[(from - at) as usize..], from).flow;
                matches!(flow, Flow::Jump(goal) | Flow::Branch(goal) | Flow::Call(goal) if goal == to)
            }));
        }
    }
    jumps.resize(found.len(), false);
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
    Ok(found
        .into_iter()
        .zip(jumps)
        .map(|((from, to), is_jump)| Reference { from, to, is_jump })
        .collect())
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
