//! Lists of processes: `set_ftrace_pid`, whose processes alone are traced, and `set_ftrace_notrace_pid`,
//! whose are not.

use crate::tokens::Tokens;
use crate::{Error, number};
use alloc::vec::Vec;
use core::fmt;

/// Words of a chunk.
const WORDS: usize = 8;
/// Process numbers of a chunk.
const CHUNK: u32 = 64 * WORDS as u32;
/// As in Linux: no process has a larger number.
const BOUND: usize = 1 << 30;
/// As in Linux: a word of the file has no more bytes.
const WORD_BOUND: usize = 127;

#[derive(Clone, Copy, Debug)]
struct Chunk {
    /// The first number, as a multiple of [`CHUNK`].
    number: u32,
    bits: [u64; WORDS],
}

/// A sparse set of process numbers: 68 bytes for each 512 numbers of which one is in it.
#[derive(Debug, Default)]
pub struct Pids {
    /// In order, none of them empty.
    chunks: Vec<Chunk>,
}

fn place(pid: u32) -> (u32, usize, u64) {
    (pid / CHUNK, (pid % CHUNK / 64) as usize, 1 << (pid % 64))
}

impl Pids {
    /// No process.
    pub const fn new() -> Self {
        Self { chunks: Vec::new() }
    }
    /// A copy.
    pub fn try_clone(&self) -> Result<Self, Error> {
        let mut chunks = Vec::new();
        chunks.try_reserve_exact(self.chunks.len())?;
        chunks.extend_from_slice(&self.chunks);
        Ok(Self { chunks })
    }
    fn find(&self, number: u32) -> Result<usize, usize> {
        self.chunks.binary_search_by_key(&number, |chunk| chunk.number)
    }
    /// Whether `pid` is in the set. Allocates nothing.
    #[inline]
    pub fn contains(&self, pid: u32) -> bool {
        let (number, word, bit) = place(pid);
        self.find(number)
            .is_ok_and(|at| self.chunks[at].bits[word] & bit != 0)
    }
    /// Whether no process is in the set.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }
    /// Inserts `pid`.
    pub fn insert(&mut self, pid: u32) -> Result<(), Error> {
        let (number, word, bit) = place(pid);
        let at = match self.find(number) {
            Ok(at) => at,
            Err(at) => {
                self.chunks.try_reserve(1)?;
                self.chunks.insert(
                    at,
                    Chunk {
                        number,
                        bits: [0; WORDS],
                    },
                );
                at
            }
        };
        self.chunks[at].bits[word] |= bit;
        Ok(())
    }
    /// Removes `pid`. Allocates nothing.
    pub fn remove(&mut self, pid: u32) {
        let (number, word, bit) = place(pid);
        if let Ok(at) = self.find(number) {
            self.chunks[at].bits[word] &= !bit;
            if self.chunks[at].bits == [0; WORDS] {
                self.chunks.remove(at);
            }
        }
    }
    /// The numbers, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.chunks.iter().flat_map(|chunk| {
            let bits = chunk.bits;
            (0..CHUNK)
                .filter(move |&bit| bits[bit as usize / 64] >> (bit % 64) & 1 != 0)
                .map(move |bit| chunk.number * CHUNK + bit)
        })
    }
}

/// What one write of `text` makes of a list: its numbers are added. (A file that is truncated when it is
/// opened begins without a list.) `None`: there is still no number.
///
/// # Errors
/// [`Error::Invalid`]: a word is no number, or too long. [`Error::Permission`]: no process can have the
/// number.
pub fn written(list: Option<&Pids>, mut text: &[u8]) -> Result<Option<Pids>, Error> {
    let mut pids = list.map_or(Ok(Pids::new()), Pids::try_clone)?;
    let mut tokens = Tokens::new(WORD_BOUND);
    while let Some(word) = tokens.next(&mut text)? {
        pids.insert(parse(word)?)?;
    }
    if let Some(word) = tokens.last() {
        pids.insert(parse(word)?)?;
    }
    Ok((!pids.is_empty()).then_some(pids))
}

/// What the file shows of a list: a number a line.
pub struct Shown<'a>(pub Option<&'a Pids>);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(pids) => pids.iter().try_for_each(|pid| writeln!(f, "{pid}")),
            None => f.write_str("no pid\n"),
        }
    }
}

fn parse(word: &[u8]) -> Result<u32, Error> {
    match number::parse(word) {
        Ok(pid) if pid < BOUND => Ok(pid as u32),
        Ok(_) => Err(Error::Permission),
        Err(_) => Err(Error::Invalid),
    }
}

