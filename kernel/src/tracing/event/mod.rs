//! Events: which there are ([`list`]), which of them an instance wants and how ([`state`], [`change`]), and
//! what happens when one comes ([`hit`](mod@hit)). `trace_events` has their formats, `trace::point` the
//! places where they come from, `fs/tracefs` the files.

pub mod boot;
pub mod calls;
pub mod change;
mod hit;
pub mod later;
pub mod list;
mod listen;
pub mod pids;
pub mod selftest;
pub mod soft;
pub mod stack;
pub mod state;
pub mod text;
mod trigger;

pub use hit::hit;
pub use list::Event;
