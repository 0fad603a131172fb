//! Netlink sockets (`AF_NETLINK`): datagrams between processes and parts of the kernel, and from those to
//! groups of sockets. A part of the kernel that answers is a [`Protocol`].
//!
//! A socket's number (its port) is unique in its protocol; the kernel has 0. A socket's state is behind one
//! short spinlock; data is copied from and to user memory without it, and two sockets are never locked at
//! the same time.

mod between;
pub mod file;
mod ports;
mod queue;
mod request;
mod route;
mod socket;

pub use ports::{broadcast, unicast};
pub use queue::{Datagram, Dump};
pub use request::Request;
pub use socket::{Flags, Held, Remembered, Socket};

use crate::sync::Once;
use limen_linux_abi::Errno;

/// `AF_NETLINK`.
pub const AF_NETLINK: u32 = limen_netlink::Address::FAMILY as u32;
/// How many protocols there can be (`MAX_LINKS`).
const PROTOCOLS: usize = 32;

/// A part of the kernel that answers.
pub trait Protocol: Sync {
    /// How many groups there are, numbered from 1 on.
    fn groups(&self) -> u32;
    /// Whether every user may hear groups, but for [`Self::may_hear`].
    fn anyone_hears(&self) -> bool {
        false
    }
    /// The running thread wants to hear a group. `EPERM`. May sleep.
    fn may_hear(&self, _group: u32) -> Result<(), Errno> {
        Ok(())
    }
    /// A socket of the running thread hears a group no longer. May sleep.
    fn hears_no_more(&self, _group: u32) {}
    /// A message from a socket. What is returned is told to it: 0 if it has asked for that, an error or
    /// another number always. Called by the sender; may sleep.
    fn receive(&self, request: &mut Request<'_>) -> Result<u32, Errno>;
    /// All messages of a datagram were received and are answered. Called by the sender; may sleep.
    fn received(&self) {}
    /// Whether the kernel has a socket, to which that can be sent.
    fn listens(&self) -> bool {
        true
    }
    /// Whether every user may send to others than the kernel.
    fn anyone_sends(&self) -> bool {
        false
    }
}

static ALL: [Once<&'static dyn Protocol>; PROTOCOLS] = [const { Once::new() }; PROTOCOLS];

/// The protocols that need nothing else. At boot.
pub fn init() {
    register(between::NUMBER, &between::Between);
    register(route::NUMBER, &route::Route);
}

/// From now on there is a protocol. At boot.
pub fn register(number: u32, protocol: &'static dyn Protocol) {
    if let Some(place) = ALL.get(number as usize) {
        let _ = place.set(protocol);
    }
}

/// The protocol with this number. `None`: there is none.
pub fn protocol(number: u32) -> Option<&'static dyn Protocol> {
    ALL.get(number as usize)?.get().copied()
}
