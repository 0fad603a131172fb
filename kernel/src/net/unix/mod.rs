//! Local sockets (`AF_UNIX`): stream, datagram and sequenced packets, by pair, by path and by abstract name; descriptors and
//! credentials travel along.
//!
//! A socket's state is behind one short spinlock; data is copied to and from user memory outside it. Two sockets are never locked
//! together. Descriptors in flight hold their files open; a cycle of sockets in flight to each other is not collected, but a user has only so
//! many in flight (`flight`), and queues are bounded.

pub mod file;
pub mod flight;
pub mod name;
pub mod peer;
mod senders;

use self::flight::Flight;
use self::name::Name;
use self::peer::{Cred, Identity};
use self::senders::Senders;
use crate::fs::inode::Inode;
use crate::fs::poll::PollEvents;
use crate::sched::WaitQueue;
use crate::sync::{Mutex, SpinLock};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use limen_linux_abi::Errno;

/// Descriptors in one message (`SCM_MAX_FD`).
pub const MAX_FILES: usize = 253;
/// Bytes that may wait in a socket (`net.core.rmem_default`).
const BUFFER: usize = 212_992;
/// What every message counts for besides its bytes: what Linux needs for the shortest on 64-bit machines.
const OVERHEAD: usize = 768;
/// Largest piece of a stream that is copied at once.
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

/// Something sent and not received yet.
#[derive(Default)]
pub struct Message {
    /// The bytes; those before `at` have been read.
    pub data: Vec<u8>,
    /// How much of it has been read.
    pub at: usize,
    /// Files that travel along.
    pub files: Flight,
    /// The sender.
    pub cred: Cred,
    /// The sender's name.
    pub from: Option<Name>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Message>,
    bytes: usize,
    peer: Weak<Sock>,
    /// It had a peer once.
    connected: bool,
    /// Connections that may wait, if it listens.
    backlog: Option<usize>,
    /// Connections that wait to be accepted.
    pending: VecDeque<Arc<Sock>>,
    name: Option<Name>,
    /// Nothing more comes in.
    shut_in: bool,
    /// Nothing more may be sent.
    shut_out: bool,
    /// The socket is gone.
    closed: bool,
    /// The next one on the list of sockets to be emptied ([`flight::Closing`]).
    next_closing: Option<Arc<Sock>>,
    /// Who is to be told when there is space again.
    senders: Senders,
    /// The error the next call reports.
    error: Option<Errno>,
    /// Who the peer was when it connected; who listened, on a socket that does.
    identity: Identity,
    /// `SO_PASSCRED`.
    pass_cred: bool,
    /// The option that asks for the time with every message (`SO_TIMESTAMP` and its kin).
    timestamp: Option<u32>,
    /// `SO_RCVTIMEO` and `SO_SNDTIMEO`, ns.
    timeouts: [Option<u64>; 2],
    /// Options that make no difference to a local socket, but are kept.
    kept: BTreeMap<u32, i32>,
    /// `SO_LINGER`: it makes none either.
    linger: [u32; 2],
}

impl State {
    /// Whether it listens and one more connection may wait.
    fn has_room(&self) -> bool {
        self.accepts() && self.backlog.is_some_and(|b| self.pending.len() <= b)
    }

    /// Whether it listens.
    fn accepts(&self) -> bool {
        !self.closed && !self.shut_in && self.backlog.is_some()
    }

    /// Whether a datagram of `sender` is let in: one with a peer hears nobody else.
    fn hears(&self, sender: &Sock) -> bool {
        !self.connected || core::ptr::eq(self.peer.as_ptr(), sender)
    }

    /// Whether one more message has space in the queue.
    fn has_space(&self) -> bool {
        self.bytes + self.queue.len() * OVERHEAD < BUFFER
    }

    /// Whether a sender need not wait: there is space, or there is an error to be had.
    fn lets_go_on(&self) -> bool {
        self.closed || self.shut_in || self.has_space()
    }

