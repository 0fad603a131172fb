//! Process ids: allocating them and finding what they stand for.
//!
//! One table maps a number to all that has it: a thread, the process that it leads, a process group and a
//! session. The number is free when all of these are gone. The table is a radix tree of two levels. It grows
//! with the largest number in use, and a lookup is two loads under a lock that is held for a few
//! instructions.

use super::session::{ProcessGroup, Session};
use super::{Process, Task};
use crate::mm::reserve::{room_behind, room_exact};
use crate::sync::IrqSpinLock;
use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicI32, Ordering};
use limen_linux_abi::Errno;

/// The highest value of `pid_max` (`PID_MAX_LIMIT`).
pub const PID_MAX_LIMIT: i32 = if usize::BITS == 64 { 4 * 1024 * 1024 } else { 32768 };
/// Numbers below this one are not used again when allocation wraps around.
const RESERVED: i32 = 300;
/// How many numbers a leaf has.
const LEAF: usize = 256;

/// Numbers must be below this (`/proc/sys/kernel/pid_max`).
pub static PID_MAX: AtomicI32 = AtomicI32::new(32768);

#[derive(Default)]
struct Slot {
    used: bool,
    task: Option<Arc<Task>>,
    /// Stays after the leader's exit until a parent has waited for the process.
    process: Option<Arc<Process>>,
    group: Option<Weak<ProcessGroup>>,
    session: Option<Weak<Session>>,
}

struct Leaf {
    used: usize,
    /// `LEAF` slots. They are made on the heap directly: an array would first lie on the stack.
    slots: Box<[Slot]>,
}

struct Table {
    last: i32,
    leaves: Vec<Option<Leaf>>,
}

static TABLE: IrqSpinLock<Table> = IrqSpinLock::new(Table {
    last: 0,
    leaves: Vec::new(),
});

impl Table {
    fn slot(&self, pid: i32) -> Option<&Slot> {
        let pid = usize::try_from(pid).ok()?;
        let slot = &self.leaves.get(pid / LEAF)?.as_ref()?.slots[pid % LEAF];
        slot.used.then_some(slot)
    }

    fn slot_mut(&mut self, pid: i32) -> Option<&mut Slot> {
        let pid = usize::try_from(pid).ok()?;
        let slot = &mut self.leaves.get_mut(pid / LEAF)?.as_mut()?.slots[pid % LEAF];
        slot.used.then_some(slot)
    }

    /// The first free number in `from..to`.
    fn find_free(&self, from: i32, to: i32) -> Option<i32> {
        let (mut pid, to) = (from as usize, to as usize);
        while pid < to {
            match self.leaves.get(pid / LEAF) {
                Some(Some(leaf)) if leaf.used == LEAF => pid = (pid / LEAF + 1) * LEAF,
                Some(Some(leaf)) if leaf.slots[pid % LEAF].used => pid += 1,
                _ => return Some(pid as i32),
            }
        }
        None
    }

    /// Marks a number as used. `false`: its leaf is missing and must be made first ([`make_leaf`]).
    fn take(&mut self, pid: i32) -> bool {
        let Some(Some(leaf)) = self.leaves.get_mut(pid as usize / LEAF) else {
            return false;
        };
        leaf.used += 1;
        leaf.slots[pid as usize % LEAF].used = true;
        true
    }

    /// Frees the number if nothing has it.
    fn release(&mut self, pid: i32) {
        let Some(leaf) = self.leaves.get_mut(pid as usize / LEAF).and_then(Option::as_mut) else {
            return;
        };
        let slot = &mut leaf.slots[pid as usize % LEAF];
        if slot.used
            && slot.task.is_none()
            && slot.process.is_none()
            && slot.group.is_none()
            && slot.session.is_none()
        {
            slot.used = false;
            leaf.used -= 1;
        }
    }
}

/// Makes the leaf for `pid`. Memory is allocated while the table is not locked. `ENOMEM`.
#[cold]
#[inline(never)]
fn make_leaf(pid: i32) -> Result<(), Errno> {
    let number = pid as usize / LEAF;
    let mut slots = Vec::new();
    room_exact(&mut slots, LEAF)?;
    slots.resize_with(LEAF, Slot::default);
    let leaf = Leaf {
        used: 0,
        slots: slots.into_boxed_slice(),
    };
    let more = (number + 1).saturating_sub(TABLE.lock().leaves.len());
    let mut table = room_behind(|| TABLE.lock(), |table| &mut table.leaves, more)?;
    if table.leaves.len() <= number {
        table.leaves.resize_with(number + 1, || None);
    }
    let mut new = Some(leaf);
    if table.leaves[number].is_none() {
        table.leaves[number] = new.take();
    }
    drop(table);
    Ok(())
}

/// Takes a free number. `EAGAIN`: there is none.
pub fn allocate() -> Result<i32, Errno> {
    let max = PID_MAX.load(Ordering::Relaxed);
    loop {
        let mut table = TABLE.lock();
        let from = table.last + 1;
        let floor = if from > RESERVED { RESERVED } else { 1 };
        let pid = table
            .find_free(from.min(max), max)
            .or_else(|| table.find_free(floor, from.min(max)))
            .ok_or(Errno::EAGAIN)?;
        if table.take(pid) {
            table.last = pid;
            return Ok(pid);
        }
        drop(table);
        make_leaf(pid)?;
    }
}

