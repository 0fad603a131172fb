//! Numbers as Linux's files take them: decimal, `0x` or `0` for octal, perhaps a `+` before.

use crate::Error;

/// The number that `text` is.
///
/// # Errors
/// [`Error::Invalid`]: it is none. [`Error::Range`]: it has more than a word.
pub(crate) fn parse(text: &[u8]) -> Result<usize, Error> {
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    let (radix, digits) = match digits {
        [b'0', b'x' | b'X', rest @ ..] if rest.first().is_some_and(u8::is_ascii_hexdigit) => (16, rest),
        [b'0', ..] => (8, digits),
        _ => (10, digits),
    };
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
    use super::parse;
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
    }
}