    /// Those who wait for space, if there is some.
    fn take_senders(&mut self) -> Senders {
        if self.lets_go_on() {
            core::mem::take(&mut self.senders)
        } else {
            Senders::default()
        }
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
    state: SpinLock<State>,
    /// One receiver at a time.
    receiving: Mutex<()>,
    /// Data, connections, hang-up.
    pub(super) read_wait: WaitQueue,
    /// Room in the queue of the peer.
    pub(super) write_wait: WaitQueue,
    /// Room in the socket's own queue: its senders sleep here.
    room_wait: WaitQueue,
}

impl Sock {
    /// A new socket.
    pub fn new(kind: Kind) -> Arc<Self> {
        Arc::new(Self {
            kind,
            state: SpinLock::new(State::default()),
            receiving: Mutex::new(()),
            read_wait: WaitQueue::new(),
            write_wait: WaitQueue::new(),
            room_wait: WaitQueue::new(),
        })
    }

    /// Two connected sockets.
    pub fn pair(kind: Kind) -> (Arc<Self>, Arc<Self>) {
        let (a, b) = (Self::new(kind), Self::new(kind));
        let identity = Identity::own();
        a.set_peer(&b, identity.clone());
        b.set_peer(&a, identity);
        (a, b)
    }

    fn set_peer(&self, peer: &Arc<Sock>, identity: Identity) {
        let mut s = self.state.lock();
        s.peer = Arc::downgrade(peer);
        s.connected = true;
        s.identity = identity;
    }

    /// Connects a stream socket that is not connected yet.
    fn join(&self, peer: &Arc<Sock>, identity: Identity) -> Result<(), Errno> {
        let mut s = self.state.lock();
        if s.backlog.is_some() {
            return Err(Errno::EINVAL);
        }
        if s.connected {
            return Err(Errno::EISCONN);
        }
        s.peer = Arc::downgrade(peer);
        s.connected = true;
        s.identity = identity;
        Ok(())
    }

    /// Has no peer any more.
    pub fn leave(&self) {
        {
            let mut s = self.state.lock();
            s.peer = Weak::new();
            s.connected = false;
        }
        self.wake_writers();
    }

    /// There may be room for what this socket sends.
    fn wake_writers(&self) {
        self.write_wait.wake_all_key(PollEvents::WRITABLE.bits());
    }

    /// Its own name.
    pub fn name(&self) -> Option<Name> {
        self.state.lock().name.clone()
    }
    /// Its peer, if it has one that is still there.
    pub fn peer(&self) -> Option<Arc<Sock>> {
        self.state.lock().peer.upgrade()
    }
    /// The peer's name; `ENOTCONN` without one.
    pub fn peer_name(&self) -> Result<Option<Name>, Errno> {
        if !self.state.lock().connected {
            return Err(Errno::ENOTCONN);
        }
        Ok(self.peer().and_then(|p| p.name()))
    }
    /// Who the peer was at the time of connection.
    pub fn peer_identity(&self) -> Identity {
        self.state.lock().identity.clone()
    }
    /// The value of an option that makes no difference, if it was ever set.
    pub fn kept(&self, option: u32) -> Option<i32> {
        self.state.lock().kept.get(&option).copied()
    }
    /// Sets one.
    pub fn keep(&self, option: u32, value: i32) {
        self.state.lock().kept.insert(option, value);
    }
    /// `SO_LINGER`.
    pub fn linger(&self) -> [u32; 2] {
        self.state.lock().linger
    }
    /// Sets it.
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
    /// The option that asks for the time with every message: a stream has none.
    pub fn timestamp(&self) -> Option<u32> {
        self.state.lock().timestamp
    }
    /// Sets it.
    pub fn set_timestamp(&self, option: Option<u32>) {
        self.state.lock().timestamp = option;
    }
    /// A timeout in ns: 0 for receiving, 1 for sending.
    pub fn timeout(&self, which: usize) -> Option<u64> {
        self.state.lock().timeouts[which]
    }
    /// Sets a timeout.
    pub fn set_timeout(&self, which: usize, ns: Option<u64>) {
        self.state.lock().timeouts[which] = ns;
    }
    /// Bytes waiting (`FIONREAD`): of the first message, for datagrams.
    pub fn waiting(&self) -> usize {
        let s = self.state.lock();
        match self.kind {
            Kind::Stream => s.bytes,
            _ => s.queue.front().map_or(0, |m| m.data.len()),
        }
    }

