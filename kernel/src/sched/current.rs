//! The running thread.

use crate::arch::smp;
use crate::fs::context::Places;
use crate::fs::fdtable::Table;
use crate::fs::path::Path;
use crate::fs::{FdTable, File, FsContext};
use crate::task::{Creds, Task, root_creds};
use alloc::sync::Arc;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use limen_linux_abi::Errno;

/// The running thread, without touching its count. Not to be sent anywhere.
pub struct CurrentTask {
    task: ManuallyDrop<Arc<Task>>,
    _local: PhantomData<*const ()>,
}

/// The running thread. Valid once `sched::init` has run.
#[inline(always)]
pub fn current() -> CurrentTask {
    // SAFETY: every running thread is a `Task` in an `Arc` (`info` is its first field) and owns a count of itself until it has been
    // switched away from for the last time; the count is not taken over, because the handle is never dropped.
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

/// What the running thread holds itself, reached without a lock.
impl CurrentTask {
    /// Whether it is in the kernel because it was interrupted in user mode, not because of a system call. Also `true` on the way out of
    /// `rt_sigreturn`. For threads that have been in user mode.
    pub fn was_interrupted(&self) -> bool {
        let frame = crate::arch::switch::user_frame(self.stack.top());
        // SAFETY: the thread entered the kernel from user mode, so its frame is at the top of its stack; nobody else touches it.
        limen_entry::Frame::syscall_number(unsafe { &*frame }) < 0
    }
    /// The addresses of its next instruction and of its stack in user mode. For threads that have been there.
    pub fn user_ip_and_sp(&self) -> (usize, usize) {
        let frame = crate::arch::switch::user_frame(self.stack.top());
        // SAFETY: as above.
        let frame = unsafe { &*frame };
        (frame.ip(), frame.sp())
    }
    /// Its credentials.
    #[inline]
    pub fn creds(&self) -> Arc<Creds> {
        // SAFETY: the running thread's own slot.
        unsafe { self.creds_slot().own() }.unwrap_or_else(root_creds)
    }
    /// Its descriptors. Kernel threads and threads past their end have an empty table.
    #[inline]
    pub fn files(&self) -> Arc<FdTable> {
        // SAFETY: the running thread's own slot.
        unsafe { self.files_slot().own() }.unwrap_or_else(FdTable::new)
    }
    /// Its directories and umask; kernel threads and threads past their end see the first root.
    #[inline]
    pub fn fs(&self) -> Arc<FsContext> {
        // SAFETY: the running thread's own slot.
        unsafe { self.fs_slot().own() }.unwrap_or_else(FsContext::initial)
    }
    /// The open file behind one of its descriptors. `EBADF`.
    #[inline]
    pub fn file(&self, fd: i32) -> Result<Arc<File>, Errno> {
        // SAFETY: the running thread's own slot.
        let found = unsafe {
            self.files_slot()
                .look(FdTable::lock, |table| table.get(fd).cloned())
        };
        found.unwrap_or(Err(Errno::EBADF))
    }
    /// What `look`, which is short and takes no lock, makes of where its names begin.
    #[inline(always)]
    pub fn look_at_places<R>(&self, look: impl FnOnce(&Places) -> R + Copy) -> R {
        // SAFETY: the running thread's own slot.
        let seen = unsafe { self.fs_slot().look(FsContext::places, look) };
        seen.unwrap_or_else(|| look(&Places::initial()))
    }
    /// Where its absolute names begin.
    #[inline]
    pub fn root(&self) -> Path {
        self.look_at_places(|p| p.root.clone())
    }
    /// Calls `f` with the open file behind one of its descriptors: what nearly every call on one descriptor does. If no other thread has
    /// the table, the file is not counted: the table holds it, and `f` closes no descriptor of this thread (a bug that panics). `EBADF`.
    #[inline(always)]
    pub fn with_file<R>(&self, fd: i32, f: impl FnOnce(&File) -> Result<R, Errno>) -> Result<R, Errno> {
        self.lend(fd, |table| table.get(fd), f)
    }
    /// The same for reading and writing, which an `O_PATH` descriptor does not allow anyway.
    #[inline(always)]
    pub fn with_file_for_io<R>(
        &self,
        fd: i32,
        f: impl FnOnce(&File) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        self.lend(fd, |table| table.get_any(fd), f)
    }
    #[inline(always)]
    fn lend<R>(
        &self,
        fd: i32,
        find: impl FnOnce(&Table) -> Result<&Arc<File>, Errno>,
        f: impl FnOnce(&File) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        // SAFETY: the running thread's own slot; if it is replaced all the same, the table's end finds the mark.
        let files = match unsafe { self.files_slot().sole() } {
            Some(files) if !files.lent() => files,
            _ => return with_counted(fd, f),
        };
        // SAFETY: only the running thread could change the table, and does not here.
        let file = Arc::as_ptr(find(unsafe { files.lock().peek() })?);
        files.set_lent(true);
        // SAFETY: with the mark nothing can be taken out of the table, which holds a count of the file.
        let result = f(unsafe { &*file });
        files.set_lent(false);
        result
    }
}

/// [`CurrentTask::with_file`] where others have the table, too.
#[inline(never)]
fn with_counted<R>(fd: i32, f: impl FnOnce(&File) -> Result<R, Errno>) -> Result<R, Errno> {
    f(&*current().files().get(fd)?)
}
