//! Which calls a rule means.

use crate::field::{Field, Op, Value, what};
use crate::names::{FileFacts, Name, halves};

/// The ids of a thread's user and group: real, effective, saved, and for files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the type says it")]
pub struct Ids {
    pub uid: [u32; 4],
    pub gid: [u32; 4],
}

/// What rules can ask of a thread, and of the call that it ends.
pub trait Facts {
    /// Its ids.
    fn ids(&self) -> Ids;
    /// Whether the group is among its further groups.
    fn in_group(&self, gid: u32) -> bool;
    /// The number of another field. `None`: it has none, and nothing that is said of it is true.
    fn number(&self, field: u32) -> Option<u32>;
    /// The call's result. `None`: there is no call, or it has none.
    fn exit(&self) -> Option<isize>;
    /// Whether its program is the file that had this path when the rule was added.
    fn is_exe(&self, path: &[u8]) -> bool;
    /// The files that the call has looked up.
    fn names(&self) -> &[Name] {
        &[]
    }
    /// Whether one of them is in the directory that the rule watches.
    fn is_in_tree(&self) -> bool {
        false
    }
    /// Whether the call wants one of these rights (`AUDIT_PERM_*`).
    fn wants(&self, rights: u32) -> bool {
        let _ = rights;
        false
    }
}

const UNSET: u32 = u32::MAX;
/// Results down to this are errors (`MAX_ERRNO`).
const LEAST_ERROR: isize = -4095;

/// Whether a call with this result was successful. Other negative results are addresses.
pub fn succeeded(result: isize) -> bool {
    !(LEAST_ERROR..0).contains(&result)
}

/// The bits of `st_mode` for the type.
const TYPE: u32 = 0o170_000;

/// Whether something is true of the file that is asked about, or of any if none is.
fn of_files(facts: &impl Facts, about: Option<&Name>, is: impl Fn(&FileFacts) -> bool) -> bool {
    let holds = |name: &Name| name.file.as_ref().is_some_and(&is);
    match about {
        Some(name) => holds(name),
        None => facts.names().iter().any(holds),
    }
}

/// Whether what a field says is true. `about`: the only name that it is asked of.
pub(crate) fn holds(field: &Field, facts: &impl Facts, about: Option<&Name>) -> bool {
    let op = field.op;
    let number = field.number();
    let ids = facts.ids();
    match field.what {
        what::FILTERKEY => true,
        what::UID..=what::FSUID => op.holds(ids.uid[(field.what - what::UID) as usize], number),
        what::GID..=what::FSGID => {
            let of = ids.gid[(field.what - what::GID) as usize];
            let further = matches!(field.what, what::GID | what::EGID) && facts.in_group(number);
            match op {
                Op::Equal => of == number || further,
                Op::NotEqual => of != number && !further,
                _ => op.holds(of, number),
            }
        }
        what::LOGINUID_SET => {
            let is_set = facts.number(what::LOGINUID).is_some_and(|uid| uid != UNSET);
            op.holds(u32::from(is_set), number)
        }
        what::EXIT => facts
            .exit()
            // As on Linux, without a sign: errors are greater than all numbers.
            .is_some_and(|exit| op.holds(exit as u32, number)),
        what::SUCCESS => {
            let exit = facts.exit();
            exit.is_some_and(|exit| op.holds(u32::from(succeeded(exit)), u32::from(number != 0)))
        }
        what::EXE => match &field.value {
            Value::Text(path) => op.holds_if(facts.is_exe(path)),
            Value::Number(_) => false,
        },
        what::DEVMAJOR => of_files(facts, about, |file| {
            [file.id.dev, file.rdev]
                .iter()
                .any(|dev| op.holds(halves(*dev).0, number))
        }),
        what::DEVMINOR => of_files(facts, about, |file| {
            [file.id.dev, file.rdev]
                .iter()
                .any(|dev| op.holds(halves(*dev).1, number))
        }),
        what::INODE => of_files(facts, about, |file| op.holds_if(file.id.ino == u64::from(number))),
        what::OBJ_UID => of_files(facts, about, |file| op.holds(file.uid, number)),
        what::OBJ_GID => of_files(facts, about, |file| op.holds(file.gid, number)),
        // Rules with a watch are asked only about the file that is watched.
        what::WATCH => op.holds_if(about.is_some()),
        what::DIR => op.holds_if(facts.is_in_tree()),
        what::FILETYPE => op.holds_if(of_files(facts, None, |file| file.mode & TYPE == number)),
        what::PERM => op.holds_if(facts.wants(number)),
        what::FIELD_COMPARE if number <= LAST_OF_OBJECTS => {
            let own = owner_compared(number, &ids, facts);
            let is = |file: &FileFacts| {
                own.is_some_and(|(id, is_group)| op.holds(id, if is_group { file.gid } else { file.uid }))
            };
            about.is_some() && of_files(facts, about, is) || of_files(facts, None, is)
        }
        what::FIELD_COMPARE => compared(number, &ids, facts).is_some_and(|(a, b)| op.holds(a, b)),
        // There is no security module whose labels these could be.
        what::SUBJ_USER..=what::SUBJ_CLR | what::OBJ_USER..=what::OBJ_LEV_HIGH => false,
        other => facts.number(other).is_some_and(|is| op.holds(is, number)),
    }
}

/// The last comparison with an object's owner.
const LAST_OF_OBJECTS: u32 = 9;

/// The thread's id in a comparison with an object's owner, and whether that is its group.
fn owner_compared(which: u32, ids: &Ids, facts: &impl Facts) -> Option<(u32, bool)> {
    let [uid, euid, suid, fsuid] = ids.uid;
    let [gid, egid, sgid, fsgid] = ids.gid;
    Some(match which {
        1 => (uid, false),
        2 => (gid, true),
        3 => (euid, false),
        4 => (egid, true),
        5 => (facts.number(what::LOGINUID)?, false),
        6 => (suid, false),
        7 => (sgid, true),
        8 => (fsuid, false),
        9 => (fsgid, true),
        _ => return None,
    })
}

/// The two ids that a comparison of fields means. `None`: one of them is an object's.
fn compared(which: u32, ids: &Ids, facts: &impl Facts) -> Option<(u32, u32)> {
    let [uid, euid, suid, fsuid] = ids.uid;
    let [gid, egid, sgid, fsgid] = ids.gid;
    let auid = facts.number(what::LOGINUID)?;
    Some(match which {
        10 => (uid, auid),
        11 => (uid, euid),
        12 => (uid, fsuid),
        13 => (uid, suid),
        14 => (auid, fsuid),
        15 => (auid, suid),
        16 => (auid, euid),
        17 => (euid, suid),
        18 => (euid, fsuid),
        19 => (suid, fsuid),
        20 => (gid, egid),
        21 => (gid, fsgid),
        22 => (gid, sgid),
        23 => (egid, fsgid),
        24 => (egid, sgid),
        25 => (sgid, fsgid),
        _ => return None,
    })
}
