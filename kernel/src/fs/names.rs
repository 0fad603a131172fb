//! Making, removing and moving names: what `mkdir`, `mknod`, `symlink`, `link`, `unlink`, `rmdir` and `rename` share.

use crate::fs::dentry::{Dentry, Directory, NAME_MAX, Name};
use crate::fs::inode::{Dev, FileType, Inode, NewInode};
use crate::fs::inotify;
use crate::fs::path::Path;
use crate::fs::perm::{self, EXEC, WRITE};
use crate::sync::SpinGuard;
use crate::task::Creds;
use alloc::sync::Arc;
use limen_linux_abi::Errno;

/// Puts a new inode into a directory under `name`. `EEXIST`, or `ENOENT` if the directory has been removed.
pub fn insert_new(dir: &Arc<Dentry>, name: &[u8], inode: Arc<Inode>) -> Result<Arc<Dentry>, Errno> {
    if name.len() > NAME_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    let is_dir = inode.kind == FileType::Directory;
    let child = Dentry::new(dir, name, inode);
    let key = child.name();
    {
        let mut entries = dir.lock_dir()?;
        if entries.is_dead() {
            return Err(Errno::ENOENT);
        }
        if entries.get(name).is_some() {
            return Err(Errno::EEXIST);
        }
        entries.insert(key, child.clone())?;
        if is_dir {
            dir.inode.inc_nlink();
        }
    }
    dir.inode.touch_modified();
    Ok(child)
}

/// What a new entry is to be.
pub struct New<'a> {
    /// Kind.
    pub kind: FileType,
    /// Permission bits, umask applied.
    pub mode: u32,
    /// Device number.
    pub rdev: Dev,
    /// Target of a symbolic link.
    pub target: &'a [u8],
}

/// A new inode for directory `dir`, owned as its bits and the creator say, without a name yet.
pub fn new_inode(dir: &Path, creds: &Creds, new: &New<'_>) -> Result<Arc<Inode>, Errno> {
    let parent = &dir.dentry.inode;
    let (mut gid, mut mode) = (creds.fsgid, new.mode & 0o7777);
    if parent.mode() & 0o2000 != 0 {
        gid = parent.gid();
        if new.kind == FileType::Directory {
            mode |= 0o2000;
        } else if mode & 0o2010 == 0o2010 && !creds.in_group(gid) && !creds.capable(perm::CAP_FSETID) {
            mode &= !0o2000;
        }
    }
    let new = NewInode {
        kind: new.kind,
        mode,
        uid: creds.fsuid,
        gid,
        rdev: new.rdev,
        target: new.target,
    };
    parent.ops.create(parent, &new)
}

/// Makes an entry: checks, inode, name.
pub fn create(dir: &Path, name: &[u8], creds: &Creds, new: &New<'_>) -> Result<Arc<Dentry>, Errno> {
    match dir.dentry.lookup(name) {
        Ok(_) => return Err(Errno::EEXIST),
        Err(Errno::ENOENT) => {}
        Err(e) => return Err(e),
    }
    if !dir.dentry.inode.ops.writable_directory() {
        return Err(dir.dentry.inode.sb.ops.no_entries(new.kind));
    }
    dir.mnt.check_writable()?;
    perm::permission(&dir.dentry.inode, WRITE | EXEC, creds)?;
    // A character device 0:0 is a whiteout, which anybody may make.
    let whiteout = new.kind == FileType::CharDevice && new.rdev == Dev::default();
    if matches!(new.kind, FileType::CharDevice | FileType::BlockDevice)
        && !whiteout
        && !creds.capable(perm::CAP_MKNOD)
    {
        return Err(Errno::EPERM);
    }
    let child = insert_new(&dir.dentry, name, new_inode(dir, creds, new)?)?;
    inotify::created(&dir.dentry.inode, &child);
    Ok(child)
}

/// `link`: another name for `inode`.
pub fn link(dir: &Path, name: &[u8], creds: &Creds, old: &Path, unnamed_ok: bool) -> Result<(), Errno> {
    if name.len() > NAME_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    let inode = &old.dentry.inode;
    if dir.dentry.lookup(name).is_ok() {
        return Err(Errno::EEXIST);
    }
    if !Arc::ptr_eq(&dir.mnt, &old.mnt) {
        return Err(Errno::EXDEV);
    }
    dir.mnt.check_writable()?;
    perm::may_link(inode, creds)?;
    perm::permission(&dir.dentry.inode, WRITE | EXEC, creds)?;
    if inode.kind == FileType::Directory || !dir.dentry.inode.ops.writable_directory() {
        return Err(Errno::EPERM);
    }
    let child = Dentry::new(&dir.dentry, name, inode.clone());
    let key = child.name();
    {
        let mut entries = dir.dentry.lock_dir()?;
        if entries.is_dead() {
            return Err(Errno::ENOENT);
        }
        if entries.get(name).is_some() {
            return Err(Errno::EEXIST);
        }
        match inode.link() {
            Err(Errno::ENOENT) if unnamed_ok => inode.revive(),
            other => other?,
        }
        if let Err(e) = entries.insert(key, child.clone()) {
            inode.dec_nlink();
            return Err(e);
        }
    }
    inode.touch_changed();
    dir.dentry.inode.touch_modified();
    inotify::attrib(inode);
    inotify::created(&dir.dentry.inode, &child);
    Ok(())
}

