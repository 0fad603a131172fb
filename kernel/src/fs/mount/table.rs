//! The tables of mounts: one for each namespace. What is in none was unmounted, or never mounted.

use super::tree::{Listed, node};
use super::{Mount, MountNs};
use crate::rcu::Shared;
use crate::sched::WaitQueue;
use crate::sync::{Once, SpinLock};
use crate::task::creds::cap;
use crate::task::current;
use crate::task::ns::{Kind, UserRef, user};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use limen_linux_abi::Errno;
use limen_range_tree::RangeTree;

/// How many mounts there may be in a namespace (`/proc/sys/fs/mount-max`). A limit is needed: binding a tree
/// below itself doubles its mounts.
pub static MOUNT_MAX: AtomicU32 = AtomicU32::new(100_000);

/// The mounts of a namespace.
pub struct Table {
    /// Which namespace was made before which: a file of a namespace is only bound in earlier ones.
    pub(super) seq: u64,
    /// The user namespace that owns it.
    pub(super) owner: UserRef,
    /// By number. They change only while all mounts are locked.
    pub(super) list: SpinLock<Listed>,
    /// How many a change that is being prepared adds.
    pending: AtomicUsize,
    /// Told of each change.
    pub changes: Changes,
    /// The mount at its top. Nothing: the namespace has ended.
    pub(super) root: SpinLock<Option<Shared<Mount>>>,
    /// The next one that has ended.
    pub(super) next: SpinLock<Option<Arc<Table>>>,
}

/// Tells waiters that a mount has changed.
pub struct Changes {
    count: AtomicU32,
    /// The queue of waiters.
    pub queue: WaitQueue,
}

impl Changes {
    /// How many changes there were.
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }
    pub(super) fn announce(&self) {
        self.count.fetch_add(1, Ordering::Release);
        self.queue.wake_all();
    }
}

static INITIAL: Once<Arc<Table>> = Once::new();
static SEQ: AtomicU64 = AtomicU64::new(1);

impl Table {
    fn with(seq: u64, owner: UserRef) -> Arc<Self> {
        Arc::new(Self {
            seq,
            owner,
            list: SpinLock::new(RangeTree::new()),
            pending: AtomicUsize::new(0),
            changes: Changes {
                count: AtomicU32::new(0),
                queue: WaitQueue::new(),
            },
            root: SpinLock::new(None),
            next: SpinLock::new(None),
        })
    }
    /// For a new namespace.
    pub(super) fn new(owner: UserRef) -> Arc<Self> {
        Self::with(SEQ.fetch_add(1, Ordering::Relaxed), owner)
    }
    /// A change adds so many mounts, if it happens. `ENOSPC`: there would be too many. The caller has locked
    /// all mounts.
    pub(super) fn count(&self, more: usize) -> Result<(), Errno> {
        let pending = self.pending.load(Ordering::Relaxed) + more;
        if self.list.lock().len() + pending > MOUNT_MAX.load(Ordering::Relaxed) as usize {
            return Err(Errno::ENOSPC);
        }
        self.pending.store(pending, Ordering::Relaxed);
        Ok(())
    }
    /// The change has happened, or does not happen.
    pub(super) fn counted(&self) {
        self.pending.store(0, Ordering::Relaxed);
    }
    /// Whether both belong to the same user namespace.
    pub(super) fn has_owner_of(&self, other: &Table) -> bool {
        user::is_same(&self.owner, &other.owner)
    }
}

/// The first mount.
pub(super) fn init(mnt: &Shared<Mount>) {
    let table = Table::with(0, None);
    *mnt.table.lock() = Some(table.clone());
    *table.root.lock() = Some(mnt.clone());
    let node = node(mnt, u64::from(mnt.id)).expect("memory for the first mount");
    table.list.lock().insert(node);
    if INITIAL.set(table).is_err() {
        warning!("There are mounts already");
    }
}

/// The table of a namespace. `None`: the initial one.
pub(super) fn of(ns: Option<&MountNs>) -> &Arc<Table> {
    match ns {
        Some(ns) => &ns.table,
        None => INITIAL.get().expect("fs::init has run"),
    }
}

/// Calls `f` with the table of the running task's namespace.
pub(super) fn with_current<R>(f: impl FnOnce(&Arc<Table>) -> R) -> R {
    f(of(current().namespaces().and_then(|set| set.get(Kind::Mnt))))
}

/// The table of the running task's namespace.
pub fn current_table() -> Arc<Table> {
    with_current(Arc::clone)
}

/// Whether the running task has `CAP_SYS_ADMIN` in a user namespace.
pub(super) fn is_admin(owner: &UserRef) -> bool {
    current().creds().capable_in(owner, cap::SYS_ADMIN)
}

/// `EPERM` unless the running task may mount and unmount.
pub fn may_mount() -> Result<(), Errno> {
    with_current(|table| {
        if is_admin(&table.owner) {
            Ok(())
        } else {
            Err(Errno::EPERM)
        }
    })
}

/// Namespaces that have ended, and whose mounts are to go.
static ENDED: SpinLock<Option<Arc<Table>>> = SpinLock::new(None);

/// The namespace with this table has ended. Its mounts go now or, if another thread (or this one) has locked
/// all mounts, when that is done.
pub(super) fn end(table: &Arc<Table>) {
    {
        let mut ended = ENDED.lock();
        *table.next.lock() = ended.take();
        *ended = Some(table.clone());
    }
    fence(Ordering::SeqCst);
    super::tree::clean();
}

/// One whose mounts are to go.
pub(super) fn ended() -> Option<Arc<Table>> {
    let mut ended = ENDED.lock();
    let table = ended.take()?;
    *ended = table.next.lock().take();
    Some(table)
}

/// Whether there is one.
pub(super) fn any_ended() -> bool {
    ENDED.lock().is_some()
}