    /// `bind`: to an abstract name, or to `inode`, made for it at a path.
    pub fn bind(self: &Arc<Self>, name: Name, inode: Option<&Arc<Inode>>) -> Result<(), Errno> {
        let mut s = self.state.lock();
        if s.name.is_some() {
            return Err(Errno::EINVAL);
        }
        s.name = Some(name.clone());
        drop(s);
        match inode {
            Some(inode) => {
                let me: Arc<dyn Any + Send + Sync> = self.clone();
                *inode.socket.lock() = Some(Arc::downgrade(&me));
            }
            None => {
                if let Err(e) = name::claim(name, self) {
                    self.state.lock().name = None;
                    return Err(e);
                }
            }
        }
        Ok(())
    }

    /// `listen`.
    pub fn listen(&self, backlog: i32) -> Result<(), Errno> {
        if self.kind == Kind::Datagram {
            return Err(Errno::EOPNOTSUPP);
        }
        let mut s = self.state.lock();
        if s.connected || s.name.is_none() {
            return Err(Errno::EINVAL);
        }
        s.backlog = Some(backlog.clamp(0, 4096) as usize);
        s.identity = Identity::own();
        Ok(())
    }

    /// `connect` to what is bound to a name.
    pub fn connect(self: &Arc<Self>, to: &Arc<Sock>, nonblock: bool) -> Result<(), Errno> {
        if self.kind == Kind::Datagram {
            if !to.state.lock().hears(self) {
                return Err(Errno::EPERM);
            }
            self.set_peer(to, Identity::default());
            // The old one's queue may have been full.
            self.wake_writers();
            return Ok(());
        }
        loop {
            // No two sockets are locked at once: either may be turned into a listener the other connects to, or be the other.
            let l = to.state.lock();
            if !l.accepts() {
                return Err(Errno::ECONNREFUSED);
            }
            if l.has_room() {
                let (name, pass_cred, identity) = (l.name.clone(), l.pass_cred, l.identity.clone());
                drop(l);
                let server = Sock::new(self.kind);
                {
                    let mut s = server.state.lock();
                    s.name = name;
                    s.pass_cred = pass_cred;
                }
                server.set_peer(self, Identity::own());
                self.join(&server, identity)?;
                let mut l = to.state.lock();
                if l.has_room() {
                    l.pending.push_back(server);
                    drop(l);
                    to.read_wait.wake_all();
                    return Ok(());
                }
                drop(l);
                self.leave();
                continue;
            }
            drop(l);
            if nonblock {
                return Err(Errno::EAGAIN);
            }
            to.room_wait.wait_until(|| {
                let l = to.state.lock();
                !l.accepts() || l.has_room()
            })?;
        }
    }

    /// `accept`.
    pub fn accept(&self, nonblock: bool) -> Result<Arc<Sock>, Errno> {
        loop {
            let mut s = self.state.lock();
            if s.backlog.is_none() {
                return Err(if self.kind == Kind::Datagram {
                    Errno::EOPNOTSUPP
                } else {
                    Errno::EINVAL
                });
            }
            if let Some(sock) = s.pending.pop_front() {
                drop(s);
                self.room_wait.wake_all();
                return Ok(sock);
            }
            if s.shut_in {
                return Err(Errno::EINVAL);
            }
            drop(s);
            self.sleep(&self.read_wait, self.timeout(0), nonblock, |s| {
                !s.pending.is_empty() || s.shut_in
            })?;
        }
    }

    /// Sleeps on `queue` until `ready` holds of this socket's state; `EAGAIN` if it may not, or not for so many ns.
    fn sleep(
        &self,
        queue: &WaitQueue,
        timeout: Option<u64>,
        nonblock: bool,
        ready: impl Fn(&State) -> bool,
    ) -> Result<(), Errno> {
        if nonblock {
            return Err(Errno::EAGAIN);
        }
        let cond = || ready(&self.state.lock());
        match timeout {
            None => queue.wait_until(cond),
            Some(ns) => {
                let at = crate::time::now_ns().saturating_add(ns);
                if queue.wait_until_deadline(at, cond)? {
                    Ok(())
                } else {
                    Err(Errno::EAGAIN)
                }
            }
        }
    }

