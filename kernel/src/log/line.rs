//! Text that is put together without memory, for the log and for who writes to it.

use core::fmt;

/// Text of at most `N` bytes. What does not fit is cut off, between two characters; then writing fails, so
/// that nobody goes on formatting.
pub struct Line<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Line<N> {
    /// No text.
    pub const fn new() -> Self {
        Self {
            bytes: [0; N],
            len: 0,
        }
    }
    /// Forgets the text.
    pub fn clear(&mut self) {
        self.len = 0;
    }
    /// The text.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
    /// The text.
    pub fn text(&self) -> &str {
        str::from_utf8(self.bytes()).unwrap_or_default()
    }
}

impl<const N: usize> fmt::Write for Line<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut n = text.len().min(N - self.len);
        while !text.is_char_boundary(n) {
            n -= 1;
        }
        self.bytes[self.len..self.len + n].copy_from_slice(&text.as_bytes()[..n]);
        self.len += n;
        if n < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}
