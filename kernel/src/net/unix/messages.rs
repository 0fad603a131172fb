//! Messages of local sockets: from the sender into the receiver's queue, and out of it.

use super::flight::Flight;
use super::name::Name;
use super::peer::Cred;
use super::{Kind, Sock};
use crate::mm::reserve::room_behind;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use limen_linux_abi::Errno;

/// A message that was sent and not received yet.
#[derive(Default)]
pub struct Message {
    /// The bytes. Those before `at` have been read.
    pub data: Vec<u8>,
    /// How many bytes have been read.
    pub at: usize,
    /// The files that are sent with it.
    pub files: Flight,
    /// The sender.
    pub cred: Cred,
    /// The sender's name.
    pub from: Option<Name>,
}

impl Sock {
    /// The socket to which a message without an address goes. `Err`: none may be sent. `named`: the message
    /// has an address, so there need not be a peer.
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

    /// The error if the other end of a socket of this kind was closed.
    fn gone(&self) -> Errno {
        match self.kind {
            Kind::Datagram => Errno::ECONNREFUSED,
            Kind::Stream | Kind::Packet => Errno::EPIPE,
        }
    }

    /// Puts a message from `sender` into this socket's queue. Sleeps until there is room.
    pub fn deliver(&self, message: Message, sender: &Arc<Sock>, nonblock: bool) -> Result<(), Errno> {
        let mut message = Some(message);
        loop {
            let s = room_behind(|| self.state.lock(), |s| &mut s.queue, 1);
            let mut s = s.map_err(|_| Errno::ENOBUFS)?;
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
                s.bytes += m.data.len();
                s.queue.push_back(m);
                drop(s);
                self.tell_news();
                return Ok(());
            }
            if nonblock {
                s.senders.add(sender);
                sender.wants_room();
            }
            drop(s);
            self.sleep(&self.room_wait, false, sender.timeout(1), nonblock, |s| {
                s.lets_go_on()
            })?;
        }
    }

    /// Calls `take` with the oldest message, or with the one behind `skip` older ones (then it does not
    /// wait). `take` returns whether the message is used up. `Ok(None)`: nothing more will come. `exclusive`:
    /// sleeps as an exclusive sleeper; for receivers that take whole messages.
    pub fn receive<R>(
        &self,
        nonblock: bool,
        exclusive: bool,
        skip: usize,
        mut take: impl FnMut(&mut Message) -> Result<(R, bool), Errno>,
    ) -> Result<Option<R>, Errno> {
        loop {
            let guard = self.receiving.lock();
            let mut s = self.state.lock();
            // An empty message keeps its place meanwhile.
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
                let roomy = s.is_roomy(self.kind);
                let senders = (roomy && s.senders.any()).then(|| s.take_senders());
                drop(s);
                drop(guard);
                drop(used);
                if roomy {
                    self.room_wait.wake_all();
                }
                if let Some(senders) = senders {
                    senders.wake();
                }
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
            let stream = self.kind == Kind::Stream;
            if stream && !nonblock {
                self.reader_sleeps.store(true, Ordering::Relaxed);
            }
            let woken = self.sleep(
                &self.read_wait,
                exclusive && !stream,
                self.timeout(0),
                nonblock,
                |s| s.has_message() || s.shut_in || s.error.is_some(),
            );
            if stream && !nonblock {
                self.reader_sleeps.store(false, Ordering::Relaxed);
            }
            woken?;
        }
    }

    /// How many bytes can be read (`FIONREAD`). For datagrams: of the first message.
    pub fn waiting(&self) -> usize {
        let s = self.state.lock();
        match self.kind {
            Kind::Stream => s.bytes,
            _ => s.queue.front().map_or(0, |m| m.data.len()),
        }
    }

    /// How many files are in messages that wait to be received.
    pub(super) fn files_waiting(&self) -> usize {
        let s = self.state.lock();
        s.queue.iter().map(|message| message.files.files().len()).sum()
    }

    /// Calls `with` with the queue of messages, and with those of connections that wait to be accepted.
    pub(super) fn each_queue(&self, with: &mut dyn FnMut(&mut VecDeque<Message>)) {
        {
            let mut s = self.state.lock();
            with(&mut s.queue);
            s.bytes = s
                .queue
                .iter()
                .map(|message| message.data.len() - message.at)
                .sum();
        }
        // One after the other: there may be very many.
        for n in 0.. {
            let Some(sock) = self.state.lock().pending.get(n).cloned() else {
                break;
            };
            sock.each_queue(with);
        }
    }
}
