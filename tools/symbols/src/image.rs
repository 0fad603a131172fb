//! The bytes of a linked image by address.

use anyhow::{Context, Result};
use goblin::elf::Elf;
use std::ops::Range;

/// The image, and where its sections lie in the file.
pub(crate) struct Image<'a> {
    pub bytes: &'a mut [u8],
    /// Addresses of each section with content, and the file offset of the first.
    pub sections: Vec<(Range<u64>, usize)>,
}

impl Image<'_> {
    /// `size` bytes at an address.
    pub fn at(&mut self, address: u64, size: u64) -> Result<&mut [u8]> {
        let found = self
            .sections
            .iter()
            .find(|(range, _)| range.start <= address && address + size <= range.end);
        let (range, offset) = found.with_context(|| format!("{address:#x} is in no section"))?;
        let from = offset + (address - range.start) as usize;
        self.bytes
            .get_mut(from..from + size as usize)
            .context("a section lies outside of the file")
    }

    pub fn word(&mut self, address: u64) -> Result<u32> {
        Ok(u32::from_le_bytes((&*self.at(address, 4)?).try_into()?))
    }

    pub fn write(&mut self, address: u64, word: u32) -> Result<()> {
        self.at(address, 4)?.copy_from_slice(&word.to_le_bytes());
        Ok(())
    }
}

/// The addresses of each section with content, and the file offset of the first.
pub(crate) fn sections(elf: &Elf<'_>) -> Vec<(Range<u64>, usize)> {
    elf.section_headers
        .iter()
        .filter(|section| section.sh_type == goblin::elf::section_header::SHT_PROGBITS && section.is_alloc())
        .map(|section| {
            let range = section.sh_addr..section.sh_addr + section.sh_size;
            (range, section.sh_offset as usize)
        })
        .collect()
}
