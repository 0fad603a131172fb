//! The entries of a directory by name: names are hashed and compared a word at a time, and hashed while their end is looked for in a path. The table is
//! `hashbrown`'s. The kernel's `fs::dentry` keeps one for each directory, under its lock.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::sync::Arc;
use hashbrown::{HashTable, TryReserveError};

/// A name that is looked for.
pub struct Wanted<'a> {
    /// All of it.
    pub name: &'a [u8],
    /// What does not fill a word.
    tail: usize,
    hash: u32,
}

/// Bytes of a word.
const WORD: usize = size_of::<usize>();

/// Fewer bytes than a word has as one.
#[inline(always)]
fn tail_word(bytes: &[u8]) -> usize {
    let wide = |b: &[u8; 4]| u64::from(u32::from_le_bytes(*b));
    match *bytes {
        [] => 0,
        [a] => usize::from(a),
        [a, b] => usize::from(a) | usize::from(b) << 8,
        [a, b, c] => usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16,
        _ => match (bytes.first_chunk(), bytes.last_chunk()) {
            // Where they overlap they are the same.
            (Some(first), Some(last)) => (wide(first) | wide(last) << (8 * (bytes.len() & 3))) as usize,
            _ => 0,
        },
    }
}

/// Of the bytes of `word` that are slashes, the top bits, of which the lowest is right: those above may also be set for what follows a slash.
#[inline(always)]
fn slashes(word: usize) -> usize {
    const ONES: usize = usize::MAX / 0xff;
    let other = word ^ (ONES * b'/' as usize);
    other.wrapping_sub(ONES) & !other & (ONES << 7)
}

impl<'a> Wanted<'a> {
    /// What `path` begins with, up to a slash or its end.
    #[inline(always)]
    pub fn first_of(path: &'a [u8]) -> Self {
        Self::read(path, slashes)
    }
    /// `name`.
    #[inline]
    pub fn new(name: &'a [u8]) -> Self {
        Self::read(name, |_| 0)
    }
    /// One multiplication per word, of half a word: the halves of 64 bits are laid over each other so that digits meet what is the same in all digits.
    /// `ends` says at which bytes of a word the name ends.
    #[inline(always)]
    fn read(text: &'a [u8], ends: impl Fn(usize) -> usize) -> Self {
        let mix = |hash: u32, word: usize| {
            let word = word as u64;
            let folded = word as u32 ^ ((word >> 32) as u32).rotate_left(12);
            (hash.rotate_left(9) ^ folded).wrapping_mul(0x9e37_79b1)
        };
        let (mut hash, mut rest) = (0, text);
        let (word, end, most) = loop {
            let Some((bytes, more)) = rest.split_first_chunk::<WORD>() else {
                let word = tail_word(rest);
                break (word, ends(word), rest.len());
            };
            let word = usize::from_le_bytes(*bytes);
            let end = ends(word);
            if end != 0 {
                break (word, end, WORD);
            }
            hash = mix(hash, word);
            rest = more;
        };
        let walked = text.len() - rest.len();
        let (tail, more) = if end == 0 {
            (word, most)
        } else {
            // What is below the byte of the lowest bit.
            let below = ((end & end.wrapping_neg()) - 1) >> 7;
            (word & below, end.trailing_zeros() as usize / 8)
        };
        let name = text.get(..walked + more).unwrap_or(text);
        Self {
            name,
            tail,
            hash: mix(hash, tail),
        }
    }
    /// Whether it names nothing, or a directory itself or the one above.
    #[inline(always)]
    pub fn is_special(&self) -> bool {
        const DOT: usize = b'.' as usize;
        const DOTS: usize = DOT | DOT << 8;
        matches!((self.name.len(), self.tail), (0, _) | (1, DOT) | (2, DOTS))
    }
    #[inline(always)]
    fn is<T>(&self, entry: &Entry<T>) -> bool {
        if self.tail != entry.tail || self.name.len() != entry.name.len() {
            return false;
        }
        let (ours, theirs) = (self.name.as_chunks::<WORD>().0, entry.name.as_chunks::<WORD>().0);
        ours.iter()
            .zip(theirs)
            .all(|(a, b)| usize::from_ne_bytes(*a) == usize::from_ne_bytes(*b))
    }
}

struct Entry<T> {
    name: Arc<[u8]>,
    /// The name's [`Wanted::tail`].
    tail: usize,
    value: T,
}

/// Values by name.
pub struct NameTable<T>(HashTable<Entry<T>>);

impl<T> Default for NameTable<T> {
    fn default() -> Self {
        Self(HashTable::new())
    }
}

/// The hash as the table takes it, which uses its bits from both ends.
#[inline(always)]
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash ^ hash >> 15)
}

fn hash_of<T>(entry: &Entry<T>) -> u64 {
    spread(Wanted::new(&entry.name).hash)
}

