//! System calls on names and directories.

use super::SysResult;
use crate::fs::file::File;
use crate::fs::inode::{Dev, FileType};
use crate::fs::lookup::{AT_FDCWD, Parent, lookup, with_parent};
use crate::fs::names::{self, New, Side};
use crate::fs::path::Path;
use crate::fs::perm;
use crate::fs::readdir::DirSink;
use crate::fs::walk::Walk;
use crate::mm::copy::{Records, UserString, copy_out, copy_out_within, read_path};
use crate::mm::user::write_bytes;
use crate::task::audit::{names as audit, wants_details};
use crate::task::{creds::cap, current};
use limen_linux_abi::{Errno, raw::general as abi};

fn make(dirfd: i32, path: usize, new: &New<'_>) -> SysResult {
    let path = read_path(path)?;
    with_parent(dirfd, path.as_bytes(), Errno::EEXIST, |w, name, slash| {
        if slash && new.kind != FileType::Directory {
            return Err(if w.cur.dentry.lookup(name).is_ok() {
                Errno::EEXIST
            } else {
                Errno::ENOENT
            });
        }
        names::create(&w.cur, name, &w.creds(), new).inspect_err(|e| {
            if *e != Errno::EEXIST {
                audit::not_made(&w.cur.dentry.inode, name);
            }
        })?;
        Ok(0)
    })
}

fn do_mkdir(dirfd: i32, path: usize, mode: u32) -> SysResult {
    let mode = mode & 0o1777;
    make(
        dirfd,
        path,
        &New {
            kind: FileType::Directory,
            mode,
            rdev: Dev::default(),
            target: b"",
        },
    )
}

fn do_mknod(dirfd: i32, path: usize, mode: u32, dev: u32) -> SysResult {
    let kind = match FileType::from_mode(mode) {
        None if mode >> 12 & 15 == 0 => FileType::Regular,
        Some(FileType::Directory) => return Err(Errno::EPERM),
        Some(FileType::Symlink) | None => return Err(Errno::EINVAL),
        Some(kind) => kind,
    };
    let device = matches!(kind, FileType::CharDevice | FileType::BlockDevice);
    let rdev = if device { Dev::decode(dev) } else { Dev::default() };
    make(
        dirfd,
        path,
        &New {
            kind,
            mode: mode & 0o7777,
            rdev,
            target: b"",
        },
    )
}

/// Notes two texts that a program has passed, in Linux's order: the later argument first.
#[cold]
#[inline(never)]
fn passed(first: usize, second: usize) {
    for at in [second, first] {
        if let Ok(text) = read_path(at) {
            audit::passed(text.as_bytes());
        }
    }
}

fn do_symlink(target: usize, dirfd: i32, path: usize) -> SysResult {
    if wants_details() {
        passed(target, path);
    }
    let target = read_path(target)?;
    if target.as_bytes().is_empty() {
        return Err(Errno::ENOENT);
    }
    let kind = FileType::Symlink;
    make(
        dirfd,
        path,
        &New {
            kind,
            mode: 0o777,
            rdev: Dev::default(),
            target: target.as_bytes(),
        },
    )
}

fn do_link(old_dir: i32, old: usize, new_dir: i32, new: usize, flags: u32) -> SysResult {
    if wants_details() {
        passed(old, new);
    }
    if flags & !(abi::AT_SYMLINK_FOLLOW | abi::AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL);
    }
    let mut walk = Walk::empty();
    if flags & abi::AT_SYMLINK_FOLLOW != 0 {
        walk |= Walk::FOLLOW;
    }
    if flags & abi::AT_EMPTY_PATH != 0 {
        if !current().creds().capable(cap::DAC_READ_SEARCH) {
            return Err(Errno::ENOENT);
        }
        walk |= Walk::EMPTY;
    }
    let source = {
        let old = read_path(old)?;
        lookup(old_dir, old.as_bytes(), walk)?
    };
    let new = read_path(new)?;
    // A removed name cannot be linked again, but an `O_TMPFILE` file can, which never had one.
    let unnamed = source.dentry.is_unlinked() && source.dentry.name().first() == Some(&b'#');
    with_parent(new_dir, new.as_bytes(), Errno::EEXIST, |w, name, slash| {
        if slash {
            return Err(Errno::ENOENT);
        }
        names::link(&w.cur, name, &w.creds(), &source, unnamed)?;
        Ok(0)
    })
}

fn do_unlink(dirfd: i32, path: usize, directory: bool) -> SysResult {
    let path = read_path(path)?;
    let bytes = path.as_bytes();
    let not_a_name = match (directory, bytes) {
        (false, _) => Errno::EISDIR,
        (true, [.., b'.', b'.']) => Errno::ENOTEMPTY,
        (true, [.., b'.']) => Errno::EINVAL,
        (true, _) => Errno::EBUSY,
    };
    with_parent(dirfd, bytes, not_a_name, |w, name, slash| {
        names::remove(&w.cur, name, &w.creds(), directory, slash)?;
        Ok(0)
    })
}

