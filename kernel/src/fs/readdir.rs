//! Directory listings: `getdents64` over anything that has entries.

use crate::fs::dentry::{Dentry, Directory, FIRST_COOKIE};
use crate::fs::file::{File, FileOps};
use crate::fs::inode::FileType;
use crate::fs::io::{IoDst, IoSrc};
use crate::rcu::Shared;
use core::sync::atomic::Ordering;
use limen_linux_abi::Errno;
use limen_linux_abi::SysResult;

/// Takes the entries of a listing.
pub struct DirSink<'a> {
    emit: &'a mut dyn FnMut(&[u8], u64, FileType, u64) -> bool,
    /// The cookie at which to continue.
    pub pos: u64,
}

impl<'a> DirSink<'a> {
    /// `emit(name, ino, kind, next_cookie)` returns whether it took the entry. It may be called with locks
    /// held and must not sleep.
    pub fn new(pos: u64, emit: &'a mut dyn FnMut(&[u8], u64, FileType, u64) -> bool) -> Self {
        Self { emit, pos }
    }
    /// Adds an entry. `next`: the cookie behind it. `false`: there was no room; stop.
    pub fn add(&mut self, name: &[u8], ino: u64, kind: FileType, next: u64) -> bool {
        let taken = (self.emit)(name, ino, kind, next);
        if taken {
            self.pos = next;
        }
        taken
    }
}

/// Made-up entries have cookies from here on, behind those in the dentry. It is small enough for programs
/// whose file positions have 32 bits.
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

/// Adds the entries of a directory from the present position on. Returns whether there was room for all. Not
/// inlined, so that it has all registers for itself.
#[inline(never)]
fn add_all(entries: &Directory<'_>, sink: &mut DirSink<'_>) -> bool {
    entries
        .from(sink.pos)
        .all(|(cookie, name, child)| sink.add(name, child.inode.ino, child.inode.kind, cookie + 1))
}

/// [`add_all`] up to the end of the listing, if entries were added behind it.
#[cold]
#[inline(never)]
fn add_until(entries: &Directory<'_>, sink: &mut DirSink<'_>, end: u64) {
    let pos = sink.pos;
    let mut emit =
        |name: &[u8], ino: u64, kind: FileType, next: u64| next <= end && sink.add(name, ino, kind, next);
    add_all(entries, &mut DirSink::new(pos, &mut emit));
}

fn list(file: &File, dentry: &Shared<Dentry>, sink: &mut DirSink<'_>) -> Result<(), Errno> {
    let inode = &dentry.inode;
    let real_only = inode.ops.writable_directory();
    // Asked before the entries are locked, because it locks the name.
    let parent_ino = if sink.pos <= 1 { file.path.parent_ino() } else { 0 };
    let entries = dentry.lock_dir()?;
    if entries.is_dead() {
        return Err(Errno::ENOENT);
    }
    // Entries that are added during a listing are not in it: a program that adds an entry for each one it
    // reads would never end.
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
    // The file system's own cookies begin at 2. An entry that is pinned in the dentry is among its entries,
    // too, and must not appear twice.
    let start = sink.pos - MADE_UP + FIRST_COOKIE;
    let mut emit = |name: &[u8], ino: u64, kind: FileType, next: u64| {
        if dentry.lock_dir().is_ok_and(|d| d.has(name)) {
            sink.pos = next - FIRST_COOKIE + MADE_UP;
            return true;
        }
        sink.add(name, ino, kind, next - FIRST_COOKIE + MADE_UP)
    };
    let mut inner = DirSink::new(start, &mut emit);
    inode.ops.list(inode, start, &mut inner)?;
    Ok(())
}
