//! What is written to `trigger` files: something to do when the event happens.

use core::fmt::{self, Write};

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// Start recording.
    TraceOn,
    /// Stop recording.
    TraceOff,
    /// Take a snapshot of the buffer.
    Snapshot,
    /// Record the kernel's stack.
    StackTrace,
    /// Turn an event on or off.
    Event {
        /// On or off.
        enable: bool,
        /// Its system.
        system: &'a [u8],
        /// Its name.
        name: &'a [u8],
    },
}

/// A line of a `trigger` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command<'a> {
    /// `!`: remove it.
    pub remove: bool,
    /// What to do.
    pub action: Action<'a>,
    /// How often; `None`: without limit.
    pub count: Option<u64>,
    /// The filter behind `if`.
    pub filter: Option<&'a [u8]>,
}

/// What the file shows when there are no triggers.
pub const NONE: &str =
    "# Available triggers:\n# traceon traceoff snapshot stacktrace enable_event disable_event\n";

impl Action<'_> {
    /// Its word.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::TraceOn => "traceon",
            Self::TraceOff => "traceoff",
            Self::Snapshot => "snapshot",
            Self::StackTrace => "stacktrace",
            Self::Event { enable: true, .. } => "enable_event",
            Self::Event { enable: false, .. } => "disable_event",
        }
    }
}

/// Splits at the first of `marks`.
fn split<'a>(text: &'a [u8], marks: &[u8]) -> (&'a [u8], &'a [u8]) {
    match text.iter().position(|byte| marks.contains(byte)) {
        Some(at) => (&text[..at], &text[at..]),
        None => (text, b""),
    }
}

impl<'a> Command<'a> {
    /// Reads a line. `None`: `EINVAL`.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        const SPACE: &[u8] = b" \t";
        let line = line.trim_ascii();
        let (remove, line) = match line.strip_prefix(b"!") {
            Some(rest) => (true, rest.trim_ascii_start()),
            None => (false, line),
        };
        let (what, rest) = split(line, SPACE);
        let filter = match rest.trim_ascii_start() {
            [] => None,
            rest => {
                let (word, filter) = split(rest, SPACE);
                let filter = filter.trim_ascii_start();
                if word != b"if" || filter.is_empty() {
                    return None;
                }
                Some(filter)
            }
        };
        let mut parts = what.split(|byte| *byte == b':');
        let action = match parts.next()? {
            b"traceon" => Action::TraceOn,
            b"traceoff" => Action::TraceOff,
            b"snapshot" => Action::Snapshot,
            b"stacktrace" => Action::StackTrace,
            word @ (b"enable_event" | b"disable_event") => Action::Event {
                enable: word == b"enable_event",
                system: parts.next().filter(|name| !name.is_empty())?,
                name: parts.next().filter(|name| !name.is_empty())?,
            },
            _ => return None,
        };
        let count = match parts.next() {
            None => None,
            Some(b"unlimited") => None,
            Some(number) => {
                let number = core::str::from_utf8(number).ok()?;
                Some(number.strip_prefix("count=").unwrap_or(number).parse().ok()?)
            }
        };
        if parts.next().is_some() {
            return None;
        }
        Some(Self {
            remove,
            action,
            count,
            filter,
        })
    }

    /// As the `trigger` file lists it. `left`: how often it will still do something.
    ///
    /// # Errors
    /// Only those of `to`.
    pub fn write(&self, left: Option<u64>, to: &mut dyn Write) -> fmt::Result {
        to.write_str(self.action.word())?;
        if let Action::Event { system, name, .. } = self.action {
            for part in [system, name] {
                write!(to, ":{}", core::str::from_utf8(part).unwrap_or("?"))?;
            }
        }
        match left {
            None => to.write_str(":unlimited")?,
            Some(count) => write!(to, ":count={count}")?,
        }
        if let Some(filter) = self.filter {
            to.write_str(" if ")?;
            for chunk in filter.utf8_chunks() {
                to.write_str(chunk.valid())?;
            }
        }
        to.write_char('\n')
    }
}
