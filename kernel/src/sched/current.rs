//! The running thread.

use crate::arch::smp;
use crate::fs::file::FileMode;
use crate::fs::path::Path;
use crate::fs::{FdTable, File, FsContext, inotify};
use crate::sync::loan::Stale;
use crate::task::{Creds, Task, ThreadInfo, root_creds};
use alloc::sync::Arc;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::{self, NonNull};
use limen_linux_abi::{Errno, SysResult};

/// The running thread, without a reference counted. Must not be handed to another thread.
pub struct CurrentTask {
    task: ManuallyDrop<Arc<Task>>,
    _local: PhantomData<*const ()>,
}

/// The running thread. Valid once `sched::init` has run.
#[inline(always)]
pub fn current() -> CurrentTask {
    // SAFETY: it is the running thread's.
    unsafe { running(smp::current()) }
}

/// The same, asked again: no register has to keep it since [`current`] was called.
#[inline(always)]
fn current_again() -> CurrentTask {
    // SAFETY: it is the running thread's.
    unsafe { running(smp::current_again()) }
}

/// The running thread by its info.
///
/// # Safety
/// It is the running thread's.
#[inline(always)]
unsafe fn running(info: *const ThreadInfo) -> CurrentTask {
    // SAFETY: every running thread is a `Task` in an `Arc` (`info` is its first field) and holds a reference
    // to itself until it has been switched away from for the last time. This handle does not own that
    // reference and is never dropped.
    let task = ManuallyDrop::new(unsafe { Arc::from_raw(info.cast::<Task>()) });
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
    /// ABI (`AUDIT_ARCH_*`) and number of the system call that it makes, and the call's first arguments. Only
    /// in a call.
    pub fn present_call(&self) -> ((u32, usize), [usize; 4]) {
        use limen_entry::Frame as _;
        let frame = crate::arch::switch::user_frame(self.stack.top());
        // SAFETY: as in `was_interrupted`: the frame is at the top of the stack and the thread's own.
        let frame = unsafe { &*frame };
        let arch = crate::task::calls::audit_arch(self, frame);
        (
            (arch, frame.syscall_number() as usize),
            core::array::from_fn(|n| crate::arch::syscalls::call_arg(frame, n)),
        )
    }
    /// Its newest seccomp filter.
    #[inline(always)]
    pub fn filter(&self) -> Option<&crate::task::seccomp::Filter> {
        // SAFETY: siblings replace it only by one that descends from it and so holds it
        // (`task::seccomp::attach`); the thread itself gives it up only at its end.
        unsafe { self.seccomp.shown().kept() }
    }
    /// Its credentials.
    #[inline]
    pub fn creds(&self) -> Arc<Creds> {
        // SAFETY: the running thread's own, which only it replaces.
        unsafe { self.creds_shown().own_counted() }.unwrap_or_else(root_creds)
    }
    /// Calls `look` with its credentials, which are not counted. `look` must not replace them.
    #[inline]
    pub fn with_creds<R>(&self, look: impl FnOnce(&Creds) -> R) -> R {
        // SAFETY: as in `creds`, and `look` does not replace them.
        match unsafe { self.creds_shown().own() } {
            Some(creds) => look(creds),
            None => look(&root_creds()),
        }
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
    /// Replaces its descriptors and returns the old ones, which the caller drops.
    pub fn replace_files(&self, files: Option<Arc<FdTable>>) -> Option<Arc<FdTable>> {
        let old = self.files_slot().replace(files);
        if let Some(old) = &old {
            // SAFETY: the running thread's own borrower, which borrows only from its table.
            unsafe { self.borrower().leave(old.files()) };
        }
        old
    }
    /// The open file behind one of its descriptors, counted. `EBADF`.
    #[inline]
    pub fn file(&self, fd: i32) -> Result<Arc<File>, Errno> {
        self.file_any(fd)?.not_path()
    }
    /// As [`CurrentTask::file`], even if it is `O_PATH`.
    #[inline]
    pub fn file_any(&self, fd: i32) -> Result<Arc<File>, Errno> {
        // SAFETY: the running thread's own slot, in which nothing is replaced here.
        let Some(files) = (unsafe { self.files_slot().sole() }) else {
            return shared_file(fd);
        };
        // SAFETY: only the running thread could change the table.
        let file = unsafe { files.files().peek(fd as u32 as usize) };
        // SAFETY: the table has a counted reference.
        file.map(|file| unsafe { counted(file) }).ok_or(Errno::EBADF)
    }
    /// Closes one of its descriptors. `EBADF`.
    #[inline]
    pub fn close(&self, fd: i32) -> Result<(), Errno> {
        // SAFETY: the running thread's own slot. Whatever a file does when it is closed, it does not give the
        // thread another table.
        unsafe { self.files_slot().own_ref() }
            .ok_or(Errno::EBADF)?
            .close(fd)
    }
    /// The namespaces in which it is, not counted. `None`: the initial ones. Whoever has the view does not
    /// replace them.
    #[inline(always)]
    pub fn namespaces(&self) -> Option<&crate::task::ns::Set> {
        // SAFETY: the running thread's own, which only it replaces.
        unsafe { self.namespaces_shown().own() }
    }
    /// The same, counted.
    pub fn counted_namespaces(&self) -> Option<Arc<crate::task::ns::Set>> {
        // SAFETY: as in `namespaces`.
        unsafe { self.namespaces_shown().own_counted() }
    }
    /// Its root and working directory, which other threads may change. `None`: it is a thread of the kernel.
    #[inline(always)]
    pub fn places(&self) -> Option<&FsContext> {
        // SAFETY: the running thread's own slot. Whoever has the view does not replace the context.
        unsafe { self.fs_slot().own_ref() }
    }
    /// Its root directory, where absolute path names begin.
    #[inline]
    pub fn root(&self) -> Path {
        self.places()
            .map_or_else(crate::fs::mount::initial_root, FsContext::root)
    }
    /// Its working directory, where relative path names begin.
    #[inline]
    pub fn cwd(&self) -> Path {
        self.places()
            .map_or_else(crate::fs::mount::initial_root, FsContext::cwd)
    }
    /// Calls `f` with the open file behind one of the thread's descriptors, as nearly every call on one
    /// descriptor does. If no other thread has the table, the file's count is not touched: the table holds
    /// the file, and `f` must not close a descriptor of this thread (that panics). `EBADF`.
    #[inline(always)]
    pub fn with_file<R>(&self, fd: i32, f: impl FnOnce(&File) -> Result<R, Errno>) -> Result<R, Errno> {
        self.lend::<Looks, R>(fd, f)
    }
    /// [`CurrentTask::with_file`] for a loop, which is better off with a call if others share the table. If
    /// there is no such file, the result is that of `missing`.
    #[inline(always)]
    pub fn with_one_of_many<R>(
        &self,
        fd: i32,
        f: impl FnOnce(&File) -> R,
        missing: impl FnOnce(i32) -> R + Copy,
    ) -> R {
        let found = self.lend_or::<Looks, R, _>(
            fd,
            move |file| Ok(f(file)),
            move |_, fd, f| Ok(lend_one_of_many(fd, f, missing)),
        );
        found.unwrap_or_else(|_| missing(fd))
    }
    /// As [`CurrentTask::with_file`], even if it is `O_PATH`.
    #[inline(always)]
    pub fn with_any_file<R>(&self, fd: i32, f: impl FnOnce(&File) -> Result<R, Errno>) -> Result<R, Errno> {
        self.lend::<Any, R>(fd, f)
    }
    /// [`CurrentTask::with_file`] for a read with [`File::read_to_user`], which the file's watchers are told
    /// of. `EBADF` for an `O_PATH` descriptor as well.
    #[inline(always)]
    pub fn with_file_to_read(&self, fd: i32, f: impl FnOnce(&File) -> SysResult) -> SysResult {
        self.lend::<Reads, usize>(fd, f)
    }
    /// As [`CurrentTask::with_file_to_read`], for a write with [`File::write_from_user`].
    #[inline(always)]
    pub fn with_file_to_write(&self, fd: i32, f: impl FnOnce(&File) -> SysResult) -> SysResult {
        self.lend::<Writes, usize>(fd, f)
    }
    #[inline(always)]
    fn lend<U: Use<R>, R>(&self, fd: i32, f: impl FnOnce(&File) -> Result<R, Errno>) -> Result<R, Errno> {
        self.lend_or::<U, R, _>(fd, f, |shared, fd, f| match shared {
            Some(files) => self.borrow::<U, R>(files, fd, f),
            None => borrow_slowly::<U, R>(fd, f, Stale::NO),
        })
    }
    /// Calls `or` if other threads have the table, too, with the table, or if there is none or the thread
    /// uses one of its files already.
    #[inline(always)]
    fn lend_or<U: Use<R>, R, F: FnOnce(&File) -> Result<R, Errno>>(
        &self,
        fd: i32,
        f: F,
        or: impl FnOnce(Option<&FdTable>, i32, F) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        // SAFETY: the running thread's own slot. Should `f` replace the table all the same, dropping or
        // leaving it finds the mark or the borrowed file, and panics.
        let files = match unsafe { self.files_slot().own_and_sole() } {
            Some((files, true)) if files.lent().is_null() => files,
            Some((files, false)) => return or(Some(files), fd, f),
            _ => return or(None, fd, f),
        };
        // SAFETY: only the running thread could change the table, and it does not do so here.
        let file = match unsafe { files.files().peek(fd as u32 as usize) } {
            Some(file) if U::may(file) => ptr::from_ref(file),
            _ => return Err(Errno::EBADF),
        };
        files.set_lent(file);
        // SAFETY: with the mark nothing can be taken out of the table, which holds a reference to the file.
        let result = f(unsafe { &*file });
        // SAFETY: the mark is the file, which is still in the table. It is read back only if somebody is
        // told, so no register has to keep the file.
        let result = U::is_over(result, || unsafe { &*files.lent() });
        files.set_lent(ptr::null());
        result
    }
    /// [`CurrentTask::lend`] if other threads have the table, too. `files` is the thread's table.
    #[inline(always)]
    fn borrow<U: Use<R>, R>(
        &self,
        files: &FdTable,
        fd: i32,
        f: impl FnOnce(&File) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        // SAFETY: the running thread's own borrower, part of a `Task` that stays where it is. The thread
        // leaves the table when its slot gets another one, and gives back what it borrows in this function
        // and its like, one inside another.
        match unsafe { self.borrower().borrow(files.files(), fd as u32 as usize) } {
            // SAFETY: it was just borrowed.
            Ok(file) => unsafe { use_borrowed::<U, R>(file, f) },
            Err(stale) => borrow_slowly::<U, R>(fd, f, stale),
        }
    }
}

/// Calls `f` with a borrowed file and gives it back.
///
/// # Safety
/// The running thread has just borrowed it.
#[inline(always)]
unsafe fn use_borrowed<U: Use<R>, R>(
    file: NonNull<File>,
    f: impl FnOnce(&File) -> Result<R, Errno>,
) -> Result<R, Errno> {
    // SAFETY: it has not been given back.
    let view = unsafe { file.as_ref() };
    let result = if U::may(view) {
        // SAFETY: what `f` borrowed it has given back, so this is the file.
        U::is_over(f(view), || unsafe {
            current_again().borrower().borrowed().as_ref()
        })
    } else {
        Err(Errno::EBADF)
    };
    // SAFETY: as above.
    unsafe { current_again().borrower().give_back(result) }
}

/// [`CurrentTask::with_file`] if the file must be looked up with the table's lock.
#[cold]
#[inline(never)]
fn borrow_slowly<U: Use<R>, R>(
    fd: i32,
    f: impl FnOnce(&File) -> Result<R, Errno>,
    stale: Stale,
) -> Result<R, Errno> {
    let task = current();
    // SAFETY: as in `CurrentTask::lend`.
    let files = unsafe { task.files_slot().own_ref() }.ok_or(Errno::EBADF)?;
    // SAFETY: as in `CurrentTask::lend`, where `stale` comes from.
    let found = unsafe {
        task.borrower()
            .borrow_slowly(files.files(), fd as u32 as usize, stale)
    };
    let (file, before) = found.ok_or(Errno::EBADF)?;
    // SAFETY: it was just borrowed.
    let result = unsafe { use_borrowed::<U, R>(file, f) };
    // SAFETY: it has been given back.
    unsafe { task.borrower().go_back(before) };
    result
}

/// [`CurrentTask::with_one_of_many`] if other threads have the table, too.
#[inline(never)]
fn lend_one_of_many<R>(
    fd: i32,
    f: impl FnOnce(&File) -> Result<R, Errno>,
    missing: impl FnOnce(i32) -> R,
) -> R {
    current().with_file(fd, f).unwrap_or_else(|_| missing(fd))
}

/// [`CurrentTask::file_any`] if other threads have the table, too.
#[inline(never)]
fn shared_file(fd: i32) -> Result<Arc<File>, Errno> {
    // SAFETY: it is borrowed meanwhile, and that keeps a counted reference.
    current().with_any_file(fd, |file| Ok(unsafe { counted(file) }))
}

/// A counted reference to an open file.
///
/// # Safety
/// The file is in an `Arc`, and there is a reference that lives on meanwhile.
#[inline(always)]
unsafe fn counted(file: &File) -> Arc<File> {
    // SAFETY: the caller's promise.
    unsafe {
        Arc::increment_strong_count(file);
        Arc::from_raw(file)
    }
}

/// What is told of the use of a file when it is over.
trait Use<R> {
    /// Whether a file may be used so.
    fn may(file: &File) -> bool;
    fn is_over<'a>(result: Result<R, Errno>, file: impl FnOnce() -> &'a File) -> Result<R, Errno>;
}

