//! The kernel's own symbols, which the build writes into the kernel's image, and those of loaded modules.
//! Backtraces and `/proc/kallsyms` read them.

use crate::mm::symbols::{Outside, modules};
use core::fmt;
use limen_symbols::Table;

/// The table. `None`: the build did not write it.
pub fn table() -> Option<Table<'static>> {
    Table::new(crate::mm::symbol_room())
}

/// Calls `f` with each symbol of loaded modules. May sleep.
pub fn each_outside(mut f: impl FnMut(Outside<'_>)) {
    if let Some(modules) = modules() {
        modules.each(&mut f);
    }
}

/// An address that is shown as `name+0x12`, as `name+0x12 [module]`, or as a number if there is no symbol.
#[derive(Clone, Copy)]
pub struct Symbol(pub usize);

impl Symbol {
    /// Shows a symbol of a module. `None`: there is none.
    fn outside(self, f: &mut fmt::Formatter<'_>) -> Option<fmt::Result> {
        let mut result = None;
        modules()?.find(self.0, &mut |symbol| {
            let (name, offset) = (symbol.name.escape_ascii(), self.0 - symbol.address);
            result = Some(write!(f, "{name}+{offset:#x} [{}]", symbol.module));
        });
        result
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(result) = self.outside(f) {
            return result;
        }
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
