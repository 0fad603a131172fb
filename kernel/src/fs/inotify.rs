//! inotify: tells programs what happens to files and in directories. Here are the instances with their
//! queues, and the watches; `told` has the functions that say what happens.

use crate::fs::anon;
use crate::fs::fasync::{Async, Band};
use crate::fs::file::{File, FileMode, FileOps};
use crate::fs::inode::Inode;
use crate::fs::io::IoDst;
use crate::fs::poll::{PollEvents, PollTable};
use crate::fs::pseudo::Text;
use crate::mm::reserve::room_behind;
use crate::mm::user::UserPtr;
use crate::rcu::Shared;
use crate::sched::WaitQueue;
use crate::sync::SpinLock;
use crate::task::user::{self, Account};
use alloc::collections::{BTreeMap, LinkedList};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering};
use limen_linux_abi::SysResult;
use limen_linux_abi::{Errno, raw::general as abi};
use limen_range_tree::{Node, NodeBox, Range, RangeTree};

mod told;

pub use told::{
    accessed, all_unmounted, attrib, attrib_at, audit_hears, created, ended, exchanged, file_closed,
    inode_gone, modified, modified_inode, moved, name_gone, name_made, opened, opened_inode, removed,
    unmounted, was_read, was_written,
};

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
const UNMOUNT: u32 = 0x2000;
const OVERFLOW: u32 = 0x4000;
const IGNORED: u32 = 0x8000;
const ONLYDIR: u32 = 1 << 24;
const DONT_FOLLOW: u32 = 1 << 25;
const EXCL_UNLINK: u32 = 1 << 26;
const MASK_CREATE: u32 = 1 << 28;
const MASK_ADD: u32 = 1 << 29;
const ISDIR: u32 = 1 << 30;
const ONESHOT: u32 = 1 << 31;
/// All kinds of events.
const EVENTS: u32 = 0xfff;
/// All bits of a mask. At least one must be set; other bits are ignored.
const MASK: u32 =
    EVENTS | 0xe000 | ONLYDIR | DONT_FOLLOW | EXCL_UNLINK | MASK_CREATE | MASK_ADD | ISDIR | ONESHOT;
/// How long the queue of a new instance may be (`fs.inotify.max_queued_events`).
pub static MAX_QUEUE: AtomicI32 = AtomicI32::new(16384);
/// How many instances a user may have.
pub static MAX_INSTANCES: AtomicUsize = AtomicUsize::new(128);
/// How many watches a user may have.
pub static MAX_WATCHES: AtomicUsize = AtomicUsize::new(LEAST_WATCHES);

/// The limit of watches on the smallest machine, and on the largest.
const LEAST_WATCHES: usize = 8192;
const MOST_WATCHES: usize = 1 << 20;

/// Sets the limit of watches so that they take at most 1/100 of memory.
pub fn init() {
    /// About how many bytes a watch takes, with the inodes that it keeps.
    const COST: usize = 1280;
    let bytes = (crate::mm::total_pages() / 100).saturating_mul(crate::mm::PAGE_SIZE);
    MAX_WATCHES.store(
        (bytes / COST).clamp(LEAST_WATCHES, MOST_WATCHES),
        Ordering::Relaxed,
    );
}

/// How many watches there are.
static WATCHES: AtomicUsize = AtomicUsize::new(0);

struct Event {
    wd: i32,
    mask: u32,
    cookie: u32,
    name: Vec<u8>,
}

impl Event {
    /// The size in bytes as it is read: the header and the padded name.
    fn size(&self) -> usize {
        16 + if self.name.is_empty() {
            0
        } else {
            (self.name.len() + 1).next_multiple_of(16)
        }
    }
    /// Whether `next`, the event that follows, adds nothing new. Cookies are not compared: of two files that
    /// are moved to the same name only the first is reported, as on Linux.
    fn says(&self, next: &Self) -> bool {
        self.mask & IGNORED == 0 && (self.wd, self.mask) == (next.wd, next.mask) && self.name == next.name
    }
}

/// The events to be read.
#[derive(Default)]
struct Queue {
    /// A linked list, since it grows where sleeping is not allowed.
    events: LinkedList<Event>,
    /// Whether the queue already ends with an event that says that others were lost.
    overflown: bool,
}

