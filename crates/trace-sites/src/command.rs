//! One word of `set_ftrace_filter`, `set_ftrace_notrace`, `set_graph_function` or `set_graph_notrace`:
//!
//! * `PATTERN`, or the number of a line of `available_filter_functions` (not for the graph, where what is
//!   taken away must also be there)
//! * `PATTERN:mod:MODULE`; without the pattern all functions of the module; `!` before the module means all
//!   but it, `*` all modules
//! * `PATTERN:COMMAND[:COUNT]`: a [`Probe`], only in `set_ftrace_filter`
//!
//! and each with `!` in front, which takes away.
//!
//! Two colons in a row belong to the pattern: names of Rust have them. In Linux they mean nothing.

use crate::glob::Glob;
use crate::{Error, Name, number};
use core::fmt;

/// Which file is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File {
    /// `set_ftrace_filter`.
    Filter,
    /// `set_ftrace_notrace`.
    Notrace,
    /// `set_graph_function` and `set_graph_notrace`: nothing but patterns.
    Graph,
}

/// What one word asks for.
#[derive(Clone, Copy, Debug)]
pub enum Command<'a> {
    /// Sites are put into the file's set, or taken away.
    Select(Select<'a>),
    /// Something is to be done whenever certain functions are called, or no longer.
    Probe {
        /// It was asked for with `!`.
        remove: bool,
        /// The functions.
        functions: Functions<'a>,
        /// What is to be done.
        probe: Probe<'a>,
    },
}

/// Functions, by name or by number.
#[derive(Clone, Copy, Debug)]
pub struct Functions<'a> {
    /// As it was written.
    pub text: &'a [u8],
    pub(crate) pattern: Pattern<'a>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Pattern<'a> {
    /// A line of `available_filter_functions`, from 0. `None`: a number that no line has.
    Line(Option<usize>),
    Names(Glob<'a>),
}

/// Sites that are put into a set, or taken away.
#[derive(Clone, Copy, Debug)]
pub struct Select<'a> {
    /// They are taken away.
    pub remove: bool,
    /// Only what is in the set can be taken away.
    pub(crate) strict: bool,
    /// Their names.
    pub functions: Functions<'a>,
    /// The modules that they are in. `None`: no matter.
    pub module: Option<Module<'a>>,
}

/// Some modules.
#[derive(Clone, Copy, Debug)]
pub struct Module<'a> {
    /// As it was written, with the `!`.
    pub text: &'a [u8],
    exclude: bool,
    glob: Glob<'a>,
}

/// Something that is done whenever a function is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe<'a> {
    /// What.
    pub action: Action<'a>,
    /// A count was given. With and without are different probes: a function can have both, and each is taken
    /// away as it was put.
    pub counted: bool,
    /// How often; [`UNLIMITED`] is always.
    pub count: usize,
}

/// Without end.
pub const UNLIMITED: usize = usize::MAX;

/// What a [`Probe`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// Recording goes on.
    Traceon,
    /// Recording stops.
    Traceoff,
    /// A snapshot is taken.
    Snapshot,
    /// A stack trace is recorded.
    Stacktrace,
    /// The buffers of all CPUs are written to the log, once.
    Dump,
    /// The buffer of this CPU is written to the log, once.
    Cpudump,
    /// An event is switched.
    Event {
        /// It is switched on.
        enable: bool,
        /// Its system.
        system: &'a [u8],
        /// Its name.
        event: &'a [u8],
    },
}

