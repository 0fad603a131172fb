//! `O_ASYNC`: a file's owner gets a signal when there is something to read or room to write.
//!
//! A file that can do this names its lists ([`FileOps::asyncs`](super::file::FileOps::asyncs)). Each list has
//! the files that want to hear of one direction. Whoever makes data or room available calls [`Async::tell`]
//! on the list; if the list is empty, that is a single load.

use crate::fs::file::File;
use crate::mm::reserve::room_behind;
use crate::signal::{self, SigInfo, SigSet, info};
use crate::sync::IrqSpinLock;
use crate::task::pid::{self, find_group_here, find_process_here, find_task_here};
use crate::task::session::ProcessGroup;
use crate::task::{Process, Task, current};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use limen_linux_abi::Errno;

/// The kind of event (`POLL_*`, the `si_code` of the signal).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Band {
    /// There is something to read.
    In = 1,
    /// There is room to write.
    Out = 2,
    /// Somebody wants what another has (a lease).
    Msg = 3,
    /// The other end was closed.
    Hup = 6,
}

impl Band {
    /// `si_band`: the bits that `poll` would report.
    fn bits(self) -> usize {
        match self {
            Self::In => 0x41,
            Self::Out => 0x304,
            Self::Msg => 0x441,
            Self::Hup => 0x18,
        }
    }
}

/// What owns a file (`F_OWNER_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// One thread.
    #[default]
    Thread = 0,
    /// A process.
    Process = 1,
    /// A process group.
    Group = 2,
}

/// A file's owner (`F_SETOWN`).
#[derive(Clone, Default)]
pub enum Target {
    /// None, or an id that nothing alive has.
    #[default]
    Nobody,
    /// One thread.
    Thread(Weak<Task>),
    /// A process that was named by its own id.
    Process(Weak<Process>),
    /// The process of a thread, named by the id of a thread that is not its leader.
    ProcessOf(Weak<Task>),
    /// A process group.
    Group(Weak<ProcessGroup>),
}

impl Target {
    /// The owner with id `id` in the caller's PID namespace, none for 0. `ESRCH`: nothing has this id.
    pub fn find(kind: Kind, id: i32) -> Result<Self, Errno> {
        if id == 0 {
            return Ok(Self::Nobody);
        }
        if id < 0 || !pid::is_used_in(current().pid_ns(), id) {
            return Err(Errno::ESRCH);
        }
        let task = || find_task_here(id).map(|task| Arc::downgrade(&task));
        let found = match kind {
            Kind::Thread => task().map(Self::Thread),
            Kind::Process => find_process_here(id)
                .map(|process| Self::Process(Arc::downgrade(&process)))
                .or_else(|| task().map(Self::ProcessOf)),
            Kind::Group => find_group_here(id).map(|group| Self::Group(Arc::downgrade(&group))),
        };
        // Otherwise the id is that of something that has ended, or of something of another kind.
        Ok(found.unwrap_or_default())
    }
    /// The id in the caller's PID namespace. 0: the owner has ended, or is not seen.
    fn number(&self) -> i32 {
        let me = current();
        let ns = me.pid_ns();
        match self {
            Self::Nobody | Self::ProcessOf(_) => 0,
            Self::Thread(task) => task.upgrade().map_or(0, |task| task.number_in(ns)),
            Self::Process(process) => living(process).map_or(0, |process| process.number_in(ns)),
            Self::Group(group) => group.upgrade().map_or(0, |group| group.number_in(ns)),
        }
    }
}

fn living(process: &Weak<Process>) -> Option<Arc<Process>> {
    process
        .upgrade()
        .filter(|process| process.exit_state() != crate::task::ExitState::Dead)
}

/// Whom to signal about a file, and how.
#[derive(Clone, Default)]
pub struct Owner {
    /// The kind that was given when the owner was set.
    kind: Kind,
    /// The owner.
    target: Target,
    /// The real and effective user id of the process that set the owner.
    users: [u32; 2],
    /// The signal. 0: `SIGIO` without details.
    pub signal: u32,
}

impl Owner {
    /// The running thread sets the owner.
    pub fn set(&mut self, kind: Kind, target: Target) {
        let creds = current().creds();
        self.users = [creds.uid, creds.euid];
        (self.kind, self.target) = (kind, target);
    }
    /// Kind and id. The id is 0 if there is no owner or it has ended.
    pub fn shown(&self) -> (Kind, i32) {
        (self.kind, self.target.number())
    }

    /// Whether nobody is said to be it.
    pub fn is_nobody(&self) -> bool {
        matches!(self.target, Target::Nobody)
    }

    /// Whether the user who set the owner may signal `process`.
    fn may_signal(&self, process: &Process) -> bool {
        self.users[1] == 0 || self.users.iter().any(|&user| process.has_user(user))
    }

