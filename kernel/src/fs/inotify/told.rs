//! What watchers are told. Operations of the file system call these functions, each of which is a single load
//! if there is no watch anywhere.

use super::{
    ACCESS, ATTRIB, CLOSE_NOWRITE, CLOSE_WRITE, CREATE, DELETE, DELETE_SELF, EVENTS, EXCL_UNLINK, Event,
    ISDIR, MODIFY, MOVE_SELF, MOVED_FROM, MOVED_TO, ONESHOT, OPEN, UNMOUNT, WATCHES,
};
use crate::fs::dentry::Dentry;
use crate::fs::file::{File, FileMode};
use crate::fs::inode::{FileType, Inode};
use crate::fs::superblock::SuperBlock;
use crate::rcu::Shared;
use crate::task::audit::names as audit;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use limen_linux_abi::SysResult;

static COOKIE: AtomicU32 = AtomicU32::new(1);

/// Whether `inode` may have watchers, or one that stands for it.
fn may_hear(inode: &Inode) -> bool {
    inode.watched.load(Ordering::Acquire)
        || inode.sb.watched.any.load(Ordering::Acquire) && inode.ops.made_up()
}

/// Tells the watchers of `inode`.
#[cold]
fn notify(inode: &Inode, mask: u32, cookie: u32, name: &[u8]) {
    notify_unless(0, inode, mask, cookie, name);
}

/// Tells the watchers whose mask does not have `without`.
fn notify_unless(without: u32, inode: &Inode, mask: u32, cookie: u32, name: &[u8]) {
    if !inode.watched.load(Ordering::Acquire) {
        let standing = &inode.sb.watched;
        if standing.any.load(Ordering::Acquire)
            && inode.ops.made_up()
            && let Some(stand_in) = standing.find(inode.ino)
        {
            tell_watchers(without, &stand_in, mask, cookie, name);
        }
        return;
    }
    tell_watchers(without, inode, mask, cookie, name);
}

fn tell_watchers(without: u32, inode: &Inode, mask: u32, cookie: u32, name: &[u8]) {
    let mut after = 0;
    let mut next = || {
        let (number, watch) = inode.watches.lock().behind(after)?;
        after = number;
        Some(watch)
    };
    // One after the other: there may be very many.
    while let Some(w) = next() {
        let wanted = w.mask.load(Ordering::Relaxed);
        if (wanted | UNMOUNT) & mask & (EVENTS | UNMOUNT) == 0 || wanted & without != 0 {
            continue;
        }
        let Some(owner) = w.owner.upgrade() else { continue };
        owner.queue(Event {
            wd: w.wd,
            mask,
            cookie,
            name: name.to_vec(),
        });
        if wanted & ONESHOT != 0 {
            let _ = owner.remove(w.wd);
        }
    }
}

#[inline(always)]
fn nobody() -> bool {
    WATCHES.load(Ordering::Relaxed) == 0
}

/// Audit counts as so many watches: there are never so many others.
const AUDIT: usize = 1 << (usize::BITS - 1);

/// Audit hears of names that are made and removed, and of files that are opened, from now on, or no longer.
pub fn audit_hears(on: bool) {
    match on {
        true => WATCHES.fetch_or(AUDIT, Ordering::Relaxed),
        false => WATCHES.fetch_and(!AUDIT, Ordering::Relaxed),
    };
}

/// Whether only audit hears.
fn no_watch() -> bool {
    WATCHES.load(Ordering::Relaxed) & !AUDIT == 0
}

/// Does it if there is a watch. (With a closure instead, the test would stay out of line.)
macro_rules! if_watched {
    ($tell:expr) => {
        if !nobody() {
            $tell;
        }
    };
}

fn dir_bit(inode: &Inode) -> u32 {
    if inode.kind == FileType::Directory {
        ISDIR
    } else {
        0
    }
}

/// Something happened to the file that `dentry` names: tells its watchers and those of its directory, even if
/// the name has been removed.
fn about(dentry: &Shared<Dentry>, mask: u32) {
    about_unless(0, dentry, mask);
}

