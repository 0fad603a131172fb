//! The lock validator. It observes which locks are taken while others are held, and in which interrupt state.
//! It reports an order or a state that *can* deadlock the first time its parts have been seen; the deadlock
//! itself need never happen.
//!
//! The kernel's locks call it if the kernel is built with lock validation. It does not judge single locks but
//! *classes*: all locks that are made at one place of the source are a class. It learns
//!
//! * for each pair of classes whether one was waited for while the other was held, and how ([`graph`]);
//! * for each class whether it was waited for in interrupts, and whether it was held with interrupts on;
//!   whether it was waited for with interrupts off, and whether it was held while waiting for other CPUs
//!   ([`Usage`]).
//!
//! A closed chain of the first sort, or a chain from a class that was waited for to one that was held as the
//! second sort forbids, is a possible deadlock. The other rules (taking a lock twice, sleeping while a
//! spinlock is held, releasing a lock that is not held, leaving the kernel with a lock held) need only the
//! [`Context`] of the thread.
//!
//! All tables have a fixed size, because the locks of the memory allocator are observed, too. A full table is
//! reported, and validation ends: nothing is left out without notice.

#![no_std]
#![forbid(unsafe_code)]

mod cache;
mod class;
mod context;
pub mod graph;
mod report;
mod validator;

pub use class::{ClassId, Key, Kind, Mode, SUBCLASSES, Site, Usage};
pub use context::{Acquire, Context, Held, MAX_HELD};
pub use graph::Graph;
pub use report::{Problem, Report};
pub use validator::{Environment, Validator};
