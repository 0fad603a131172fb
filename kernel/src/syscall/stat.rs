//! System calls on attributes: the `stat` family, permissions, owners, times, and `statfs`.

use super::SysResult;
use super::time::TimeWord;
use crate::fs::attr::{self, SetTime, Stat};
use crate::fs::lookup::{AT_FDCWD, look, lookup};
use crate::fs::path::Path;
use crate::fs::walk::Walk;
use crate::fs::{missing, mount};
use crate::mm::PAGE_SIZE;
use crate::mm::copy::with_path;
use crate::mm::user::{Abi, InOrder, UserPtr};
use crate::task::audit;
use crate::task::current;
use crate::task::ns::user;
use core::mem::{MaybeUninit, offset_of};
use core::sync::atomic::Ordering;
use limen_linux_abi::abi::statx::{Statx, StatxTimestamp};
use limen_linux_abi::{Errno, FileStatus, FsStatus, Layout, native, raw::general as abi};
use limen_vdso::clock;

const NANO: i64 = 1_000_000_000;

/// Splits a time into seconds and nanoseconds. The nanoseconds are not negative.
#[inline(always)]
fn split(time: i64) -> (i64, u32) {
    match clock::split_usual(time as u64) {
        Some((seconds, ns)) => (seconds as i64, ns),
        None => split_unusual(time),
    }
}

/// [`split`] of times before 1970 and far in the future. -1 - n is split instead of n, so that both parts are
/// rounded down.
#[cold]
#[inline(never)]
fn split_unusual(time: i64) -> (i64, u32) {
    if time >= 0 {
        let (seconds, ns) = clock::split(time as u64);
        return (seconds as i64, ns as u32);
    }
    let (seconds, ns) = clock::split(!time as u64);
    (!(seconds as i64), (NANO as u32 - 1) - ns as u32)
}

/// Resolves a path as the `*at` calls with `AT_SYMLINK_NOFOLLOW` and `AT_EMPTY_PATH` do.
fn resolve(dirfd: i32, path: usize, flags: u32) -> Result<Path, Errno> {
    with_path(path, |path| {
        lookup(dirfd, path, walk_of(flags)).inspect_err(|e| missing::note(*e, dirfd, path))
    })
}

/// [`resolve`] for calls that, with `AT_EMPTY_PATH`, accept a null pointer as an empty path.
fn resolve_or_none(dirfd: i32, path: usize, flags: u32) -> Result<Path, Errno> {
    if path == 0 && flags & abi::AT_EMPTY_PATH != 0 {
        return lookup(dirfd, b"", Walk::FOLLOW | Walk::EMPTY);
    }
    resolve(dirfd, path, flags)
}

pub(super) fn of_fd(fd: i32) -> Result<Path, Errno> {
    Ok(current().file(fd)?.path.clone())
}

/// The ABI's structure, which `layout` makes. `None`: a value does not fit into it.
#[inline(always)]
fn shown<T>(s: &Stat<'_>, layout: impl Fn(&FileStatus) -> Option<T>) -> Option<T> {
    let inode = s.inode;
    let times = inode.times();
    let (uid, gid) = user::ids_shown(inode.uid(), inode.gid());
    layout(&FileStatus {
        dev: inode.sb.dev.encode(),
        ino: inode.ino,
        mode: s.mode,
        nlink: inode.nlink(),
        uid,
        gid,
        rdev: inode.rdev.encode(),
        size: s.size,
        block_size: PAGE_SIZE as u32,
        blocks: s.blocks,
        atime: split(times.atime),
        mtime: split(times.mtime),
        ctime: split(times.ctime),
    })
}

/// Writes the ABI's structure.
#[inline(always)]
fn write_stat<T: Layout>(to: usize, shown: Option<T>) -> SysResult {
    UserPtr::new(to).write(Abi(shown.ok_or(Errno::EOVERFLOW)?))?;
    Ok(0)
}

/// How a path is to be resolved.
#[inline(always)]
fn walk_of(flags: u32) -> Walk {
    let mut walk = if flags & abi::AT_SYMLINK_NOFOLLOW != 0 {
        Walk::empty()
    } else {
        Walk::FOLLOW
    };
    if flags & abi::AT_EMPTY_PATH != 0 {
        walk |= Walk::EMPTY;
    }
    walk
}