/// Something was done to an open file. Watches with `IN_EXCL_UNLINK` are not told if the name has been
/// removed.
fn about_file(file: &File, mask: u32) {
    if no_watch() {
        return;
    }
    let dentry = &file.path.dentry;
    let without = if dentry.is_unlinked() { EXCL_UNLINK } else { 0 };
    // Who may only look into the directory does not learn when others use a device or a pipe in it: the times
    // of these do not say so either.
    let kept = matches!(
        dentry.inode.kind,
        FileType::CharDevice | FileType::BlockDevice | FileType::Fifo | FileType::Socket
    );
    if kept && mask & (ACCESS | MODIFY) != 0 {
        return notify_unless(without, &dentry.inode, mask, 0, b"");
    }
    about_unless(without, dentry, mask);
}

fn about_unless(without: u32, dentry: &Shared<Dentry>, mask: u32) {
    let mask = mask | dir_bit(&dentry.inode);
    // The name is asked for only if somebody hears it: every read and write comes here while there is a watch
    // anywhere.
    if dentry.parent().is_some_and(|parent| may_hear(&parent.inode))
        && let (Some(parent), name) = dentry.position()
    {
        notify_unless(without, &parent.inode, mask, 0, &name);
    }
    notify_unless(without, &dentry.inode, mask, 0, b"");
}

