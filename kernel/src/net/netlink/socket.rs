//! A socket.

mod held;

use super::queue::{Datagram, Dump, Queue};
use super::{Protocol, ports, protocol};
use crate::fs::fasync::{Async, Band};
use crate::mm::reserve::{room, room_behind};
use crate::sched::WaitQueue;
use crate::sync::{Mutex, SpinLock};
use crate::task::creds::{Creds, cap};
use crate::task::current;
use crate::task::ns::net::NetRef;
use crate::time::now_ns;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bitflags::bitflags;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use limen_linux_abi::Errno;
use limen_netlink::Address;

pub use held::Held;

bitflags! {
    /// What a program has chosen with `setsockopt`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Flags: u32 {
        /// `NETLINK_PKTINFO`: the group comes with a datagram.
        const PKTINFO = 1;
        /// `NETLINK_BROADCAST_ERROR`.
        const BROADCAST_ERROR = 2;
        /// `NETLINK_NO_ENOBUFS`: losses are not told.
        const NO_ENOBUFS = 4;
        /// `NETLINK_CAP_ACK`: errors come without the message.
        const CAP_ACK = 8;
        /// `NETLINK_EXT_ACK`: errors may come with a text. There are no such texts.
        const EXT_ACK = 16;
        /// `NETLINK_GET_STRICT_CHK`.
        const STRICT = 32;
        /// `SO_PASSCRED`.
        const PASSCRED = 64;
    }
}

/// `SO_RCVTIMEO` and `SO_SNDTIMEO`, in nanoseconds, and `SO_SNDBUF` in bytes.
#[derive(Clone, Copy)]
pub struct SocketOptions {
    /// Timeouts: of receiving, of sending.
    pub timeouts: [Option<u64>; 2],
    /// How long a datagram may be.
    pub sends: usize,
}

/// A socket that the kernel sends to later. If it is closed, another one with its port is not meant: that can
/// be anybody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    pub(super) protocol: u32,
    pub(super) net: u32,
    pub(super) port: u32,
    serial: u64,
}

/// How many answers in several datagrams a program may have begun and not taken. Each may hold a list that
/// has been replaced since.
const MAX_DUMPS: usize = 64;
static SERIAL: AtomicU64 = AtomicU64::new(0);

struct State {
    port: u32,
    bound: bool,
    /// Where datagrams go that have no address, and from whom alone some come if `connected`.
    peer: Address,
    connected: bool,
    /// A bit for each group, from 1 on.
    groups: Vec<u32>,
    queue: Queue,
    error: Option<Errno>,
    flags: Flags,
    options: SocketOptions,
    closed: bool,
}

/// A socket.
pub struct Socket {
    /// Its protocol.
    pub protocol: u32,
    /// `SOCK_RAW` or `SOCK_DGRAM`, which are the same.
    pub kind: u32,
    /// Which of all sockets it is.
    pub(super) serial: u64,
    /// Its network namespace.
    pub net: NetRef,
    /// The credentials of who made it.
    opener: Arc<Creds>,
    state: SpinLock<State>,
    /// Held by who receives or continues answers.
    receiving: Mutex<()>,
    /// Who waits for datagrams.
    pub(super) news: WaitQueue,
    /// Who waits for room.
    room: WaitQueue,
    pub(super) owners: Async,
}

