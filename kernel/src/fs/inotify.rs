//! inotify: tells programs what happens to files and in directories. The file system's operations call the functions at the end; with
//! no watch anywhere they cost one load.

use crate::fs::anon;
use crate::fs::dentry::Dentry;
use crate::fs::file::{File, FileMode, FileOps};
use crate::fs::inode::{FileType, Inode};
use crate::fs::io::IoDst;
use crate::fs::poll::{PollEvents, PollTable};
use crate::mm::user::UserPtr;
use crate::sched::WaitQueue;
use crate::sync::SpinLock;
use crate::syscall::SysResult;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use limen_linux_abi::{Errno, raw::general as abi};

const ACCESS: u32 = 1;
const MODIFY: u32 = 2;
const ATTRIB: u32 = 4;
const CLOSE_WRITE: u32 = 8;
const CLOSE_NOWRITE: u32 = 0x10;
const OPEN: u32 = 0x20;
const MOVED_FROM: u32 = 0x40;
const MOVED_TO: u32 = 0x80;
const CREATE: u32 = 0x100;
const DELETE: u32 = 0x200;
const DELETE_SELF: u32 = 0x400;
const MOVE_SELF: u32 = 0x800;
const OVERFLOW: u32 = 0x4000;
const IGNORED: u32 = 0x8000;
const ONLYDIR: u32 = 1 << 24;
const DONT_FOLLOW: u32 = 1 << 25;
const EXCL_UNLINK: u32 = 1 << 26;
const MASK_CREATE: u32 = 1 << 28;
const MASK_ADD: u32 = 1 << 29;
const ISDIR: u32 = 1 << 30;
const ONESHOT: u32 = 1 << 31;
/// Everything that can happen.
const EVENTS: u32 = 0xfff;
/// All bits a mask can have: one at least must be in it, others mean nothing.
const MASK: u32 =
    EVENTS | 0xe000 | ONLYDIR | DONT_FOLLOW | EXCL_UNLINK | MASK_CREATE | MASK_ADD | ISDIR | ONESHOT;
/// Longest queue (`max_queued_events`).
const MAX_QUEUE: usize = 16384;
/// Most watches of an instance (`max_user_watches` is per user; this bounds what one descriptor can pin).
const MAX_WATCHES: usize = 65536;

/// Watches in all.
static WATCHES: AtomicUsize = AtomicUsize::new(0);
static COOKIE: AtomicU32 = AtomicU32::new(1);

#[derive(PartialEq, Eq)]
struct Event {
    wd: i32,
    mask: u32,
    cookie: u32,
    name: Vec<u8>,
}

impl Event {
    /// Bytes as read: the header and the name, padded.
    fn size(&self) -> usize {
        16 + if self.name.is_empty() {
            0
        } else {
            (self.name.len() + 1).next_multiple_of(16)
        }
    }
}

#[derive(Default)]
struct Watches {
    by_wd: BTreeMap<i32, Arc<Watch>>,
    last: i32,
}

/// An instance.
struct Inotify {
    queue: SpinLock<VecDeque<Event>>,
    wait: WaitQueue,
    watches: SpinLock<Watches>,
}

