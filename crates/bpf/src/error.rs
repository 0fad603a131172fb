//! Why a program is refused.

use core::fmt;

/// Why a program is refused. `at` is the number of the instruction, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are `at` and what the instruction says")]
pub enum Error {
    /// It has so many instructions: none, or too many.
    Length(usize),
    /// It ends within an instruction.
    Torn,
    /// No instruction has this code.
    Unknown { at: usize, code: u16 },
    /// A division by a constant that is zero.
    Zero { at: usize },
    /// A shift by a constant of more than 31 bits.
    Shift { at: usize, bits: u32 },
    /// There is no such cell of scratch memory.
    Cell { at: usize, cell: u32 },
    /// A jump behind the end.
    Jump { at: usize },
    /// A load from where neither a packet nor anything about it can be.
    Ancillary { at: usize, offset: u32 },
    /// The last instruction does not return.
    End,
    /// A cell is read to which not every way there wrote.
    Unwritten { at: usize, cell: u32 },
    /// seccomp does not have this instruction.
    Foreign { at: usize, code: u16 },
    /// A load from an offset in `struct seccomp_data` that is behind its end, or not that of a word.
    Offset { at: usize, offset: u32 },
    /// There is no memory for it.
    NoMemory,
}

impl Error {
    /// What the system call returns: `ENOMEM` (12) or `EINVAL` (22).
    pub fn errno(self) -> i32 {
        if self == Self::NoMemory { 12 } else { 22 }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Length(insns) => write!(f, "{insns} instructions"),
            Self::Torn => write!(f, "ends within an instruction"),
            Self::Unknown { at, code } => write!(f, "instruction {at}: unknown code {code:#x}"),
            Self::Zero { at } => write!(f, "instruction {at}: division by zero"),
            Self::Shift { at, bits } => write!(f, "instruction {at}: shift by {bits} bits"),
            Self::Cell { at, cell } => write!(f, "instruction {at}: no scratch cell {cell}"),
            Self::Jump { at } => write!(f, "instruction {at}: jump behind the end"),
            Self::Ancillary { at, offset } => {
                write!(f, "instruction {at}: nothing to load at {offset:#x}")
            }
            Self::End => write!(f, "does not end with a return"),
            Self::Unwritten { at, cell } => {
                write!(
                    f,
                    "instruction {at}: scratch cell {cell} may not have been written"
                )
            }
            Self::Foreign { at, code } => write!(f, "instruction {at}: code {code:#x} not for seccomp"),
            Self::Offset { at, offset } => {
                write!(f, "instruction {at}: no word of seccomp_data at {offset:#x}")
            }
            Self::NoMemory => write!(f, "no memory"),
        }
    }
}

impl core::error::Error for Error {}
