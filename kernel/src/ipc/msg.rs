//! Message queues. A message goes to the first waiting receiver that takes it, else into the queue. Receivers
//! wait in the queue, each with what it looks for, and get the message there; senders wait for room.

mod control;

use super::ids::Ids;
use super::ns::own_msg;
use super::object::{self, Object};
use super::perm::{self, Perm};
use super::{IPC_NOWAIT, now, tgid};
use crate::mm::reserve;
use crate::sched::WaitQueue;
use crate::sync::SpinLock;
use crate::task::current;
use crate::task::ns::UserRef;
use crate::task::ns::pid::Id;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use limen_linux_abi::{Errno, SysResult};

pub use control::{Command, Out, control};

/// The queues of a namespace, and how large and how many they may be.
pub struct Table {
    /// `kernel.msgmax`: the largest message, in bytes.
    pub max: AtomicI32,
    /// `kernel.msgmnb`: how many bytes a new queue holds.
    pub max_of_queue: AtomicI32,
    /// `kernel.msgmni`: how many queues there may be.
    pub max_queues: AtomicI32,
    /// Messages in all queues, and their bytes.
    count: AtomicUsize,
    bytes: AtomicUsize,
    ids: Ids<Queue>,
    /// The user namespace that owns it.
    owner: UserRef,
}

/// Those of the initial namespace.
pub static INITIAL: Table = Table::new(None);

impl Table {
    /// Without queues.
    pub const fn new(owner: UserRef) -> Self {
        Self {
            max: AtomicI32::new(8192),
            max_of_queue: AtomicI32::new(16384),
            max_queues: AtomicI32::new(32000),
            count: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            ids: Ids::new(),
            owner,
        }
    }

    /// The namespace ends.
    pub(super) fn end(&self) {
        self.ids.each(|queue| {
            let gone = queue.end(self, &mut queue.state.lock());
            drop(gone);
        });
    }
}

const MSG_NOERROR: u32 = 0o10000;
const MSG_EXCEPT: u32 = 0o20000;
const MSG_COPY: u32 = 0o40000;

/// A message.
pub struct Message {
    /// Its type, which is positive.
    pub kind: isize,
    /// Its text.
    pub text: Vec<u8>,
}

/// What changes of a queue.
struct State {
    perm: Perm,
    messages: VecDeque<Arc<Message>>,
    bytes: usize,
    max_bytes: usize,
    receivers: VecDeque<Arc<Receiver>>,
    stime: i64,
    rtime: i64,
    ctime: i64,
    lspid: Id,
    lrpid: Id,
}

/// A queue.
struct Queue {
    id: AtomicI32,
    state: SpinLock<State>,
    /// Those that wait for room.
    senders: WaitQueue,
}

/// Which message a receiver takes.
#[derive(Clone, Copy)]
enum Wanted {
    Any,
    Type(isize),
    NotType(isize),
    /// That with the smallest type up to this one.
    UpTo(isize),
    /// The one at this place in the queue, which stays there.
    Copy(isize),
}

/// A thread that waits for a message.
struct Receiver {
    wanted: Wanted,
    /// How many bytes it has room for; `usize::MAX` if the rest may be cut off.
    room: usize,
    pid: Id,
    /// Set under the queue's lock, when it is no longer among those that wait.
    ended: AtomicBool,
    /// The message or the error. `EAGAIN`: it has to look again.
    result: SpinLock<Option<Result<Arc<Message>, Errno>>>,
    queue: WaitQueue,
}

impl object::State for State {
    fn perm(&mut self) -> &mut Perm {
        &mut self.perm
    }
}

impl Object for Queue {
    type State = State;
    fn id(&self) -> &AtomicI32 {
        &self.id
    }
    fn state(&self) -> &SpinLock<State> {
        &self.state
    }
}

impl Wanted {
    fn new(kind: isize, flags: u32) -> Self {
        match kind {
            _ if flags & MSG_COPY != 0 => Self::Copy(kind),
            0 => Self::Any,
            ..0 => Self::UpTo(kind.checked_neg().unwrap_or(isize::MAX)),
            _ if flags & MSG_EXCEPT != 0 => Self::NotType(kind),
            _ => Self::Type(kind),
        }
    }

