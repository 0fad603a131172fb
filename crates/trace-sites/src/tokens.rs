//! Text that is written to a file in any number of writes, taken apart into words. A word ends at white space
//! or a zero byte; what a write leaves unended goes on in the next one, or is ended by closing the file.

use crate::Error;
use alloc::vec::Vec;

/// What is written to one open file.
#[derive(Debug)]
pub struct Tokens {
    word: Vec<u8>,
    bound: usize,
    /// The word in `word` has ended, and was returned.
    ended: bool,
    comments: bool,
    in_comment: bool,
}

fn ends(byte: u8) -> bool {
    matches!(byte, 0 | b' ' | 0x09..=0x0d)
}

impl Tokens {
    /// For words of at most `bound` bytes, which have to hold any function's name and a command.
    pub const fn new(bound: usize) -> Self {
        Self::make(bound, false)
    }
    /// The same, where a word that begins with `#` is a comment up to the end of its line. (The files of
    /// function filters have none in Linux; with them, what was read from such a file can be written back.)
    pub const fn with_comments(bound: usize) -> Self {
        Self::make(bound, true)
    }
    const fn make(bound: usize, comments: bool) -> Self {
        Self {
            word: Vec::new(),
            bound,
            ended: false,
            comments,
            in_comment: false,
        }
    }
    /// The next word that ends in `text`, of which it takes what it has read. `None`: all of it is read.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the word is too long; what was read of it is forgotten. [`Error::NoMemory`]: the
    /// same.
    pub fn next(&mut self, text: &mut &[u8]) -> Result<Option<&[u8]>, Error> {
        if core::mem::take(&mut self.ended) {
            self.word.clear();
        }
        while let Some((&byte, rest)) = text.split_first() {
            *text = rest;
            if self.in_comment {
                self.in_comment = byte != b'\n';
            } else if ends(byte) {
                if !self.word.is_empty() {
                    self.ended = true;
                    return Ok(Some(&self.word));
                }
            } else if self.comments && self.word.is_empty() && byte == b'#' {
                self.in_comment = true;
            } else if let Err(error) = self.push(byte) {
                self.word.clear();
                return Err(error);
            }
        }
        Ok(None)
    }
    fn push(&mut self, byte: u8) -> Result<(), Error> {
        if self.word.len() >= self.bound {
            return Err(Error::Invalid);
        }
        self.word.try_reserve(1)?;
        self.word.push(byte);
        Ok(())
    }
    /// The word that nothing has ended yet: it is whole when the file is closed.
    pub fn last(&self) -> Option<&[u8]> {
        (!self.ended && !self.word.is_empty()).then_some(&self.word)
    }
    /// Forgets what was written, as opening the file anew does.
    pub fn clear(&mut self) {
        self.word.clear();
        (self.ended, self.in_comment) = (false, false);
    }
}

#[cfg(test)]
mod tests {
    use super::Tokens;
    use crate::Error;
    use alloc::vec::Vec;

    fn words(tokens: &mut Tokens, writes: &[&str]) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        for write in writes {
            let mut text = write.as_bytes();
            while let Some(word) = tokens.next(&mut text).unwrap() {
                all.push(word.to_vec());
            }
            assert!(text.is_empty());
        }
        all.extend(tokens.last().map(<[u8]>::to_vec));
        all
    }

    #[test]
    fn over_any_writes() {
        for writes in [
            &["a bc\n\td\0e"][..],
            &["a", " ", "b", "c", "\n", "d ", "e"],
            &["  a b", "c d", " e"],
        ] {
            assert_eq!(
                words(&mut Tokens::new(10), writes),
                [&b"a"[..], b"bc", b"d", b"e"],
                "{writes:?}"
            );
        }
    }

    #[test]
    fn comments() {
        let text = &["#### all functions enabled ####\na # b\nc#d\n#", "# e\nf"];
        assert_eq!(
            words(&mut Tokens::with_comments(10), text),
            [&b"a"[..], b"c#d", b"f"]
        );
        assert_eq!(words(&mut Tokens::new(10), &["# a"]), [&b"#"[..], b"a"]);
    }

    #[test]
    fn bound() {
        let mut tokens = Tokens::new(3);
        assert_eq!(tokens.next(&mut &b"abc "[..]), Ok(Some(&b"abc"[..])));
        assert_eq!(tokens.next(&mut &b"ab"[..]), Ok(None));
        assert_eq!(tokens.next(&mut &b"cd "[..]), Err(Error::Invalid));
        assert_eq!(tokens.last(), None);
        assert_eq!(tokens.next(&mut &b"x "[..]), Ok(Some(&b"x"[..])));
        assert_eq!(tokens.last(), None);
        assert_eq!(tokens.next(&mut &b""[..]), Ok(None));
    }
}
