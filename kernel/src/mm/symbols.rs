//! Where symbols are found: memory in the kernel's image for its own, into which the build writes the
//! compressed table after linking (`tools/symbols`), and what knows those of modules. Backtraces and
//! `/proc/kallsyms` read both (`trace::symbols`).

use super::{init_memory, vmap};
use crate::sync::Once;
use alloc::string::String;
use core::fmt;
use limen_symbols::Table;

/// Its size in bytes. Unoptimised kernels have many more functions. The build says if the table outgrows it
/// (`--verbose`: how much of it is used).
const ROOM: usize = if cfg!(debug_assertions) {
    512 << 10
} else {
    192 << 10
};

// SAFETY: no other symbol has this name, and the section is one of constants, as this is.
#[used]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".rodata.kallsyms")]
#[allow(non_upper_case_globals, reason = "the build looks for this name")]
static __kallsyms_start: [u8; ROOM] = [0xff; ROOM];

/// What the build wrote there.
fn symbol_room() -> &'static [u8] {
    // Keeps the compiler from using the value in the source, which the build changes after linking.
    core::hint::black_box(&__kallsyms_start)
}

/// A symbol of a module.
#[derive(Clone, Copy)]
pub struct Outside<'s> {
    /// Its name.
    pub name: &'s [u8],
    /// Its address.
    pub address: usize,
    /// The letter of its kind, as `nm` has it.
    pub letter: char,
    /// The module's name.
    pub module: &'s str,
}

/// What knows the symbols of modules.
pub trait Modules: Sync {
    /// Calls `f` with the symbol in which `address` is. Returns whether there is one. In any context, also in
    /// a panic.
    fn find(&self, address: usize, f: &mut dyn FnMut(Outside<'_>)) -> bool;
    /// Where to go on if the instruction at `ip` faults. `None`: it is none of a module's that may. In any
    /// context.
    fn fixup(&self, ip: usize) -> Option<usize>;
    /// Calls `f` with each. May sleep.
    fn each(&self, f: &mut dyn FnMut(Outside<'_>));
}

static MODULES: Once<&'static dyn Modules> = Once::new();

/// From now on addresses in modules have names. Boot.
pub fn set_modules(modules: &'static dyn Modules) {
    let _ = MODULES.set(modules);
}

/// What was set.
fn modules() -> Option<&'static dyn Modules> {
    MODULES.get().copied()
}

/// The table. `None`: the build did not write it.
pub fn table() -> Option<Table<'static>> {
    Table::new(symbol_room())
}

/// Where to go on if an instruction of a module's faults. `None`: it may not fault. In any context.
pub fn fixup_outside(ip: usize) -> Option<usize> {
    // Nearly all that ask are of the image.
    if !super::vmap::contains(ip) {
        return None;
    }
    modules()?.fixup(ip)
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
    fn outside(self, offset: bool, out: &mut dyn fmt::Write) -> Option<fmt::Result> {
        let mut result = None;
        modules()?.find(self.0, &mut |symbol| {
            let name = symbol.name.escape_ascii();
            result = Some(if offset {
                let behind = self.0 - symbol.address;
                write!(out, "{name}+{behind:#x} [{}]", symbol.module)
            } else {
                write!(out, "{name} [{}]", symbol.module)
            });
        });
        result
    }

    /// Writes its short name alone, without the module that it is of.
    pub fn write_bare(self, out: &mut dyn fmt::Write) -> fmt::Result {
        let mut result = None;
        if let Some(modules) = modules() {
            modules.find(self.0, &mut |symbol| {
                result = Some(write!(out, "{}", symbol.name.escape_ascii()));
            });
        }
        result.unwrap_or_else(|| self.write_short(false, out))
    }

    /// Writes it, with how far behind the symbol's beginning it is or without.
    pub fn write(self, offset: bool, out: &mut dyn fmt::Write) -> fmt::Result {
        if let Some(result) = self.outside(offset, out) {
            return result;
        }
        let table = table().filter(|_| !init_memory::is_freed(self.0));
        let Some(table) = table else {
            return write!(out, "{:#x}", self.0);
        };
        let Some((index, behind)) = table.lookup(self.0 as u64) else {
            return write!(out, "{:#x}", self.0);
        };
        let mut result = Ok(());
        let found = table.name(index, |piece| result = result.and_then(|()| out.write_str(piece)));
        if found.is_none() {
            return write!(out, "{:#x}", self.0);
        }
        result?;
        if offset {
            write!(out, "+{behind:#x}")
        } else {
            Ok(())
        }
    }

    /// Writes its short name, which has no spaces, with how far behind the symbol's beginning it is or
    /// without. Allocates.
    pub fn write_short(self, offset: bool, out: &mut dyn fmt::Write) -> fmt::Result {
        let mut path = String::new();
        let found = self.path(|piece| path.push_str(piece));
        self.write_named(found.map(|behind| (&*path, behind)), offset, out)
    }

    /// [`Self::write_short`] without allocating, at a panic: the path is put together in `room`. If it does
    /// not fit there, it is written as it is.
    pub fn write_short_in(self, room: &mut [u8], offset: bool, out: &mut dyn fmt::Write) -> fmt::Result {
        let mut len = 0;
        let found = self.path(|piece| {
            if let Some(to) = room.get_mut(len..len + piece.len()) {
                to.copy_from_slice(piece.as_bytes());
            }
            len += piece.len();
        });
        let path = room.get(..len).and_then(|path| str::from_utf8(path).ok());
        self.write_named(path.zip(found), offset, out)
    }

    /// Calls `f` with the pieces of its path. Returns how far behind its beginning it is. `None`: it is none
    /// of the kernel's own, or not known.
    fn path(self, f: impl FnMut(&str)) -> Option<u64> {
        let table = table().filter(|_| !init_memory::is_freed(self.0) && !vmap::contains(self.0))?;
        let (index, behind) = table.lookup(self.0 as u64)?;
        table.name(index, f).map(|()| behind)
    }

    /// Writes the short form of what [`Self::path`] found.
    fn write_named(self, found: Option<(&str, u64)>, offset: bool, out: &mut dyn fmt::Write) -> fmt::Result {
        let Some((path, behind)) = found else {
            return self.write(offset, out);
        };
        limen_symbols::write_short(path, out)?;
        if offset {
            write!(out, "+{behind:#x}")
        } else {
            Ok(())
        }
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(true, f)
    }
}
