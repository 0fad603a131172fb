//! Process groups and sessions, and the controlling terminal of a session.

use super::ns::pid::{Id, Numbers, PidRef, number_in};
use super::process::Number;
use super::{Process, pid};
use crate::sched::WaitQueue;
use crate::sync::IrqSpinLock;
use alloc::sync::{Arc, Weak};
use core::any::Any;
use core::sync::atomic::Ordering;
use limen_range_tree::{Node, NodeBox, Place, Range, RangeTree};

/// A terminal, as a session uses it. The terminal driver implements it.
pub trait Terminal: Send + Sync {
    /// `tty_nr` of `/proc/pid/stat`: the device number, packed as `new_encode_dev` does.
    fn number(&self) -> u32;
    /// Its name, as in `/dev`.
    fn name(&self) -> &str;
    /// The id of the foreground process group, 0 for none.
    fn foreground(&self) -> i32;
    /// The session's leader exits: forgets session and foreground group. The caller sends the signals.
    fn disassociate(&self);
    /// For the driver, which gets its own type back (`/dev/tty`, `TIOCSCTTY`).
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// A session: process groups that share a controlling terminal.
pub struct Session {
    /// Its id: that of the leader that made it.
    pub id: i32,
    numbers: Option<Arc<Numbers>>,
    /// The controlling terminal.
    pub ctty: IrqSpinLock<Option<Arc<dyn Terminal>>>,
    /// If the terminal went away: the group that was in its foreground.
    left_behind: IrqSpinLock<Weak<ProcessGroup>>,
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.id > 0 {
            pid::forget_session(self);
        }
    }
}

impl Session {
    /// A new session, led by process `leader`. It can be found at once.
    pub fn new(leader: Id) -> Arc<Self> {
        let (id, numbers) = leader.into_parts();
        let session = Arc::new(Self {
            id,
            numbers,
            ctty: IrqSpinLock::new(None),
            left_behind: IrqSpinLock::new(Weak::new()),
        });
        if id > 0 {
            pid::set_session(id, &session);
        }
        session
    }

    /// Notes the group to be signalled when the leader ends, as its terminal has gone away. Returns the one
    /// noted before, if that still exists.
    pub fn set_left_behind(&self, group: Option<&Arc<ProcessGroup>>) -> Option<Arc<ProcessGroup>> {
        let new = group.map_or_else(Weak::new, Arc::downgrade);
        let old = core::mem::replace(&mut *self.left_behind.lock(), new);
        old.upgrade()
    }

    /// Its id in `ns`. 0: it is not seen from there.
    #[inline]
    pub fn number_in(&self, ns: &PidRef) -> i32 {
        number_in(self.id, &self.numbers, ns)
    }

    /// What it is called by.
    pub fn name(&self) -> Id {
        Id::new(self.id, &self.numbers)
    }

    /// The controlling terminal, if there is one.
    pub fn terminal(&self) -> Option<Arc<dyn Terminal>> {
        self.ctty.lock().clone()
    }
}

/// A process group: processes to which a terminal sends signals together.
pub struct ProcessGroup {
    /// Its id: that of the process that made it.
    pub id: i32,
    numbers: Option<Arc<Numbers>>,
    /// Its session, which never changes.
    pub session: Arc<Session>,
    members: IrqSpinLock<Members>,
    /// Forks that wait until signals to the group have been sent.
    forks: WaitQueue,
}

/// The processes of a group.
struct Members {
    /// Sorted by the time when they joined, and by id.
    tree: RangeTree<Number, Weak<Process>>,
    next: u64,
    sendings: Sendings,
}

/// How many signals are being sent to all members. Those that begin in even and in odd turns are counted
/// separately. A fork that waits begins a new turn: the count of the turn before can then only fall, however
/// many signals are sent.
#[derive(Default)]
struct Sendings {
    turn: u64,
    active: [u32; 2],
}

impl Sendings {
    fn of(&mut self, turn: u64) -> &mut u32 {
        &mut self.active[(turn & 1) as usize]
    }

    /// Whether all signals that were being sent in turn `since` have been sent.
    fn over(&mut self, since: u64) -> bool {
        while self.turn < since + 2 && *self.of(self.turn + 1) == 0 {
            self.turn += 1;
        }
        self.turn >= since + 2
    }
}

/// A signal that is being sent to all members of a group: an iterator over the members, one after the other.
/// A process that a member makes meanwhile is not missed:
///
/// - Its place is reserved first, behind that of its parent. It joins the group when all signals that began
///   to be sent before have been sent. These have reached its parent: either the signal was kept for the new
///   process ([`crate::signal::queue_to_member`]), or the parent had it before it began to fork.
/// - A signal that begins to be sent later reaches the parent first and the new process's place afterwards.
///   Either the new process has joined by then, or the signal was kept for it when it reached the parent.
pub struct Sending {
    group: Arc<ProcessGroup>,
    turn: u64,
    end: u64,
    after: Option<Place<Number>>,
}

