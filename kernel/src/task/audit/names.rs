//! The files that an audited thread's call looks up, makes, moves and removes. The file system tells of them
//! here, where it is slow in any case: while calls are audited walks are not plain ([`crate::fs::moves`]),
//! and whoever makes and removes names tells audit as it tells watchers ([`crate::fs::inotify`]). Other
//! threads' walks are what they always were.

use super::Context;
use crate::fs::dentry::Dentry;
use crate::fs::inode::{FileType, Inode};
use crate::fs::path::Path;
use crate::fs::superblock::SuperBlock;
use crate::fs::xattr;
use crate::mm::reserve::{handling, room};
use crate::rcu::{Shared, Shown, glance};
use crate::sync::Once;
use crate::task::current;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use limen_audit::Error;
use limen_audit::field::Op;
use limen_audit::names::{FileCaps, FileFacts, FileId, Kind, Names};

/// What rules say about files that are looked up.
#[derive(Default)]
pub struct Wanted {
    /// The directories that belong to watched trees, ascending.
    pub trees: Vec<FileId>,
    /// Files on file systems whose magic number compares so are not told of.
    pub silent: Vec<(Op, u32)>,
}

static WANTED: Shown<Wanted> = Shown::empty();

/// From now on rules say this. One caller at a time.
pub fn want(wanted: Option<Arc<Wanted>>) {
    drop(WANTED.replace(wanted));
}

