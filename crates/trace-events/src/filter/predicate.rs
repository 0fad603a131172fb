//! One comparison of a filter.

use super::Context;
use crate::field::{Field, Kind};
use crate::glob;
use core::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Equal,
    NotEqual,
    Glob,
    AtMost,
    Less,
    AtLeast,
    Greater,
    And,
}

impl Operator {
    /// The operator at the front of a text, and its length.
    pub fn read(text: &[u8]) -> Option<(Self, usize)> {
        Some(match text {
            [b'=', b'=', ..] => (Self::Equal, 2),
            [b'!', b'=', ..] => (Self::NotEqual, 2),
            [b'~', ..] => (Self::Glob, 1),
            [b'<', b'=', ..] => (Self::AtMost, 2),
            [b'<', ..] => (Self::Less, 1),
            [b'>', b'=', ..] => (Self::AtLeast, 2),
            [b'>', ..] => (Self::Greater, 1),
            [b'&', ..] => (Self::And, 1),
            _ => return None,
        })
    }
}

#[derive(Debug)]
enum Operand {
    Integer(i64),
    /// In the text of the filter.
    Text(Range<u16>),
}

/// A field compared with a constant.
#[derive(Debug)]
pub struct Predicate {
    field: Field,
    operator: Operator,
    operand: Operand,
}

impl Predicate {
    /// Linux compares in the field's width.
    pub fn integer(field: Field, operator: Operator, value: i64) -> Self {
        let above = match field.size {
            0 => 32,
            size => 64 - 8 * u32::from(size),
        };
        let value = if field.signed {
            value << above >> above
        } else {
            (value.cast_unsigned() << above >> above).cast_signed()
        };
        Self {
            field,
            operator,
            operand: Operand::Integer(value),
        }
    }

    pub fn text(field: Field, operator: Operator, text: Range<usize>) -> Self {
        // Filters are shorter than 64 KiB.
        let operand = Operand::Text(text.start as u16..text.end as u16);
        Self {
            field,
            operator,
            operand,
        }
    }

    /// Whether it holds for a record. A field that is not there is like one that differs.
    #[inline]
    pub fn holds(&self, filter: &[u8], record: &[u8], context: &Context) -> bool {
        match &self.operand {
            Operand::Integer(operand) => {
                let value = match self.field.kind {
                    Kind::Cpu => Some(i64::from(context.cpu)),
                    _ => self.field.integer(record),
                };
                match value {
                    Some(value) => self.compare(value, *operand),
                    None => self.operator == Operator::NotEqual,
                }
            }
            Operand::Text(range) => {
                let operand = filter.get(usize::from(range.start)..usize::from(range.end));
                let text = match self.field.kind {
                    Kind::Comm => context.comm.split(|byte| *byte == 0).next(),
                    _ => self.field.text(record),
                };
                let (Some(text), Some(operand)) = (text, operand) else {
                    return self.operator == Operator::NotEqual;
                };
                match self.operator {
                    Operator::Glob => glob::matches(operand, text),
                    Operator::NotEqual => text != operand,
                    _ => text == operand,
                }
            }
        }
    }

    fn compare(&self, value: i64, operand: i64) -> bool {
        let order = if self.field.signed {
            value.cmp(&operand)
        } else {
            value.cast_unsigned().cmp(&operand.cast_unsigned())
        };
        match self.operator {
            Operator::Equal => order.is_eq(),
            Operator::NotEqual => order.is_ne(),
            Operator::AtMost => order.is_le(),
            Operator::Less => order.is_lt(),
            Operator::AtLeast => order.is_ge(),
            Operator::Greater => order.is_gt(),
            Operator::And => value & operand != 0,
            Operator::Glob => false,
        }
    }
}
