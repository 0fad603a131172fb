//! The queues of a CPU's runnable tasks: a heap sorted by virtual run time for the fair policies, a list per
//! priority for the real-time policies. The links are fields of the tasks. All is called with the run queue
//! locked.

use super::entity::SchedEntity;
use crate::sync::pairing::{HeapLink, PairingHeap};
use crate::task::Task;
use core::cell::Cell;
use core::mem::offset_of;
use core::ptr;

/// Place in the fair queue. The key is the virtual run time in nanoseconds: that of a task of nice 0.
pub type FairLink = HeapLink;

/// Place in a real-time queue.
pub struct RtLink {
    next: Cell<*const Task>,
    prev: Cell<*const Task>,
    /// The priority in whose list the task is.
    level: Cell<u8>,
}

// SAFETY: used only under the lock of the run queue in which the task is.
unsafe impl Sync for RtLink {}
// SAFETY: as for `Sync`.
unsafe impl Send for RtLink {}

impl RtLink {
    /// In no queue.
    pub const fn new() -> Self {
        Self {
            next: Cell::new(ptr::null()),
            prev: Cell::new(ptr::null()),
            level: Cell::new(0),
        }
    }
}

/// The fair queue.
pub struct FairQueue(PairingHeap);

impl FairQueue {
    /// Empty.
    pub const fn new() -> Self {
        Self(PairingHeap::new())
    }
    fn task_of(link: *const HeapLink) -> *const Task {
        const OFFSET: usize = offset_of!(Task, sched) + offset_of!(SchedEntity, fair);
        link.cast::<u8>().wrapping_sub(OFFSET).cast()
    }
    /// Queues a task with virtual runtime `key`.
    pub fn insert(&mut self, task: &Task, key: u64) {
        // SAFETY: the caller adds a task that is in no queue. The scheduler's reference keeps a queued task
        // alive.
        unsafe { self.0.insert(&task.sched.fair, key) }
    }
    /// Takes out the task with the least virtual run time.
    #[inline]
    pub fn pop(&mut self) -> Option<*const Task> {
        self.0.pop().map(Self::task_of)
    }
    /// The least virtual runtime.
    #[inline]
    pub fn least_key(&self) -> Option<u64> {
        self.0.least_key()
    }
    /// Takes out a task that is in this queue.
    pub fn remove(&mut self, task: &Task) {
        // SAFETY: the caller has checked under the run-queue lock that the task is in this queue.
        unsafe { self.0.remove(&task.sched.fair) }
    }
    /// A task for which `f` is true. Looks at a bounded number of tasks, so it may miss some.
    pub fn find(&self, mut f: impl FnMut(&Task) -> bool) -> Option<*const Task> {
        // SAFETY: queued tasks are alive.
        self.0
            .find(64, |l| f(unsafe { &*Self::task_of(l) }))
            .map(Self::task_of)
    }
}

/// Number of real-time priorities, 0 unused.
const LEVELS: usize = KERNEL_LEVEL as usize + 1;

/// The priority above all that programs can have, for threads of the kernel that all others may wait for. It
/// is never held back for fair tasks.
pub const KERNEL_LEVEL: u8 = 100;

/// The real-time queues.
pub struct RtQueue {
    /// Bit `n`: list `n` is not empty.
    nonempty: u128,
    /// It is the turn of the fair tasks (see [`fair::Turns`](super::fair::Turns)): no real-time task is
    /// chosen, except one of [`KERNEL_LEVEL`].
    pub held: bool,
    heads: [(*const Task, *const Task); LEVELS],
}

// SAFETY: the run queue's lock serialises access.
unsafe impl Send for RtQueue {}

impl RtQueue {
    /// Empty.
    pub const fn new() -> Self {
        Self {
            nonempty: 0,
            held: false,
            heads: [(ptr::null(), ptr::null()); LEVELS],
        }
    }
    /// Whether nothing is queued.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.nonempty == 0
    }
    /// The highest priority of the queued tasks; 0 if there is none, or if none may run now.
    #[inline(always)]
    pub fn highest(&self) -> u8 {
        if self.nonempty == 0 || self.held && self.nonempty >> KERNEL_LEVEL == 0 {
            0
        } else {
            127 - self.nonempty.leading_zeros() as u8
        }
    }
    /// Queues at the end, or at the front, of the list for priority `level`.
    pub fn insert(&mut self, task: &Task, level: u8, front: bool) {
        let level = level.clamp(1, LEVELS as u8 - 1);
        let link = &task.sched.rt;
        let (head, tail) = &mut self.heads[level as usize];
        link.level.set(level);
        // SAFETY: queued tasks are alive, and their links belong to this queue.
        unsafe {
            if front {
                link.next.set(*head);
                link.prev.set(ptr::null());
                match head.as_ref() {
                    Some(h) => h.sched.rt.prev.set(task),
                    None => *tail = task,
                }
                *head = task;
            } else {
                link.next.set(ptr::null());
                link.prev.set(*tail);
                match tail.as_ref() {
                    Some(t) => t.sched.rt.next.set(task),
                    None => *head = task,
                }
                *tail = task;
            }
        }
        self.nonempty |= 1 << level;
    }
    /// Takes out the first task of the highest priority.
    pub fn pop(&mut self) -> Option<*const Task> {
        let level = self.highest();
        if level == 0 {
            return None;
        }
        let task = self.heads[level as usize].0;
        // SAFETY: queued tasks are alive.
        self.remove(unsafe { &*task });
        Some(task)
    }
    /// Takes out a task that is in this queue.
    pub fn remove(&mut self, task: &Task) {
        let link = &task.sched.rt;
        let level = link.level.get();
        let (head, tail) = &mut self.heads[level as usize];
        // SAFETY: neighbours in the list are alive.
        unsafe {
            match link.prev.get().as_ref() {
                Some(p) => p.sched.rt.next.set(link.next.get()),
                None => *head = link.next.get(),
            }
            match link.next.get().as_ref() {
                Some(n) => n.sched.rt.prev.set(link.prev.get()),
                None => *tail = link.prev.get(),
            }
        }
        if head.is_null() {
            self.nonempty &= !(1 << level);
        }
    }
    /// A task for which `f` is true; of several, one of the highest priority.
    pub fn find(&self, mut f: impl FnMut(&Task) -> bool) -> Option<*const Task> {
        let mut left = self.nonempty;
        while left != 0 {
            let level = 127 - left.leading_zeros() as usize;
            left &= !(1 << level);
            let mut at = self.heads[level].0;
            // SAFETY: queued tasks are alive.
            while let Some(task) = unsafe { at.as_ref() } {
                if f(task) {
                    return Some(at);
                }
                at = task.sched.rt.next.get();
            }
        }
        None
    }
}
