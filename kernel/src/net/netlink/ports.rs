//! Which socket has which port, and sending to ports and groups.

use super::queue::Datagram;
use super::socket::{Remembered, Socket};
use crate::sync::{Mutex, MutexGuard};
use crate::task::current;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use limen_linux_abi::Errno;

/// The sockets that have a port, by protocol and port.
static PORTS: Mutex<BTreeMap<(u32, u32), Weak<Socket>>> = Mutex::new(BTreeMap::new());
/// Held by who gives a socket a port.
static CHANGING: Mutex<()> = Mutex::new(());
/// Ports that no process has as its number begin here, and go down.
const OTHERS: i32 = -4097;

/// Nobody else gives sockets ports as long as this is held.
pub(super) fn changing() -> MutexGuard<'static, ()> {
    CHANGING.lock()
}

/// Gives a socket a port: this one, or if it is 0, the process's number or one that no process has. Returns
/// it. `EADDRINUSE`.
pub(super) fn insert(socket: &Arc<Socket>, port: u32) -> Result<u32, Errno> {
    let mut ports = PORTS.lock();
    let taken = |port: u32, ports: &BTreeMap<_, _>| ports.contains_key(&(socket.protocol, port));
    let port = match port {
        0 => {
            let own = current().tgid() as u32;
            let others = (i32::MIN..=OTHERS).rev().map(i32::cast_unsigned);
            let mut all = core::iter::once(own).chain(others);
            all.find(|port| !taken(*port, &ports)).ok_or(Errno::EADDRINUSE)?
        }
        port if taken(port, &ports) => return Err(Errno::EADDRINUSE),
        port => port,
    };
    ports.insert((socket.protocol, port), Arc::downgrade(socket));
    Ok(port)
}

pub(super) fn remove(protocol: u32, port: u32) {
    PORTS.lock().remove(&(protocol, port));
}

/// The socket with a port. `ECONNREFUSED`: there is none.
pub(super) fn find(protocol: u32, port: u32) -> Result<Arc<Socket>, Errno> {
    let ports = PORTS.lock();
    let found = ports.get(&(protocol, port)).and_then(Weak::upgrade);
    found.ok_or(Errno::ECONNREFUSED)
}

/// The kernel sends to a socket that it has remembered, and waits for room there until `deadline_ns`.
/// `ECONNREFUSED`: the socket is gone, whoever has its port now; `EAGAIN`: there was no room; `ENOMEM`. May
/// sleep.
pub fn unicast(to: Remembered, data: alloc::vec::Vec<u8>, deadline_ns: u64) -> Result<(), Errno> {
    let socket = find(to.protocol, to.port)?;
    if socket.remembered() != to {
        return Err(Errno::ECONNREFUSED);
    }
    socket.deliver_by(Datagram::of_kernel(data, 0), deadline_ns)
}

/// Sends a copy to all sockets that hear the datagram's group, but not to those with ports in `except`. Those
/// without room are told that they lost something. Returns whether there was any. May sleep.
pub fn broadcast(protocol: u32, datagram: &Datagram, except: [u32; 2]) -> bool {
    let mut any = false;
    let mut from = (protocol, 0);
    loop {
        // One after the other: the table is not locked while a datagram is put there.
        let next = {
            let ports = PORTS.lock();
            let mut range = ports.range(from..=(protocol, u32::MAX));
            range.find_map(|(key, socket)| Some((*key, socket.upgrade()?)))
        };
        let Some((key, socket)) = next else { return any };
        if !except.contains(&key.1) && socket.hears(datagram.group) {
            any = true;
            match datagram.copy() {
                Ok(copy) => {
                    let _ = socket.deliver(copy);
                }
                Err(errno) => socket.fail(errno),
            }
        }
        match key.1.checked_add(1) {
            Some(port) => from = (protocol, port),
            None => return any,
        }
    }
}
