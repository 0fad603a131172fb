//! Open file descriptions: what a descriptor refers to, and the operations behind it.

use crate::fs::inode::{FileType, Inode};
use crate::fs::io::{IoDst, IoSrc};
use crate::fs::path::Path;
use crate::fs::poll::{PollEvents, PollTable};
use crate::fs::readdir::DirSink;
use crate::sync::{DirectArc, Mutex, SpinLock};
use crate::syscall::SysResult;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use bitflags::bitflags;
use core::any::Any;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use limen_linux_abi::{Errno, raw::general as abi};

bitflags! {
    /// What an open file may be used for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FileMode: u32 {
        /// Opened for reading.
        const READ = 1;
        /// Opened for writing.
        const WRITE = 2;
        /// `O_PATH`: only a place in the tree.
        const PATH = 4;
        /// Has no position: `lseek` is `ESPIPE`.
        const STREAM = 8;
        /// Positioned reads and writes are `ESPIPE`. If `lseek` is not, the position is 0 wherever it is moved.
        const NO_PREAD = 16;
        /// Came from `O_EXEC`-like use by exec itself.
        const EXEC = 32;
        /// There is nothing to read in this kind of file, however it was opened.
        const NO_READ = 64;
        /// Nor to write.
        const NO_WRITE = 128;
        /// Has events to wait for: epoll takes no others.
        const POLLS = 256;
        /// `splice` and `sendfile` take from it.
        const SENDS = 512;
        /// They put into it.
        const RECEIVES = 1024;
        /// Opened by path: if for writing it is counted among its inode's writers, so that it can't be executed meanwhile.
        const BY_PATH = 2048;
    }
}

/// Status flags `F_SETFL` may change.
pub const SETFL_MASK: u32 = abi::O_APPEND | abi::O_NONBLOCK | abi::O_DIRECT | abi::O_NOATIME | O_ASYNC;
/// `FASYNC`.
pub const O_ASYNC: u32 = 0o20000;

/// What backs a mapping of a file.
pub enum MapBacking {
    /// Pages of the file: shared mappings share them, private ones copy on write.
    Pages(Arc<crate::mm::PageCache>),
    /// Fresh zero pages (`/dev/zero`).
    Anonymous,
}

/// The operations behind an open file. Defaults give Linux's errors for "this kind of file can't do that".
///
/// `pos`: `Some` for positioned calls (`pread`); `None` means at (and advancing) the file's own position, for files that have one.
pub trait FileOps: Send + Sync + Any {
    /// What else to know of a device or made-up file than how it is opened.
    fn mode(&self) -> FileMode {
        FileMode::empty()
    }
    /// Reads at most `dst.remaining()` bytes. 0 is end of file.
    fn read(&self, file: &File, dst: &mut IoDst<'_>, pos: Option<u64>) -> SysResult {
        let _ = (file, dst, pos);
        Err(Errno::EINVAL)
    }
    /// Writes at most `src.remaining()` bytes.
    fn write(&self, file: &File, src: &mut IoSrc<'_>, pos: Option<u64>) -> SysResult {
        let _ = (file, src, pos);
        Err(Errno::EINVAL)
    }
    /// Readiness now; with a table, every wait queue that announces changes is registered first. Always ready by default.
    fn poll(&self, file: &File, table: Option<&mut PollTable<'_>>) -> PollEvents {
        let _ = (file, table);
        PollEvents::READABLE | PollEvents::WRITABLE
    }
    /// Device-specific control. The generic commands are handled before this.
    fn ioctl(&self, file: &File, cmd: u32, arg: usize) -> SysResult {
        let _ = (file, cmd, arg);
        Err(Errno::ENOTTY)
    }
    /// What `mmap` of this file maps.
    fn mmap(&self, file: &File) -> Result<MapBacking, Errno> {
        let _ = file;
        Err(Errno::ENODEV)
    }
    /// A descriptor of the file was closed (not necessarily the last).
    fn flush(&self, file: &File) {
        let _ = file;
    }
    /// The last reference is gone. Called exactly once.
    fn release(&self, file: &File) {
        let _ = file;
    }
    /// Moves the position. The default knows the inode's size.
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
    /// The timer, if this is one: those that are asked most know themselves, which is less work than [`dyn FileOps::downcast`].
    fn timer(&self) -> Option<&crate::time::timerfd::TimerFd> {
        None
    }
    /// The epoll instance, if this is one.
    fn epoll(&self) -> Option<&Arc<crate::fs::epoll::Epoll>> {
        None
    }
    /// For `/proc/<pid>/fdinfo`: lines after the common ones.
    fn show_fdinfo(&self, file: &File, out: &mut String) {
        let _ = (file, out);
    }
}

impl dyn FileOps {
    /// The operations as their own type, if they are of type `T`.
    pub fn downcast<T: FileOps>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// Who is to be signalled about a file (`F_SETOWN`, `F_SETSIG`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Owner {
    /// Process (positive), process group (negative) or nobody (0).
    pub pid: i32,
    /// Whether `pid` is a thread (`F_OWNER_TID`).
    pub thread: bool,
    /// Signal; 0 is `SIGIO`.
    pub signal: u32,
}

