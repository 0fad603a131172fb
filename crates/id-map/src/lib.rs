//! Maps of ids, as user namespaces have them: which ids of a namespace stand for which ids outside.
//!
//! A map is written once, as text, and then only read: few extents are looked through, many are kept in the
//! order of both sides and searched.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec::Vec;

/// The id that nobody has.
pub const INVALID: u32 = u32::MAX;
/// How many extents a map may have (`UID_GID_MAP_MAX_EXTENTS`).
pub const MAX_EXTENTS: usize = 340;
/// Up to so many extents are looked through in the order in which they were written.
const FEW: usize = 5;

/// Why a text is no map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// A line is not three numbers, an extent is empty or too long, two overlap, or there are too many.
    Malformed,
    /// There is no memory for it.
    NoMemory,
}

/// Neighbouring ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first id inside.
    pub first: u32,
    /// The id outside for which the first stands.
    pub lower: u32,
    /// How many ids there are; not 0.
    pub count: u32,
}

/// Where in `count` ids from `first` on both `id` and the one `more` after it are.
fn offset(first: u32, count: u32, id: u32, more: u32) -> Option<u32> {
    let at = id.checked_sub(first)?;
    (at.checked_add(more)? < count).then_some(at)
}

fn meet(a: u32, b: u32, (counts_a, counts_b): (u32, u32)) -> bool {
    a <= b + (counts_b - 1) && b <= a + (counts_a - 1)
}

impl Extent {
    fn is_valid(&self) -> bool {
        let fits = |first: u32| first != INVALID && first.checked_add(self.count).is_some();
        self.count != 0 && fits(self.first) && fits(self.lower)
    }
    fn overlaps(&self, other: &Self) -> bool {
        let counts = (self.count, other.count);
        meet(self.first, other.first, counts) || meet(self.lower, other.lower, counts)
    }
}

/// Takes blanks off.
fn skip_blanks(text: &mut &[u8]) {
    let blanks = text.iter().take_while(|&&b| is_blank(b)).count();
    *text = &text[blanks..];
}

fn is_blank(b: u8) -> bool {
    matches!(b, b' ' | b'\t'..=b'\r' | 0xa0)
}

/// Takes a decimal number off. As in Linux none is 0, and one that is too large loses its high bits.
fn number(text: &mut &[u8]) -> u32 {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let (number, rest) = text.split_at(digits);
    *text = rest;
    number
        .iter()
        .fold(0u32, |n, b| n.wrapping_mul(10).wrapping_add(u32::from(b - b'0')))
}

/// Reads one line.
fn line(mut text: &[u8]) -> Option<Extent> {
    let mut next = |last: bool| {
        skip_blanks(&mut text);
        let n = number(&mut text);
        match text.first() {
            Some(&b) if is_blank(b) => Some(n),
            None if last => Some(n),
            _ => None,
        }
    };
    let extent = Extent {
        first: next(false)?,
        lower: next(false)?,
        count: next(true)?,
    };
    skip_blanks(&mut text);
    (text.is_empty() && extent.is_valid()).then_some(extent)
}

/// Reads a whole map; what follows a NUL does not count. The extents are those that were written, their lower
/// ids still those of the writer's namespace.
pub fn parse(text: &[u8]) -> Result<Vec<Extent>, Error> {
    let text = text.split(|&b| b == 0).next().unwrap_or(text);
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let mut extents: Vec<Extent> = Vec::new();
    for text in text.split(|&b| b == b'\n') {
        let new = line(text).ok_or(Error::Malformed)?;
        if extents.len() == MAX_EXTENTS || extents.iter().any(|old| old.overlaps(&new)) {
            return Err(Error::Malformed);
        }
        extents.try_reserve(1).map_err(|_| Error::NoMemory)?;
        extents.push(new);
    }
    Ok(extents)
}

/// A map that does not change.
#[derive(Debug)]
pub struct IdMap {
    /// In the order in which they are shown: few as they were written, many by their first ids.
    inside: Vec<Extent>,
    /// By their lower ids; empty if there are few.
    outside: Vec<Extent>,
}

impl IdMap {
    /// Of extents as [`parse`] returns them, whose lower ids `convert` makes ids of the kernel: it is given
    /// the first one and how many there are. `Ok(None)`: one of them could not be converted.
    pub fn new(
        mut extents: Vec<Extent>,
        mut convert: impl FnMut(u32, u32) -> Option<u32>,
    ) -> Result<Option<Self>, Error> {
        for extent in &mut extents {
            let Some(lower) = convert(extent.lower, extent.count) else {
                return Ok(None);
            };
            extent.lower = lower;
        }
        let mut outside = Vec::new();
        if extents.len() > FEW {
            outside
                .try_reserve_exact(extents.len())
                .map_err(|_| Error::NoMemory)?;
            outside.extend_from_slice(&extents);
            outside.sort_unstable_by_key(|extent| extent.lower);
            extents.sort_unstable_by_key(|extent| extent.first);
        }
        Ok(Some(Self {
            inside: extents,
            outside,
        }))
    }

    /// The extents, in the order in which they are shown.
    pub fn extents(&self) -> &[Extent] {
        &self.inside
    }

    /// The kernel's id for `id`, if the `count` ids from it on are in one extent. `count` is not 0.
    pub fn down(&self, id: u32, count: u32) -> Option<u32> {
        let within = |e: &Extent| Some(e.lower + offset(e.first, e.count, id, count - 1)?);
        if self.outside.is_empty() {
            return self.inside.iter().find_map(within);
        }
        let after = self.inside.partition_point(|e| e.first <= id);
        within(self.inside.get(after.checked_sub(1)?)?)
    }

    /// The id inside for an id of the kernel.
    pub fn up(&self, id: u32) -> Option<u32> {
        let within = |e: &Extent| Some(e.first + offset(e.lower, e.count, id, 0)?);
        if self.outside.is_empty() {
            return self.inside.iter().find_map(within);
        }
        let after = self.outside.partition_point(|e| e.lower <= id);
        within(self.outside.get(after.checked_sub(1)?)?)
    }
}

#[cfg(test)]
mod tests;
