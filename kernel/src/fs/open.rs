//! Opening: from a path to an open file.

use crate::fs::count;
use crate::fs::devices;
use crate::fs::file::{File, FileMode, FileOps, PathOnly};
use crate::fs::inode::{Dev, FileType, Inode};
use crate::fs::locks::leases;
use crate::fs::lookup::{AT_FDCWD, lookup, walker};
use crate::fs::mount::MS_NOEXEC;
use crate::fs::names::{self, New};
use crate::fs::path::Path;
use crate::fs::perm::{self, EXEC, READ, WRITE};
use crate::fs::readdir::DirOps;
use crate::fs::regular::{self, Regular};
use crate::fs::walk::{LastKind, Walk, Walker};
use crate::fs::{dentry::Dentry, inotify, missing, pipe};
use crate::rcu::Shared;
use crate::sync::SpinLock;
use crate::task::audit::names as audit;
use crate::task::{Creds, current};
use alloc::sync::Arc;
use limen_linux_abi::{Errno, raw::general as abi};

/// `__O_TMPFILE`, without the bit of `O_DIRECTORY`.
pub const O_TMPFILE_BIT: u32 = 0o20000000;

/// The arguments of `openat2`.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// `O_*`.
    pub flags: u32,
    /// Permission bits of a new file, without the umask.
    pub mode: u32,
    /// `RESOLVE_*`, as walk flags.
    pub resolve: Walk,
}

/// Operations without a state of their own, which all files of a kind share.
struct Common {
    regular: Arc<dyn FileOps>,
    directory: Arc<dyn FileOps>,
    path: Arc<dyn FileOps>,
}

static COMMON: SpinLock<Option<Common>> = SpinLock::new(None);

fn common(pick: impl FnOnce(&Common) -> &Arc<dyn FileOps>) -> Arc<dyn FileOps> {
    let mut s = COMMON.lock();
    let s = s.get_or_insert_with(|| Common {
        regular: Arc::new(Regular),
        directory: Arc::new(DirOps),
        path: Arc::new(PathOnly),
    });
    pick(s).clone()
}

/// Opens by path for the running task.
pub fn open(dirfd: i32, path: &[u8], how: &How) -> Result<Arc<File>, Errno> {
    count::may_open()?;
    let (mut flags, mut walk) = (how.flags, how.resolve);
    if flags & abi::O_PATH != 0 {
        flags &= abi::O_PATH | abi::O_DIRECTORY | abi::O_NOFOLLOW | abi::O_CLOEXEC;
        if flags & abi::O_DIRECTORY != 0 {
            // Nothing is found if it is none.
            walk |= Walk::DIRECTORY;
        }
    }
    if flags & abi::O_NOFOLLOW == 0 {
        walk |= Walk::FOLLOW;
    }
    if flags & O_TMPFILE_BIT != 0 {
        return tmpfile(lookup(dirfd, path, walk)?, how);
    }
    if flags & abi::O_CREAT != 0 {
        return create(walker(dirfd, path, walk)?, path, flags, how.mode);
    }
    finish(lookup(dirfd, path, walk)?, flags, &current().creds(), true)
}

fn create(mut w: Walker, path: &[u8], flags: u32, mode: u32) -> Result<Arc<File>, Errno> {
    let mut text = w.text(path);
    loop {
        let last = w.parent(&mut text)?;
        let LastKind::Name(range) = &last.kind else {
            w.finish_dots(&last)?;
            return Err(if flags & abi::O_EXCL != 0 {
                Errno::EEXIST
            } else {
                Errno::EISDIR
            });
        };
        if last.slash {
            return Err(Errno::EISDIR);
        }
        let name = text.get(range);
        match w.child(name) {
            Ok(child) if flags & abi::O_EXCL != 0 => {
                audit::found(&child);
                return Err(Errno::EEXIST);
            }
            Ok(child) => {
                let dir = (w.cur.dentry.inode.mode(), w.cur.dentry.inode.uid());
                let target = w.enter_last(child, flags & abi::O_NOFOLLOW == 0)?;
                if let Some(target) = target {
                    w.continue_with(&mut text, target)?;
                    if audit::is_noted() {
                        w.parent(&mut text)?;
                        audit::found_parent(&w.cur.dentry);
                    }
                    continue;
                }
                if w.cur.dentry.inode.kind == FileType::Directory {
                    audit::found(&w.cur.dentry);
                    return Err(if flags & abi::O_DIRECTORY != 0 {
                        Errno::EINVAL
                    } else {
                        Errno::EISDIR
                    });
                }
                let creds = w.creds();
                w.check_scope()?;
                perm::may_open_existing(dir, &w.cur.dentry.inode, &creds)
                    .inspect_err(|_| audit::found(&w.cur.dentry))?;
                return finish(w.into_place(), flags, &creds, true);
            }
            Err(Errno::ENOENT) => {
                let new = New {
                    kind: FileType::Regular,
                    mode,
                    rdev: Dev::default(),
                    target: b"",
                };
                match names::create(&w.cur, name, &w.creds(), &new) {
                    Ok(child) => {
                        let path = Path {
                            mnt: w.cur.mnt.clone(),
                            dentry: child,
                        };
                        // A new file is opened whatever its mode allows, and need not be truncated.
                        return finish(path, flags & !abi::O_TRUNC, &w.creds(), false);
                    }
                    // Another task made the file meanwhile: opens that, if it still exists.
                    Err(Errno::EEXIST) if flags & abi::O_EXCL == 0 => {}
                    Err(e) => return Err(e),
                }
            }
            Err(e) => return Err(e),
        }
    }
}

