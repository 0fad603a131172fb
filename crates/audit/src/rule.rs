//! Rules (`struct audit_rule_data`).

use crate::class::Classes;
use crate::field::{self, Field, Op, Value, what};
use crate::names::Name;
use crate::{Error, Facts};
use alloc::vec::Vec;

/// How many fields a rule can have.
const MAX_FIELDS: usize = 64;
/// The words of the bits for system calls.
pub(crate) const MASK: usize = 64;
/// The size in bytes of the part that every rule has.
const FIXED: usize = (3 + MASK + 3 * MAX_FIELDS + 1) * 4;
/// How long a text can be (`PATH_MAX`), and a key.
const MAX_TEXT: usize = 4096;
const MAX_KEY: usize = 256;
/// In a rule's flags: it goes before the others (`AUDIT_FILTER_PREPEND`).
const PREPEND: u32 = 0x10;

/// The lists of rules (`AUDIT_FILTER_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum List {
    /// For messages of programs.
    User = 0,
    /// When a thread is made.
    Task = 1,
    /// At the end of a system call.
    Exit = 4,
    /// Before a record is made.
    Exclude = 5,
    /// For names below file systems.
    FileSystem = 6,
}

impl List {
    fn from_number(number: u32) -> Option<Self> {
        [
            Self::User,
            Self::Task,
            Self::Exit,
            Self::Exclude,
            Self::FileSystem,
        ]
        .into_iter()
        .find(|list| *list as u32 == number)
    }
}

/// What is done if a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing is recorded.
    Never = 0,
    /// It is recorded.
    Always = 2,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its list.
    pub list: List,
    /// What is done.
    pub action: Action,
    /// Whether it is to go before the others.
    pub prepend: bool,
    mask: [u32; MASK],
    fields: Vec<Field>,
}

/// Words one after the other.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn take(&mut self) -> Result<u32, Error> {
        let (word, rest) = self.0.split_first_chunk().ok_or(Error::Invalid)?;
        self.0 = rest;
        Ok(u32::from_ne_bytes(*word))
    }

    fn array<const N: usize>(&mut self) -> Result<[u32; N], Error> {
        let mut words = [0; N];
        for word in &mut words {
            *word = self.take()?;
        }
        Ok(words)
    }
}