/// `unlink` and `rmdir`. A name with a slash behind it must be a directory.
pub fn remove(dir: &Path, name: &[u8], creds: &Creds, directory: bool, slash: bool) -> Result<(), Errno> {
    let child = dir.dentry.lookup(name)?;
    let is_dir = child.inode.kind == FileType::Directory;
    let wrong_kind = Err(if is_dir { Errno::EISDIR } else { Errno::ENOTDIR });
    if slash && !directory {
        return wrong_kind;
    }
    perm::may_delete(dir, &child.inode, creds)?;
    if directory != is_dir {
        return wrong_kind;
    }
    if !dir.dentry.inode.ops.writable_directory() {
        return Err(Errno::EPERM);
    }
    if child.mounted.is_used() {
        return Err(Errno::EBUSY);
    }
    {
        let mut entries = dir.dentry.lock_dir()?;
        if !entries.get(name).is_some_and(|d| Arc::ptr_eq(d, &child)) {
            return Err(Errno::ENOENT);
        }
        bury(&child)?;
        if is_dir {
            dir.dentry.inode.dec_nlink();
        }
        entries.remove(name);
        child.set_unlinked();
    }
    child.inode.touch_changed();
    dir.dentry.inode.touch_modified();
    inotify::removed(&dir.dentry.inode, &child);
    Ok(())
}

/// Takes a victim's link away: a directory must be empty and is closed for new entries. Its parent's entries are locked.
fn bury(child: &Arc<Dentry>) -> Result<(), Errno> {
    if child.inode.kind == FileType::Directory {
        let mut own = child.lock_dir_nested(2)?;
        if !own.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        own.kill();
        child.inode.set_nlink(0);
    } else {
        child.inode.dec_nlink();
    }
    Ok(())
}

/// `RENAME_NOREPLACE`.
pub const RENAME_NOREPLACE: u32 = 1;
/// `RENAME_EXCHANGE`.
pub const RENAME_EXCHANGE: u32 = 2;

/// One side of a rename.
pub struct Side<'a> {
    /// The directory.
    pub dir: &'a Path,
    /// The name in it.
    pub name: &'a [u8],
    /// Whether slashes follow.
    pub slash: bool,
}

/// Two directories' entries, or one directory's.
enum Locked<'a> {
    One(SpinGuard<'a, Directory>),
    Two(SpinGuard<'a, Directory>, SpinGuard<'a, Directory>),
}

impl Locked<'_> {
    fn from(&mut self) -> &mut Directory {
        match self {
            Locked::One(a) | Locked::Two(a, _) => a,
        }
    }
    fn to(&mut self) -> &mut Directory {
        match self {
            Locked::One(a) => a,
            Locked::Two(_, b) => b,
        }
    }
}

/// Locks both: an ancestor before what is below it, unrelated ones by address. The superblock's rename lock is held if they differ.
fn lock_both<'a>(from: &'a Arc<Dentry>, to: &'a Arc<Dentry>) -> Result<Locked<'a>, Errno> {
    if Arc::ptr_eq(from, to) {
        return Ok(Locked::One(from.lock_dir()?));
    }
    let from_first = if to.is_below(from) {
        true
    } else if from.is_below(to) {
        false
    } else {
        Arc::as_ptr(from).addr() < Arc::as_ptr(to).addr()
    };
    Ok(if from_first {
        let a = from.lock_dir()?;
        Locked::Two(a, to.lock_dir_nested(1)?)
    } else {
        let b = to.lock_dir()?;
        Locked::Two(from.lock_dir_nested(1)?, b)
    })
}

