//! Advisory locks: `flock`, POSIX record locks (per process), and open-file-description record locks.
//!
//! The locks of an inode are in trees behind one short spinlock. A node is allocated before that is taken
//! and freed after it is released: a program may have as many locks as there is memory. A thread that has to
//! wait sleeps on the inode's queue and tries again after each change. Meanwhile the lock that it waits for
//! is in a tree beside the locks, for `/proc/locks`; another tree has the leases ([`leases`]). `/proc/locks`
//! finds the locks of all inodes in a few trees ([`ALL`]), to which an inode's are added when it is locked
//! for the first time.

pub mod leases;

use self::leases::Lease;
use crate::fs::fdtable::FdTable;
use crate::fs::file::{File, FileMode};
use crate::fs::inode::{Dev, Inode};
use crate::fs::pseudo::Text;
use crate::mm::reserve::room;
use crate::sched::WaitQueue;
use crate::sync::SpinLock;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt::Write;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use limen_linux_abi::{Errno, LockRequest};
use limen_range_tree::{Key, Node, NodeBox, Range, RangeTree, Spare};

/// The owner of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    /// A descriptor table (a process), by its address.
    Table(usize),
    /// An open file description, by its address.
    File(usize),
}

impl Key for Owner {}

/// A locked range, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    owner: Owner,
    first: u64,
    last: u64,
    how: How,
}

/// The properties of a locked range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct How {
    /// The process that locked it. For `F_GETLK`.
    pid: i32,
    /// The open file through which it was locked, by its address.
    file: usize,
    write: bool,
}

impl Record {
    fn of(range: &Range<Owner, How>) -> Self {
        Self {
            owner: range.key,
            first: range.first,
            last: range.last,
            how: range.value,
        }
    }
    fn range(&self) -> Range<Owner, How> {
        Range {
            first: self.first,
            last: self.last,
            key: self.owner,
            value: self.how,
        }
    }
}

/// A `flock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Whole {
    exclusive: bool,
    /// The process that locked it.
    pid: i32,
}

/// A node for a `flock`.
type WholeNode = NodeBox<usize, Whole>;

/// A lock of either kind, had or waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lock {
    /// A `flock`, by the open file at this address.
    Whole(usize, Whole),
    Range(Record),
    Lease(leases::Shown),
}

impl Lock {
    fn conflicts(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Lease(a), Self::Lease(b)) => a.write || b.write,
            (Self::Whole(file, a), Self::Whole(other, b)) => file != other && (a.exclusive || b.exclusive),
            (Self::Range(a), Self::Range(b)) => {
                a.owner != b.owner && (a.how.write || b.how.write) && a.first <= b.last && b.first <= a.last
            }
            _ => false,
        }
    }
}

struct Lists {
    /// `flock` locks, by open file, all at 0. If one is exclusive, it is the only one.
    whole: RangeTree<usize, Whole>,
    ranges: RangeTree<Owner, How>,
    /// By open file, all at 0.
    leases: RangeTree<usize, Lease>,
    /// What threads sleep for, by when they went to sleep.
    sleepers: RangeTree<(), Lock>,
    /// How many have gone to sleep.
    sleeps: u64,
}

/// The locks of an inode.
pub struct FileLocks {
    /// Whose they are.
    dev: Dev,
    ino: u64,
    /// Where they are in [`ALL`].
    number: u64,
    lists: SpinLock<Lists>,
    wait: WaitQueue,
    /// Counts releases; sleepers compare it.
    released: AtomicU64,
    /// How many threads in [`WAITING`] wait for these locks. Raised under `lists`.
    waiting: AtomicUsize,
}

/// A thread that waits for a record lock.
struct Waiting {
    /// The address of the locks for which it waits.
    locks: usize,
    /// The lock that it wants.
    want: Record,
    /// The owner of a lock that conflicts, if there still is one.
    blocker: Option<Owner>,
}

