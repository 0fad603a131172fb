//! The lock validator. It watches which locks are taken while others are held, and in which interrupt state, and reports an order or a
//! state that *can* deadlock, the first time the parts of it have been seen: the deadlock itself need never happen.
//!
//! Who calls it: the kernel's locks, when the kernel is built with lock validation. Locks are not judged one by one but by *class*: all locks
//! made at one place of the source are one class. What is learnt is
//!
//! * for each pair of classes whether one was waited for while the other was held, and how ([`graph`]);
//! * for each class whether it was waited for in interrupts and whether it was held with interrupts on; whether it was waited for with interrupts off
//!   and whether it was held while other CPUs were asked to answer an interrupt ([`Usage`]).
//!
//! A closed chain of the former, or a chain from a class waited for to one held as a pair of the latter has it, is a possible deadlock. Other
//! rules (taking a lock twice, sleeping while a spinlock is held, giving back what is not held, leaving the kernel with a lock held) need only
//! the [`Context`] of the thread.
//!
//! Everything lies in fixed tables, because the allocator's own locks are among those that are watched. A full table is reported, and
//! validation ends: nothing is ever left out silently.

#![no_std]
#![forbid(unsafe_code)]

mod cache;
mod class;
mod context;
pub mod graph;
mod report;
mod validator;

pub use class::{ClassId, Key, Kind, Mode, SUBCLASSES, Site, Usage};
pub use context::{Context, Held, MAX_HELD};
pub use graph::Graph;
pub use report::{Problem, Report};
pub use validator::{Acquire, Environment, Validator};
