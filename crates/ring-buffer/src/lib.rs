//! A CPU's trace ring buffer: events are recorded in any context without a lock, and read on any CPU
//! meanwhile. Pages leave it in Linux's format ([`format`](mod@format)), so tools that read
//! `trace_pipe_raw` understand them.
//!
//! # Places
//!
//! The buffer is a ring of *slots*; each holds the number of a page. One page more belongs to the reader. A
//! *position* is a slot in a lap of the writer around the ring. A slot's word says for which lap its page
//! is; both who takes a page change that word, by one compare-and-swap:
//! * the reader puts its spent page there, for the next lap;
//! * the writer claims the page that is there for the next lap, if its events may be lost.
//!
//! Laps are not used twice, so neither mistakes a page for another. The page that is being written may be
//! the reader's: the writer stays on it until it is full.
//!
//! # Writers
//!
//! A writer may be interrupted by another on its CPU, which ends before it goes on. A page's *state* is one
//! word: how much of it is reserved, how many events that are, and when the last was. A reservation is one
//! compare-and-swap of it. Whoever was interrupted between reading the clock and that swap begins again, so
//! an event's time is never before that of the event in front of it, and every time difference is right.
//! A page that is left is closed by such a swap; the interrupted find it closed. Moving to the next page
//! consists of steps each of which is done once, by whoever comes first.
//!
//! Readers see what the outermost writer has published when it ended: everything before that is complete.
//!
//! # Contexts
//!
//! [`Ring::reserve`] and what follows from it: on the ring's CPU, in any context, without migration until
//! the end of the reservation. They neither wait nor allocate. [`Reader`]: anywhere, under a lock of the
//! caller's. All is safe code: page bodies are arrays of atomic words.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod atomic;
mod cursor;
pub mod format;
mod reader;
mod reservation;
mod resize;
mod ring;
mod view;
mod writer;

pub use cursor::Cursor;
pub use reader::{PageRead, Reader, Stats};
pub use reservation::Reservation;
pub use ring::{Error, Ring};
pub use view::Event;
pub use writer::Cpu;
