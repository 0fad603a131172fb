//! Local sockets (`AF_UNIX`): streams, datagrams and sequenced packets, in pairs, by path and by abstract
//! name, with descriptors and credentials.
//!
//! A socket's state is behind one short spinlock; data is copied from and to user memory without it. Two
//! sockets are never locked at the same time. Descriptors in flight hold their files open: each user may have
//! a limited number (`flight`), and sockets that are in flight only to each other are found and closed
//! (`cycles`).

mod bound;
mod connect;
mod cycles;
pub mod file;
pub mod flight;
mod messages;
pub mod name;
pub mod peer;
mod senders;

pub use self::messages::Message;
use self::name::Name;
use self::peer::Identity;
use self::senders::Senders;
use crate::fs::closing::Emptied;
use crate::fs::fasync::{Async, Band};
use crate::fs::poll::PollEvents;
use crate::sched::WaitQueue;
use crate::sync::{Mutex, SpinLock};
use crate::task::ns::net::NetRef;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicBool, Ordering};
use limen_linux_abi::Errno;

/// How many descriptors a message may have (`SCM_MAX_FD`).
pub const MAX_FILES: usize = 253;
/// How many bytes may wait in a socket (`net.core.rmem_default`), and how many a program may ask for
/// (`net.core.wmem_max`).
pub const BUFFER: i32 = 212_992;
/// How many bytes a message counts for in addition to its own: what Linux needs for the shortest message on
/// 64-bit machines.
const OVERHEAD: usize = 768;
/// Who waits for space in a stream's queue is woken when no more than this is used.
const ROOMY: usize = BUFFER as usize / 4;
/// How many bytes of a stream are copied at once.
pub const PIECE: usize = 32 * 1024;

/// Kinds of socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `SOCK_STREAM`.
    Stream = 1,
    /// `SOCK_DGRAM`.
    Datagram = 2,
    /// `SOCK_SEQPACKET`.
    Packet = 5,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Message>,
    bytes: usize,
    peer: Weak<Sock>,
    /// Whether it ever had a peer.
    connected: bool,
    /// How many connections may wait, if it listens.
    backlog: Option<usize>,
    /// Connections that wait to be accepted.
    pending: VecDeque<Arc<Sock>>,
    name: Option<Name>,
    /// Nothing more can be received.
    shut_in: bool,
    /// Nothing more may be sent.
    shut_out: bool,
    /// The socket was closed.
    closed: bool,
    /// The next one in the list of sockets whose messages are to be dropped ([`crate::fs::closing`]).
    next_closing: Option<Arc<dyn Emptied>>,
    /// Sockets to be told when there is space in the queue again.
    senders: Senders,
    /// The error that the next call returns.
    error: Option<Errno>,
    /// The credentials of the peer when it connected; for a listener, of the process that called `listen`.
    identity: Identity,
    /// `SO_PASSCRED`.
    pass_cred: bool,
    /// The option that asks for a time with every message (`SO_TIMESTAMP` and similar ones).
    timestamp: Option<u32>,
    /// `SO_RCVTIMEO` and `SO_SNDTIMEO`, in nanoseconds.
    timeouts: [Option<u64>; 2],
    /// Options that have no effect on a local socket; their values are kept.
    kept: BTreeMap<u32, i32>,
    /// `SO_LINGER`, which has no effect either.
    linger: [u32; 2],
}

impl State {
    /// Whether it listens and another connection may wait.
    fn has_room(&self) -> bool {
        self.accepts() && self.backlog.is_some_and(|b| self.pending.len() <= b)
    }

    /// Whether it listens.
    fn accepts(&self) -> bool {
        !self.closed && !self.shut_in && self.backlog.is_some()
    }

    /// Whether it accepts a datagram from `sender`: a socket with a peer accepts only the peer's.
    fn hears(&self, sender: &Sock) -> bool {
        !self.connected || core::ptr::eq(self.peer.as_ptr(), sender)
    }

    /// What the messages in the queue count for.
    fn used(&self) -> usize {
        self.bytes + self.queue.len() * OVERHEAD
    }

    /// Whether the queue has space for another message.
    fn has_space(&self) -> bool {
        self.used() < BUFFER as usize
    }

    /// Whether those who wait for space are to be told of it. Of a stream they are not told of each message
    /// that was received, but when three quarters of the queue are free (as Linux does): each of them would
    /// run for the one message that it can add.
    fn is_roomy(&self, kind: Kind) -> bool {
        self.closed || self.shut_in || kind != Kind::Stream && self.has_space() || self.used() <= ROOMY
    }

