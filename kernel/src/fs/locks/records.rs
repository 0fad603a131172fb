//! Record locks: of processes (POSIX) and of open file descriptions.

use super::{END, FileLocks, How, Lists, Lock, Owner, Record, id, of};
use crate::fs::fdtable::FdTable;
use crate::fs::file::{File, FileMode};
use crate::sync::SpinLock;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use limen_linux_abi::{Errno, LockRequest};
use limen_range_tree::{Node, NodeBox, Range, RangeTree, Spare};

const F_RDLCK: i16 = 0;
const F_WRLCK: i16 = 1;
const F_UNLCK: i16 = 2;

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

impl FileLocks {
    pub(super) fn drop_ranges(&self, owner: Owner) {
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
    pub(super) fn conflict(&self, want: &Record) -> Option<Record> {
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
                pid: crate::task::pid::seen_from(crate::task::current().pid_ns(), r.how.pid),
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
