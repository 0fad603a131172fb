//! Fields of rules: what about a call a rule compares, and how.

use crate::{Error, List};
use alloc::vec::Vec;

/// What is compared (`AUDIT_PID` and so on).
#[allow(missing_docs, reason = "the names are Linux's")]
pub mod what {
    pub const PID: u32 = 0;
    pub const UID: u32 = 1;
    pub const EUID: u32 = 2;
    pub const SUID: u32 = 3;
    pub const FSUID: u32 = 4;
    pub const GID: u32 = 5;
    pub const EGID: u32 = 6;
    pub const SGID: u32 = 7;
    pub const FSGID: u32 = 8;
    pub const LOGINUID: u32 = 9;
    pub const PERS: u32 = 10;
    pub const ARCH: u32 = 11;
    pub const MSGTYPE: u32 = 12;
    pub const SUBJ_USER: u32 = 13;
    pub const SUBJ_TYPE: u32 = 15;
    pub const SUBJ_SEN: u32 = 16;
    pub const SUBJ_CLR: u32 = 17;
    pub const PPID: u32 = 18;
    pub const OBJ_USER: u32 = 19;
    pub const OBJ_TYPE: u32 = 21;
    pub const OBJ_LEV_LOW: u32 = 22;
    pub const OBJ_LEV_HIGH: u32 = 23;
    pub const LOGINUID_SET: u32 = 24;
    pub const SESSIONID: u32 = 25;
    pub const FSTYPE: u32 = 26;
    pub const DEVMAJOR: u32 = 100;
    pub const DEVMINOR: u32 = 101;
    pub const INODE: u32 = 102;
    pub const EXIT: u32 = 103;
    pub const SUCCESS: u32 = 104;
    pub const WATCH: u32 = 105;
    pub const PERM: u32 = 106;
    pub const DIR: u32 = 107;
    pub const FILETYPE: u32 = 108;
    pub const OBJ_UID: u32 = 109;
    pub const OBJ_GID: u32 = 110;
    pub const FIELD_COMPARE: u32 = 111;
    pub const EXE: u32 = 112;
    pub const SADDR_FAM: u32 = 113;
    pub const ARG0: u32 = 200;
    pub const ARG3: u32 = 203;
    pub const FILTERKEY: u32 = 210;
}

/// How two numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// They are equal.
    Equal,
    /// They are not.
    NotEqual,
    /// They have a bit in common.
    Mask,
    /// The left has all bits of the right.
    Test,
    /// Less.
    Less,
    /// Greater.
    Greater,
    /// Not greater.
    LessOrEqual,
    /// Not less.
    GreaterOrEqual,
}

/// The operators' bits in a field's flags, and those of each.
const OPERATORS: u32 = 0x7800_0000;
const OPS: [(Op, u32); 8] = [
    (Op::Equal, 0x4000_0000),
    (Op::NotEqual, 0x3000_0000),
    (Op::Mask, 0x0800_0000),
    (Op::Test, 0x4800_0000),
    (Op::Less, 0x1000_0000),
    (Op::Greater, 0x2000_0000),
    (Op::LessOrEqual, 0x5000_0000),
    (Op::GreaterOrEqual, 0x6000_0000),
];

impl Op {
    /// The one in a field's flags.
    pub fn from_flags(flags: u32) -> Option<Self> {
        let mut all = OPS.iter();
        all.find(|(_, bits)| *bits == flags & OPERATORS)
            .map(|(op, _)| *op)
    }

    /// The opposite.
    pub fn flags(self) -> u32 {
        OPS.iter()
            .find(|(op, _)| *op == self)
            .map_or(0, |(_, bits)| *bits)
    }

    /// Whether it is true.
    pub fn holds<T: PartialOrd + BitAnd>(self, left: T, right: T) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Mask => left.common(right) != T::ZERO,
            Self::Test => left.common(right) == right,
            Self::Less => left < right,
            Self::Greater => left > right,
            Self::LessOrEqual => left <= right,
            Self::GreaterOrEqual => left >= right,
        }
    }

    /// Whether it is true where nothing but equality can be asked.
    pub fn holds_if(self, equal: bool) -> bool {
        match self {
            Self::Equal => equal,
            Self::NotEqual => !equal,
            _ => false,
        }
    }
}