fn tmpfile(dir: Path, how: &How) -> Result<Arc<File>, Errno> {
    let creds = current().creds();
    if dir.dentry.inode.kind != FileType::Directory {
        return Err(Errno::ENOTDIR);
    }
    perm::path_permission(&dir, WRITE | EXEC, &creds)?;
    if !dir.dentry.inode.ops.moves_names() {
        return Err(Errno::EOPNOTSUPP);
    }
    let new = New {
        kind: FileType::Regular,
        mode: how.mode,
        rdev: Dev::default(),
        target: b"",
    };
    let inode = names::new_inode(&dir, &creds, &new)?;
    inode.set_nlink(0);
    let label = alloc::format!("#{}", inode.ino);
    let dentry = Dentry::new(&dir.dentry, label.as_bytes(), inode);
    dentry.set_unlinked();
    let path = Path { mnt: dir.mnt, dentry };
    let flags = how.flags & !(O_TMPFILE_BIT | abi::O_DIRECTORY | abi::O_TRUNC);
    let keep = how.flags & (O_TMPFILE_BIT | abi::O_DIRECTORY);
    finish(path, flags | keep, &creds, false)
}

/// Opens the file at `path`. `check`: checks permissions; not for a file that was just made.
pub fn finish(path: Path, flags: u32, creds: &Creds, check: bool) -> Result<Arc<File>, Errno> {
    let inode = &path.dentry.inode;
    if flags & abi::O_DIRECTORY != 0 && flags & O_TMPFILE_BIT == 0 && inode.kind != FileType::Directory {
        return Err(Errno::ENOTDIR);
    }
    if flags & abi::O_PATH != 0 {
        return Ok(File::new(common(|s| &s.path), path, flags, FileMode::STREAM));
    }
    let access = flags & abi::O_ACCMODE;
    let mut want = match access {
        abi::O_RDONLY => READ,
        abi::O_WRONLY => WRITE,
        _ => READ | WRITE,
    };
    match inode.kind {
        FileType::Symlink => return Err(Errno::ELOOP),
        FileType::Directory if want & WRITE != 0 || flags & abi::O_TRUNC != 0 => return Err(Errno::EISDIR),
        FileType::Regular
            if regular::max_size(flags) < regular::MAX_SIZE && inode.size() > regular::max_size(flags) =>
        {
            return Err(Errno::EOVERFLOW);
        }
        FileType::CharDevice | FileType::BlockDevice if !path.mnt.has_devices() => {
            return Err(Errno::EACCES);
        }
        _ => {}
    }
    let truncate = flags & abi::O_TRUNC != 0 && inode.kind == FileType::Regular;
    if truncate {
        want |= WRITE;
    }
    if check {
        perm::path_permission(&path, want, creds).inspect_err(|_| audit::opened(&path.dentry))?;
    }
    if flags & abi::O_NOATIME != 0 && !perm::owner_or_capable(inode, creds) {
        return Err(Errno::EPERM);
    }
    if access == abi::O_RDONLY {
        let file = read_only(path, flags)?;
        if truncate {
            let inode = file.inode();
            inode.get_write()?;
            let result = regular::set_size(inode, 0);
            inode.put_write();
            result?;
            inotify::modified(&file);
        }
        return Ok(file);
    }
    if access == abi::O_ACCMODE && !truncate {
        leases::opening(&path.dentry.inode, flags)?;
        let (ops, mode) = ops_of(&path.dentry.inode, flags)?;
        return Ok(opened(ops, path, flags, mode));
    }
    let inode = path.dentry.inode.clone();
    inode.get_write()?;
    // Devices and pipes that are written to change nothing in the file system.
    let changes = access != abi::O_ACCMODE && inode.kind == FileType::Regular;
    if changes {
        path.mnt.get_write().inspect_err(|_| inode.put_write())?;
    }
    let ops = leases::opening(&inode, flags).and_then(|()| ops_of(&inode, flags));
    let (ops, mode) = ops.inspect_err(|_| {
        inode.put_write();
        if changes {
            path.mnt.put_write();
        }
    })?;
    let file = opened(ops, path, flags, mode);
    let result = if truncate {
        regular::set_size(&inode, 0).map(|()| inotify::modified(&file))
    } else {
        Ok(())
    };
    // A file that is open for writing has taken the counts over.
    if access == abi::O_ACCMODE {
        inode.put_write();
    }
    result.map(|()| file)
}

