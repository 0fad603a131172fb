//! Settings that are numbers. A write sets as many numbers as it has, separated by blanks, each in C's
//! notation. Only a write at position 0 has an effect. A read returns the whole text, cut to the size of the
//! buffer.

use super::{Kind, Number, Scope};
use alloc::vec::Vec;
use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed,
};
use limen_linux_abi::Errno;

/// A place that holds a number.
pub trait Value: Sync {
    /// The number. An unsigned one of 64 bits is returned as its bits.
    fn get(&self) -> i64;
    /// Sets the number, which is in its range.
    fn set(&self, value: i64);
    /// Sets the number, if it can be that beside its range.
    fn try_set(&self, value: i64) -> bool {
        self.set(value);
        true
    }
}

macro_rules! values {
    ($($atomic:ty: $word:ty),*) => {$(
        impl Value for $atomic {
            fn get(&self) -> i64 {
                self.load(Relaxed) as i64
            }
            fn set(&self, value: i64) {
                self.store(value as $word, Relaxed);
            }
        }
    )*};
}
values!(AtomicI32: i32, AtomicU8: u8, AtomicU32: u32, AtomicU64: u64, AtomicUsize: usize);

impl Value for AtomicBool {
    fn get(&self) -> i64 {
        self.load(Relaxed).into()
    }
    fn set(&self, value: i64) {
        self.store(value != 0, Relaxed);
    }
}

/// A number that is computed, or whose change has effects.
pub struct Hook(pub fn() -> i64, pub fn(i64));

impl Value for Hook {
    fn get(&self) -> i64 {
        self.0()
    }
    fn set(&self, value: i64) {
        self.1(value);
    }
}

/// A number that cannot be changed.
pub struct Fixed(pub i64);

impl Value for Fixed {
    fn get(&self) -> i64 {
        self.0
    }
    fn set(&self, _: i64) {}
}

/// `kernel.sysctl_writes_strict`. 1: a write behind position 0 is ignored; 0 or -1: it has an effect, with or
/// without a warning.
pub static STRICT: AtomicI32 = AtomicI32::new(1);

/// How many bytes of a write are looked at.
const LONGEST: usize = crate::mm::PAGE_SIZE - 1;
/// How many digits a number may have.
const DIGITS: usize = 21;

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

fn skip_spaces(text: &mut &[u8]) {
    while let [first, rest @ ..] = text
        && is_space(*first)
    {
        *text = rest;
    }
}

/// Takes a number: whether it is negative, and its absolute value. `EINVAL`: there is none, or it is not
/// followed by a blank.
fn take(text: &mut &[u8]) -> Result<(bool, u64), Errno> {
    let mut rest = *text;
    let negative = rest.len() > 1 && rest[0] == b'-';
    if negative {
        rest = &rest[1..];
    }
    if !rest.first().is_some_and(u8::is_ascii_digit) {
        return Err(Errno::EINVAL);
    }
    let hex = rest.len() > 2 && rest[0] == b'0' && rest[1] | 0x20 == b'x' && rest[2].is_ascii_hexdigit();
    let base = if hex {
        rest = &rest[2..];
        16
    } else if rest[0] == b'0' {
        8
    } else {
        10
    };
    let mut value: usize = 0;
    while let [first, more @ ..] = rest
        && let Some(digit) = char::from(*first).to_digit(base)
    {
        let wider = value.checked_mul(base as usize);
        value = wider
            .and_then(|v| v.checked_add(digit as usize))
            .ok_or(Errno::EINVAL)?;
        rest = more;
    }
    let long = text.len() - rest.len() >= DIGITS;
    if long || rest.first().is_some_and(|b| !matches!(b, b' ' | b'\t' | b'\n')) {
        return Err(Errno::EINVAL);
    }
    *text = rest;
    Ok((negative, value as u64))
}

