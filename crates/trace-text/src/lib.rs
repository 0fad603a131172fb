//! What a trace looks like: the records in the ring buffers that are Linux's own (functions, markers,
//! stacks), their `format` files, and the text of `trace` and `trace_pipe`. Pure: what the text says of
//! symbols, threads and other events it asks a [`World`].
//!
//! Numbers in records are in the byte order of the target, and a `long` is as large as a pointer.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod binary;
pub mod entry;
pub mod format;
pub mod graph;
pub mod head;
pub mod latency;
pub mod line;
pub mod options;

pub use entry::{Common, Entry, Flags, Kind};
pub use options::Options;

use core::fmt;

/// How a symbol is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Its name.
    Name,
    /// And the module that it is of.
    Module,
    /// How far behind its beginning, too.
    Offset,
}

/// What the text needs of the kernel that recorded.
pub trait World {
    /// Writes the name of what is at `address`, in this form.
    fn symbol(&self, address: u64, form: Form, out: &mut dyn fmt::Write) -> fmt::Result;
    /// The name of a thread. `None`: it is not known.
    fn comm(&self, pid: i32) -> Option<[u8; 16]>;
    /// The process of a thread. `None`: it is not known.
    fn tgid(&self, pid: i32) -> Option<i32>;
    /// The text at `address` that records refer to ([`Kind::BPRINT`], [`Kind::BPUTS`]). `None`: it is not
    /// known.
    fn text(&self, address: u64) -> Option<&[u8]>;
    /// Writes what an event of another kind says, without a line's end. `false`: there is no such kind.
    fn event(&self, entry: &Entry<'_>, out: &mut dyn fmt::Write) -> Result<bool, fmt::Error>;
}

/// Writes the name at `address` as the options say: in which form, with the address behind it.
pub fn symbol(world: &dyn World, options: Options, address: u64, out: &mut dyn fmt::Write) -> fmt::Result {
    symbol_in(Form::Name, world, options, address, out)
}

/// The same, in another form if the options name none.
pub(crate) fn symbol_in(
    form: Form,
    world: &dyn World,
    options: Options,
    address: u64,
    out: &mut dyn fmt::Write,
) -> fmt::Result {
    if address == 0 {
        return out.write_str("0");
    }
    let form = match options.contains(Options::SYM_OFFSET) {
        true => Form::Offset,
        false => form,
    };
    world.symbol(address, form, out)?;
    if options.contains(Options::SYM_ADDR) {
        write!(out, " <{address:0width$x}>", width = 2 * size_of::<usize>())?;
    }
    Ok(())
}
