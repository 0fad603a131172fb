//! Read-copy-update: a writer takes an element out of a structure that others read without a lock, waits for
//! a *grace period* and frees it. A grace period ends when each CPU has been seen in a *quiescent state*: a
//! moment in which it is in no reader. What began to read later cannot find the element any more.
//!
//! Readers of the first kind only hold off preemption, so a switch, idle and user mode are quiescent
//! ([`grace`]). Readers of the second kind may sleep and are counted; each use has its own domain, and waits
//! for no other ([`sleepable`]). Readers of the third kind are so short that a writer spins ([`glance`]).
//! What is to be done after a grace period, without anybody waiting for it, is kept in order of its grace
//! periods ([`callbacks`]).
//!
//! The crate knows neither CPUs nor threads: the kernel gives it counts and calls it. The words that CPUs
//! share are [`Word`]s, so that tests can explore what other CPUs may see of them
//! (`tests/interleavings.rs`).

#![no_std]
#![forbid(unsafe_code)]

pub mod callbacks;
pub mod glance;
pub mod grace;
pub mod sleepable;
mod word;

pub use callbacks::{Batch, Callbacks};
pub use glance::{Glance, Glances};
pub use grace::{Cookie, GracePeriods, Machine, Period, Presence, Seen};
pub use sleepable::{Reader, Sleepable, Waiting};
pub use word::{Atomics, Native, Word};
