//! What is wrong with a module, as the number that a program gets and the text for the log.

use core::fmt::{self, Display, Formatter};

use limen_linux_abi::Errno;

/// A name from a file, as it may stand in a log: one line, and not too long.
#[derive(Clone, Copy)]
pub struct Shown<'a>(pub &'a [u8]);

/// How many bytes of a name the log gets.
const SHOWN: usize = 80;

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0.get(..SHOWN) {
            Some(start) if self.0.len() > SHOWN => write!(f, "{}...", start.escape_ascii()),
            _ => self.0.escape_ascii().fmt(f),
        }
    }
}

/// Why a module is not loaded. Names are the file's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error<'a> {
    /// It is not a relocatable ELF object for this kernel. The text says what differs.
    Foreign(&'static str),
    /// The file contradicts itself where no section can be blamed.
    Broken(&'static str),
    /// A section is wrong.
    Section {
        /// Its name, empty if that could not be read.
        section: &'a [u8],
        /// Its number.
        index: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// A symbol is wrong.
    Symbol {
        /// Its name, empty if it has none.
        symbol: &'a [u8],
        /// What is wrong.
        what: &'static str,
    },
    /// Nobody exports this symbol.
    Unknown(&'a [u8]),
    /// This symbol is for modules with a licence compatible with the GPL.
    GplOnly(&'a [u8]),
    /// A relocation cannot be made.
    Relocation {
        /// The section that was to be changed.
        section: &'a [u8],
        /// The offset in it.
        offset: u64,
        /// The symbol; for one without a name, the section in which it is.
        symbol: &'a [u8],
        /// The relocation's number in the processor's ABI.
        kind: u32,
        /// What is wrong.
        fault: Fault,
    },
    /// It was built for another version of the kernel's interface.
    Version {
        /// For which; `None` if it does not say.
        found: Option<&'a [u8]>,
        /// The kernel's.
        wanted: &'a str,
    },
    /// The caller's buffers or addresses do not fit the layout.
    Buffer,
    /// It needs more memory than the caller's limit.
    TooLarge,
    /// There is no memory for the work.
    NoMemory,
}

/// Why a relocation cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The value does not fit where it is to be written.
    Overflow,
    /// The value is not a multiple of what the instruction counts in.
    Misaligned,
    /// This kind of relocation is not known.
    Unknown,
    /// This kind is not supported, or not here; the text says why.
    Refused(&'static str),
    /// It would write outside its section.
    Outside,
}

impl Display for Fault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Overflow => "is out of range",
            Self::Misaligned => "is not aligned",
            Self::Unknown => "is of an unknown kind",
            Self::Refused(why) => why,
            Self::Outside => "lies outside the section",
        })
    }
}

impl Error<'_> {
    /// What `init_module` and `finit_module` return.
    pub fn errno(&self) -> Errno {
        match self {
            Self::Foreign(_)
            | Self::Broken(_)
            | Self::Section { .. }
            | Self::Symbol { .. }
            | Self::Relocation { .. }
            | Self::Version { .. } => Errno::ENOEXEC,
            Self::Unknown(_) | Self::GplOnly(_) => Errno::ENOENT,
            Self::Buffer => Errno::EINVAL,
            Self::TooLarge | Self::NoMemory => Errno::ENOMEM,
        }
    }
}

impl Display for Error<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign(what) | Self::Broken(what) => f.write_str(what),
            Self::Section { section, index, what } => {
                write!(f, "section {index} '{}' {what}", Shown(section))
            }
            Self::Symbol { symbol, what } => write!(f, "symbol '{}' {what}", Shown(symbol)),
            Self::Unknown(symbol) => write!(f, "Unknown symbol {}", Shown(symbol)),
            Self::GplOnly(symbol) => write!(
                f,
                "Unknown symbol {}: it is only for modules whose license is compatible with the GPL",
                Shown(symbol)
            ),
            Self::Relocation {
                section,
                offset,
                symbol,
                kind,
                fault,
            } => write!(
                f,
                "relocation {kind} against '{}' at {}+{offset:#x} {fault}",
                Shown(symbol),
                Shown(section)
            ),
            Self::Version { found, wanted } => {
                let found = Shown(found.unwrap_or(b"(none)"));
                write!(f, "version '{found}' should be '{wanted}'")
            }
            Self::Buffer => f.write_str("memory does not fit the layout"),
            Self::TooLarge => f.write_str("needs too much memory"),
            Self::NoMemory => f.write_str("no memory"),
        }
    }
}