pub(super) fn stat_at<T: Layout>(
    (dirfd, path, flags): (i32, usize, u32),
    to: usize,
    layout: impl Fn(&FileStatus) -> Option<T>,
) -> SysResult {
    if flags & !(abi::AT_SYMLINK_NOFOLLOW | abi::AT_NO_AUTOMOUNT | abi::AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL);
    }
    if path == 0 && flags & abi::AT_EMPTY_PATH != 0 {
        return stat_counted(&resolve_or_none(dirfd, path, flags)?, to, layout);
    }
    let mut found = None;
    let counted = with_path(path, |path| {
        if path.is_empty() && flags & abi::AT_EMPTY_PATH != 0 && dirfd != AT_FDCWD {
            // As the C library asks for `fstat`.
            return current().with_any_file(dirfd, |file| Ok(Some(file.path.clone())));
        }
        let look_at = |mnt: &_, dentry: &_| found = shown(&attr::stat_of(mnt, dentry), &layout).map(Abi);
        look(dirfd, path, walk_of(flags), look_at).inspect_err(|e| missing::note(*e, dirfd, path))
    })?;
    if let Some(path) = counted {
        return stat_counted(&path, to, layout);
    }
    UserPtr::new(to).write_from(found.as_ref().ok_or(Errno::EOVERFLOW)?)?;
    Ok(0)
}

/// Shows a place that is counted. Not inlined, so that the other way has the registers for itself.
#[inline(never)]
fn stat_counted<T: Layout>(path: &Path, to: usize, layout: impl Fn(&FileStatus) -> Option<T>) -> SysResult {
    write_stat(to, shown(&attr::stat(path), layout))
}

pub(super) fn stat_of<T: Layout>(fd: i32, to: usize, layout: impl Fn(&FileStatus) -> Option<T>) -> SysResult {
    current().with_any_file(fd, move |file| {
        write_stat(to, shown(&attr::stat(&file.path), layout))
    })
}

fn do_statx(dirfd: i32, path: usize, flags: u32, mask: u32, to: usize) -> SysResult {
    let known =
        abi::AT_SYMLINK_NOFOLLOW | abi::AT_NO_AUTOMOUNT | abi::AT_EMPTY_PATH | abi::AT_STATX_SYNC_TYPE;
    if flags & !known != 0
        || flags & abi::AT_STATX_SYNC_TYPE == abi::AT_STATX_SYNC_TYPE
        || mask & (1 << 31) != 0
    {
        return Err(Errno::EINVAL);
    }
    if path == 0 && flags & abi::AT_EMPTY_PATH != 0 {
        return statx_counted(&resolve_or_none(dirfd, path, flags)?, to);
    }
    let mut room = MaybeUninit::uninit();
    let mut found = None;
    let (told, place) = (&mut found, &mut room);
    let counted = with_path(path, move |path| {
        let look_at = move |mnt: &_, dentry: &_| {
            // Moved, so that what is made there outlives the closure.
            let place = place;
            *told = Some(statx_in(place, &attr::stat_of(mnt, dentry)));
        };
        look(dirfd, path, walk_of(flags), look_at).inspect_err(|e| missing::note(*e, dirfd, path))
    })?;
    if let Some(path) = counted {
        return statx_counted(&path, to);
    }
    UserPtr::new(to).write_from(found.ok_or(Errno::ENOENT)?)?;
    Ok(0)
}

/// Shows a place that is counted.
#[inline(never)]
fn statx_counted(path: &Path, to: usize) -> SysResult {
    let mut room = MaybeUninit::uninit();
    UserPtr::new(to).write_from(statx_in(&mut room, &attr::stat(path)))?;
    Ok(0)
}

