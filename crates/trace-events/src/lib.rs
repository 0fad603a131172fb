//! Trace events: what the tracing files say about them, how they are recorded, how they read as text, and
//! which of them are wanted.
//!
//! An event is declared once, by [`trace_event!`]: a system, a name, fields, and the `print fmt` that tools
//! read in its `format` file. The record's bytes are stored from the same fields as that file lists, and the
//! text in `trace` is made by evaluating that `print fmt` ([`print`](mod@print)), so the three cannot differ.
//! System calls' events are not declared one by one: [`syscalls`] makes them from a table of names and
//! arguments.
//!
//! [`filter`], [`trigger`] and [`select`] read what is written to the files `filter`, `trigger` and
//! `set_event`, with Linux's grammar and error texts. All text from programs is parsed without recursion, in
//! time and memory bounded by its length.
//!
//! Nothing here knows where records go, or who is asked to record.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod declare;
mod description;
mod event;
pub mod events;
mod field;
pub mod filter;
mod glob;
pub mod print;
pub mod select;
pub mod syscalls;
pub mod trigger;

pub use description::{Common, Description, FIRST_ID, common_fields, write_fields, write_format};
pub use event::{Event, Numbered, Writer};
pub use field::{Field, Kind, Str, Value};
pub use glob::{Glob, matches};
