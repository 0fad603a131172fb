//! Rules are read, refused, and matched.

extern crate std;
use super::*;
use crate::Ids;
use crate::names::Kind;
use proptest::prelude::*;
use std::{format, vec};

const EQ: u32 = 0x4000_0000;
const NE: u32 = 0x3000_0000;

fn read(bytes: &[u8]) -> Result<Rule, Error> {
    Rule::from_bytes(bytes, &Classes::new(|n| (n == 40).then_some("unlink")))
}

/// A rule's bytes, for all calls.
fn made(flags: u32, action: u32, fields: &[(u32, u32, u32)], texts: &[u8]) -> Vec<u8> {
    let mut words = vec![flags, action, fields.len() as u32];
    words.extend([!0; MASK - 1]);
    words.push(0xffff);
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

const NAMES: &[Name] = &[
    Name::of(Kind::Parent, 2, 0o40_755, 0),
    Name::of(Kind::Normal, 5, 0o100_644, 33),
];

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
            what::SADDR_FAM => Some(1),
            _ => None,
        }
    }
    fn exit(&self) -> Option<isize> {
        self.exit
    }
    fn is_exe(&self, path: &[u8]) -> bool {
        path == self.exe
    }
    fn names(&self) -> &[Name] {
        NAMES
    }
    fn is_in_tree(&self) -> bool {
        self.pid == 7
    }
    fn wants(&self, rights: u32) -> bool {
        rights & 4 != 0
    }
}

fn matched(fields: &[(u32, u32, u32)], texts: &[u8]) -> bool {
    let rule = read(&made(4, 2, fields, texts)).unwrap();
    rule.matches(
        &Call {
            pid: 7,
            exit: Some(-2),
            exe: b"/bin/sh",
        },
        None,
    )
}

#[test]
fn a_rule_comes_back_as_it_was() {
    let fields = [
        (what::PID, EQ, 7),
        (what::LOGINUID, NE, u32::MAX),
        (what::FILTERKEY, EQ, 3),
    ];
    let bytes = made(4, 2, &fields, b"abc");
    let rule = read(&bytes).unwrap();
    assert_eq!(rule.to_bytes().unwrap(), bytes);
    assert_eq!(rule.key(), Some(&b"abc"[..]));
    let first = read(&made(4 | PREPEND, 2, &fields, b"abc")).unwrap();
    assert!(first.prepend && first != rule);
    assert!(rule.is_for(0) && rule.is_for(2031) && !rule.is_for(2032) && !rule.is_for(2048));
}

#[test]
fn what_is_refused() {
    let refused =
        |flags, action, fields: &[_], texts: &[u8]| read(&made(flags, action, fields, texts)).unwrap_err();
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
    assert_eq!(read(&[0; FIXED - 1]), Err(Error::Invalid));
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
fn what_matches_files() {
    for (field, number, matches) in [
        (what::INODE, 5, true),
        (what::DEVMAJOR, 0, true),
        (what::DEVMAJOR, 9, false),
        (what::DEVMINOR, 7, true),
        (what::OBJ_UID, 33, true),
        (what::OBJ_UID, 34, false),
        (what::OBJ_GID, 44, true),
        (what::FILETYPE, 0o40_000, true),
        (what::FILETYPE, 0o120_000, false),
        (what::PERM, 4, true),
        (what::PERM, 8, false),
        (what::SADDR_FAM, 1, true),
        (what::SADDR_FAM, 2, false),
        (what::FIELD_COMPARE, 1, false),
    ] {
        let rule = read(&made(4, 2, &[(field, EQ, number)], b"")).unwrap();
        let call = Call {
            pid: 7,
            exit: None,
            exe: b"",
        };
        assert_eq!(rule.matches(&call, None), matches, "{field} {number}");
    }
    assert!(matched(&[(what::DIR, EQ, 2)], b"/a") && !matched(&[(what::WATCH, EQ, 2)], b"/a"));
    assert!(matched(&[(what::INODE, NE, 5)], b"") && matched(&[(what::OBJ_UID, NE, 33)], b""));
    for fields in [
        [(what::DIR, EQ, 2), (what::WATCH, EQ, 2)],
        [(what::INODE, EQ, 2), (what::DIR, EQ, 2)],
    ] {
        assert_eq!(read(&made(4, 2, &fields, b"/a/b")), Err(Error::Invalid));
    }
    assert_eq!(
        read(&made(5, 2, &[(what::INODE, EQ, 2)], b"")),
        Err(Error::Invalid)
    );
    assert_eq!(
        read(&made(4, 2, &[(what::WATCH, EQ, 3)], b"/a/")),
        Err(Error::Invalid)
    );
    assert!(read(&made(4, 2, &[(what::DIR, EQ, 3)], b"/a/")).is_ok());
    let rule = read(&made(6, 0, &[(what::FSTYPE, EQ, 0x9fa0)], b"")).unwrap();
    assert!(rule.file_systems().eq([(Op::Equal, 0x9fa0)]) && rule.inode().is_none());
    assert_eq!(read(&made(6, 0, &[(what::UID, EQ, 0)], b"")), Err(Error::Invalid));
    let rule = read(&made(
        4,
        2,
        &[(what::INODE, EQ, 9), (what::FILTERKEY, EQ, 1)],
        b"k",
    ))
    .unwrap();
    assert_eq!(
        (rule.inode(), rule.text(what::FILTERKEY)),
        (Some(9), Some(&b"k"[..]))
    );
}

#[test]
fn what_matches_records() {
    let matched = |fields: &[(u32, u32, u32)], texts: &[u8]| {
        let rule = read(&made(5, 0, fields, texts)).unwrap();
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
    let rule = read(&made(4, 2, &[(what::SUCCESS, NE, 1)], b"")).unwrap();
    assert!(!rule.matches(
        &Call {
            pid: 7,
            exit: None,
            exe: b""
        },
        None
    ));
}

proptest! {
    #[test]
    fn anything_can_be_sent(flags in 0u32..32, action in 0u32..3, kinds: [u32; 4], ops in 0u32..16,
                            value: u32, texts: Vec<u8>) {
        let fields = kinds.map(|kind| (kind % 256, ops << 27, value));
        if let Ok(rule) = read(&made(flags, action, &fields, &texts)) {
            let again = read(&rule.to_bytes().unwrap()).unwrap();
            let same = Rule { prepend: rule.prepend, ..again };
            prop_assert!(rule == same);
            rule.matches(&Call { pid: 1, exit: None, exe: b"" }, None);
        }
    }

    #[test]
    fn any_bytes_can_be_sent(bytes: Vec<u8>) {
        let _ = read(&bytes);
    }
}
