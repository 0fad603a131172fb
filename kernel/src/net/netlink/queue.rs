//! What waits in a socket to be received.

use crate::net::unix::peer::Cred;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// How many bytes may wait if the program does not say otherwise (`net.core.rmem_default`).
pub const BUFFER: usize = 212_992;
/// How many bytes a datagram counts for in addition to its own.
const OVERHEAD: usize = 512;

/// A datagram.
pub struct Datagram {
    /// Its bytes.
    pub data: Vec<u8>,
    /// The sender's port; 0 is the kernel.
    pub port: u32,
    /// The group for which it is; 0: none.
    pub group: u32,
    /// The sender's credentials.
    pub cred: Cred,
}

impl Datagram {
    /// From the kernel, to a group if it is not 0.
    pub fn of_kernel(data: Vec<u8>, group: u32) -> Self {
        Self {
            data,
            port: 0,
            group,
            cred: Cred::KERNEL,
        }
    }
    /// A copy. `ENOMEM`.
    pub fn copy(&self) -> Result<Self, Errno> {
        let data = crate::mm::reserve::copy_of(&self.data)?;
        Ok(Self {
            data,
            port: self.port,
            group: self.group,
            cred: self.cred.clone(),
        })
    }
    fn size(&self) -> usize {
        self.data.len() + OVERHEAD
    }
}

/// An answer in several datagrams, made one by one as the receiver takes them.
pub trait Dump: Send {
    /// The next. `None`: that was all. `ENOMEM`: it is tried again later. May sleep.
    fn next(&mut self) -> Result<Option<Vec<u8>>, Errno>;
}

/// What waits in a socket.
pub struct Queue {
    list: VecDeque<Datagram>,
    used: usize,
    limit: usize,
    /// Something was lost, and what waits has not been taken since.
    congested: bool,
    /// Answers that are not at their end.
    pub dumps: VecDeque<Box<dyn Dump>>,
}

impl Queue {
    pub const fn new() -> Self {
        Self {
            list: VecDeque::new(),
            used: 0,
            limit: BUFFER,
            congested: false,
            dumps: VecDeque::new(),
        }
    }
    /// `SO_RCVBUF`.
    pub fn limit(&self) -> usize {
        self.limit
    }
    /// Sets that.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }
    /// The list, for who makes room in it.
    pub fn list(&mut self) -> &mut VecDeque<Datagram> {
        &mut self.list
    }
    /// Whether another datagram may be put there.
    pub fn has_room(&self) -> bool {
        !self.congested && self.used <= self.limit
    }
    /// Whether it is at most half full: answers go on then. Not after a loss: they would be lost, too.
    pub fn is_roomy(&self) -> bool {
        !self.congested && self.used <= self.limit / 2
    }
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
    /// There is room in the list.
    pub fn push(&mut self, datagram: Datagram) {
        self.used += datagram.size();
        self.list.push_back(datagram);
    }
    pub fn pop(&mut self) -> Option<Datagram> {
        let datagram = self.list.pop_front()?;
        self.used -= datagram.size();
        if self.list.is_empty() {
            self.congested = false;
        }
        Some(datagram)
    }
    /// Keeps room for a datagram that comes later.
    pub fn hold(&mut self, datagram: &Datagram) {
        self.used += datagram.size();
    }
    /// That is not needed. What the socket had may have been thrown away meanwhile.
    pub fn let_go(&mut self, datagram: &Datagram) {
        self.used = self.used.saturating_sub(datagram.size());
    }
    /// One that was taken could not be told to the program, or was only looked at.
    pub fn push_back(&mut self, datagram: Datagram) {
        self.used += datagram.size();
        self.list.push_front(datagram);
    }
    /// A datagram was lost, and the program is to know it. Returns whether it is the first.
    pub fn loses(&mut self) -> bool {
        !core::mem::replace(&mut self.congested, true)
    }
    /// Losses are not told any more: what fits is taken at once.
    pub fn tells_no_losses(&mut self) {
        self.congested = false;
    }
    /// Nothing waits in it (any more), so what was lost is over. Returns whether there is room since.
    pub fn recovers(&mut self) -> bool {
        self.list.is_empty() && core::mem::replace(&mut self.congested, false)
    }
}
