//! Semaphores. All that concerns a set is under the set's lock. An operation that cannot be done now waits in
//! the set: whoever changes a semaphore does for the waiting threads what has become possible, in the order
//! in which they came, and tells them how it ended. A sleeper that a signal or its deadline wakes takes its
//! operation out itself.

mod control;
mod perform;
mod undo;

use super::ids::Ids;
use super::ns::{Place, own_sem};
use super::object::{self, Object};
use super::perm::{self, Perm};
use super::{now, tgid};
use crate::mm::reserve;
use crate::sched::WaitQueue;
use crate::sync::SpinLock;
use crate::task::current;
use crate::task::ns::UserRef;
use crate::task::ns::pid::Id;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use limen_linux_abi::abi::ipc::Sembuf;
use limen_linux_abi::{Errno, SysResult};
use undo::Undo;

pub use undo::new_adjustments;

pub use control::{Command, Out, control, set_all, set_value};

/// The sets of a namespace, and how large and how many they may be (`kernel.sem`).
pub struct Table {
    /// How many semaphores a set may have.
    pub max_of_set: AtomicI32,
    /// How many all sets may have.
    pub max_of_all: AtomicI32,
    /// How many operations a call may have.
    pub max_operations: AtomicI32,
    /// How many sets there may be.
    pub max_sets: AtomicI32,
    /// Semaphores of all sets.
    count: AtomicUsize,
    ids: Ids<Set>,
    /// The user namespace that owns it.
    owner: UserRef,
}

/// Those of the initial namespace.
pub static INITIAL: Table = Table::new(None);

impl Table {
    /// Without sets.
    pub const fn new(owner: UserRef) -> Self {
        Self {
            max_of_set: AtomicI32::new(32000),
            max_of_all: AtomicI32::new(32000 * 32000),
            max_operations: AtomicI32::new(500),
            max_sets: AtomicI32::new(32000),
            count: AtomicUsize::new(0),
            ids: Ids::new(),
            owner,
        }
    }

    /// The namespace ends.
    pub(super) fn end(&self) {
        self.ids.each(|set| {
            let gone = set.end(&mut set.state.lock());
            drop(gone);
        });
    }
}

/// How many operations a call of the running thread may have.
pub fn most_operations() -> i32 {
    own_sem().max_operations.load(Relaxed)
}

/// The largest value (`SEMVMX`), and the largest adjustment (`SEMAEM`).
const LARGEST: i32 = 32767;
/// `SEM_UNDO`.
const SEM_UNDO: u16 = 0x1000;
/// `IPC_NOWAIT` of an operation.
const NOWAIT: u16 = 0o4000;
/// The result of an operation that still waits.
const WAITS: i32 = i32::MAX;

/// A semaphore.
#[derive(Clone, Default)]
struct Semaphore {
    value: i32,
    /// The process that last changed it.
    pid: Id,
}

/// What changes of a set.
pub(super) struct State {
    perm: Perm,
    semaphores: Vec<Semaphore>,
    /// Operations that wait, in the order in which they came: those that only wait for zeros, and those that
    /// change something.
    for_zero: VecDeque<Arc<Waiting>>,
    changing: VecDeque<Arc<Waiting>>,
    /// What is to be undone when threads end.
    undos: Vec<Arc<Undo>>,
    otime: i64,
    ctime: i64,
}

/// A set.
pub(in crate::ipc) struct Set {
    /// The table that has it.
    table: Place<Table>,
    id: AtomicI32,
    count: usize,
    state: SpinLock<State>,
}

/// The operations of a call.
struct Operations {
    list: Vec<Sembuf>,
    pid: Id,
    undo: Option<Arc<Undo>>,
}

/// Operations that wait.
struct Waiting {
    operations: Operations,
    /// Which of them cannot be done: its place in the list. Under the set's lock.
    blocks: AtomicUsize,
    /// [`WAITS`], or how it ended: 0, or the number of an error. Written under the set's lock.
    result: AtomicI32,
    queue: WaitQueue,
}

impl object::State for State {
    fn perm(&mut self) -> &mut Perm {
        &mut self.perm
    }
}

impl Object for Set {
    type State = State;
    fn id(&self) -> &AtomicI32 {
        &self.id
    }
    fn state(&self) -> &SpinLock<State> {
        &self.state
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        // One that was removed has given them back then.
        if !self.state.get_mut().perm.gone {
            self.table.count.fetch_sub(self.count, Relaxed);
        }
    }
}

impl Waiting {
    fn ends(&self, result: Result<(), Errno>) {
        let number = result.map_or_else(|errno| i32::from(errno.get()), |()| 0);
        self.result.store(number, Release);
        self.queue.wake_all();
    }

    fn result(&self) -> Option<SysResult> {
        match self.result.load(Acquire) {
            WAITS => None,
            0 => Some(Ok(0)),
            number => Some(Err(Errno::new(number as u16))),
        }
    }
}