impl Rule {
    /// Reads and checks a rule.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub fn from_bytes(bytes: &[u8], classes: &Classes) -> Result<Self, Error> {
        let mut words = Words(bytes);
        let [flags, action, count] = words.array()?;
        let mut mask: [u32; MASK] = words.array()?;
        classes.resolve(&mut mask);
        let kinds: [u32; MAX_FIELDS] = words.array()?;
        let values: [u32; MAX_FIELDS] = words.array()?;
        let ops: [u32; MAX_FIELDS] = words.array()?;
        let texts = words.take()? as usize;
        let mut texts = words.0.get(..texts).ok_or(Error::Invalid)?;
        let list = List::from_number(flags & !PREPEND).ok_or(Error::Invalid)?;
        let action = match action {
            0 => Action::Never,
            2 => Action::Always,
            _ => return Err(Error::Invalid),
        };
        let count = count as usize;
        if count > MAX_FIELDS {
            return Err(Error::Invalid);
        }
        let mut fields = Vec::new();
        fields.try_reserve_exact(count).map_err(|_| Error::NoMemory)?;
        for ((kind, value), op) in kinds.into_iter().zip(values).zip(ops).take(count) {
            let op = Op::from_flags(op).ok_or(Error::Invalid)?;
            let legacy = kind == what::LOGINUID && value == u32::MAX;
            let (kind, number) = if legacy {
                (what::LOGINUID_SET, 0)
            } else {
                (kind, value)
            };
            field::check(list, kind, op, number)?;
            let value = if field::has_text(kind) {
                let text = take_text(&mut texts, number as usize)?;
                if kind == what::FILTERKEY && text.len() > MAX_KEY {
                    return Err(Error::Invalid);
                }
                // The path of a file from the root on.
                let is_file = matches!(kind, what::EXE | what::WATCH);
                let is_path = is_file || kind == what::DIR;
                if is_path && text.first() != Some(&b'/') || is_file && text.last() == Some(&b'/') {
                    return Err(Error::Invalid);
                }
                Value::Text(text)
            } else {
                Value::Number(number)
            };
            let is_user = matches!(kind, what::UID..=what::LOGINUID | what::OBJ_UID | what::OBJ_GID);
            if is_user && number == u32::MAX {
                return Err(Error::Invalid);
            }
            let twice =
                matches!(kind, what::FILTERKEY | what::EXE) && fields.iter().any(|f: &Field| f.what == kind);
            // It is about one file, or the files in one directory.
            let binds = |kind| matches!(kind, what::INODE | what::WATCH | what::DIR);
            if twice || binds(kind) && fields.iter().any(|f: &Field| binds(f.what)) {
                return Err(Error::Invalid);
            }
            fields.push(Field {
                what: kind,
                op,
                value,
                legacy,
            });
        }
        let prepend = flags & PREPEND != 0;
        Ok(Self {
            list,
            action,
            prepend,
            mask,
            fields,
        })
    }

    /// The rule as programs are told of it.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let texts: usize = self.texts().map(<[u8]>::len).sum();
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(FIXED + texts)
            .map_err(|_| Error::NoMemory)?;
        let mut put = |word: u32| bytes.extend_from_slice(&word.to_ne_bytes());
        put(self.list as u32);
        put(self.action as u32);
        put(self.fields.len() as u32);
        self.mask.iter().for_each(|word| put(*word));
        let column = |of: fn(&Field) -> u32| {
            let rest = core::iter::repeat_n(0, MAX_FIELDS - self.fields.len());
            self.fields.iter().map(of).chain(rest)
        };
        column(|f| if f.legacy { what::LOGINUID } else { f.what }).for_each(&mut put);
        column(|f| match &f.value {
            _ if f.legacy => u32::MAX,
            Value::Number(number) => *number,
            Value::Text(text) => text.len() as u32,
        })
        .for_each(&mut put);
        column(|f| f.op.flags()).for_each(&mut put);
        put(texts as u32);
        self.texts().for_each(|text| bytes.extend_from_slice(text));
        Ok(bytes)
    }

    fn texts(&self) -> impl Iterator<Item = &[u8]> {
        self.fields.iter().filter_map(|field| match &field.value {
            Value::Text(text) => Some(&text[..]),
            Value::Number(_) => None,
        })
    }

    /// Its fields.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The text by which its records can be found.
    pub fn key(&self) -> Option<&[u8]> {
        self.text(what::FILTERKEY)
    }

    /// Whether it is for a system call with this number.
    pub fn is_for(&self, number: u32) -> bool {
        let word = self.mask.get((number / 32) as usize);
        word.is_some_and(|word| word >> (number % 32) & 1 != 0)
    }

    /// The text of a field, such as the path that is watched.
    pub fn text(&self, what: u32) -> Option<&[u8]> {
        let field = self.fields.iter().find(|field| field.what == what)?;
        match &field.value {
            Value::Text(text) => Some(text),
            Value::Number(_) => None,
        }
    }

    /// The number of the only inode that it is about, on any device.
    pub fn inode(&self) -> Option<u64> {
        let is_it = |field: &&Field| field.what == what::INODE && field.op == Op::Equal;
        let field = self.fields.iter().find(is_it)?;
        Some(u64::from(field.number()))
    }

    /// Whether it is for a call that sends signals.
    pub fn is_for_signals(&self, classes: &Classes) -> bool {
        matches!(self.list, List::Exit | List::Task) && classes.has_signals(&self.mask)
    }

    /// How a rule of the list of file systems compares a field, which is the type's number.
    pub fn file_systems(&self) -> impl Iterator<Item = (Op, u32)> {
        let fields = self.fields.iter().filter(|field| field.what == what::FSTYPE);
        fields.map(|field| (field.op, field.number()))
    }

    /// Whether all its fields match. `about`: the one name that is asked about. Without it, fields about
    /// files match if any name does.
    pub fn matches(&self, facts: &impl Facts, about: Option<&Name>) -> bool {
        self.fields
            .iter()
            .all(|field| crate::matching::holds(field, facts, about))
    }

    /// Whether it matches a record that is to be made, not a call: at least one field has to, and a group is
    /// the thread's own. `None`: it asks for what records do not have; no rule after it is asked.
    pub fn matches_record(&self, facts: &impl Facts) -> Option<bool> {
        let mut matches = false;
        for field in &self.fields {
            matches = match field.what {
                // Labels, which nothing has, leave it as it is.
                what::SUBJ_USER..=what::SUBJ_CLR => matches,
                what::GID => field.op.holds(facts.ids().gid[0], field.number()),
                what::PID | what::UID | what::LOGINUID | what::LOGINUID_SET | what::MSGTYPE | what::EXE => {
                    crate::matching::holds(field, facts, None)
                }
                _ => return None,
            };
            if !matches {
                break;
            }
        }
        Some(matches)
    }
}

/// Takes a text of this length. It is not empty and has no zero.
fn take_text(texts: &mut &[u8], len: usize) -> Result<Vec<u8>, Error> {
    let (text, rest) = texts.split_at_checked(len).ok_or(Error::Invalid)?;
    if text.is_empty() {
        return Err(Error::Invalid);
    }
    if len > MAX_TEXT {
        return Err(Error::LongText);
    }
    *texts = rest;
    let mut owned = Vec::new();
    owned.try_reserve_exact(len).map_err(|_| Error::NoMemory)?;
    owned.extend_from_slice(text);
    Ok(owned)
}

#[cfg(test)]
mod tests;
