//! Open file descriptions: what a descriptor refers to, and the operations behind it.

use crate::fs::fasync::{self, Async, Owner, OwnerCell};
use crate::fs::inode::{FileType, Inode};
use crate::fs::inotify;
use crate::fs::io::{IoDst, IoSrc};
use crate::fs::path::Path;
use crate::fs::poll::{PollEvents, PollTable};
use crate::fs::readdir::DirSink;
use crate::mm::reserve::room_behind;
use crate::rcu::Shared;
use crate::sync::{DirectArc, Mutex, SpinLock};
use crate::task::ns::pid::PidRef;
use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use bitflags::bitflags;
use core::any::Any;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use limen_linux_abi::SysResult;
use limen_linux_abi::{Errno, raw::general as abi};

bitflags! {
    /// What an open file may be used for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FileMode: u32 {
        /// Opened for reading.
        const READ = 1;
        /// Opened for writing.
        const WRITE = 2;
        /// `O_PATH`: only stands for a place in the tree.
        const PATH = 4;
        /// It has no position: `lseek` gives `ESPIPE`.
        const STREAM = 8;
        /// Positioned reads and writes give `ESPIPE`. If `lseek` works all the same, the position is always
        /// 0.
        const NO_PREAD = 16;
        /// Opened by exec itself.
        const EXEC = 32;
        /// This kind of file cannot be read, however it was opened.
        const NO_READ = 64;
        /// This kind of file cannot be written, however it was opened.
        const NO_WRITE = 128;
        /// It has events to wait for: epoll accepts no other files.
        const POLLS = 256;
        /// `splice` and `sendfile` can read from it.
        const SENDS = 512;
        /// `splice` and `sendfile` can write to it.
        const RECEIVES = 1024;
        /// Positions are memory addresses, so any 64 bits are one.
        const ADDRESSES = 4096;
        /// Opened by path. If it is open for writing, it counts among the writers of its inode, so that the
        /// file is not executed meanwhile, and of its mount; if for reading only, among the inode's readers.
        const BY_PATH = 2048;
    }
}

/// The status flags that `F_SETFL` may change, apart from `O_ASYNC`.
pub const SETFL_MASK: u32 = abi::O_APPEND | abi::O_NONBLOCK | abi::O_DIRECT | abi::O_NOATIME;
/// `FASYNC`.
pub const O_ASYNC: u32 = 0o20000;

/// Whether `len` bytes from `pos` on end beyond the largest position.
#[inline(always)]
pub fn is_too_far(pos: u64, len: usize) -> bool {
    (pos | len as u64 | pos.wrapping_add(len as u64)) > i64::MAX as u64
}

/// What a mapping of a file maps.
pub enum MapBacking {
    /// The file's pages: a shared mapping shares them, a private one copies them on write.
    Pages(Arc<crate::mm::PageCache>),
    /// Zero pages of the mapping's own (`/dev/zero`).
    Anonymous,
}