    /// Whether a sender need not wait: there is space, or there is an error to return.
    fn lets_go_on(&self) -> bool {
        self.closed || self.shut_in || self.has_space()
    }

    /// Takes the senders that wait for space, to be told of it.
    fn take_senders(&mut self) -> Senders {
        core::mem::take(&mut self.senders)
    }

    /// Whether there may be something to receive.
    fn has_message(&self) -> bool {
        !self.queue.is_empty()
    }
}

/// A socket.
pub struct Sock {
    /// Kind.
    pub kind: Kind,
    /// Its network namespace.
    pub net: NetRef,
    state: SpinLock<State>,
    /// Held by the one receiver at a time.
    receiving: Mutex<()>,
    /// Threads that wait for data, connections or hang-up.
    pub(super) read_wait: WaitQueue,
    /// Threads that wait for room in the peer's queue.
    pub(super) write_wait: WaitQueue,
    /// Threads that send to this socket and wait for room in its queue.
    room_wait: WaitQueue,
    /// The owners of its open file. While a reader of a stream sleeps, they get no signal about data.
    pub(super) owners: Async,
    /// Whether a signal about room is due: only once each time that room was missing.
    wants_room: AtomicBool,
    /// A reader of the stream sleeps.
    reader_sleeps: AtomicBool,
}

impl Sock {
    /// A new socket of a network namespace.
    pub fn new(kind: Kind, net: NetRef) -> Arc<Self> {
        Arc::new(Self {
            kind,
            net,
            state: SpinLock::new(State::default()),
            receiving: Mutex::new(()),
            read_wait: WaitQueue::new(),
            write_wait: WaitQueue::new(),
            room_wait: WaitQueue::new(),
            owners: Async::new(),
            wants_room: AtomicBool::new(false),
            reader_sleeps: AtomicBool::new(false),
        })
    }

    /// There may be room again for what this socket sends: wakes and signals.
    fn tell_room(&self) {
        self.write_wait
            .wake_one_key((PollEvents::WRITABLE | PollEvents::WRBAND).bits());
        if self.wants_room.load(Ordering::Relaxed) && self.wants_room.swap(false, Ordering::Relaxed) {
            self.owners.tell(Band::Out);
        }
    }
    /// There is something to receive or to accept: wakes one sleeper, as each takes one message or
    /// connection.
    fn tell_news(&self) {
        self.read_wait.wake_one_key(PollEvents::READABLE.bits());
        if !self.reader_sleeps.load(Ordering::Relaxed) {
            self.owners.tell(Band::In);
        }
    }
    /// It found no room and does not sleep: its owner wants a signal when there is room.
    fn wants_room(&self) {
        if self.owners.any() {
            self.wants_room.store(true, Ordering::Relaxed);
        }
    }

