//! Names that rules watch. A watch follows its name in the directory in which it was when the rule was added:
//! whatever file has the name is watched. With the directory the rule goes.

use super::record::{self, Session, kind};
use super::rules::{self, Entry};
use super::settings;
use crate::fs::lookup::{AT_FDCWD, with_parent};
use crate::mm::reserve::room_exact;
use crate::sync::SpinLock;
use crate::task::audit::names::{Change, id};
use crate::task::current;
use alloc::sync::Arc;
use alloc::vec::Vec;
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
        let mut own = Vec::new();
        room_exact(&mut own, path.len())?;
        own.extend_from_slice(path);
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

/// Records what became of a rule because of its watch.
fn tell(entry: &Entry, watch: &Watch, op: &str) {
    if settings::enabled() != settings::OFF {
        record::write_change(
            kind::CONFIG_CHANGE,
            format_args!(
                "{Session} op={op} path={} key={} list={} res=1",
                Untrusted(&watch.path),
                OrNull(entry.rule.key()),
                entry.rule.list as u32
            ),
        );
    }
}

/// A name in a directory stands for another file, or for none.
fn follow(dir: FileId, name: &[u8], file: Option<FileId>) {
    let Some(set) = rules::all() else { return };
    let mut any = false;
    for entry in set.in_directory(dir) {
        if let Some(watch) = entry.exe.as_ref().filter(|watch| watch.is(dir, name)) {
            watch.set(file);
        }
        let Some(watch) = entry.file.as_ref().filter(|watch| watch.is(dir, name)) else {
            continue;
        };
        any = true;
        // The call that takes the name away is one about the file that had it.
        if let (Some(former), None) = (watch.set(file), file) {
            current()
                .audit
                .with(|context| match crate::mm::reserve::room(&mut context.former, 1) {
                    Ok(()) => context.former.push((entry.id, former)),
                    Err(_) => context.lost = true,
                });
        }
        tell(entry, watch, "updated_rules");
    }
    if any && rules::refresh().is_err() {
        super::queue::lost("out of memory in audit_update_watch");
    }
}

/// A directory is gone, or is not where it was: rules with names in it go, too.
fn forget(dir: FileId) {
    let Some(set) = rules::all() else { return };
    let mut gone: Option<Arc<Entry>> = None;
    for entry in set.in_directory(dir) {
        // A rule may have two names there.
        if gone.as_ref().is_some_and(|gone| gone.id == entry.id) {
            continue;
        }
        let (watch, op) = match (&entry.file, &entry.exe) {
            (Some(file), _) if file.dir == dir => (file, "remove_rule"),
            (_, Some(exe)) => (exe, "autoremove_rule"),
            _ => continue,
        };
        tell(entry, watch, op);
        remove(entry);
        gone = Some(entry.clone());
    }
    if gone.is_some() {
        settings::apply();
    }
}

/// Removes a rule whose file or directory is gone.
fn remove(entry: &Entry) {
    if rules::remove_one(entry.id) == Err(Errno::ENOMEM) {
        super::queue::lost("out of memory in audit_remove_parent_watches");
    }
}

/// A watched tree's directory is gone.
fn fell(dir: FileId) {
    let Some(set) = rules::all() else { return };
    let mut any = false;
    for entry in set.all() {
        let Some(tree) = entry.tree.as_ref().filter(|tree| tree.root == dir) else {
            continue;
        };
        if settings::enabled() != settings::OFF {
            record::write_change(
                kind::CONFIG_CHANGE,
                format_args!(
                    "op=remove_rule dir={} key={} list={} res=1",
                    Untrusted(&tree.path),
                    OrNull(entry.rule.key()),
                    entry.rule.list as u32
                ),
            );
        }
        remove(entry);
        any = true;
    }
    if any {
        settings::apply();
    }
}

/// Names have changed.
pub fn changed(change: &Change<'_>) {
    match change {
        Change::Made(dir, name, file) => follow(id(dir), name, Some(id(file))),
        Change::Gone(dir, name) => follow(id(dir), name, None),
        Change::Moved(dir) => forget(id(dir)),
        Change::Removed(dir) => {
            forget(id(dir));
            fell(id(dir));
        }
    }
}
