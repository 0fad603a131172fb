//! Parameters: what stands after a module's name, `name=value name="a b" flag`, as Linux reads it.

use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt::{self, Display, Formatter};

use limen_linux_abi::Errno;

use crate::error::Shown;
use crate::layout::Place;
use crate::machine::Class;
use crate::memory::{Parts, Span, at_mut};
use crate::read::put;

/// How long a text may be, as on Linux.
const MAX_TEXT: usize = 1024;

/// The type of a parameter's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// `bool`: one byte.
    Bool,
    /// `invbool`: one byte, the opposite of what is said.
    InvertedBool,
    /// `bint`: an `int` that is 0 or 1.
    BoolInt,
    /// A number.
    Number {
        /// Its size in bytes.
        size: u8,
        /// Whether it may be negative.
        signed: bool,
        /// Whether it is shown in hexadecimal.
        hex: bool,
    },
    /// `charp`: a pointer of this size to a text.
    Text(u8),
    /// `string`: the text itself, with a NUL.
    Buffer,
}

impl Type {
    /// The type that `parmtype` calls so.
    pub fn named(name: &[u8], class: Class) -> Option<Self> {
        let number = |size: usize, signed| Self::Number {
            size: size as u8,
            signed,
            hex: false,
        };
        Some(match name {
            b"bool" => Self::Bool,
            b"invbool" => Self::InvertedBool,
            b"bint" => Self::BoolInt,
            b"byte" => number(1, false),
            b"short" => number(2, true),
            b"ushort" => number(2, false),
            b"int" => number(4, true),
            b"uint" => number(4, false),
            b"long" => number(class.word(), true),
            b"ulong" => number(class.word(), false),
            b"ullong" => number(8, false),
            b"hexint" => Self::Number {
                size: 4,
                signed: false,
                hex: true,
            },
            b"charp" => Self::Text(class.word() as u8),
            b"string" => Self::Buffer,
            _ => return None,
        })
    }

    /// The size of a value, in bytes; of a [`Type::Buffer`], that of an element.
    pub const fn size(self) -> u8 {
        match self {
            Self::Bool | Self::InvertedBool | Self::Buffer => 1,
            Self::BoolInt => 4,
            Self::Number { size, .. } | Self::Text(size) => size,
        }
    }

    /// Whether its elements are one value.
    pub(crate) fn is_text(self) -> bool {
        self == Self::Buffer
    }
}

/// A parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: Span,
    /// The type of its values.
    pub kind: Type,
    /// Whether it takes several, with commas.
    pub array: bool,
    /// Where the values are.
    pub variable: Place,
    /// Where an array's number of values is.
    pub number: Option<Place>,
    /// How many values there may be.
    pub elements: u32,
    /// The permissions of its file in sysfs, 0 for none.
    pub mode: u16,
}

/// What is wrong with a parameter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadParameter<'p> {
    /// What the program gets.
    pub errno: Errno,
    /// The parameter, as it was called.
    pub name: &'p [u8],
    /// The value.
    pub value: &'p [u8],
}

impl Display for BadParameter<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let what = if self.errno == Errno::ENOSPC {
            "too large"
        } else {
            "invalid"
        };
        let (value, name) = (Shown(self.value), Shown(self.name));
        write!(f, "`{value}' {what} for parameter `{name}'")
    }
}

/// A space, as Linux's `isspace` knows it.
fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t'..=b'\r' | 0xa0)
}

fn trim(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|b| !is_space(*b)).unwrap_or(text.len());
    text.get(start..).unwrap_or(b"")
}

/// The first argument of `args`, which begins with no space: name, value, and what follows.
fn next_argument(args: &[u8]) -> (&[u8], Option<&[u8]>, &[u8]) {
    let (args, quoted) = match args {
        [b'"', rest @ ..] => (rest, true),
        _ => (args, false),
    };
    let (mut quote, mut equals, mut end) = (quoted, 0, args.len());
    for (i, &b) in args.iter().enumerate() {
        match b {
            _ if is_space(b) && !quote => {
                end = i;
                break;
            }
            // An equals sign at the start is part of the name.
            b'=' if equals == 0 => equals = i,
            b'"' => quote = !quote,
            _ => {}
        }
    }
    let rest = trim(args.get(end..).unwrap_or(b""));
    let whole = args.get(..end).unwrap_or(b"");
    let (inner, closed) = match whole {
        [inner @ .., b'"'] => (inner, true),
        _ => (whole, false),
    };
    // The quote that closes the whole argument, or the value, is not part of either.
    let whole = if quoted && closed { inner } else { whole };
    if equals == 0 {
        return (whole, None, rest);
    }
    let name = whole.get(..equals).unwrap_or(b"");
    let value = match whole.get(equals + 1..).unwrap_or(b"") {
        [b'"'] if closed => b"",
        [b'"', value @ .., b'"'] if closed && !quoted => value,
        [b'"', value @ ..] => value,
        value => value,
    };
    (name, Some(value), rest)
}

