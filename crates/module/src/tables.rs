//! The module's own tables: what it exports, its parameters, which of its instructions may fault, and the
//! texts that its records in traces refer to. They are arrays of words that relocations have filled.

use alloc::vec::Vec;

use crate::Error;
use crate::info::Info;
use crate::layout::{Layout, Place};
use crate::machine::{Class, Machine};
use crate::memory::{Parts, Span, at_mut, locate, name_at};
use crate::object::Object;
use crate::params::{Parameter, Parameters, Type};
use crate::read::{push, u32_at, u64_at};

/// The section of exported symbols.
pub const EXPORTS: &str = ".limen.exports";
/// The section of parameters.
pub const PARAMETERS: &str = ".limen.params";
/// The section of instructions that may fault.
pub const FAULTS: &str = ".limen.faults";
/// The section of texts to which records in traces refer.
pub const FORMATS: &str = ".limen.formats";

/// A symbol that a module exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Export {
    /// Its name, in the module's constants.
    pub name: Span,
    /// Its address.
    pub address: u64,
    /// Whether it is only for modules with a licence compatible with the GPL.
    pub gpl_only: bool,
}

/// Instructions that may fault, from the one at an address to before another, and where to go on then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MayFault {
    /// The first.
    pub from: u64,
    /// Behind the last.
    pub until: u64,
    /// Where the thread goes on.
    pub to: u64,
}

/// A text to which records in traces refer: they may be read when the module has gone, so the kernel keeps
/// a copy, and the module is told where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// The text, in the module's constants.
    pub text: Span,
    /// The module's pointer to it.
    pointer: Place,
    class: Class,
}

impl Format {
    /// The module's pointer is to `address` from now on.
    pub fn point_to(&self, parts: &mut Parts<'_>, address: u64) {
        let bytes = address.to_le_bytes();
        let bytes = &bytes[..self.class.word()];
        if let Some(pointer) = at_mut(parts, self.pointer).get_mut(..bytes.len()) {
            pointer.copy_from_slice(bytes);
        }
    }
}

/// Calls `take` with the place and the words of each entry of the sections called `name`, each of `N` words;
/// it returns what is wrong.
fn entries<'a, M: Machine, const N: usize>(
    object: &Object<'a, M>,
    layout: &Layout,
    parts: &mut Parts<'_>,
    name: &str,
    mut take: impl FnMut(&Parts<'_>, Place, [u64; N]) -> Result<(), Failed>,
) -> Result<(), Error<'a>> {
    let word = M::CLASS.word();
    for (index, section) in object.sections().iter().enumerate() {
        let Some(place) = layout.place(index) else {
            continue;
        };
        if section.name != name.as_bytes() {
            continue;
        }
        let wrong = |what| Error::Section {
            section: section.name,
            index,
            what,
        };
        if section.data.len() % (word * N) != 0 {
            return Err(wrong("has entries of another size"));
        }
        for entry in 0..section.data.len() / (word * N) {
            let bytes = at_mut(parts, place);
            let words = core::array::from_fn(|n| {
                let at = (entry * N + n) * word;
                match M::CLASS {
                    Class::Bits32 => u32_at(bytes, at).map(u64::from),
                    Class::Bits64 => u64_at(bytes, at),
                }
                .unwrap_or(0)
            });
            let own = Place {
                part: place.part,
                offset: place.offset + (entry * N * word) as u64,
            };
            take(parts, own, words).map_err(|failed| match failed {
                Failed::Entry(what) => wrong(what),
                Failed::NoMemory => Error::NoMemory,
            })?;
        }
    }
    Ok(())
}

/// Why an entry is not taken.
enum Failed {
    Entry(&'static str),
    NoMemory,
}

impl From<Error<'_>> for Failed {
    fn from(_: Error<'_>) -> Self {
        Self::NoMemory
    }
}

/// Reads what the module exports: name, address, flags (bit 0: only for the GPL).
pub(crate) fn exports<'a, M: Machine>(
    object: &Object<'a, M>,
    layout: &Layout,
    parts: &mut Parts<'_>,
) -> Result<Vec<Export>, Error<'a>> {
    let mut exports = Vec::new();
    entries(object, layout, parts, EXPORTS, |parts, _, words| {
        let [name, address, flags] = words;
        let name = name_at(layout, parts, name).ok_or(Failed::Entry("has a bad name"))?;
        let place = locate(layout, parts, M::code_address(address), 1);
        if place.is_none_or(|place| place.part.is_init()) {
            return Err(Failed::Entry(
                "exports what is not the module's, or does not stay",
            ));
        }
        if flags > 1 {
            return Err(Failed::Entry("has unknown flags"));
        }
        let export = Export {
            name,
            address,
            gpl_only: flags == 1,
        };
        Ok(push(&mut exports, export)?)
    })?;
    Ok(exports)
}

