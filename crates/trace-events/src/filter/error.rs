//! What may be wrong with a filter.

use core::fmt::{self, Write};

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the texts say it")]
pub enum Cause {
    InvalidOperator,
    TooManyOpen,
    TooManyClose,
    MissingQuote,
    OperandTooLong,
    ExpectString,
    ExpectDigit,
    IllegalFieldOperator,
    FieldNotFound,
    IllegalInteger,
    BadSubsystemFilter,
    TooManyPredicates,
    InvalidFilter,
    InvalidValue,
    NoFilter,
    NoMemory,
}

impl Cause {
    /// Linux's words for it.
    pub const fn text(self) -> &'static str {
        match self {
            Self::InvalidOperator => "Invalid operator",
            Self::TooManyOpen => "Too many '('",
            Self::TooManyClose => "Too few '('",
            Self::MissingQuote => "Missing matching quote",
            Self::OperandTooLong => "Operand too long",
            Self::ExpectString => "Expecting string field",
            Self::ExpectDigit => "Expecting numeric field",
            Self::IllegalFieldOperator => "Illegal operation for field type",
            Self::FieldNotFound => "Field not found",
            Self::IllegalInteger => "Illegal integer value",
            Self::BadSubsystemFilter => "Couldn't find or set field in one of a subsystem's events",
            Self::TooManyPredicates => "Too many terms in predicate expression",
            Self::InvalidFilter => "Meaningless filter expression",
            Self::InvalidValue => "Invalid value (did you forget quotes)?",
            Self::NoFilter => "No filter found",
            Self::NoMemory => "Error",
        }
    }
}

/// What is wrong with a filter, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// What.
    pub cause: Cause,
    /// In which column, from 0.
    pub column: usize,
}

impl Error {
    /// There is no memory (`ENOMEM`; all others are `EINVAL`).
    pub const fn no_memory() -> Self {
        Self {
            cause: Cause::NoMemory,
            column: 0,
        }
    }

    /// What the file `filter` shows instead of a filter.
    ///
    /// # Errors
    /// Only those of `to`.
    pub fn write(&self, text: &[u8], to: &mut dyn Write) -> fmt::Result {
        for chunk in text.utf8_chunks() {
            to.write_str(chunk.valid())?;
            if !chunk.invalid().is_empty() {
                to.write_char('\u{fffd}')?;
            }
        }
        let column = self.column.min(text.len());
        write!(to, "\n{:column$}^\nparse_error: {}\n", "", self.cause.text())
    }
}
