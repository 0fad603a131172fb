//! Advisory locks: `flock`, POSIX record locks (per process), and open-file-description record locks.
//!
//! An inode's locks are behind one short spinlock; who has to wait sleeps on the inode's queue and tries again after each change.

use crate::fs::fdtable::FdTable;
use crate::fs::file::{File, FileMode};
use crate::fs::inode::Inode;
use crate::sched::WaitQueue;
use crate::sync::{SpinGuard, SpinLock};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use limen_linux_abi::{Errno, LockRequest};

/// Who holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    /// A descriptor table (a process), by its address.
    Table(usize),
    /// An open file description, by its address.
    File(usize),
}

/// A locked range, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    owner: Owner,
    /// The process that locked it, for `F_GETLK`.
    pid: i32,
    write: bool,
    first: u64,
    last: u64,
}

#[derive(Default)]
struct Lists {
    /// `flock`: open file and whether exclusive.
    whole: Vec<(usize, bool)>,
    ranges: Vec<Range>,
}

/// The locks of an inode.
pub struct FileLocks {
    lists: SpinLock<Lists>,
    wait: WaitQueue,
    /// Counts releases: what sleepers look at.
    released: AtomicU64,
}

/// A thread that waits for a record lock.
struct Waiting {
    /// Address of the locks it is about.
    locks: usize,
    /// What it wants.
    want: Range,
    /// Who is in the way.
    blocker: Owner,
}

/// Who waits for whom, for `EDEADLK`: by owner and thread. Taken inside the lists of the locks that are waited for, and true as long as those are
/// locked.
static WAITING: SpinLock<BTreeMap<(Owner, i32), Waiting>> = SpinLock::new(BTreeMap::new());

