//! `semctl`, and what `/proc/sysvipc/sem` shows.

use super::undo::Undo;
use super::{LARGEST, Semaphore, Set, State, Table, now, tgid};
use crate::ipc::ns::own_sem;
use crate::ipc::object::{Object, Stat};
use crate::ipc::perm::{self, Permissions};
use crate::ipc::{IPC_INFO, IPC_RMID, IPC_SET, IPC_STAT};
use crate::mm::reserve;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use limen_linux_abi::abi::ipc::{Semaphores, Seminfo};
use limen_linux_abi::{Errno, SysResult};

/// What to do with a set.
#[derive(Clone, Copy)]
pub enum Command {
    /// The limits; with what is used.
    Info(bool),
    /// Describe it.
    Stat(Stat),
    /// Something of one semaphore.
    One(Question),
    /// The values of all.
    GetAll,
    /// Set the value of one.
    SetValue,
    /// Set the values of all.
    SetAll,
    /// Change owner and mode.
    Set,
    /// Remove it.
    Remove,
}

/// What can be asked of a semaphore.
#[derive(Clone, Copy)]
pub enum Question {
    /// Its value.
    Value,
    /// Who changed it last.
    Pid,
    /// How many threads wait for a larger value.
    Larger,
    /// How many threads wait for zero.
    Zero,
}

impl Command {
    /// Command `number`. `EINVAL`: there is no such.
    pub fn new(number: i32) -> Result<Self, Errno> {
        const SEM_STAT: i32 = 18;
        const SEM_INFO: i32 = 19;
        const SEM_STAT_ANY: i32 = 20;
        Ok(match number {
            IPC_INFO | SEM_INFO => Self::Info(number == SEM_INFO),
            IPC_STAT | SEM_STAT | SEM_STAT_ANY => Self::Stat(Stat {
                by_index: number != IPC_STAT,
                any: number == SEM_STAT_ANY,
            }),
            IPC_SET => Self::Set,
            IPC_RMID => Self::Remove,
            11 => Self::One(Question::Pid),
            12 => Self::One(Question::Value),
            13 => Self::GetAll,
            14 => Self::One(Question::Larger),
            15 => Self::One(Question::Zero),
            16 => Self::SetValue,
            17 => Self::SetAll,
            _ => return Err(Errno::EINVAL),
        })
    }
}

/// What `semctl` writes to the program's memory.
pub enum Out {
    /// Nothing.
    Nothing,
    /// The limits.
    Info(Seminfo),
    /// A set.
    Set(Semaphores),
    /// All values.
    Values(Vec<u16>),
}

/// What is left of a set that was removed.
pub(super) type Gone = (Option<Arc<Set>>, Vec<Semaphore>, Vec<Arc<Undo>>);

impl Set {
    fn shown(&self, state: &State) -> Semaphores {
        Semaphores {
            perm: state.perm.shown(self.id.load(Relaxed)),
            otime: state.otime,
            ctime: state.ctime,
            count: self.count as u64,
        }
    }

    /// Removes it. Its lock is held; the caller drops the result without.
    pub(super) fn end(&self, state: &mut State) -> Gone {
        if state.perm.gone {
            return (None, Vec::new(), Vec::new());
        }
        state.perm.gone = true;
        state.end_all();
        self.table.count.fetch_sub(self.count, Relaxed);
        let gone = self.table.ids.remove(self, state.perm.key);
        // Threads that end, and have something to undo, hold the set until then.
        let semaphores = core::mem::take(&mut state.semaphores);
        (gone, semaphores, core::mem::take(&mut state.undos))
    }

    fn number(&self, number: i32) -> Result<usize, Errno> {
        let number = usize::try_from(number).map_err(|_| Errno::EINVAL)?;
        if number < self.count {
            Ok(number)
        } else {
            Err(Errno::EINVAL)
        }
    }
}

impl Table {
    /// All sets, one after the other.
    pub fn each(&self, mut f: impl FnMut(&Semaphores, i32)) {
        self.ids.each(|set| {
            let shown = set.shown(&set.state.lock());
            f(&shown, set.id.load(Relaxed));
        });
    }
}