/// `semget`. Errors: those of keys; `EINVAL`: the count; `ENOSPC`, `ENOMEM`. Sleeps.
pub fn get(key: i32, count: i32, flags: u32) -> SysResult {
    let table = own_sem();
    if !(0..=table.max_of_set.load(Relaxed)).contains(&count) {
        return Err(Errno::EINVAL);
    }
    let count = count as usize;
    let fits = |set: &Set| {
        if count > set.count {
            Err(Errno::EINVAL)
        } else {
            Ok(())
        }
    };
    let limit = table.max_sets.load(Relaxed).max(0) as usize;
    table
        .ids
        .get(key, flags, limit, fits, || make(&table, key, count, flags))
}

fn make(table: &Place<Table>, key: i32, count: usize, flags: u32) -> Result<Arc<Set>, Errno> {
    if count == 0 {
        return Err(Errno::EINVAL);
    }
    if table.count.load(Relaxed) + count > table.max_of_all.load(Relaxed).max(0) as usize {
        return Err(Errno::ENOSPC);
    }
    let mut semaphores = Vec::new();
    reserve::room_exact(&mut semaphores, count)?;
    semaphores.resize(count, Semaphore::default());
    table.count.fetch_add(count, Relaxed);
    Ok(Arc::new(Set {
        table: table.clone(),
        id: AtomicI32::new(0),
        count,
        state: SpinLock::new(State {
            perm: Perm::new(key, flags, &table.owner),
            semaphores,
            for_zero: VecDeque::new(),
            changing: VecDeque::new(),
            undos: Vec::new(),
            otime: 0,
            ctime: now(),
        }),
    }))
}

/// `semop` and `semtimedop`, of at least one operation. `deadline`: nanoseconds of `CLOCK_MONOTONIC`.
/// Errors: `EINVAL`, `EFBIG`, `EACCES`, `EIDRM`, `ERANGE`, `EAGAIN`, `EINTR`, `ENOMEM`. Sleeps.
pub fn operate(id: i32, list: Vec<Sembuf>, deadline: Option<u64>) -> SysResult {
    if id < 0 {
        return Err(Errno::EINVAL);
    }
    let undoes = list.iter().any(|op| op.sem_flg & SEM_UNDO != 0);
    let changes = list.iter().any(|op| op.sem_op != 0);
    let last = list.iter().map(|op| usize::from(op.sem_num)).max().unwrap_or(0);
    let set = own_sem().ids.find(id)?;
    let undo = if undoes { Some(undo::of(&set)?) } else { None };
    if last >= set.count {
        return Err(Errno::EFBIG);
    }
    let operations = Operations {
        list,
        pid: tgid(),
        undo,
    };
    let creds = current().creds();
    let wanted = if changes { perm::WRITE } else { perm::READ };
    let waiting = {
        let mut state = set.state.lock();
        state.perm.check(&creds, wanted)?;
        match state.perform(&operations) {
            Ok(()) => {
                state.otime = now();
                if changes {
                    state.go_on(&operations.list);
                }
                return Ok(0);
            }
            Err(perform::Failure::Blocks(at)) if operations.list[at].sem_flg & NOWAIT == 0 => at,
            Err(perform::Failure::Blocks(_)) => return Err(Errno::EAGAIN),
            Err(perform::Failure::Error(errno)) => return Err(errno),
        }
    };
    wait(&set, operations, waiting, changes, deadline)
}

fn wait(set: &Set, operations: Operations, blocks: usize, changes: bool, deadline: Option<u64>) -> SysResult {
    let waiting = Arc::new(Waiting {
        operations,
        blocks: AtomicUsize::new(blocks),
        result: AtomicI32::new(WAITS),
        queue: WaitQueue::new(),
    });
    {
        let mut state = reserve::room_behind(|| set.state.lock(), |state| state.queue(changes), 1)?;
        if state.perm.gone {
            return Err(Errno::EIDRM);
        }
        // It was unlocked meanwhile.
        match state.perform(&waiting.operations) {
            Ok(()) => {
                state.otime = now();
                if changes {
                    state.go_on(&waiting.operations.list);
                }
                return Ok(0);
            }
            Err(perform::Failure::Error(errno)) => return Err(errno),
            Err(perform::Failure::Blocks(at)) => {
                if waiting.operations.list[at].sem_flg & NOWAIT != 0 {
                    return Err(Errno::EAGAIN);
                }
                waiting.blocks.store(at, Relaxed);
            }
        }
        state.queue(changes).push_back(waiting.clone());
    }
    let slept = waiting
        .queue
        .wait_until_deadline(deadline.unwrap_or(u64::MAX), || waiting.result().is_some());
    if let Some(result) = waiting.result() {
        return result;
    }
    let mut state = set.state.lock();
    if let Some(result) = waiting.result() {
        return result;
    }
    state.queue(changes).retain(|other| !Arc::ptr_eq(other, &waiting));
    drop(state);
    Err(if slept.is_ok() {
        Errno::EAGAIN
    } else {
        Errno::EINTR
    })
}
