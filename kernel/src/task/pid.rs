//! Process ids: allocating them and finding what they stand for.
//!
//! One table maps a number to all that has it: a thread, the process that it leads, a process group and a
//! session. The number is free when all of these are gone. The table is a radix tree of two levels. It grows
//! with the largest number in use.
//!
//! These numbers are those of the initial PID namespace, and every table of the kernel uses them. What is in
//! a namespace below has further numbers, one for each level ([`Numbers`]); [`in_ns`] and [`seen_from`] are
//! the doors between them. What is in the initial namespace has none, and nothing is translated for it.
//!
//! Threads and processes are looked up without a lock (`rcu::glance`): a lookup is three loads, and writes
//! only the count of what it found, if that is kept ([`with_task`] does not). They come and go under a lock.
//! Groups and sessions are looked up under that lock: whoever looks for one locks its members next.

use super::ns::pid::{Numbers, PidNs, PidRef};
use super::session::{ProcessGroup, Session};
use super::{Process, Task, current};
use crate::mm::reserve::{room_behind, room_exact};
use crate::rcu::{self, Former, Glance, Reader, Retire, Shared, Shown, glance};
use crate::sync::{IrqSpinLock, Once};
use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::ptr;
use core::sync::atomic::{AtomicI32, Ordering};
use limen_linux_abi::Errno;

/// The highest value of `pid_max` (`PID_MAX_LIMIT`).
pub const PID_MAX_LIMIT: i32 = if usize::BITS == 64 { 4 * 1024 * 1024 } else { 32768 };
/// Numbers below this one are not used again when allocation wraps around.
pub(super) const RESERVED: i32 = 300;
/// How many numbers a leaf has.
const LEAF: usize = 256;

/// Numbers must be below this (`/proc/sys/kernel/pid_max`).
pub static PID_MAX: AtomicI32 = AtomicI32::new(32768);

/// What is looked up by a number without a lock.
struct Slot {
    task: Shown<Task>,
    /// Stays after the leader's exit until a parent has waited for the process.
    process: Shown<Process>,
}

/// Where everybody finds the leaves.
struct Index {
    leaves: Box<[Once<&'static [Slot]>]>,
}

impl Index {
    /// With room for this many. `ENOMEM`.
    fn new(room: usize) -> Result<Self, Errno> {
        let mut leaves = Vec::new();
        room_exact(&mut leaves, room)?;
        leaves.resize_with(room, Once::new);
        Ok(Self {
            leaves: leaves.into_boxed_slice(),
        })
    }
    /// Shows a leaf. Under [`TABLE`]'s lock.
    fn show(&self, number: usize, leaf: &Leaf) {
        let _ = self.leaves[number].set(leaf.slots);
    }
}

impl Retire for Index {}

/// Replaced by a larger one under [`TABLE`]'s lock.
static INDEX: rcu::Slot<Index> = rcu::Slot::empty();

/// The slot of a number, if its leaf was ever made.
#[inline(always)]
fn slot(pid: i32, reader: &Reader) -> Option<&'static Slot> {
    let pid = usize::try_from(pid).ok()?;
    let slots: &'static [Slot] = INDEX.load(reader)?.leaves.get(pid / LEAF)?.get()?;
    slots.get(pid % LEAF)
}

/// What else has a number.
#[derive(Default)]
struct Others {
    used: bool,
    /// In whose namespaces a thread or process with the number is counted as being there.
    counted: bool,
    group: Option<Weak<ProcessGroup>>,
    session: Option<Weak<Session>>,
    /// The numbers in namespaces below the initial one that belong to it.
    numbers: Option<Arc<Numbers>>,
}

/// A leaf is there for good.
struct Leaf {
    used: usize,
    slots: &'static [Slot],
    /// `LEAF` of them. They are made on the heap directly: an array would first lie on the stack.
    others: Box<[Others]>,
}

/// What the lock protects.
struct Table {
    last: i32,
    leaves: Vec<Option<Leaf>>,
    /// For how many leaves the index has room.
    room: usize,
}

static TABLE: IrqSpinLock<Table> = IrqSpinLock::new(Table {
    last: 0,
    leaves: Vec::new(),
    room: 0,
});

