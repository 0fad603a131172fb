//! The memory of a module's parts, as the caller lends it.

use crate::layout::{Layout, PARTS, Part, Place};
use crate::machine::Class;
use crate::read::{range, string};
use crate::{Error, MAX_NAME};

/// The memory of a part: at least [`Layout::size`] bytes.
#[derive(Debug)]
pub struct Memory<'b> {
    /// Where it is when the module runs: a multiple of the page size.
    pub address: u64,
    /// The bytes, as they can be written now.
    pub bytes: &'b mut [u8],
}

/// The memory of all parts, by the part's number.
pub type Parts<'b> = [Memory<'b>; PARTS];

/// Bytes in a part: a name in the module's own memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where they begin.
    pub place: Place,
    /// How many they are.
    pub len: usize,
}

impl Span {
    /// The bytes.
    pub fn bytes<'m>(&self, parts: &'m Parts<'_>) -> &'m [u8] {
        let bytes = &*parts[self.place.part as usize].bytes;
        range(bytes, self.place.offset, self.len as u64).unwrap_or(b"")
    }
}

/// Whether the parts are as the layout needs them.
pub(crate) fn check<'a>(layout: &Layout, class: Class, parts: &Parts<'_>) -> Result<(), Error<'a>> {
    let top = match class {
        Class::Bits32 => 1 << 32,
        Class::Bits64 => u64::MAX,
    };
    for part in Part::ALL {
        let (memory, size) = (&parts[part as usize], layout.size(part));
        let end = memory.address.checked_add(size);
        let odd = memory.address & (layout.page() - 1) != 0;
        if size > 0 && (odd || end.is_none_or(|end| end > top) || (memory.bytes.len() as u64) < size) {
            return Err(Error::Buffer);
        }
    }
    Ok(())
}

/// Where the `size` bytes at `address` are, if they are in one part.
pub(crate) fn locate(layout: &Layout, parts: &Parts<'_>, address: u64, size: u64) -> Option<Place> {
    Part::ALL.into_iter().find_map(|part| {
        let offset = address.checked_sub(parts[part as usize].address)?;
        let end = offset.checked_add(size)?;
        (size > 0 && end <= layout.used(part)).then_some(Place { part, offset })
    })
}

/// The string at `address`, which must be a constant that stays, of 1 to [`MAX_NAME`] bytes.
pub(crate) fn name_at(layout: &Layout, parts: &Parts<'_>, address: u64) -> Option<Span> {
    let place = locate(layout, parts, address, 1)?;
    if !matches!(place.part, Part::Rodata | Part::AfterInit) {
        return None;
    }
    let used = range(parts[place.part as usize].bytes, 0, layout.used(place.part))?;
    let name = string(used, usize::try_from(place.offset).ok()?)?;
    let len = name.len();
    (1..=MAX_NAME).contains(&len).then_some(Span { place, len })
}

/// The bytes from a place on.
pub(crate) fn at_mut<'m>(parts: &'m mut Parts<'_>, place: Place) -> &'m mut [u8] {
    let bytes = &mut *parts[place.part as usize].bytes;
    match usize::try_from(place.offset) {
        Ok(offset) => bytes.get_mut(offset..).unwrap_or_default(),
        Err(_) => &mut [],
    }
}
