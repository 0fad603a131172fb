//! Directory listings: `getdents64` over anything that has entries.

use crate::fs::dentry::{Dentry, Directory, FIRST_COOKIE};
use crate::fs::file::{File, FileOps};
use crate::fs::inode::FileType;
use crate::fs::io::{IoDst, IoSrc};
use crate::syscall::SysResult;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use limen_linux_abi::Errno;

/// What takes the entries of a listing.
pub struct DirSink<'a> {
    emit: &'a mut dyn FnMut(&[u8], u64, FileType, u64) -> bool,
    /// The cookie to continue from.
    pub pos: u64,
}

impl<'a> DirSink<'a> {
    /// `emit(name, ino, kind, next_cookie)` says whether it took the entry. It may be called with locks held: it does not sleep.
    pub fn new(pos: u64, emit: &'a mut dyn FnMut(&[u8], u64, FileType, u64) -> bool) -> Self {
        Self { emit, pos }
    }
    /// Adds an entry; `next` is the cookie of what comes after it. `false`: no room, stop.
    pub fn add(&mut self, name: &[u8], ino: u64, kind: FileType, next: u64) -> bool {
        let taken = (self.emit)(name, ino, kind, next);
        if taken {
            self.pos = next;
        }
        taken
    }
}

/// Made-up entries have cookies from here on, after any real ones. Small enough for programs whose file positions have 32 bits.
const MADE_UP: u64 = 1 << 30;

/// The operations of an open directory.
pub struct DirOps;

impl FileOps for DirOps {
    fn read(&self, _: &File, _: &mut IoDst<'_>, _: Option<u64>) -> SysResult {
        Err(Errno::EISDIR)
    }
    fn write(&self, _: &File, _: &mut IoSrc<'_>, _: Option<u64>) -> SysResult {
        Err(Errno::EISDIR)
    }
    fn seek(&self, file: &File, offset: i64, whence: u32) -> Result<u64, Errno> {
        crate::fs::pseudo::seek(file, offset, whence)
    }
    fn fsync(&self, _: &File) -> Result<(), Errno> {
        Ok(())
    }
    fn readdir(&self, file: &File, sink: &mut DirSink<'_>) -> Result<(), Errno> {
        let dentry = &file.path.dentry;
        list(file, dentry, sink)?;
        if file.path.mnt.flags() & crate::fs::mount::MS_NOATIME == 0 {
            dentry.inode.touch_accessed();
        }
        Ok(())
    }
}

/// Adds the entries of a directory from where the listing is; whether there was room for all. A function of its own, for the sake of its registers.
#[inline(never)]
fn add_all(entries: &Directory, sink: &mut DirSink<'_>) -> bool {
    entries
        .from(sink.pos)
        .all(|(cookie, name, child)| sink.add(name, child.inode.ino, child.inode.kind, cookie + 1))
}

/// The same, up to where the listing ends, after entries were added behind that.
#[cold]
#[inline(never)]
fn add_until(entries: &Directory, sink: &mut DirSink<'_>, end: u64) {
    let pos = sink.pos;
    let mut emit =
        |name: &[u8], ino: u64, kind: FileType, next: u64| next <= end && sink.add(name, ino, kind, next);
    add_all(entries, &mut DirSink::new(pos, &mut emit));
}

fn list(file: &File, dentry: &Arc<Dentry>, sink: &mut DirSink<'_>) -> Result<(), Errno> {
    let inode = &dentry.inode;
    let real_only = inode.ops.writable_directory();
    // Before the entries are locked, because it locks the name.
    let parent_ino = if sink.pos <= 1 { file.path.parent_ino() } else { 0 };
    let entries = dentry.lock_dir()?;
    if entries.is_dead() {
        return Err(Errno::ENOENT);
    }
    // What comes into the directory during a listing is not in it: a program that does something to each entry would never come to an end.
    let mut end = file.listing_end.load(Ordering::Relaxed);
    if sink.pos == 0 || end == 0 {
        end = entries.end();
        file.listing_end.store(end, Ordering::Relaxed);
    }
    if sink.pos == 0 && !sink.add(b".", inode.ino, FileType::Directory, 1) {
        return Ok(());
    }
    if sink.pos == 1 && !sink.add(b"..", parent_ino, FileType::Directory, FIRST_COOKIE) {
        return Ok(());
    }
    if real_only && !entries.ends_before(end) {
        add_until(&entries, sink, end);
        return Ok(());
    }
    if real_only || sink.pos < MADE_UP {
        if !(entries.ends_before(sink.pos) || add_all(&entries, sink)) || real_only {
            return Ok(());
        }
        sink.pos = MADE_UP;
    }
    drop(entries);
    // The file system counts its own entries from 2; a pinned entry appears among them, too, so it must not appear twice.
    let start = sink.pos - MADE_UP + FIRST_COOKIE;
    let mut emit = |name: &[u8], ino: u64, kind: FileType, next: u64| {
        if dentry.lock_dir().is_ok_and(|d| d.get(name).is_some()) {
            sink.pos = next - FIRST_COOKIE + MADE_UP;
            return true;
        }
        sink.add(name, ino, kind, next - FIRST_COOKIE + MADE_UP)
    };
    let mut inner = DirSink::new(start, &mut emit);
    inode.ops.list(inode, start, &mut inner)?;
    Ok(())
}
