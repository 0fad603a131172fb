//! The kernel's own symbol table, compressed. [`encode()`] makes it on the host after linking; [`Table`]
//! reads it in the kernel, without allocating, even in the middle of a panic.
//!
//! Layout, little-endian: magic (8 bytes), number of symbols `n`, offset of the tokens, of the marks and of
//! the names (4 × `u32`), base address (`u64`); then `n` addresses as `u32` from the base, ascending; 257
//! token offsets (`u16`) and the tokens' text; a mark (`u32`, offset into the names) for every 16th name; the
//! names, each a length byte and that many token numbers.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod encode;
mod short;

pub use encode::encode;
pub use short::write_short;

/// The first bytes of a table.
pub const MAGIC: [u8; 8] = *b"LimenSym";
/// How many bytes precede the addresses.
const HEADER: usize = 32;
/// Every how many names there is a mark.
const STRIDE: usize = 16;
/// The longest name, in tokens.
const NAME_MAX: usize = 255;

/// A symbol table in memory.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    bytes: &'a [u8],
    count: usize,
    tokens: usize,
    marks: usize,
    names: usize,
    base: u64,
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(
        bytes.get(at..at.checked_add(4)?)?.try_into().ok()?,
    ))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(
        bytes.get(at..at.checked_add(2)?)?.try_into().ok()?,
    ))
}

impl<'a> Table<'a> {
    /// The table in `bytes`. `None`: there is none. Damaged tables give fewer or wrong names, but never a
    /// panic.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        if bytes.get(..8)? != MAGIC {
            return None;
        }
        let word = |i: usize| Some(u32_at(bytes, 8 + 4 * i)? as usize);
        let base = u64::from(u32_at(bytes, 24)?) | u64::from(u32_at(bytes, 28)?) << 32;
        Some(Self {
            bytes,
            count: word(0)?,
            tokens: word(1)?,
            marks: word(2)?,
            names: word(3)?,
            base,
        })
    }

    /// How many symbols there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The address of symbol `index`. Addresses ascend.
    pub fn address(&self, index: usize) -> Option<u64> {
        if index >= self.count {
            return None;
        }
        Some(self.base + u64::from(u32_at(self.bytes, HEADER.checked_add(index.checked_mul(4)?)?)?))
    }

    /// The symbol that contains `address`, and the offset in it. The last symbol is taken to have 64 KiB.
    pub fn lookup(&self, address: u64) -> Option<(usize, u64)> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.address(middle)? <= address {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let index = low.checked_sub(1)?;
        let offset = address - self.address(index)?;
        if index + 1 == self.count && offset >= 1 << 16 {
            None
        } else {
            Some((index, offset))
        }
    }

    /// Calls `f` with the pieces of symbol `index`'s name, in order.
    pub fn name(&self, index: usize, mut f: impl FnMut(&str)) -> Option<()> {
        if index >= self.count {
            return None;
        }
        let mut at = self.names + u32_at(self.bytes, self.marks + index / STRIDE * 4)? as usize;
        for _ in 0..index % STRIDE {
            at += 1 + usize::from(*self.bytes.get(at)?);
        }
        let len = usize::from(*self.bytes.get(at)?);
        for token in self.bytes.get(at + 1..at + 1 + len)? {
            let entry = self.tokens + 2 * usize::from(*token);
            let text = self.tokens + 2 * 257;
            let range = usize::from(u16_at(self.bytes, entry)?)..usize::from(u16_at(self.bytes, entry + 2)?);
            let piece = self.bytes.get(text..)?.get(range)?;
            f(core::str::from_utf8(piece).unwrap_or("?"));
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::{format, string::String, vec::Vec};

    fn name(table: &Table<'_>, index: usize) -> String {
        let mut s = String::new();
        table.name(index, |p| s.push_str(p)).unwrap();
        s
    }

    #[test]
    fn what_goes_in_comes_out() {
        let symbols: Vec<(u64, String)> = (0..1000u64)
            .map(|i| {
                let name = format!(
                    "limen_kernel::room_{}::Thing<T>::method_{i}::{{closure#0}}",
                    i % 7
                );
                (0xffff_ffff_8020_0000 + i * 48, name)
            })
            .collect();
        let bytes = encode(&symbols);
        let plain: usize = symbols.iter().map(|s| s.1.len()).sum();
        assert!(bytes.len() < plain / 2, "{} of {plain}", bytes.len());
        let table = Table::new(&bytes).unwrap();
        assert_eq!(table.len(), 1000);
        for (i, (address, text)) in symbols.iter().enumerate() {
            assert_eq!(table.lookup(*address + 47), Some((i, 47)));
            assert_eq!(name(&table, i), *text);
        }
        assert_eq!(table.lookup(0xffff_ffff_801f_ffff), None);
        assert_eq!(table.lookup(u64::MAX), None);
    }

    #[test]
    fn odd_names_and_damage() {
        let symbols = [
            (5, String::from("é\u{1}x")),
            (5, "a".repeat(1000)),
            (9, String::new()),
        ];
        let bytes = encode(&symbols);
        let table = Table::new(&bytes).unwrap();
        assert_eq!(name(&table, 2), "");
        assert!(Table::new(b"no").is_none());
        for cut in 0..bytes.len() {
            if let Some(table) = Table::new(&bytes[..cut]) {
                table.lookup(7);
                (0..4).for_each(|i| _ = table.name(i, |_| ()));
            }
        }
    }
}