struct Any;
struct Looks;
struct Reads;
struct Writes;

impl<R> Use<R> for Any {
    #[inline(always)]
    fn may(_: &File) -> bool {
        true
    }
    #[inline(always)]
    fn is_over<'a>(result: Result<R, Errno>, _: impl FnOnce() -> &'a File) -> Result<R, Errno> {
        result
    }
}

impl<R> Use<R> for Looks {
    #[inline(always)]
    fn may(file: &File) -> bool {
        !file.mode().contains(FileMode::PATH)
    }
    #[inline(always)]
    fn is_over<'a>(result: Result<R, Errno>, _: impl FnOnce() -> &'a File) -> Result<R, Errno> {
        result
    }
}

impl Use<usize> for Reads {
    #[inline(always)]
    fn may(_: &File) -> bool {
        true
    }
    #[inline(always)]
    fn is_over<'a>(result: SysResult, file: impl FnOnce() -> &'a File) -> SysResult {
        inotify::was_read(file, result)
    }
}

impl Use<usize> for Writes {
    #[inline(always)]
    fn may(_: &File) -> bool {
        true
    }
    #[inline(always)]
    fn is_over<'a>(result: SysResult, file: impl FnOnce() -> &'a File) -> SysResult {
        inotify::was_written(file, result)
    }
}
