//! Shared memory. A segment is a file in memory without a name; an attachment is a mapping of it, which the
//! address space tells the segment of ([`Attached`]): so forks, splits and ends of processes are counted.

mod control;
mod left;

use super::ids::Ids;
use super::ns::{Place, own_shm};
use super::object::{self, Object};
use super::perm::{self, Perm};
use super::{now, tgid};
use crate::mm::{
    Attached, FileMap, MapFlags, MappedFile, PAGE_SHIFT, PAGE_SIZE, PageCache, Prot, commit, current_space,
    implied,
};
use crate::sync::SpinLock;
use crate::task::creds::cap;
use crate::task::ns::UserRef;
use crate::task::ns::pid::Id;
use crate::task::user::LockedPages;
use crate::task::{Task, TaskFlags, current};
use alloc::boxed::Box;
use alloc::format;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering::Relaxed};
use limen_linux_abi::native::SHMLBA_PAGES;
use limen_linux_abi::{Errno, SysResult};

pub use control::{Command, Out, control};
pub use left::note as creator_moves;

/// The segments of a namespace, and how large and how many they may be.
pub struct Table {
    /// `kernel.shmmax`: the largest size of a segment, in bytes.
    pub max: AtomicUsize,
    /// `kernel.shmall`: how many pages all segments may have.
    pub all: AtomicUsize,
    /// `kernel.shmmni`: how many segments there may be.
    pub count: AtomicI32,
    /// `kernel.shm_rmid_forced`: whether segments end with their last attachment, and with their creators.
    forced: AtomicI32,
    /// Pages of all segments.
    pages: AtomicUsize,
    ids: Ids<Segment>,
    /// The user namespace that owns it.
    owner: UserRef,
}

/// Those of the initial namespace.
pub static INITIAL: Table = Table::new(None);

/// In a segment's mode: it goes with its last attachment.
const SHM_DEST: u32 = 0o1000;
/// In a segment's mode: it is locked in memory.
const SHM_LOCKED: u32 = 0o2000;

const SHM_HUGETLB: u32 = 0o4000;
const SHM_NORESERVE: u32 = 0o10000;
const SHM_RDONLY: u32 = 0o10000;
const SHM_RND: u32 = 0o20000;
const SHM_REMAP: u32 = 0o40000;
const SHM_EXEC: u32 = 0o100000;

/// What changes of a segment.
struct State {
    perm: Perm,
    attached: u64,
    atime: i64,
    dtime: i64,
    ctime: i64,
    lpid: Id,
    /// The thread that made it has ended.
    orphaned: bool,
    /// Of whoever has locked it in memory.
    locked: Option<LockedPages>,
}

/// A segment.
struct Segment {
    /// The table that has it.
    table: Place<Table>,
    id: AtomicI32,
    /// The key with which it was made; its mappings show it for ever.
    key: i32,
    /// Bytes.
    size: usize,
    cpid: Id,
    /// The thread that made it.
    creator: Weak<Task>,
    cache: Arc<PageCache>,
    /// Pages that are committed for it.
    committed: usize,
    state: SpinLock<State>,
}

impl object::State for State {
    fn perm(&mut self) -> &mut Perm {
        &mut self.perm
    }
}

impl Object for Segment {
    type State = State;
    fn id(&self) -> &AtomicI32 {
        &self.id
    }
    fn state(&self) -> &SpinLock<State> {
        &self.state
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        commit::give_back(self.committed);
        self.table.pages.fetch_sub(self.size.div_ceil(PAGE_SIZE), Relaxed);
    }
}

impl Segment {
    /// It is no longer found by its key, and goes when nobody has attached it. Its lock is held.
    fn is_to_end(&self, state: &mut State) {
        self.table.ids.forget_key(self, state.perm.key);
        state.perm.key = 0;
        state.perm.mode |= SHM_DEST;
    }

    /// Removes it if nobody will attach it again. Its lock is held; the caller drops the result without.
    fn end_if_over(&self, state: &mut State) -> Option<Arc<Self>> {
        let over = self.table.forced.load(Relaxed) != 0 || state.perm.mode & SHM_DEST != 0;
        if state.attached != 0 || !over || state.perm.gone {
            return None;
        }
        state.perm.gone = true;
        self.table.ids.remove(self, state.perm.key)
    }

    fn attach_one(&self) {
        let mut state = self.state.lock();
        state.attached += 1;
        state.atime = now();
        state.lpid = tgid();
    }

    fn detach_one(&self) {
        let gone = {
            let mut state = self.state.lock();
            state.attached -= 1;
            state.dtime = now();
            state.lpid = tgid();
            self.end_if_over(&mut state)
        };
        drop(gone);
    }

