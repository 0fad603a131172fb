//! Descriptor tables: small numbers for open files. The threads of a process share one (`CLONE_FILES`), fork
//! copies it.

use crate::fs::file::{File, FileMode};
use crate::sync::loan::{Lender, LenderGuard, Place};
use crate::task::audit;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use limen_linux_abi::Errno;

/// How far `RLIMIT_NOFILE` may be raised, and the size of the largest table (`fs.nr_open`).
pub static NR_OPEN: AtomicUsize = AtomicUsize::new(1 << 20);
/// The highest value of [`NR_OPEN`].
pub const NR_OPEN_MAX: usize = {
    let words = usize::MAX / size_of::<usize>();
    let most = i32::MAX as usize;
    let most = if most < words { most } else { words };
    most & !(usize::BITS as usize - 1)
};

/// [`NR_OPEN`] now.
#[inline(always)]
pub fn nr_open() -> usize {
    NR_OPEN.load(Ordering::Relaxed)
}

/// The state of 64 descriptors, a bit for each.
#[derive(Clone, Copy, Default)]
struct Word {
    /// Open, or reserved for a file that is being opened.
    used: u64,
    /// Close-on-exec.
    cloexec: u64,
}

/// Descriptors per [`Word`].
const WORD: usize = 64;

/// What the table's lock protects beside the files.
#[derive(Default)]
pub struct Table {
    /// As many as the files need, of which there are a multiple of [`WORD`].
    words: Vec<Word>,
    /// All words before this one are full.
    room: usize,
}

impl Table {
    fn cloexec(&self, fd: usize) -> bool {
        self.words
            .get(fd / WORD)
            .is_some_and(|w| w.cloexec >> (fd % WORD) & 1 != 0)
    }
    fn set_cloexec(&mut self, fd: usize, on: bool) {
        let (word, mask) = (&mut self.words[fd / WORD], 1 << (fd % WORD));
        if on {
            word.cloexec |= mask
        } else {
            word.cloexec &= !mask
        }
    }
    /// The lowest unused number from `from` on. It may lie behind the end of the table.
    fn find_free(&mut self, from: usize) -> usize {
        let lowest = self.room * WORD;
        let mut fd = from.max(lowest);
        while let Some(word) = self.words.get(fd / WORD) {
            let free = !word.used >> (fd % WORD);
            if free != 0 {
                fd += free.trailing_zeros() as usize;
                break;
            }
            fd = (fd / WORD + 1) * WORD;
        }
        if from <= lowest {
            self.room = fd / WORD;
        }
        fd
    }
    /// The lowest used number from `from` on.
    fn find_used(&self, from: usize) -> Option<usize> {
        let mut fd = from;
        while let Some(word) = self.words.get(fd / WORD) {
            let used = word.used >> (fd % WORD);
            if used != 0 {
                return Some(fd + used.trailing_zeros() as usize);
            }
            fd = (fd / WORD + 1) * WORD;
        }
        None
    }
    fn reserve(&mut self, fd: usize, cloexec: bool) {
        self.words[fd / WORD].used |= 1 << (fd % WORD);
        self.set_cloexec(fd, cloexec);
    }
    fn give_back(&mut self, fd: usize) {
        self.words[fd / WORD].used &= !(1 << (fd % WORD));
        self.room = self.room.min(fd / WORD);
    }
}

impl LenderGuard<'_, File, Table> {
    fn open(&self, fd: usize) -> bool {
        self.get(fd).is_some()
    }
    /// Whether the number is reserved for a file that is being opened.
    fn reserved(&self, fd: usize) -> bool {
        self.words[fd / WORD].used >> (fd % WORD) & 1 != 0 && !self.open(fd)
    }
    fn open_at(&mut self, fd: usize, file: Arc<File>, cloexec: bool) -> Option<Arc<File>> {
        self.reserve(fd, cloexec);
        self.put(fd, file)
    }
    #[inline(always)]
    fn clear(&mut self, fd: usize) -> Option<Arc<File>> {
        let file = self.take(fd)?;
        self.give_back(fd);
        Some(file)
    }
}

/// A descriptor table.
pub struct FdTable {
    table: Lender<File, Table>,
    /// The file that the table's only user is using without a reference of its own
    /// (`CurrentTask::with_file`): no file may be taken out. Null: none. Threads that share the table have
    /// borrowers instead.
    lent: AtomicPtr<File>,
}

