//! Settings that are a line of text.

use super::SetText;
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// The bytes that a read of the line `value` at `pos` into `room` bytes returns. The line ends with a
/// newline, for which there is always room.
pub fn read(value: &[u8], size: usize, pos: u64, room: usize) -> Vec<u8> {
    let value = &value[..value.len().min(size)];
    let Some(rest) = usize::try_from(pos).ok().and_then(|pos| value.get(pos..)) else {
        return Vec::new();
    };
    let mut bytes = rest[..rest.len().min(room)].to_vec();
    if bytes.len() < room {
        bytes.push(b'\n');
    }
    bytes
}

/// Writes `bytes` at `pos` of the line, which then ends behind them. Returns how many are accepted, and by
/// how much the position moves. A write behind the line's end has no effect.
pub fn write(
    bytes: &[u8],
    size: usize,
    pos: u64,
    get: &fn() -> Vec<u8>,
    set: Option<SetText>,
) -> Result<(usize, usize), Errno> {
    let mut value = get();
    value.truncate(size.saturating_sub(1));
    let Some(set) = set else { return Err(Errno::EACCES) };
    if bytes.is_empty() || pos > value.len() as u64 {
        return Ok((bytes.len(), 0));
    }
    value.truncate(pos as usize);
    let line = bytes.split(|b| matches!(b, 0 | b'\n')).next().unwrap_or_default();
    let room = size - 1 - value.len();
    value.extend_from_slice(&line[..line.len().min(room)]);
    set(&value)?;
    Ok((bytes.len(), bytes.len()))
}
