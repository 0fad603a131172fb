//! Finding room in memory before there is an allocator: in the pieces that the machine reports, outside of
//! what is used.

use core::ops::Range;

/// The lowest address, a multiple of `align` (not 0), at which `size` bytes lie in one of `pieces` and
/// overlap nothing in `taken`. The pieces are searched in their order. `None`: there is no such place.
pub fn room<P, T>(pieces: P, taken: T, size: u64, align: u64) -> Option<u64>
where
    P: IntoIterator<Item = Range<u64>>,
    T: IntoIterator<Item = Range<u64>> + Clone,
{
    pieces.into_iter().find_map(|piece| {
        let mut at = piece.start.checked_next_multiple_of(align)?;
        loop {
            let end = at.checked_add(size).filter(|end| *end <= piece.end)?;
            let mut others = taken.clone().into_iter();
            match others.find(|other| other.start.max(at) < other.end.min(end)) {
                None => return Some(at),
                Some(other) => at = other.end.checked_next_multiple_of(align)?,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::room;
    use core::iter::once;
    use core::ops::Range;

    #[test]
    fn lowest_place_that_is_free() {
        let pieces = [0x1000..0x4000, 0x8000..0x10000];
        let find =
            |taken: &[Range<u64>], size, align| room(pieces.clone(), taken.iter().cloned(), size, align);
        assert_eq!(find(&[], 0x1000, 0x1000), Some(0x1000));
        assert_eq!(find(&[], 0x3000, 0x1000), Some(0x1000));
        // The first piece does not do: it is too small, or its one aligned address is taken.
        assert_eq!(find(&[], 0x3001, 0x1000), Some(0x8000));
        assert_eq!(find(&[], 0x1000, 0x4000), Some(0x8000));
        assert_eq!(find(&[0x1000..0x3800, 0..0], 0x1000, 0x1000), Some(0x8000));
        // Between two taken ranges, in whatever order they are given.
        assert_eq!(find(&[0x3000..0x9000, 0x0..0x1800], 0x1000, 0x800), Some(0x1800));
        assert_eq!(find(&[0x1000..0x4000, 0x8000..0xf001], 0x1000, 0x1000), None);
        assert_eq!(find(&[], 0x8001, 1), None);
        // Nothing wraps around.
        assert_eq!(room(once(0..u64::MAX), once(0..u64::MAX), 1, 0x1000), None);
        assert_eq!(room(once(u64::MAX - 8..u64::MAX), [], 16, 16), None);
    }

    #[test]
    fn as_looking_at_every_address() {
        // All ways to take up to two ranges of eight addresses, all sizes and alignments.
        let ranges: Vec<_> = (0..8u64).flat_map(|a| (a..8).map(move |b| a..b)).collect();
        for first in &ranges {
            for second in &ranges {
                for (size, align) in (1..6).flat_map(|size| [1, 2, 4].map(|align| (size, align))) {
                    let (pieces, taken) = ([1..4, 5..12], [first.clone(), second.clone()]);
                    let fits = |at: &u64| {
                        let own = *at..*at + size;
                        at.is_multiple_of(align)
                            && pieces.iter().any(|p| p.start <= own.start && own.end <= p.end)
                            && own.clone().all(|byte| taken.iter().all(|t| !t.contains(&byte)))
                    };
                    let expected = (0..12).find(fits);
                    assert_eq!(
                        room(pieces.clone(), taken.clone(), size, align),
                        expected,
                        "{taken:?} {size} {align}"
                    );
                }
            }
        }
    }
}