    fn takes(self, message: &Message) -> bool {
        match self {
            Self::Any | Self::Copy(_) => true,
            Self::Type(kind) => message.kind == kind,
            Self::NotType(kind) => message.kind != kind,
            Self::UpTo(kind) => message.kind <= kind,
        }
    }

    /// The place of the message in the queue.
    fn find(self, messages: &VecDeque<Arc<Message>>) -> Option<usize> {
        match self {
            Self::Copy(at) => usize::try_from(at).ok().filter(|&at| at < messages.len()),
            // Of several with this type the first.
            Self::UpTo(_) => (0..messages.len())
                .filter(|&at| self.takes(&messages[at]))
                .min_by_key(|&at| messages[at].kind),
            _ => messages.iter().position(|message| self.takes(message)),
        }
    }
}

impl Receiver {
    fn end(&self, result: Result<Arc<Message>, Errno>) {
        *self.result.lock() = Some(result);
        self.ended.store(true, Release);
        self.queue.wake_all();
    }
}

impl State {
    /// Gives the message to a receiver that waits for it. Returns whether one took it.
    fn hand_over(&mut self, message: &Arc<Message>) -> bool {
        let mut at = 0;
        while let Some(receiver) = self.receivers.get(at) {
            if !receiver.wanted.takes(message) {
                at += 1;
                continue;
            }
            let Some(receiver) = self.receivers.remove(at) else {
                break;
            };
            if receiver.room < message.text.len() {
                receiver.end(Err(Errno::E2BIG));
                continue;
            }
            self.lrpid = receiver.pid.clone();
            self.rtime = now();
            receiver.end(Ok(message.clone()));
            return true;
        }
        false
    }

    /// Whether a message of `len` bytes may be added.
    fn fits(&self, len: usize) -> bool {
        self.bytes.saturating_add(len) <= self.max_bytes && self.messages.len() < self.max_bytes
    }

    /// All receivers that wait are told.
    fn end_receivers(&mut self, errno: Errno) {
        for receiver in self.receivers.drain(..) {
            receiver.end(Err(errno));
        }
    }
}

/// `msgget`. Errors: those of keys; `ENOSPC`, `ENOMEM`. Sleeps.
pub fn get(key: i32, flags: u32) -> SysResult {
    let table = own_msg();
    let limit = table.max_queues.load(Relaxed).max(0) as usize;
    let make = || {
        Ok(Arc::new(Queue {
            id: AtomicI32::new(0),
            state: SpinLock::new(State {
                perm: Perm::new(key, flags, &table.owner),
                messages: VecDeque::new(),
                bytes: 0,
                max_bytes: table.max_of_queue.load(Relaxed).max(0) as usize,
                receivers: VecDeque::new(),
                stime: 0,
                rtime: 0,
                ctime: now(),
                lspid: Id::NONE,
                lrpid: Id::NONE,
            }),
            senders: WaitQueue::new(),
        }))
    };
    table.ids.get(key, flags, limit, |_| Ok(()), make)
}