/// Makes the structure in `room`.
#[inline(always)]
fn statx_in<'a>(room: &'a mut MaybeUninit<Abi<Statx>>, s: &Stat<'_>) -> &'a Abi<Statx> {
    let inode = s.inode;
    let (uid, gid) = user::ids_shown(inode.uid(), inode.gid());
    const ALL: u32 = 0x17ff | 0x800;
    const MOUNT_ROOT: u64 = 0x2000;
    let times = inode.times();
    // Field by field in place: together they do not fit into registers.
    let mut shown = InOrder::new(room);
    macro_rules! put {
        ($($field:ident = $value:expr,)*) => { $(shown.put(offset_of!(Statx, $field), $value);)* };
    }
    let time = |time: i64| Abi(StatxTimestamp::from(split(time)));
    put! {
        stx_mask = ALL,
        stx_blksize = PAGE_SIZE as u32,
        stx_attributes = if s.mount_root { MOUNT_ROOT } else { 0 },
        stx_nlink = inode.nlink(),
        stx_uid = uid,
        stx_gid = gid,
        stx_mode = s.mode as u16,
        _spare0 = 0u16,
        stx_ino = inode.ino,
        stx_size = s.size,
        stx_blocks = s.blocks,
        stx_attributes_mask = MOUNT_ROOT,
        stx_atime = time(times.atime),
        stx_btime = time(times.btime),
        stx_ctime = time(times.ctime),
        stx_mtime = time(times.mtime),
        stx_rdev_major = inode.rdev.major(),
        stx_rdev_minor = inode.rdev.minor(),
        stx_dev_major = inode.sb.dev.major(),
        stx_dev_minor = inode.sb.dev.minor(),
        stx_mnt_id = u64::from(s.mnt_id),
    }
    shown.put_zeros();
    shown.all()
}

pub(super) fn do_statfs<T: Layout>(
    to: usize,
    at: &Path,
    layout: impl Fn(&FsStatus) -> Option<T>,
) -> SysResult {
    let sb = &at.dentry.inode.sb;
    let s = sb.ops.statfs();
    const VALID: u64 = 0x20;
    let f = at.mnt.flags() | sb.flags.load(Ordering::Relaxed);
    let mut flags = VALID;
    for (bit, shown) in [
        (mount::MS_RDONLY, 1u64),
        (mount::MS_NOSUID, 2),
        (mount::MS_NODEV, 4),
        (mount::MS_NOEXEC, 8),
        (mount::MS_NOATIME, 0x400),
        (mount::MS_NODIRATIME, 0x800),
        (mount::MS_NOSYMFOLLOW, 0x2000),
    ] {
        if f & bit != 0 {
            flags |= shown;
        }
    }
    if f & mount::MS_NOATIME == 0 {
        flags |= 0x1000;
    }
    let block_size = if s.block_size == 0 {
        PAGE_SIZE as u64
    } else {
        s.block_size
    };
    let status = FsStatus {
        kind: s.magic,
        block_size,
        blocks: s.blocks,
        free: s.free,
        available: s.free,
        files: s.files,
        files_free: s.files_free,
        id: [sb.dev.encode(), 0],
        name_max: 255,
        fragment_size: block_size,
        flags,
    };
    UserPtr::new(to).write(Abi(layout(&status).ok_or(Errno::EOVERFLOW)?))?;
    Ok(0)
}

/// Checks the size that a program passes to `statfs64`. Some C libraries count padding behind the structure.
fn check_statfs64_size(size: usize) -> Result<(), Errno> {
    let own = size_of::<native::Statfs64>();
    if size == own || size == own.next_multiple_of(8) {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}

fn do_chmod(dirfd: i32, path: usize, mode: u32, flags: u32) -> SysResult {
    if flags & !(abi::AT_SYMLINK_NOFOLLOW | abi::AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL);
    }
    attr::chmod(&resolve(dirfd, path, flags)?, mode)?;
    Ok(0)
}

fn do_chown(dirfd: i32, path: usize, uid: u32, gid: u32, flags: u32) -> SysResult {
    if flags & !(abi::AT_SYMLINK_NOFOLLOW | abi::AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL);
    }
    let to = (user::uid_or_keep(uid), user::gid_or_keep(gid));
    attr::chown(&resolve(dirfd, path, flags)?, to.0?, to.1?)?;
    Ok(0)
}

