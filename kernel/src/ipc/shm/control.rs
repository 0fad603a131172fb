//! `shmctl`, and what `/proc/sysvipc/shm` shows.

use super::{SHM_LOCKED, Segment, State, Table};
use crate::ipc::ns::own_shm;
use crate::ipc::object::{Object, Stat};
use crate::ipc::perm::Permissions;
use crate::ipc::{IPC_INFO, IPC_RMID, IPC_SET, IPC_STAT, now};
use crate::mm::{PAGE_SIZE, limits};
use crate::task::creds::cap;
use crate::task::current;
use crate::task::user::{Limit, LockedPages};
use core::sync::atomic::Ordering::Relaxed;
use limen_linux_abi::Errno;
use limen_linux_abi::abi::ipc::SharedMemory;
use limen_linux_abi::native::{ShmInfo, Shminfo64};

const SHM_LOCK: i32 = 11;
const SHM_UNLOCK: i32 = 12;
const SHM_STAT: i32 = 13;
const SHM_INFO: i32 = 14;
const SHM_STAT_ANY: i32 = 15;

/// What to do with a segment.
pub enum Command {
    /// The limits.
    Limits,
    /// What all segments use.
    Info,
    /// Describe one: by its index, whoever asks.
    Stat(Stat),
    /// Change owner and mode.
    Set,
    /// Remove it.
    Remove,
    /// Lock it in memory, or unlock it.
    Lock(bool),
}

impl Command {
    /// Command `number`. `EINVAL`: there is no such.
    pub fn new(number: i32) -> Result<Self, Errno> {
        Ok(match number {
            IPC_INFO => Self::Limits,
            SHM_INFO => Self::Info,
            IPC_STAT | SHM_STAT | SHM_STAT_ANY => Self::Stat(Stat {
                by_index: number != IPC_STAT,
                any: number == SHM_STAT_ANY,
            }),
            IPC_SET => Self::Set,
            IPC_RMID => Self::Remove,
            SHM_LOCK | SHM_UNLOCK => Self::Lock(number == SHM_LOCK),
            _ => return Err(Errno::EINVAL),
        })
    }
}

/// What `shmctl` writes to the program's memory.
pub enum Out {
    /// Nothing.
    Nothing,
    /// The limits.
    Limits(Shminfo64),
    /// What all segments use.
    Info(ShmInfo),
    /// A segment.
    Segment(SharedMemory),
}

impl Table {
    /// All segments, one after the other, with how many bytes of each are in memory.
    pub fn each(&self, mut f: impl FnMut(&SharedMemory, i32, u64)) {
        self.ids.each(|segment| {
            let shown = segment.shown(&segment.state.lock());
            let resident = segment.cache.resident() as u64 * PAGE_SIZE as u64;
            f(&shown, segment.id.load(Relaxed), resident);
        });
    }
}

/// `shmctl`. `new`: what [`Command::Set`] sets. Gives the result, and what is to be written.
pub fn control(id: i32, command: &Command, new: &Permissions) -> Result<(usize, Out), Errno> {
    let table = own_shm();
    let ids = &table.ids;
    let count = table.count.load(Relaxed) as u64;
    Ok(match *command {
        Command::Limits => {
            let (max, all) = (table.max.load(Relaxed) as u64, table.all.load(Relaxed) as u64);
            (ids.highest(), Out::Limits(Shminfo64::new(max, count, all)))
        }
        Command::Info => {
            let (mut used, mut resident) = (0, 0);
            table.each(|_, _, bytes| {
                used += 1;
                resident += bytes / PAGE_SIZE as u64;
            });
            let info = ShmInfo::new(used, table.pages.load(Relaxed) as u64, resident);
            (ids.highest(), Out::Info(info))
        }
        Command::Stat(stat) => {
            let (id, segment) = ids.describe(id, stat, |segment, state| segment.shown(state))?;
            (id, Out::Segment(segment))
        }
        Command::Set => {
            ids.find_to_set(id, new, 0)?.changing(|state| {
                state.perm.set(new)?;
                state.ctime = now();
                Ok(())
            })?;
            (0, Out::Nothing)
        }
        Command::Remove => {
            let segment = ids.find(id)?;
            segment.changing(|state| {
                if state.attached != 0 {
                    segment.is_to_end(state);
                    return Ok(None);
                }
                state.perm.gone = true;
                Ok(ids.remove(&segment, state.perm.key))
            })?;
            (0, Out::Nothing)
        }
        Command::Lock(lock) => {
            ids.find(id)?.lock_in_memory(lock)?;
            (0, Out::Nothing)
        }
    })
}

impl Segment {
    fn shown(&self, state: &State) -> SharedMemory {
        SharedMemory {
            perm: state.perm.shown(self.id().load(Relaxed)),
            size: self.size as u64,
            atime: state.atime,
            dtime: state.dtime,
            ctime: state.ctime,
            cpid: self.cpid.here(),
            lpid: state.lpid.here(),
            attached: state.attached,
        }
    }

    /// Memory is never taken from a segment: locking it has only to be allowed, counted and seen. `EPERM`;
    /// `ENOMEM`: all segments that the user has locked would be larger than what the process may lock. That
    /// limit protects the whole machine: only the capability in the initial user namespace exceeds it.
    fn lock_in_memory(&self, lock: bool) -> Result<(), Errno> {
        let creds = current().creds();
        let capable = creds.capable_in(&self.table.owner, cap::IPC_LOCK);
        let limit = limits::memlock();
        let most = if creds.capable(cap::IPC_LOCK) {
            Limit::NONE
        } else {
            Limit::of(limit / PAGE_SIZE as u64)
        };
        // Whichever is not the segment's at the end is dropped without its lock.
        let mut account = lock.then(|| LockedPages::nothing_of(&creds));
        let mut state = self.state.lock();
        if state.perm.gone {
            return Err(Errno::EIDRM);
        }
        if !capable && (!state.perm.is_owner(&creds) || lock && limit == 0) {
            return Err(Errno::EPERM);
        }
        if lock == state.locked.is_some() {
            return Ok(());
        }
        if let Some(account) = &mut account {
            account.take(self.size.div_ceil(PAGE_SIZE), most)?;
        }
        core::mem::swap(&mut state.locked, &mut account);
        if lock {
            state.perm.mode |= SHM_LOCKED;
        } else {
            state.perm.mode &= !SHM_LOCKED;
        }
        Ok(())
    }
}