/// Opens the file at `path` for who has found it by no walk, has made sure that it may be opened, and has not
/// done what flags say of the way there. Nobody who watches the file is told.
pub fn open_found(path: Path, flags: u32) -> Result<Arc<File>, Errno> {
    count::may_open()?;
    if flags & abi::O_PATH != 0 {
        return Ok(File::new(common(|s| &s.path), path, flags, FileMode::STREAM));
    }
    let inode = path.dentry.inode.clone();
    let counted = inode.kind == FileType::Regular;
    let access = flags & abi::O_ACCMODE;
    let writes = access == abi::O_WRONLY || access == abi::O_RDWR;
    if writes {
        inode.get_write()?;
        if counted {
            path.mnt.get_write().inspect_err(|_| inode.put_write())?;
        }
    } else if counted && access == abi::O_RDONLY {
        inode.get_read();
    }
    let ops = leases::opening(&inode, flags).and_then(|()| ops_of(&inode, flags));
    let (ops, mode) = ops.inspect_err(|_| {
        if writes {
            inode.put_write();
            if counted {
                path.mnt.put_write();
            }
        } else if counted && access == abi::O_RDONLY {
            inode.put_read();
        }
    })?;
    Ok(File::new(ops, path, flags, mode | FileMode::BY_PATH))
}

/// Opens what is not to be written.
fn read_only(path: Path, flags: u32) -> Result<Arc<File>, Errno> {
    let inode = &path.dentry.inode;
    let counted = inode.kind == FileType::Regular;
    if counted {
        inode.get_read();
    }
    let ops = leases::opening(inode, flags).and_then(|()| ops_of(inode, flags));
    match ops {
        Ok((ops, mode)) => Ok(opened(ops, path, flags, mode)),
        Err(e) => {
            if counted {
                inode.put_read();
            }
            Err(e)
        }
    }
}

/// The operations of a file that is opened, and what else to know of it.
fn ops_of(inode: &Shared<Inode>, flags: u32) -> Result<(Arc<dyn FileOps>, FileMode), Errno> {
    if let Some(ops) = inode.ops.open(inode, flags)? {
        let mode = ops.mode();
        return Ok((ops, mode));
    }
    Ok(match inode.kind {
        FileType::Regular => (common(|s| &s.regular), FileMode::SENDS | FileMode::RECEIVES),
        FileType::Directory => (common(|s| &s.directory), FileMode::empty()),
        FileType::CharDevice | FileType::BlockDevice => {
            let ops = devices::open(inode, flags)?;
            let mode = ops.mode();
            (ops, mode)
        }
        FileType::Fifo => (pipe::open_fifo(inode, flags)?, pipe::MODE),
        FileType::Symlink => return Err(Errno::ELOOP),
        FileType::Socket | FileType::Anonymous => return Err(Errno::ENXIO),
    })
}

/// The file, which has been counted.
fn opened(ops: Arc<dyn FileOps>, path: Path, flags: u32, mode: FileMode) -> Arc<File> {
    let file = File::new(ops, path, flags, mode | FileMode::BY_PATH);
    inotify::opened(&file);
    file
}

/// Opens by path for the kernel itself (init, exec), with root directory and credentials of the running task.
pub fn open_path(path: &str, flags: u32, mode: u32) -> Result<Arc<File>, Errno> {
    open(
        AT_FDCWD,
        path.as_bytes(),
        &How {
            flags,
            mode,
            resolve: Walk::empty(),
        },
    )
}

/// Opens a program for execution: a regular file that the running task may execute, on a mount without
/// `noexec`.
pub fn open_exec(dirfd: i32, path: &[u8], nofollow: bool, empty: bool) -> Result<Arc<File>, Errno> {
    let mut walk = if nofollow { Walk::empty() } else { Walk::FOLLOW };
    if empty {
        walk |= Walk::EMPTY;
    }
    let found = lookup(dirfd, path, walk).inspect_err(|e| missing::note(*e, dirfd, path))?;
    let inode = found.dentry.inode.clone();
    match inode.kind {
        FileType::Symlink => return Err(Errno::ELOOP),
        FileType::Regular => {}
        _ => return Err(Errno::EACCES),
    }
    if found.mnt.flags() & MS_NOEXEC != 0 {
        return Err(Errno::EACCES);
    }
    perm::permission(&inode, EXEC, &current().creds())?;
    leases::opening(&inode, abi::O_RDONLY)?;
    let ops = match inode.ops.open(&inode, abi::O_RDONLY)? {
        Some(ops) => ops,
        None => common(|s| &s.regular),
    };
    inotify::opened_inode(&found.dentry);
    Ok(File::new(ops, found, abi::O_RDONLY, FileMode::EXEC))
}
