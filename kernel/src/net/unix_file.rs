//! Local sockets as files: `read`, `write`, `poll`; and sending and receiving with all that goes along.

use super::unix::{Kind, Message, PIECE, Sock, own_cred};
use crate::fs::anon;
use crate::fs::file::{File, FileMode, FileOps};
use crate::fs::io::{IoDst, IoSrc};
use crate::fs::poll::{PollEvents, PollTable};
use crate::mm::user::UserPtr;
use crate::syscall::SysResult;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use limen_linux_abi::{Errno, raw::general as abi};

/// The operations of a socket's descriptor.
struct SocketFile(Arc<Sock>);

/// What a receive gave besides the bytes.
#[derive(Default)]
pub struct Received {
    /// Bytes put.
    pub len: usize,
    /// The message's full length (datagrams may be cut).
    pub full: usize,
    /// Files that came along.
    pub files: Vec<Arc<File>>,
    /// Who sent it.
    pub cred: Option<[u32; 3]>,
    /// The sender's name.
    pub from: Option<super::unix::Name>,
}

/// How to receive.
#[derive(Clone, Copy, Default)]
pub struct How {
    /// `MSG_DONTWAIT` or `O_NONBLOCK`.
    pub nonblock: bool,
    /// `MSG_PEEK`.
    pub peek: bool,
    /// `MSG_WAITALL`.
    pub wait_all: bool,
}

/// Makes a file of a socket.
pub fn file(sock: Arc<Sock>, flags: u32) -> Arc<File> {
    let ops = Arc::new(SocketFile(sock));
    let flags = abi::O_RDWR | (flags & abi::O_NONBLOCK);
    File::new(
        ops,
        anon::socket_place(),
        flags,
        FileMode::STREAM | FileMode::NO_PREAD | FileMode::POLLS | FileMode::SENDS | FileMode::RECEIVES,
    )
}

/// The socket behind a file; `ENOTSOCK` for anything else.
pub fn of(file: &File) -> Result<&Arc<Sock>, Errno> {
    Ok(&file.ops().downcast::<SocketFile>().ok_or(Errno::ENOTSOCK)?.0)
}

/// Sends to `to` or the peer. `EPIPE` comes with `SIGPIPE` unless `quiet` (`MSG_NOSIGNAL`).
pub fn send(
    sock: &Arc<Sock>,
    src: &mut IoSrc<'_>,
    to: Option<Arc<Sock>>,
    mut files: Vec<Arc<File>>,
    nonblock: bool,
    quiet: bool,
) -> SysResult {
    let result = send_inner(sock, src, to, &mut files, nonblock);
    if result == Err(Errno::EPIPE) && !quiet && sock.kind != Kind::Datagram {
        crate::fs::fcntl::signal_current(13);
    }
    result
}

fn send_inner(
    sock: &Arc<Sock>,
    src: &mut IoSrc<'_>,
    to: Option<Arc<Sock>>,
    files: &mut Vec<Arc<File>>,
    nonblock: bool,
) -> SysResult {
    let target = sock.target(to)?;
    let whole = sock.kind != Kind::Stream;
    if whole && src.remaining() > 212_992 - 32 {
        return Err(Errno::EMSGSIZE);
    }
    let mut done = 0;
    loop {
        let n = if whole {
            src.remaining()
        } else {
            src.remaining().min(PIECE)
        };
        if n == 0 && !whole {
            return Ok(done);
        }
        let mut data = Vec::new();
        data.try_reserve_exact(n).map_err(|_| Errno::ENOBUFS)?;
        data.resize(n, 0);
        if let Err(e) = src.take_whole(&mut data) {
            return if done != 0 { Ok(done) } else { Err(e) };
        }
        let message = Message {
            data,
            at: 0,
            files: core::mem::take(files),
            cred: own_cred(),
            from: sock.name(),
        };
        match target.deliver(message, sock, nonblock) {
            Ok(()) => done += n,
            Err(_) if done != 0 => return Ok(done),
            Err(e) => return Err(e),
        }
        if whole {
            return Ok(done);
        }
    }
}

