//! Filters: which records of an event are kept. What is written to a file `filter` is parsed once
//! ([`Filter::parse`]) into a program of comparisons; each says where to go on if it holds and if it does
//! not, always forward, so a record is judged in at most as many steps as there are comparisons, without
//! memory.

mod error;
mod lex;
mod parse;
mod predicate;

use crate::field::Field;
use alloc::boxed::Box;
use alloc::vec::Vec;

pub use error::{Cause, Error};
use predicate::Predicate;

/// What filters can ask besides the record.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context {
    /// The CPU that records.
    pub cpu: u32,
    /// The name of the thread that records; NULs behind it.
    pub comm: [u8; 16],
}

/// Where to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Target(u16);

impl Target {
    const KEEP: Self = Self(u16::MAX);
    const DROP: Self = Self(u16::MAX - 1);
    /// The most comparisons of a filter.
    const MOST: usize = 4096;
}

#[derive(Debug)]
struct Step {
    predicate: Predicate,
    holds: Target,
    fails: Target,
}

/// A filter of one event.
#[derive(Debug)]
pub struct Filter {
    text: Box<[u8]>,
    steps: Vec<Step>,
}

/// Whether what was written to a `filter` file removes the filter.
pub fn clears(text: &[u8]) -> bool {
    text.trim_ascii() == b"0"
}

impl Filter {
    /// Parses a filter of an event with these fields (those that all records have come besides).
    ///
    /// # Errors
    /// What is wrong with it, and where; or there is no memory.
    pub fn parse(text: &[u8], fields: &[Field]) -> Result<Self, Error> {
        let text = text.trim_ascii();
        let steps = parse::steps(text, fields)?;
        let mut copy = Vec::new();
        copy.try_reserve_exact(text.len())
            .map_err(|_| Error::no_memory())?;
        copy.extend_from_slice(text);
        Ok(Self {
            text: copy.into_boxed_slice(),
            steps,
        })
    }

    /// As it was written, without the space around it.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Whether it keeps a record. Any context.
    #[inline]
    pub fn keeps(&self, record: &[u8], context: &Context) -> bool {
        let mut at = Target(0);
        // Targets are always forward, so this ends.
        while let Some(step) = self.steps.get(usize::from(at.0)) {
            at = if step.predicate.holds(&self.text, record, context) {
                step.holds
            } else {
                step.fails
            };
        }
        at == Target::KEEP
    }
}