    /// The call that kept it from going away has its mapping, or failed.
    fn let_go(&self) {
        let gone = {
            let mut state = self.state.lock();
            state.attached -= 1;
            self.end_if_over(&mut state)
        };
        drop(gone);
    }
}

/// Tells a segment of its mappings. While there are any, the table has the segment.
struct Counter(Weak<Segment>);

impl Attached for Counter {
    fn mapped(&self) {
        if let Some(segment) = self.0.upgrade() {
            segment.attach_one();
        }
    }
    fn unmapped(&self) {
        if let Some(segment) = self.0.upgrade() {
            segment.detach_one();
        }
    }
}

/// What one `shmat` has mapped.
struct Attachment {
    key: i32,
    id: i32,
    cache: Arc<PageCache>,
}

impl MappedFile for Attachment {
    fn path(&self) -> Result<Vec<u8>, Errno> {
        Ok(format!("/SYSV{:08x} (deleted)", self.key).into_bytes())
    }
    fn id(&self) -> (u64, u64) {
        (1, self.id as u64)
    }
    fn punch_hole(&self, start: u64, end: u64) -> Result<(), Errno> {
        let mut pages = self.cache.writing();
        let last = pages.size().next_multiple_of(PAGE_SIZE as u64);
        pages.punch_hole(start, end.min(last).max(start));
        Ok(())
    }
    fn tells_residency(&self) -> bool {
        true
    }
    fn is_unlinked(&self) -> bool {
        true
    }
}

/// `shmget`. Errors: those of keys; `EINVAL`: the size; `ENOSPC`, `ENOMEM`; `EPERM`. Sleeps.
pub fn get(key: i32, size: usize, flags: u32) -> SysResult {
    let fits = |segment: &Segment| {
        if segment.size < size {
            Err(Errno::EINVAL)
        } else {
            Ok(())
        }
    };
    let table = own_shm();
    let limit = table.count.load(Relaxed).max(0) as usize;
    table
        .ids
        .get(key, flags, limit, fits, || make(&table, key, size, flags))
}

fn make(table: &Place<Table>, key: i32, size: usize, flags: u32) -> Result<Arc<Segment>, Errno> {
    if size == 0 || size > table.max.load(Relaxed) {
        return Err(Errno::EINVAL);
    }
    let pages = size.div_ceil(PAGE_SIZE);
    if pages << PAGE_SHIFT < size {
        return Err(Errno::ENOSPC);
    }
    let total = table.pages.load(Relaxed);
    if total
        .checked_add(pages)
        .is_none_or(|total| total > table.all.load(Relaxed))
    {
        return Err(Errno::ENOSPC);
    }
    if flags & SHM_HUGETLB != 0 {
        // There are no huge pages.
        let may = current().creds().capable(cap::IPC_LOCK);
        return Err(if may { Errno::ENOMEM } else { Errno::EPERM });
    }
    // Linux's largest file in memory.
    if size as u64 > i64::MAX as u64 - PAGE_SIZE as u64 {
        return Err(Errno::EINVAL);
    }
    let reserve = flags & SHM_NORESERVE == 0 || commit::OVERCOMMIT.load(Relaxed) == 2;
    let committed = if reserve { pages } else { 0 };
    commit::take(committed)?;
    table.pages.fetch_add(pages, Relaxed);
    let task = current();
    task.set_flags(TaskFlags::MADE_SEGMENTS);
    let perm = Perm::new(key, flags, &table.owner);
    Ok(Arc::new_cyclic(|this| Segment {
        table: table.clone(),
        id: AtomicI32::new(0),
        key,
        size,
        cpid: task.process.id(),
        creator: Arc::downgrade(&task),
        cache: PageCache::new_attached(size as u64, Box::new(Counter(this.clone()))),
        committed,
        state: SpinLock::new(State {
            perm,
            attached: 0,
            atime: 0,
            dtime: 0,
            ctime: now(),
            lpid: Id::NONE,
            orphaned: false,
            locked: None,
        }),
    }))
}

/// Where `shmat` maps: the address it was given, rounded as it asks for, or 0.
fn place(addr: usize, flags: u32) -> Result<usize, Errno> {
    let unit = SHMLBA_PAGES * PAGE_SIZE;
    let rounded = match addr % unit {
        0 => addr,
        rest if flags & SHM_RND != 0 => addr - rest,
        _ => return Err(Errno::EINVAL),
    };
    // Without an address there is nothing to replace.
    if rounded == 0 && flags & SHM_REMAP != 0 {
        return Err(Errno::EINVAL);
    }
    Ok(rounded)
}