fn do_rename(old_dir: i32, old: usize, new_dir: i32, new: usize, flags: u32) -> SysResult {
    if wants_details() {
        passed(old, new);
    }
    names::check_flags(flags)?;
    let old = read_path(old)?;
    let from = Parent::of(old_dir, old.as_bytes())?;
    let new = read_path(new)?;
    let to = Parent::of(new_dir, new.as_bytes())?;
    let (from_dir, to_dir) = (&from.walker.cur, &to.walker.cur);
    if !from_dir.is_in_mount_of(to_dir) {
        return Err(Errno::EXDEV);
    }
    let not_a_name = if flags & names::RENAME_NOREPLACE != 0 {
        Errno::EEXIST
    } else {
        Errno::EBUSY
    };
    let side = |dir, (name, slash)| Side { dir, name, slash };
    let old = side(from_dir, from.name(Errno::EBUSY)?);
    let new = side(to_dir, to.name(not_a_name)?);
    names::rename(&old, &new, &from.walker.creds(), flags)?;
    Ok(0)
}

fn do_readlink(dirfd: i32, path: usize, buf: usize, size: i32) -> SysResult {
    let size = usize::try_from(size)
        .ok()
        .filter(|s| *s > 0)
        .ok_or(Errno::EINVAL)?;
    let path = read_path(path)?;
    let empty = path.as_bytes().is_empty();
    let at = lookup(dirfd, path.as_bytes(), Walk::EMPTY)?;
    let inode = &at.dentry.inode;
    if empty && (dirfd == AT_FDCWD || inode.kind != FileType::Symlink) {
        return Err(Errno::ENOENT);
    }
    if inode.kind != FileType::Symlink {
        return Err(Errno::EINVAL);
    }
    let text = inode.ops.readlink(inode)?;
    inode.touch_accessed();
    let n = text.len().min(size);
    write_bytes(buf, &text[..n])?;
    Ok(n)
}

fn enter(at: Path) -> SysResult {
    let task = current();
    perm::permission(&at.dentry.inode, perm::EXEC, &task.creds())?;
    task.fs().set_cwd(at);
    Ok(0)
}

/// The layout of entries: `linux_dirent64` (`NEW`), or `linux_dirent` with the type in the last byte. Number
/// and position have `WORD` bytes. All are constants, so that the code which the file system calls for each
/// entry computes nothing.
struct Entry<const NEW: bool, const WORD: usize>;

impl<const NEW: bool, const WORD: usize> Entry<NEW, WORD> {
    /// Bytes of the number and of the position, which come first.
    const WORD: usize = WORD;
    /// Bytes before the name: those two, the length, and a new entry's type.
    const HEADER: usize = 2 * Self::WORD + if NEW { 3 } else { 2 };
    /// How many bytes follow the name: its NUL, and an old entry's type.
    const END: usize = if NEW { 1 } else { 2 };

    /// Adds an entry. `false`: there is no room.
    #[inline(always)]
    fn put(to: &mut Records<BATCH>, (name, ino, kind, next): (&[u8], u64, FileType, u64)) -> bool {
        let word = Self::WORD;
        let shape = (Self::END, word);
        let len = Records::<BATCH>::len_of(Self::HEADER + name.len(), shape);
        let mut header = [0; 24];
        header[..word].copy_from_slice(&ino.to_le_bytes()[..word]);
        header[word..2 * word].copy_from_slice(&next.to_le_bytes()[..word]);
        header[2 * word..2 * word + 2].copy_from_slice(&(len as u16).to_le_bytes());
        if NEW {
            header[2 * word + 2] = kind as u8;
        }
        to.add(&header[..Self::HEADER], name, kind as u8, shape)
    }

    /// How many bytes of `records` are whole entries, and the position behind the last of them.
    fn whole(records: &[u8]) -> (usize, Option<u64>) {
        let (mut whole, mut next) = (0, None);
        while let Some(header) = records[whole..].get(Self::WORD..2 * Self::WORD + 2) {
            let len = usize::from(u16::from_le_bytes([header[Self::WORD], header[Self::WORD + 1]]));
            if whole + len > records.len() {
                break;
            }
            let mut position = [0; 8];
            position[..Self::WORD].copy_from_slice(&header[..Self::WORD]);
            next = Some(u64::from_le_bytes(position));
            whole += len;
        }
        (whole, next)
    }
}

/// How many bytes of entries are collected at a time, enough for several of the longest. Preemption is off
/// meanwhile, as the directory is locked.
const BATCH: usize = 1024;