/// Whether the running thread may hear groups of a protocol at all in a network namespace.
fn may_hear(protocol: &dyn Protocol, net: &NetRef) -> Result<(), Errno> {
    if protocol.anyone_hears() || current().creds().capable_in(net.owner(), cap::NET_ADMIN) {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

impl Socket {
    /// A socket without a port. `EPROTONOSUPPORT`: there is no such protocol.
    pub fn new(number: u32, kind: u32) -> Result<Arc<Self>, Errno> {
        protocol(number).ok_or(Errno::EPROTONOSUPPORT)?;
        Ok(Arc::new(Self {
            protocol: number,
            kind,
            serial: SERIAL.fetch_add(1, Relaxed),
            net: NetRef::of_current(),
            opener: current().creds(),
            state: SpinLock::new(State {
                port: 0,
                bound: false,
                peer: Address::default(),
                connected: false,
                groups: Vec::new(),
                queue: Queue::new(),
                error: None,
                flags: Flags::default(),
                options: SocketOptions {
                    timeouts: [None; 2],
                    sends: super::queue::BUFFER,
                },
                closed: false,
            }),
            receiving: Mutex::new(()),
            news: WaitQueue::new(),
            room: WaitQueue::new(),
            owners: Async::new(),
        }))
    }

    /// Whether who made it had a capability. Who writes to it need not know what it writes to.
    pub fn opener_capable(&self, cap: u32) -> bool {
        self.opener.capable(cap)
    }
    /// The same in the user namespace that owns its network namespace.
    pub fn opener_net_capable(&self, cap: u32) -> bool {
        self.opener.capable_in(self.net.owner(), cap)
    }
    /// Its port; 0 before it has one.
    pub fn port(&self) -> u32 {
        self.state.lock().port
    }
    /// The socket as the kernel remembers it. It has a port.
    pub fn remembered(&self) -> Remembered {
        Remembered {
            protocol: self.protocol,
            net: self.net.number(),
            port: self.port(),
            serial: self.serial,
        }
    }
    /// Its address.
    pub fn address(&self) -> Address {
        let state = self.state.lock();
        Address {
            port: state.port,
            groups: state.groups.first().copied().unwrap_or(0),
        }
    }
    /// Its peer's address.
    pub fn peer(&self) -> Address {
        self.state.lock().peer
    }
    /// Whether it has one of the flags.
    pub fn has(&self, flag: Flags) -> bool {
        self.state.lock().flags.intersects(flag)
    }
    /// Sets a flag or clears it.
    pub fn set(&self, flag: Flags, on: bool) {
        let mut state = self.state.lock();
        state.flags.set(flag, on);
        if flag == Flags::NO_ENOBUFS && on {
            state.queue.tells_no_losses();
            drop(state);
            self.room.wake_all();
        }
    }
    /// Its options.
    pub fn options(&self) -> SocketOptions {
        self.state.lock().options
    }
    /// Changes them.
    pub fn change_options(&self, change: impl FnOnce(&mut SocketOptions)) {
        change(&mut self.state.lock().options);
    }
    /// `SO_RCVBUF`.
    pub fn receive_buffer(&self) -> usize {
        self.state.lock().queue.limit()
    }
    /// Sets that.
    pub fn set_receive_buffer(&self, bytes: usize) {
        self.state.lock().queue.set_limit(bytes);
    }
    /// Takes its error (`SO_ERROR`).
    pub fn take_error(&self) -> Option<Errno> {
        self.state.lock().error.take()
    }
    /// The next call on it fails.
    pub fn fail(&self, errno: Errno) {
        self.state.lock().error = Some(errno);
        self.news.wake_all();
    }

    /// `bind`. `EINVAL`: it has another port; `EADDRINUSE`: another socket has this one; `EPERM`: it may not
    /// hear one of the groups. May sleep.
    pub fn bind(self: &Arc<Self>, to: Address) -> Result<(), Errno> {
        let known = protocol(self.protocol).ok_or(Errno::EPROTONOSUPPORT)?;
        let all = 1u32.checked_shl(known.groups()).map_or(u32::MAX, |end| end - 1);
        let groups = to.groups & all;
        if to.groups != 0 {
            may_hear(known, &self.net)?;
        }
        {
            let state = self.state.lock();
            if state.bound && to.port != state.port {
                return Err(Errno::EINVAL);
            }
        }
        for group in (1..=32).filter(|group| groups >> (group - 1) & 1 != 0) {
            known.may_hear(group)?;
        }
        self.take_port(to.port)?;
        if groups != 0 || !self.state.lock().groups.is_empty() {
            let _alone = ports::changing();
            if groups != 0 {
                ports::hears(self)?;
            }
            let done = room_behind(|| self.state.lock(), |state| &mut state.groups, 1).map(|mut state| {
                if state.groups.is_empty() {
                    state.groups.push(0);
                }
                state.groups[0] = groups;
            });
            self.forget_if_deaf();
            done?;
        }
        Ok(())
    }

    /// It has a port from now on: this one, or any if it is 0. `EADDRINUSE`, `ENOMEM`. May sleep.
    pub fn take_port(self: &Arc<Self>, port: u32) -> Result<(), Errno> {
        // The first of several threads gives it one.
        let _alone = ports::changing();
        if self.state.lock().bound {
            return Ok(());
        }
        let port = ports::insert(self, port)?;
        let mut state = self.state.lock();
        state.port = port;
        state.bound = true;
        Ok(())
    }

    /// `connect`: where datagrams without an address go.
    pub fn set_peer(&self, peer: Option<Address>) {
        let mut state = self.state.lock();
        state.connected = peer.is_some();
        state.peer = peer.unwrap_or_default();
    }

    /// It hears a group, or no longer. `EINVAL`: there is no such group; `EPERM`. May sleep.
    pub fn hear(self: &Arc<Self>, group: u32, on: bool) -> Result<(), Errno> {
        let known = protocol(self.protocol).ok_or(Errno::EPROTONOSUPPORT)?;
        may_hear(known, &self.net)?;
        if group == 0 || group > known.groups() {
            return Err(Errno::EINVAL);
        }
        if on {
            known.may_hear(group)?;
        }
        let words = group.div_ceil(32) as usize;
        let mut new: Vec<u32> = Vec::new();
        room(&mut new, words)?;
        new.resize(words, 0);
        let alone = ports::changing();
        if on {
            ports::hears(self)?;
        }
        let mut state = self.state.lock();
        if state.groups.len() < words {
            new[..state.groups.len()].copy_from_slice(&state.groups);
            core::mem::swap(&mut state.groups, &mut new);
        }
        let bit = 1 << ((group - 1) % 32);
        let word = &mut state.groups[words - 1];
        if on {
            *word |= bit;
        } else {
            *word &= !bit;
        }
        drop(state);
        self.forget_if_deaf();
        drop(alone);
        if !on {
            known.hears_no_more(group);
        }
        Ok(())
    }

    /// Nothing is sent to it as a member if it is in no group. The caller holds `ports::changing`.
    fn forget_if_deaf(&self) {
        let is_deaf = self.state.lock().groups.iter().all(|word| *word == 0);
        if is_deaf {
            ports::hears_none(self);
        }
    }

    /// The groups that it hears, a bit for each from 1 on.
    pub fn groups(&self) -> Vec<u32> {
        let mut words = Vec::new();
        loop {
            let state = self.state.lock();
            if state.groups.len() <= words.capacity() {
                words.extend_from_slice(&state.groups);
                return words;
            }
            let len = state.groups.len();
            drop(state);
            if room(&mut words, len).is_err() {
                return words;
            }
        }
    }

    /// Whether it hears a group.
    pub(super) fn hears(&self, group: u32) -> bool {
        let state = self.state.lock();
        let word = state.groups.get((group.wrapping_sub(1) / 32) as usize);
        word.is_some_and(|word| group != 0 && word >> ((group - 1) % 32) & 1 != 0)
    }

    /// Whether it takes datagrams from a port.
    pub(super) fn takes_from(&self, port: u32) -> bool {
        let state = self.state.lock();
        !state.connected || state.peer.port == port
    }

    /// Puts a datagram of the kernel there, which waits for nobody. `EAGAIN`: there is no room, which the
    /// program is told; `ENOMEM`; `ECONNREFUSED`: it was closed. May sleep for memory.
    pub fn deliver(&self, datagram: Datagram) -> Result<(), Errno> {
        match self.try_deliver(datagram) {
            Ok(()) => Ok(()),
            Err((errno, _)) => {
                if errno != Errno::ECONNREFUSED {
                    self.overrun();
                }
                Err(errno)
            }
        }
    }

    /// As [`Self::deliver`]; waits for room until `deadline_ns` (`u64::MAX`: for ever). `EAGAIN`: there was
    /// none; `ERESTARTSYS`.
    pub fn deliver_by(&self, mut datagram: Datagram, deadline_ns: u64) -> Result<(), Errno> {
        loop {
            match self.try_deliver(datagram) {
                Ok(()) => return Ok(()),
                Err((Errno::EAGAIN, kept)) => datagram = kept,
                Err((errno, _)) => return Err(errno),
            }
            let in_time = self.room.wait_until_deadline(deadline_ns, || {
                let state = self.state.lock();
                state.closed || state.queue.has_room()
            })?;
            if !in_time {
                return Err(Errno::EAGAIN);
            }
        }
    }

    fn try_deliver(&self, datagram: Datagram) -> Result<(), (Errno, Datagram)> {
        let state = room_behind(|| self.state.lock(), |state| state.queue.list(), 1);
        let mut state = match state {
            Ok(state) => state,
            Err(errno) => return Err((errno, datagram)),
        };
        if state.closed {
            return Err((Errno::ECONNREFUSED, datagram));
        }
        if !state.queue.has_room() {
            return Err((Errno::EAGAIN, datagram));
        }
        state.queue.push(datagram);
        drop(state);
        self.news.wake_one();
        self.owners.tell(Band::In);
        Ok(())
    }

    /// A datagram was lost.
    fn overrun(&self) {
        let mut state = self.state.lock();
        if !state.flags.contains(Flags::NO_ENOBUFS) && state.queue.loses() {
            state.error = Some(Errno::ENOBUFS);
            drop(state);
            self.news.wake_all();
        }
    }

    /// Whether another answer in several datagrams may begin beside `more` ones that will. `EBUSY`.
    pub(super) fn may_dump(&self, more: usize) -> Result<(), Errno> {
        match self.state.lock().queue.dumps.len() + more {
            MAX_DUMPS.. => Err(Errno::EBUSY),
            _ => Ok(()),
        }
    }

    /// Begins an answer in several datagrams. `EBUSY`: too many have begun that nobody has taken; `ENOMEM`.
    /// May sleep.
    pub fn dump(&self, dump: Box<dyn Dump>) -> Result<(), Errno> {
        let _one = self.receiving.lock();
        self.may_dump(0)?;
        let mut state = room_behind(|| self.state.lock(), |state| &mut state.queue.dumps, 1)?;
        state.queue.dumps.push_back(dump);
        drop(state);
        self.go_on();
        Ok(())
    }

    /// Whether there are answers that are not at their end.
    fn has_begun_answers(&self) -> bool {
        !self.state.lock().queue.dumps.is_empty()
    }

    /// Answers in several datagrams go on as far as there is room. The caller holds `receiving`.
    fn go_on(&self) {
        loop {
            let dump = {
                let mut state = self.state.lock();
                if state.closed || !state.queue.is_roomy() {
                    return;
                }
                state.queue.dumps.pop_front()
            };
            let Some(mut dump) = dump else { return };
            let next = dump.next();
            let again = !matches!(next, Ok(None));
            if again {
                // There is the room that it had.
                self.state.lock().queue.dumps.push_front(dump);
            }
            match next {
                Ok(Some(data)) => {
                    let _ = self.deliver(Datagram::of_kernel(data, 0));
                }
                Ok(None) => {}
                Err(_) => return,
            }
        }
    }

    /// Receives a datagram: `take` gets it, and if `peek`, it stays. `EAGAIN`: there was none in time;
    /// `ERESTARTSYS`; the socket's error; `ENOBUFS`: no memory for the answer that is to go on.
    pub fn receive<R>(
        &self,
        nonblock: bool,
        peek: bool,
        take: impl FnOnce(&Datagram) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let one = self.receiving.lock();
        let mut one = Some(one);
        let datagram = loop {
            if self.state.lock().queue.recovers() {
                self.room.wake_all();
            }
            {
                let mut state = self.state.lock();
                if let Some(errno) = state.error.take() {
                    return Err(errno);
                }
                if let Some(datagram) = state.queue.pop() {
                    break datagram;
                }
            }
            if self.has_begun_answers() {
                // There was no memory when it was to go on.
                self.go_on();
                match self.state.lock().queue.is_empty() {
                    true => return Err(Errno::ENOBUFS),
                    false => continue,
                }
            }
            if nonblock {
                return Err(Errno::EAGAIN);
            }
            drop(one.take());
            let timeout = self.state.lock().options.timeouts[0];
            let end = timeout.map_or(u64::MAX, |ns| now_ns().saturating_add(ns));
            let in_time = self.news.wait_until_deadline_exclusive(end, || {
                let state = self.state.lock();
                state.error.is_some() || !state.queue.is_empty()
            })?;
            if !in_time {
                return Err(Errno::EAGAIN);
            }
            one = Some(self.receiving.lock());
        };
        let result = take(&datagram);
        if peek {
            // It had room there, which nobody has taken from a list that never shrinks.
            let mut state = room_behind(|| self.state.lock(), |state| state.queue.list(), 1)?;
            state.queue.push_back(datagram);
            drop(state);
            self.news.wake_one();
        } else {
            self.room.wake_all();
            self.go_on();
        }
        result
    }

    /// What `poll` says: something to receive, room to send (there is no limit), an error.
    pub(super) fn readiness(&self) -> (bool, bool) {
        let state = self.state.lock();
        (!state.queue.is_empty(), state.error.is_some())
    }

    /// The last descriptor was closed.
    pub(super) fn close(&self) {
        let (bound, port, dumps, left, groups) = {
            let mut state = self.state.lock();
            state.closed = true;
            (
                state.bound,
                state.port,
                core::mem::take(&mut state.queue.dumps),
                core::mem::replace(&mut state.queue, Queue::new()),
                core::mem::take(&mut state.groups),
            )
        };
        drop((dumps, left));
        if bound {
            ports::remove(self.protocol, self.net.number(), port);
        }
        ports::hears_none(self);
        self.room.wake_all();
        let heard = (1..).zip(
            groups
                .iter()
                .flat_map(|word| (0..32).map(move |bit| word >> bit & 1 != 0)),
        );
        if let Some(known) = protocol(self.protocol) {
            heard
                .filter(|(_, hears)| *hears)
                .for_each(|(group, _)| known.hears_no_more(group));
        }
    }
}
