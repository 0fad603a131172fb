//! Text of the kernel whose arguments were recorded as they are, packed as Linux's `vbin_printf` does: of
//! four bytes or more aligned to four, a character a byte, texts in place with their zero.

use crate::entry::LONG;
use crate::line::text;
use core::fmt::{self, Write};

/// Arguments that are left.
struct Packed<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Packed<'a> {
    /// The next number of `size` bytes; 0 if it is not there.
    fn number(&mut self, size: usize) -> u64 {
        self.at = self.at.next_multiple_of(size.min(4));
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        self.at = self.at.saturating_add(size);
        let four = |rest: &[u8]| {
            rest.first_chunk()
                .map_or(0, |four| u32::from_ne_bytes(*four).into())
        };
        match size {
            1 => rest.first().map_or(0, |byte| (*byte).into()),
            4 => four(rest),
            _ => rest.first_chunk().map_or(0, |eight| u64::from_ne_bytes(*eight)),
        }
    }

    /// The next text.
    fn text(&mut self) -> &'a [u8] {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
        self.at = self.at.saturating_add(end + 1);
        &rest[..end]
    }
}

/// Writes what `format` makes of the arguments in `packed`. It knows `%s`, `%c`, `%d`, `%u`, `%x`, `%ld`,
/// `%lu`, `%lx`, `%p` and `%%`; what else is behind a `%` stands for itself. Arguments that were cut off are
/// 0 or empty.
pub fn write(format: &[u8], packed: &[u8], out: &mut dyn Write) -> fmt::Result {
    let mut packed = Packed { bytes: packed, at: 0 };
    let mut rest = format;
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        text(&rest[..at], out)?;
        rest = &rest[at + 1..];
        let is_long = rest.first() == Some(&b'l');
        rest = &rest[usize::from(is_long)..];
        let size = if is_long { LONG } else { 4 };
        let Some((kind, behind)) = rest.split_first() else {
            return Ok(());
        };
        rest = behind;
        match kind {
            b's' => text(packed.text(), out)?,
            b'c' => text(&[packed.number(1) as u8], out)?,
            b'd' if size == 4 => write!(out, "{}", packed.number(4) as i32)?,
            b'd' => write!(out, "{}", packed.number(size) as i64)?,
            b'u' => write!(out, "{}", packed.number(size))?,
            b'x' => write!(out, "{:x}", packed.number(size))?,
            b'p' => write!(out, "{:x}", packed.number(LONG))?,
            other => text(&[*other], out)?,
        }
    }
    text(rest, out)
}

#[cfg(test)]
mod tests {
    use super::write;
    use alloc::string::String;
    use alloc::vec::Vec;

    fn shown(format: &str, packed: &[u8]) -> String {
        let mut out = String::new();
        write(format.as_bytes(), packed, &mut out).expect("text can be written");
        out
    }

    #[test]
    fn arguments() {
        let mut packed = Vec::from(*b"who\0z");
        packed.resize(8, 0);
        packed.extend((-7i32).to_ne_bytes());
        packed.extend(usize::MAX.to_ne_bytes());
        packed.extend((-2isize).to_ne_bytes());
        packed.extend(0xbeef_usize.to_ne_bytes());
        packed.extend(b"end\0");
        let text = shown("%s %c %d%% %lx %ld %p %s\n", &packed);
        let wide = "f".repeat(2 * size_of::<usize>());
        assert_eq!(text, ["who z -7% ", &wide, " -2 beef end\n"].concat());
    }

    #[test]
    fn what_is_cut_off() {
        assert_eq!(shown("%s|%d|%lu|%c|%", b"so"), "so|0|0|\0|");
        assert_eq!(shown("100%", b""), "100");
        assert_eq!(shown("%q%l", b""), "q");
        assert_eq!(shown("%l", b""), "");
    }
}
