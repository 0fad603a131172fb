//! The kernel's own symbols. The build puts the compressed table into the room reserved here after the link (`tools/symbols`); backtraces and
//! `/proc/kallsyms` read it.

use core::fmt;
use limen_symbols::Table;

/// Room for the table. Unoptimised kernels have many more functions.
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

/// The table; `None` if the build did not fill it in.
pub fn table() -> Option<Table<'static>> {
    // The compiler must not conclude that the table is what the source says.
    Table::new(core::hint::black_box(&__kallsyms_start))
}

/// An address, shown as `name+0x12`, or as a number if unknown.
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