/// Rarely used state of a file, made on first use.
#[derive(Default)]
struct Extra {
    owner: Owner,
    /// Everything that watches this file and must know when it dies (epoll items).
    watchers: Vec<Weak<dyn Watcher>>,
}

/// Told when a file it watches is closed for good.
pub trait Watcher: Send + Sync {
    /// The file is being released; take yourself off its queues.
    fn file_closed(&self, file: &File);
}

/// An open file description.
pub struct File {
    ops: DirectArc<dyn FileOps>,
    /// Where it is in the tree (pipes and the like are in a pseudo file system).
    pub path: Path,
    mode: FileMode,
    flags: AtomicU32,
    /// The position, for files that have one.
    pub pos: Mutex<u64>,
    /// Where the listing of a directory ends that is under way; 0: there is none. For who has the position locked.
    pub listing_end: AtomicU64,
    extra: SpinLock<Option<Box<Extra>>>,
}

impl File {
    /// A new description. `flags` are open's; the access mode is taken from them. With [`FileMode::BY_PATH`] it takes over a count of
    /// [`Inode::get_write`] if it is for writing.
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
    pub fn inode(&self) -> &Arc<Inode> {
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
    /// `F_SETFL`, and `FIONBIO`: changes the bits of `mask` to those of `flags`.
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

    /// `EBADF` if it was not opened for `mode`.
    #[inline(always)]
    pub fn check(&self, mode: FileMode) -> Result<(), Errno> {
        if self.mode.contains(mode) {
            Ok(())
        } else {
            Err(Errno::EBADF)
        }
    }
    /// What is said of memory that is not the user's: `EINVAL` if the file is one (`mode`) that would not have looked at it, else `EFAULT`.
    #[cold]
    #[inline(never)]
    fn fault(&self, mode: FileMode) -> Errno {
        if self.mode.contains(mode) {
            Errno::EINVAL
        } else {
            Errno::EFAULT
        }
    }
    /// Reads to user memory. Whether the file was opened for it is said before whether the memory is the user's.
    #[inline(always)]
    pub fn read_to_user(&self, buf: usize, len: usize, pos: Option<u64>) -> SysResult {
        self.check(FileMode::READ)?;
        match IoDst::user(buf, len) {
            Ok(mut dst) => self.read(&mut dst, pos),
            Err(_) => Err(self.fault(FileMode::NO_READ)),
        }
    }
    /// Writes from user memory, likewise.
    #[inline(always)]
    pub fn write_from_user(&self, buf: usize, len: usize, pos: Option<u64>) -> SysResult {
        self.check(FileMode::WRITE)?;
        match IoSrc::user(buf, len) {
            Ok(mut src) => self.write(&mut src, pos),
            Err(_) => Err(self.fault(FileMode::NO_WRITE)),
        }
    }
    /// Reads; `EBADF` if not opened for it.
    #[inline]
    pub fn read(&self, dst: &mut IoDst<'_>, pos: Option<u64>) -> SysResult {
        self.check(FileMode::READ)?;
        self.ops.read(self, dst, pos)
    }
    /// Writes; `EBADF` if not opened for it.
    #[inline]
    pub fn write(&self, src: &mut IoSrc<'_>, pos: Option<u64>) -> SysResult {
        self.check(FileMode::WRITE)?;
        self.ops.write(self, src, pos)
    }
    /// Reads into a kernel buffer at `pos`, whatever the file was opened for (exec).
    pub fn read_at(&self, buf: &mut [u8], pos: u64) -> SysResult {
        self.ops.read(self, &mut IoDst::kernel(buf), Some(pos))
    }
    /// Readiness.
    #[inline]
    pub fn poll(&self, table: Option<&mut PollTable<'_>>) -> PollEvents {
        self.ops.poll(self, table)
    }
    /// Whether it is a regular file.
    pub fn is_regular(&self) -> bool {
        self.inode().kind == FileType::Regular
    }

    /// Who gets its signals.
    pub fn owner(&self) -> Owner {
        self.extra.lock().as_ref().map(|e| e.owner).unwrap_or_default()
    }
    /// Changes who gets its signals.
    pub fn set_owner(&self, change: impl FnOnce(&mut Owner)) {
        change(&mut self.extra.lock().get_or_insert_default().owner);
    }
    /// Adds somebody to be told of its end.
    pub fn watch(&self, watcher: Weak<dyn Watcher>) {
        let mut extra = self.extra.lock();
        let list = &mut extra.get_or_insert_default().watchers;
        list.retain(|w| w.strong_count() != 0);
        list.push(watcher);
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let watchers = self
            .extra
            .get_mut()
            .take()
            .map(|e| e.watchers)
            .unwrap_or_default();
        for w in watchers.iter().filter_map(Weak::upgrade) {
            w.file_closed(self);
        }
        if !self.mode.contains(FileMode::PATH) {
            self.ops.release(self);
            crate::fs::locks::file_released(self);
            crate::fs::inotify::file_closed(self);
            if self.mode.contains(FileMode::BY_PATH.union(FileMode::WRITE)) {
                self.inode().put_write();
            }
        }
    }
}

/// The operations of an `O_PATH` descriptor: none.
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
