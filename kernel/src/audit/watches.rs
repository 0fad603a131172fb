//! Names that rules watch. A watch follows its name in the directory in which it was when the rule was added:
//! whatever file has the name is watched. With the directory the rule goes.

use super::record::{self, Session, kind};
use super::rules::{self, Entry};
use super::settings;
use crate::fs::dentry::Dentry;
use crate::fs::lookup::{AT_FDCWD, with_parent};
use crate::mm::reserve::copy_of;
use crate::rcu::Shared;
use crate::sync::{Mutex, SpinLock};
use crate::task::audit::names::{Change, id};
use crate::task::current;
use alloc::vec::Vec;
use core::fmt;
use limen_audit::names::{FileId, is_named};
use limen_audit::text::{OrNull, Untrusted};
use limen_linux_abi::Errno;

/// A name that is watched.
pub struct Watch {
    path: Vec<u8>,
    /// Its directory.
    pub dir: FileId,
    /// The file that has the name.
    now: SpinLock<Option<FileId>>,
}

impl Watch {
    /// Watches the name at the end of a path. There need not be such a name now. `ENOENT`: there is no such
    /// directory; `ENOMEM`, and others of looking it up. May sleep.
    pub fn new(path: &[u8]) -> Result<Self, Errno> {
        let own = copy_of(path)?;
        with_parent(AT_FDCWD, path, Errno::EINVAL, |walker, name, _| {
            let dir = &walker.cur.dentry;
            let now = match dir.lookup(name) {
                Ok(file) => Some(id(&file.inode)),
                Err(Errno::ENOENT) => None,
                Err(error) => return Err(error),
            };
            Ok(Self {
                path: own,
                dir: id(&dir.inode),
                now: SpinLock::new(now),
            })
        })
    }

    /// The file that has the name now.
    pub fn now(&self) -> Option<FileId> {
        *self.now.lock()
    }

    fn is(&self, dir: FileId, name: &[u8]) -> bool {
        self.dir == dir && is_named(&self.path, name)
    }

    fn set(&self, file: Option<FileId>) -> Option<FileId> {
        core::mem::replace(&mut *self.now.lock(), file)
    }
}

/// Held by who finds out for which file a name stands, and notes it.
static FOLLOWING: Mutex<()> = Mutex::new(());

/// A name in a directory has come or gone, perhaps several times.
fn follow(dir: &Shared<Dentry>, name: &[u8]) {
    let Some(set) = rules::all() else { return };
    let own = id(&dir.inode);
    let is = |watch: &&Watch| watch.is(own, name);
    let mut watching = set
        .in_directory(own)
        .flat_map(|entry| entry.file.iter().chain(&entry.exe));
    if !watching.any(|watch| is(&watch)) {
        return;
    }
    let alone = FOLLOWING.lock();
    let now = dir.lookup(name).ok().map(|file| id(&file.inode));
    let mut moved = false;
    for entry in set.in_directory(own) {
        if let Some(watch) = entry.exe.as_ref().filter(is) {
            watch.set(now);
        }
        let Some(watch) = entry.file.as_ref().filter(is) else {
            continue;
        };
        let former = watch.set(now);
        moved |= former != now;
        // The call that takes the name away is one about the file that had it.
        if let Some(former) = former.filter(|former| Some(*former) != now) {
            current()
                .audit
                .with(|context| match crate::mm::reserve::room(&mut context.former, 1) {
                    Ok(()) => context.former.push((entry.id, former)),
                    Err(_) => context.lost = true,
                });
        }
    }
    drop(alone);
    if moved && rules::refresh().is_err() {
        super::queue::lost("out of memory in audit_update_watch");
    }
}

/// How a record of a rule that goes is made.
#[derive(Clone, Copy)]
enum In {
    /// With the call that changes the names.
    Call,
    /// By itself.
    Own,
}

/// What is recorded of a rule that goes.
struct Gone<'a> {
    /// Whose session it is, is told, too.
    session: bool,
    op: &'static str,
    /// What the path is of: a name, or a tree.
    field: &'static str,
    path: &'a [u8],
}

impl fmt::Display for Gone<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.session {
            write!(f, "{Session} ")?;
        }
        write!(f, "op={} {}={}", self.op, self.field, Untrusted(self.path))
    }
}

/// Removes the rules that `gone` says something of, which is recorded.
fn remove_rules(how: In, gone: impl Fn(&Entry) -> Option<Gone<'_>>) {
    let Some(set) = rules::all() else { return };
    let mut any = false;
    for entry in set.all() {
        let Some(gone) = gone(entry) else { continue };
        if settings::enabled() != settings::OFF {
            let (key, list) = (OrNull(entry.rule.key()), entry.rule.list as u32);
            let text = format_args!("{gone} key={key} list={list} res=1");
            match how {
                In::Call => record::write_change(kind::CONFIG_CHANGE, text),
                In::Own => record::write_alone(kind::CONFIG_CHANGE, text),
            }
        }
        if rules::remove_one(entry.id) == Err(Errno::ENOMEM) {
            super::queue::lost("out of memory in audit_remove_parent_watches");
        }
        any = true;
    }
    if any {
        settings::apply();
    }
}

/// Directories are gone, or are not where they were: rules with names in them go, too.
fn forget(how: In, is: impl Fn(FileId) -> bool) {
    remove_rules(how, |entry| {
        let in_it = |watch: &&Watch| is(watch.dir);
        let file = entry.file.as_ref().filter(in_it);
        let (watch, op) = match file {
            Some(file) => (file, "remove_rule"),
            None => (entry.exe.as_ref().filter(in_it)?, "autoremove_rule"),
        };
        Some(Gone {
            session: true,
            op,
            field: "path",
            path: &watch.path,
        })
    });
}

/// The running thread's call is judged by the present rules, though some of them go while it is made.
fn still_meant() {
    let Some(set) = rules::all() else { return };
    current().audit.with(|context| {
        context.rules.get_or_insert(set);
    });
}

/// Watched trees' directories are gone.
fn fell(is: impl Fn(FileId) -> bool) {
    remove_rules(In::Own, |entry| {
        let tree = entry.tree.as_ref().filter(|tree| is(tree.root))?;
        Some(Gone {
            session: false,
            op: "remove_rule",
            field: "dir",
            path: &tree.path,
        })
    });
}

/// Names have changed. May sleep.
pub fn changed(change: &Change<'_>) {
    match change {
        Change::Name(dir, name) => follow(dir, name),
        Change::Moved(dir) => forget(In::Call, |own| own == id(dir)),
        Change::Removed(dir) => {
            forget(In::Call, |own| own == id(dir));
            fell(|own| own == id(dir));
        }
        Change::Unmounted(sb) => {
            still_meant();
            let dev = sb.dev.raw();
            forget(In::Own, |own| own.dev == dev);
            fell(|own| own.dev == dev);
        }
    }
}
