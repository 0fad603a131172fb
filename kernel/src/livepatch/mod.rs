//! Live patching (`docs/livepatch.md`): modules replace functions of the running kernel and of other modules.
//!
//! * `patch`: patches, and how one comes and goes: the transition, in which each thread changes over when
//!   it is in none of the functions (`task::patch`; what a function does is `ftrace::patch`'s);
//! * `files` has `/sys/kernel/livepatch`.
//!
//! Modules enable patches (`module::interface`). A module to which a tracer has sent threads is left by
//! them as a patch is (`wait_until_left`).

#![forbid(unsafe_code)]

mod files;
mod patch;
pub mod selftest;

pub use files::init;
pub use patch::{Held, Wanted, abandon, enable, wait_until_left};