    /// Sends the signal for a file that is open as descriptor `fd`. In any context.
    fn send(&self, fd: i32, band: Band) {
        match &self.target {
            Target::Nobody => {}
            Target::Thread(task) => {
                if let Some(task) = task.upgrade()
                    && self.may_signal(&task.process)
                {
                    self.send_by(fd, band, |sig, info| signal::queue_to_task(&task, sig, info));
                }
            }
            Target::Process(process) => {
                if let Some(process) = living(process) {
                    self.send_to(&process, fd, band);
                }
            }
            Target::ProcessOf(task) => {
                if let Some(task) = task.upgrade() {
                    self.send_to(&task.process, fd, band);
                }
            }
            Target::Group(group) => {
                for process in group.upgrade().into_iter().flat_map(ProcessGroup::sending) {
                    if self.may_signal(&process) {
                        self.send_by(fd, band, |sig, info| signal::queue_to_member(&process, sig, info));
                    }
                }
            }
        }
    }
    fn send_to(&self, process: &Arc<Process>, fd: i32, band: Band) {
        if self.may_signal(process) {
            self.send_by(fd, band, |sig, info| signal::queue_to_process(process, sig, info));
        }
    }
    /// Sends the chosen signal with details. If none was chosen, or there is no room for details, sends
    /// `SIGIO`.
    fn send_by(&self, fd: i32, band: Band, send: impl Fn(u32, SigInfo) -> Result<(), Errno>) {
        /// Signals whose codes have meanings of their own: for these the code is `SI_SIGIO`.
        const OWN_CODES: SigSet = SigSet::SYNCHRONOUS.with(signal::SIGCHLD);
        let sig = self.signal;
        if sig != 0 {
            let code = if OWN_CODES.has(sig) {
                info::code::SIGIO
            } else {
                band as i32
            };
            if send(sig, SigInfo::poll(sig, code, band.bits(), fd)).is_ok() {
                return;
            }
        }
        let _ = send(signal::SIGIO, SigInfo::kernel(signal::SIGIO));
    }
}

/// A file's owner. While a list is being told it may outlive the file.
pub struct OwnerCell(IrqSpinLock<Owner>);

impl OwnerCell {
    /// Without an owner.
    pub fn new() -> Self {
        Self(IrqSpinLock::new(Owner::default()))
    }
    /// The present owner.
    pub fn get(&self) -> Owner {
        self.0.lock().clone()
    }
    /// Signals it about the file that is open as `fd`, without locks of files.
    pub fn send(&self, fd: i32, band: Band) {
        self.get().send(fd, band);
    }
    /// Changes the owner.
    pub fn change(&self, change: impl FnOnce(&mut Owner)) {
        // The old owner is dropped without the lock.
        let _old = {
            let mut owner = self.0.lock();
            let old = owner.clone();
            change(&mut owner);
            old
        };
    }
}

/// A list of the files that want to hear of one kind of event, each with the descriptor that asked for it.
pub struct Async {
    any: AtomicBool,
    list: IrqSpinLock<Vec<(Arc<OwnerCell>, i32)>>,
}

impl Async {
    /// An empty list.
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub const fn new() -> Self {
        Self {
            any: AtomicBool::new(false),
            list: IrqSpinLock::new(Vec::new()),
        }
    }
    /// Whether the list is not empty.
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }
    /// Signals the owners. In any context, with no lock of a file held.
    #[inline(always)]
    pub fn tell(&self, band: Band) {
        if self.any() {
            self.signal(band);
        }
    }
    #[cold]
    #[inline(never)]
    fn signal(&self, band: Band) {
        for (owner, fd) in self.list.lock().iter() {
            let owner = owner.get();
            owner.send(*fd, band);
        }
    }
    /// Adds the file of `owner`, open as `fd`, or removes it (`None`). `ENOMEM`.
    fn set(&self, owner: &Arc<OwnerCell>, fd: Option<i32>) -> Result<(), Errno> {
        let mut list = match fd {
            Some(_) => room_behind(|| self.list.lock(), |list| list, 1)?,
            None => self.list.lock(),
        };
        let known = list.iter().position(|(known, _)| Arc::ptr_eq(known, owner));
        let mut gone = None;
        match (known, fd) {
            (Some(at), Some(fd)) => list[at].1 = fd,
            (Some(at), None) => gone = Some(list.swap_remove(at)),
            (None, Some(fd)) => list.push((owner.clone(), fd)),
            (None, None) => {}
        }
        self.any.store(!list.is_empty(), Ordering::Relaxed);
        drop(list);
        drop(gone);
        Ok(())
    }
}

/// `F_SETOWN_EX`. `ESRCH`: nothing has this id.
pub fn set_owner(file: &File, kind: Kind, id: i32) -> Result<(), Errno> {
    let target = Target::find(kind, id)?;
    file.set_owner(|owner| owner.set(kind, target));
    Ok(())
}

/// `F_SETOWN`: the id of a process or, if negative, of a process group.
pub fn set_signed_owner(file: &File, id: i32) -> Result<(), Errno> {
    if id >= 0 {
        return set_owner(file, Kind::Process, id);
    }
    set_owner(file, Kind::Group, id.checked_neg().ok_or(Errno::EINVAL)?)
}

/// `F_GETOWN`.
pub fn signed_owner(file: &File) -> i32 {
    match file.owner().shown() {
        (Kind::Group, id) => -id,
        (_, id) => id,
    }
}

/// The file is being closed: removes it from its lists.
pub(super) fn forget(file: &File, owner: &Arc<OwnerCell>) {
    file.ops().asyncs(&mut |list| {
        // Removing needs no memory.
        let _ = list.set(owner, None);
    });
}

/// Adds a file, open as `fd`, to its lists, or removes it. Returns whether it has lists. `ENOMEM`.
pub fn set(file: &File, fd: Option<i32>) -> Result<bool, Errno> {
    let owner = file.owner_cell();
    let mut result = Ok(());
    let has = file.ops().asyncs(&mut |list| {
        if result.is_ok() {
            result = list.set(&owner, fd);
        }
    });
    result?;
    if has && fd.is_some() {
        let first = file.ops().first_owner();
        owner.change(|owner| {
            if let (Target::Nobody, Some((kind, first))) = (&owner.target, first) {
                owner.set(kind, first);
            }
        });
    }
    Ok(has)
}