/// The operations of an open file. The defaults return Linux's errors for files that cannot do them. They may
/// sleep.
///
/// `pos`: `Some` for positioned calls (`pread`). `None`: the file's own position, if it has one, which is
/// moved.
pub trait FileOps: Send + Sync + Any {
    /// Properties of a device or made-up file, in addition to those that follow from how it is opened.
    fn mode(&self) -> FileMode {
        FileMode::empty()
    }
    /// Reads at most `dst.remaining()` bytes. 0: the file ends here.
    fn read(&self, file: &File, dst: &mut IoDst<'_>, pos: Option<u64>) -> SysResult {
        let _ = (file, dst, pos);
        Err(Errno::EINVAL)
    }
    /// [`Self::read`] for `splice` and `sendfile`, which go on after a first part, and whose caller may not
    /// want to wait: `wait` says whether to.
    fn splice_read(&self, file: &File, dst: &mut IoDst<'_>, pos: Option<u64>, wait: bool) -> SysResult {
        let _ = wait;
        self.read(file, dst, pos)
    }
    /// Writes at most `src.remaining()` bytes.
    fn write(&self, file: &File, src: &mut IoSrc<'_>, pos: Option<u64>) -> SysResult {
        let _ = (file, src, pos);
        Err(Errno::EINVAL)
    }
    /// Which events there are now. Before looking, registers every wait queue that announces changes in
    /// `table`, if given. By default always ready.
    fn poll(&self, file: &File, table: Option<&mut PollTable<'_>>) -> PollEvents {
        let _ = (file, table);
        PollEvents::READABLE | PollEvents::WRITABLE
    }
    /// Commands of this kind of file. Those that all files have are handled before.
    fn ioctl(&self, file: &File, cmd: u32, arg: usize) -> SysResult {
        let _ = (file, cmd, arg);
        Err(Errno::ENOTTY)
    }
    /// What `mmap` of this file maps.
    fn mmap(&self, file: &File) -> Result<MapBacking, Errno> {
        let _ = file;
        Err(Errno::ENODEV)
    }
    /// A descriptor of the file was closed; there may be others.
    fn flush(&self, file: &File) {
        let _ = file;
    }
    /// The last reference is gone. Called once.
    fn release(&self, file: &File) {
        let _ = file;
    }
    /// Moves the position. The default uses the inode's size.
    fn seek(&self, file: &File, offset: i64, whence: u32) -> Result<u64, Errno> {
        crate::fs::regular::seek(file, offset, whence)
    }
    /// Lists directory entries from the file's position on.
    fn readdir(&self, file: &File, sink: &mut DirSink<'_>) -> Result<(), Errno> {
        let _ = (file, sink);
        Err(Errno::ENOTDIR)
    }
    /// `fsync` and `fdatasync`.
    fn fsync(&self, file: &File) -> Result<(), Errno> {
        let _ = file;
        Err(Errno::EINVAL)
    }
    /// `fallocate`.
    fn fallocate(&self, file: &File, mode: u32, offset: u64, len: u64) -> Result<(), Errno> {
        let _ = (file, mode, offset, len);
        Err(Errno::ENODEV)
    }
    /// `F_SETFL` changes the status flags to `flags`.
    fn set_flags(&self, file: &File, flags: u32) -> Result<(), Errno> {
        let _ = (file, flags);
        Ok(())
    }
    /// For `O_ASYNC`: names each list that the file is to be on. `false`: this kind of file sends no signals.
    fn asyncs(&self, with: &mut dyn FnMut(&Async)) -> bool {
        let _ = with;
        false
    }
    /// The owner of a file that gets `O_ASYNC` and has no owner.
    fn first_owner(&self) -> Option<(fasync::Kind, fasync::Target)> {
        None
    }
    /// The timer, if this is a timerfd. The most frequent kinds have methods of their own, which are quicker
    /// than [`dyn FileOps::downcast`].
    fn timer(&self) -> Option<&crate::fs::timerfd::TimerFd> {
        None
    }
    /// The epoll instance, if this is one.
    fn epoll(&self) -> Option<&Arc<crate::fs::epoll::Epoll>> {
        None
    }
    /// For `/proc/<pid>/fdinfo`: writes lines to follow the common ones.
    fn show_fdinfo(&self, file: &File, out: &mut crate::fs::pseudo::Text) {
        let _ = (file, out);
    }
    /// [`Self::show_fdinfo`] with numbers of processes as seen from this PID namespace.
    fn show_fdinfo_in(&self, file: &File, ns: &PidRef, out: &mut crate::fs::pseudo::Text) {
        let _ = ns;
        self.show_fdinfo(file, out);
    }
}