pub(super) fn list<const NEW: bool, const WORD: usize>(fd: i32, buf: usize, size: i32) -> SysResult {
    current().with_file(fd, move |file| list_into::<NEW, WORD>(file, buf, size))
}

fn list_into<const NEW: bool, const WORD: usize>(file: &File, buf: usize, size: i32) -> SysResult {
    if file.inode().kind != FileType::Directory {
        return Err(Errno::ENOTDIR);
    }
    let size = size.max(0) as usize;
    let result = {
        let mut pos = file.pos.lock();
        let mut used = 0;
        loop {
            match next_batch::<NEW, WORD>(file, &mut pos, buf.wrapping_add(used), size - used) {
                Ok((bytes, true)) => used += bytes,
                Ok((bytes, false)) => break Ok(used + bytes),
                Err(_) if used != 0 => break Ok(used),
                Err(error) => break Err(error),
            }
        }
    };
    if result != Err(Errno::ENOENT) {
        crate::fs::inotify::accessed(file);
    }
    result
}

/// Copies the next entries from `pos` on, at most [`BATCH`] and `size` bytes. Returns how many bytes, and
/// whether there may be more that fit. An error only if no entry was copied because of it. Not inlined, so
/// that the loop around it, which usually runs once, does not use up registers.
#[inline(never)]
fn next_batch<const NEW: bool, const WORD: usize>(
    file: &File,
    pos: &mut u64,
    buf: usize,
    size: usize,
) -> Result<(usize, bool), Errno> {
    // Entries are collected here while the directory is locked, and copied afterwards.
    let mut records = Records::<BATCH>::new(size);
    let mut full = false;
    let mut emit = |name: &[u8], ino: u64, kind: FileType, next: u64| {
        let fits = Entry::<NEW, WORD>::put(&mut records, (name, ino, kind, next));
        if !fits {
            full = true;
        }
        fits
    };
    let mut sink = DirSink::new(*pos, &mut emit);
    let result = file.ops().readdir(file, &mut sink);
    let next = sink.pos;
    let bytes = records.bytes();
    if bytes.is_empty() {
        *pos = next;
        return match result {
            Ok(()) if full => Err(Errno::EINVAL),
            other => other.map(|()| (0, false)),
        };
    }
    let copied = copy_out(buf, bytes);
    if copied < bytes.len() {
        // If the buffer reaches beyond the user part, the part before that is filled.
        let copied = copied.max(copy_out_within(buf, bytes));
        return faulted::<NEW, WORD>(&bytes[..copied], pos);
    }
    *pos = next;
    Ok((copied, full && result.is_ok()))
}

/// `readdir` of the oldest kind: one entry, whose position is its own. Returns whether there was one.
pub(super) fn list_one(fd: i32, buf: usize) -> SysResult {
    /// The longest name.
    const NAME: usize = 255;
    const WORD: usize = size_of::<u32>();
    /// Bytes of the number, the position and the name's length.
    const HEADER: usize = 2 * WORD + 2;
    current().with_file(fd, move |file| {
        if file.inode().kind != FileType::Directory {
            return Err(Errno::ENOTDIR);
        }
        let mut pos = file.pos.lock();
        let mut record = [0; HEADER + NAME + 1];
        let mut len = 0;
        let mut fits = true;
        let at = *pos as u32;
        let mut emit = |name: &[u8], ino: u64, _: FileType, _: u64| {
            if len != 0 {
                return false;
            }
            let Ok(ino) = u32::try_from(ino) else {
                fits = false;
                return false;
            };
            let used = name.len().min(NAME);
            record[..WORD].copy_from_slice(&ino.to_le_bytes());
            record[WORD..2 * WORD].copy_from_slice(&at.to_le_bytes());
            record[2 * WORD..HEADER].copy_from_slice(&(used as u16).to_le_bytes());
            record[HEADER..HEADER + used].copy_from_slice(&name[..used]);
            len = HEADER + used + 1;
            true
        };
        let mut sink = DirSink::new(*pos, &mut emit);
        let result = file.ops().readdir(file, &mut sink);
        let next = sink.pos;
        if !fits {
            return Err(Errno::EOVERFLOW);
        }
        if len != 0 {
            write_bytes(buf, &record[..len])?;
        }
        *pos = next;
        drop(pos);
        crate::fs::inotify::accessed(file);
        if len != 0 { Ok(1) } else { result.map(|()| 0) }
    })
}

/// A fault ended the copy of a batch: entries that were copied completely count.
#[cold]
fn faulted<const NEW: bool, const WORD: usize>(
    arrived: &[u8],
    pos: &mut u64,
) -> Result<(usize, bool), Errno> {
    match Entry::<NEW, WORD>::whole(arrived) {
        (whole, Some(next)) => {
            *pos = next;
            Ok((whole, false))
        }
        _ => Err(Errno::EFAULT),
    }
}

