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
mod socket;

pub use ports::{broadcast, unicast};
pub use queue::{Datagram, Dump};
pub use socket::{Flags, Remembered, Socket};

use crate::mm::reserve::handling;
use crate::sync::Once;
use limen_linux_abi::Errno;
use limen_netlink::{Message, flag};

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
    /// A message from a socket. `answer`: it wants to be told of success. What is returned is told to it: 0
    /// if `answer` (still) is, an error or another number always. Called by the sender; may sleep.
    fn receive(&self, from: &Socket, message: &Message<'_>, answer: &mut bool) -> Result<u32, Errno>;
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

/// The kernel gets what a socket sent.
fn to_kernel(from: &Socket, sent: &[u8]) -> Result<(), Errno> {
    let protocol = protocol(from.protocol).filter(|protocol| protocol.listens());
    let protocol = protocol.ok_or(Errno::ECONNREFUSED)?;
    for message in limen_netlink::messages(sent) {
        let mut answer = message.header.flags & flag::ACK != 0;
        let told = match protocol.receive(from, &message, &mut answer) {
            Ok(number) => number.cast_signed(),
            Err(errno) => -i32::from(errno.get()),
        };
        if told != 0 || answer {
            let capped = from.has(Flags::CAP_ACK);
            // It may be as long as what was sent.
            match handling(|| limen_netlink::acknowledgement(&message, told, from.port(), capped)) {
                Ok(bytes) => {
                    let _ = from.deliver(Datagram::of_kernel(bytes, 0));
                }
                // As on Linux: it sees that something is missing.
                Err(limen_netlink::NoMemory) => from.fail(Errno::ENOBUFS),
            }
        }
    }
    Ok(())
}