/// An entry was made.
pub fn created(dir: &Shared<Dentry>, child: &Shared<Dentry>) {
    if_watched!(tell_created(dir, child));
}
// What is told is out of line: who asks in vain keeps nothing for it.
#[cold]
#[inline(never)]
fn tell_created(dir: &Shared<Dentry>, child: &Shared<Dentry>) {
    let name = child.name();
    audit::made(dir, &name, &child.inode);
    notify(&dir.inode, CREATE | dir_bit(&child.inode), 0, &name);
}
/// An entry was removed.
pub fn removed(dir: &Shared<Dentry>, child: &Shared<Dentry>) {
    if_watched!(tell_removed(dir, child));
}
#[cold]
#[inline(never)]
fn tell_removed(dir: &Shared<Dentry>, child: &Shared<Dentry>) {
    let name = child.name();
    audit::removed(dir, &name, &child.inode);
    if child.inode.nlink() != 0 || child.inode.kind != FileType::Directory {
        // Losing a name changes the attributes. If the file has no other name and no user, the end of the
        // inode is reported.
        notify(&child.inode, ATTRIB, 0, b"");
    }
    notify(&dir.inode, DELETE | dir_bit(&child.inode), 0, &name);
}
/// A device's name has come, other than by a program that makes one.
pub fn name_made(dir: &Inode, name: &[u8]) {
    if_watched!(notify(dir, CREATE, 0, name));
}
/// Such a name has gone.
pub fn name_gone(dir: &Inode, name: &[u8]) {
    if_watched!(notify(dir, DELETE, 0, name));
}
/// An inode's attributes changed.
pub fn attrib(inode: &Inode) {
    if_watched!(notify(inode, ATTRIB | dir_bit(inode), 0, b""));
}
/// The attributes of the file that a name stands for changed.
pub fn attrib_at(dentry: &Shared<Dentry>) {
    if_watched!(about(dentry, ATTRIB));
}
/// A file was moved to another name or directory, perhaps replacing another file.
pub fn moved(
    from: (&Shared<Dentry>, &[u8]),
    to: (&Shared<Dentry>, &[u8]),
    moved: &Shared<Dentry>,
    over: Option<&Shared<Dentry>>,
) {
    if nobody() {
        return;
    }
    audit::moved(from, to, &moved.inode, over.map(|over| &**over.inode));
    tell_moved(from, to, moved, over);
}
/// Two files exchanged their names: `first` had the name `from`.
#[cold]
pub fn exchanged(
    from: (&Shared<Dentry>, &[u8]),
    to: (&Shared<Dentry>, &[u8]),
    first: &Shared<Dentry>,
    second: &Shared<Dentry>,
) {
    if nobody() {
        return;
    }
    audit::exchanged(from, to, [&first.inode, &second.inode]);
    tell_moved(from, to, first, None);
    tell_moved(to, from, second, None);
}
fn tell_moved(
    (from, old): (&Shared<Dentry>, &[u8]),
    (to, new): (&Shared<Dentry>, &[u8]),
    moved: &Shared<Dentry>,
    over: Option<&Shared<Dentry>>,
) {
    let cookie = COOKIE.fetch_add(1, Ordering::Relaxed);
    let bit = dir_bit(&moved.inode);
    notify(&from.inode, MOVED_FROM | bit, cookie, old);
    notify(&to.inode, MOVED_TO | bit, cookie, new);
    if let Some(over) = over {
        notify(&over.inode, ATTRIB | dir_bit(&over.inode), 0, b"");
    }
    notify(&moved.inode, MOVE_SELF, 0, b"");
}
/// Opened.
#[inline]
pub fn opened(file: &File) {
    if_watched!(tell_opened(file));
}
#[cold]
#[inline(never)]
fn tell_opened(file: &File) {
    audit::opened(&file.path.dentry);
    about_file(file, OPEN);
}
/// A file was opened for execution.
pub fn opened_inode(dentry: &Shared<Dentry>) {
    if_watched!(about(dentry, OPEN));
}
/// Contents changed.
#[inline]
pub fn modified(file: &File) {
    if_watched!(about_file(file, MODIFY));
}
/// Contents changed; the caller knows the name, not an open file.
pub fn modified_inode(dentry: &Shared<Dentry>) {
    if_watched!(about(dentry, MODIFY));
}
/// Contents were read.
#[inline]
pub fn accessed(file: &File) {
    if_watched!(about_file(file, ACCESS));
}
/// A read of `file` ended with `result`, which is given back. The file is asked for only if there is a watch.
/// So no register of the callers has to keep either for the case that there is one.
#[inline(always)]
pub fn was_read<'a>(file: impl FnOnce() -> &'a File, result: SysResult) -> SysResult {
    if nobody() {
        return result;
    }
    moved_bytes(file(), ACCESS, result)
}
/// As [`was_read`], of a write.
#[inline(always)]
pub fn was_written<'a>(file: impl FnOnce() -> &'a File, result: SysResult) -> SysResult {
    if nobody() {
        return result;
    }
    moved_bytes(file(), MODIFY, result)
}
#[cold]
#[inline(never)]
fn moved_bytes(file: &File, mask: u32, result: SysResult) -> SysResult {
    if result.is_ok_and(|n| n != 0) {
        about_file(file, mask);
    }
    result
}
/// A file was closed for good.
#[inline]
pub fn file_closed(file: &File) {
    if_watched!({
        let write = file.mode().contains(FileMode::WRITE);
        about_file(file, if write { CLOSE_WRITE } else { CLOSE_NOWRITE });
    });
}
/// The last mount of the file system that has `inode` is gone.
pub fn unmounted(inode: &Inode) {
    if !inode.watched.load(Ordering::Acquire) {
        return;
    }
    notify(inode, UNMOUNT | dir_bit(inode), 0, b"");
    let mut after = 0;
    let mut next = || {
        let (number, watch) = inode.watches.lock().behind(after)?;
        after = number;
        Some(watch)
    };
    while let Some(w) = next() {
        if let Some(owner) = w.owner.upgrade() {
            // The end of an `IN_ONESHOT` watch: this is the only event it gets.
            let _ = owner.remove(w.wd);
        }
    }
}
/// A file system ends: its last mount is gone.
pub fn ended(sb: &SuperBlock) {
    if_watched!(audit::unmounted(sb));
}
/// [`unmounted`] for all made-up inodes.
pub fn all_unmounted(sb: &SuperBlock) {
    let mut after = None;
    while let Some(inode) = sb.watched.behind(after) {
        after = Some(inode.ino);
        unmounted(&inode);
    }
}
/// The inode has no user any more. If it still has a name, as a pipe's has, nothing is reported and its
/// watches stay.
pub fn inode_gone(inode: &Inode) {
    if inode.nlink() != 0 {
        return;
    }
    let all = core::mem::take(&mut inode.watches.lock().list);
    for w in all.into_iter().filter_map(|(_, w)| w.upgrade()) {
        if let Some(owner) = w.owner.upgrade() {
            if w.mask.load(Ordering::Relaxed) & DELETE_SELF != 0 {
                owner.queue(Event {
                    wd: w.wd,
                    mask: DELETE_SELF,
                    cookie: 0,
                    name: Vec::new(),
                });
            }
            let _ = owner.remove(w.wd);
        }
    }
}