impl Iterator for Sending {
    type Item = Arc<Process>;

    fn next(&mut self) -> Option<Arc<Process>> {
        self.group.member_behind(&mut self.after, self.end)
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        let last = {
            let mut members = self.group.members.lock();
            let active = members.sendings.of(self.turn);
            *active -= 1;
            *active == 0
        };
        if last {
            self.group.forks.wake_all();
        }
    }
}

/// A place in a group for a process that is being made.
pub struct ReservedPlace {
    /// The group.
    pub group: Arc<ProcessGroup>,
    at: u64,
}

impl ReservedPlace {
    /// Whether the place is behind that of `parent`, in `parent`'s group. [`TREE`](super::process::TREE) is
    /// locked.
    pub(super) fn is_behind(&self, parent: &Process) -> bool {
        Arc::ptr_eq(&parent.group(), &self.group) && parent.member_at.load(Ordering::Relaxed) < self.at
    }

    /// `process` takes the place.
    pub(super) fn take(self, process: &Process, node: MemberNode) -> Arc<ProcessGroup> {
        self.group.members.lock().insert(self.at, process, node);
        self.group
    }
}

impl Members {
    fn reserve(&mut self) -> u64 {
        let at = self.next;
        self.next += 1;
        at
    }

    fn insert(&mut self, at: u64, process: &Process, mut node: MemberNode) {
        (node.range_mut().first, node.range_mut().last) = (at, at);
        self.tree.insert(node);
        process.member_at.store(at, Ordering::Relaxed);
    }
}

/// A process's node in its group's tree. Made before any lock is taken.
pub type MemberNode = NodeBox<Number, Weak<Process>>;

/// Makes the node of `process`.
pub fn member_node(process: &Arc<Process>) -> MemberNode {
    Node::must(Range {
        first: 0,
        last: 0,
        key: Number(process.tgid),
        value: Arc::downgrade(process),
    })
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if self.id > 0 {
            pid::forget_group(self);
        }
    }
}

impl ProcessGroup {
    /// A new group without members, named after process `maker`. It can be found at once.
    pub fn new(maker: Id, session: Arc<Session>) -> Arc<Self> {
        let (id, numbers) = maker.into_parts();
        let group = Arc::new(Self {
            id,
            numbers,
            session,
            members: IrqSpinLock::new(Members {
                tree: RangeTree::new(),
                next: 0,
                sendings: Sendings::default(),
            }),
            forks: WaitQueue::new(),
        });
        if id > 0 {
            pid::set_group(id, &group);
        }
        group
    }

    /// Its id in `ns`. 0: it is not seen from there.
    #[inline]
    pub fn number_in(&self, ns: &PidRef) -> i32 {
        number_in(self.id, &self.numbers, ns)
    }

    /// What it is called by.
    pub fn name(&self) -> Id {
        Id::new(self.id, &self.numbers)
    }

    /// Adds a process.
    pub fn join(&self, process: &Arc<Process>, node: MemberNode) {
        let mut members = self.members.lock();
        let at = members.reserve();
        members.insert(at, process, node);
    }

    /// Reserves a place and waits until all signals have been sent whose sending began before. Sleeps, but
    /// not for long: senders do not wait.
    pub fn reserve(self: Arc<Self>) -> ReservedPlace {
        let (at, turn) = {
            let mut members = self.members.lock();
            (members.reserve(), members.sendings.turn)
        };
        if !self.members.lock().sendings.over(turn) {
            self.forks
                .wait_until_uninterruptible(|| self.members.lock().sendings.over(turn));
        }
        ReservedPlace { group: self, at }
    }

    /// Removes a process whose place was `at`.
    pub fn leave(&self, process: &Process, at: u64) {
        let node = self.members.lock().tree.remove((at, Number(process.tgid)));
        drop(node);
    }

    /// The members. The walk holds no lock: of those that are members now it visits each that still is when
    /// its turn comes.
    pub fn members(&self) -> impl Iterator<Item = Arc<Process>> {
        let end = self.members.lock().next;
        let mut after = None;
        core::iter::from_fn(move || self.member_behind(&mut after, end))
    }

    /// [`Self::members`] for sending a signal to all of them. In any context.
    pub fn sending(self: Arc<Self>) -> Sending {
        let mut members = self.members.lock();
        let (turn, end) = (members.sendings.turn, members.next);
        *members.sendings.of(turn) += 1;
        drop(members);
        Sending {
            group: self,
            turn,
            end,
            after: None,
        }
    }

    /// The first member behind `after` with a place before `end`. Sets `after` to its place.
    fn member_behind(&self, after: &mut Option<Place<Number>>, end: u64) -> Option<Arc<Process>> {
        loop {
            let next = {
                let members = self.members.lock();
                let found = match *after {
                    None => members.tree.first(),
                    Some(after) => members.tree.behind(after),
                };
                let member = found.filter(|member| member.first < end)?;
                *after = Some(member.place());
                member.value.upgrade()
            };
            if next.is_some() {
                return next;
            }
        }
    }
}
