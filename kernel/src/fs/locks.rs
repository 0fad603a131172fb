//! Advisory locks: `flock`, and record locks of processes and of open file descriptions ([`records`]).
//!
//! The locks of an inode are in trees behind one short spinlock. A node is allocated before that is taken
//! and freed after it is released: a program may have as many locks as there is memory. A thread that has to
//! wait sleeps on the inode's queue and tries again after each change. Meanwhile the lock that it waits for
//! is in a tree beside the locks, for `/proc/locks`; another tree has the leases ([`leases`]). `/proc/locks`
//! finds the locks of all inodes in a few trees ([`ALL`]), to which an inode's are added when it is locked
//! for the first time.

pub mod leases;
mod records;
mod shown;

pub use records::{get, set};
pub use shown::{show, show_all};

use self::leases::Lease;
use crate::fs::fdtable::FdTable;
use crate::fs::file::File;
use crate::fs::inode::{Dev, Inode};
use crate::sched::WaitQueue;
use crate::sync::SpinLock;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use limen_linux_abi::Errno;
use limen_range_tree::{Key, Node, NodeBox, Range, RangeTree};

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
    /// How many threads in `records::WAITING` wait for these locks. Raised under `lists`.
    waiting: AtomicUsize,
}

/// How many lists there are of all files' locks: that is how many processors can put something in, or take it
/// out, at once.
const PARTS: usize = 64;

/// The locks of all files that were ever locked, by their numbers.
static ALL: [SpinLock<RangeTree<(), Weak<FileLocks>>>; PARTS] =
    [const { SpinLock::new(RangeTree::new()) }; PARTS];

const LOCK_SH: u32 = 1;
const LOCK_EX: u32 = 2;
const LOCK_NB: u32 = 4;
const LOCK_UN: u32 = 8;
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
