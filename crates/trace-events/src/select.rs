//! What is written to `set_event`, and to the boot option `trace_event=`: which events to turn on or off.

use crate::glob::Glob;

/// A word of `set_event`: `system:event`, `system:`, `:event`, `name` (a system or an event), each with
/// patterns, `:mod:NAME` behind it for the events of one module, and `!` in front to turn off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection<'a> {
    /// Turn on, or off.
    pub on: bool,
    /// Events of this module alone.
    pub module: Option<&'a [u8]>,
    which: Which<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which<'a> {
    Either(Glob<'a>),
    Both(Option<Glob<'a>>, Option<Glob<'a>>),
}

fn pattern(text: &[u8]) -> Option<Glob<'_>> {
    (!text.is_empty() && text != b"*").then_some(Glob(text))
}

impl<'a> Selection<'a> {
    /// Reads a word. `None`: it says nothing (`EINVAL`).
    pub fn parse(word: &'a [u8]) -> Option<Self> {
        let (on, word) = match word.strip_prefix(b"!") {
            Some(rest) => (false, rest),
            None => (true, word),
        };
        let mut parts = word.splitn(4, |byte| *byte == b':');
        let first = parts.next()?;
        let rest = [parts.next(), parts.next(), parts.next()];
        let (which, module) = match rest {
            [None, ..] if first.is_empty() => return None,
            [None, ..] => (Which::Either(Glob(first)), None),
            [Some(b"mod"), Some(module), None] => (Which::Both(pattern(first), None), Some(module)),
            [Some(event), None, _] => (Which::Both(pattern(first), pattern(event)), None),
            [Some(event), Some(b"mod"), Some(module)] => {
                (Which::Both(pattern(first), pattern(event)), Some(module))
            }
            _ => return None,
        };
        let all = Which::Both(None, None);
        let which = if which == Which::Either(Glob(b"*")) {
            all
        } else {
            which
        };
        if module.is_some_and(<[u8]>::is_empty) {
            return None;
        }
        Some(Self { on, module, which })
    }

    /// Whether an event is meant.
    pub fn covers(&self, system: &str, event: &str, module: Option<&str>) -> bool {
        let (system, event) = (system.as_bytes(), event.as_bytes());
        if self
            .module
            .is_some_and(|wanted| module.map(str::as_bytes) != Some(wanted))
        {
            return false;
        }
        match self.which {
            Which::Either(glob) => glob.matches(system) || glob.matches(event),
            Which::Both(of_system, of_event) => {
                of_system.is_none_or(|glob| glob.matches(system))
                    && of_event.is_none_or(|glob| glob.matches(event))
            }
        }
    }
}