/// `EINVAL` if no message can have this type or size.
pub fn check_sent(id: i32, kind: isize, len: usize) -> Result<(), Errno> {
    if len > own_msg().max.load(Relaxed).max(0) as usize || id < 0 || kind < 1 {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// `msgsnd` of a message that [`check_sent`] has let pass. Errors: `EINVAL`, `EACCES`, `EIDRM`, `EAGAIN`,
/// `ERESTARTNOHAND`, `ENOMEM`. Sleeps.
pub fn send(id: i32, message: Message, flags: u32) -> SysResult {
    let table = own_msg();
    let queue = table.ids.find(id)?;
    let message = Arc::new(message);
    let len = message.text.len();
    loop {
        let creds = current().creds();
        {
            let mut state = reserve::room_behind(|| queue.state.lock(), |state| &mut state.messages, 1)?;
            state.perm.check(&creds, perm::WRITE)?;
            if state.fits(len) {
                state.lspid = tgid();
                state.stime = now();
                if !state.hand_over(&message) {
                    state.bytes += len;
                    table.bytes.fetch_add(len, Relaxed);
                    table.count.fetch_add(1, Relaxed);
                    state.messages.push_back(message);
                }
                return Ok(0);
            }
        }
        if flags & IPC_NOWAIT != 0 {
            return Err(Errno::EAGAIN);
        }
        let may_go_on = || {
            let state = queue.state.lock();
            state.perm.gone || state.fits(len)
        };
        let slept = queue.senders.wait_until(may_go_on);
        if slept.is_err() {
            let gone = queue.state.lock().perm.gone;
            return Err(if gone { Errno::EIDRM } else { Errno::ERESTARTNOHAND });
        }
    }
}

/// What is wrong with a call that receives, before anybody looks for the queue: `EINVAL`. Gives how many
/// bytes of the program's buffer the call reads: as on Linux, the place of a copy is filled from there first.
pub fn check_received(id: i32, room: usize, flags: u32) -> Result<usize, Errno> {
    if id < 0 || room > isize::MAX as usize {
        return Err(Errno::EINVAL);
    }
    if flags & MSG_COPY == 0 {
        return Ok(0);
    }
    if flags & MSG_EXCEPT != 0 || flags & IPC_NOWAIT == 0 {
        return Err(Errno::EINVAL);
    }
    Ok(room.min(own_msg().max.load(Relaxed).max(0) as usize))
}

/// `msgrcv`: the message, of which the caller writes as much as fits into `room` bytes. Errors: `EINVAL`,
/// `EACCES`, `EIDRM`, `E2BIG`, `ENOMSG`, `ERESTARTNOHAND`, `ENOMEM`. Sleeps.
pub fn receive(id: i32, room: usize, kind: isize, flags: u32) -> Result<Arc<Message>, Errno> {
    let wanted = Wanted::new(kind, flags);
    let table = own_msg();
    let queue = table.ids.find(id)?;
    loop {
        let creds = current().creds();
        let receiver = {
            let mut state = reserve::room_behind(|| queue.state.lock(), |state| &mut state.receivers, 1)?;
            state.perm.check(&creds, perm::READ)?;
            if let Some(at) = wanted.find(&state.messages) {
                let message = state.messages[at].clone();
                if room < message.text.len() && flags & MSG_NOERROR == 0 {
                    return Err(Errno::E2BIG);
                }
                if let Wanted::Copy(_) = wanted {
                    // A copy is whole.
                    let largest = room.min(table.max.load(Relaxed).max(0) as usize);
                    return if message.text.len() > largest {
                        Err(Errno::EINVAL)
                    } else {
                        Ok(message)
                    };
                }
                state.messages.remove(at);
                state.bytes -= message.text.len();
                table.bytes.fetch_sub(message.text.len(), Relaxed);
                table.count.fetch_sub(1, Relaxed);
                state.rtime = now();
                state.lrpid = tgid();
                drop(state);
                queue.senders.wake_all();
                return Ok(message);
            }
            if flags & IPC_NOWAIT != 0 {
                return Err(Errno::ENOMSG);
            }
            let receiver = Arc::new(Receiver {
                wanted,
                room: if flags & MSG_NOERROR != 0 {
                    usize::MAX
                } else {
                    room
                },
                pid: tgid(),
                ended: AtomicBool::new(false),
                result: SpinLock::new(None),
                queue: WaitQueue::new(),
            });
            state.receivers.push_back(receiver.clone());
            receiver
        };
        let slept = receiver.queue.wait_until(|| receiver.ended.load(Acquire));
        {
            let mut state = queue.state.lock();
            if !receiver.ended.load(Acquire) {
                state.receivers.retain(|other| !Arc::ptr_eq(other, &receiver));
            }
        }
        let result = receiver.result.lock().take();
        match result {
            Some(Err(Errno::EAGAIN)) => {}
            Some(result) => return result,
            None if slept.is_err() => return Err(Errno::ERESTARTNOHAND),
            None => {}
        }
    }
}
