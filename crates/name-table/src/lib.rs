//! How the entries of a directory are found by name. Names are hashed and compared a word at a time, and
//! hashed while their end in a path is being found. The tables are the kernel's (`fs::children`): readers
//! look into them without a lock.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

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
    /// What is to be kept with the name.
    #[inline(always)]
    pub fn key(&self) -> Key {
        Key {
            hash: self.hash,
            tail: self.tail,
        }
    }
    /// Among `places` chains, a power of two, the one that has this name.
    #[inline(always)]
    pub fn place(&self, places: usize) -> usize {
        place(self.hash, places)
    }
    /// Whether it is the name `name`, with which `key` was kept.
    #[inline(always)]
    pub fn is(&self, key: &Key, name: &[u8]) -> bool {
        if self.tail != key.tail || self.name.len() != name.len() {
            return false;
        }
        let (ours, theirs) = (self.name.as_chunks::<WORD>().0, name.as_chunks::<WORD>().0);
        ours.iter()
            .zip(theirs)
            .all(|(a, b)| usize::from_ne_bytes(*a) == usize::from_ne_bytes(*b))
    }
}

/// What a table keeps with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    hash: u32,
    /// The last bytes, which do not fill a word.
    tail: usize,
}

impl Key {
    /// See [`Wanted::place`].
    #[inline(always)]
    pub fn place(&self, places: usize) -> usize {
        place(self.hash, places)
    }
}

/// Uses the bits of both ends of the hash.
#[inline(always)]
fn place(hash: u32, places: usize) -> usize {
    (hash ^ hash >> 15) as usize & places.wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
                places[Wanted::new(name.as_bytes()).place(size)] += 1;
            }
            // How many names share a place on average: up to 2 if places were random.
            let met = places.iter().map(|n| n * n).sum::<u64>() as f64 / names.len() as f64;
            assert!(met < 2.3, "{what}: {met}");
        }
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
        fn a_name_is_itself_only(one in name(), other in name()) {
            let (wanted, key) = (Wanted::new(&one), Wanted::new(&other).key());
            prop_assert_eq!(wanted.is(&key, &other), one == other);
            prop_assert!(wanted.is(&wanted.key(), &one));
            for places in [1, 2, 64] {
                prop_assert!(wanted.place(places) < places);
                prop_assert_eq!(wanted.place(places), wanted.key().place(places));
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
