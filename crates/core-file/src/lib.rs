//! Core files (core(5)): what they are called (`core_pattern`), and how a program's memory and registers are
//! kept in them (ELF, little-endian).

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod image;
mod notes;
mod pattern;

pub use image::{Headers, Machine, Segment};
pub use notes::{About, Mapping, Notes, Person, Registers, Thread};
pub use pattern::{Name, Program, name};

/// There is no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

impl From<alloc::collections::TryReserveError> for NoMemory {
    fn from(_: alloc::collections::TryReserveError) -> Self {
        Self
    }
}

/// Adds bytes.
fn add(to: &mut alloc::vec::Vec<u8>, bytes: &[u8]) -> Result<(), NoMemory> {
    to.try_reserve(bytes.len())?;
    to.extend_from_slice(bytes);
    Ok(())
}