/// `shmat`; `LOW`: of a 32-bit program's call, so that the kernel chooses an address below 2 GiB. Gives the
/// address. Errors: `EINVAL`, `EIDRM`, `EACCES`, those of `mmap`. Sleeps.
pub fn attach<const LOW: bool>(id: i32, addr: usize, flags: u32) -> SysResult {
    if id < 0 {
        return Err(Errno::EINVAL);
    }
    let at = place(addr, flags)?;
    let read_only = flags & SHM_RDONLY != 0;
    let mut prot = Prot::READ;
    let mut wanted = perm::READ;
    if !read_only {
        prot |= Prot::WRITE;
        wanted |= perm::WRITE;
    }
    if flags & SHM_EXEC != 0 {
        prot |= Prot::EXEC;
        wanted |= 0o111;
    }
    let segment = own_shm().ids.find(id)?;
    segment.with(wanted, |state| {
        state.attached += 1;
        Ok(())
    })?;
    let result = map::<LOW>(&segment, addr != 0, at, prot, flags);
    segment.let_go();
    result
}

fn map<const LOW: bool>(segment: &Arc<Segment>, fixed: bool, at: usize, prot: Prot, flags: u32) -> SysResult {
    let space = current_space().ok_or(Errno::EINVAL)?;
    let mut map_flags = MapFlags::SHARED;
    if LOW {
        map_flags |= MapFlags::LOW_2G;
    }
    if fixed {
        let replaces = flags & SHM_REMAP != 0;
        if !replaces && at.checked_add(segment.size).is_none() {
            return Err(Errno::EINVAL);
        }
        map_flags |= if replaces {
            MapFlags::FIXED
        } else {
            MapFlags::FIXED_NOREPLACE
        };
    }
    let prot = prot | implied(prot);
    let mut may = Prot::READ | Prot::EXEC;
    may.set(Prot::WRITE, prot.contains(Prot::WRITE));
    let file: Arc<dyn MappedFile> = Arc::new(Attachment {
        key: segment.key,
        id: segment.id.load(Relaxed),
        cache: segment.cache.clone(),
    });
    let map = FileMap {
        cache: Some(segment.cache.clone()),
        file: Some(file),
        offset: 0,
        may,
    };
    match space.mmap(at, segment.size, prot, map_flags, Some(map)) {
        Err(Errno::EEXIST) => Err(Errno::EINVAL),
        result => result,
    }
}

/// `shmdt`. `EINVAL`: nothing was attached there. Sleeps.
pub fn detach(addr: usize) -> SysResult {
    current_space().ok_or(Errno::EINVAL)?.detach(addr)
}

/// The running thread ends, or leaves its namespace for a new one: with `kernel.shm_rmid_forced` what it made
/// goes with it, in whatever namespaces it was, unless it is attached.
pub fn creator_ends(task: &Task) {
    let leave = |table: &Table| {
        table.end_unused(|segment, state| {
            state.orphaned |= segment.creator.as_ptr() == &raw const *task;
            state.orphaned
        });
    };
    leave(&own_shm());
    left::forget(task, leave);
}

impl Table {
    /// Without segments.
    pub const fn new(owner: UserRef) -> Self {
        Self {
            max: AtomicUsize::new(usize::MAX - (1 << 24)),
            all: AtomicUsize::new(usize::MAX - (1 << 24)),
            count: AtomicI32::new(4096),
            forced: AtomicI32::new(0),
            pages: AtomicUsize::new(0),
            ids: Ids::new(),
            owner,
        }
    }

    /// `kernel.shm_rmid_forced`.
    pub fn forced(&self) -> i32 {
        self.forced.load(Relaxed)
    }

    /// Sets `kernel.shm_rmid_forced`. Segments that nobody has attached, and whose creators have ended, go.
    pub fn force(&self, value: i32) {
        self.forced.store(value, Relaxed);
        if value != 0 {
            // A thread that ends marks its segments under their locks, and then looks at the setting, too.
            self.end_unused(|_, state| state.orphaned);
        }
    }

    /// Removes the segments that `which` says, if nobody has attached them and the setting wants that.
    fn end_unused(&self, which: impl Fn(&Segment, &mut State) -> bool) {
        self.ids.each(|segment| {
            let gone = {
                let mut state = segment.state.lock();
                if which(segment, &mut state) {
                    segment.end_if_over(&mut state)
                } else {
                    None
                }
            };
            drop(gone);
        });
    }

    /// The namespace ends. Segments that are attached go with their last attachments.
    pub(super) fn end(&self) {
        self.ids.each(|segment| {
            let gone = {
                let mut state = segment.state.lock();
                segment.is_to_end(&mut state);
                segment.end_if_over(&mut state)
            };
            drop(gone);
        });
    }
}
