//! Netlink sockets as files: `read`, `write` and `poll`; sending.

use super::ports;
use super::queue::Datagram;
use super::socket::Socket;
use crate::fs::anon;
use crate::fs::fasync::Async;
use crate::fs::file::{File, FileMode, FileOps};
use crate::fs::io::{IoDst, IoSrc};
use crate::fs::poll::{PollEvents, PollTable};
use crate::net::unix::peer::{Cred, sender_cred};
use crate::task::creds::cap;
use crate::task::current;
use alloc::sync::Arc;
use limen_linux_abi::{Errno, SysResult, raw::general as abi};
use limen_netlink::Address;

struct SocketFile(Arc<Socket>);

/// Makes a file for a socket.
pub fn file(socket: Arc<Socket>, flags: u32) -> Arc<File> {
    File::new(
        Arc::new(SocketFile(socket)),
        anon::socket_place(),
        abi::O_RDWR | (flags & abi::O_NONBLOCK),
        FileMode::STREAM | FileMode::NO_PREAD | FileMode::POLLS | FileMode::SENDS | FileMode::RECEIVES,
    )
}

/// The socket behind a file. `ENOTSOCK`: it is another kind of file.
pub fn of(file: &File) -> Result<&Arc<Socket>, Errno> {
    Ok(&file.ops().downcast::<SocketFile>().ok_or(Errno::ENOTSOCK)?.0)
}

/// Whether the running thread may send there with a socket. `EPERM`.
pub fn may_send_to(socket: &Socket, to: Address) -> Result<(), Errno> {
    let anyone = super::protocol(socket.protocol).is_some_and(|protocol| protocol.anyone_sends());
    if anyone || to == Address::default() || current().creds().capable_in(socket.net.owner(), cap::NET_ADMIN)
    {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// Sends a datagram. `to`: the address; `None`: its peer. `cred`: what the sender says of itself.
pub fn send(
    socket: &Arc<Socket>,
    src: &mut IoSrc<'_>,
    to: Option<Address>,
    cred: Option<Cred>,
    nonblock: bool,
) -> SysResult {
    let len = src.remaining();
    if len == 0 {
        return Err(Errno::ENODATA);
    }
    let addressed = to.is_some();
    let to = match to {
        Some(to) => {
            may_send_to(socket, to)?;
            to
        }
        None => socket.peer(),
    };
    socket.take_port(0)?;
    let options = socket.options();
    if len > options.sends.saturating_sub(32) {
        return Err(Errno::EMSGSIZE);
    }
    let mut data = crate::mm::copy::zeroed(len).map_err(|_| Errno::ENOBUFS)?;
    if src.take(&mut data)? < len {
        return Err(Errno::EFAULT);
    }
    let datagram = Datagram {
        data,
        port: socket.port(),
        group: to.group(),
        cred: cred.unwrap_or_else(sender_cred),
    };
    // As on Linux, what goes to a group goes to the kernel or the port as well.
    if datagram.group != 0 {
        ports::broadcast(
            socket.protocol,
            socket.net.number(),
            &datagram,
            [datagram.port, to.port],
        );
    }
    if to.port == 0 {
        super::request::to_kernel(socket, &datagram.data, addressed)?;
        return Ok(len);
    }
    let target = ports::find(socket.protocol, socket.net.number(), to.port)?;
    if !target.takes_from(datagram.port) {
        return Err(Errno::ECONNREFUSED);
    }
    let now = crate::time::now_ns();
    let deadline = match (nonblock, options.timeouts[1]) {
        (true, _) => now,
        (false, Some(ns)) => now.saturating_add(ns),
        (false, None) => u64::MAX,
    };
    target.deliver_by(datagram, deadline)?;
    Ok(len)
}

impl FileOps for SocketFile {
    fn read(&self, file: &File, dst: &mut IoDst<'_>, _: Option<u64>) -> SysResult {
        self.0
            .receive(file.nonblocking(), false, |datagram| dst.put(&datagram.data))
    }
    fn write(&self, file: &File, src: &mut IoSrc<'_>, _: Option<u64>) -> SysResult {
        send(&self.0, src, None, None, file.nonblocking())
    }
    fn poll(&self, _: &File, table: Option<&mut PollTable<'_>>) -> PollEvents {
        if let Some(table) = table {
            table.register(&self.0.news);
        }
        let (readable, error) = self.0.readiness();
        let mut events = PollEvents::WRITABLE;
        events.set(PollEvents::READABLE, readable);
        events.set(PollEvents::ERR, error);
        events
    }
    fn asyncs(&self, with: &mut dyn FnMut(&Async)) -> bool {
        with(&self.0.owners);
        true
    }
    fn release(&self, _: &File) {
        self.0.close();
    }
}