fn do_access(dirfd: i32, path: usize, mode: u32, flags: u32) -> SysResult {
    if mode & !7 != 0 || flags & !(abi::AT_EACCESS | abi::AT_SYMLINK_NOFOLLOW | abi::AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL);
    }
    // The walk itself uses the effective ids. On Linux it uses the real ones, which only matters for search
    // permission in set-user-ID programs.
    attr::access(&resolve(dirfd, path, flags)?, mode, flags & abi::AT_EACCESS != 0)?;
    Ok(0)
}

const UTIME_NOW: i64 = (1 << 30) - 1;
const UTIME_OMIT: i64 = (1 << 30) - 2;

/// Whether a `timespec` of `utimensat` says that the time is not to be changed.
fn omitted<T: TimeWord>(time: &[T; 2]) -> bool {
    time[1].fraction() == UTIME_OMIT
}

/// A `timespec` of `utimensat`.
fn set_time<T: TimeWord>([sec, nsec]: [T; 2]) -> Result<SetTime, Errno> {
    let (sec, nsec) = (sec.get(), nsec.fraction());
    match nsec {
        UTIME_NOW => Ok(SetTime::Now),
        UTIME_OMIT => Ok(SetTime::Omit),
        0..NANO => Ok(SetTime::At(sec.saturating_mul(NANO).saturating_add(nsec))),
        _ => Err(Errno::EINVAL),
    }
}

fn do_utimensat<T: TimeWord>(dirfd: i32, path: usize, times: Option<[[T; 2]; 2]>, flags: u32) -> SysResult {
    if times.is_some_and(|both| both.iter().all(omitted)) {
        return Ok(0);
    }
    let of_file = path == 0 && dirfd != AT_FDCWD;
    let known = if of_file {
        0
    } else {
        abi::AT_SYMLINK_NOFOLLOW | abi::AT_EMPTY_PATH
    };
    if flags & !known != 0 {
        return Err(Errno::EINVAL);
    }
    let at = if of_file {
        of_fd(dirfd)?
    } else {
        resolve(dirfd, path, flags)?
    };
    let (atime, mtime) = match times {
        None => (SetTime::Now, SetTime::Now),
        Some([a, m]) => (set_time(a)?, set_time(m)?),
    };
    attr::set_times(&at, atime, mtime)?;
    Ok(0)
}

/// Converts seconds and microseconds to `timespec`s.
fn from_micros<T: TimeWord>(at: UserPtr<[[T; 2]; 2]>) -> Result<Option<[[T; 2]; 2]>, Errno> {
    let Some(at) = at.non_null() else {
        return Ok(None);
    };
    let mut t = at.read()?;
    for time in &mut t {
        let us = time[1].get();
        if !(0..1_000_000).contains(&us) {
            return Err(Errno::EINVAL);
        }
        time[1] = T::put(us * 1000);
    }
    Ok(Some(t))
}

pub(super) fn by_path(path: usize, walk: Walk) -> Result<Path, Errno> {
    with_path(path, |path| lookup(AT_FDCWD, path, walk))
}

/// The file of a descriptor, which is to change: records of the call tell what it was.
fn to_change(fd: i32) -> Result<Path, Errno> {
    let at = of_fd(fd)?;
    if audit::wants_details() {
        audit::names::used(&at.dentry);
    }
    Ok(at)
}

