//! The entries of a directory by name. Names are hashed and compared a word at a time, and hashed while their
//! end in a path is being found. The table is `hashbrown`'s. The kernel's `fs::dentry` has one for each
//! directory, under its lock.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::sync::Arc;
use hashbrown::{HashTable, TryReserveError};

/// A name that is looked up.
pub struct Wanted<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The last bytes, which do not fill a word.
    tail: usize,
    hash: u32,
}

/// Bytes of a word.
const WORD: usize = size_of::<usize>();

/// Fewer bytes than a word has, as a word.
#[inline(always)]
fn tail_word(bytes: &[u8]) -> usize {
    let wide = |b: &[u8; 4]| u64::from(u32::from_le_bytes(*b));
    match *bytes {
        [] => 0,
        [a] => usize::from(a),
        [a, b] => usize::from(a) | usize::from(b) << 8,
        [a, b, c] => usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16,
        _ => match (bytes.first_chunk(), bytes.last_chunk()) {
            // Where the two overlap they are equal.
            (Some(first), Some(last)) => (wide(first) | wide(last) << (8 * (bytes.len() & 3))) as usize,
            _ => 0,
        },
    }
}

/// The top bit of each byte of `word` that is a slash. Only the lowest of these bits is reliable: higher ones
/// may also be set because of what follows a slash.
#[inline(always)]
fn slashes(word: usize) -> usize {
    const ONES: usize = usize::MAX / 0xff;
    let other = word ^ (ONES * b'/' as usize);
    other.wrapping_sub(ONES) & !other & (ONES << 7)
}

impl<'a> Wanted<'a> {
    /// The name at the start of `path`, up to a slash or the end.
    #[inline(always)]
    pub fn first_of(path: &'a [u8]) -> Self {
        Self::read(path, slashes)
    }
    /// The name `name`.
    #[inline]
    pub fn new(name: &'a [u8]) -> Self {
        Self::read(name, |_| 0)
    }
    /// Multiplies once per word, by half-words: the halves of 64 bits are combined so that the varying bits
    /// of digits meet those that all digits have in common. `ends` returns at which bytes of a word the name
    /// ends.
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
            // The bits below the byte of the lowest set bit.
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
    /// Whether it is empty, "." or "..".
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

/// From this number of names on, a table takes much memory.
const MANY: usize = 200;

/// Values by name.
pub struct NameTable<T>(HashTable<Entry<T>>);

impl<T> Default for NameTable<T> {
    fn default() -> Self {
        Self(HashTable::new())
    }
}

/// The hash for the table, which uses the bits of both ends.
#[inline(always)]
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash ^ hash >> 15)
}

fn hash_of<T>(entry: &Entry<T>) -> u64 {
    spread(Wanted::new(&entry.name).hash)
}

impl<T> NameTable<T> {
    /// How many names there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// The value with the wanted name.
    #[inline(always)]
    pub fn find(&self, wanted: &Wanted<'_>) -> Option<&T> {
        Some(&self.0.find(spread(wanted.hash), |entry| wanted.is(entry))?.value)
    }
    /// The value with the wanted name, to be changed.
    pub fn find_mut(&mut self, wanted: &Wanted<'_>) -> Option<&mut T> {
        Some(
            &mut self
                .0
                .find_mut(spread(wanted.hash), |entry| wanted.is(entry))?
                .value,
        )
    }
    /// Whether adding a name needs much memory, which is better allocated without the lock around the table:
    /// see [`Self::with_room`].
    #[inline(always)]
    pub fn must_grow(&self) -> bool {
        self.0.len() == self.0.capacity() && self.0.len() >= MANY
    }
    /// An empty table with room for `count` names. `Err`: there is no memory.
    pub fn with_room(count: usize) -> Result<Self, TryReserveError> {
        let mut table = HashTable::new();
        table.try_reserve(count, hash_of)?;
        Ok(Self(table))
    }
    /// Moves all entries into the memory of `other`, which is empty and has room for them; `other` gets this
    /// table's memory.
    pub fn move_to(&mut self, other: &mut Self) {
        for entry in self.0.drain() {
            let hash = hash_of(&entry);
            other.0.insert_unique(hash, entry, hash_of);
        }
        core::mem::swap(self, other);
    }
    /// Makes room for one more. `Err`: there is no memory, and nothing has changed.
    pub fn reserve(&mut self) -> Result<(), TryReserveError> {
        self.0.try_reserve(1, hash_of)
    }
    /// Adds a value under a free name. [`Self::reserve`] was called before.
    pub fn insert(&mut self, name: Arc<[u8]>, value: T) {
        let Wanted { tail, hash, .. } = Wanted::new(&name);
        self.0
            .insert_unique(spread(hash), Entry { name, tail, value }, hash_of);
    }
    /// Removes the value with the name.
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
    fn large_tables_grow_into_memory_made_before() {
        let mut table = NameTable::default();
        let mut grown = 0;
        for n in 0..5000usize {
            if table.must_grow() {
                let mut new = NameTable::with_room(2 * table.len()).unwrap();
                assert!(!new.must_grow());
                table.move_to(&mut new);
                assert!(new.is_empty() && !table.must_grow());
                grown += 1;
            }
            let before = table.0.capacity();
            table.reserve().unwrap();
            assert!(n < MANY * 2 || table.0.capacity() == before);
            table.insert(Arc::from(n.to_string().as_bytes()), n);
        }
        assert!((3..10).contains(&grown));
        for n in 0..5000 {
            assert_eq!(table.find(&Wanted::new(n.to_string().as_bytes())), Some(&n));
        }
    }

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
            // The least number of places that a table with so many names has.
            let size = names.len().next_power_of_two();
            let mut places = vec![0u64; size];
            for name in &names {
                let hash = spread(Wanted::new(name.as_bytes()).hash);
                places[hash as usize & (size - 1)] += 1;
            }
            // How many names share a place on average: up to 2 if places were random.
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

    /// Similar names, few enough to be equal sometimes.
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
        fn a_path_begins_with_its_first_name(path in proptest::collection::vec(prop_oneof![3 => any::<u8>(),
            1 => Just(b'/'), 1 => Just(b'.'), 1 => Just(b'0')], 0..40)) {
            let name = path.split(|b| *b == b'/').next().unwrap();
            let (first, alone) = (Wanted::first_of(&path), Wanted::new(name));
            prop_assert_eq!(first.name, name);
            prop_assert_eq!((first.hash, first.tail), (alone.hash, alone.tail));
            prop_assert_eq!(first.is_special(), name.is_empty() || name == b"." || name == b"..");
        }
    }
}
