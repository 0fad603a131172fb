//! Records as text: a `print fmt`, which is C as tools read it, compiled once and evaluated for each record.
//!
//! Understood are integer and string literals, `REC->field`, the operators of C except assignments and calls,
//! casts to integers, `__get_str`, `__print_flags` and `__print_symbolic`. Numbers are evaluated in 64 bits.
//! A `print fmt` is part of the kernel, so its parser may recurse; its depth is bounded all the same.

mod compile;
mod lex;
mod run;

use crate::field::Field;
use alloc::vec::Vec;
use core::fmt;

/// Where text goes, and what only the kernel can say.
pub trait Output: fmt::Write {
    /// The function at an address; `offset`: and how far the address is in it.
    fn symbol(&mut self, address: u64, offset: bool) -> fmt::Result;
    /// An address, perhaps made unrecognizable (`%p`).
    fn pointer(&mut self, address: u64) -> fmt::Result;
}

/// Why a `print fmt` cannot be compiled: at which byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// There is no memory.
    NoMemory,
    /// It is not understood from there on.
    Syntax(usize),
}

/// How many values an expression may hold at once.
const STACK: usize = 12;

/// How a value becomes text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Conversion {
    kind: u8,
    /// Of integers, in bytes.
    size: u8,
    left: bool,
    zeros: bool,
    alternate: bool,
    plus: bool,
    width: usize,
    precision: Option<usize>,
}

#[derive(Debug)]
enum Part {
    Literal(&'static str),
    /// The value of the next expression, which are these many steps.
    Value(Conversion, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Binary {
    Or,
    And,
    BitOr,
    BitXor,
    BitAnd,
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
    Left,
    Right,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unary {
    Negate,
    Not,
    Invert,
}

/// A step of an expression: takes values from a stack, and puts one there.
#[derive(Clone, Copy, Debug)]
enum Step {
    Integer(i64),
    Literal(&'static str),
    Field(Field),
    Cast {
        size: u8,
        signed: bool,
    },
    Unary(Unary),
    Binary(Binary),
    /// Condition, then, else.
    Select,
    /// `__print_flags` (with a separator) or `__print_symbolic`: names `from..to`.
    Names {
        separator: Option<&'static str>,
        from: u16,
        to: u16,
    },
}

/// A `print fmt`, compiled.
#[derive(Debug)]
pub struct Program {
    parts: Vec<Part>,
    steps: Vec<Step>,
    names: Vec<(i64, &'static str)>,
}
