//! Evaluating a [`Program`] for a record.

use super::{Binary, Conversion, Output, Part, Program, STACK, Step, Unary};
use crate::field::Kind;
use core::fmt;

#[derive(Clone, Copy)]
enum Value<'a> {
    Integer(i64),
    Bytes(&'a [u8]),
    /// The names of a number; see [`Step::Names`].
    Names(i64, Option<&'static str>, &'a [(i64, &'static str)]),
}

impl Value<'_> {
    /// As C sees it in a condition, and in arithmetic.
    fn integer(self) -> i64 {
        match self {
            Self::Integer(value) => value,
            Self::Bytes(_) | Self::Names(..) => 1,
        }
    }
}

impl Program {
    /// Writes a record as text. What is missing of a short record is 0 or empty.
    ///
    /// # Errors
    /// Only those of `to`.
    pub fn print(&self, record: &[u8], to: &mut dyn Output) -> fmt::Result {
        let mut steps = self.steps.as_slice();
        for part in &self.parts {
            match part {
                Part::Literal(text) => escaped(text, to)?,
                Part::Value(conversion, len) => {
                    let (now, later) = steps.split_at_checked(*len).unwrap_or((steps, &[]));
                    steps = later;
                    conversion.write(self.value(now, record), to)?;
                }
            }
        }
        Ok(())
    }

    fn value<'a>(&'a self, steps: &[Step], record: &'a [u8]) -> Value<'a> {
        let mut stack = [Value::Integer(0); STACK + 1];
        let mut top = 0;
        for step in steps {
            let (taken, value) = match *step {
                Step::Integer(value) => (0, Value::Integer(value)),
                Step::Literal(text) => (0, Value::Bytes(text.as_bytes())),
                Step::Field(field) if field.kind == Kind::Int => {
                    (0, Value::Integer(field.integer(record).unwrap_or(0)))
                }
                Step::Field(field) => (0, Value::Bytes(field.text(record).unwrap_or(b""))),
                Step::Cast { size, signed } => {
                    let above = 64 - 8 * u32::from(size);
                    let value = stack[top].integer() << above;
                    (
                        1,
                        Value::Integer(if signed {
                            value >> above
                        } else {
                            shifted(value, above)
                        }),
                    )
                }
                Step::Unary(operator) => (1, Value::Integer(unary(operator, stack[top].integer()))),
                Step::Binary(operator) => {
                    let (left, right) = (stack[top - 1].integer(), stack[top].integer());
                    (2, Value::Integer(binary(operator, left, right)))
                }
                Step::Select if stack[top - 2].integer() != 0 => (3, stack[top - 1]),
                Step::Select => (3, stack[top]),
                Step::Names { separator, from, to } => {
                    let names = &self.names[usize::from(from)..usize::from(to)];
                    (1, Value::Names(stack[top].integer(), separator, names))
                }
            };
            top = top + 1 - taken;
            stack[top] = value;
        }
        stack[top]
    }
}

fn shifted(value: i64, by: u32) -> i64 {
    (value.cast_unsigned() >> by).cast_signed()
}

fn unary(operator: Unary, value: i64) -> i64 {
    match operator {
        Unary::Negate => value.wrapping_neg(),
        Unary::Not => i64::from(value == 0),
        Unary::Invert => !value,
    }
}

fn binary(operator: Binary, left: i64, right: i64) -> i64 {
    match operator {
        Binary::Or => i64::from(left != 0 || right != 0),
        Binary::And => i64::from(left != 0 && right != 0),
        Binary::BitOr => left | right,
        Binary::BitXor => left ^ right,
        Binary::BitAnd => left & right,
        Binary::Equal => i64::from(left == right),
        Binary::NotEqual => i64::from(left != right),
        Binary::Less => i64::from(left < right),
        Binary::AtMost => i64::from(left <= right),
        Binary::Greater => i64::from(left > right),
        Binary::AtLeast => i64::from(left >= right),
        Binary::Left => left.wrapping_shl(right as u32),
        Binary::Right => left.wrapping_shr(right as u32),
        Binary::Add => left.wrapping_add(right),
        Binary::Subtract => left.wrapping_sub(right),
        Binary::Multiply => left.wrapping_mul(right),
        Binary::Divide => left.checked_div(right).unwrap_or(0),
        Binary::Remainder => left.checked_rem(right).unwrap_or(0),
    }
}

/// Writes a string literal of C.
fn escaped(text: &str, to: &mut dyn Output) -> fmt::Result {
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        to.write_str(&rest[..at])?;
        let mut after = rest[at + 1..].chars();
        match after.next() {
            Some('n') => to.write_char('\n')?,
            Some('t') => to.write_char('\t')?,
            Some(other) => to.write_char(other)?,
            None => {}
        }
        rest = after.as_str();
    }
    to.write_str(rest)
}

/// Writes bytes as characters.
fn bytes(text: &[u8], to: &mut dyn Output) -> fmt::Result {
    for chunk in text.utf8_chunks() {
        to.write_str(chunk.valid())?;
        if !chunk.invalid().is_empty() {
            to.write_char('\u{fffd}')?;
        }
    }
    Ok(())
}

impl Conversion {
    fn write(&self, value: Value<'_>, to: &mut dyn Output) -> fmt::Result {
        match (self.kind, value) {
            (b's', Value::Bytes(text)) => {
                let text = &text[..self.precision.unwrap_or(usize::MAX).min(text.len())];
                self.padded(text.len(), to, |to| bytes(text, to))
            }
            (b's', Value::Names(value, separator, table)) => names(value, separator, table, to),
            (b'S' | b'f', value) => to.symbol(value.integer().cast_unsigned(), self.kind == b'S'),
            (b'p', value) => to.pointer(value.integer().cast_unsigned()),
            (b'c', value) => to.write_char(char::from(value.integer() as u8)),
            (_, value) => self.integer(value.integer(), to),
        }
    }

    fn integer(&self, value: i64, to: &mut dyn Output) -> fmt::Result {
        let above = 64 - 8 * u32::from(self.size);
        let signed = value << above >> above;
        let unsigned = (value << above).cast_unsigned() >> above;
        let is_signed = matches!(self.kind, b'd' | b'i');
        let (base, magnitude) = match self.kind {
            b'x' | b'X' => (16, unsigned),
            b'o' => (8, unsigned),
            _ if is_signed => (10, signed.unsigned_abs()),
            _ => (10, unsigned),
        };
        let sign = match (is_signed && signed < 0, self.alternate, self.plus && is_signed) {
            (true, ..) => "-",
            (_, true, _) if base == 16 => "0x",
            (_, _, true) => "+",
            _ => "",
        };
        let mut buffer = [b'0'; 24];
        let mut at = buffer.len();
        let mut rest = magnitude;
        loop {
            at -= 1;
            let table = if self.kind == b'X' {
                b"0123456789ABCDEF"
            } else {
                b"0123456789abcdef"
            };
            buffer[at] = table[(rest % base) as usize];
            rest /= base;
            if rest == 0 {
                break;
            }
        }
        let digits = &buffer[at..];
        let mut zeros = self.precision.unwrap_or(0).saturating_sub(digits.len());
        if self.zeros && !self.left && self.precision.is_none() {
            zeros = self.width.saturating_sub(digits.len() + sign.len());
        }
        self.padded(sign.len() + zeros + digits.len(), to, |to| {
            to.write_str(sign)?;
            for _ in 0..zeros {
                to.write_char('0')?;
            }
            bytes(digits, to)
        })
    }

    /// Writes what has `len` characters, in the width.
    fn padded(
        &self,
        len: usize,
        to: &mut dyn Output,
        write: impl FnOnce(&mut dyn Output) -> fmt::Result,
    ) -> fmt::Result {
        let space = self.width.saturating_sub(len);
        if self.left {
            write(to)?;
            return write!(to, "{:space$}", "");
        }
        write!(to, "{:space$}", "")?;
        write(to)
    }
}

/// The names of a number, as Linux's `trace` shows them.
fn names(value: i64, separator: Option<&str>, table: &[(i64, &str)], to: &mut dyn Output) -> fmt::Result {
    let Some(separator) = separator else {
        return match table.iter().find(|(of, _)| *of == value) {
            Some((_, name)) => to.write_str(name),
            None => write!(to, "0x{value:x}"),
        };
    };
    let mut rest = value;
    let mut first = true;
    for (mask, name) in table {
        if rest & mask == *mask {
            if !first {
                to.write_str(separator)?;
            }
            to.write_str(name)?;
            first = false;
            rest &= !mask;
        }
    }
    if rest != 0 {
        if !first {
            to.write_str(separator)?;
        }
        write!(to, "0x{rest:x}")?;
    }
    Ok(())
}