    /// Where a message without a receiver's name goes, or why none may be sent; nowhere yet if it is `named`.
    pub fn target(&self, named: bool) -> Result<Option<Arc<Sock>>, Errno> {
        let mut s = self.state.lock();
        if self.kind == Kind::Packet
            && let Some(e) = s.error.take()
        {
            return Err(e);
        }
        let anywhere = named && self.kind == Kind::Datagram;
        if named && self.kind == Kind::Stream {
            return Err(if s.connected {
                Errno::EISCONN
            } else {
                Errno::EOPNOTSUPP
            });
        }
        if !anywhere && !s.connected {
            return Err(Errno::ENOTCONN);
        }
        if s.shut_out {
            return Err(Errno::EPIPE);
        }
        if anywhere {
            return Ok(None);
        }
        s.peer.upgrade().map(Some).ok_or(self.gone())
    }

    /// What there is to say when the other end of a socket of this kind is not there any more.
    fn gone(&self) -> Errno {
        match self.kind {
            Kind::Datagram => Errno::ECONNREFUSED,
            Kind::Stream | Kind::Packet => Errno::EPIPE,
        }
    }

    /// Puts a message into the queue of this socket, sleeping for room. `sender` is who sends.
    pub fn deliver(&self, message: Message, sender: &Arc<Sock>, nonblock: bool) -> Result<(), Errno> {
        let mut message = Some(message);
        loop {
            let mut s = self.state.lock();
            if self.kind == Kind::Datagram && !s.hears(sender) {
                return Err(Errno::EPERM);
            }
            if s.closed {
                return Err(self.gone());
            }
            if s.shut_in {
                return Err(Errno::EPIPE);
            }
            if s.has_space()
                && let Some(m) = message.take()
            {
                s.queue.try_reserve(1).map_err(|_| Errno::ENOBUFS)?;
                s.bytes += m.data.len();
                s.queue.push_back(m);
                drop(s);
                self.read_wait.wake_all();
                return Ok(());
            }
            if nonblock {
                s.senders.add(sender);
            }
            drop(s);
            self.sleep(&self.room_wait, sender.timeout(1), nonblock, |s| s.lets_go_on())?;
        }
    }

    /// Hands the oldest message to `take`, which says whether it is used up; or the one behind `skip` older ones, which nobody waits for.
    /// `Ok(None)`: nothing more will come.
    pub fn receive<R>(
        &self,
        nonblock: bool,
        skip: usize,
        mut take: impl FnMut(&mut Message) -> Result<(R, bool), Errno>,
    ) -> Result<Option<R>, Errno> {
        loop {
            let guard = self.receiving.lock();
            let mut s = self.state.lock();
            // An empty one keeps its place.
            if let Some(mut m) = s.queue.get_mut(skip).map(core::mem::take) {
                drop(s);
                let before = m.data.len() - m.at;
                let result = take(&mut m);
                let done = matches!(result, Ok((_, true)));
                let mut s = self.state.lock();
                let left = if done { 0 } else { m.data.len() - m.at };
                s.bytes -= (before - left).min(s.bytes);
                let used = if done {
                    s.queue.remove(skip)
                } else {
                    s.queue.get_mut(skip).map(|place| core::mem::replace(place, m))
                };
                let senders = s.take_senders();
                drop(s);
                drop(guard);
                drop(used);
                self.room_wait.wake_all();
                senders.wake();
                return result.map(|(r, _)| Some(r));
            }
            if skip != 0 {
                return Ok(None);
            }
            if let Some(e) = s.error.take() {
                return Err(e);
            }
            if !s.connected && self.kind != Kind::Datagram {
                return Err(if self.kind == Kind::Stream {
                    Errno::EINVAL
                } else {
                    Errno::ENOTCONN
                });
            }
            if s.shut_in {
                return Ok(None);
            }
            drop(s);
            drop(guard);
            self.sleep(&self.read_wait, self.timeout(0), nonblock, |s| {
                s.has_message() || s.shut_in || s.error.is_some()
            })?;
        }
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
        }
        self.wake();
    }

    fn wake(&self) {
        self.read_wait.wake_all();
        self.write_wait.wake_all();
        self.room_wait.wake_all();
        let senders = self.state.lock().take_senders();
        senders.wake();
    }

    /// The last descriptor is gone.
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
        }
        for sock in pending {
            sock.close();
        }
        if let Some(name) = name {
            name::release(name, self);
        }
        self.wake();
        flight::empty(self);
    }

    /// Looks at the state for `poll`: (something to read, room to send, nothing more comes in, both directions shut, error).
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
                }
                room
            }
            None => true,
        };
        (readable, room, shut_in, hung, error)
    }
}
