//! Classic BPF, as Linux has it: programs of a process are checked, translated and run, and seccomp's rules
//! say what their results mean. The kernel copies the program and knows threads; all decisions are here.
//!
//! * [`insn`]: instructions as programs hand them over (`struct sock_filter`);
//! * [`mod@check`]: which programs are valid at all (`SO_ATTACH_FILTER` and seccomp share that);
//! * [`program`]: which of them seccomp takes, and running them over `struct seccomp_data`;
//! * [`always`]: which system calls a program allows whatever their arguments, found out once;
//! * [`verdict`]: what several filters' results come to, and which of them are logged.
//!
//! A program that was taken cannot fail, loop or read anything but its data: jumps only go forward, and the
//! form that is run has no field that could point elsewhere.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod always;
pub mod check;
mod error;
pub mod insn;
pub mod program;
mod run;
pub mod verdict;

pub use always::always_allows;
pub use check::check;
pub use error::Error;
pub use insn::Insn;
pub use program::{Data, Program, Words};
pub use verdict::{Action, Logged, Verdict};

/// The most instructions that a program may have (`BPF_MAXINSNS`).
pub const MAX_INSNS: usize = 4096;
/// How many words of 32 bits the scratch memory has (`BPF_MEMWORDS`).
pub const MEM_WORDS: usize = 16;
