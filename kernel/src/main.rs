//! The Limen kernel: the bootable binary. Rooms and who may know whom: see `ARCHITECTURE.md`.

#![no_std]
#![no_main]

extern crate alloc;

#[macro_use]
mod log;
mod arch;
mod boot;
mod driver;
mod fs;
mod mm;
mod net;
mod panic;
mod rseq;
mod sched;
mod signal;
mod sync;
mod syscall;
mod task;
mod threshold;
mod time;
mod trace;
