//! Process groups and sessions, and the controlling terminal that binds them to a terminal driver.

use super::{Process, pid};
use crate::sync::IrqSpinLock;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::any::Any;

/// A terminal as a session sees it; implemented by the terminal driver.
pub trait Terminal: Send + Sync {
    /// `tty_nr` of `/proc/pid/stat`: the device number as `new_encode_dev` packs it.
    fn number(&self) -> u32;
    /// The foreground process group, 0 if there is none.
    fn foreground(&self) -> i32;
    /// The session's leader exits: the driver forgets session and foreground group (the task room sends the signals).
    fn disassociate(&self);
    /// For the driver's own code, to get its type back (`/dev/tty`, `TIOCSCTTY`).
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// A session: process groups that share a controlling terminal.
pub struct Session {
    /// Its id: the process id of the leader that made it.
    pub id: i32,
    /// The controlling terminal.
    pub ctty: IrqSpinLock<Option<Arc<dyn Terminal>>>,
    /// The group that was in the foreground of a terminal that went away.
    left_behind: IrqSpinLock<Weak<ProcessGroup>>,
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.id > 0 {
            pid::set_session(self.id, None);
        }
    }
}

impl Session {
    /// A new session led by process `id`, findable at once.
    pub fn new(id: i32) -> Arc<Self> {
        let session = Arc::new(Self {
            id,
            ctty: IrqSpinLock::new(None),
            left_behind: IrqSpinLock::new(Weak::new()),
        });
        if id > 0 {
            pid::set_session(id, Some(&session));
        }
        session
    }

    /// Notes the group that is told when the leader ends, because its terminal went away before; the one noted until now, if it still exists.
    pub fn set_left_behind(&self, group: Option<&Arc<ProcessGroup>>) -> Option<Arc<ProcessGroup>> {
        let new = group.map_or_else(Weak::new, Arc::downgrade);
        let old = core::mem::replace(&mut *self.left_behind.lock(), new);
        old.upgrade()
    }

    /// The controlling terminal, if there is one.
    pub fn terminal(&self) -> Option<Arc<dyn Terminal>> {
        self.ctty.lock().clone()
    }
}

/// A process group: the processes that get a terminal's signals together.
pub struct ProcessGroup {
    /// Its id: the process id of the process that made it.
    pub id: i32,
    /// The session it belongs to, for good.
    pub session: Arc<Session>,
    /// Its processes; dead ones are pruned on the way.
    members: IrqSpinLock<Vec<Weak<Process>>>,
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if self.id > 0 {
            pid::set_group(self.id, None);
        }
    }
}

impl ProcessGroup {
    /// A new, empty group, findable at once.
    pub fn new(id: i32, session: Arc<Session>) -> Arc<Self> {
        let group = Arc::new(Self {
            id,
            session,
            members: IrqSpinLock::new(Vec::new()),
        });
        if id > 0 {
            pid::set_group(id, Some(&group));
        }
        group
    }

    /// Adds a process.
    pub fn join(&self, process: &Arc<Process>) {
        let mut members = self.members.lock();
        if members.len() == members.capacity() {
            members.retain(|member| member.strong_count() > 0);
        }
        members.push(Arc::downgrade(process));
    }

    /// Removes a process.
    pub fn leave(&self, process: &Process) {
        self.members
            .lock()
            .retain(|member| !core::ptr::eq(member.as_ptr(), process));
    }

    /// The processes now in the group.
    pub fn members(&self) -> Vec<Arc<Process>> {
        self.members.lock().iter().filter_map(Weak::upgrade).collect()
    }
}