/// `text` up to the first colon, and what follows it.
fn split(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|&byte| byte == b':') {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

/// The same, where two colons in a row are no end.
fn split_name(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut at = 0;
    while at < text.len() {
        match text[at..] {
            [b':', b':', ..] => at += 2,
            [b':', ..] => return (&text[..at], Some(&text[at + 1..])),
            _ => at += 1,
        }
    }
    (text, None)
}

impl<'a> Functions<'a> {
    /// The functions that `text` names: a number if it begins with a digit, otherwise a pattern.
    pub fn new(text: &'a [u8]) -> Self {
        let pattern = match text.first() {
            Some(b'0'..=b'9') => Pattern::Line(number::prefix(text).and_then(|line| line.checked_sub(1))),
            _ => Pattern::Names(Glob::new(text)),
        };
        Self { text, pattern }
    }
    /// The same, where numbers mean nothing.
    fn by_name(text: &'a [u8]) -> Self {
        let pattern = Pattern::Names(Glob::new(text));
        Self { text, pattern }
    }
    /// Whether a function of this name is meant. Those that are named by a number are not known by name.
    pub fn matches(&self, function: &str) -> bool {
        matches!(self.pattern, Pattern::Names(glob) if glob.matches(function.as_bytes()))
    }
}

impl<'a> Module<'a> {
    /// The modules that `text` names.
    pub fn new(text: &'a [u8]) -> Self {
        let (exclude, glob) = text.strip_prefix(b"!").map_or((false, text), |rest| (true, rest));
        Self {
            text,
            exclude,
            glob: Glob::new(glob),
        }
    }
    /// Whether functions of `module`, or of the kernel, are meant.
    pub fn matches(&self, module: Option<&str>) -> bool {
        let within =
            module.is_some_and(|module| self.glob.is_blank() || self.glob.matches(module.as_bytes()));
        within != self.exclude
    }
}

impl<'a> Select<'a> {
    /// All functions that a [`Command::Probe`] is about.
    pub fn of(functions: Functions<'a>) -> Self {
        Self {
            remove: false,
            strict: false,
            functions,
            module: None,
        }
    }
    /// Whether a site of this name is meant. A `line` says that it was asked for by number.
    pub(crate) fn matches(&self, name: Name<'_>, line: usize) -> bool {
        match (self.functions.pattern, &self.module) {
            (Pattern::Line(wanted), _) => wanted == Some(line),
            (Pattern::Names(glob), None) => glob.matches(name.function.as_bytes()),
            (Pattern::Names(glob), Some(module)) => {
                module.matches(name.module) && (glob.is_blank() || glob.matches(name.function.as_bytes()))
            }
        }
    }
}

/// The command that `word` is in `file`.
///
/// # Errors
/// [`Error::Invalid`]: it is none. [`Error::Range`]: its count is too large.
pub fn parse(word: &[u8], file: File) -> Result<Command<'_>, Error> {
    let (remove, word) = word.strip_prefix(b"!").map_or((false, word), |rest| (true, rest));
    let select = |functions, module| {
        Command::Select(Select {
            remove,
            strict: file == File::Graph,
            functions,
            module,
        })
    };
    if file == File::Graph {
        return Ok(select(Functions::by_name(word), None));
    }
    let (functions, rest) = split_name(word);
    let functions = Functions::new(functions);
    let Some(rest) = rest else {
        return Ok(select(functions, None));
    };
    let (name, parameter) = split(rest);
    if name == b"mod" {
        return Ok(select(functions, parameter.map(Module::new)));
    }
    // Only the filter has probes.
    if file == File::Notrace {
        return Err(Error::Invalid);
    }
    Ok(Command::Probe {
        remove,
        functions,
        probe: probe(name, parameter, remove)?,
    })
}

fn probe<'a>(name: &[u8], parameter: Option<&'a [u8]>, remove: bool) -> Result<Probe<'a>, Error> {
    let mut count = parameter;
    let action = match name {
        b"traceon" => Action::Traceon,
        b"traceoff" => Action::Traceoff,
        b"snapshot" => Action::Snapshot,
        b"stacktrace" => Action::Stacktrace,
        b"dump" => Action::Dump,
        b"cpudump" => Action::Cpudump,
        b"enable_event" | b"disable_event" => {
            let (system, rest) = split(parameter.ok_or(Error::Invalid)?);
            let (event, rest) = split(rest.ok_or(Error::Invalid)?);
            count = rest;
            Action::Event {
                enable: name == b"enable_event",
                system,
                event,
            }
        }
        _ => return Err(Error::Invalid),
    };
    if matches!(action, Action::Dump | Action::Cpudump) {
        // They happen once, whatever is asked for.
        return Ok(Probe {
            action,
            counted: false,
            count: 1,
        });
    }
    let number = count.map_or(&[][..], |count| split(count).0);
    let counted = count.is_some();
    // Which probe is taken away does not depend on the number, so it is not looked at.
    let count = if number.is_empty() || remove {
        UNLIMITED
    } else {
        number::parse(number)?
    };
    Ok(Probe {
        action,
        counted,
        count,
    })
}

/// As `set_ftrace_filter` shows it behind the function's name: `traceoff:count=3`, `traceon:unlimited`.
impl fmt::Display for Probe<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.action {
            Action::Traceon => "traceon",
            Action::Traceoff => "traceoff",
            Action::Snapshot => "snapshot",
            Action::Stacktrace => "stacktrace",
            Action::Dump => "dump",
            Action::Cpudump => "cpudump",
            Action::Event { enable: true, .. } => "enable_event",
            Action::Event { enable: false, .. } => "disable_event",
        })?;
        if let Action::Event { system, event, .. } = self.action {
            write!(
                f,
                ":{}:{}",
                crate::report::Text(system),
                crate::report::Text(event)
            )?;
        }
        match self.count {
            UNLIMITED => f.write_str(":unlimited"),
            // As in Linux, which does not look at its count.
            _ if self.action == Action::Cpudump => f.write_str(":unlimited"),
            // Linux shows it as a signed number.
            count => write!(f, ":count={}", count.cast_signed()),
        }
    }
}