impl dyn FileOps {
    /// The operations as type `T`, if they are.
    pub fn downcast<T: FileOps>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// State of a file that is rarely needed. Made at first use.
#[derive(Default)]
struct Extra {
    /// The owner, whom signals about the file go to (`F_SETOWN`, `F_SETSIG`).
    owner: Option<Arc<OwnerCell>>,
    /// Who watches this file and must be told when it is closed for good (items of epoll).
    watchers: Vec<Weak<dyn Watcher>>,
}

/// Is told when a file that it watches is closed for good.
pub trait Watcher: Send + Sync {
    /// The file is being closed: the watcher must take itself off the file's queues.
    fn file_closed(&self, file: &File);
}

/// An open file description.
pub struct File {
    ops: DirectArc<dyn FileOps>,
    /// Its place in the tree. Pipes and the like have one in an internal mount.
    pub path: Path,
    mode: FileMode,
    flags: AtomicU32,
    /// The position, if the file has one.
    pub pos: Mutex<u64>,
    /// The cookie at which the present listing of a directory ends, 0 for none. Used with the position
    /// locked.
    pub listing_end: AtomicU64,
    extra: SpinLock<Option<Box<Extra>>>,
}

impl File {
    /// A new description. `flags` are those of `open`; they include the access mode. With
    /// [`FileMode::BY_PATH`] it takes over counts: of [`Inode::get_write`] if it is for writing, and for a
    /// regular file of [`Mount::get_write`](crate::fs::mount::Mount::get_write) then, else of
    /// [`Inode::get_read`].
    pub fn new(ops: Arc<dyn FileOps>, path: Path, flags: u32, extra_mode: FileMode) -> Arc<Self> {
        let mut mode = extra_mode;
        if flags & abi::O_PATH != 0 {
            mode |= FileMode::PATH;
        } else {
            match flags & abi::O_ACCMODE {
                abi::O_RDONLY => mode |= FileMode::READ,
                abi::O_WRONLY => mode |= FileMode::WRITE,
                abi::O_RDWR => mode |= FileMode::READ | FileMode::WRITE,
                _ => {}
            }
        }
        let keep = !(abi::O_CREAT | abi::O_EXCL | abi::O_NOCTTY | abi::O_TRUNC | abi::O_CLOEXEC);
        crate::fs::count::add(1);
        Arc::new(Self {
            ops: ops.into(),
            path,
            mode,
            flags: AtomicU32::new(flags & keep),
            pos: Mutex::new(0),
            listing_end: AtomicU64::new(0),
            extra: SpinLock::new(None),
        })
    }

    /// The operations.
    #[inline(always)]
    pub fn ops(&self) -> &dyn FileOps {
        &*self.ops
    }
    /// The inode.
    #[inline(always)]
    pub fn inode(&self) -> &Shared<Inode> {
        &self.path.dentry.inode
    }
    /// What it may be used for.
    #[inline(always)]
    pub fn mode(&self) -> FileMode {
        self.mode
    }
    /// Status flags (`F_GETFL`).
    #[inline(always)]
    pub fn flags(&self) -> u32 {
        self.flags.load(Ordering::Relaxed)
    }
    /// Whether `O_NONBLOCK` is set.
    #[inline(always)]
    pub fn nonblocking(&self) -> bool {
        self.flags() & abi::O_NONBLOCK != 0
    }
    /// `F_SETFL` and `FIONBIO`: sets the bits in `mask` as they are in `flags`.
    pub fn change_flags(&self, flags: u32, mask: u32) -> Result<(), Errno> {
        let mask = mask & SETFL_MASK;
        let new = (self.flags() & !mask) | (flags & mask);
        self.ops.set_flags(self, new)?;
        let _ = self
            .flags
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| {
                Some((old & !mask) | (flags & mask))
            });
        Ok(())
    }

