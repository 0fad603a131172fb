//! How texts stand in records: quoted, or in hexadecimal if a reader could be deceived.

use core::fmt;

/// A text that a program chose: quoted, or in hexadecimal if it has a byte that would not be read back.
pub struct Untrusted<'a>(pub &'a [u8]);

impl Untrusted<'_> {
    /// Whether it stands there as it is.
    pub fn is_plain(&self) -> bool {
        self.0.iter().all(|b| (0x21..=0x7e).contains(b) && *b != b'"')
    }
}

impl fmt::Display for Untrusted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match core::str::from_utf8(self.0) {
            Ok(text) if self.is_plain() => write!(f, "\"{text}\""),
            _ => write!(f, "{}", Hex(self.0)),
        }
    }
}

/// Bytes in hexadecimal.
pub struct Hex<'a>(pub &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02X}"))
    }
}

/// [`Untrusted`], or `(null)`.
pub struct OrNull<'a>(pub Option<&'a [u8]>);

impl fmt::Display for OrNull<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(text) => write!(f, "{}", Untrusted(text)),
            None => f.write_str("(null)"),
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn texts() {
        assert_eq!(Untrusted(b"/bin/sh").to_string(), "\"/bin/sh\"");
        assert_eq!(Untrusted(b"").to_string(), "\"\"");
        assert_eq!(Untrusted(b"a b").to_string(), "612062");
        assert_eq!(Untrusted(b"a\"").to_string(), "6122");
        assert_eq!(Untrusted(&[0xff]).to_string(), "FF");
        assert_eq!(OrNull(None).to_string(), "(null)");
        assert_eq!(OrNull(Some(b"k")).to_string(), "\"k\"");
    }
}