impl Queue {
    /// Adds an event to at most `most` others. Returns whether there is more to read than before.
    fn add(&mut self, event: Event, most: usize) -> bool {
        if self.events.len() < most {
            if self.events.back().is_some_and(|last| last.says(&event)) {
                return false;
            }
            self.events.push_back(event);
            return true;
        }
        if self.overflown {
            return false;
        }
        self.overflown = true;
        self.events.push_back(Event {
            wd: -1,
            mask: OVERFLOW,
            cookie: 0,
            name: Vec::new(),
        });
        true
    }
    fn take(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        self.overflown &= event.mask != OVERFLOW;
        Some(event)
    }
}

/// The watched inodes of a file system that makes its inodes up. Such an inode is kept as long as it is
/// watched, and stands for all others with the same number.
pub struct MadeUp {
    any: AtomicBool,
    by_number: SpinLock<RangeTree<(), Shared<Inode>>>,
}

impl MadeUp {
    /// No inodes.
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub const fn new() -> Self {
        Self {
            any: AtomicBool::new(false),
            by_number: SpinLock::new(RangeTree::new()),
        }
    }
    fn find(&self, number: u64) -> Option<Shared<Inode>> {
        let found = self.by_number.lock();
        found.get((number, ())).map(|found| found.value.clone())
    }
    /// The first inode with a number above `after`.
    fn behind(&self, after: Option<u64>) -> Option<Shared<Inode>> {
        let tree = self.by_number.lock();
        let found = match after {
            None => tree.first(),
            Some(after) => tree.behind((after, ())),
        };
        found.map(|found| found.value.clone())
    }
}

#[derive(Default)]
struct Watches {
    by_wd: BTreeMap<i32, Arc<Watch>>,
    last: i32,
}

/// An instance.
struct Inotify {
    queue: SpinLock<Queue>,
    wait: WaitQueue,
    owners: Async,
    watches: SpinLock<Watches>,
    /// How long its queue may be.
    most: usize,
    /// The account of the user who made it.
    user: Arc<Account>,
}