/// `EINVAL` for flags of `renameat2` that are none, exclude each other, or mean what no file system here does (`RENAME_WHITEOUT`).
pub fn check_flags(flags: u32) -> Result<(), Errno> {
    match flags {
        0 | RENAME_NOREPLACE | RENAME_EXCHANGE => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

/// `renameat2`, on one mount.
pub fn rename(old: &Side<'_>, new: &Side<'_>, creds: &Creds, flags: u32) -> Result<(), Errno> {
    let (from_dir, to_dir) = (&old.dir.dentry, &new.dir.dentry);
    let sb = from_dir.inode.sb.clone();
    let _order = if Arc::ptr_eq(from_dir, to_dir) {
        None
    } else {
        Some(sb.rename_lock.lock())
    };

    let source = from_dir.lookup(old.name)?;
    let exchange = flags & RENAME_EXCHANGE != 0;
    let target = match to_dir.lookup(new.name) {
        Ok(t) if flags & RENAME_NOREPLACE != 0 => {
            drop(t);
            return Err(Errno::EEXIST);
        }
        Ok(t) => Some(t),
        Err(Errno::ENOENT) if !exchange => None,
        Err(e) => return Err(e),
    };
    let source_is_dir = source.inode.kind == FileType::Directory;
    let target_is_dir = target.as_ref().map(|t| t.inode.kind == FileType::Directory);
    let becomes_dir = if exchange {
        target_is_dir == Some(true)
    } else {
        source_is_dir
    };
    if !source_is_dir && old.slash || !becomes_dir && new.slash {
        return Err(Errno::ENOTDIR);
    }
    // The source must not contain the target directory, nor the other way round.
    if source_is_dir && to_dir.is_below(&source) {
        return Err(Errno::EINVAL);
    }
    if let Some(t) = &target
        && from_dir.is_below(t)
    {
        return Err(if exchange { Errno::EINVAL } else { Errno::ENOTEMPTY });
    }
    if target
        .as_ref()
        .is_some_and(|t| Arc::ptr_eq(&t.inode, &source.inode))
    {
        return Ok(());
    }
    perm::may_delete(old.dir, &source.inode, creds)?;
    match &target {
        Some(t) => {
            perm::may_delete(new.dir, &t.inode, creds)?;
            if !exchange && source_is_dir != (target_is_dir == Some(true)) {
                return Err(if source_is_dir {
                    Errno::ENOTDIR
                } else {
                    Errno::EISDIR
                });
            }
        }
        None => perm::path_permission(new.dir, WRITE | EXEC, creds)?,
    }
    if source_is_dir && !Arc::ptr_eq(from_dir, to_dir) {
        perm::permission(&source.inode, WRITE, creds)?;
    }
    if !from_dir.inode.ops.writable_directory() || !to_dir.inode.ops.writable_directory() {
        return Err(Errno::EPERM);
    }
    if source.mounted.is_used() || target.as_ref().is_some_and(|t| t.mounted.is_used()) {
        return Err(Errno::EBUSY);
    }
    let new_name: Name = Arc::from(new.name);
    let old_name: Name = Arc::from(old.name);
    if new.name.len() > NAME_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    {
        let mut both = lock_both(from_dir, to_dir)?;
        if both.to().is_dead() {
            return Err(Errno::ENOENT);
        }
        let same = |found: Option<&Arc<Dentry>>, want: Option<&Arc<Dentry>>| match (found, want) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        };
        if !same(both.from().get(old.name), Some(&source)) {
            return Err(Errno::ENOENT);
        }
        if !same(both.to().get(new.name), target.as_ref()) {
            // Somebody was faster; from the outside this is as if the other call had come second.
            return Err(if target.is_some() {
                Errno::ENOENT
            } else {
                Errno::EEXIST
            });
        }
        let (from_inode, to_inode) = (&from_dir.inode, &to_dir.inode);
        if exchange {
            let t = target.as_ref().ok_or(Errno::ENOENT)?;
            both.from().replace(old.name, t.clone());
            both.to().replace(new.name, source.clone());
            t.set_position(from_dir, old_name);
            source.set_position(to_dir, new_name);
            if source_is_dir != (target_is_dir == Some(true)) {
                let (gains, loses) = if source_is_dir {
                    (to_inode, from_inode)
                } else {
                    (from_inode, to_inode)
                };
                gains.inc_nlink();
                loses.dec_nlink();
            }
        } else {
            match (&target, &mut both) {
                (Some(t), _) => {
                    bury(t)?;
                    if target_is_dir == Some(true) {
                        to_inode.dec_nlink();
                    }
                    both.to().replace(new.name, source.clone());
                    t.set_unlinked();
                    both.from().remove(old.name);
                }
                (None, Locked::One(dir)) => dir.rename(old.name, new_name.clone())?,
                (None, Locked::Two(from, to)) => {
                    to.insert(new_name.clone(), source.clone())?;
                    from.remove(old.name);
                }
            }
            source.set_position(to_dir, new_name);
            if source_is_dir {
                from_inode.dec_nlink();
                to_inode.inc_nlink();
            }
        }
    }
    source.inode.touch_changed();
    if let Some(t) = &target {
        t.inode.touch_changed();
    }
    from_dir.inode.touch_modified();
    to_dir.inode.touch_modified();
    inotify::moved(
        &from_dir.inode,
        old.name,
        &to_dir.inode,
        new.name,
        &source,
        target.as_ref().filter(|_| !exchange),
    );
    Ok(())
}