/// Whom `owner` waits for, if one of its threads does.
fn waits_for(waiting: &BTreeMap<(Owner, i32), Waiting>, owner: Owner) -> Option<Owner> {
    let mut threads = waiting.range((owner, i32::MIN)..=(owner, i32::MAX));
    threads.next().map(|(_, w)| w.blocker)
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

fn of(inode: &Inode) -> Arc<FileLocks> {
    let mut slot = inode.locks.lock();
    slot.get_or_insert_with(|| {
        Arc::new(FileLocks {
            lists: SpinLock::new(Lists::default()),
            wait: WaitQueue::new(),
            released: AtomicU64::new(0),
        })
    })
    .clone()
}

impl FileLocks {
    fn changed(&self) {
        self.released.fetch_add(1, Ordering::AcqRel);
        self.wait.wake_all();
    }

    /// Gives `who` the lock, or says how often others had been given up when it was in the way: asked under the lock that a release takes first, so
    /// one that comes later is seen. Changing the kind of a lock gives the old one up first, as on Linux, even if the new one is not to be had.
    fn try_flock(&self, who: usize, exclusive: bool) -> Result<(), u64> {
        let mut l = self.lists.lock();
        if l.whole.contains(&(who, exclusive)) {
            return Ok(());
        }
        let before = l.whole.len();
        l.whole.retain(|(o, _)| *o != who);
        let gone = l.whole.len() != before;
        let result = if l.whole.iter().any(|(_, x)| *x || exclusive) {
            Err(self.released.load(Ordering::Acquire))
        } else {
            l.whole.push((who, exclusive));
            Ok(())
        };
        drop(l);
        if gone {
            self.changed();
        }
        result
    }

    fn drop_flock(&self, who: usize) {
        let mut l = self.lists.lock();
        let before = l.whole.len();
        l.whole.retain(|(o, _)| *o != who);
        let gone = l.whole.len() != before;
        drop(l);
        if gone {
            self.changed();
        }
    }

    fn drop_ranges(&self, owner: Owner) {
        let mut l = self.lists.lock();
        let before = l.ranges.len();
        l.ranges.retain(|r| r.owner != owner);
        let gone = l.ranges.len() != before;
        if gone {
            self.given_up(&l, owner);
        }
        drop(l);
        if gone {
            self.changed();
        }
    }

    /// Makes `want` what its owner has, and wakes those for whom that may matter: even a new lock may take the place of a stronger one.
    fn apply(&self, mut lists: SpinGuard<'_, Lists>, want: &Range, unlock: bool) -> Result<(), Errno> {
        lists.apply(want, unlock)?;
        self.given_up(&lists, want.owner);
        drop(lists);
        self.changed();
        Ok(())
    }

    /// After `owner` has perhaps given ranges up: who waited for one of them waits for whoever else is in the way, or for nobody, long before it runs
    /// again and sees for itself.
    fn given_up(&self, lists: &Lists, owner: Owner) {
        let here = core::ptr::from_ref(self).addr();
        WAITING.lock().retain(|_, w| {
            if w.locks != here || w.blocker != owner {
                return true;
            }
            let blocker = lists.conflict(&w.want).map(|r| r.owner);
            w.blocker = blocker.unwrap_or(owner);
            blocker.is_some()
        });
    }
}

impl Lists {
    fn conflict(&self, want: &Range) -> Option<Range> {
        self.ranges
            .iter()
            .find(|r| {
                r.owner != want.owner
                    && (r.write || want.write)
                    && r.first <= want.last
                    && want.first <= r.last
            })
            .copied()
    }

    /// Makes `want` (or nothing, for an unlock) what its owner has in that range.
    /// `ENOLCK` without memory.
    fn apply(&mut self, want: &Range, unlock: bool) -> Result<(), Errno> {
        let mut new = Vec::new();
        new.try_reserve_exact(self.ranges.len() + 2)
            .map_err(|_| Errno::ENOLCK)?;
        // In order of their starts; most go to the end.
        let insert = |new: &mut Vec<Range>, range: Range| {
            let at = new.partition_point(|r| r.first <= range.first);
            new.insert(at, range);
        };
        let mut merged = *want;
        for r in &self.ranges {
            if r.owner != want.owner || r.last < want.first || r.first > want.last {
                let touches = r.owner == want.owner
                    && r.write == want.write
                    && (r.last.checked_add(1) == Some(merged.first)
                        || merged.last.checked_add(1) == Some(r.first));
                if touches && !unlock {
                    merged.first = merged.first.min(r.first);
                    merged.last = merged.last.max(r.last);
                } else {
                    insert(&mut new, *r);
                }
                continue;
            }
            if !unlock && r.write == want.write {
                merged.first = merged.first.min(r.first);
                merged.last = merged.last.max(r.last);
                continue;
            }
            if r.first < want.first {
                let last = want.first - 1;
                insert(&mut new, Range { last, ..*r });
            }
            if r.last > want.last {
                let first = want.last + 1;
                insert(&mut new, Range { first, ..*r });
            }
        }
        if !unlock {
            insert(&mut new, merged);
        }
        self.ranges = new;
        Ok(())
    }
}

/// Whether `flock` knows `operation`: `EINVAL` if not.
pub fn check_operation(operation: u32) -> Result<(), Errno> {
    match operation & !LOCK_NB {
        LOCK_UN | LOCK_SH | LOCK_EX => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

/// `flock`.
pub fn flock(file: &Arc<File>, operation: u32) -> Result<(), Errno> {
    let locks = of(file.inode());
    let who = id(file);
    match operation & !LOCK_NB {
        LOCK_UN => locks.drop_flock(who),
        op @ (LOCK_SH | LOCK_EX) => {
            while let Err(seen) = locks.try_flock(who, op == LOCK_EX) {
                if operation & LOCK_NB != 0 {
                    return Err(Errno::EAGAIN);
                }
                locks
                    .wait
                    .wait_until(|| locks.released.load(Ordering::Acquire) != seen)?;
            }
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}

/// `struct flock`, decoded: kind and range. An open file description's lock names no process.
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

/// `F_GETLK`, `F_OFD_GETLK`: `lock` becomes the answer.
pub fn get(file: &Arc<File>, table: &Arc<FdTable>, lock: &mut LockRequest, ofd: bool) -> Result<(), Errno> {
    let (kind, first, last) = decode(file, lock, ofd)?;
    let write = match kind {
        F_RDLCK => false,
        F_WRLCK => true,
        _ => return Err(Errno::EINVAL),
    };
    let (owner, pid) = owner(file, table, ofd);
    let found = of(file.inode()).lists.lock().conflict(&Range {
        owner,
        pid,
        write,
        first,
        last,
    });
    match found {
        None => lock.kind = F_UNLCK,
        Some(r) => {
            *lock = LockRequest {
                kind: if r.write { F_WRLCK } else { F_RDLCK },
                whence: 0,
                start: r.first as i64,
                len: if r.last == END {
                    0
                } else {
                    (r.last - r.first + 1) as i64
                },
                pid: r.pid,
            }
        }
    }
    Ok(())
}

/// `F_SETLK` and friends.
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
    let want = Range {
        owner,
        pid,
        write: kind == F_WRLCK,
        first,
        last,
    };
    let locks = of(file.inode());
    if kind == F_UNLCK {
        return locks.apply(locks.lists.lock(), &want, true);
    }
    let waiter = (owner, crate::task::current().tid());
    loop {
        let seen = locks.released.load(Ordering::Acquire);
        let lists = locks.lists.lock();
        let Some(Range { owner: blocker, .. }) = lists.conflict(&want) else {
            return locks.apply(lists, &want, false);
        };
        if !wait {
            return Err(Errno::EAGAIN);
        }
        if !ofd {
            let mut waiting = WAITING.lock();
            let mut at = Some(blocker);
            for _ in 0..64 {
                if at == Some(owner) {
                    return Err(Errno::EDEADLK);
                }
                at = at.and_then(|next| waits_for(&waiting, next));
            }
            let new = Waiting {
                locks: Arc::as_ptr(&locks).addr(),
                want,
                blocker,
            };
            waiting.insert(waiter, new);
        }
        drop(lists);
        let result = locks
            .wait
            .wait_until(|| locks.released.load(Ordering::Acquire) != seen);
        if !ofd {
            WAITING.lock().remove(&waiter);
        }
        result?;
    }
}

/// An open file description is gone: its `flock` and open-file-description locks go.
pub fn file_released(file: &File) {
    let locks = file.inode().locks.lock().clone();
    if let Some(locks) = locks {
        locks.drop_flock(id(file));
        locks.drop_ranges(Owner::File(id(file)));
    }
}

/// A descriptor was closed: the process's POSIX locks on the file go.
pub fn descriptor_closed(file: &Arc<File>, table: &FdTable) {
    let locks = file.inode().locks.lock().clone();
    if let Some(locks) = locks {
        locks.drop_ranges(Owner::Table(core::ptr::from_ref(table).addr()));
    }
}