/// Numbers that have bits.
pub trait BitAnd: Copy {
    /// No bits.
    const ZERO: Self;
    /// The bits of both.
    fn common(self, other: Self) -> Self;
}

impl BitAnd for u32 {
    const ZERO: Self = 0;
    fn common(self, other: Self) -> Self {
        self & other
    }
}

/// What it is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(u32),
    /// A text, without the zero at its end.
    Text(Vec<u8>),
}

/// A field of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// See [`what`].
    pub what: u32,
    /// How it is compared.
    pub op: Op,
    /// With what.
    pub value: Value,
    /// It was given as [`what::LOGINUID`] that is not set, as old programs do, and is told so.
    pub legacy: bool,
}

impl Field {
    /// Its number; 0 if it has a text.
    pub fn number(&self) -> u32 {
        match self.value {
            Value::Number(number) => number,
            Value::Text(_) => 0,
        }
    }
}

/// Whether the value of a field is a text. Its number is the text's length.
pub fn has_text(field: u32) -> bool {
    use what::{DIR, EXE, FILTERKEY, OBJ_LEV_HIGH, OBJ_USER, SUBJ_CLR, SUBJ_USER, WATCH};
    matches!(field, SUBJ_USER..=SUBJ_CLR | OBJ_USER..=OBJ_LEV_HIGH | WATCH | DIR | EXE | FILTERKEY)
}

/// The last comparison of two fields (`AUDIT_MAX_FIELD_COMPARE`).
const MAX_COMPARE: u32 = 25;
/// One more than the last family of addresses.
const FAMILIES: u32 = 46;

/// Whether a list takes a field with this operator and number.
pub fn check(list: List, field: u32, op: Op, number: u32) -> Result<(), Error> {
    use what::*;
    let all = matches!(field, ARG0..=ARG3 | PERS | DEVMINOR);
    let no_bits = matches!(
        field,
        PID | UID
            | EUID
            | SUID
            | FSUID
            | LOGINUID
            | OBJ_UID
            | GID
            | EGID
            | SGID
            | FSGID
            | OBJ_GID
            | MSGTYPE
            | PPID
            | DEVMAJOR
            | EXIT
            | SUCCESS
            | INODE
            | SESSIONID
            | SUBJ_SEN
            | SUBJ_CLR
            | OBJ_LEV_LOW
            | OBJ_LEV_HIGH
            | SADDR_FAM
    );
    let equality = matches!(
        field,
        SUBJ_USER..=SUBJ_TYPE | OBJ_USER..=OBJ_TYPE | WATCH | DIR | FILTERKEY | LOGINUID_SET | ARCH | FSTYPE
            | PERM | FILETYPE | FIELD_COMPARE | EXE
    );
    let op_fits = all
        || no_bits && !matches!(op, Op::Mask | Op::Test)
        || equality && matches!(op, Op::Equal | Op::NotEqual);
    let list_fits = match field {
        MSGTYPE => matches!(list, List::Exclude | List::User),
        FSTYPE => list == List::FileSystem,
        FILTERKEY => true,
        WATCH | DIR => list == List::Exit && op == Op::Equal,
        INODE => list == List::Exit && matches!(op, Op::Equal | Op::NotEqual),
        _ => list != List::FileSystem,
    };
    let number_fits = match field {
        LOGINUID_SET => number <= 1,
        PERM => number & !15 == 0,
        FILETYPE => number & !0o170_000 == 0,
        FIELD_COMPARE => (1..=MAX_COMPARE).contains(&number),
        SADDR_FAM => number < FAMILIES,
        _ => true,
    };
    if op_fits && list_fits && number_fits {
        Ok(())
    } else {
        Err(Error::Invalid)
    }
}
