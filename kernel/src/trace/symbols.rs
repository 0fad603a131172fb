//! The kernel's own symbols. After linking, the build writes the compressed table into the memory reserved
//! here (`tools/symbols`). Backtraces and `/proc/kallsyms` read it.

use core::fmt;
use limen_symbols::Table;

/// The size of the reserved memory in bytes. Unoptimised kernels have many more functions.
const ROOM: usize = if cfg!(debug_assertions) {
    512 << 10
} else {
    160 << 10
};

#[used]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".rodata.kallsyms")]
#[allow(non_upper_case_globals, reason = "the build looks for this name")]
static __kallsyms_start: [u8; ROOM] = [0xff; ROOM];

/// The table. `None`: the build did not write it.
pub fn table() -> Option<Table<'static>> {
    // Keeps the compiler from using the value in the source, which the build changes after linking.
    Table::new(core::hint::black_box(&__kallsyms_start))
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
