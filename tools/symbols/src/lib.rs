//! Puts the compressed symbol table into a linked kernel. The kernel reserves room for it under the name
//! [`ROOM`]; [`embed`] fills that room in place, so no address changes. `limen build` calls it after the
//! link, before the image is copied into other formats.

mod image;
pub mod jumps;
mod shared;
pub mod sites;

pub use shared::Reference;

use anyhow::{Context, Result, ensure};
use goblin::elf::Elf;
use goblin::elf::sym::{STT_FUNC, STT_NOTYPE, st_type};

/// The kernel's variable that the table goes to.
pub const ROOM: &str = "__kallsyms_start";

/// What [`embed`] did.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    /// Symbols in the table.
    pub symbols: usize,
    /// Bytes it takes.
    pub used: usize,
    /// Bytes reserved in the image.
    pub room: usize,
}

/// Fills the symbol table of the kernel ELF file `image`. A table that does not fit is an error: with a part
/// of the names, or of each, tracers would look for functions in vain.
pub fn embed(image: &mut [u8]) -> Result<Summary> {
    let (symbols, offset, room) = read(image)?;
    let bytes = limen_symbols::encode(&symbols);
    ensure!(
        bytes.len() <= room,
        "the symbol table needs {} bytes, the kernel has {room} for it: enlarge `ROOM` in \
         kernel/src/mm/symbols.rs",
        bytes.len()
    );
    let place = image
        .get_mut(offset..offset + room)
        .context("the symbol table lies outside the file")?;
    place.fill(0);
    place[..bytes.len()].copy_from_slice(&bytes);
    Ok(Summary {
        symbols: symbols.len(),
        used: bytes.len(),
        room,
    })
}

/// The functions in ascending order of address; the file offset and size of the room for the table.
fn read(image: &[u8]) -> Result<(Vec<(u64, String)>, usize, usize)> {
    let elf = Elf::parse(image).context("the kernel is not an ELF file")?;
    let mut symbols = Vec::new();
    let mut room = None;
    for symbol in &elf.syms {
        let name = elf.strtab.get_at(symbol.st_name).unwrap_or("");
        let section = elf.section_headers.get(symbol.st_shndx);
        if name == ROOM {
            let section = section.context("the symbol table's section is missing")?;
            room = Some((
                (section.sh_offset + symbol.st_value - section.sh_addr) as usize,
                symbol.st_size as usize,
            ));
        }
        let code = section.is_some_and(|s| s.is_executable());
        let label = st_type(symbol.st_info) == STT_NOTYPE && !name.starts_with(['.', '$']);
        if code && !name.is_empty() && (st_type(symbol.st_info) == STT_FUNC || label) {
            symbols.push((symbol.st_value, format!("{:#}", rustc_demangle::demangle(name))));
        }
    }
    symbols.sort();
    symbols.dedup_by_key(|s| s.0);
    let (offset, size) = room.with_context(|| format!("the kernel has no {ROOM}"))?;
    Ok((symbols, offset, size))
}
