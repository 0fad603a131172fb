//! How large queues may be, and how many there may be (`/proc/sys/fs/mqueue`).

use super::messages::PRIORITIES;
use crate::ipc::ns::Place;
use crate::task::creds::cap;
use crate::task::current;
use crate::task::rlimit::which;
use crate::task::user::{Limit, QueueBytes};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::Relaxed};
use limen_linux_abi::Errno;

/// The limits of a namespace, and how many queues it has.
pub struct Table {
    /// `fs.mqueue.queues_max`: how many queues there may be, as an unsigned number.
    pub queues_max: AtomicI32,
    /// `fs.mqueue.msg_max`: how many messages a queue may have.
    pub msg_max: AtomicI32,
    /// `fs.mqueue.msgsize_max`: how long a message may be, in bytes.
    pub msgsize_max: AtomicI32,
    /// `fs.mqueue.msg_default`: how many messages a queue may have for which nothing else is asked.
    pub msg_default: AtomicI32,
    /// `fs.mqueue.msgsize_default`: how long a message may be then, in bytes.
    pub msgsize_default: AtomicI32,
    /// How many queues there are.
    queues: AtomicUsize,
    /// The namespace has ended: its directory may still be mounted.
    ended: AtomicBool,
}

/// Those of the initial namespace.
pub static INITIAL: Table = Table::new();

impl Table {
    /// Without queues.
    pub const fn new() -> Self {
        Self {
            queues_max: AtomicI32::new(256),
            msg_max: AtomicI32::new(10),
            msgsize_max: AtomicI32::new(8192),
            msg_default: AtomicI32::new(10),
            msgsize_default: AtomicI32::new(8192),
            queues: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
        }
    }
    /// The namespace ends: there are no new queues.
    pub(in crate::ipc) fn end(&self) {
        self.ended.store(true, Relaxed);
    }
}

/// The largest value of `msg_max`, which is a limit for the privileged, too (`HARD_MSGMAX`).
pub const HARD_MSG_MAX: usize = 65536;
/// The smallest value of `msgsize_max` (`MIN_MSGSIZEMAX`).
pub const MIN_MSGSIZE_MAX: usize = 128;
/// The largest value of `msgsize_max`, which is a limit for the privileged, too (`HARD_MSGSIZEMAX`).
pub const HARD_MSGSIZE_MAX: usize = 16 << 20;

/// What Linux has for a message beside its text, and for each priority that messages have, in bytes.
const WORDS_OF_EACH: usize = 6 * size_of::<usize>();

/// One of a namespace's queues. Dropping it makes room for another one.
pub struct Counted(Place<Table>);

impl Counted {
    /// `ENOSPC`: there are as many as allowed, and the running thread has not `CAP_SYS_RESOURCE`.
    /// `EACCES`: the namespace has ended.
    pub fn new(table: &Place<Table>) -> Result<Self, Errno> {
        if table.ended.load(Relaxed) {
            return Err(Errno::EACCES);
        }
        let most = table.queues_max.load(Relaxed).cast_unsigned() as usize;
        // In one step: who gets no place must not be seen to have one.
        let one_more = |now: usize| (now < most || is_privileged()).then_some(now + 1);
        let counted = table.queues.fetch_update(Relaxed, Relaxed, one_more);
        counted.map(|_| Self(table.clone())).map_err(|_| Errno::ENOSPC)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.queues.fetch_sub(1, Relaxed);
    }
}

fn is_privileged() -> bool {
    current().creds().capable(cap::SYS_RESOURCE)
}

/// How much a queue takes.
#[derive(Clone, Copy)]
pub struct Shape {
    /// How many messages.
    pub messages: usize,
    /// How long each may be, in bytes.
    pub size: usize,
}

impl Shape {
    /// Of a queue for which nothing is asked.
    pub fn usual(table: &Table) -> Self {
        let least = |a: &AtomicI32, b: &AtomicI32| a.load(Relaxed).min(b.load(Relaxed)).max(0) as usize;
        Self {
            messages: least(&table.msg_max, &table.msg_default),
            size: least(&table.msgsize_max, &table.msgsize_default),
        }
    }

    /// As a program asks for it. `EINVAL`: so much cannot be had.
    pub fn asked(messages: isize, size: isize) -> Result<Self, Errno> {
        let positive = |n: isize| usize::try_from(n).ok().filter(|n| *n != 0).ok_or(Errno::EINVAL);
        Ok(Self {
            messages: positive(messages)?,
            size: positive(size)?,
        })
    }

    /// Counts the queue's memory for the running thread's user. `EINVAL`: it would be larger than allowed;
    /// `EOVERFLOW`; `EMFILE`: it would be more than `RLIMIT_MSGQUEUE`.
    pub fn charge(self, table: &Table) -> Result<QueueBytes, Errno> {
        let limit = |value: &AtomicI32| value.load(Relaxed).max(0) as usize;
        let (messages, size) = match is_privileged() {
            true => (HARD_MSG_MAX, HARD_MSGSIZE_MAX),
            false => (limit(&table.msg_max), limit(&table.msgsize_max)),
        };
        if self.messages == 0 || self.size == 0 || self.messages > messages || self.size > size {
            return Err(Errno::EINVAL);
        }
        let others = WORDS_OF_EACH * (self.messages + self.messages.min(PRIORITIES as usize));
        let bytes = self.messages.checked_mul(self.size);
        let bytes = bytes.and_then(|bytes| bytes.checked_add(others));
        let bytes = bytes.ok_or(Errno::EOVERFLOW)?;
        let most = Limit::of(crate::task::rlimit(which::MSGQUEUE));
        current().with_creds(|creds| QueueBytes::take(creds, bytes, most))
    }
}