impl Drop for Inotify {
    fn drop(&mut self) {
        self.user.inotify_instances.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The watches of an inode.
#[derive(Default)]
pub struct Watchers {
    /// Each with a number, in ascending order.
    list: Vec<(u64, Weak<Watch>)>,
    last: u64,
}

impl Watchers {
    /// The first one behind number `after`, with its own.
    fn behind(&self, after: u64) -> Option<(u64, Arc<Watch>)> {
        let from = self.list.partition_point(|(number, _)| *number <= after);
        let mut rest = self.list[from..].iter();
        rest.find_map(|(number, watch)| Some((*number, watch.upgrade()?)))
    }
    /// The one of an instance.
    fn of(&self, owner: &Arc<Inotify>) -> Option<Arc<Watch>> {
        let mut all = self.list.iter().filter_map(|(_, watch)| watch.upgrade());
        all.find(|watch| core::ptr::eq(watch.owner.as_ptr(), Arc::as_ptr(owner)))
    }
    /// One more, for which there is room.
    fn add(&mut self, watch: &Arc<Watch>) {
        self.last += 1;
        self.list.push((self.last, Arc::downgrade(watch)));
    }
}

/// A watch of an instance.
pub struct Watch {
    wd: i32,
    mask: AtomicU32,
    owner: Weak<Inotify>,
    user: Arc<Account>,
    inode: crate::rcu::Weak<Inode>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        WATCHES.fetch_sub(1, Ordering::Relaxed);
        self.user.inotify_watches.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Watch {
    /// Removes it from its inode.
    fn leave(&self) {
        let Some(inode) = self.inode.upgrade() else { return };
        let standing = &inode.sb.watched;
        let mut made_up = inode.ops.made_up().then(|| standing.by_number.lock());
        let mut list = inode.watches.lock();
        list.list.retain(|(_, w)| !core::ptr::eq(w.as_ptr(), self));
        let watched = !list.list.is_empty();
        inode.watched.store(watched, Ordering::Release);
        drop(list);
        let gone = made_up.as_mut().filter(|_| !watched).and_then(|tree| {
            let gone = tree.remove((inode.ino, ()));
            standing.any.store(!tree.is_empty(), Ordering::Release);
            gone
        });
        drop(made_up);
        drop(gone);
    }
}

impl Inotify {
    fn queue(&self, event: Event) {
        let news = self.queue.lock().add(event, self.most);
        if news {
            self.tell();
        }
    }
    /// Tells readers that there is an event.
    fn tell(&self) {
        self.wait.wake_one();
        self.owners.tell(Band::In);
    }
    /// Removes a watch, and tells the reader.
    fn remove(&self, wd: i32) -> Result<(), Errno> {
        let watch = self.watches.lock().by_wd.remove(&wd).ok_or(Errno::EINVAL)?;
        watch.leave();
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
                match q.events.front() {
                    Some(e) if e.size() > dst.remaining() => {
                        return if done != 0 { Ok(done) } else { Err(Errno::EINVAL) };
                    }
                    _ => q.take(),
                }
            };
            match event {
                Some(e) => {
                    let padded = e.size() - 16;
                    let mut raw = Vec::with_capacity(e.size());
                    raw.extend_from_slice(&e.wd.to_ne_bytes());
                    raw.extend_from_slice(&e.mask.to_ne_bytes());
                    raw.extend_from_slice(&e.cookie.to_ne_bytes());
                    raw.extend_from_slice(&(padded as u32).to_ne_bytes());
                    raw.extend_from_slice(&e.name);
                    raw.resize(e.size(), 0);
                    done += dst.put(&raw)?;
                }
                None if done != 0 => return Ok(done),
                None if file.nonblocking() => return Err(Errno::EAGAIN),
                None => me.wait.wait_until(|| !me.queue.lock().events.is_empty())?,
            }
        }
    }
    fn poll(&self, _: &File, table: Option<&mut PollTable<'_>>) -> PollEvents {
        if let Some(t) = table {
            t.register(&self.0.wait);
        }
        if self.0.queue.lock().events.is_empty() {
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
        let n: usize = self.0.queue.lock().events.iter().map(Event::size).sum();
        UserPtr::<i32>::new(arg).write(n as i32).map(|()| 0)
    }
    fn asyncs(&self, with: &mut dyn FnMut(&Async)) -> bool {
        with(&self.0.owners);
        true
    }
    fn show_fdinfo(&self, _: &File, out: &mut Text) {
        let mut before = i32::MAX;
        // One at a time, as there may be very many.
        let mut next = || {
            let watches = self.0.watches.lock();
            let (wd, watch) = watches.by_wd.range(..before).next_back()?;
            before = *wd;
            Some(watch.clone())
        };
        while let Some(watch) = next() {
            if crate::task::current().fatal_signal_pending() {
                return;
            }
            let Some(inode) = watch.inode.upgrade() else {
                continue;
            };
            // The file handle: number and generation, with which a file could be found again if there were
            // `open_by_handle_at`.
            let number = inode.ino.swap_bytes();
            let _ = writeln!(
                out,
                "inotify wd:{:x} ino:{:x} sdev:{:x} mask:{:x} ignored_mask:0 fhandle-bytes:c fhandle-type:1 \
                 f_handle:{:08x}{number:016x}",
                watch.wd,
                inode.ino,
                inode.sb.dev.raw(),
                watch.mask.load(Ordering::Relaxed),
                0
            );
        }
    }
    fn release(&self, _: &File) {
        let all = core::mem::take(&mut self.0.watches.lock().by_wd);
        for watch in all.into_values() {
            watch.leave();
        }
    }
}

/// `inotify_init1`; the caller installs the file. `EMFILE`, `ENFILE`.
pub fn create(flags: u32) -> Result<Arc<File>, Errno> {
    let user = user::outer_account();
    if !user::take_one(&user.inotify_instances, MAX_INSTANCES.load(Ordering::Relaxed)) {
        return Err(Errno::EMFILE);
    }
    let instance = Arc::new(Inotify {
        most: MAX_QUEUE.load(Ordering::Relaxed) as usize,
        user,
        queue: SpinLock::new(Queue::default()),
        wait: WaitQueue::new(),
        owners: Async::new(),
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

/// `EINVAL`: the mask of `inotify_add_watch` asks for nothing, or both for adding to a watch (`IN_MASK_ADD`)
/// and for there being none (`IN_MASK_CREATE`).
pub fn check_mask(mask: u32) -> Result<(), Errno> {
    let both = MASK_CREATE | MASK_ADD;
    if mask & MASK == 0 || mask & both == both {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// `inotify_add_watch`. Returns the watch's number.
pub fn add_watch(file: &File, path: usize, mask: u32) -> SysResult {
    use crate::fs::lookup::{AT_FDCWD, lookup};
    use crate::fs::walk::Walk;
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
    let named = &at.dentry.inode;
    crate::fs::perm::permission(named, crate::fs::perm::READ, &crate::task::current().creds())?;
    let mut node = match named.ops.made_up() {
        true => Some(new_node(named)?),
        false => None,
    };
    loop {
        let full = match put_watch(me, named, &mut node, mask)? {
            Placed::At(wd) => return Ok(wd as usize),
            Placed::Full(inode) => inode,
        };
        drop(room_behind(|| full.watches.lock(), |all| &mut all.list, 1)?);
    }
}

/// What came of a watch.
enum Placed {
    /// It has this number.
    At(i32),
    /// There is no room for it among those of this inode.
    Full(Shared<Inode>),
}

/// The watch of an instance on `named`, or on what stands for it, changed or made with `node`.
fn put_watch(
    me: &Arc<Inotify>,
    named: &Shared<Inode>,
    node: &mut Option<NodeBox<(), Shared<Inode>>>,
    mask: u32,
) -> Result<Placed, Errno> {
    let keep = mask & (EVENTS | EXCL_UNLINK | ONESHOT);
    let standing = &named.sb.watched;
    let mut watches = me.watches.lock();
    let mut stand_ins = named.ops.made_up().then(|| standing.by_number.lock());
    let known = stand_ins
        .as_ref()
        .and_then(|tree| tree.get((named.ino, ())).map(|known| known.value.clone()));
    let inode = known.as_ref().unwrap_or(named);
    let mut list = inode.watches.lock();
    list.list.retain(|(_, w)| w.strong_count() != 0);
    if let Some(w) = list.of(me) {
        if mask & MASK_CREATE != 0 {
            return Err(Errno::EEXIST);
        }
        if mask & MASK_ADD != 0 {
            w.mask.fetch_or(keep, Ordering::Relaxed);
        } else {
            w.mask.store(keep, Ordering::Relaxed);
        }
        return Ok(Placed::At(w.wd));
    }
    if list.list.len() == list.list.capacity() {
        return Ok(Placed::Full(inode.clone()));
    }
    let wd = watches.last.checked_add(1).ok_or(Errno::ENOSPC)?;
    if !user::take_one(&me.user.inotify_watches, MAX_WATCHES.load(Ordering::Relaxed)) {
        return Err(Errno::ENOSPC);
    }
    watches.last = wd;
    WATCHES.fetch_add(1, Ordering::Relaxed);
    let watch = Arc::new(Watch {
        wd,
        mask: AtomicU32::new(keep),
        owner: Arc::downgrade(me),
        user: me.user.clone(),
        inode: Shared::downgrade(inode),
    });
    list.add(&watch);
    inode.watched.store(true, Ordering::Release);
    if known.is_none()
        && let (Some(tree), Some(node)) = (&mut stand_ins, node.take())
    {
        tree.insert(node);
        standing.any.store(true, Ordering::Release);
    }
    watches.by_wd.insert(wd, watch);
    Ok(Placed::At(wd))
}

/// A node for [`MadeUp`]. `ENOMEM`.
fn new_node(inode: &Shared<Inode>) -> Result<NodeBox<(), Shared<Inode>>, Errno> {
    let range = Range {
        first: inode.ino,
        last: inode.ino,
        key: (),
        value: inode.clone(),
    };
    Node::new(range).ok_or(Errno::ENOMEM)
}

/// `inotify_rm_watch`.
pub fn remove_watch(file: &File, wd: i32) -> Result<(), Errno> {
    instance(file)?.remove(wd)
}
