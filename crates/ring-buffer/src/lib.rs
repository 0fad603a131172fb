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
//! A writer runs on the ring's CPU, in any context, with preemption off from [`Ring::reserve`] to the end of
//! the reservation. Reservations of one context end in reverse order. Writers neither wait nor allocate.
//! [`Reader`]: anywhere, under a lock of the caller's. All is safe code: page bodies are arrays of atomic
//! words.
//!
//! # When recording is off
//!
//! Who works on the whole buffer ([`Reader::reset`], [`Reader::swap`], [`Reader::resized`]) calls
//! [`Ring::disable`], waits for a grace period of RCU, and then asks whether the buffer is idle. The wait
//! is needed: a writer looks whether recording is on before it counts itself, and in between nobody sees it.
//! If it counted itself first, each event would need a full fence between that store and the look, which
//! would be the dearest instruction on its path; and the outermost writer is still there for a moment after
//! it has counted itself out: it looks whether those that interrupted it left something to publish. With
//! preemption off a writer is a reader of RCU, at no cost. When the grace period is over, writers that began
//! before [`Ring::disable`] have ended; those that begin later see that recording is off, and touch nothing.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod atomic;
mod cursor;
pub mod format;
mod plain;
mod reader;
mod reservation;
mod resize;
mod ring;
mod view;
mod writer;

pub use cursor::Cursor;
pub use plain::Plain;
pub use reader::{PageRead, Reader, Stats};
pub use reservation::Reservation;
pub use ring::{Error, Ring};
pub use view::Event;
pub use writer::Cpu;
