//! System calls that are allowed whatever their arguments, so that no program need run for them.

use alloc::vec::Vec;

use crate::program::WORDS;
use crate::{Action, Error, Program, Verdict};

/// Whether a program allows a system call whatever its arguments are and wherever it comes from. This runs
/// the program once, at most [`Program::len`] instructions, and says no if it comes to depend on a word that
/// is not known; so it may say no where yes would be right.
pub fn always_allows(program: &Program, arch: u32, nr: u32) -> bool {
    let mut data = [None; WORDS];
    data[0] = Some(nr);
    data[1] = Some(arch);
    program
        .run_partly(&data)
        .is_some_and(|result| Verdict(result).action() == Action::Allow)
}

/// For which system calls all filters of a thread always say yes.
#[derive(Debug, PartialEq, Eq)]
pub struct Bitmap {
    /// A bit for each number; those behind `count` are clear.
    words: Vec<u64>,
    count: u32,
}

impl Bitmap {
    /// For the numbers below `count` of an ABI, and the filters of which `program` is the newest; `before` is
    /// that of the others, for the same ABI. `None` means that there are no others: who went on without a
    /// bitmap after a failed allocation must not pass `None` with the next filter, but goes on without one.
    /// Takes at most `count` times [`Program::len`] steps.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`].
    pub fn new(program: &Program, arch: u32, count: u32, before: Option<&Self>) -> Result<Self, Error> {
        let mut words: Vec<u64> = Vec::new();
        let len = count.div_ceil(u64::BITS) as usize;
        words.try_reserve_exact(len).map_err(|_| Error::NoMemory)?;
        words.resize(len, 0);
        let may = |nr| before.is_none_or(|before| before.allows(nr));
        for (word, first) in words.iter_mut().zip((0..count).step_by(64)) {
            for nr in first..count.min(first.saturating_add(64)) {
                let allowed = may(nr) && always_allows(program, arch, nr);
                *word |= u64::from(allowed) << (nr - first);
            }
        }
        Ok(Self { words, count })
    }

    /// Whether the system call is allowed without a look at its arguments. Numbers that are not below the
    /// count are not, whatever they are. Who gets the number from a program bounds it against speculation.
    #[inline]
    pub fn allows(&self, nr: u32) -> bool {
        let word = self.words.get((nr / u64::BITS) as usize);
        word.is_some_and(|word| word >> (nr % u64::BITS) & 1 != 0)
    }

    /// How many numbers it was made for.
    pub fn count(&self) -> u32 {
        self.count
    }
}
