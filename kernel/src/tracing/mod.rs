//! What is traced is kept here: instances with their ring buffers, the door through which records get there,
//! and what is known of threads and clocks when they are read. `fs/tracefs` shows it all; who traces what
//! (`trace` has the sites) records through [`Instance`]. `docs/tracing.md` has the story.
//!
//! Until something is to be traced there is no instance, and no buffer: all of this costs nothing.

#![forbid(unsafe_code)]

pub mod buffer;
pub mod clock;
pub mod console;
pub mod dump;
mod errors;
pub mod event;
mod instance;
pub mod marker;
pub mod names;
pub mod oops;
pub mod printk;
pub mod read;
pub mod record;
mod registry;
pub mod selftest;
pub mod tracers;
pub mod waiting;
pub mod warned;

pub use instance::{Extension, Instance, Special, Use};
pub use names::Names;
pub use registry::{all, each_function_fork, find, made, make, remove, top};
pub use tracers::Tracer;
