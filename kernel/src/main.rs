//! The Limen kernel, which is this binary. `ARCHITECTURE.md` has the list of rooms, and which may use which.

#![no_std]
#![no_main]

extern crate alloc;

#[macro_use]
mod log;
mod arch;
mod audit;
mod boot;
mod cmdline;
mod driver;
mod filter;
mod fs;
mod ftrace;
mod ipc;
mod jump_label;
mod livepatch;
mod mm;
mod module;
mod net;
mod panic;
mod ptrace;
mod random;
mod rcu;
mod rseq;
mod sched;
mod selftest;
mod signal;
mod sync;
mod syscall;
mod task;
mod threshold;
mod time;
mod trace;
mod tracing;

arch::above::arch_calls!(boot::Limen);
