//! `msgctl`, and what `/proc/sysvipc/msg` shows.

use super::{Message, Queue, State, Table, now};
use crate::ipc::ns::own_msg;
use crate::ipc::object::{Object, Stat};
use crate::ipc::perm::Permissions;
use crate::ipc::{IPC_INFO, IPC_RMID, IPC_SET, IPC_STAT};
use crate::task::creds::cap;
use crate::task::current;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;
use limen_linux_abi::Errno;
use limen_linux_abi::abi::ipc::{Messages, Msginfo};

/// What to do with a queue.
pub enum Command {
    /// The limits; with what is used.
    Info(bool),
    /// Describe it.
    Stat(Stat),
    /// Change owner, mode and size.
    Set,
    /// Remove it.
    Remove,
}

impl Command {
    /// Command `number`. `EINVAL`: there is no such.
    pub fn new(number: i32) -> Result<Self, Errno> {
        const MSG_STAT: i32 = 11;
        const MSG_INFO: i32 = 12;
        const MSG_STAT_ANY: i32 = 13;
        Ok(match number {
            IPC_INFO | MSG_INFO => Self::Info(number == MSG_INFO),
            IPC_STAT | MSG_STAT | MSG_STAT_ANY => Self::Stat(Stat {
                by_index: number != IPC_STAT,
                any: number == MSG_STAT_ANY,
            }),
            IPC_SET => Self::Set,
            IPC_RMID => Self::Remove,
            _ => return Err(Errno::EINVAL),
        })
    }
}

/// What `msgctl` writes to the program's memory.
pub enum Out {
    /// Nothing.
    Nothing,
    /// The limits.
    Info(Msginfo),
    /// A queue.
    Queue(Messages),
}

/// What is left of a queue that was removed.
pub(super) type Gone = (VecDeque<Arc<Message>>, Option<Arc<Queue>>);

impl Queue {
    /// Removes it from its table. Its lock is held; the caller drops the result without, and wakes senders.
    pub(super) fn end(&self, table: &Table, state: &mut State) -> Gone {
        state.perm.gone = true;
        state.end_receivers(Errno::EIDRM);
        let messages = core::mem::take(&mut state.messages);
        table.count.fetch_sub(messages.len(), Relaxed);
        table.bytes.fetch_sub(core::mem::take(&mut state.bytes), Relaxed);
        (messages, table.ids.remove(self, state.perm.key))
    }

    fn shown(&self, state: &State) -> Messages {
        Messages {
            perm: state.perm.shown(self.id.load(Relaxed)),
            stime: state.stime,
            rtime: state.rtime,
            ctime: state.ctime,
            bytes: state.bytes as u64,
            count: state.messages.len() as u64,
            max_bytes: state.max_bytes as u64,
            lspid: state.lspid.here(),
            lrpid: state.lrpid.here(),
        }
    }
}

impl Table {
    /// All queues, one after the other.
    pub fn each(&self, mut f: impl FnMut(&Messages, i32)) {
        self.ids.each(|queue| {
            let shown = queue.shown(&queue.state.lock());
            f(&shown, queue.id.load(Relaxed));
        });
    }
}

fn info(table: &Table, used: bool) -> Msginfo {
    const POOL: i32 = 32000 * 16384 / 1024;
    let of_queue = table.max_of_queue.load(Relaxed);
    Msginfo {
        msgpool: if used { table.ids.count() as i32 } else { POOL },
        msgmap: if used {
            table.count.load(Relaxed) as i32
        } else {
            16384
        },
        msgmax: table.max.load(Relaxed),
        msgmnb: of_queue,
        msgmni: table.max_queues.load(Relaxed),
        msgssz: 16,
        msgtql: if used {
            table.bytes.load(Relaxed) as i32
        } else {
            16384
        },
        msgseg: u16::MAX,
        ..Msginfo::default()
    }
}

/// `msgctl`. `new`: what [`Command::Set`] sets, and how many bytes the queue may have then.
pub fn control(id: i32, command: &Command, new: &(Permissions, u64)) -> Result<(usize, Out), Errno> {
    let table = own_msg();
    let ids = &table.ids;
    Ok(match *command {
        Command::Info(used) => (ids.highest(), Out::Info(info(&table, used))),
        Command::Stat(stat) => {
            let (id, queue) = ids.describe(id, stat, |queue, state| queue.shown(state))?;
            (id, Out::Queue(queue))
        }
        Command::Set => {
            let (perm, bytes) = new;
            let may_more = current().creds().capable(cap::SYS_RESOURCE);
            let queue = ids.find_to_set(id, perm, *bytes)?;
            queue.changing(|state| {
                if *bytes > table.max_of_queue.load(Relaxed).max(0) as u64 && !may_more {
                    return Err(Errno::EPERM);
                }
                state.perm.set(perm)?;
                state.max_bytes = usize::try_from(*bytes).unwrap_or(usize::MAX);
                state.ctime = now();
                // They may no longer have the permission.
                state.end_receivers(Errno::EAGAIN);
                Ok(())
            })?;
            queue.senders.wake_all();
            (0, Out::Nothing)
        }
        Command::Remove => {
            let queue = ids.find(id)?;
            queue.changing(|state| Ok(queue.end(&table, state)))?;
            queue.senders.wake_all();
            (0, Out::Nothing)
        }
    })
}