    /// `EBADF` if it is `O_PATH`.
    #[inline(always)]
    pub fn not_path(self: Arc<Self>) -> Result<Arc<Self>, Errno> {
        if self.mode.contains(FileMode::PATH) {
            Err(Errno::EBADF)
        } else {
            Ok(self)
        }
    }
    /// `EBADF` unless it was opened for `mode`.
    #[inline(always)]
    pub fn check(&self, mode: FileMode) -> Result<(), Errno> {
        if self.mode.contains(mode) {
            Ok(())
        } else {
            Err(Errno::EBADF)
        }
    }
    /// The error for a buffer outside the user part: `EINVAL` for files that cannot be read or written
    /// (`mode`) and so do not look at the buffer, else `EFAULT`.
    #[cold]
    #[inline(never)]
    fn fault(&self, mode: FileMode) -> Errno {
        if self.mode.contains(mode) {
            Errno::EINVAL
        } else {
            Errno::EFAULT
        }
    }
    /// `EINVAL` if `len` bytes from an explicit position on end beyond the largest one. For the file's own
    /// position the operations check it.
    #[inline(always)]
    pub fn check_end(&self, pos: Option<u64>, len: usize) -> Result<(), Errno> {
        match pos {
            Some(pos) if is_too_far(pos, len) && !self.mode.contains(FileMode::ADDRESSES) => {
                Err(Errno::EINVAL)
            }
            _ => Ok(()),
        }
    }
    /// Reads to user memory, for `CurrentTask::with_file_to_read`, which tells the watchers. Whether the file
    /// was opened for reading is checked before the buffer.
    #[inline(always)]
    pub fn read_to_user(&self, buf: usize, len: usize, pos: Option<u64>) -> SysResult {
        self.check(FileMode::READ)?;
        match IoDst::user(buf, len) {
            Ok(mut dst) => {
                self.check_end(pos, len)?;
                self.ops.read(self, &mut dst, pos)
            }
            Err(_) => Err(self.fault(FileMode::NO_READ)),
        }
    }
    /// Writes from user memory, for `CurrentTask::with_file_to_write`, which tells the watchers. Whether the
    /// file was opened for writing is checked before the buffer.
    #[inline(always)]
    pub fn write_from_user(&self, buf: usize, len: usize, pos: Option<u64>) -> SysResult {
        self.check(FileMode::WRITE)?;
        match IoSrc::user(buf, len) {
            Ok(mut src) => {
                self.check_end(pos, len)?;
                self.ops.write(self, &mut src, pos)
            }
            Err(_) => Err(self.fault(FileMode::NO_WRITE)),
        }
    }
    /// Reads, and tells the file's watchers. `EBADF` if the file was not opened for reading.
    #[inline]
    pub fn read(&self, dst: &mut IoDst<'_>, pos: Option<u64>) -> SysResult {
        inotify::was_read(|| self, self.read_quietly(dst, pos))
    }
    /// Writes, and tells the file's watchers. `EBADF` if the file was not opened for writing.
    #[inline]
    pub fn write(&self, src: &mut IoSrc<'_>, pos: Option<u64>) -> SysResult {
        inotify::was_written(|| self, self.write_quietly(src, pos))
    }
    /// [`File::read`] that tells nobody.
    #[inline]
    pub fn read_quietly(&self, dst: &mut IoDst<'_>, pos: Option<u64>) -> SysResult {
        self.check(FileMode::READ)?;
        self.ops.read(self, dst, pos)
    }
    /// [`File::write`] that tells nobody.
    #[inline]
    pub fn write_quietly(&self, src: &mut IoSrc<'_>, pos: Option<u64>) -> SysResult {
        self.check(FileMode::WRITE)?;
        self.ops.write(self, src, pos)
    }
    /// Reads into a kernel buffer at `pos`, however the file was opened. For exec.
    pub fn read_at(&self, buf: &mut [u8], pos: u64) -> SysResult {
        let result = self.ops.read(self, &mut IoDst::kernel(buf), Some(pos));
        inotify::was_read(|| self, result)
    }
    /// Which events there are. See [`FileOps::poll`].
    #[inline]
    pub fn poll(&self, table: Option<&mut PollTable<'_>>) -> PollEvents {
        self.ops.poll(self, table)
    }
    /// Whether it is a regular file.
    pub fn is_regular(&self) -> bool {
        self.inode().kind == FileType::Regular
    }

