//! A set of sites: a bitset that grows.

use crate::{Error, Site};
use alloc::vec::Vec;

/// A set of sites, S/8 bytes for indexes below S.
#[derive(Debug, Default)]
pub struct SiteSet {
    words: Vec<u64>,
}

/// The sites of a set, in order.
pub struct Sites<W> {
    words: W,
    bits: u64,
    /// The number of sites before those of `bits`.
    base: u32,
    next: u32,
}

/// The sites whose bits `words` has.
pub(crate) fn sites_of<W: Iterator<Item = u64>>(words: W) -> Sites<W> {
    Sites {
        words,
        bits: 0,
        base: 0,
        next: 0,
    }
}

/// The sites that `bits` has, of which the first is 64 × `index`.
pub(crate) fn sites_of_word(index: usize, bits: u64) -> Sites<core::iter::Empty<u64>> {
    let base = index as u32 * 64;
    Sites {
        words: core::iter::empty(),
        bits,
        base,
        next: base,
    }
}

impl<W: Iterator<Item = u64>> Iterator for Sites<W> {
    type Item = Site;

    fn next(&mut self) -> Option<Site> {
        while self.bits == 0 {
            self.bits = self.words.next()?;
            self.base = self.next;
            self.next += 64;
        }
        let bit = self.bits.trailing_zeros();
        self.bits &= self.bits - 1;
        Some(Site(self.base + bit))
    }
}

/// Which word, and which bit of it.
fn place(site: Site) -> (usize, u64) {
    (site.index() / 64, 1 << (site.0 % 64))
}

impl SiteSet {
    /// The empty set, without memory.
    pub const fn new() -> Self {
        Self { words: Vec::new() }
    }
    /// A copy.
    pub fn try_clone(&self) -> Result<Self, Error> {
        let mut words = Vec::new();
        words.try_reserve_exact(self.words.len())?;
        words.extend_from_slice(&self.words);
        Ok(Self { words })
    }
    /// Makes room for the sites below `bound`; they are inserted without allocating then.
    pub fn reserve(&mut self, bound: u32) -> Result<(), Error> {
        let words = bound.div_ceil(64) as usize;
        if words > self.words.len() {
            self.words.try_reserve(words - self.words.len())?;
            self.words.resize(words, 0);
        }
        Ok(())
    }
    /// Inserts `site`; says whether it is new.
    pub fn insert(&mut self, site: Site) -> Result<bool, Error> {
        self.reserve(site.0.checked_add(1).ok_or(Error::Invalid)?)?;
        Ok(self.put(site))
    }
    /// Inserts a site that there is room for; says whether it is new. Allocates nothing.
    pub(crate) fn put(&mut self, site: Site) -> bool {
        let (word, bit) = place(site);
        let old = self.words[word];
        self.words[word] |= bit;
        old & bit == 0
    }
    /// Removes `site`; says whether it was there.
    pub fn remove(&mut self, site: Site) -> bool {
        let (word, bit) = place(site);
        let Some(word) = self.words.get_mut(word) else {
            return false;
        };
        let was = *word & bit != 0;
        *word &= !bit;
        was
    }
    /// Whether `site` is in the set.
    #[inline]
    pub fn contains(&self, site: Site) -> bool {
        let (word, bit) = place(site);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }
    /// Whether no site is in the set.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }
    /// How many sites are in the set.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }
    /// The sites, in order.
    pub fn iter(&self) -> Sites<impl Iterator<Item = u64> + '_> {
        sites_of(self.words.iter().copied())
    }
    /// Takes away what is in `other`.
    pub fn subtract(&mut self, other: &Self) {
        self.words
            .iter_mut()
            .zip(&other.words)
            .for_each(|(word, other)| *word &= !other);
    }
    /// Leaves what is in `other` too.
    pub fn intersect(&mut self, other: &Self) {
        self.words
            .iter_mut()
            .enumerate()
            .for_each(|(index, word)| *word &= other.word(index));
    }
    /// 64 sites, of which the first is 64 × `index`.
    pub(crate) fn word(&self, index: usize) -> u64 {
        self.words.get(index).copied().unwrap_or(0)
    }
    /// How many words there are.
    pub(crate) fn word_count(&self) -> usize {
        self.words.len()
    }
}
