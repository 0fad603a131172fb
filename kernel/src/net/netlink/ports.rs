//! Which socket has which port, and sending to ports and groups.

use super::queue::Datagram;
use super::socket::{Remembered, Socket};
use crate::mm::reserve::room;
use crate::sync::{Mutex, MutexGuard};
use crate::task::current;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// Ports that no process has as its number begin here, and go down.
const OTHERS: i32 = -4097;

struct Ports {
    /// The sockets that have a port, by protocol, network namespace and port.
    sockets: BTreeMap<(u32, u32, u32), Weak<Socket>>,
    /// Where the next search for a free port of no process begins: whoever takes ports makes it no longer.
    next: i32,
}

static PORTS: Mutex<Ports> = Mutex::new(Ports {
    sockets: BTreeMap::new(),
    next: OTHERS,
});
/// The sockets that hear groups, in the order of protocol and serial number. Others cost a broadcast nothing.
static HEARING: Mutex<Vec<((u32, u64), Weak<Socket>)>> = Mutex::new(Vec::new());
/// Held by who gives a socket a port, or changes the groups that one hears.
static CHANGING: Mutex<()> = Mutex::new(());

/// Nobody else gives sockets ports, or changes what they hear, as long as this is held.
pub(super) fn changing() -> MutexGuard<'static, ()> {
    CHANGING.lock()
}

/// Gives a socket a port: this one, or if it is 0, the process's number or one that no process has. Returns
/// it. `EADDRINUSE`.
pub(super) fn insert(socket: &Arc<Socket>, port: u32) -> Result<u32, Errno> {
    let net = socket.net.number();
    let mut ports = PORTS.lock();
    let taken = |port: u32, ports: &Ports| ports.sockets.contains_key(&(socket.protocol, net, port));
    let port = match port {
        0 => {
            let own = current().process.own_tgid as u32;
            if taken(own, &ports) {
                let others = (i32::MIN..=ports.next).rev().chain((ports.next..=OTHERS).rev());
                let mut others = others.map(i32::cast_unsigned);
                let port = others
                    .find(|port| !taken(*port, &ports))
                    .ok_or(Errno::EADDRINUSE)?;
                ports.next = port.cast_signed().checked_sub(1).unwrap_or(OTHERS);
                port
            } else {
                own
            }
        }
        port if taken(port, &ports) => return Err(Errno::EADDRINUSE),
        port => port,
    };
    ports
        .sockets
        .insert((socket.protocol, net, port), Arc::downgrade(socket));
    Ok(port)
}

pub(super) fn remove(protocol: u32, net: u32, port: u32) {
    PORTS.lock().sockets.remove(&(protocol, net, port));
}

/// A socket will hear groups. The caller holds [`changing`]. `ENOMEM`. May sleep.
pub(super) fn hears(socket: &Arc<Socket>) -> Result<(), Errno> {
    let key = (socket.protocol, socket.serial);
    let mut hearing = HEARING.lock();
    if let Err(at) = hearing.binary_search_by_key(&key, |(key, _)| *key) {
        room(&mut *hearing, 1)?;
        hearing.insert(at, (key, Arc::downgrade(socket)));
    }
    Ok(())
}

/// A socket hears no group any more. The caller holds [`changing`], or nobody else has the socket.
pub(super) fn hears_none(socket: &Socket) {
    let key = (socket.protocol, socket.serial);
    let mut hearing = HEARING.lock();
    if let Ok(at) = hearing.binary_search_by_key(&key, |(key, _)| *key) {
        hearing.remove(at);
    }
}

/// The socket with a port in the network namespace `net`. `ECONNREFUSED`: there is none.
pub(super) fn find(protocol: u32, net: u32, port: u32) -> Result<Arc<Socket>, Errno> {
    let ports = PORTS.lock();
    let found = ports.sockets.get(&(protocol, net, port)).and_then(Weak::upgrade);
    found.ok_or(Errno::ECONNREFUSED)
}

/// The kernel sends to a socket that it has remembered, and waits for room there until `deadline_ns`.
/// `ECONNREFUSED`: the socket is gone, whoever has its port now; `EAGAIN`: there was no room; `ENOMEM`. May
/// sleep.
pub fn unicast(to: Remembered, data: Vec<u8>, deadline_ns: u64) -> Result<(), Errno> {
    let socket = find(to.protocol, to.net, to.port)?;
    if socket.remembered() != to {
        return Err(Errno::ECONNREFUSED);
    }
    socket.deliver_by(Datagram::of_kernel(data, 0), deadline_ns)
}

/// Sends a copy to all sockets of the network namespace `net` that hear the datagram's group, but not to
/// those with ports in `except`. Those without room are told that they lost something. Returns whether there
/// was any. May sleep.
pub fn broadcast(protocol: u32, net: u32, datagram: &Datagram, except: [u32; 2]) -> bool {
    let mut any = false;
    let mut from = (protocol, 0);
    loop {
        // One after the other: the list is not locked while a datagram is put there.
        let next = {
            let hearing = HEARING.lock();
            let at = hearing.partition_point(|(key, _)| *key < from);
            let mut rest = hearing[at..].iter().take_while(|(key, _)| key.0 == protocol);
            rest.find_map(|(key, socket)| Some((*key, socket.upgrade()?)))
        };
        let Some((key, socket)) = next else { return any };
        if socket.net.number() == net && !except.contains(&socket.port()) && socket.hears(datagram.group) {
            any = true;
            match datagram.copy() {
                Ok(copy) => {
                    let _ = socket.deliver(copy);
                }
                Err(errno) => socket.fail(errno),
            }
        }
        from = (protocol, key.1 + 1);
    }
}