impl FdTable {
    /// An empty table.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            table: Lender::new(Table::default()),
            lent: AtomicPtr::new(ptr::null_mut()),
        })
    }

    /// A copy that shares the open files (fork, `unshare(CLONE_FILES)`).
    pub fn copy(&self) -> Result<Arc<Self>, Errno> {
        let mut new = Self {
            table: Lender::new(Table::default()),
            lent: AtomicPtr::new(ptr::null_mut()),
        };
        loop {
            let len = self.table.lock().len();
            new.grow(len)?;
            let old = self.table.lock();
            if old.words.len() > new.table.get_mut().words.len() {
                continue;
            }
            let mut fd = 0;
            while let Some(at) = old.find_used(fd) {
                if let Some(file) = old.get_counted(at) {
                    new.table.get_mut().reserve(at, old.cloexec(at));
                    new.table.set(at, file);
                }
                fd = at + 1;
            }
            drop(old);
            return Ok(Arc::new(new));
        }
    }

    /// The file behind `fd`, counted. `EBADF`: there is none, or it is `O_PATH`.
    #[inline]
    pub fn get(&self, fd: i32) -> Result<Arc<File>, Errno> {
        self.get_any(fd)?.not_path()
    }

    /// The files, for the threads that have the table.
    #[inline(always)]
    pub fn files(&self) -> &Lender<File, Table> {
        &self.table
    }
    /// The file that the table's only user is using without a reference of its own, or null.
    #[inline(always)]
    pub fn lent(&self) -> *const File {
        self.lent.load(Ordering::Relaxed)
    }
    /// Sets [`FdTable::lent`]. While it is not null, taking a file out is a bug that panics.
    #[inline(always)]
    pub fn set_lent(&self, file: *const File) {
        self.lent.store(file.cast_mut(), Ordering::Relaxed);
    }
    /// Called before a file is taken out.
    fn nothing_lent(&self) {
        assert!(
            self.lent().is_null(),
            "a descriptor is closed while its table's only user is using one"
        );
    }

    /// The file behind `fd`, counted, even if it is `O_PATH`. `EBADF`.
    #[inline]
    pub fn get_any(&self, fd: i32) -> Result<Arc<File>, Errno> {
        let table = self.table.lock();
        table.get_counted(fd as u32 as usize).ok_or(Errno::EBADF)
    }

    /// Makes room for descriptors below `len`. Memory is allocated without the lock.
    fn grow(&self, len: usize) -> Result<(), Errno> {
        loop {
            let (have, kept) = {
                let t = self.table.lock();
                (t.len(), t.outgrown())
            };
            if len <= have {
                return Ok(());
            }
            // `fs.nr_open` may be any number; a table has whole words.
            let most = nr_open() / WORD * WORD;
            if len > most {
                return Err(Errno::EMFILE);
            }
            let size = len.next_multiple_of(WORD).max((have * 2).min(most));
            let (mut files, mut words, mut outgrown) = (Vec::new(), Vec::new(), Vec::new());
            crate::mm::reserve::room_exact(&mut files, size)?;
            crate::mm::reserve::room_exact(&mut words, size / WORD)?;
            crate::mm::reserve::room_exact(&mut outgrown, kept)?;
            Place::fill(&mut files, size);
            let mut t = self.table.lock();
            if t.len() != have || t.outgrown() > kept {
                continue;
            }
            words.extend_from_slice(&t.words);
            words.resize(size / WORD, Word::default());
            let old = (
                t.move_to(files, outgrown),
                core::mem::replace(&mut t.words, words),
            );
            drop(t);
            if have != 0 {
                drop(old);
            } else {
                // A new table: these lists have no memory.
                core::mem::forget(old);
            }
            return Ok(());
        }
    }

    /// Gives `file` the lowest free descriptor. `EMFILE`, `ENOMEM`.
    pub fn install(&self, file: Arc<File>, cloexec: bool) -> Result<i32, Errno> {
        self.install_from(file, 0, cloexec)
    }

    /// Gives `file` the lowest free descriptor from `from` on (`F_DUPFD`). `EMFILE`: the limit is reached.
    pub fn install_from(&self, file: Arc<File>, from: usize, cloexec: bool) -> Result<i32, Errno> {
        let (mut t, fd) = self.lock_free(from)?;
        t.open_at(fd, file, cloexec);
        Ok(fd as i32)
    }

    /// Locks the table. Also returns the lowest free descriptor from `from` on.
    #[inline(always)]
    fn lock_free(&self, from: usize) -> Result<(LenderGuard<'_, File, Table>, usize), Errno> {
        let limit = (crate::task::rlimit(crate::fs::RLIMIT_NOFILE) as usize).min(nr_open());
        loop {
            let mut t = self.table.lock();
            let fd = t.find_free(from);
            if fd >= limit {
                return Err(Errno::EMFILE);
            }
            if fd < t.len() {
                return Ok((t, fd));
            }
            drop(t);
            self.grow(fd + 1)?;
        }
    }

    /// Reserves the lowest free descriptor for a file that is yet to be opened. Until [`Self::fill`] or
    /// [`Self::give_back`] there is no file behind it. `EMFILE`: the limit is reached.
    pub fn reserve(&self, cloexec: bool) -> Result<i32, Errno> {
        let (mut t, fd) = self.lock_free(0)?;
        t.reserve(fd, cloexec);
        Ok(fd as i32)
    }
    /// Puts `file` behind a reserved descriptor.
    pub fn fill(&self, fd: i32, file: Arc<File>) {
        let old = self.table.lock().put(fd as usize, file);
        debug_assert!(old.is_none(), "a reserved descriptor was given to another file");
    }
    /// Frees a reserved descriptor: the file could not be opened.
    #[cold]
    #[inline(never)]
    pub fn give_back(&self, fd: i32) {
        self.table.lock().give_back(fd as usize);
    }

    /// `EMFILE` if no descriptor is free. For callers that could not undo what they do next.
    pub fn check_room(&self) -> Result<(), Errno> {
        let limit = (crate::task::rlimit(crate::fs::RLIMIT_NOFILE) as usize).min(nr_open());
        if self.table.lock().find_free(0) < limit {
            Ok(())
        } else {
            Err(Errno::EMFILE)
        }
    }

    /// Gives two files a descriptor each, or neither of them.
    pub fn install_pair(&self, a: Arc<File>, b: Arc<File>, cloexec: bool) -> Result<[i32; 2], Errno> {
        let first = self.install(a, cloexec)?;
        match self.install(b, cloexec) {
            Ok(second) => {
                if audit::wants_details() {
                    audit::details::pair([first, second]);
                }
                Ok([first, second])
            }
            Err(e) => {
                let _ = self.close(first);
                Err(e)
            }
        }
    }

    /// `dup2`/`dup3`: `file` becomes `fd`; a file that was there is closed. `EBUSY`: `fd` is reserved for a
    /// file that is being opened.
    pub fn install_at(&self, file: Arc<File>, fd: i32, cloexec: bool) -> Result<(), Errno> {
        let index = fd as usize;
        if fd < 0 || index >= (crate::task::rlimit(crate::fs::RLIMIT_NOFILE) as usize).min(nr_open()) {
            return Err(Errno::EBADF);
        }
        self.grow(index + 1).map_err(|error| match error {
            Errno::EMFILE => Errno::EBADF,
            other => other,
        })?;
        self.nothing_lent();
        let mut t = self.table.lock();
        if t.reserved(index) {
            return Err(Errno::EBUSY);
        }
        let old = t.open_at(index, file, cloexec);
        drop(t);
        if let Some(old) = old {
            self.flush(&old);
        }
        Ok(())
    }

    /// Closes `fd`.
    pub fn close(&self, fd: i32) -> Result<(), Errno> {
        self.nothing_lent();
        let file = self.table.lock().clear(fd as u32 as usize).ok_or(Errno::EBADF)?;
        self.flush(&file);
        Ok(())
    }

    fn flush(&self, file: &Arc<File>) {
        if file.mode().contains(FileMode::PATH) {
            return;
        }
        file.ops().flush(file);
        crate::fs::locks::descriptor_closed(file, self);
    }

    /// Whether `fd` is closed on exec. `EBADF`.
    pub fn cloexec(&self, fd: i32) -> Result<bool, Errno> {
        let t = self.table.lock();
        let fd = fd as u32 as usize;
        if !t.open(fd) {
            return Err(Errno::EBADF);
        }
        Ok(t.cloexec(fd))
    }

    /// Sets whether `fd` is closed on exec. `EBADF`.
    pub fn set_cloexec(&self, fd: i32, on: bool) -> Result<(), Errno> {
        let mut t = self.table.lock();
        let fd = fd as u32 as usize;
        if !t.open(fd) {
            return Err(Errno::EBADF);
        }
        t.set_cloexec(fd, on);
        Ok(())
    }

    /// Closes each descriptor of `first..=last` for which `pick` is true.
    fn for_range(&self, first: usize, last: usize, pick: impl Fn(&Table, usize) -> bool) {
        self.nothing_lent();
        let mut from = first;
        loop {
            let mut t = self.table.lock();
            let fd = loop {
                match t.find_used(from) {
                    Some(fd) if fd <= last => {
                        from = fd + 1;
                        if t.open(fd) && pick(&t, fd) {
                            break fd;
                        }
                    }
                    _ => return,
                }
            };
            let file = t.clear(fd);
            drop(t);
            if let Some(file) = file {
                self.flush(&file);
            }
        }
    }

    /// `close_range`.
    pub fn close_range(&self, first: u32, last: u32, only_cloexec: bool) {
        if only_cloexec {
            let mut t = self.table.lock();
            let end = t.len().min((last as usize).saturating_add(1));
            for fd in (first as usize)..end {
                t.set_cloexec(fd, true);
            }
        } else {
            self.for_range(first as usize, last as usize, |_, _| true);
        }
    }

    /// Closes all descriptors that are marked close-on-exec. For exec, with a table that no other process
    /// shares.
    pub fn close_on_exec(&self) {
        self.for_range(0, usize::MAX, |t, fd| t.cloexec(fd));
    }

    /// Closes all descriptors. For the exit of the last task that has the table.
    pub fn close_all(&self) {
        self.for_range(0, usize::MAX, |_, _| true);
    }

    /// The first open descriptor from `from` on, with its file (`/proc/<pid>/fd` in steps).
    pub fn next_open(&self, from: usize) -> Option<(i32, Arc<File>)> {
        let t = self.table.lock();
        (from..t.len()).find_map(|fd| Some((fd as i32, t.get_counted(fd)?)))
    }

    /// The size of the table in descriptors (`FDSize`).
    pub fn size(&self) -> usize {
        self.table.lock().len().max(64)
    }
}

impl Drop for FdTable {
    fn drop(&mut self) {
        self.close_all();
    }
}