/// The waiting threads, by owner and thread, all at 0.
type Waiters = RangeTree<(Owner, i32), Waiting>;

/// Which owner waits for which, for `EDEADLK`. Locked after the `lists` of the locks that are waited for, and
/// correct as long as these are locked.
static WAITING: SpinLock<Waiters> = SpinLock::new(RangeTree::new());

/// How many lists there are of all files' locks: that is how many processors can put something in, or take it
/// out, at once.
const PARTS: usize = 64;

/// The locks of all files that were ever locked, by their numbers.
static ALL: [SpinLock<RangeTree<(), Weak<FileLocks>>>; PARTS] =
    [const { SpinLock::new(RangeTree::new()) }; PARTS];

/// The owner for which a thread of `owner` waits.
fn waits_for(waiting: &Waiters, owner: Owner) -> Option<Owner> {
    let mut from = Some(i32::MIN);
    while let Some(tid) = from {
        let found = waiting.from((0, (owner, tid))).filter(|w| w.key.0 == owner)?;
        if found.value.blocker.is_some() {
            return found.value.blocker;
        }
        from = found.key.1.checked_add(1);
    }
    None
}

const LOCK_SH: u32 = 1;
const LOCK_EX: u32 = 2;
const LOCK_NB: u32 = 4;
const LOCK_UN: u32 = 8;
const F_RDLCK: i16 = 0;
const F_WRLCK: i16 = 1;
const F_UNLCK: i16 = 2;
const END: u64 = i64::MAX as u64;

fn id(file: &File) -> usize {
    core::ptr::from_ref(file).addr()
}

/// The locks of a file, which has some from now on. `ENOMEM`.
fn of(inode: &Inode) -> Result<Arc<FileLocks>, Errno> {
    if let Some(locks) = inode.locks.get() {
        return Ok(locks.clone());
    }
    let mut listed = Node::new(Range {
        first: 0,
        last: 0,
        key: (),
        value: Weak::new(),
    })
    .ok_or(Errno::ENOMEM)?;
    // Its address is its number as long as it is there.
    let new = Arc::new_cyclic(|me: &Weak<FileLocks>| FileLocks {
        dev: inode.sb.dev,
        ino: inode.ino,
        number: me.as_ptr().addr() as u64,
        lists: SpinLock::new(Lists {
            whole: RangeTree::new(),
            ranges: RangeTree::new(),
            leases: RangeTree::new(),
            sleepers: RangeTree::new(),
            sleeps: 0,
        }),
        wait: WaitQueue::new(),
        released: AtomicU64::new(0),
        waiting: AtomicUsize::new(0),
    });
    let range = listed.range_mut();
    (range.first, range.last) = (new.number, new.number);
    range.value = Arc::downgrade(&new);
    part(new.number).lock().insert(listed);
    // If another thread was faster, ours goes and leaves the list.
    Ok(inode.locks.get_or_init(|| new.clone()).clone())
}

/// The list of [`ALL`] for locks with that number.
fn part(number: u64) -> &'static SpinLock<RangeTree<(), Weak<FileLocks>>> {
    // The uppermost bits of that product depend on all of the number's.
    &ALL[(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize % PARTS]
}

impl Drop for FileLocks {
    fn drop(&mut self) {
        let gone = part(self.number).lock().remove((self.number, ()));
        drop(gone);
    }
}

impl FileLocks {
    /// Sleeps for `what` until something has been given up since that had happened `seen` times, or it is
    /// `deadline`. Meanwhile `/proc/locks` shows that it is waited for. `no_memory`: the error if there is
    /// none for that.
    fn sleep(&self, seen: u64, what: Lock, deadline: u64, no_memory: Errno) -> Result<(), Errno> {
        let mut node = Node::new(Range {
            first: 0,
            last: 0,
            key: (),
            value: what,
        })
        .ok_or(no_memory)?;
        let number = {
            let mut lists = self.lists.lock();
            lists.sleeps += 1;
            let range = node.range_mut();
            (range.first, range.last) = (lists.sleeps, lists.sleeps);
            lists.sleepers.insert(node);
            lists.sleeps
        };
        let result = self
            .wait
            .wait_until_deadline(deadline, || self.released.load(Ordering::Acquire) != seen);
        let gone = self.lists.lock().sleepers.remove((number, ()));
        drop(gone);
        result.map(drop)
    }