/// What happens to names that rules may watch.
pub enum Change<'a> {
    /// A name in a directory has come or has gone. Of two changes of one name the later may be told first.
    Name(&'a Shared<Dentry>, &'a [u8]),
    /// A directory has been removed.
    Removed(&'a Inode),
    /// A directory has another name.
    Moved(&'a Inode),
    /// A file system is not mounted any more, and ends.
    Unmounted(&'a SuperBlock),
}

static CHANGED: Once<fn(&Change<'_>)> = Once::new();

/// From now on `changed` hears of names. It may sleep, and looks up only single names in
/// directories. At boot.
pub fn when_names_change(changed: fn(&Change<'_>)) {
    let _ = CHANGED.set(changed);
}

fn changed(change: &Change<'_>) {
    if super::HEARS.load(Relaxed)
        && let Some(changed) = CHANGED.get()
    {
        changed(change);
    }
}

/// Which file an inode is.
pub fn id(inode: &Inode) -> FileId {
    FileId {
        dev: inode.sb.dev.raw(),
        ino: inode.ino,
    }
}

fn facts(inode: &Inode) -> FileFacts {
    inode.ops.refresh(inode);
    let caps = match inode.kind {
        FileType::Regular => xattr::value(inode, b"security.capability"),
        _ => None,
    };
    FileFacts {
        id: id(inode),
        mode: inode.st_mode(),
        uid: inode.uid(),
        gid: inode.gid(),
        rdev: inode.rdev.raw(),
        caps: caps
            .and_then(|caps| FileCaps::from_bytes(&caps))
            .unwrap_or_default(),
    }
}

/// Whether the running thread's call is told of.
#[cold]
pub fn is_noted() -> bool {
    current().audit.in_call.load(Relaxed)
}

/// Notes something in the running thread's call, if that is told of.
fn note(note: impl FnOnce(&mut Names) -> Result<(), Error>) {
    let task = current();
    task.audit.with(|context| {
        context.cwd.get_or_insert_with(|| task.cwd());
        if handling(|| note(&mut context.names)).is_err() {
            context.lost = true;
        }
    });
}

/// Whether files on the inode's file system are not told of.
fn is_silent(inode: &Inode) -> bool {
    let Some(wanted) = WANTED.get(&glance()).filter(|wanted| !wanted.silent.is_empty()) else {
        return false;
    };
    let magic = inode.sb.ops.statfs().magic as u32;
    wanted.silent.iter().any(|(op, of)| op.holds(magic, *of))
}

/// Notes which watched trees a file is in.
fn note_trees(dentry: &Shared<Dentry>) {
    let Some(wanted) = WANTED.get(&glance()).filter(|wanted| !wanted.trees.is_empty()) else {
        return;
    };
    current().audit.with(|context| {
        let mut at = dentry.clone();
        loop {
            context.note_tree(&wanted, id(&at.inode));
            let Some(parent) = at.parent() else { break };
            at = parent;
        }
    });
}

impl Context {
    fn note_tree(&mut self, wanted: &Wanted, directory: FileId) {
        let is_tree = wanted.trees.binary_search(&directory).is_ok();
        if is_tree && !self.trees.contains(&directory) {
            match room(&mut self.trees, 1) {
                Ok(()) => self.trees.push(directory),
                Err(_) => self.lost = true,
            }
        }
    }
}

/// A path begins to be looked up.
#[cold]
pub fn begins(path: &[u8]) {
    note(|names| names.begin(path));
}

/// The last path leads to a file.
#[cold]
pub fn found(dentry: &Shared<Dentry>) {
    if is_noted() && !is_silent(&dentry.inode) {
        note(|names| names.found(facts(&dentry.inode), false));
        note_trees(dentry);
    }
}

/// The last path leads to a name in this directory.
#[cold]
pub fn found_parent(dentry: &Shared<Dentry>) {
    if !is_silent(&dentry.inode) {
        note(|names| names.found(facts(&dentry.inode), true));
        note_trees(dentry);
    }
}

/// The last path is a name in this directory, of which no record tells.
#[cold]
pub fn found_hidden_parent(dentry: &Shared<Dentry>) {
    if is_noted() && !is_silent(&dentry.inode) {
        note(|names| names.found_hidden(facts(&dentry.inode)));
        note_trees(dentry);
    }
}

/// A path was looked up, with this result.
#[cold]
pub fn looked_up(path: &[u8], result: &Result<Path, limen_linux_abi::Errno>) {
    begins(path);
    if let Ok(path) = result {
        found(&path.dentry);
    }
}

/// A file is used by its descriptor.
#[cold]
pub fn used(dentry: &Shared<Dentry>) {
    if is_noted() && !is_silent(&dentry.inode) {
        note(|names| match names.has(id(&dentry.inode)) {
            true => Ok(()),
            false => names.used(facts(&dentry.inode)),
        });
        note_trees(dentry);
    }
}

/// A file has been opened, perhaps one that might have been made.
#[cold]
pub fn opened(dentry: &Shared<Dentry>) {
    if is_noted() && !is_silent(&dentry.inode) {
        note(
            |names| match names.all().is_empty() || names.has(id(&dentry.inode)) {
                true => Ok(()),
                false => names.found(facts(&dentry.inode), false),
            },
        );
        note_trees(dentry);
    }
}

/// A program has passed a text, which is noted before what is looked up first.
#[cold]
pub fn passed(text: &[u8]) {
    if is_noted() && !text.is_empty() {
        note(|names| names.pass(text));
    }
}

fn child(dir: &Inode, name: &[u8], file: Option<&Inode>, kind: Kind) {
    if is_silent(dir) {
        return;
    }
    note(|names| names.child(facts(dir), name, file.map(facts), kind));
    let wanted = WANTED.get(&glance()).filter(|wanted| !wanted.trees.is_empty());
    if let (Some(wanted), Some(file)) = (wanted, file) {
        current()
            .audit
            .with(|context| context.note_tree(&wanted, id(file)));
    }
}

/// `name` was to be made in a directory, which was refused.
#[cold]
pub fn not_made(dir: &Inode, name: &[u8]) {
    if is_noted() {
        child(dir, name, None, Kind::Create);
    }
}

/// `name` was to be removed, which was refused.
#[cold]
pub fn not_removed(dir: &Inode, name: &[u8], file: &Inode) {
    if is_noted() {
        child(dir, name, Some(file), Kind::Delete);
    }
}

/// `name` has been made.
#[cold]
pub fn made(dir: &Shared<Dentry>, name: &[u8], file: &Inode) {
    if is_noted() {
        child(&dir.inode, name, Some(file), Kind::Create);
    }
    changed(&Change::Name(dir, name));
}

/// `name` has been removed.
#[cold]
pub fn removed(dir: &Shared<Dentry>, name: &[u8], file: &Inode) {
    if is_noted() {
        child(&dir.inode, name, Some(file), Kind::Delete);
    }
    changed(&Change::Name(dir, name));
    if file.kind == FileType::Directory {
        changed(&Change::Removed(file));
    }
}

/// A name of a directory.
type Place<'a> = (&'a Shared<Dentry>, &'a [u8]);

/// A file has been moved, perhaps over another one.
#[cold]
pub fn moved(from: Place<'_>, to: Place<'_>, file: &Inode, over: Option<&Inode>) {
    if is_noted() {
        child(&from.0.inode, from.1, Some(file), Kind::Delete);
        if let Some(over) = over {
            child(&to.0.inode, to.1, Some(over), Kind::Delete);
        }
        child(&to.0.inode, to.1, Some(file), Kind::Create);
    }
    changed(&Change::Name(from.0, from.1));
    changed(&Change::Name(to.0, to.1));
    if file.kind == FileType::Directory {
        changed(&Change::Moved(file));
    }
    if let Some(over) = over.filter(|over| over.kind == FileType::Directory) {
        changed(&Change::Removed(over));
    }
}

/// Two files have exchanged their names: the first had the name `from`.
#[cold]
pub fn exchanged(from: Place<'_>, to: Place<'_>, files: [&Inode; 2]) {
    let [first, second] = files;
    if is_noted() {
        child(&from.0.inode, from.1, Some(first), Kind::Delete);
        child(&to.0.inode, to.1, Some(second), Kind::Delete);
        child(&to.0.inode, to.1, Some(first), Kind::Create);
        child(&from.0.inode, from.1, Some(second), Kind::Create);
    }
    changed(&Change::Name(from.0, from.1));
    changed(&Change::Name(to.0, to.1));
    for file in files.iter().filter(|file| file.kind == FileType::Directory) {
        changed(&Change::Moved(file));
    }
}

/// A file system is not mounted any more, and ends.
#[cold]
pub fn unmounted(sb: &SuperBlock) {
    changed(&Change::Unmounted(sb));
}
