//! Numbers as Linux's files take them: decimal, `0x` or `0` for octal, perhaps a `+` before.

use crate::Error;

/// The digits that `text` begins with, without what says their radix, and that radix.
fn digits(text: &[u8]) -> (&[u8], u32) {
    match text {
        [b'0', b'x' | b'X', rest @ ..] if rest.first().is_some_and(u8::is_ascii_hexdigit) => (rest, 16),
        [b'0', ..] => (text, 8),
        _ => (text, 10),
    }
}

/// The number that `text` begins with, whatever follows; 0 if there is none. `None`: it has more than a word.
pub(crate) fn prefix(text: &[u8]) -> Option<usize> {
    let (digits, radix) = digits(text);
    let mut digits = digits
        .iter()
        .map_while(|&digit| char::from(digit).to_digit(radix));
    digits.try_fold(0_usize, |value, digit| {
        value.checked_mul(radix as usize)?.checked_add(digit as usize)
    })
}

/// The number that `text` is.
///
/// # Errors
/// [`Error::Invalid`]: it is none. [`Error::Range`]: it has more than a word.
pub(crate) fn parse(text: &[u8]) -> Result<usize, Error> {
    let (digits, radix) = digits(text.strip_prefix(b"+").unwrap_or(text));
    if digits.is_empty() {
        return Err(Error::Invalid);
    }
    let (mut value, mut over) = (0_usize, false);
    for &digit in digits {
        let digit = char::from(digit).to_digit(radix).ok_or(Error::Invalid)?;
        let next = value
            .checked_mul(radix as usize)
            .and_then(|v| v.checked_add(digit as usize));
        over |= next.is_none();
        value = next.unwrap_or(0);
    }
    if over { Err(Error::Range) } else { Ok(value) }
}

#[cfg(test)]
mod tests {
    use super::{parse, prefix};
    use crate::Error;

    #[test]
    fn as_linux() {
        assert_eq!(parse(b"12"), Ok(12));
        assert_eq!(parse(b"+12"), Ok(12));
        assert_eq!(parse(b"0x1f"), Ok(31));
        assert_eq!(parse(b"017"), Ok(15));
        assert_eq!(parse(b"0"), Ok(0));
        for bad in [&b""[..], b"+", b"-1", b"08", b"0x", b"12a", b"++1", b" 1"] {
            assert_eq!(parse(bad), Err(Error::Invalid), "{bad:?}");
        }
        assert_eq!(parse(b"99999999999999999999999"), Err(Error::Range));
        let begins = [&b"12x"[..], b"08", b"0x1g", b"x", b"", b"0xg"];
        assert_eq!(begins.map(prefix), [12, 0, 1, 0, 0, 0].map(Some));
        assert_eq!(prefix(b"99999999999999999999999x"), None);
    }
}