/// Both lists of a tracer.
#[derive(Debug, Default)]
pub struct PidFilter {
    /// Only these are traced, if there is a list; if all of them have ended, none is.
    pub only: Option<Pids>,
    /// These are not traced all the same.
    pub not: Option<Pids>,
}

impl PidFilter {
    /// A copy.
    pub fn try_clone(&self) -> Result<Self, Error> {
        let copy = |list: &Option<Pids>| list.as_ref().map(Pids::try_clone).transpose();
        Ok(Self {
            only: copy(&self.only)?,
            not: copy(&self.not)?,
        })
    }
    /// Whether `pid` is in one of the lists. Allocates nothing.
    #[inline]
    pub fn names(&self, pid: u32) -> bool {
        [&self.only, &self.not]
            .into_iter()
            .flatten()
            .any(|list| list.contains(pid))
    }
    /// Whether the process `pid` is traced. Allocates nothing.
    #[inline]
    pub fn traces(&self, pid: u32) -> bool {
        self.only.as_ref().is_none_or(|list| list.contains(pid))
            && !self.not.as_ref().is_some_and(|list| list.contains(pid))
    }
    /// `parent` has forked `child`: with the option `function-fork` children are in the lists that their
    /// parents are in. If memory runs out the child is in neither.
    pub fn forked(&mut self, parent: u32, child: u32) -> Result<(), Error> {
        let follow = |list: &mut Option<Pids>| match list {
            Some(list) if list.contains(parent) => list.insert(child),
            _ => Ok(()),
        };
        let done = follow(&mut self.only).and_then(|()| follow(&mut self.not));
        if done.is_err() {
            self.exited(child);
        }
        done
    }
    /// `pid` has ended: with the option `function-fork` its number leaves the lists, since it will be
    /// another's.
    pub fn exited(&mut self, pid: u32) {
        for list in [&mut self.only, &mut self.not].into_iter().flatten() {
            list.remove(pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::{String, ToString};

    fn list(text: &str) -> Option<Pids> {
        written(None, text.as_bytes()).unwrap()
    }
    fn shown(list: &Option<Pids>) -> String {
        Shown(list.as_ref()).to_string()
    }

    #[test]
    fn written_and_read() {
        let pids = list("30 0x10\n1 1073741823");
        assert_eq!(shown(&pids), "1\n16\n30\n1073741823\n");
        let more = written(pids.as_ref(), b" 512 ").unwrap();
        assert_eq!(shown(&more), "1\n16\n30\n512\n1073741823\n");
        assert_eq!(shown(&list(" \n")), "no pid\n");
    }

    #[test]
    fn errors() {
        for (text, error) in [
            (&b"x"[..], Error::Invalid),
            (b"1 -1", Error::Invalid),
            (b"99999999999999999999", Error::Invalid),
            (b"1073741824", Error::Permission),
            (&[b'1'; 128], Error::Invalid),
        ] {
            assert_eq!(written(None, text).unwrap_err(), error, "{text:?}");
        }
    }

    #[test]
    fn children() {
        let mut filter = PidFilter::default();
        assert!(filter.traces(5));
        filter.only = list("1 2");
        filter.not = list("2");
        assert_eq!([1, 2, 3].map(|pid| filter.traces(pid)), [true, false, false]);
        filter.forked(1, 600).unwrap();
        filter.forked(2, 700).unwrap();
        filter.forked(3, 800).unwrap();
        assert_eq!(
            [600, 700, 800].map(|pid| filter.traces(pid)),
            [true, false, false]
        );
        assert_eq!(
            (shown(&filter.only), shown(&filter.not)),
            ("1\n2\n600\n700\n".into(), "2\n700\n".into())
        );
        assert!(filter.names(700) && !filter.names(800));
        [1, 2, 600, 700].iter().for_each(|&pid| filter.exited(pid));
        let copy = filter.try_clone().unwrap();
        assert!(!copy.names(1) && !copy.traces(1) && copy.only.is_some());
        // A list of which all have ended is still one.
        assert!(!filter.traces(1) && !filter.traces(5));
        assert_eq!(shown(&filter.only), "");
    }

    proptest::proptest! {
        #[test]
        fn as_a_set(steps in proptest::collection::vec((proptest::bool::ANY, 0_u32..3000), 0..300)) {
            let (mut pids, mut model) = (Pids::new(), alloc::collections::BTreeSet::new());
            for (insert, pid) in steps {
                if insert {
                    pids.insert(pid).unwrap();
                    model.insert(pid);
                } else {
                    pids.remove(pid);
                    model.remove(&pid);
                }
                assert_eq!(pids.contains(pid), insert);
            }
            assert!(pids.iter().eq(model.iter().copied()));
            assert_eq!(pids.is_empty(), model.is_empty());
        }
    }
}