impl Number {
    fn set_int(&self, ns: &Scope, negative: bool, size: u64) -> Result<(), Errno> {
        let value = i64::try_from(size).map_err(|_| Errno::EINVAL)?;
        let value = if negative { -value } else { value };
        let fits = i32::try_from(value).is_ok();
        if !fits || !(self.min..=self.max).contains(&value) {
            return Err(Errno::EINVAL);
        }
        if self.value(ns).try_set(value) {
            Ok(())
        } else {
            Err(Errno::EINVAL)
        }
    }
    fn set_long(&self, ns: &Scope, negative: bool, size: u64) -> Result<(), Errno> {
        let any = self.min == i64::MIN;
        let within = i64::try_from(size).is_ok_and(|size| (self.min..=self.max).contains(&size));
        if negative || !(any || within) {
            return Err(Errno::EINVAL);
        }
        self.value(ns).set(size as i64);
        Ok(())
    }
    fn set_unsigned(&self, ns: &Scope, negative: bool, size: u64) -> Result<(), Errno> {
        let fits = size <= u32::MAX.into() && (self.min..=self.max).contains(&(size as i64));
        if negative || !fits {
            return Err(Errno::EINVAL);
        }
        self.value(ns).set(size as i64);
        Ok(())
    }
}

/// Sets as many of `numbers` as are written. Returns how many bytes of `text` were used.
fn write_row(
    numbers: &[Number],
    text: &[u8],
    ns: &Scope,
    set: fn(&Number, &Scope, bool, u64) -> Result<(), Errno>,
) -> Result<usize, Errno> {
    let mut rest = &text[..text.len().min(LONGEST)];
    let mut found = false;
    for number in numbers {
        skip_spaces(&mut rest);
        if rest.is_empty() {
            break;
        }
        let (negative, size) = take(&mut rest)?;
        set(number, ns, negative, size)?;
        found = true;
    }
    skip_spaces(&mut rest);
    if !found {
        return Err(Errno::EINVAL);
    }
    Ok(text.len() - rest.len())
}

/// Sets the number that is written.
fn write_one(text: &[u8], set: impl FnOnce(bool, u64) -> Result<(), Errno>) -> Result<usize, Errno> {
    let mut rest = &text[..text.len().min(LONGEST)];
    skip_spaces(&mut rest);
    let (negative, size) = take(&mut rest)?;
    set(negative, size)?;
    Ok(text.len())
}

/// Handles a write of `text` at `pos`. Returns how many bytes are accepted, and by how much the position
/// moves. `ns`: the namespaces whose setting it may be.
pub fn write(kind: &Kind, text: &[u8], pos: u64, ns: &Scope) -> Result<(usize, usize), Errno> {
    if text.is_empty() {
        return Ok((0, 0));
    }
    if pos != 0 && STRICT.load(Relaxed) == 1 {
        return Ok((text.len(), text.len()));
    }
    let n = match kind {
        Kind::Ints(numbers) => write_row(numbers, text, ns, Number::set_int)?,
        Kind::Longs(numbers) => write_row(numbers, text, ns, Number::set_long)?,
        Kind::Unsigned(number) => write_one(text, |negative, size| number.set_unsigned(ns, negative, size))?,
        Kind::Size(value, rounded) => write_one(text, |negative, size| {
            let size = rounded(size).filter(|_| !negative).ok_or(Errno::EINVAL)?;
            value.set(size as i64);
            Ok(())
        })?,
        Kind::Ignored(_) | Kind::Text(..) => text.len(),
    };
    Ok((n, n))
}

/// The bytes that a read at `pos` into `room` bytes returns: all of them, or none.
pub fn read(kind: &Kind, pos: u64, room: usize, ns: &Scope) -> Vec<u8> {
    use alloc::format;
    if pos != 0 {
        return Vec::new();
    }
    let row = |numbers: &[Number], show: fn(i64) -> alloc::string::String| {
        let shown: Vec<_> = numbers.iter().map(|n| show(n.value(ns).get())).collect();
        shown.join("\t")
    };
    let mut line = match kind {
        Kind::Ints(numbers) => row(numbers, |n| format!("{n}")),
        Kind::Longs(numbers) => row(numbers, |n| format!("{}", n as usize)),
        Kind::Unsigned(number) => format!("{}", number.value(ns).get() as u32),
        Kind::Size(value, _) => format!("{}", value.get() as u32),
        Kind::Ignored(shown) => format!("{shown}"),
        Kind::Text(..) => return Vec::new(),
    }
    .into_bytes();
    line.push(b'\n');
    line.truncate(room);
    line
}