    fn changed(&self) {
        self.released.fetch_add(1, Ordering::AcqRel);
        self.wait.wake_all();
    }

    /// Gives `who` the lock, using up the node. `Err`: a conflicting lock is in the way; the count of
    /// releases, read under the lock that a release takes first, so that no later release is missed. As on
    /// Linux, changing the kind of a lock gives up the old one first, even if the new one cannot be had.
    fn try_flock(&self, who: usize, exclusive: bool, node: &mut Option<WholeNode>) -> Result<(), u64> {
        let place = (0, who);
        let mut l = self.lists.lock();
        if l.whole.get(place).is_some_and(|r| r.value.exclusive == exclusive) {
            return Ok(());
        }
        let gone = l.whole.remove(place);
        let other = l.whole.from((0, 0)).map(|r| r.value.exclusive);
        let result = if other.is_some_and(|x| x || exclusive) {
            Err(self.released.load(Ordering::Acquire))
        } else {
            if let Some(node) = node.take() {
                l.whole.insert(node);
            }
            Ok(())
        };
        drop(l);
        if gone.is_some() {
            self.changed();
        }
        result
    }

    fn drop_flock(&self, who: usize) {
        let gone = self.lists.lock().whole.remove((0, who));
        if gone.is_some() {
            self.changed();
        }
    }

    fn drop_ranges(&self, owner: Owner) {
        let mut gone = Spare::new();
        let mut l = self.lists.lock();
        l.ranges.remove_all(|r| r.key == owner, &mut gone);
        if gone.is_empty() {
            return;
        }
        self.given_up(&l, owner);
        drop(l);
        self.changed();
    }

    /// `owner` may have released ranges. A thread that waited for one of them now waits for another owner
    /// that is in the way, or for none: noted here, as it takes a while until the thread runs and looks
    /// itself.
    fn given_up(&self, lists: &Lists, owner: Owner) {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return;
        }
        let here = core::ptr::from_ref(self).addr();
        WAITING.lock().for_each_mut(|w| {
            if w.locks == here && w.blocker == Some(owner) {
                w.blocker = lists.conflict(&w.want).map(|r| r.owner);
            }
        });
    }
}

impl Lists {
    fn conflict(&self, want: &Record) -> Option<Record> {
        let in_the_way = |r: &Range<Owner, How>| r.key != want.owner && (r.value.write || want.how.write);
        let found = self.ranges.find((want.first, want.last), None, in_the_way);
        found.map(Record::of)
    }

    /// Makes `want` the lock that its owner has in this range; with `unlock`, none. Nodes come from `spare`,
    /// and unneeded ones go there. `ENOLCK`: there are too few nodes.
    fn apply(&mut self, want: &Record, unlock: bool, spare: &mut Spare<Owner, How>) -> Result<(), Errno> {
        let own = |r: &Range<Owner, How>| r.key == want.owner;
        let (before, behind) = (want.first.saturating_sub(1), want.last + 1);
        let around = |r: &Range<Owner, How>| {
            own(r)
                && r.first < want.first
                && r.last > want.last
                && (unlock || r.value.write != want.how.write)
        };
        let splits = self.ranges.find((want.first, want.last), None, around).is_some();
        if spare.len() < usize::from(!unlock) + usize::from(splits) {
            return Err(Errno::ENOLCK);
        }
        let mut merged = *want;
        let mut after = None;
        while let Some(found) = self.ranges.find((before, behind), after, own) {
            let (place, r) = (found.place(), Record::of(found));
            after = Some(place);
            let same = !unlock && r.how.write == want.how.write;
            if !same && (r.first > want.last || r.last < want.first) {
                continue;
            }
            if let Some(node) = self.ranges.remove(place) {
                spare.push(node);
            }
            if same {
                merged.first = merged.first.min(r.first);
                merged.last = merged.last.max(r.last);
                continue;
            }
            if r.first < want.first {
                let last = want.first - 1;
                self.put(&Record { last, ..r }, spare);
            }
            if r.last > want.last {
                let first = want.last + 1;
                self.put(&Record { first, ..r }, spare);
            }
        }
        if !unlock {
            self.put(&merged, spare);
        }
        Ok(())
    }

