//! Rules (`struct audit_rule_data`).

use crate::field::{self, Field, Op, Value, what};
use crate::{Error, Facts};
use alloc::vec::Vec;

/// How many fields a rule can have.
const MAX_FIELDS: usize = 64;
/// The words of the bits for system calls.
const MASK: usize = 64;
/// The size in bytes of the part that every rule has.
const FIXED: usize = (3 + MASK + 3 * MAX_FIELDS + 1) * 4;
/// How long a text can be (`PATH_MAX`), and a key.
const MAX_TEXT: usize = 4096;
const MAX_KEY: usize = 256;
/// In a rule's flags: it goes before the others (`AUDIT_FILTER_PREPEND`).
const PREPEND: u32 = 0x10;
/// Classes of system calls have the last bits of the mask.
const CLASSES: usize = 16;

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
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let mut words = Words(bytes);
        let [flags, action, count] = words.array()?;
        let mask: [u32; MASK] = words.array()?;
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
        // Classes are lists of calls that the kernel would have to know; no program uses them.
        let count = count as usize;
        if count > MAX_FIELDS || mask[MASK - 1] >> (32 - CLASSES) != 0 && mask != [!0; MASK] {
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
                if kind == what::EXE && (text.first() != Some(&b'/') || text.last() == Some(&b'/')) {
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
            if twice {
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
        let key = self.fields.iter().find(|field| field.what == what::FILTERKEY)?;
        match &key.value {
            Value::Text(text) => Some(text),
            Value::Number(_) => None,
        }
    }

    /// Whether it is for a system call with this number.
    pub fn is_for(&self, number: u32) -> bool {
        let word = self.mask.get((number / 32) as usize);
        word.is_some_and(|word| word >> (number % 32) & 1 != 0)
    }

    /// Whether all its fields match.
    pub fn matches(&self, facts: &impl Facts) -> bool {
        self.fields
            .iter()
            .all(|field| crate::matching::holds(field, facts))
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
                    crate::matching::holds(field, facts)
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
mod tests {
    extern crate std;
    use super::*;
    use crate::Ids;
    use proptest::prelude::*;
    use std::{format, vec};

    const EQ: u32 = 0x4000_0000;
    const NE: u32 = 0x3000_0000;

    /// A rule's bytes, for all calls.
    fn made(flags: u32, action: u32, fields: &[(u32, u32, u32)], texts: &[u8]) -> Vec<u8> {
        let mut words = vec![flags, action, fields.len() as u32];
        words.extend([!0; MASK]);
        for column in 0..3 {
            for n in 0..MAX_FIELDS {
                let (kind, op, value) = fields.get(n).copied().unwrap_or_default();
                words.push([kind, value, op][column]);
            }
        }
        words.push(texts.len() as u32);
        let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
        bytes.extend(texts);
        bytes
    }

    struct Call {
        pid: u32,
        exit: Option<isize>,
        exe: &'static [u8],
    }

    impl Facts for Call {
        fn ids(&self) -> Ids {
            Ids {
                uid: [10, 11, 12, 13],
                gid: [20, 21, 22, 23],
            }
        }
        fn in_group(&self, gid: u32) -> bool {
            gid == 30
        }
        fn number(&self, field: u32) -> Option<u32> {
            match field {
                what::PID => Some(self.pid),
                what::LOGINUID | what::SESSIONID => Some(u32::MAX),
                what::ARCH => Some(5),
                what::ARG0 => Some(0xff),
                _ => None,
            }
        }
        fn exit(&self) -> Option<isize> {
            self.exit
        }
        fn is_exe(&self, path: &[u8]) -> bool {
            path == self.exe
        }
    }

    fn matched(fields: &[(u32, u32, u32)], texts: &[u8]) -> bool {
        let rule = Rule::from_bytes(&made(4, 2, fields, texts)).unwrap();
        rule.matches(&Call {
            pid: 7,
            exit: Some(-2),
            exe: b"/bin/sh",
        })
    }

    #[test]
    fn a_rule_comes_back_as_it_was() {
        let fields = [
            (what::PID, EQ, 7),
            (what::LOGINUID, NE, u32::MAX),
            (what::FILTERKEY, EQ, 3),
        ];
        let bytes = made(4, 2, &fields, b"abc");
        let rule = Rule::from_bytes(&bytes).unwrap();
        assert_eq!(rule.to_bytes().unwrap(), bytes);
        assert_eq!(rule.key(), Some(&b"abc"[..]));
        let first = Rule::from_bytes(&made(4 | PREPEND, 2, &fields, b"abc")).unwrap();
        assert!(first.prepend && first != rule);
        assert!(rule.is_for(0) && rule.is_for(2047) && !rule.is_for(2048));
    }

    #[test]
    fn what_is_refused() {
        let refused = |flags, action, fields: &[_], texts: &[u8]| {
            Rule::from_bytes(&made(flags, action, fields, texts)).unwrap_err()
        };
        assert_eq!(refused(2, 2, &[], b""), Error::Invalid);
        assert_eq!(refused(4, 1, &[], b""), Error::Invalid);
        assert_eq!(refused(4, 2, &[(what::PID, 0, 7)], b""), Error::Invalid);
        assert_eq!(refused(4, 2, &[(what::PID, 0x0800_0000, 7)], b""), Error::Invalid);
        assert_eq!(
            refused(4, 2, &[(what::ARCH, 0x1000_0000, 7)], b""),
            Error::Invalid
        );
        assert_eq!(refused(4, 2, &[(99, EQ, 7)], b""), Error::Invalid);
        assert_eq!(refused(4, 2, &[(what::UID, EQ, u32::MAX)], b""), Error::Invalid);
        assert_eq!(refused(4, 2, &[(what::MSGTYPE, EQ, 7)], b""), Error::Invalid);
        assert_eq!(refused(4, 2, &[(what::FILTERKEY, EQ, 4)], b"abc"), Error::Invalid);
        assert_eq!(refused(4, 2, &[(what::FILTERKEY, EQ, 0)], b"abc"), Error::Invalid);
        assert_eq!(
            refused(4, 2, &[(what::EXE, EQ, 5000)], &[b'/'; 5000]),
            Error::LongText
        );
        assert_eq!(
            refused(4, 2, &[(what::FILTERKEY, EQ, 257)], &[b'a'; 257]),
            Error::Invalid
        );
        assert_eq!(refused(4, 2, &[(what::EXE, EQ, 2)], b"sh"), Error::Invalid);
        assert_eq!(refused(4, 2, &[(what::EXE, EQ, 5)], b"/bin/"), Error::Invalid);
        let twice = [(what::EXE, EQ, 2); 2];
        assert_eq!(refused(4, 2, &twice, b"/a/b"), Error::Invalid);
        assert_eq!(Rule::from_bytes(&[0; FIXED - 1]), Err(Error::Invalid));
    }

    #[test]
    fn what_matches() {
        assert!(matched(&[], b""));
        assert!(matched(&[(what::PID, EQ, 7), (what::UID, EQ, 10)], b""));
        assert!(!matched(&[(what::PID, EQ, 7), (what::UID, EQ, 11)], b""));
        assert!(matched(&[(what::EXIT, EQ, -2i32 as u32)], b""));
        assert!(matched(&[(what::SUCCESS, EQ, 0)], b""));
        assert!(!matched(&[(what::SUCCESS, EQ, 1)], b""));
        assert!(matched(&[(what::GID, EQ, 30)], b""));
        assert!(!matched(&[(what::GID, NE, 30)], b""));
        assert!(matched(&[(what::EGID, EQ, 21)], b""));
        assert!(matched(&[(what::LOGINUID, EQ, u32::MAX)], b""));
        assert!(!matched(&[(what::LOGINUID, NE, u32::MAX)], b""));
        assert!(matched(&[(what::EXE, EQ, 7)], b"/bin/sh"));
        assert!(matched(&[(what::EXE, NE, 7)], b"/bin/ls"));
        assert!(matched(&[(what::ARG0, 0x0800_0000, 0x101)], b""));
        assert!(!matched(&[(what::ARG0, 0x4800_0000, 0x101)], b""));
        assert!(matched(&[(what::FIELD_COMPARE, NE, 11)], b""));
        assert!(!matched(&[(what::FIELD_COMPARE, EQ, 11)], b""));
        assert!(!matched(&[(what::SUBJ_USER, NE, 1)], b"u"));
    }

    #[test]
    fn what_matches_records() {
        let matched = |fields: &[(u32, u32, u32)], texts: &[u8]| {
            let rule = Rule::from_bytes(&made(5, 0, fields, texts)).unwrap();
            rule.matches_record(&Call {
                pid: 7,
                exit: None,
                exe: b"/bin/sh",
            })
        };
        let (pid, other) = ((what::PID, EQ, 7), (what::PID, EQ, 8));
        assert_eq!(matched(&[], b""), Some(false));
        assert_eq!(
            matched(&[pid, (what::UID, EQ, 10), (what::EXE, EQ, 7)], b"/bin/sh"),
            Some(true)
        );
        assert_eq!(matched(&[other], b""), Some(false));
        // Other groups are not the thread's own.
        assert_eq!(matched(&[(what::GID, EQ, 20)], b""), Some(true));
        assert_eq!(matched(&[(what::GID, EQ, 30)], b""), Some(false));
        assert_eq!(matched(&[(what::GID, NE, 30)], b""), Some(true));
        assert_eq!(matched(&[(what::SUBJ_USER, EQ, 1)], b"u"), Some(false));
        assert_eq!(matched(&[pid, (what::SUBJ_USER, EQ, 1)], b"u"), Some(true));
        for unknown in [what::EUID, what::PPID, what::ARCH, what::SESSIONID] {
            assert_eq!(matched(&[pid, (unknown, EQ, 5)], b""), None);
            assert_eq!(matched(&[other, (unknown, EQ, 5)], b""), Some(false));
        }
        assert_eq!(matched(&[pid, (what::FILTERKEY, EQ, 1)], b"k"), None);
    }

    #[test]
    fn results_have_no_sign() {
        assert!(matched(&[(what::EXIT, 0x2000_0000, 1_000_000)], b""));
        assert!(!matched(&[(what::EXIT, 0x1000_0000, 5)], b""));
        assert!(crate::succeeded(0) && crate::succeeded(-4096) && crate::succeeded(isize::MIN));
        assert!(!crate::succeeded(-1) && !crate::succeeded(-4095));
    }

    #[test]
    fn without_a_result_none_is_compared() {
        let rule = Rule::from_bytes(&made(4, 2, &[(what::SUCCESS, NE, 1)], b"")).unwrap();
        assert!(!rule.matches(&Call {
            pid: 7,
            exit: None,
            exe: b""
        }));
    }

    proptest! {
        #[test]
        fn anything_can_be_sent(flags in 0u32..32, action in 0u32..3, kinds: [u32; 4], ops in 0u32..16,
                                value: u32, texts: Vec<u8>) {
            let fields = kinds.map(|kind| (kind % 256, ops << 27, value));
            if let Ok(rule) = Rule::from_bytes(&made(flags, action, &fields, &texts)) {
                let again = Rule::from_bytes(&rule.to_bytes().unwrap()).unwrap();
                let same = Rule { prepend: rule.prepend, ..again };
                prop_assert!(rule == same);
                rule.matches(&Call { pid: 1, exit: None, exe: b"" });
            }
        }

        #[test]
        fn any_bytes_can_be_sent(bytes: Vec<u8>) {
            let _ = Rule::from_bytes(&bytes);
        }
    }
}