/// A truth value, as Linux's `kstrtobool` reads it.
fn truth(value: &[u8]) -> Result<bool, Errno> {
    match value {
        [b'y' | b'Y' | b't' | b'T' | b'1', ..] => Ok(true),
        [b'n' | b'N' | b'f' | b'F' | b'0', ..] => Ok(false),
        [b'o' | b'O', b'n' | b'N', ..] => Ok(true),
        [b'o' | b'O', b'f' | b'F', ..] => Ok(false),
        _ => Err(Errno::EINVAL),
    }
}

/// A number without a sign, in the base that its start tells. One line feed may follow.
fn digits(text: &[u8]) -> Result<u64, Errno> {
    let (text, base) = match text {
        [b'0', b'x' | b'X', rest @ ..] if rest.first().is_some_and(u8::is_ascii_hexdigit) => (rest, 16),
        [b'0', ..] => (text, 8),
        _ => (text, 10),
    };
    let (mut value, mut count, mut fits) = (0u64, 0, true);
    for &b in text {
        let Some(digit) = char::from(b).to_digit(base) else {
            break;
        };
        let next = value
            .checked_mul(base.into())
            .and_then(|v| v.checked_add(digit.into()));
        fits &= next.is_some();
        value = next.unwrap_or(0);
        count += 1;
    }
    match text.get(count..) {
        _ if !fits => Err(Errno::ERANGE),
        Some([] | b"\n") if count > 0 => Ok(value),
        _ => Err(Errno::EINVAL),
    }
}

/// A number of `size` bytes, as Linux's `kstrtoint` and its kin read it.
fn number(text: &[u8], size: u8, signed: bool) -> Result<u64, Errno> {
    let unused = 64 - 8 * u32::from(size.clamp(1, 8));
    let (negative, text) = match text {
        [b'-', rest @ ..] if signed => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let value = digits(text)?;
    let most = if signed {
        u64::MAX >> unused >> 1
    } else {
        u64::MAX >> unused
    };
    if value > most + u64::from(negative) {
        return Err(Errno::ERANGE);
    }
    Ok(if negative { value.wrapping_neg() } else { value })
}

/// Writes the low `size` bytes of `value`.
fn store(bytes: &mut [u8], size: u8, value: u64) -> Result<(), Errno> {
    let value = value.to_le_bytes();
    let (Some(to), Some(from)) = (bytes.get_mut(..size.into()), value.get(..size.into())) else {
        return Err(Errno::EINVAL);
    };
    to.copy_from_slice(from);
    Ok(())
}

impl Parameter {
    /// Sets it to `value`, as an argument of the module or a write to its file says. `keep` makes a copy of
    /// a text with a NUL that lives as long as the module, and returns its address.
    pub fn set(
        &self,
        value: Option<&[u8]>,
        parts: &mut Parts<'_>,
        keep: &mut dyn FnMut(&[u8]) -> Option<u64>,
    ) -> Result<(), Errno> {
        let flag = matches!(self.kind, Type::Bool) && !self.array;
        let value = match value {
            Some(value) => value,
            None if flag => b"1",
            None => return Err(Errno::EINVAL),
        };
        if !self.array {
            return self.set_one(0, value, parts, keep);
        }
        let mut count = 0;
        for value in value.split(|b| *b == b',') {
            if count == self.elements {
                return Err(Errno::EINVAL);
            }
            self.set_one(count, value, parts, keep)?;
            count += 1;
        }
        match self.number {
            Some(place) => put(at_mut(parts, place), count.to_le_bytes()).ok_or(Errno::EINVAL),
            None => Ok(()),
        }
    }

    /// Sets the value with number `index`.
    fn set_one(
        &self,
        index: u32,
        value: &[u8],
        parts: &mut Parts<'_>,
        keep: &mut dyn FnMut(&[u8]) -> Option<u64>,
    ) -> Result<(), Errno> {
        let size = self.kind.size();
        let place = Place {
            offset: self.variable.offset + u64::from(index) * u64::from(size),
            ..self.variable
        };
        let bytes = at_mut(parts, place);
        match self.kind {
            Type::Bool | Type::BoolInt => store(bytes, size, truth(value)?.into()),
            Type::InvertedBool => store(bytes, size, (!truth(value)?).into()),
            Type::Number { size, signed, .. } => store(bytes, size, number(value, size, signed)?),
            Type::Text(_) if value.len() > MAX_TEXT => Err(Errno::ENOSPC),
            Type::Text(_) => store(bytes, size, keep(value).ok_or(Errno::ENOMEM)?),
            Type::Buffer if value.len() >= self.elements as usize => Err(Errno::ENOSPC),
            Type::Buffer => {
                let room = bytes.get_mut(..=value.len()).ok_or(Errno::EINVAL)?;
                if let Some((nul, text)) = room.split_last_mut() {
                    text.copy_from_slice(value);
                    *nul = 0;
                }
                Ok(())
            }
        }
    }
}

/// Compares names of parameters, in which `-` and `_` are the same.
fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let same = |b: &u8| if *b == b'-' { b'_' } else { *b };
    a.iter().map(same).cmp(b.iter().map(same))
}