    fn put(&mut self, record: &Record, spare: &mut Spare<Owner, How>) {
        if let Some(mut node) = spare.pop() {
            *node.range_mut() = record.range();
            self.ranges.insert(node);
        }
    }
}

/// `EINVAL` if `flock` does not know `operation`.
pub fn check_operation(operation: u32) -> Result<(), Errno> {
    match operation & !LOCK_NB {
        LOCK_UN | LOCK_SH | LOCK_EX => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

/// `flock`.
pub fn flock(file: &Arc<File>, operation: u32) -> Result<(), Errno> {
    let locks = of(file.inode())?;
    let who = id(file);
    match operation & !LOCK_NB {
        LOCK_UN => locks.drop_flock(who),
        op @ (LOCK_SH | LOCK_EX) => {
            let exclusive = op == LOCK_EX;
            let value = Whole {
                exclusive,
                pid: crate::task::current().tgid(),
            };
            let new = Range {
                first: 0,
                last: 0,
                key: who,
                value,
            };
            let mut node = Some(Node::new(new).ok_or(Errno::ENOMEM)?);
            while let Err(seen) = locks.try_flock(who, exclusive, &mut node) {
                if operation & LOCK_NB != 0 {
                    return Err(Errno::EAGAIN);
                }
                locks.sleep(seen, Lock::Whole(who, value), u64::MAX, Errno::ENOMEM)?;
            }
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}

/// Decodes `struct flock` into kind and range. `EINVAL`, also for a lock of an open file description that
/// names a process.
fn decode(file: &File, lock: &LockRequest, ofd: bool) -> Result<(i16, u64, u64), Errno> {
    if ofd && lock.pid != 0 {
        return Err(Errno::EINVAL);
    }
    let base = match lock.whence {
        0 => 0,
        1 => *file.pos.lock() as i64,
        2 => file.inode().size() as i64,
        _ => return Err(Errno::EINVAL),
    };
    let (start, len) = (lock.start, lock.len);
    let start = base.checked_add(start).ok_or(Errno::EOVERFLOW)?;
    if start < 0 {
        return Err(Errno::EINVAL);
    }
    let (first, last) = match len {
        0 => (start as u64, END),
        1.. => (
            start as u64,
            (start as u64)
                .checked_add(len as u64 - 1)
                .filter(|e| *e <= END)
                .ok_or(Errno::EOVERFLOW)?,
        ),
        _ => {
            let first = start.checked_add(len).filter(|f| *f >= 0).ok_or(Errno::EINVAL)?;
            (first as u64, start as u64 - 1)
        }
    };
    Ok((lock.kind, first, last))
}

fn owner(file: &File, table: &FdTable, ofd: bool) -> (Owner, i32) {
    if ofd {
        (Owner::File(id(file)), -1)
    } else {
        (
            Owner::Table(core::ptr::from_ref(table).addr()),
            crate::task::current().tgid(),
        )
    }
}

/// `F_GETLK`, `F_OFD_GETLK`. `lock` becomes the answer.
pub fn get(file: &Arc<File>, table: &Arc<FdTable>, lock: &mut LockRequest, ofd: bool) -> Result<(), Errno> {
    let (kind, first, last) = decode(file, lock, ofd)?;
    let write = match kind {
        F_RDLCK => false,
        F_WRLCK => true,
        _ => return Err(Errno::EINVAL),
    };
    let (owner, pid) = owner(file, table, ofd);
    let want = Record {
        owner,
        first,
        last,
        how: How {
            pid,
            file: id(file),
            write,
        },
    };
    let locks = file.inode().locks.get();
    match locks.and_then(|locks| locks.lists.lock().conflict(&want)) {
        None => lock.kind = F_UNLCK,
        Some(r) => {
            *lock = LockRequest {
                kind: if r.how.write { F_WRLCK } else { F_RDLCK },
                whence: 0,
                start: r.first as i64,
                len: if r.last == END {
                    0
                } else {
                    (r.last - r.first + 1) as i64
                },
                pid: r.how.pid,
            }
        }
    }
    Ok(())
}

/// `F_SETLK`, `F_SETLKW`, `F_OFD_SETLK`, `F_OFD_SETLKW`.
pub fn set(
    file: &Arc<File>,
    table: &Arc<FdTable>,
    lock: &LockRequest,
    ofd: bool,
    wait: bool,
) -> Result<(), Errno> {
    let (kind, first, last) = decode(file, lock, ofd)?;
    let needed = match kind {
        F_RDLCK => FileMode::READ,
        F_WRLCK => FileMode::WRITE,
        F_UNLCK => FileMode::empty(),
        _ => return Err(Errno::EINVAL),
    };
    if !file.mode().contains(needed) {
        return Err(Errno::EBADF);
    }
    let (owner, pid) = owner(file, table, ofd);
    let (unlock, write) = (kind == F_UNLCK, kind == F_WRLCK);
    let want = Record {
        owner,
        first,
        last,
        how: How {
            pid,
            file: id(file),
            write,
        },
    };
    if unlock && file.inode().locks.get().is_none() {
        return Ok(());
    }
    let locks = of(file.inode())?;
    // As many nodes as can be needed. If memory is short, fewer may be enough.
    let mut spare = Spare::new();
    let most = match (unlock, first, last) {
        (true, 0, END) => 0,
        (true, ..) => 1,
        _ => 2,
    };
    for node in (0..most).map_while(|_| Node::new(want.range())) {
        spare.push(node);
    }
    let place = (0, (owner, crate::task::current().tid()));
    let mut waiter = None;
    loop {
        let seen = locks.released.load(Ordering::Acquire);
        let mut lists = locks.lists.lock();
        let blocker = if unlock { None } else { lists.conflict(&want) };
        let Some(Record { owner: blocker, .. }) = blocker else {
            lists.apply(&want, unlock, &mut spare)?;
            // Setting a lock releases something, too, if it replaces a stronger one.
            locks.given_up(&lists, owner);
            drop(lists);
            locks.changed();
            return Ok(());
        };
        if !wait {
            return Err(Errno::EAGAIN);
        }
        if !ofd {
            let Some(mut node) = waiter.take() else {
                drop(lists);
                waiter = Some(new_waiter(&locks, place, want).ok_or(Errno::ENOLCK)?);
                continue;
            };
            let mut waiting = WAITING.lock();
            let mut at = Some(blocker);
            for _ in 0..64 {
                if at == Some(owner) {
                    drop((waiting, lists));
                    return Err(Errno::EDEADLK);
                }
                at = at.and_then(|next| waits_for(&waiting, next));
            }
            node.range_mut().value.blocker = Some(blocker);
            waiting.insert(node);
            locks.waiting.fetch_add(1, Ordering::AcqRel);
        }
        drop(lists);
        let result = locks.sleep(seen, Lock::Range(want), u64::MAX, Errno::ENOLCK);
        if !ofd {
            waiter = WAITING.lock().remove(place);
            locks.waiting.fetch_sub(1, Ordering::AcqRel);
        }
        result?;
    }
}

/// The node that stands for the thread at `place` when it waits.
fn new_waiter(
    locks: &Arc<FileLocks>,
    (first, key): (u64, (Owner, i32)),
    want: Record,
) -> Option<NodeBox<(Owner, i32), Waiting>> {
    let value = Waiting {
        locks: Arc::as_ptr(locks).addr(),
        want,
        blocker: None,
    };
    Node::new(Range {
        first,
        last: first,
        key,
        value,
    })
}

impl FileLocks {
    /// Adds what `/proc` says of a lock, or of one that is waited for, behind its number.
    fn line(&self, lock: &Lock, out: &mut Text) {
        let (kind, write, pid, first, last) = match lock {
            Lock::Lease(lease) => {
                let (state, kind, pid) = (lease.state(), lease.kind(), lease.pid);
                let _ = write!(out, "LEASE  {state} {kind} {pid} ");
                let _ = match lease.file {
                    Some(_) => self.place(out),
                    None => write!(out, "<none>:0"),
                };
                let _ = writeln!(out, " 0 EOF");
                return;
            }
            Lock::Whole(_, whole) => ("FLOCK ", whole.exclusive, whole.pid, 0, END),
            Lock::Range(r) => {
                let kind = match r.owner {
                    Owner::Table(_) => "POSIX ",
                    Owner::File(_) => "OFDLCK",
                };
                (kind, r.how.write, r.how.pid, r.first, r.last)
            }
        };
        let _ = write!(
            out,
            "{kind} ADVISORY  {} {pid} ",
            if write { "WRITE" } else { "READ" }
        );
        let _ = self.place(out);
        let _ = match last {
            END => writeln!(out, " {first} EOF"),
            _ => writeln!(out, " {first} {last}"),
        };
    }
    fn place(&self, out: &mut Text) -> core::fmt::Result {
        write!(
            out,
            "{:02x}:{:02x}:{}",
            self.dev.major(),
            self.dev.minor(),
            self.ino
        )
    }
    /// Calls `f` with each of the locks, none of which is held meanwhile.
    fn for_each(&self, mut f: impl FnMut(Lock) -> Result<(), Errno>) -> Result<(), Errno> {
        let first = |lists: &Lists| lists.whole.first().map(|r| (r.place(), r.value));
        let mut next = first(&self.lists.lock());
        while let Some((place, whole)) = next {
            f(Lock::Whole(place.1, whole))?;
            let lists = self.lists.lock();
            next = lists.whole.behind(place).map(|r| (r.place(), r.value));
        }
        let mut after = None;
        loop {
            let lists = self.lists.lock();
            let found = lists.ranges.find((0, END), after, |_| true);
            let Some(record) = found.map(Record::of) else {
                break;
            };
            drop(lists);
            f(Lock::Range(record))?;
            after = Some((record.first, record.owner));
        }
        let shown = |r: &Range<usize, Lease>| (r.place(), r.value.shown(r.key));
        let mut next = self.lists.lock().leases.first().map(shown);
        while let Some((place, lease)) = next {
            f(Lock::Lease(lease))?;
            next = self.lists.lock().leases.behind(place).map(shown);
        }
        Ok(())
    }
    /// The locks that are waited for because of `lock`, each with its depth: 1 if only `lock` is in its way;
    /// if an earlier sleeper is as well, it comes behind that one and is one deeper. `ENOMEM`.
    fn blocked_by(&self, lock: &Lock) -> Result<Vec<(Lock, usize)>, Errno> {
        let mut tree: Vec<(Lock, usize)> = Vec::new();
        let mut after = 0;
        loop {
            let lists = self.lists.lock();
            let Some(sleeper) = lists.sleepers.behind((after, ())) else {
                return Ok(tree);
            };
            after = sleeper.first;
            let want = sleeper.value;
            if !lock.conflicts(&want) || lists.blocker(&want) != Some(*lock) {
                continue;
            }
            drop(lists);
            let (mut at, mut depth) = (0, 1);
            while let Some((other, there)) = tree.get(at).filter(|(_, there)| *there >= depth) {
                at += 1;
                if *there == depth && other.conflicts(&want) {
                    depth += 1;
                }
            }
            room(&mut tree, 1)?;
            tree.insert(at, (want, depth));
        }
    }
}

impl Lists {
    /// The first lock that is in the way of `want`.
    fn blocker(&self, want: &Lock) -> Option<Lock> {
        match want {
            Lock::Range(record) => self.conflict(record).map(Lock::Range),
            Lock::Lease(want) => {
                let mut next = self.leases.first();
                while let Some(r) = next
                    && !want.write
                    && !r.value.shown(r.key).write
                {
                    next = self.leases.behind(r.place());
                }
                next.map(|r| Lock::Lease(r.value.shown(r.key)))
            }
            Lock::Whole(..) => {
                let mut next = self.whole.first();
                while let Some(r) = next {
                    let lock = Lock::Whole(r.key, r.value);
                    if lock.conflicts(want) {
                        return Some(lock);
                    }
                    next = self.whole.behind(r.place());
                }
                None
            }
        }
    }
}

/// For `/proc/<pid>/fdinfo`: the locks that the process with descriptor table `table` has through `file`.
pub fn show(file: &Arc<File>, table: &Arc<FdTable>, out: &mut Text) {
    let Some(locks) = file.inode().locks.get() else {
        return;
    };
    let process = Owner::Table(Arc::as_ptr(table).addr());
    let file = id(file);
    let mut n = 0;
    // It fails only for a thread that will not see the rest: there may be many locks of others.
    let _ = locks.for_each(|lock| {
        if crate::task::current().fatal_signal_pending() {
            return Err(Errno::EINTR);
        }
        let mine = match &lock {
            Lock::Whole(by, _) => *by == file,
            Lock::Lease(lease) => lease.file == Some(file),
            Lock::Range(r) => r.how.file == file && [process, Owner::File(file)].contains(&r.owner),
        };
        if mine {
            n += 1;
            let _ = write!(out, "lock:\t{n}: ");
            locks.line(&lock, out);
        }
        Ok(())
    });
}

/// `/proc/locks`: all locks, and behind each those that are waited for because of it.
pub fn show_all(out: &mut Text) -> Result<(), Errno> {
    let mut n = 0;
    for part in &ALL {
        let mut after = 0;
        loop {
            let list = part.lock();
            let Some(found) = list.behind((after, ())) else {
                break;
            };
            after = found.first;
            let Some(locks) = found.value.upgrade() else {
                continue;
            };
            drop(list);
            locks.for_each(|lock| {
                if crate::task::current().fatal_signal_pending() {
                    return Err(Errno::EINTR);
                }
                n += 1;
                let _ = write!(out, "{n}: ");
                locks.line(&lock, out);
                for (want, depth) in locks.blocked_by(&lock)? {
                    let _ = write!(out, "{n}: {:>1$}", "-> ", depth + 2);
                    locks.line(&want, out);
                }
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// An open file description is closed for good: releases its lease, `flock` and open-file-description locks.
pub fn file_released(file: &File) {
    if let Some(locks) = file.inode().locks.get() {
        leases::give_up(file.inode(), locks, id(file));
        locks.drop_flock(id(file));
        locks.drop_ranges(Owner::File(id(file)));
    }
}

/// A descriptor was closed: releases the process's POSIX locks on the file.
pub fn descriptor_closed(file: &Arc<File>, table: &FdTable) {
    if let Some(locks) = file.inode().locks.get() {
        locks.drop_ranges(Owner::Table(core::ptr::from_ref(table).addr()));
    }
}
