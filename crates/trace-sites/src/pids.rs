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
    /// The set that one write of `text` makes of this one: the numbers in `text` are added. (A file that is
    /// truncated when it is opened begins with none.)
    ///
    /// # Errors
    /// [`Error::Invalid`]: a word is no number, or too long. [`Error::Permission`]: no process can have the
    /// number.
    pub fn with(&self, mut text: &[u8]) -> Result<Self, Error> {
        let mut pids = self.try_clone()?;
        let mut tokens = Tokens::new(WORD_BOUND);
        while let Some(word) = tokens.next(&mut text)? {
            pids.insert(parse(word)?)?;
        }
        if let Some(word) = tokens.last() {
            pids.insert(parse(word)?)?;
        }
        Ok(pids)
    }
}

fn parse(word: &[u8]) -> Result<u32, Error> {
    match number::parse(word) {
        Ok(pid) if pid < BOUND => Ok(pid as u32),
        Ok(_) => Err(Error::Permission),
        Err(_) => Err(Error::Invalid),
    }
}

/// As the file shows it: a number a line.
impl fmt::Display for Pids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            f.write_str("no pid\n")?;
        }
        self.iter().try_for_each(|pid| writeln!(f, "{pid}"))
    }
}

/// Both lists of a tracer.
#[derive(Debug, Default)]
pub struct PidFilter {
    /// Only these are traced; none: all.
    pub only: Pids,
    /// These are not traced all the same.
    pub not: Pids,
}

impl PidFilter {
    /// Whether the process `pid` is traced. Allocates nothing.
    #[inline]
    pub fn traces(&self, pid: u32) -> bool {
        (self.only.is_empty() || self.only.contains(pid)) && !self.not.contains(pid)
    }
    /// `parent` has forked `child`: with the option `function-fork` children are in the lists that their
    /// parents are in. If memory runs out the child is in neither.
    pub fn forked(&mut self, parent: u32, child: u32) -> Result<(), Error> {
        if self.only.contains(parent) {
            self.only.insert(child)?;
        }
        if self.not.contains(parent)
            && let Err(error) = self.not.insert(child)
        {
            self.only.remove(child);
            return Err(error);
        }
        Ok(())
    }
    /// `pid` has ended: with the option `function-fork` its number leaves the lists, since it will be
    /// another's. (A list of which all have ended traces everything, as in Linux.)
    pub fn exited(&mut self, pid: u32) {
        self.only.remove(pid);
        self.not.remove(pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    #[test]
    fn written_and_read() {
        let pids = Pids::new().with(b"30 0x10\n1 1073741823").unwrap();
        assert_eq!(pids.to_string(), "1\n16\n30\n1073741823\n");
        let more = pids.with(b" 512 ").unwrap();
        assert_eq!(more.iter().collect::<Vec<_>>(), [1, 16, 30, 512, 1073741823]);
        assert_eq!(Pids::new().with(b" \n").unwrap().to_string(), "no pid\n");
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
            assert_eq!(Pids::new().with(text).unwrap_err(), error, "{text:?}");
        }
    }

    #[test]
    fn children() {
        let mut filter = PidFilter::default();
        assert!(filter.traces(5));
        filter.only = Pids::new().with(b"1 2").unwrap();
        filter.not = Pids::new().with(b"2").unwrap();
        assert_eq!([1, 2, 3].map(|pid| filter.traces(pid)), [true, false, false]);
        filter.forked(1, 600).unwrap();
        filter.forked(2, 700).unwrap();
        filter.forked(3, 800).unwrap();
        assert_eq!(
            [600, 700, 800].map(|pid| filter.traces(pid)),
            [true, false, false]
        );
        assert!(filter.not.contains(700) && !filter.only.contains(800));
        filter.exited(600);
        assert!(!filter.traces(600));
        assert_eq!(filter.only.chunks.len(), 2);
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
