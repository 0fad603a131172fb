//! A module's own functions and objects: for `/proc/kallsyms` and backtraces.

use alloc::vec::Vec;

use crate::Error;
use crate::layout::Part;
use crate::read::{room, string};

/// A function or an object, as the list keeps it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    pub address: u64,
    pub size: u64,
    pub part: Part,
    pub global: bool,
    pub zeros: bool,
    pub name: u32,
}

/// A function or an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'s> {
    /// Its name.
    pub name: &'s [u8],
    /// Its address: of a function, that of its first instruction.
    pub address: u64,
    /// Its size in bytes, 0 if that is not known.
    pub size: u64,
    /// Where it is.
    pub part: Part,
    /// The letter that `nm` and `/proc/kallsyms` have for its kind.
    pub letter: char,
}

/// All functions and objects of a module, by address.
#[derive(Debug)]
pub struct Symbols {
    list: Vec<Named>,
    names: Vec<u8>,
}

impl Symbols {
    pub(crate) fn new<'a>(mut list: Vec<Named>, table: &[u8]) -> Result<Self, Error<'a>> {
        // Of several with one address a backtrace shows the last: a global one with a size, if there is one.
        list.sort_unstable_by_key(|named| (named.address, named.size > 0, named.global, named.name));
        let mut names = room(table.len())?;
        names.extend_from_slice(table);
        Ok(Self { list, names })
    }

    fn show(&self, named: &Named) -> Symbol<'_> {
        let letter = match named.part {
            Part::Text | Part::InitText => 't',
            Part::Rodata => 'r',
            _ if named.zeros => 'b',
            _ => 'd',
        };
        Symbol {
            name: string(&self.names, named.name as usize).unwrap_or(b""),
            address: named.address,
            size: named.size,
            part: named.part,
            letter: if named.global {
                letter.to_ascii_uppercase()
            } else {
                letter
            },
        }
    }

    /// All of them, by address.
    pub fn iter(&self) -> impl Iterator<Item = Symbol<'_>> {
        self.list.iter().map(|named| self.show(named))
    }

    /// The one in which `address` is. One without a size ends where the next begins; the caller knows that
    /// the address is in the module.
    pub fn find(&self, address: u64) -> Option<Symbol<'_>> {
        let after = self.list.partition_point(|named| named.address <= address);
        let found = self.list.get(after.checked_sub(1)?)?;
        let inside = found.size == 0 || address - found.address < found.size;
        inside.then(|| self.show(found))
    }

    /// Forgets what is freed when `init` has run.
    pub fn drop_init(&mut self) {
        self.list.retain(|named| !named.part.is_init());
    }
}
