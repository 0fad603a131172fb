//! Making, removing and moving names, for `mkdir`, `mknod`, `symlink`, `link`, `unlink`, `rmdir` and
//! `rename`.

use crate::fs::acl;
use crate::fs::dentry::{Dentry, Directory, NAME_MAX, Name};
use crate::fs::inode::{Dev, FileType, Inode, NewInode};
use crate::fs::inotify;
use crate::fs::mount;
use crate::fs::moves::Moving;
use crate::fs::path::Path;
use crate::fs::perm::{self, EXEC, WRITE};
use crate::rcu::Shared;
use crate::task::audit::names as audit;
use crate::task::{Creds, creds::cap};
use alloc::sync::Arc;
use limen_linux_abi::Errno;

/// Adds a new inode to a directory under `name`. `EEXIST`; `ENOENT`: the directory has been removed.
pub fn insert_new(dir: &Shared<Dentry>, name: &[u8], inode: Shared<Inode>) -> Result<Shared<Dentry>, Errno> {
    if name.len() > NAME_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    let is_dir = inode.kind == FileType::Directory;
    let child = Dentry::new(dir, name, inode);
    let key = child.name();
    {
        let mut entries = dir.lock_dir_to_add()?;
        if entries.is_dead() {
            return Err(Errno::ENOENT);
        }
        if entries.has(name) {
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

/// What to make.
pub struct New<'a> {
    /// Kind.
    pub kind: FileType,
    /// Permission bits, without the umask.
    pub mode: u32,
    /// Device number.
    pub rdev: Dev,
    /// Target of a symbolic link.
    pub target: &'a [u8],
}

/// Makes an inode for directory `dir`, which has no name yet. Its owner follows from the directory and the
/// creator.
pub fn new_inode(dir: &Path, creds: &Creds, new: &New<'_>) -> Result<Shared<Inode>, Errno> {
    let parent = &dir.dentry.inode;
    perm::may_have(parent, creds.fsuid, creds.fsgid)?;
    let (mut gid, mut mode) = (creds.fsgid, new.mode & 0o7777);
    if parent.mode() & 0o2000 != 0 {
        gid = parent.gid();
        if new.kind == FileType::Directory {
            mode |= 0o2000;
        } else if mode & 0o2010 == 0o2010
            && !creds.in_group(gid)
            && !perm::capable(creds, parent, cap::FSETID)
        {
            mode &= !0o2000;
        }
    }
    // A default access control list of the directory replaces the umask.
    let inherited = match new.kind {
        FileType::Symlink => None,
        _ if parent.mode_word() & Inode::HAS_DEFAULT_ACL != 0 => acl::default_of(parent),
        _ => None,
    };
    match &inherited {
        Some(acl) => mode = acl.inherit(mode),
        None if new.kind == FileType::Symlink => {}
        None => mode &= !crate::task::current().fs().umask(),
    }
    let new = NewInode {
        kind: new.kind,
        mode,
        uid: creds.fsuid,
        gid,
        rdev: new.rdev,
        target: new.target,
    };
    let inode = parent.ops.create(parent, &new)?;
    if let Some(acl) = inherited {
        acl::give(&inode, acl);
    }
    Ok(inode)
}

/// Makes an entry: checks, makes the inode and adds the name.
pub fn create(dir: &Path, name: &[u8], creds: &Creds, new: &New<'_>) -> Result<Shared<Dentry>, Errno> {
    match dir.dentry.lookup(name) {
        Ok(_) => return Err(Errno::EEXIST),
        Err(Errno::ENOENT) => {}
        Err(e) => return Err(e),
    }
    if !dir.dentry.inode.ops.writable_directory() {
        if new.kind == FileType::Directory && dir.dentry.inode.ops.lets_make() {
            dir.mnt.check_writable()?;
            perm::permission(&dir.dentry.inode, WRITE | EXEC, creds)?;
            dir.dentry.inode.ops.make_in(name)?;
            let child = dir.dentry.make_up(name)?;
            inotify::created(&dir.dentry, &child);
            return Ok(child);
        }
        return Err(dir.dentry.inode.sb.ops.no_entries(new.kind));
    }
    dir.mnt.check_writable()?;
    perm::permission(&dir.dentry.inode, WRITE | EXEC, creds)?;
    // A character device with number 0:0 is a whiteout, which any user may make.
    let whiteout = new.kind == FileType::CharDevice && new.rdev == Dev::default();
    if matches!(new.kind, FileType::CharDevice | FileType::BlockDevice)
        && !whiteout
        && !creds.capable(cap::MKNOD)
    {
        return Err(Errno::EPERM);
    }
    let child = insert_new(&dir.dentry, name, new_inode(dir, creds, new)?)?;
    inotify::created(&dir.dentry, &child);
    Ok(child)
}

/// `link`: adds another name for the file of `old`.
pub fn link(dir: &Path, name: &[u8], creds: &Creds, old: &Path, unnamed_ok: bool) -> Result<(), Errno> {
    if name.len() > NAME_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    let inode: &Shared<Inode> = &old.dentry.inode;
    if dir.dentry.lookup(name).is_ok() {
        return Err(Errno::EEXIST);
    }
    if !Shared::ptr_eq(&dir.mnt, &old.mnt) {
        return Err(Errno::EXDEV);
    }
    dir.mnt.check_writable()?;
    perm::may_link(inode, creds)?;
    perm::permission(&dir.dentry.inode, WRITE | EXEC, creds)?;
    if inode.kind == FileType::Directory || !dir.dentry.inode.ops.moves_names() {
        return Err(Errno::EPERM);
    }
    let child = Dentry::new(&dir.dentry, name, inode.clone());
    let key = child.name();
    {
        let mut entries = dir.dentry.lock_dir_to_add()?;
        if entries.is_dead() {
            return Err(Errno::ENOENT);
        }
        if entries.has(name) {
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
    inotify::created(&dir.dentry, &child);
    Ok(())
}

/// `unlink` and `rmdir`. A name with a slash behind it must be a directory.
pub fn remove(dir: &Path, name: &[u8], creds: &Creds, directory: bool, slash: bool) -> Result<(), Errno> {
    while !try_remove(dir, name, creds, directory, slash)? {}
    Ok(())
}

/// [`remove`]. `false`: the name meanwhile stands for another file.
fn try_remove(dir: &Path, name: &[u8], creds: &Creds, directory: bool, slash: bool) -> Result<bool, Errno> {
    let child = dir.dentry.lookup(name)?;
    if slash && !directory {
        return wrong_kind(&child);
    }
    remove_child(dir, name, &child, creds, directory)
        .inspect_err(|_| audit::not_removed(&dir.dentry.inode, name, &child.inode))
}

/// A directory for `unlink`, or another file for `rmdir`.
fn wrong_kind(child: &Dentry) -> Result<bool, Errno> {
    Err(match child.inode.kind {
        FileType::Directory => Errno::EISDIR,
        _ => Errno::ENOTDIR,
    })
}

/// [`try_remove`] of what has the name.
#[inline(always)]
fn remove_child(
    dir: &Path,
    name: &[u8],
    child: &Shared<Dentry>,
    creds: &Creds,
    directory: bool,
) -> Result<bool, Errno> {
    let is_dir = child.inode.kind == FileType::Directory;
    perm::may_delete(dir, &child.inode, creds)?;
    if directory != is_dir {
        return wrong_kind(child);
    }
    if !dir.dentry.inode.ops.writable_directory() {
        if !directory {
            return Err(Errno::EPERM);
        }
        dir.dentry.inode.ops.remove_in(name)?;
        inotify::removed(&dir.dentry, child);
        return Ok(true);
    }
    {
        let mut entries = dir.dentry.lock_dir()?;
        if !entries.is(name, child) {
            return Ok(false);
        }
        if is_mounted_here(child) {
            return Err(Errno::EBUSY);
        }
        bury(child)?;
        if is_dir {
            dir.dentry.inode.dec_nlink();
        }
        entries.remove(name);
        child.set_unlinked();
    }
    if child.mounted.is_used() {
        mount::uncover(child);
    }
    child.inode.touch_changed();
    dir.dentry.inode.touch_modified();
    inotify::removed(&dir.dentry, child);
    Ok(true)
}

/// Whether something is mounted on a name in the namespace of the running task. Mounts in others do not keep
/// a name. Its directory is locked.
#[inline]
fn is_mounted_here(name: &Shared<Dentry>) -> bool {
    name.mounted.is_used() && mount::is_local(name)
}

/// Takes a link from an inode that is being removed. A directory must be empty; nothing can be added to it
/// afterwards. The entries of its parent are locked.
fn bury(child: &Shared<Dentry>) -> Result<(), Errno> {
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

/// One of the two names of a rename.
pub struct Side<'a> {
    /// The directory.
    pub dir: &'a Path,
    /// The name in it.
    pub name: &'a [u8],
    /// Whether slashes follow the name.
    pub slash: bool,
}

/// The entries of two directories, or those of one.
enum Locked<'a> {
    One(Directory<'a>),
    Two(Directory<'a>, Directory<'a>),
}

impl<'a> Locked<'a> {
    fn from(&mut self) -> &mut Directory<'a> {
        match self {
            Locked::One(a) | Locked::Two(a, _) => a,
        }
    }
    fn to(&mut self) -> &mut Directory<'a> {
        match self {
            Locked::One(a) => a,
            Locked::Two(_, b) => b,
        }
    }
}

/// Locks both: an ancestor before a directory below it, unrelated ones by address. If they differ, the caller
/// holds the superblock's rename lock.
fn lock_both<'a>(from: &'a Shared<Dentry>, to: &'a Shared<Dentry>) -> Result<Locked<'a>, Errno> {
    if Shared::ptr_eq(from, to) {
        return Ok(Locked::One(from.lock_dir()?));
    }
    let from_first = if to.is_below(from) {
        true
    } else if from.is_below(to) {
        false
    } else {
        Shared::address(from) < Shared::address(to)
    };
    Ok(if from_first {
        let a = from.lock_dir()?;
        Locked::Two(a, to.lock_dir_nested(1)?)
    } else {
        let b = to.lock_dir()?;
        Locked::Two(from.lock_dir_nested(1)?, b)
    })
}

/// Checks the flags of `renameat2`. `EINVAL`: one is unknown, they exclude each other, or no file system here
/// supports one (`RENAME_WHITEOUT`).
pub fn check_flags(flags: u32) -> Result<(), Errno> {
    match flags {
        0 | RENAME_NOREPLACE | RENAME_EXCHANGE => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

/// `renameat2` within one mount.
pub fn rename(old: &Side<'_>, new: &Side<'_>, creds: &Creds, flags: u32) -> Result<(), Errno> {
    let (from_dir, to_dir) = (&old.dir.dentry, &new.dir.dentry);
    let sb = from_dir.inode.sb.clone();
    let order = if Shared::ptr_eq(from_dir, to_dir) {
        None
    } else {
        Some(sb.rename_lock.lock())
    };
    let mut covered = None;
    while !try_rename(old, new, creds, flags, &mut covered)? {}
    drop(order);
    if let Some(name) = covered {
        mount::uncover(&name);
    }
    Ok(())
}

/// [`rename`]. `false`: one of the names meanwhile stands for another file. If the directories differ, the
/// superblock's rename lock is held. `covered` gets the name that was replaced if others have mounted
/// something on it.
fn try_rename(
    old: &Side<'_>,
    new: &Side<'_>,
    creds: &Creds,
    flags: u32,
    covered: &mut Option<Shared<Dentry>>,
) -> Result<bool, Errno> {
    let (from_dir, to_dir) = (&old.dir.dentry, &new.dir.dentry);
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
    // The source must not contain the target directory, nor the target the source.
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
        .is_some_and(|t| Shared::ptr_eq(&t.inode, &source.inode))
    {
        return Ok(true);
    }
    let refused = || audit::not_removed(&from_dir.inode, old.name, &source.inode);
    perm::may_delete(old.dir, &source.inode, creds).inspect_err(|_| refused())?;
    match &target {
        Some(t) => {
            perm::may_delete(new.dir, &t.inode, creds).inspect_err(|_| {
                refused();
                audit::not_removed(&to_dir.inode, new.name, &t.inode);
            })?;
            if !exchange && source_is_dir != (target_is_dir == Some(true)) {
                return Err(if source_is_dir {
                    Errno::ENOTDIR
                } else {
                    Errno::EISDIR
                });
            }
        }
        None => perm::path_permission(new.dir, WRITE | EXEC, creds).inspect_err(|_| {
            refused();
            audit::not_made(&to_dir.inode, new.name);
        })?,
    }
    if source_is_dir && !Shared::ptr_eq(from_dir, to_dir) {
        perm::permission(&source.inode, WRITE, creds)?;
    }
    if !from_dir.inode.ops.moves_names() || !to_dir.inode.ops.moves_names() {
        return Err(Errno::EPERM);
    }
    let new_name: Name = Arc::from(new.name);
    let old_name: Name = Arc::from(old.name);
    if new.name.len() > NAME_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    drop(to_dir.lock_dir_to_add()?);
    {
        let mut both = lock_both(from_dir, to_dir)?;
        if both.to().is_dead() {
            return Err(Errno::ENOENT);
        }
        let unchanged = both.from().is(old.name, &source)
            && match &target {
                Some(target) => both.to().is(new.name, target),
                None => !both.to().has(new.name),
            };
        if !unchanged {
            return Ok(false);
        }
        // Mounting on a name needs the lock of the name's directory, which is held.
        if is_mounted_here(&source) || target.as_ref().is_some_and(is_mounted_here) {
            return Err(Errno::EBUSY);
        }
        let moving = Moving::begin();
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
        drop(moving);
    }
    source.inode.touch_changed();
    if let Some(t) = &target {
        if !exchange && t.mounted.is_used() {
            *covered = Some(t.clone());
        }
        t.inode.touch_changed();
    }
    from_dir.inode.touch_modified();
    to_dir.inode.touch_modified();
    let (from, to) = ((from_dir, old.name), (to_dir, new.name));
    match &target {
        Some(t) if exchange => inotify::exchanged(from, to, &source, t),
        over => inotify::moved(from, to, &source, over.as_ref()),
    }
    Ok(true)
}