fn info(table: &Table, used: bool) -> Seminfo {
    const SIZE_OF_UNDO: i32 = 20;
    let operations = table.max_operations.load(Relaxed);
    Seminfo {
        semmap: 32000 * 32000,
        semmni: table.max_sets.load(Relaxed),
        semmns: table.max_of_all.load(Relaxed),
        semmnu: 32000 * 32000,
        semmsl: table.max_of_set.load(Relaxed),
        semopm: operations,
        semume: 500,
        semusz: if used {
            table.ids.count() as i32
        } else {
            SIZE_OF_UNDO
        },
        semvmx: LARGEST,
        semaem: if used {
            table.count.load(Relaxed) as i32
        } else {
            LARGEST
        },
    }
}

/// `semctl` but for setting values. `new`: what [`Command::Set`] sets.
pub fn control(id: i32, number: i32, command: Command, new: &Permissions) -> Result<(usize, Out), Errno> {
    let table = own_sem();
    let ids = &table.ids;
    Ok(match command {
        Command::Info(used) => (ids.highest(), Out::Info(info(&table, used))),
        Command::Stat(stat) => {
            let (id, set) = ids.describe(id, stat, |set, state| set.shown(state))?;
            (id, Out::Set(set))
        }
        Command::One(question) => {
            let set = ids.find(id)?;
            let answer = set.with(perm::READ, |state| {
                let number = set.number(number)?;
                let Semaphore { value, pid } = &state.semaphores[number];
                Ok(match question {
                    Question::Value => *value as usize,
                    Question::Pid => pid.here() as usize,
                    Question::Larger => state.waiters(number, false),
                    Question::Zero => state.waiters(number, true),
                })
            })?;
            (answer, Out::Nothing)
        }
        Command::GetAll => {
            let set = ids.find(id)?;
            let mut values = Vec::new();
            reserve::room_exact(&mut values, set.count)?;
            set.with(perm::READ, |state| {
                values.extend(state.semaphores.iter().map(|semaphore| semaphore.value as u16));
                Ok(())
            })?;
            (0, Out::Values(values))
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
            let set: Arc<Set> = ids.find(id)?;
            set.changing(|state| Ok(set.end(state)))?;
            (0, Out::Nothing)
        }
        Command::SetValue | Command::SetAll => return Err(Errno::EINVAL),
    })
}

/// `SETVAL`. Errors: `ERANGE`, `EINVAL`, `EACCES`, `EIDRM`.
pub fn set_value(id: i32, number: i32, value: i32) -> SysResult {
    if !(0..=LARGEST).contains(&value) {
        return Err(Errno::ERANGE);
    }
    let set = own_sem().ids.find(id)?;
    let number = set.number(number)?;
    set.with(perm::WRITE, |state| {
        state.undos.iter().for_each(|undo| undo.forget(Some(number)));
        state.semaphores[number] = Semaphore { value, pid: tgid() };
        state.ctime = now();
        state.go_on_all();
        Ok(0)
    })
}

/// `SETALL`. `read` reads as many values as it is asked for. Errors: `EINVAL`, `EACCES`, `ERANGE`, `EIDRM`,
/// `ENOMEM`, those of `read`.
pub fn set_all(id: i32, read: impl FnOnce(usize) -> Result<Vec<u16>, Errno>) -> SysResult {
    let set = own_sem().ids.find(id)?;
    set.with(perm::WRITE, |_| Ok(()))?;
    let values = read(set.count)?;
    if values.iter().any(|&value| i32::from(value) > LARGEST) {
        return Err(Errno::ERANGE);
    }
    // Linux has looked at the permissions before.
    set.with(0, |state| {
        state.undos.iter().for_each(|undo| undo.forget(None));
        let pid = tgid();
        for (semaphore, &value) in state.semaphores.iter_mut().zip(&values) {
            *semaphore = Semaphore {
                value: value.into(),
                pid: pid.clone(),
            };
        }
        state.ctime = now();
        state.go_on_all();
        Ok(0)
    })
}