/// Takes the number `pid` (`set_tid`). `may`: whether the caller has the privilege. `EINVAL`; `EPERM`;
/// `EEXIST`: the number is in use.
pub fn allocate_exact(pid: i32, may: impl FnOnce() -> bool) -> Result<i32, Errno> {
    if pid < 1 || pid >= PID_MAX.load(Ordering::Relaxed) {
        return Err(Errno::EINVAL);
    }
    if !may() {
        return Err(Errno::EPERM);
    }
    loop {
        let mut table = TABLE.lock();
        if table.slot(pid).is_some() {
            return Err(Errno::EEXIST);
        }
        if table.take(pid) {
            return Ok(pid);
        }
        drop(table);
        make_leaf(pid)?;
    }
}

/// Gives back a number under which nothing was registered.
pub fn release(pid: i32) {
    TABLE.lock().release(pid);
}

/// Makes a thread findable. `leader`: its process, too.
pub fn register(task: &Arc<Task>, leader: bool) {
    let mut table = TABLE.lock();
    if let Some(slot) = table.slot_mut(task.tid()) {
        slot.task = Some(task.clone());
        if leader {
            slot.process = Some(task.process.clone());
        }
    }
}

/// Removes a thread.
pub fn forget_task(tid: i32) {
    let gone;
    {
        let mut table = TABLE.lock();
        gone = table.slot_mut(tid).and_then(|slot| slot.task.take());
        table.release(tid);
    }
    // Dropped without the lock: this may be the last reference.
    drop(gone);
}

/// Removes a process for which a parent has waited.
pub fn forget_process(pid: i32) {
    let gone;
    {
        let mut table = TABLE.lock();
        gone = table.slot_mut(pid).and_then(|slot| slot.process.take());
        table.release(pid);
    }
    drop(gone);
}

/// Sets the process group with this number; removes it with `None`.
pub fn set_group(id: i32, group: Option<&Arc<ProcessGroup>>) {
    let mut table = TABLE.lock();
    if let Some(slot) = table.slot_mut(id) {
        slot.group = group.map(Arc::downgrade);
    }
    table.release(id);
}

/// Sets the session with this number; removes it with `None`.
pub fn set_session(id: i32, session: Option<&Arc<Session>>) {
    let mut table = TABLE.lock();
    if let Some(slot) = table.slot_mut(id) {
        slot.session = session.map(Arc::downgrade);
    }
    table.release(id);
}

/// Whether a thread, process, group or session has this number.
pub fn is_used(id: i32) -> bool {
    TABLE.lock().slot(id).is_some()
}

/// The thread with id `tid`.
pub fn find_task(tid: i32) -> Option<Arc<Task>> {
    TABLE.lock().slot(tid)?.task.clone()
}

/// The process with id `pid`, even if it is a zombie.
pub fn find_process(pid: i32) -> Option<Arc<Process>> {
    TABLE.lock().slot(pid)?.process.clone()
}

/// The process group with id `id`.
pub fn find_group(id: i32) -> Option<Arc<ProcessGroup>> {
    TABLE.lock().slot(id)?.group.as_ref()?.upgrade()
}

/// The session with id `id`.
pub fn find_session(id: i32) -> Option<Arc<Session>> {
    TABLE.lock().slot(id)?.session.as_ref()?.upgrade()
}

/// The process with the smallest id that is `from` or larger. For walks over all processes (`/proc`).
pub fn next_process(from: i32) -> Option<Arc<Process>> {
    next(from, |slot| slot.process.as_ref())
}

/// What `of` finds under the smallest number that is `from` or larger.
fn next<T>(from: i32, of: impl Fn(&Slot) -> Option<&Arc<T>>) -> Option<Arc<T>> {
    let table = TABLE.lock();
    let from = from.max(1) as usize;
    let mut leaf = from / LEAF;
    let mut first = from % LEAF;
    while leaf < table.leaves.len() {
        if let Some(slots) = &table.leaves[leaf]
            && let Some(found) = slots.slots[first..].iter().find_map(&of)
        {
            return Some(found.clone());
        }
        leaf += 1;
        first = 0;
    }
    None
}

/// All threads, in the order of their ids. The walk holds no lock: it visits those that exist when their turn
/// comes.
pub fn all_tasks() -> impl Iterator<Item = Arc<Task>> {
    let mut from = 1;
    core::iter::from_fn(move || {
        let task = next(from, |slot| slot.task.as_ref())?;
        from = task.tid() + 1;
        Some(task)
    })
}

/// All processes, zombies included, in the order of their ids. The walk holds no lock: it visits those that
/// exist when their turn comes.
pub fn all_processes() -> impl Iterator<Item = Arc<Process>> {
    let mut from = 1;
    core::iter::from_fn(move || {
        let process = next_process(from)?;
        from = process.tgid + 1;
        Some(process)
    })
}

/// The number that was allocated last (`/proc/loadavg`).
pub fn last() -> i32 {
    TABLE.lock().last
}

/// Makes the next number the first free one after `last`.
pub fn set_last(last: i32) {
    TABLE.lock().last = last;
}
