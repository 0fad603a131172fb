//! Little-endian numbers, and what grows with a file, without a panic.

use alloc::vec::Vec;

use crate::Error;

/// How many bytes of a name are looked at: a longer one is refused. Names may share bytes in a string table,
/// so that without a bound reading them all would take the square of the file's size.
pub const MAX_NAME: usize = 512;

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

/// Writes `value` at the start of `bytes`; `None` if they are too few.
pub(crate) fn put<const N: usize>(bytes: &mut [u8], value: [u8; N]) -> Option<()> {
    *bytes.first_chunk_mut()? = value;
    Some(())
}

/// The `size` bytes at `offset`.
pub(crate) fn range(bytes: &[u8], offset: u64, size: u64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    bytes.get(start..)?.get(..usize::try_from(size).ok()?)
}

/// The string that starts at `at`, without its NUL; `None` if there is no NUL within [`MAX_NAME`] bytes.
pub(crate) fn string(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let rest = bytes.get(at..)?;
    let near = rest.get(..=MAX_NAME).unwrap_or(rest);
    near.get(..near.iter().position(|b| *b == 0)?)
}

/// An empty vector with room for `count`.
pub(crate) fn room<'a, T>(count: usize) -> Result<Vec<T>, Error<'a>> {
    let mut vec = Vec::new();
    vec.try_reserve_exact(count).map_err(|_| Error::NoMemory)?;
    Ok(vec)
}

/// Appends `value`.
pub(crate) fn push<'a, T>(vec: &mut Vec<T>, value: T) -> Result<(), Error<'a>> {
    vec.try_reserve(1).map_err(|_| Error::NoMemory)?;
    vec.push(value);
    Ok(())
}