    /// The owner, who gets the file's signals.
    pub fn owner(&self) -> Owner {
        let cell = self.extra.lock().as_ref().and_then(|e| e.owner.clone());
        cell.map_or_else(Owner::default, |cell| cell.get())
    }
    /// Changes the owner.
    pub fn set_owner(&self, change: impl FnOnce(&mut Owner)) {
        self.owner_cell().change(change);
    }
    /// The cell in which the owner is kept.
    pub(super) fn owner_cell(&self) -> Arc<OwnerCell> {
        let mut extra = self.extra.lock();
        let owner = &mut extra.get_or_insert_default().owner;
        owner.get_or_insert_with(|| Arc::new(OwnerCell::new())).clone()
    }
    /// `F_SETFL` and `FIOASYNC` of descriptor `fd`: puts the file on its lists, or takes it off them. Returns
    /// whether the file has lists.
    pub fn set_async(&self, fd: i32, on: bool) -> Result<bool, Errno> {
        if (self.flags() & O_ASYNC != 0) == on {
            return Ok(true);
        }
        let known = fasync::set(self, on.then_some(fd))?;
        if known && on {
            self.flags.fetch_or(O_ASYNC, Ordering::Relaxed);
        } else if known {
            self.flags.fetch_and(!O_ASYNC, Ordering::Relaxed);
        }
        Ok(known)
    }
    /// Adds a watcher, which is told when the file is closed for good. `ENOMEM`.
    pub fn watch(&self, watcher: Weak<dyn Watcher>) -> Result<(), Errno> {
        fn list(extra: &mut Option<Box<Extra>>) -> &mut Vec<Weak<dyn Watcher>> {
            &mut extra.get_or_insert_default().watchers
        }
        let more = {
            let mut extra = self.extra.lock();
            let list = list(&mut extra);
            if list.len() == list.capacity() {
                list.retain(|w| w.strong_count() != 0);
                // Not soon again.
                1 + list.len() / 2
            } else {
                1
            }
        };
        let mut extra = room_behind(|| self.extra.lock(), list, more)?;
        list(&mut extra).push(watcher);
        Ok(())
    }

    /// Tells the watchers that the file is closed, and takes it off the lists for its owner.
    #[cold]
    #[inline(never)]
    fn drop_extra(&self, extra: &Extra) {
        for w in extra.watchers.iter().filter_map(Weak::upgrade) {
            w.file_closed(self);
        }
        if !self.mode.contains(FileMode::PATH)
            && let Some(owner) = &extra.owner
        {
            fasync::forget(self, owner);
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        crate::fs::count::add(-1);
        if let Some(extra) = self.extra.get_mut().take() {
            self.drop_extra(&extra);
        }
        if !self.mode.contains(FileMode::PATH) {
            self.ops.release(self);
            crate::fs::locks::file_released(self);
            inotify::file_closed(self);
            if self.mode.contains(FileMode::BY_PATH.union(FileMode::WRITE)) {
                self.inode().put_write();
                if self.is_regular() {
                    self.path.mnt.put_write();
                }
            } else if self.mode.contains(FileMode::BY_PATH.union(FileMode::READ)) && self.is_regular() {
                self.inode().put_read();
            }
        }
    }
}

/// The operations of an `O_PATH` descriptor: all are errors.
pub struct PathOnly;

impl FileOps for PathOnly {
    fn read(&self, _: &File, _: &mut IoDst<'_>, _: Option<u64>) -> SysResult {
        Err(Errno::EBADF)
    }
    fn write(&self, _: &File, _: &mut IoSrc<'_>, _: Option<u64>) -> SysResult {
        Err(Errno::EBADF)
    }
    fn ioctl(&self, _: &File, _: u32, _: usize) -> SysResult {
        Err(Errno::EBADF)
    }
    fn mmap(&self, _: &File) -> Result<MapBacking, Errno> {
        Err(Errno::EBADF)
    }
    fn seek(&self, _: &File, _: i64, _: u32) -> Result<u64, Errno> {
        Err(Errno::EBADF)
    }
}