crate::syscalls! {
    fn stat(path: usize, to: usize) {
        stat_at((AT_FDCWD, path, 0), to, native::Stat::new)
    }
    fn stat64(path: usize, to: usize) {
        stat_at((AT_FDCWD, path, 0), to, native::Stat64::new)
    }
    fn lstat(path: usize, to: usize) {
        stat_at((AT_FDCWD, path, abi::AT_SYMLINK_NOFOLLOW), to, native::Stat::new)
    }
    fn lstat64(path: usize, to: usize) {
        stat_at((AT_FDCWD, path, abi::AT_SYMLINK_NOFOLLOW), to, native::Stat64::new)
    }
    fn fstat(fd: i32, to: usize) {
        stat_of(fd, to, native::Stat::new)
    }
    fn fstat64(fd: i32, to: usize) {
        stat_of(fd, to, native::Stat64::new)
    }
    fn newfstatat(dirfd: i32, path: usize, to: usize, flags: u32) {
        stat_at((dirfd, path, flags), to, native::Stat::new)
    }
    fn fstatat64(dirfd: i32, path: usize, to: usize, flags: u32) {
        stat_at((dirfd, path, flags), to, native::Stat64::new)
    }
    fn statx(dirfd: i32, path: usize, flags: u32, mask: u32, to: usize) {
        do_statx(dirfd, path, flags, mask, to)
    }
    fn statfs(path: usize, to: usize) {
        do_statfs(to, &by_path(path, Walk::FOLLOW)?, native::Statfs::new)
    }
    fn statfs64(path: usize, size: usize, to: usize) {
        check_statfs64_size(size)?;
        do_statfs(to, &by_path(path, Walk::FOLLOW)?, native::Statfs64::new)
    }
    fn fstatfs(fd: i32, to: usize) {
        let file = current().file_any(fd)?;
        do_statfs(to, &file.path, native::Statfs::new)
    }
    fn fstatfs64(fd: i32, size: usize, to: usize) {
        check_statfs64_size(size)?;
        let file = current().file_any(fd)?;
        do_statfs(to, &file.path, native::Statfs64::new)
    }
    fn access(path: usize, mode: u32) {
        do_access(AT_FDCWD, path, mode, 0)
    }
    fn faccessat(dirfd: i32, path: usize, mode: u32) {
        do_access(dirfd, path, mode, 0)
    }
    fn faccessat2(dirfd: i32, path: usize, mode: u32, flags: u32) {
        do_access(dirfd, path, mode, flags)
    }
    fn chmod(path: usize, mode: u32) {
        do_chmod(AT_FDCWD, path, mode, 0)
    }
    fn fchmod(fd: i32, mode: u32) {
        attr::chmod(&to_change(fd)?, mode)?;
        Ok(0)
    }
    fn fchmodat(dirfd: i32, path: usize, mode: u32) {
        do_chmod(dirfd, path, mode, 0)
    }
    fn fchmodat2(dirfd: i32, path: usize, mode: u32, flags: u32) {
        do_chmod(dirfd, path, mode, flags)
    }
    fn chown | chown16(path: usize, uid: Id, gid: Id) {
        do_chown(AT_FDCWD, path, uid, gid, 0)
    }
    fn lchown | lchown16(path: usize, uid: Id, gid: Id) {
        do_chown(AT_FDCWD, path, uid, gid, abi::AT_SYMLINK_NOFOLLOW)
    }
    fn fchown | fchown16(fd: i32, uid: Id, gid: Id) {
        let at = to_change(fd)?;
        attr::chown(&at, user::uid_or_keep(uid)?, user::gid_or_keep(gid)?)?;
        Ok(0)
    }
    fn fchownat(dirfd: i32, path: usize, uid: u32, gid: u32, flags: u32) {
        do_chown(dirfd, path, uid, gid, flags)
    }
    fn utimensat/utimensat_time64(dirfd: i32, path: usize, times: UserPtr<[[Time; 2]; 2]>, flags: u32) {
        let times = match times.non_null() {
            Some(p) => Some(p.read()?),
            None => None,
        };
        do_utimensat(dirfd, path, times, flags)
    }
    fn futimesat/(dirfd: i32, path: usize, times: UserPtr<[[Time; 2]; 2]>) {
        do_utimensat(dirfd, path, from_micros(times)?, 0)
    }
    fn utimes/(path: usize, times: UserPtr<[[Time; 2]; 2]>) {
        do_utimensat(AT_FDCWD, path, from_micros(times)?, 0)
    }
    fn utime/(path: usize, times: UserPtr<[Time; 2]>) {
        let times = match times.non_null() {
            Some(p) => {
                let [atime, mtime] = p.read()?;
                Some([[atime, 0], [mtime, 0]])
            }
            None => None,
        };
        do_utimensat(AT_FDCWD, path, times, 0)
    }
    fn ustat(_dev: u32, _to: usize) {
        Err(Errno::EINVAL)
    }
}