/// What a caller hears about arguments that are not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unused<'p> {
    /// There is no parameter with this name: Linux warns, and loads the module.
    Unknown(&'p [u8]),
    /// This stands after `--`.
    AfterDashes(&'p [u8]),
}

impl Display for Unused<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => write!(f, "unknown parameter '{}' ignored", Shown(name)),
            Self::AfterDashes(rest) => write!(f, "parameters '{}' after `--' ignored", Shown(rest)),
        }
    }
}

/// All parameters of a module.
#[derive(Debug)]
pub struct Parameters {
    /// By name. Of several with one name only one is ever set.
    list: Vec<Parameter>,
}

impl Parameters {
    pub(crate) fn new(mut list: Vec<Parameter>, parts: &Parts<'_>) -> Self {
        // Which of several with one name is first does not depend on how they are sorted.
        let key = |p: &Parameter| (p.name.place.offset, p.variable.part, p.variable.offset);
        list.sort_unstable_by(|a, b| {
            compare(a.name.bytes(parts), b.name.bytes(parts)).then_with(|| key(a).cmp(&key(b)))
        });
        Self { list }
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Parameter> {
        self.list.iter()
    }

    /// The one with this name.
    pub fn find(&self, name: &[u8], parts: &Parts<'_>) -> Option<&Parameter> {
        let order = |p: &Parameter| compare(p.name.bytes(parts), name);
        let at = self.list.partition_point(|p| order(p) == Ordering::Less);
        self.list.get(at).filter(|p| order(p) == Ordering::Equal)
    }

    /// Sets parameters as `args` says, up to its end or a NUL. `keep` is that of [`Parameter::set`]; `unused`
    /// hears of what sets nothing.
    pub fn parse<'p>(
        &self,
        args: &'p [u8],
        parts: &mut Parts<'_>,
        keep: &mut dyn FnMut(&[u8]) -> Option<u64>,
        unused: &mut dyn FnMut(Unused<'p>),
    ) -> Result<(), BadParameter<'p>> {
        let end = args.iter().position(|b| *b == 0).unwrap_or(args.len());
        let mut rest = trim(args.get(..end).unwrap_or(b""));
        while !rest.is_empty() {
            let (name, value, after) = next_argument(rest);
            rest = after;
            if value.is_none() && name == b"--" {
                if !rest.is_empty() {
                    unused(Unused::AfterDashes(rest));
                }
                break;
            }
            let Some(parameter) = self.find(name, parts).copied() else {
                unused(Unused::Unknown(name));
                continue;
            };
            parameter.set(value, parts, keep).map_err(|errno| BadParameter {
                errno,
                name,
                value: value.unwrap_or(b""),
            })?;
        }
        Ok(())
    }
}