/// One watch of an instance.
pub struct Watch {
    wd: i32,
    mask: AtomicU32,
    owner: Weak<Inotify>,
    inode: Weak<Inode>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        WATCHES.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Inotify {
    fn queue(&self, event: Event) {
        let mut q = self.queue.lock();
        if q.back() == Some(&event) {
            return;
        }
        if q.len() >= MAX_QUEUE {
            if q.back().is_some_and(|e| e.mask != OVERFLOW) {
                q.push_back(Event {
                    wd: -1,
                    mask: OVERFLOW,
                    cookie: 0,
                    name: Vec::new(),
                });
            }
            return;
        }
        q.push_back(event);
        drop(q);
        self.wait.wake_all();
    }
    /// Ends a watch; tells the reader.
    fn remove(&self, wd: i32) -> Result<(), Errno> {
        let watch = self.watches.lock().by_wd.remove(&wd).ok_or(Errno::EINVAL)?;
        if let Some(inode) = watch.inode.upgrade() {
            let mut list = inode.watches.lock();
            list.retain(|w| !core::ptr::eq(w.as_ptr(), Arc::as_ptr(&watch)));
            inode.watched.store(!list.is_empty(), Ordering::Release);
        }
        self.queue(Event {
            wd,
            mask: IGNORED,
            cookie: 0,
            name: Vec::new(),
        });
        Ok(())
    }
}

struct InotifyFile(Arc<Inotify>);

impl FileOps for InotifyFile {
    fn read(&self, file: &File, dst: &mut IoDst<'_>, _: Option<u64>) -> SysResult {
        let me = &self.0;
        let mut done = 0;
        loop {
            let event = {
                let mut q = me.queue.lock();
                match q.front() {
                    Some(e) if e.size() > dst.remaining() => {
                        return if done != 0 { Ok(done) } else { Err(Errno::EINVAL) };
                    }
                    Some(_) => q.pop_front(),
                    None => None,
                }
            };
            match event {
                Some(e) => {
                    let padded = e.size() - 16;
                    let mut raw = Vec::with_capacity(e.size());
                    raw.extend_from_slice(&e.wd.to_le_bytes());
                    raw.extend_from_slice(&e.mask.to_le_bytes());
                    raw.extend_from_slice(&e.cookie.to_le_bytes());
                    raw.extend_from_slice(&(padded as u32).to_le_bytes());
                    raw.extend_from_slice(&e.name);
                    raw.resize(e.size(), 0);
                    done += dst.put(&raw)?;
                }
                None if done != 0 => return Ok(done),
                None if file.nonblocking() => return Err(Errno::EAGAIN),
                None => me.wait.wait_until(|| !me.queue.lock().is_empty())?,
            }
        }
    }
    fn poll(&self, _: &File, table: Option<&mut PollTable<'_>>) -> PollEvents {
        if let Some(t) = table {
            t.register(&self.0.wait);
        }
        if self.0.queue.lock().is_empty() {
            PollEvents::empty()
        } else {
            PollEvents::READABLE
        }
    }
    fn ioctl(&self, _: &File, cmd: u32, arg: usize) -> SysResult {
        use limen_linux_abi::native::ioctl::FIONREAD;
        if cmd != FIONREAD {
            return Err(Errno::ENOTTY);
        }
        let n: usize = self.0.queue.lock().iter().map(Event::size).sum();
        UserPtr::<i32>::new(arg).write(n as i32).map(|()| 0)
    }
    fn release(&self, _: &File) {
        let all = core::mem::take(&mut self.0.watches.lock().by_wd);
        for watch in all.into_values() {
            if let Some(inode) = watch.inode.upgrade() {
                let mut list = inode.watches.lock();
                list.retain(|w| !core::ptr::eq(w.as_ptr(), Arc::as_ptr(&watch)));
                inode.watched.store(!list.is_empty(), Ordering::Release);
            }
        }
    }
}

/// `inotify_init1`; the caller installs the file.
pub fn create(flags: u32) -> Arc<File> {
    let instance = Arc::new(Inotify {
        queue: SpinLock::new(VecDeque::new()),
        wait: WaitQueue::new(),
        watches: SpinLock::new(Watches::default()),
    });
    anon::file(
        "inotify",
        Arc::new(InotifyFile(instance)),
        abi::O_RDONLY | (flags & abi::O_NONBLOCK),
        FileMode::empty(),
    )
}

fn instance(file: &File) -> Result<&Arc<Inotify>, Errno> {
    Ok(&file.ops().downcast::<InotifyFile>().ok_or(Errno::EINVAL)?.0)
}

/// `EINVAL` for a mask of `inotify_add_watch` that asks for nothing, or both to add to a watch and that there is none.
pub fn check_mask(mask: u32) -> Result<(), Errno> {
    let both = MASK_CREATE | MASK_ADD;
    if mask & MASK == 0 || mask & both == both {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// `inotify_add_watch`: the watch's number.
pub fn add_watch(file: &File, path: usize, mask: u32) -> SysResult {
    use crate::fs::walk::{AT_FDCWD, Walk, lookup};
    let me = instance(file)?;
    let mut walk = if mask & DONT_FOLLOW != 0 {
        Walk::empty()
    } else {
        Walk::FOLLOW
    };
    if mask & ONLYDIR != 0 {
        walk |= Walk::DIRECTORY;
    }
    let path = crate::mm::copy::read_path(path)?;
    let at = lookup(AT_FDCWD, path.as_bytes(), walk)?;
    let inode = &at.dentry.inode;
    crate::fs::perm::permission(inode, crate::fs::perm::READ, &crate::task::current().creds())?;
    let keep = mask & (EVENTS | EXCL_UNLINK | ONESHOT);
    let mut watches = me.watches.lock();
    let mut list = inode.watches.lock();
    list.retain(|w| w.strong_count() != 0);
    let mine = list
        .iter()
        .filter_map(Weak::upgrade)
        .find(|w| core::ptr::eq(w.owner.as_ptr(), Arc::as_ptr(me)));
    if let Some(w) = mine {
        if mask & MASK_CREATE != 0 {
            return Err(Errno::EEXIST);
        }
        if mask & MASK_ADD != 0 {
            w.mask.fetch_or(keep, Ordering::Relaxed);
        } else {
            w.mask.store(keep, Ordering::Relaxed);
        }
        return Ok(w.wd as usize);
    }
    if watches.by_wd.len() >= MAX_WATCHES {
        return Err(Errno::ENOSPC);
    }
    watches.last = watches.last.checked_add(1).ok_or(Errno::ENOSPC)?;
    let wd = watches.last;
    WATCHES.fetch_add(1, Ordering::Relaxed);
    let watch = Arc::new(Watch {
        wd,
        mask: AtomicU32::new(keep),
        owner: Arc::downgrade(me),
        inode: Arc::downgrade(inode),
    });
    list.push(Arc::downgrade(&watch));
    inode.watched.store(true, Ordering::Release);
    watches.by_wd.insert(wd, watch);
    Ok(wd as usize)
}

/// `inotify_rm_watch`.
pub fn remove_watch(file: &File, wd: i32) -> Result<(), Errno> {
    instance(file)?.remove(wd)
}

/// Tells the watchers of `inode`.
#[cold]
fn notify(inode: &Inode, mask: u32, cookie: u32, name: &[u8]) {
    if !inode.watched.load(Ordering::Acquire) {
        return;
    }
    let list: Vec<Arc<Watch>> = inode.watches.lock().iter().filter_map(Weak::upgrade).collect();
    for w in list {
        let wanted = w.mask.load(Ordering::Relaxed);
        if wanted & mask & EVENTS == 0 {
            continue;
        }
        let Some(owner) = w.owner.upgrade() else { continue };
        owner.queue(Event {
            wd: w.wd,
            mask,
            cookie,
            name: name.to_vec(),
        });
        if wanted & ONESHOT != 0 {
            let _ = owner.remove(w.wd);
        }
    }
}

#[inline(always)]
fn nobody() -> bool {
    WATCHES.load(Ordering::Relaxed) == 0
}

fn dir_bit(inode: &Inode) -> u32 {
    if inode.kind == FileType::Directory {
        ISDIR
    } else {
        0
    }
}

/// Something happened to what `dentry` names: its watchers and its directory's hear of it.
fn about(dentry: &Arc<Dentry>, mask: u32) {
    let mask = mask | dir_bit(&dentry.inode);
    if let (Some(parent), name) = dentry.position()
        && !dentry.is_unlinked()
    {
        notify(&parent.inode, mask, 0, &name);
    }
    notify(&dentry.inode, mask, 0, b"");
}

/// An entry was made.
pub fn created(dir: &Inode, child: &Arc<Dentry>) {
    if !nobody() {
        notify(dir, CREATE | dir_bit(&child.inode), 0, &child.name());
    }
}
/// An entry was removed.
pub fn removed(dir: &Inode, child: &Arc<Dentry>) {
    if nobody() {
        return;
    }
    if child.inode.nlink() != 0 || child.inode.kind != FileType::Directory {
        // Losing a name is a change of attributes; losing the last user, of everything, which the inode's end reports.
        notify(&child.inode, ATTRIB, 0, b"");
    }
    notify(dir, DELETE | dir_bit(&child.inode), 0, &child.name());
}
/// An inode's attributes changed.
pub fn attrib(inode: &Inode) {
    if !nobody() {
        notify(inode, ATTRIB | dir_bit(inode), 0, b"");
    }
}
/// Attributes of what a name refers to changed.
pub fn attrib_at(dentry: &Arc<Dentry>) {
    if !nobody() {
        about(dentry, ATTRIB);
    }
}
/// Moved from one directory to another, perhaps over something.
pub fn moved(
    from: &Inode,
    old: &[u8],
    to: &Inode,
    new: &[u8],
    moved: &Arc<Dentry>,
    over: Option<&Arc<Dentry>>,
) {
    if nobody() {
        return;
    }
    let cookie = COOKIE.fetch_add(1, Ordering::Relaxed);
    let bit = dir_bit(&moved.inode);
    notify(from, MOVED_FROM | bit, cookie, old);
    notify(to, MOVED_TO | bit, cookie, new);
    notify(&moved.inode, MOVE_SELF, 0, b"");
    if let Some(over) = over {
        notify(&over.inode, ATTRIB, 0, b"");
    }
}
/// Opened.
#[inline]
pub fn opened(file: &File) {
    if !nobody() {
        about(&file.path.dentry, OPEN);
    }
}
/// Opened for execution.
pub fn opened_inode(dentry: &Arc<Dentry>) {
    if !nobody() {
        about(dentry, OPEN);
    }
}
/// Contents changed.
#[inline]
pub fn modified(file: &File) {
    if !nobody() {
        about(&file.path.dentry, MODIFY);
    }
}
/// Contents changed, seen from a name.
pub fn modified_inode(dentry: &Arc<Dentry>) {
    if !nobody() {
        about(dentry, MODIFY);
    }
}
/// Contents were read.
#[inline]
pub fn accessed(file: &File) {
    if !nobody() {
        about(&file.path.dentry, ACCESS);
    }
}
/// Closed for good.
#[inline]
pub fn file_closed(file: &File) {
    if !nobody() {
        let write = file.mode().contains(FileMode::WRITE);
        about(&file.path.dentry, if write { CLOSE_WRITE } else { CLOSE_NOWRITE });
    }
}
/// The inode is gone: called with the last reference.
pub fn inode_gone(inode: &mut Inode) {
    for w in inode.watches.get_mut().drain(..).filter_map(|w| w.upgrade()) {
        if let Some(owner) = w.owner.upgrade() {
            if w.mask.load(Ordering::Relaxed) & DELETE_SELF != 0 {
                owner.queue(Event {
                    wd: w.wd,
                    mask: DELETE_SELF,
                    cookie: 0,
                    name: Vec::new(),
                });
            }
            let _ = owner.remove(w.wd);
        }
    }
}