crate::syscalls! {
    fn getcwd(buf: usize, size: usize) {
        let (root, cwd) = current().fs().both();
        if cwd.dentry.is_unlinked() {
            return Err(Errno::ENOENT);
        }
        let (mut name, reached) = cwd.absolute(&root)?;
        if !reached {
            name.splice(0..0, *b"(unreachable)");
        }
        name.push(0);
        if name.len() > size {
            return Err(Errno::ERANGE);
        }
        write_bytes(buf, &name)?;
        Ok(name.len())
    }
    fn chdir(path: usize) {
        let path = read_path(path)?;
        enter(lookup(AT_FDCWD, path.as_bytes(), Walk::FOLLOW | Walk::DIRECTORY)?)
    }
    fn fchdir(fd: i32) {
        let file = current().file_any(fd)?;
        if file.inode().kind != FileType::Directory {
            return Err(Errno::ENOTDIR);
        }
        enter(file.path.clone())
    }
    fn chroot(path: usize) {
        let path = read_path(path)?;
        let at = lookup(AT_FDCWD, path.as_bytes(), Walk::FOLLOW | Walk::DIRECTORY)?;
        let task = current();
        let creds = task.creds();
        perm::permission(&at.dentry.inode, perm::EXEC, &creds)?;
        if !creds.capable_own(cap::SYS_CHROOT) {
            return Err(Errno::EPERM);
        }
        task.fs().set_root(at);
        Ok(0)
    }
    fn umask(mask: u32) {
        Ok(current().fs().set_umask(mask) as usize)
    }
    fn mkdir(path: usize, mode: u32) {
        do_mkdir(AT_FDCWD, path, mode)
    }
    fn mkdirat(dirfd: i32, path: usize, mode: u32) {
        do_mkdir(dirfd, path, mode)
    }
    fn mknod(path: usize, mode: u32, dev: u32) {
        do_mknod(AT_FDCWD, path, mode, dev)
    }
    fn mknodat(dirfd: i32, path: usize, mode: u32, dev: u32) {
        do_mknod(dirfd, path, mode, dev)
    }
    fn symlink(target: usize, path: usize) {
        do_symlink(target, AT_FDCWD, path)
    }
    fn symlinkat(target: usize, dirfd: i32, path: usize) {
        do_symlink(target, dirfd, path)
    }
    fn link(old: usize, new: usize) {
        do_link(AT_FDCWD, old, AT_FDCWD, new, 0)
    }
    fn linkat(old_dir: i32, old: usize, new_dir: i32, new: usize, flags: u32) {
        do_link(old_dir, old, new_dir, new, flags)
    }
    fn unlink(path: usize) {
        do_unlink(AT_FDCWD, path, false)
    }
    fn rmdir(path: usize) {
        do_unlink(AT_FDCWD, path, true)
    }
    fn unlinkat(dirfd: i32, path: usize, flags: u32) {
        if flags & !abi::AT_REMOVEDIR != 0 {
            return Err(Errno::EINVAL);
        }
        do_unlink(dirfd, path, flags != 0)
    }
    fn rename(old: usize, new: usize) {
        do_rename(AT_FDCWD, old, AT_FDCWD, new, 0)
    }
    fn renameat(old_dir: i32, old: usize, new_dir: i32, new: usize) {
        do_rename(old_dir, old, new_dir, new, 0)
    }
    fn renameat2(old_dir: i32, old: usize, new_dir: i32, new: usize, flags: u32) {
        do_rename(old_dir, old, new_dir, new, flags)
    }
    fn readlink(path: usize, buf: usize, size: i32) {
        do_readlink(AT_FDCWD, path, buf, size)
    }
    fn readlinkat(dirfd: i32, path: usize, buf: usize, size: i32) {
        do_readlink(dirfd, path, buf, size)
    }
    fn getdents64(fd: i32, buf: usize, size: i32) {
        list::<true, 8>(fd, buf, size)
    }
    fn getdents(fd: i32, buf: usize, size: i32) {
        list::<false, { size_of::<usize>() }>(fd, buf, size)
    }
    fn mount(source: usize, target: usize, fs_type: usize, flags: u32, data: usize) {
        super::mount::do_mount(source, target, fs_type, flags, data)
    }
    fn umount2(target: usize, flags: u32) {
        super::mount::do_umount(target, flags)
    }
    fn pivot_root(new_root: usize, put_old: usize) {
        super::mount::do_pivot_root(new_root, put_old)
    }
    fn name_to_handle_at(_dirfd: i32, path: usize) {
        UserString::read(path, crate::mm::copy::PATH_MAX)?;
        Err(Errno::EOPNOTSUPP)
    }
    fn open_by_handle_at(_fd: i32) {
        let may = current().creds().capable(cap::DAC_READ_SEARCH);
        Err(if may { Errno::ESTALE } else { Errno::EPERM })
    }
}
