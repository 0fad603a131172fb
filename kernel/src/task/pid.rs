//! Process identifiers: allocation and lookup.
//!
//! One table maps a number to everything that goes by it: a thread, the process it leads, a process group and a session. The number is
//! free again when all of them are gone. The table is a radix of two levels, so that it grows with the number in use and a lookup is
//! two loads under a lock that is held for a few instructions.

use super::session::{ProcessGroup, Session};
use super::{Process, Task};
use crate::sync::IrqSpinLock;
use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicI32, Ordering};
use limen_linux_abi::Errno;

/// The most `pid_max` can be (`PID_MAX_LIMIT`).
pub const PID_MAX_LIMIT: i32 = 4 * 1024 * 1024;
/// Numbers below this are not reused when allocation wraps around.
const RESERVED: i32 = 300;
/// Numbers of one leaf.
const LEAF: usize = 256;

/// One past the largest number given out (`/proc/sys/kernel/pid_max`).
pub static PID_MAX: AtomicI32 = AtomicI32::new(32768);

#[derive(Default)]
struct Slot {
    used: bool,
    task: Option<Arc<Task>>,
    /// Stays after the leader's exit until it was waited for.
    process: Option<Arc<Process>>,
    group: Option<Weak<ProcessGroup>>,
    session: Option<Weak<Session>>,
}

struct Leaf {
    used: usize,
    /// `LEAF` of them, made in place: as an array they would pass over the stack.
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

    fn take(&mut self, pid: i32) -> Result<(), Errno> {
        let leaf = pid as usize / LEAF;
        if self.leaves.len() <= leaf {
            let more = leaf + 1 - self.leaves.len();
            self.leaves.try_reserve(more).map_err(|_| Errno::ENOMEM)?;
            self.leaves.resize_with(leaf + 1, || None);
        }
        let leaf = self.leaves[leaf].get_or_insert_with(|| Leaf {
            used: 0,
            slots: core::iter::repeat_with(Slot::default).take(LEAF).collect(),
        });
        leaf.used += 1;
        leaf.slots[pid as usize % LEAF].used = true;
        Ok(())
    }

    /// Frees the number if nothing goes by it any more.
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

/// Takes a free number. `EAGAIN` if there is none.
pub fn allocate() -> Result<i32, Errno> {
    let max = PID_MAX.load(Ordering::Relaxed);
    let mut table = TABLE.lock();
    let from = table.last + 1;
    let floor = if from > RESERVED { RESERVED } else { 1 };
    let pid = table
        .find_free(from.min(max), max)
        .or_else(|| table.find_free(floor, from.min(max)))
        .ok_or(Errno::EAGAIN)?;
    table.take(pid)?;
    table.last = pid;
    Ok(pid)
}

/// Takes the number `pid`, which a caller with the right privilege asked for (`set_tid`). `EEXIST` if it is in use.
pub fn allocate_exact(pid: i32) -> Result<i32, Errno> {
    if pid < 1 || pid >= PID_MAX.load(Ordering::Relaxed) {
        return Err(Errno::EINVAL);
    }
    let mut table = TABLE.lock();
    if table.slot(pid).is_some() {
        return Err(Errno::EEXIST);
    }
    table.take(pid)?;
    Ok(pid)
}

/// Gives back a number nothing was registered under.
pub fn release(pid: i32) {
    TABLE.lock().release(pid);
}

/// Makes a thread findable; `leader` also its process.
pub fn register(task: &Arc<Task>, leader: bool) {
    let mut table = TABLE.lock();
    if let Some(slot) = table.slot_mut(task.tid()) {
        slot.task = Some(task.clone());
        if leader {
            slot.process = Some(task.process.clone());
        }
    }
}

/// A thread is gone.
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

/// A process was waited for.
pub fn forget_process(pid: i32) {
    let gone;
    {
        let mut table = TABLE.lock();
        gone = table.slot_mut(pid).and_then(|slot| slot.process.take());
        table.release(pid);
    }
    drop(gone);
}

/// Enters a process group or, with `None`, takes it out.
pub fn set_group(id: i32, group: Option<&Arc<ProcessGroup>>) {
    let mut table = TABLE.lock();
    if let Some(slot) = table.slot_mut(id) {
        slot.group = group.map(Arc::downgrade);
    }
    table.release(id);
}

/// Enters a session or, with `None`, takes it out.
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

/// The process with id `pid`, also while it is a zombie.
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

/// The process with the smallest id that is at least `from`: for walks over all processes (`/proc`).
pub fn next_process(from: i32) -> Option<Arc<Process>> {
    let table = TABLE.lock();
    let from = from.max(1) as usize;
    let mut leaf = from / LEAF;
    let mut first = from % LEAF;
    while leaf < table.leaves.len() {
        if let Some(slots) = &table.leaves[leaf]
            && let Some(process) = slots.slots[first..].iter().find_map(|slot| slot.process.as_ref())
        {
            return Some(process.clone());
        }
        leaf += 1;
        first = 0;
    }
    None
}

/// All processes, ascending by id, zombies included.
pub fn all_processes() -> Vec<Arc<Process>> {
    let mut all = Vec::new();
    let mut from = 1;
    while let Some(process) = next_process(from) {
        from = process.tgid + 1;
        all.push(process);
    }
    all
}

/// The number given out last (`/proc/loadavg`).
pub fn last() -> i32 {
    TABLE.lock().last
}
