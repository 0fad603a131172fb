//! Directories whose files rules watch, with all below them: what is mounted there when the rule is added, or
//! is said to be equivalent (`AUDIT_MAKE_EQUIV`), belongs to them.

use super::rules;
use crate::fs::lookup::{AT_FDCWD, lookup};
use crate::fs::mount;
use crate::fs::path::Path;
use crate::fs::walk::Walk;
use crate::mm::reserve::{copy_of, room};
use crate::sync::SpinLock;
use crate::task::audit::names::id;
use alloc::vec::Vec;
use limen_audit::names::FileId;
use limen_linux_abi::Errno;

/// A watched tree.
pub struct Tree {
    /// Its path.
    pub path: Vec<u8>,
    /// Its directory.
    pub root: FileId,
    /// That and the roots of what is mounted below. Whatever is in or below one of them is in the tree.
    tags: SpinLock<Vec<FileId>>,
}

/// The directory and the roots of what is mounted below it.
fn tags_of(at: &Path) -> Result<Vec<FileId>, Errno> {
    let mut tags = Vec::new();
    room(&mut tags, 1)?;
    tags.push(id(&at.dentry.inode));
    mount::for_roots_below(at, |root| {
        room(&mut tags, 1)?;
        tags.push(id(&root.inode));
        Ok(())
    })?;
    Ok(tags)
}

impl Tree {
    /// Watches the tree at a path. Errors are those of looking it up, and `ENOMEM`. May sleep.
    pub fn new(path: &[u8]) -> Result<Self, Errno> {
        let own = copy_of(path)?;
        let at = lookup(AT_FDCWD, path, Walk::empty())?;
        Ok(Self {
            path: own,
            root: id(&at.dentry.inode),
            tags: SpinLock::new(tags_of(&at)?),
        })
    }

    /// Whether a directory is one of those that stand for the tree.
    pub fn has(&self, tag: FileId) -> bool {
        self.tags.lock().contains(&tag)
    }

    /// Adds these directories to others. `ENOMEM`.
    pub fn add_to(&self, all: &mut Vec<FileId>) -> Result<(), Errno> {
        let count = self.tags.lock().len();
        room(all, count)?;
        // Only who changes rules changes them.
        all.extend(self.tags.lock().iter().take(count));
        Ok(())
    }
}

/// What is no longer mounted below a tree does not belong to it any more. `ENOMEM`. May sleep.
pub fn trim() -> Result<(), Errno> {
    let Some(set) = rules::all() else { return Ok(()) };
    for tree in set.all().iter().filter_map(|entry| entry.tree.as_ref()) {
        let Ok(at) = lookup(AT_FDCWD, &tree.path, Walk::empty()) else {
            continue;
        };
        let now = tags_of(&at)?;
        let root = tree.root;
        tree.tags.lock().retain(|tag| *tag == root || now.contains(tag));
    }
    rules::refresh()
}

/// What is mounted at `new` and below belongs to the trees at `old` and below. Errors are those of looking
/// paths up, and `ENOMEM`. May sleep.
pub fn make_equivalent(old: &[u8], new: &[u8]) -> Result<(), Errno> {
    let new = lookup(AT_FDCWD, new, Walk::empty())?;
    let old = lookup(AT_FDCWD, old, Walk::empty())?;
    let Some(set) = rules::all() else { return Ok(()) };
    for tree in set.all().iter().filter_map(|entry| entry.tree.as_ref()) {
        let Ok(at) = lookup(AT_FDCWD, &tree.path, Walk::empty()) else {
            continue;
        };
        if !at.is_under(&old)? {
            continue;
        }
        let mut both = tags_of(&new)?;
        tree.add_to(&mut both)?;
        both.sort_unstable();
        both.dedup();
        let former = core::mem::replace(&mut *tree.tags.lock(), both);
        drop(former);
    }
    rules::refresh()
}