impl<T> NameTable<T> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// What has the name that is wanted.
    #[inline(always)]
    pub fn find(&self, wanted: &Wanted<'_>) -> Option<&T> {
        Some(&self.0.find(spread(wanted.hash), |entry| wanted.is(entry))?.value)
    }
    /// The same, to be changed.
    pub fn find_mut(&mut self, wanted: &Wanted<'_>) -> Option<&mut T> {
        Some(
            &mut self
                .0
                .find_mut(spread(wanted.hash), |entry| wanted.is(entry))?
                .value,
        )
    }
    /// Makes room for one more. An error if there is no memory: nothing has changed then.
    pub fn reserve(&mut self) -> Result<(), TryReserveError> {
        self.0.try_reserve(1, hash_of)
    }
    /// Adds a value whose name is free, after [`Self::reserve`].
    pub fn insert(&mut self, name: Arc<[u8]>, value: T) {
        let Wanted { tail, hash, .. } = Wanted::new(&name);
        self.0
            .insert_unique(spread(hash), Entry { name, tail, value }, hash_of);
    }
    /// Removes what has the name.
    pub fn remove(&mut self, wanted: &Wanted<'_>) -> Option<T> {
        let found = self.0.find_entry(spread(wanted.hash), |entry| wanted.is(entry));
        Some(found.ok()?.remove().0.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn usual_names_lie_apart() {
        let usual: [(&str, Vec<String>); 7] = [
            ("numbers", (0..20_000).map(|n| n.to_string()).collect()),
            ("padded numbers", (0..20_000).map(|n| format!("{n:08}")).collect()),
            ("objects", (0..20_000).map(|n| format!("file-{n:x}.o")).collect()),
            (
                "dates",
                (0..9_000)
                    .map(|n| format!("2026-{:02}-{:02}.{:03}.log", n / 900 + 1, n / 30 % 30, n % 30))
                    .collect(),
            ),
            (
                "two letters",
                (0..1352u32)
                    .map(|n| format!("{}{}", n / 26, (b'a' + (n % 26) as u8) as char))
                    .collect(),
            ),
            (
                "hashes",
                (0..20_000u64)
                    .map(|n| format!("{:016x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
                    .collect(),
            ),
            (
                "long",
                (0..5_000)
                    .map(|n| format!("{}{n}{}", "a".repeat(60), "z".repeat(60)))
                    .collect(),
            ),
        ];
        for (what, names) in usual {
            // As many places as a table of so many names has at least.
            let size = names.len().next_power_of_two();
            let mut places = vec![0u64; size];
            for name in &names {
                let hash = spread(Wanted::new(name.as_bytes()).hash);
                places[hash as usize & (size - 1)] += 1;
            }
            // How many names lie where a name does: 2 at most on average if places were random.
            let met = places.iter().map(|n| n * n).sum::<u64>() as f64 / names.len() as f64;
            assert!(met < 2.3, "{what}: {met}");
        }
    }

    #[test]
    fn an_empty_table_has_nothing() {
        let mut table = NameTable::<u8>::default();
        assert!(table.is_empty() && table.find(&Wanted::new(b"x")).is_none());
        assert!(table.find_mut(&Wanted::new(b"")).is_none() && table.remove(&Wanted::new(b"x")).is_none());
    }

    /// Names that are alike, and few enough to meet again.
    fn name() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'b')], 1..5),
            (1..40usize).prop_map(|n| vec![b'a'; n]),
            proptest::collection::vec(
                any::<u8>().prop_filter("a slash", |b| *b != b'/' && *b != 0),
                1..30
            ),
        ]
    }

    proptest! {
        #[test]
        fn as_an_ordinary_map(steps in proptest::collection::vec((name(), 0..4u8), 1..400)) {
            let (mut table, mut map) = (NameTable::default(), BTreeMap::new());
            for (n, (name, what)) in steps.into_iter().enumerate() {
                let wanted = Wanted::new(&name);
                prop_assert_eq!(table.find(&wanted), map.get(&name));
                match what {
                    0 => prop_assert_eq!(table.remove(&wanted), map.remove(&name)),
                    1 => {
                        let (ours, theirs) = (table.find_mut(&wanted), map.get_mut(&name));
                        prop_assert_eq!(&ours, &theirs);
                        if let (Some(ours), Some(theirs)) = (ours, theirs) {
                            (*ours, *theirs) = (n, n);
                        }
                    }
                    _ if map.contains_key(&name) => {}
                    _ => {
                        table.reserve().unwrap();
                        table.insert(Arc::from(&name[..]), n);
                        map.insert(name, n);
                    }
                }
                prop_assert_eq!(table.len(), map.len());
            }
            for (name, n) in &map {
                prop_assert_eq!(table.find(&Wanted::new(name)), Some(n));
            }
        }

        #[test]
        fn a_path_begins_with_its_first_name(path in proptest::collection::vec(prop_oneof![3 => any::<u8>(), 1 => Just(b'/'), 1 => Just(b'.'), 1 => Just(b'0')], 0..40)) {
            let name = path.split(|b| *b == b'/').next().unwrap();
            let (first, alone) = (Wanted::first_of(&path), Wanted::new(name));
            prop_assert_eq!(first.name, name);
            prop_assert_eq!((first.hash, first.tail), (alone.hash, alone.tail));
            prop_assert_eq!(first.is_special(), name.is_empty() || name == b"." || name == b"..");
        }
    }
}
