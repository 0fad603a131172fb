//! The parts of a filter: one comparison is read here, from its field to its value.

use super::error::{Cause, Error};
use super::predicate::{Operator, Predicate};
use crate::description::common_fields;
use crate::field::{Field, Kind};

/// The longest string that a field is compared with, and the longest number.
const MAX_STRING: usize = 255;
const MAX_NUMBER: usize = 23;

const fn special(name: &'static str, kind: Kind) -> Field {
    Field {
        c_type: "",
        name,
        offset: 0,
        size: 0,
        signed: false,
        kind,
    }
}

const SPECIAL: [Field; 5] = [
    special("cpu", Kind::Cpu),
    special("CPU", Kind::Cpu),
    special("common_cpu", Kind::Cpu),
    special("comm", Kind::Comm),
    special("COMM", Kind::Comm),
];

/// The event's own fields come first: some have one of the special names.
fn find(fields: &[Field], name: &[u8]) -> Option<Field> {
    let mut all = fields.iter().chain(&SPECIAL).chain(common_fields());
    all.find(|field| field.name.as_bytes() == name).copied()
}

pub fn skip_space(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// Reads a comparison from `at` on; returns it and where it ends. Columns are Linux's.
pub fn predicate(text: &[u8], at: usize, fields: &[Field]) -> Result<(Predicate, usize), Error> {
    let failed = |cause, at: usize| {
        Err(Error {
            cause,
            column: at + 1,
        })
    };
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let rest = &text[at..];
    let len = rest.iter().take_while(|byte| is_word(byte)).count();
    let Some(field) = find(fields, &rest[..len]) else {
        return failed(Cause::FieldNotFound, at + len);
    };
    let at = skip_space(text, at + len);
    let Some((operator, len)) = Operator::read(&text[at..]) else {
        return failed(Cause::InvalidOperator, at);
    };
    let start = skip_space(text, at + len);
    let is_order = !matches!(operator, Operator::Equal | Operator::NotEqual | Operator::Glob);
    match text.get(start) {
        Some(quote @ (b'\'' | b'"')) => {
            if is_order {
                return failed(Cause::IllegalFieldOperator, start);
            }
            if !field.is_string() {
                return failed(Cause::ExpectDigit, start);
            }
            let start = start + 1;
            let Some(len) = text[start..].iter().position(|byte| byte == quote) else {
                return failed(Cause::MissingQuote, text.len());
            };
            if len > MAX_STRING {
                return failed(Cause::OperandTooLong, start + len);
            }
            let end = start + len;
            Ok((Predicate::text(field, operator, start..end), end + 1))
        }
        Some(b'-' | b'0'..=b'9') => {
            if field.is_string() {
                return failed(Cause::ExpectString, start);
            }
            if operator == Operator::Glob || matches!(field.kind, Kind::Array(_)) {
                return failed(Cause::IllegalFieldOperator, start);
            }
            let sign = usize::from(text[start] == b'-');
            let digits = text[start + sign..].iter();
            let end = start + sign + digits.take_while(|byte| byte.is_ascii_alphanumeric()).count();
            if end - start > MAX_NUMBER {
                return failed(Cause::OperandTooLong, end);
            }
            match number(&text[start..end], field.signed) {
                Some(value) => Ok((Predicate::integer(field, operator, value), end)),
                None => failed(Cause::IllegalInteger, start),
            }
        }
        _ => failed(Cause::InvalidValue, start),
    }
}

/// A number in C's notation, with a sign only if that is asked for.
fn number(text: &[u8], signed: bool) -> Option<i64> {
    let text = core::str::from_utf8(text).ok()?;
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) if signed => (true, digits),
        Some(_) => return None,
        None => (false, text),
    };
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None if digits.len() > 1 && digits.starts_with('0') => u64::from_str_radix(digits, 8),
        None => digits.parse(),
    }
    .ok()?;
    match (signed, negative) {
        (false, _) => Some(value.cast_signed()),
        (true, false) => i64::try_from(value).ok(),
        (true, true) => 0_i64.checked_sub_unsigned(value),
    }
}
