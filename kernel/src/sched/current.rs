//! The running thread.

use crate::arch::smp;
use crate::fs::context::Places;
use crate::fs::fdtable::Table;
use crate::fs::path::Path;
use crate::fs::{FdTable, File, FsContext, inotify};
use crate::task::{Creds, Task, root_creds};
use alloc::sync::Arc;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use limen_linux_abi::{Errno, SysResult};

/// The running thread, without a reference counted. Must not be handed to another thread.
pub struct CurrentTask {
    task: ManuallyDrop<Arc<Task>>,
    _local: PhantomData<*const ()>,
}

/// The running thread. Valid once `sched::init` has run.
#[inline(always)]
pub fn current() -> CurrentTask {
    // SAFETY: every running thread is a `Task` in an `Arc` (`info` is its first field) and holds a reference
    // to itself until it has been switched away from for the last time. This handle does not own that
    // reference and is never dropped.
    let task = ManuallyDrop::new(unsafe { Arc::from_raw(smp::current().cast::<Task>()) });
    CurrentTask {
        task,
        _local: PhantomData,
    }
}

impl Deref for CurrentTask {
    type Target = Arc<Task>;
    #[inline(always)]
    fn deref(&self) -> &Arc<Task> {
        &self.task
    }
}

/// What the running thread owns, read without a lock.
impl CurrentTask {
    /// Whether the thread is in the kernel because of an interrupt or a fault in user mode, not of a system
    /// call. Also `true` on the way out of `rt_sigreturn`. Only for threads that have been in user mode.
    pub fn was_interrupted(&self) -> bool {
        let frame = crate::arch::switch::user_frame(self.stack.top());
        // SAFETY: the thread entered the kernel from user mode, so its frame is at the top of its stack, and
        // only the thread itself uses it.
        limen_entry::Frame::syscall_number(unsafe { &*frame }) < 0
    }
    /// The addresses of its next instruction and of its stack in user mode. Only for threads that have been
    /// there.
    pub fn user_ip_and_sp(&self) -> (usize, usize) {
        let frame = crate::arch::switch::user_frame(self.stack.top());
        // SAFETY: as in `was_interrupted`: the frame is at the top of the stack and the thread's own.
        let frame = unsafe { &*frame };
        (frame.ip(), frame.sp())
    }
    /// Its credentials.
    #[inline]
    pub fn creds(&self) -> Arc<Creds> {
        // SAFETY: the running thread's own slot.
        unsafe { self.creds_slot().own() }.unwrap_or_else(root_creds)
    }
    /// Its descriptors. Kernel threads, and threads that have exited, have an empty table.
    #[inline]
    pub fn files(&self) -> Arc<FdTable> {
        // SAFETY: the running thread's own slot.
        unsafe { self.files_slot().own() }.unwrap_or_else(FdTable::new)
    }
    /// Its directories and umask. Kernel threads, and threads that have exited, see the first root.
    #[inline]
    pub fn fs(&self) -> Arc<FsContext> {
        // SAFETY: the running thread's own slot.
        unsafe { self.fs_slot().own() }.unwrap_or_else(FsContext::initial)
    }
    /// The open file behind one of its descriptors, counted. `EBADF`.
    #[inline]
    pub fn file(&self, fd: i32) -> Result<Arc<File>, Errno> {
        // SAFETY: the running thread's own slot.
        let found = unsafe {
            self.files_slot()
                .look(FdTable::lock, |table| table.get(fd).cloned())
        };
        found.unwrap_or(Err(Errno::EBADF))
    }
    /// Calls `look` with the thread's root and working directory and returns its result. `look` must be short
    /// and take no lock; it may be called twice.
    #[inline(always)]
    pub fn look_at_places<R>(&self, look: impl FnOnce(&Places) -> R + Copy) -> R {
        // SAFETY: the running thread's own slot.
        let seen = unsafe { self.fs_slot().look(FsContext::places, look) };
        seen.unwrap_or_else(|| look(&Places::initial()))
    }
    /// Its root directory, where absolute path names begin.
    #[inline]
    pub fn root(&self) -> Path {
        self.look_at_places(|p| p.root.clone())
    }
    /// Calls `f` with the open file behind one of the thread's descriptors, as nearly every call on one
    /// descriptor does. If no other thread has the table, the file's count is not touched: the table holds
    /// the file, and `f` must not close a descriptor of this thread (that panics). `EBADF`.
    #[inline(always)]
    pub fn with_file<R>(&self, fd: i32, f: impl FnOnce(&File) -> Result<R, Errno>) -> Result<R, Errno> {
        self.lend::<Looks, R>(fd, |table| table.get(fd), f)
    }
    /// [`CurrentTask::with_file`] for a read with [`File::read_to_user`], which the file's watchers are told
    /// of. `EBADF` for an `O_PATH` descriptor as well.
    #[inline(always)]
    pub fn with_file_to_read(&self, fd: i32, f: impl FnOnce(&File) -> SysResult) -> SysResult {
        self.lend::<Reads, usize>(fd, |table| table.get_any(fd), f)
    }
    /// As [`CurrentTask::with_file_to_read`], for a write with [`File::write_from_user`].
    #[inline(always)]
    pub fn with_file_to_write(&self, fd: i32, f: impl FnOnce(&File) -> SysResult) -> SysResult {
        self.lend::<Writes, usize>(fd, |table| table.get_any(fd), f)
    }
    #[inline(always)]
    fn lend<U: Use<R>, R>(
        &self,
        fd: i32,
        find: impl FnOnce(&Table) -> Result<&Arc<File>, Errno>,
        f: impl FnOnce(&File) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        // SAFETY: the running thread's own slot. Should `f` replace the table all the same, dropping the
        // table finds the mark and panics.
        let files = match unsafe { self.files_slot().sole() } {
            Some(files) if files.lent().is_null() => files,
            _ => return with_counted::<U, R>(fd, f),
        };
        // SAFETY: only the running thread could change the table, and it does not do so here.
        let file = Arc::as_ptr(find(unsafe { files.lock().peek() })?);
        files.set_lent(file);
        // SAFETY: with the mark nothing can be taken out of the table, which holds a reference to the file.
        let result = f(unsafe { &*file });
        // SAFETY: the mark is the file, which is still in the table. It is read back only if somebody is
        // told, so no register has to keep the file.
        let result = U::is_over(result, || unsafe { &*files.lent() });
        files.set_lent(core::ptr::null());
        result
    }
}

/// [`CurrentTask::with_file`] if other threads have the table, too.
#[inline(never)]
fn with_counted<U: Use<R>, R>(fd: i32, f: impl FnOnce(&File) -> Result<R, Errno>) -> Result<R, Errno> {
    let file = current().files().get(fd)?;
    let result = f(&file);
    U::is_over(result, || &file)
}

/// What is told of the use of a file when it is over.
trait Use<R> {
    fn is_over<'a>(result: Result<R, Errno>, file: impl FnOnce() -> &'a File) -> Result<R, Errno>;
}

struct Looks;
struct Reads;
struct Writes;

impl<R> Use<R> for Looks {
    #[inline(always)]
    fn is_over<'a>(result: Result<R, Errno>, _: impl FnOnce() -> &'a File) -> Result<R, Errno> {
        result
    }
}

impl Use<usize> for Reads {
    #[inline(always)]
    fn is_over<'a>(result: SysResult, file: impl FnOnce() -> &'a File) -> SysResult {
        inotify::was_read(file, result)
    }
}

impl Use<usize> for Writes {
    #[inline(always)]
    fn is_over<'a>(result: SysResult, file: impl FnOnce() -> &'a File) -> SysResult {
        inotify::was_written(file, result)
    }
}