impl Table {
    fn others(&mut self, pid: i32) -> Option<&mut Others> {
        let pid = usize::try_from(pid).ok()?;
        let others = &mut self.leaves.get_mut(pid / LEAF)?.as_mut()?.others[pid % LEAF];
        others.used.then_some(others)
    }

    /// The first free number in `from..to`.
    fn find_free(&self, from: i32, to: i32) -> Option<i32> {
        let (mut pid, to) = (from as usize, to as usize);
        while pid < to {
            match self.leaves.get(pid / LEAF) {
                Some(Some(leaf)) if leaf.used == LEAF => pid = (pid / LEAF + 1) * LEAF,
                Some(Some(leaf)) if leaf.others[pid % LEAF].used => pid += 1,
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
        leaf.others[pid as usize % LEAF].used = true;
        true
    }

    /// The leaf of a number, and the number's place in it.
    fn leaf(&mut self, pid: i32) -> Option<(&mut Leaf, usize)> {
        let leaf = self.leaves.get_mut(pid as usize / LEAF)?.as_mut()?;
        Some((leaf, pid as usize % LEAF))
    }

    /// Frees the number if nothing has it. What is returned is dropped without the lock.
    fn release(&mut self, pid: i32) -> Left {
        match self.leaf(pid) {
            Some((leaf, at)) => leaf.release(at),
            None => Left(None),
        }
    }

    /// The kernel-wide number of what has `number` in `ns`.
    fn in_ns(&self, ns: &PidNs, number: i32) -> Option<i32> {
        // Numbers are taken out of the namespace under the lock that `self` is behind.
        ns.find(number)
    }
}

/// The numbers in namespaces from which something has gone. Those who wait for that are woken when it is
/// dropped, without the table's lock.
#[must_use]
struct Left(Option<Arc<Numbers>>);

impl Drop for Left {
    #[inline]
    fn drop(&mut self) {
        if let Some(numbers) = self.0.take() {
            numbers.tell_of_end();
        }
    }
}

impl Leaf {
    /// [`Table::release`] for the number at a place.
    fn release(&mut self, at: usize) -> Left {
        let (slot, others) = (&self.slots[at], &mut self.others[at]);
        if !others.used || !slot.task.is_empty() || !slot.process.is_empty() {
            return Left(None);
        }
        let mut left = Left(None);
        if others.counted {
            others.counted = false;
            if let Some(numbers) = &others.numbers {
                numbers.uncount();
                numbers.end_without_init();
            }
            left.0.clone_from(&others.numbers);
        }
        if others.group.is_none() && others.session.is_none() {
            others.used = false;
            self.used -= 1;
            if let Some(numbers) = others.numbers.take() {
                numbers.give_back();
                left.0 = Some(numbers);
            }
        }
        left
    }
}

/// Makes the leaf for `pid`. Memory is allocated while the table is not locked. `ENOMEM`.
#[cold]
#[inline(never)]
fn make_leaf(pid: i32) -> Result<(), Errno> {
    let number = pid as usize / LEAF;
    let mut others = Vec::new();
    room_exact(&mut others, LEAF)?;
    others.resize_with(LEAF, Others::default);
    let mut slots = Vec::new();
    room_exact(&mut slots, LEAF)?;
    slots.resize_with(LEAF, || Slot {
        task: Shown::empty(),
        process: Shown::empty(),
    });
    let slots = slots.into_boxed_slice();
    loop {
        let (len, room) = {
            let table = TABLE.lock();
            (table.leaves.len(), table.room)
        };
        let larger = match number < room {
            true => None,
            false => Some(Shared::new(Index::new((number + 1).max(2 * room))?)),
        };
        let former;
        let more = (number + 1).saturating_sub(len);
        let mut table = room_behind(|| TABLE.lock(), |table| &mut table.leaves, more)?;
        if table.room != room {
            continue;
        }
        if table.leaves.len() <= number {
            table.leaves.resize_with(number + 1, || None);
        }
        if table.leaves[number].is_some() {
            return Ok(());
        }
        let leaf = Leaf {
            used: 0,
            slots: Box::leak(slots),
            others: others.into_boxed_slice(),
        };
        if let Some(larger) = larger {
            let all = table.leaves.iter().enumerate();
            for (number, leaf) in all.filter_map(|(number, leaf)| Some((number, leaf.as_ref()?))) {
                larger.show(number, leaf);
            }
            larger.show(number, &leaf);
            table.room = larger.leaves.len();
            former = INDEX.replace(Some(larger));
        } else {
            former = None;
            if let Some(index) = INDEX.load(&rcu::read()) {
                index.show(number, &leaf);
            }
        }
        table.leaves[number] = Some(leaf);
        drop(table);
        drop(former);
        return Ok(());
    }
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

/// What [`allocate_in`] has taken: the kernel-wide number, and those in the namespaces.
pub struct Taken {
    /// The kernel-wide number.
    pub number: i32,
    /// The numbers in namespaces. `None`: there are none below the initial one.
    pub numbers: Option<Arc<Numbers>>,
}

/// Takes free numbers in `ns` and in all above it. `set`: which ones, from `ns` upwards (`set_tid`); none
/// where it ends. `EINVAL`: one is none, or `set` has more than there are levels; `EPERM`: the caller has no
/// privilege in the user namespace that owns a level; `EEXIST`: one is in use; `EAGAIN`: there is no free
/// one; `ENOMEM`, also if the first process of `ns`, or of one above it, has ended.
pub fn allocate_in(ns: &PidRef, set: &[i32]) -> Result<Taken, Errno> {
    let Some(ns) = ns else {
        let number = match set {
            [] => allocate()?,
            [number] => allocate_exact(*number, || super::ns::pid::may_choose(&None))?,
            _ => return Err(Errno::EINVAL),
        };
        return Ok(Taken {
            number,
            numbers: None,
        });
    };
    allocate_below(ns, set)
}

#[cold]
#[inline(never)]
fn allocate_below(ns: &Arc<PidNs>, set: &[i32]) -> Result<Taken, Errno> {
    if set.len() > ns.level() as usize + 1 {
        return Err(Errno::EINVAL);
    }
    let numbers = Numbers::take(ns, set)?;
    let taken = match set.get(ns.level() as usize) {
        Some(number) => allocate_exact(*number, || super::ns::pid::may_choose(&None)),
        None => allocate(),
    };
    let number = match taken {
        Ok(number) => number,
        Err(error) => {
            numbers.uncount();
            numbers.give_back();
            numbers.tell_of_end();
            return Err(error);
        }
    };
    {
        let mut table = TABLE.lock();
        if let Some(others) = table.others(number) {
            numbers.stand_for(number);
            others.numbers = Some(numbers.clone());
            others.counted = true;
        }
    }
    if ns.is_closed() || !ns.has_init() && numbers.own() != 1 {
        release(number);
        return Err(Errno::ENOMEM);
    }
    Ok(Taken {
        number,
        numbers: Some(numbers),
    })
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
        if table.others(pid).is_some() {
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
    let left = TABLE.lock().release(pid);
    drop(left);
}

/// Makes a thread findable, under a number that is its own. `leader`: its process, too.
pub fn register(task: &Arc<Task>, leader: bool) {
    let Some(slot) = slot(task.tid(), &rcu::read()) else {
        return;
    };
    // The thread comes first: a process without it is taken for one whose leader has ended.
    slot.task.show(task.clone());
    // A thread that becomes the leader by exec finds its process there already.
    if leader && slot.process.is_empty() {
        slot.process.show(task.process.clone());
    }
}

/// Removes a thread. What is returned is dropped without locks: it may be the last reference.
pub fn forget_task(tid: i32) -> Former<Task> {
    let mut table = TABLE.lock();
    let Some((leaf, at)) = table.leaf(tid) else {
        return Former::nothing();
    };
    let gone = leaf.slots[at].task.replace(None);
    let left = leaf.release(at);
    drop(table);
    drop(left);
    gone
}

/// Removes a process for which a parent has waited. The caller has a reference to it.
pub fn forget_process(pid: i32) {
    let mut table = TABLE.lock();
    let Some((leaf, at)) = table.leaf(pid) else { return };
    let gone = leaf.slots[at].process.replace(None);
    let left = leaf.release(at);
    drop(table);
    drop((gone, left));
}

/// Sets the process group with this number.
pub fn set_group(id: i32, group: &Arc<ProcessGroup>) {
    if let Some(others) = TABLE.lock().others(id) {
        others.group = Some(Arc::downgrade(group));
    }
}

/// Removes a process group that ends. Another may have its number by now, which stays.
pub fn forget_group(group: &ProcessGroup) {
    let mut table = TABLE.lock();
    if let Some(others) = table.others(group.id) {
        others.group.take_if(|now| ptr::eq(now.as_ptr(), group));
    }
    let left = table.release(group.id);
    drop(table);
    drop(left);
}

/// Sets the session with this number.
pub fn set_session(id: i32, session: &Arc<Session>) {
    if let Some(others) = TABLE.lock().others(id) {
        others.session = Some(Arc::downgrade(session));
    }
}

/// Removes a session that ends, as [`forget_group`].
pub fn forget_session(session: &Session) {
    let mut table = TABLE.lock();
    if let Some(others) = table.others(session.id) {
        others.session.take_if(|now| ptr::eq(now.as_ptr(), session));
    }
    let left = table.release(session.id);
    drop(table);
    drop(left);
}

/// Whether a thread, process, group or session has this number.
pub fn is_used(id: i32) -> bool {
    TABLE.lock().others(id).is_some()
}

/// The thread with id `tid`.
pub fn find_task(tid: i32) -> Option<Arc<Task>> {
    let glance = glance();
    slot(tid, &glance)?.task.get(&glance)
}

/// The process with id `pid`, even if it is a zombie.
pub fn find_process(pid: i32) -> Option<Arc<Process>> {
    let glance = glance();
    slot(pid, &glance)?.process.get(&glance)
}

/// Calls `look` with the thread with id `tid`, which is not counted. `look` is a part of the glance: it must
/// be short, take no locks and not sleep.
pub fn with_task<R>(tid: i32, look: impl FnOnce(&Task, &Glance) -> R) -> Option<R> {
    let glance = glance();
    let task = slot(tid, &glance)?.task.look(&glance)?;
    Some(look(task, &glance))
}

/// The process group with id `id`.
pub fn find_group(id: i32) -> Option<Arc<ProcessGroup>> {
    TABLE.lock().others(id)?.group.as_ref()?.upgrade()
}

/// The session with id `id`.
pub fn find_session(id: i32) -> Option<Arc<Session>> {
    TABLE.lock().others(id)?.session.as_ref()?.upgrade()
}

/// The thread that has the number `tid` in the caller's namespace.
#[inline]
pub fn find_task_here(tid: i32) -> Option<Arc<Task>> {
    find_task_in(current().pid_ns(), tid)
}

/// The process that has the number `pid` in the caller's namespace, even if it is a zombie.
#[inline]
pub fn find_process_here(pid: i32) -> Option<Arc<Process>> {
    find_process_in(current().pid_ns(), pid)
}

/// The process group that has the number `id` in the caller's namespace.
#[inline]
pub fn find_group_here(id: i32) -> Option<Arc<ProcessGroup>> {
    match current().pid_ns() {
        None => find_group(id),
        Some(ns) => find_group_below(ns, id),
    }
}

#[cold]
#[inline(never)]
fn find_group_below(ns: &PidNs, id: i32) -> Option<Arc<ProcessGroup>> {
    let mut table = TABLE.lock();
    let number = table.in_ns(ns, id)?;
    table.others(number)?.group.as_ref()?.upgrade()
}

/// The thread that has the number `tid` in `ns`.
#[inline]
pub fn find_task_in(ns: &PidRef, tid: i32) -> Option<Arc<Task>> {
    match ns {
        None => find_task(tid),
        Some(ns) => find_in(ns, tid, |slot| &slot.task),
    }
}

/// The process that has the number `pid` in `ns`, even if it is a zombie.
#[inline]
pub fn find_process_in(ns: &PidRef, pid: i32) -> Option<Arc<Process>> {
    match ns {
        None => find_process(pid),
        Some(ns) => find_in(ns, pid, |slot| &slot.process),
    }
}

/// What `of` finds under a number in a namespace. The lock keeps the number that of the same thing.
#[cold]
#[inline(never)]
fn find_in<T: 'static>(
    ns: &PidNs,
    number: i32,
    of: impl Fn(&'static Slot) -> &'static Shown<T>,
) -> Option<Arc<T>> {
    let table = TABLE.lock();
    let number = table.in_ns(ns, number)?;
    let glance = glance();
    of(slot(number, &glance)?).get(&glance)
}

/// The kernel-wide number of what has `number` in `ns`. 0: nothing has it there. 0 and negative numbers stay
/// what they are.
#[inline]
pub fn in_ns(ns: &PidRef, number: i32) -> i32 {
    match ns {
        Some(ns) if number > 0 => in_ns_below(ns, number),
        _ => number,
    }
}

#[cold]
#[inline(never)]
fn in_ns_below(ns: &PidNs, number: i32) -> i32 {
    TABLE.lock().in_ns(ns, number).unwrap_or(0)
}

/// The number that what has the kernel-wide `number` has in `ns`. 0: it is not seen from there, or nothing
/// has the number any more. 0 and negative numbers stay what they are.
#[inline]
pub fn seen_from(ns: &PidRef, number: i32) -> i32 {
    match ns {
        Some(ns) if number > 0 => seen_below(ns, number),
        _ => number,
    }
}

#[cold]
#[inline(never)]
fn seen_below(ns: &PidNs, number: i32) -> i32 {
    let mut table = TABLE.lock();
    let numbers = table.others(number).and_then(|others| others.numbers.as_ref());
    numbers.map_or(0, |numbers| numbers.in_ns(ns))
}

/// The number in `ns` of what has the kernel-wide `number` and `numbers`. 0: it is not seen from there.
#[inline]
pub fn number_of(number: i32, numbers: &Option<Arc<Numbers>>, ns: &PidRef) -> i32 {
    super::ns::pid::number_in(number, numbers, ns)
}

/// Whether anything has this number in `ns` ([`is_used`]).
pub fn is_used_in(ns: &PidRef, id: i32) -> bool {
    match ns {
        None => is_used(id),
        Some(ns) => TABLE.lock().in_ns(ns, id).is_some(),
    }
}

/// The process with the smallest number in `ns` that is `from` or larger, and that number.
pub fn next_process_in(ns: &PidRef, from: i32) -> Option<(i32, Arc<Process>)> {
    let Some(ns) = ns else {
        return next(from, |slot| &slot.process);
    };
    let mut from = from.max(1);
    loop {
        let number = ns.next(from)?;
        if let Some(process) = find_in(ns, number, |slot| &slot.process) {
            return Some((number, process));
        }
        from = number + 1;
    }
}

/// The process with the smallest id that is `from` or larger. For walks over all processes (`/proc`).
pub fn next_process(from: i32) -> Option<Arc<Process>> {
    next(from, |slot| &slot.process).map(|(_, process)| process)
}

/// What `of` finds under the smallest number that is `from` or larger, and that number. (A thread that calls
/// exec gets another one meanwhile.)
fn next<T: 'static>(from: i32, of: impl Fn(&'static Slot) -> &'static Shown<T>) -> Option<(i32, Arc<T>)> {
    let from = from.max(1) as usize;
    let mut leaf = from / LEAF;
    let mut first = from % LEAF;
    loop {
        // One glance for each leaf, as others may wait for it.
        let glance = glance();
        if let Some(slots) = INDEX.load(&glance)?.leaves.get(leaf)?.get() {
            let slots: &'static [Slot] = slots;
            let mut rest = slots.iter().enumerate().skip(first);
            if let Some((at, found)) = rest.find_map(|(at, slot)| Some((at, of(slot).get(&glance)?))) {
                return Some(((leaf * LEAF + at) as i32, found));
            }
        }
        leaf += 1;
        first = 0;
    }
}

/// All threads, in the order of their ids. The walk holds no lock: it visits those that exist when their turn
/// comes.
pub fn all_tasks() -> impl Iterator<Item = Arc<Task>> {
    let mut from = 1;
    core::iter::from_fn(move || {
        let (tid, task) = next(from, |slot| &slot.task)?;
        from = tid + 1;
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

/// The number that was allocated last in the caller's namespace (`/proc/loadavg`).
pub fn last() -> i32 {
    match current().pid_ns() {
        None => TABLE.lock().last,
        Some(ns) => ns.last(),
    }
}

/// The kernel-wide number that was allocated last.
pub fn last_of_all() -> i32 {
    TABLE.lock().last
}

/// Makes the next number in the caller's namespace the first free one after `last` (`ns_last_pid`).
pub fn set_last(last: i32) {
    match current().pid_ns() {
        None => TABLE.lock().last = last,
        Some(ns) => ns.set_last(last),
    }
}
