//! `msgctl`, and what `/proc/sysvipc/msg` shows.

use super::{BYTES, COUNT, MAX, MAX_OF_QUEUE, MAX_QUEUES, QUEUES, Queue, State, now};
use crate::ipc::object::{Object, Stat};
use crate::ipc::perm::Permissions;
use crate::ipc::{IPC_INFO, IPC_RMID, IPC_SET, IPC_STAT};
use crate::task::creds::cap;
use crate::task::current;
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

impl Queue {
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

/// All queues, one after the other.
pub fn each(mut f: impl FnMut(&Messages, i32)) {
    QUEUES.each(|queue| {
        let shown = queue.shown(&queue.state.lock());
        f(&shown, queue.id.load(Relaxed));
    });
}

fn info(used: bool) -> Msginfo {
    const POOL: i32 = 32000 * 16384 / 1024;
    let of_queue = MAX_OF_QUEUE.load(Relaxed);
    Msginfo {
        msgpool: if used { QUEUES.count() as i32 } else { POOL },
        msgmap: if used { COUNT.load(Relaxed) as i32 } else { 16384 },
        msgmax: MAX.load(Relaxed),
        msgmnb: of_queue,
        msgmni: MAX_QUEUES.load(Relaxed),
        msgssz: 16,
        msgtql: if used { BYTES.load(Relaxed) as i32 } else { 16384 },
        msgseg: u16::MAX,
        ..Msginfo::default()
    }
}

/// `msgctl`. `new`: what [`Command::Set`] sets, and how many bytes the queue may have then.
pub fn control(id: i32, command: &Command, new: &(Permissions, u64)) -> Result<(usize, Out), Errno> {
    Ok(match *command {
        Command::Info(used) => (QUEUES.highest(), Out::Info(info(used))),
        Command::Stat(stat) => {
            let (id, queue) = QUEUES.describe(id, stat, |queue, state| queue.shown(state))?;
            (id, Out::Queue(queue))
        }
        Command::Set => {
            let (perm, bytes) = new;
            let may_more = current().creds().capable(cap::SYS_RESOURCE);
            let queue = QUEUES.find_to_set(id, perm, *bytes)?;
            queue.changing(|state| {
                if *bytes > MAX_OF_QUEUE.load(Relaxed).max(0) as u64 && !may_more {
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
            let queue = QUEUES.find(id)?;
            queue.changing(|state| {
                state.perm.gone = true;
                state.end_receivers(Errno::EIDRM);
                let messages = core::mem::take(&mut state.messages);
                COUNT.fetch_sub(messages.len(), Relaxed);
                BYTES.fetch_sub(core::mem::take(&mut state.bytes), Relaxed);
                Ok((messages, QUEUES.remove(&queue, state.perm.key)))
            })?;
            queue.senders.wake_all();
            (0, Out::Nothing)
        }
    })
}