/// Reads which instructions may fault: the first, behind the last, where to go on; by address.
pub(crate) fn faults<'a, M: Machine>(
    object: &Object<'a, M>,
    layout: &Layout,
    parts: &mut Parts<'_>,
) -> Result<Vec<MayFault>, Error<'a>> {
    let mut faults: Vec<MayFault> = Vec::new();
    entries(object, layout, parts, FAULTS, |parts, _, [from, until, to]| {
        let text = |address, size| {
            let place = locate(layout, parts, address, size)?;
            place.part.is_text().then_some(place.part)
        };
        let inside = until.checked_sub(from).and_then(|size| text(from, size));
        if inside.is_none() || text(to, 1) != inside {
            return Err(Failed::Entry("is not of the module's code"));
        }
        Ok(push(&mut faults, MayFault { from, until, to })?)
    })?;
    faults.sort_unstable_by_key(|entry| entry.from);
    if faults.windows(2).any(|pair| pair[0].until > pair[1].from) {
        return Err(Error::Broken("instructions that may fault are told of twice"));
    }
    Ok(faults)
}

/// Reads the texts to which records in traces refer: a pointer to each.
pub(crate) fn formats<'a, M: Machine>(
    object: &Object<'a, M>,
    layout: &Layout,
    parts: &mut Parts<'_>,
) -> Result<Vec<Format>, Error<'a>> {
    let mut formats = Vec::new();
    entries(object, layout, parts, FORMATS, |parts, pointer, [text]| {
        let format = Format {
            text: name_at(layout, parts, text).ok_or(Failed::Entry("has a bad text"))?,
            pointer,
            class: M::CLASS,
        };
        Ok(push(&mut formats, format)?)
    })?;
    Ok(formats)
}

/// Reads the parameters: name, variable, number of values or null, elements, mode in sysfs.
pub(crate) fn parameters<'a, M: Machine>(
    object: &Object<'a, M>,
    info: &Info<'a>,
    layout: &Layout,
    parts: &mut Parts<'_>,
) -> Result<Parameters, Error<'a>> {
    let types = info.types()?;
    let mut list = Vec::new();
    entries(object, layout, parts, PARAMETERS, |parts, _, words| {
        let [name, variable, count, elements, mode] = words;
        let name = name_at(layout, parts, name).ok_or(Failed::Entry("has a bad name"))?;
        let text = name.bytes(parts);
        if text
            .iter()
            .any(|b| !b.is_ascii_graphic() || matches!(b, b'/' | b'=' | b'"'))
        {
            return Err(Failed::Entry("has a bad name"));
        }
        let at = types.partition_point(|(name, _)| *name < text);
        let kind = match types.get(at) {
            Some((name, kind)) if *name == text => *kind,
            _ => return Err(Failed::Entry("has a parameter without a type (parmtype)")),
        };
        let (kind, array) = match kind.strip_prefix(b"array of ") {
            Some(kind) => (kind, true),
            None => (kind, false),
        };
        let kind = Type::named(kind, M::CLASS).ok_or(Failed::Entry("has a parameter of an unknown type"))?;
        if array && kind.is_text() || !(array || kind.is_text()) && elements != 1 || mode > 0o7777 {
            return Err(Failed::Entry("has a parameter that is described wrongly"));
        }
        let written = |address, size: Option<u64>| {
            locate(layout, parts, address, size?).filter(|place| place.part.is_written())
        };
        let variable = written(variable, elements.checked_mul(kind.size().into()));
        let number = if count == 0 {
            None
        } else {
            Some(written(count, Some(4)))
        };
        let (Some(variable), Some(number)) = (variable, number.map_or(Some(None), |n| n.map(Some))) else {
            return Err(Failed::Entry("has a parameter that is not in the module's data"));
        };
        let parameter = Parameter {
            name,
            kind,
            array,
            variable,
            number,
            elements: u32::try_from(elements).map_err(|_| Failed::Entry("has too many elements"))?,
            mode: mode as u16,
        };
        Ok(push(&mut list, parameter)?)
    })?;
    Ok(Parameters::new(list, parts))
}