    /// Its own name.
    pub fn name(&self) -> Option<Name> {
        self.state.lock().name.clone()
    }
    /// Its peer. `None`: it has none, or the peer was closed.
    pub fn peer(&self) -> Option<Arc<Sock>> {
        self.state.lock().peer.upgrade()
    }
    /// The peer's name. `ENOTCONN`: it has no peer.
    pub fn peer_name(&self) -> Result<Option<Name>, Errno> {
        if !self.state.lock().connected {
            return Err(Errno::ENOTCONN);
        }
        Ok(self.peer().and_then(|p| p.name()))
    }
    /// The credentials of the peer at the time of the connection.
    pub fn peer_identity(&self) -> Identity {
        self.state.lock().identity.clone()
    }
    /// The value of an option without effect, if it was ever set.
    pub fn kept(&self, option: u32) -> Option<i32> {
        self.state.lock().kept.get(&option).copied()
    }
    /// Sets the value of an option without effect.
    pub fn keep(&self, option: u32, value: i32) {
        self.state.lock().kept.insert(option, value);
    }
    /// `SO_LINGER`.
    pub fn linger(&self) -> [u32; 2] {
        self.state.lock().linger
    }
    /// Sets `SO_LINGER`.
    pub fn set_linger(&self, linger: [u32; 2]) {
        self.state.lock().linger = linger;
    }
    /// Whether it listens.
    pub fn is_listening(&self) -> bool {
        self.state.lock().backlog.is_some()
    }
    /// Takes the pending error (`SO_ERROR`).
    pub fn take_error(&self) -> Option<Errno> {
        self.state.lock().error.take()
    }
    /// `SO_PASSCRED`.
    pub fn pass_cred(&self) -> bool {
        self.state.lock().pass_cred
    }
    /// Sets `SO_PASSCRED`.
    pub fn set_pass_cred(&self, on: bool) {
        self.state.lock().pass_cred = on;
    }
    /// The option that asks for a time with every message. A stream has none.
    pub fn timestamp(&self) -> Option<u32> {
        self.state.lock().timestamp
    }
    /// Sets that option.
    pub fn set_timestamp(&self, option: Option<u32>) {
        self.state.lock().timestamp = option;
    }
    /// A timeout in nanoseconds; `which`: 0 for receiving, 1 for sending.
    pub fn timeout(&self, which: usize) -> Option<u64> {
        self.state.lock().timeouts[which]
    }
    /// Sets a timeout; see [`Sock::timeout`].
    pub fn set_timeout(&self, which: usize, ns: Option<u64>) {
        self.state.lock().timeouts[which] = ns;
    }
    /// Sleeps on `queue` until `ready` is true of this socket's state. `EAGAIN`: it must not sleep, or the
    /// timeout came.
    fn sleep(
        &self,
        queue: &WaitQueue,
        exclusive: bool,
        timeout: Option<u64>,
        nonblock: bool,
        ready: impl Fn(&State) -> bool,
    ) -> Result<(), Errno> {
        if nonblock {
            return Err(Errno::EAGAIN);
        }
        let cond = || ready(&self.state.lock());
        let end = timeout.map_or(u64::MAX, |ns| crate::time::now_ns().saturating_add(ns));
        let in_time = if exclusive {
            queue.wait_until_deadline_exclusive(end, cond)?
        } else {
            queue.wait_until_deadline(end, cond)?
        };
        if in_time { Ok(()) } else { Err(Errno::EAGAIN) }
    }

    /// `shutdown`.
    pub fn shutdown(&self, read: bool, write: bool) {
        let peer = {
            let mut s = self.state.lock();
            s.shut_in |= read;
            s.shut_out |= write;
            s.peer.upgrade()
        };
        if let Some(p) = peer.filter(|_| self.kind != Kind::Datagram) {
            {
                let mut s = p.state.lock();
                s.shut_in |= write;
                s.shut_out |= read;
            }
            p.wake();
            if read && write {
                p.owners.tell(Band::Hup);
            } else if write {
                p.owners.tell(Band::In);
            }
        }
        self.wake();
    }

    fn wake(&self) {
        self.read_wait.wake_all();
        self.write_wait.wake_all();
        self.room_wait.wake_all();
        let mut s = self.state.lock();
        let senders = s.lets_go_on().then(|| s.take_senders());
        drop(s);
        senders.unwrap_or_default().wake();
    }

    /// The last descriptor was closed.
    pub fn close(self: &Arc<Self>) {
        let (peer, pending, name, unread) = {
            let mut s = self.state.lock();
            s.closed = true;
            s.shut_in = true;
            s.shut_out = true;
            let unread = !s.queue.is_empty();
            (
                core::mem::take(&mut s.peer).upgrade(),
                core::mem::take(&mut s.pending),
                s.name.clone(),
                unread,
            )
        };
        if let Some(p) = peer.filter(|_| self.kind != Kind::Datagram) {
            {
                let mut s = p.state.lock();
                s.shut_in = true;
                s.shut_out = true;
                if unread {
                    s.error = Some(Errno::ECONNRESET);
                }
            }
            p.wake();
            p.owners.tell(Band::Hup);
        }
        for sock in pending {
            sock.close();
        }
        if let Some(name) = name {
            bound::release(&name, self);
        }
        self.wake();
        flight::empty(self);
    }

    /// The state for `poll`: (something to read, room to send, nothing more can be received, both directions
    /// shut down, an error).
    pub(super) fn readiness(self: &Arc<Self>) -> (bool, bool, bool, bool, bool) {
        let s = self.state.lock();
        let readable = s.has_message() || !s.pending.is_empty() || s.shut_in;
        let hung =
            s.shut_in && s.shut_out || (!s.connected && s.backlog.is_none() && self.kind != Kind::Datagram);
        let (shut_in, error, peer) = (s.shut_in, s.error.is_some(), s.peer.upgrade());
        drop(s);
        let room = match peer {
            Some(p) => {
                let mut p = p.state.lock();
                let room = p.lets_go_on();
                if !room {
                    p.senders.add(self);
                    if self.kind != Kind::Stream {
                        self.wants_room();
                    }
                }
                room
            }
            None => true,
        };
        (readable, room, shut_in, hung, error)
    }
}
