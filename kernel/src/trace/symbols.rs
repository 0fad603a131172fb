//! The kernel's own symbols, which the build writes into the kernel's image. Backtraces and `/proc/kallsyms`
//! read them.

use core::fmt;
use limen_symbols::Table;

/// The table. `None`: the build did not write it.
pub fn table() -> Option<Table<'static>> {
    Table::new(crate::mm::symbol_room())
}

/// An address that is shown as `name+0x12`, or as a number if there is no symbol.
#[derive(Clone, Copy)]
pub struct Symbol(pub usize);

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(table) = table() else {
            return write!(f, "{:#x}", self.0);
        };
        let Some((index, offset)) = table.lookup(self.0 as u64) else {
            return write!(f, "{:#x}", self.0);
        };
        let mut result = Ok(());
        let found = table.name(index, |piece| result = result.and_then(|()| f.write_str(piece)));
        if found.is_none() {
            return write!(f, "{:#x}", self.0);
        }
        result?;
        write!(f, "+{offset:#x}")
    }
}