/// Receives. From a stream nothing is nothing, whether there is more or not.
pub fn receive(sock: &Arc<Sock>, dst: &mut IoDst<'_>, how: How) -> Result<Received, Errno> {
    if sock.kind == Kind::Stream && dst.remaining() == 0 {
        return Ok(Received::default());
    }
    receive_some(sock, dst, how)
}

fn receive_some(sock: &Arc<Sock>, dst: &mut IoDst<'_>, how: How) -> Result<Received, Errno> {
    let mut out = Received::default();
    loop {
        let nonblock = how.nonblock || (out.len != 0 && !how.wait_all);
        let first = out.len == 0;
        let step = sock.receive(nonblock, |m| {
            // Data of different senders, and what follows descriptors, is not mixed.
            if !first && (!m.files.is_empty() || out.cred != Some(m.cred)) {
                return Err(Errno::EAGAIN);
            }
            let n = if m.at < m.data.len() {
                dst.put(&m.data[m.at..])?
            } else {
                0
            };
            out.cred = Some(m.cred);
            out.from.clone_from(&m.from);
            out.full += m.data.len() - m.at;
            if how.peek {
                out.files.extend(m.files.iter().cloned());
                return Ok((n, false));
            }
            out.files.append(&mut m.files);
            m.at += n;
            Ok((n, sock.kind != Kind::Stream || m.at == m.data.len()))
        });
        match step {
            Ok(None) => return Ok(out),
            Ok(Some(n)) => out.len += n,
            Err(_) if out.len != 0 => return Ok(out),
            Err(e) => return Err(e),
        }
        if sock.kind != Kind::Stream || how.peek || dst.remaining() == 0 || !out.files.is_empty() {
            return Ok(out);
        }
    }
}

impl FileOps for SocketFile {
    fn read(&self, file: &File, dst: &mut IoDst<'_>, _: Option<u64>) -> SysResult {
        if dst.remaining() == 0 {
            return Ok(0);
        }
        let how = How {
            nonblock: file.nonblocking(),
            ..How::default()
        };
        Ok(receive_some(&self.0, dst, how)?.len)
    }
    fn write(&self, file: &File, src: &mut IoSrc<'_>, _: Option<u64>) -> SysResult {
        send(&self.0, src, None, vec![], file.nonblocking(), false)
    }
    fn poll(&self, _: &File, table: Option<&mut PollTable<'_>>) -> PollEvents {
        if let Some(t) = table {
            t.register(&self.0.read_wait);
            t.register(&self.0.write_wait);
            if let Some(p) = self.0.peer() {
                t.register(&p.write_wait);
            }
        }
        let (readable, room, shut_in, hung, error) = self.0.readiness();
        let mut events = PollEvents::empty();
        events.set(PollEvents::READABLE, readable);
        events.set(PollEvents::WRITABLE, room && !self.0.is_listening());
        events.set(PollEvents::RDHUP, shut_in);
        events.set(PollEvents::HUP, hung);
        events.set(PollEvents::ERR, error);
        events
    }
    fn ioctl(&self, _: &File, cmd: u32, arg: usize) -> SysResult {
        use limen_linux_abi::native::ioctl::{FIONREAD, TIOCOUTQ};
        let n = match cmd {
            FIONREAD if self.0.is_listening() => return Err(Errno::EINVAL),
            FIONREAD => self.0.waiting(),
            TIOCOUTQ => self.0.peer().map_or(0, |p| p.waiting()),
            _ => return Err(Errno::ENOTTY),
        };
        UserPtr::<i32>::new(arg)
            .write(n.min(i32::MAX as usize) as i32)
            .map(|()| 0)
    }
    fn release(&self, _: &File) {
        self.0.close();
    }
}
