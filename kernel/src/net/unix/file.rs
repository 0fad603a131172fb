//! Local sockets as files: `read`, `write` and `poll`, and sending and receiving with files and credentials.

use super::flight::Flight;
use super::name::{Name, address_of, find, name_of};
use super::peer::{Cred, sender_cred};
use super::{Kind, Message, PIECE, Sock};
use crate::fs::anon;
use crate::fs::fasync::{self, Async};
use crate::fs::file::{File, FileMode, FileOps};
use crate::fs::io::{IoDst, IoSrc};
use crate::fs::poll::{PollEvents, PollTable};
use crate::fs::pseudo::Text;
use crate::mm::user::UserPtr;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;
use limen_linux_abi::SysResult;
use limen_linux_abi::{Errno, raw::general as abi};

/// Commands of `ioctl` that set and return the owner, like `F_SETOWN` and `F_GETOWN`.
const FIOSETOWN: u32 = 0x8901;
const SIOCSPGRP: u32 = 0x8902;
const FIOGETOWN: u32 = 0x8903;
const SIOCGPGRP: u32 = 0x8904;

/// The operations of a socket's descriptor.
struct SocketFile(Arc<Sock>);

/// What a receive returns in addition to the bytes.
#[derive(Default)]
pub struct Received {
    /// How many bytes were written to the receiver.
    pub len: usize,
    /// The message's full length. A datagram may have been cut.
    pub full: usize,
    /// The files that came with it.
    pub files: Vec<Arc<File>>,
    /// The credentials of the sender.
    pub cred: Option<Cred>,
    /// The sender's name.
    pub from: Option<Name>,
}

impl Received {
    /// The sender's address. Empty if it has no name.
    pub fn sender(&self) -> Vec<u8> {
        self.from
            .as_ref()
            .map_or_else(Vec::new, |name| address_of(Some(name)))
    }
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
    /// `MSG_OOB`.
    pub oob: bool,
}

/// How to send, and what to send along.
#[derive(Default)]
pub struct Sending {
    /// The receiver's address. Empty: the peer.
    pub to: Vec<u8>,
    /// Files.
    pub files: Vec<Arc<File>>,
    /// The credentials that the sender gave, if it did (`SCM_CREDENTIALS`).
    pub cred: Option<Cred>,
    /// `MSG_DONTWAIT` or `O_NONBLOCK`.
    pub nonblock: bool,
    /// `MSG_NOSIGNAL`: `EPIPE` comes without `SIGPIPE`.
    pub quiet: bool,
    /// `MSG_OOB`.
    pub oob: bool,
}

/// Makes a file for a socket.
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

/// The socket behind a file. `ENOTSOCK`: it is another kind of file.
pub fn of(file: &File) -> Result<&Arc<Sock>, Errno> {
    Ok(&file.ops().downcast::<SocketFile>().ok_or(Errno::ENOTSOCK)?.0)
}

/// Sends.
pub fn send(sock: &Arc<Sock>, src: &mut IoSrc<'_>, mut how: Sending) -> SysResult {
    let result = send_inner(sock, src, &mut how);
    if result == Err(Errno::EPIPE) && !how.quiet && sock.kind == Kind::Stream {
        crate::fs::fcntl::signal_current(13);
    }
    result
}

fn send_inner(sock: &Arc<Sock>, src: &mut IoSrc<'_>, how: &mut Sending) -> SysResult {
    // Linux can be built without urgent data in local streams; this kernel is like that.
    if how.oob {
        return Err(Errno::EOPNOTSUPP);
    }
    let mut name = None;
    if sock.kind == Kind::Datagram && !how.to.is_empty() {
        name = Some(name_of(&how.to)?);
    }
    let mut target = sock.target(!how.to.is_empty())?;
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
        let files = Flight::new(core::mem::take(&mut how.files))?;
        let mut data = Vec::new();
        crate::mm::reserve::room_exact(&mut data, n).map_err(|_| Errno::ENOBUFS)?;
        data.resize(n, 0);
        let got = match src.take(&mut data) {
            Err(_) if done != 0 => return Ok(done),
            got => got?,
        };
        // Each piece is sent as a whole or not at all.
        if got < n {
            return if done != 0 { Ok(done) } else { Err(Errno::EFAULT) };
        }
        let message = Message {
            data,
            at: 0,
            files,
            cred: how.cred.clone().unwrap_or_else(sender_cred),
            from: sock.name(),
        };
        let target = match &target {
            Some(target) => target,
            None => target.insert(find(sock, name.take().ok_or(Errno::ENOTCONN)?)?),
        };
        match target.deliver(message, sock, how.nonblock) {
            Ok(()) => done += got,
            Err(_) if done != 0 => return Ok(done),
            Err(e) => return Err(e),
        }
        if whole {
            return Ok(done);
        }
    }
}

/// Receives.
pub fn receive(sock: &Arc<Sock>, dst: &mut IoDst<'_>, how: How) -> Result<Received, Errno> {
    let mut out = Received::default();
    if how.oob {
        return Err(if sock.kind == Kind::Stream {
            Errno::EINVAL
        } else {
            Errno::EOPNOTSUPP
        });
    }
    let mut seen = 0;
    loop {
        let nonblock = how.nonblock || (out.len != 0 && !how.wait_all);
        let first = out.len == 0;
        let step = sock.receive(nonblock, !how.peek, seen, |m| {
            // Data of different senders is not mixed, nor is data behind descriptors.
            if !first && (m.files.any() || out.cred.as_ref() != Some(&m.cred)) {
                return Err(Errno::EAGAIN);
            }
            let n = if m.at < m.data.len() {
                dst.put(&m.data[m.at..])?
            } else {
                0
            };
            out.from.clone_from(&m.from);
            // The rest of a stream's piece is not lost.
            out.full += if sock.kind == Kind::Stream {
                n
            } else {
                m.data.len() - m.at
            };
            if how.peek {
                if m.files.any() {
                    out.files.extend(m.files.copy());
                }
                out.cred = Some(m.cred.clone());
                return Ok((n, false));
            }
            if m.files.any() {
                out.files.append(&mut m.files.land());
            }
            m.at += n;
            let goes = sock.kind != Kind::Stream || m.at == m.data.len();
            out.cred = Some(match goes {
                true => core::mem::take(&mut m.cred),
                false => m.cred.clone(),
            });
            Ok((n, goes))
        });
        match step {
            Ok(None) => return Ok(out),
            Ok(Some(n)) => out.len += n,
            Err(_) if out.len != 0 => return Ok(out),
            Err(e) => return Err(e),
        }
        if sock.kind != Kind::Stream || dst.remaining() == 0 || !out.files.is_empty() {
            return Ok(out);
        }
        seen += usize::from(how.peek);
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
        Ok(receive(&self.0, dst, how)?.len)
    }
    fn write(&self, file: &File, src: &mut IoSrc<'_>, _: Option<u64>) -> SysResult {
        let how = Sending {
            nonblock: file.nonblocking(),
            ..Sending::default()
        };
        send(&self.0, src, how)
    }
    fn poll(&self, _: &File, table: Option<&mut PollTable<'_>>) -> PollEvents {
        if let Some(t) = table {
            t.register(&self.0.read_wait);
            t.register(&self.0.write_wait);
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
    fn ioctl(&self, file: &File, cmd: u32, arg: usize) -> SysResult {
        use limen_linux_abi::native::ioctl::{FIONREAD, TIOCOUTQ};
        let n = match cmd {
            FIOSETOWN | SIOCSPGRP => {
                let id = UserPtr::<i32>::new(arg).read()?;
                fasync::set_signed_owner(file, id)?;
                return Ok(0);
            }
            FIOGETOWN | SIOCGPGRP => {
                return UserPtr::new(arg).write(fasync::signed_owner(file)).map(|()| 0);
            }
            FIONREAD if self.0.is_listening() => return Err(Errno::EINVAL),
            FIONREAD => self.0.waiting(),
            TIOCOUTQ => self.0.peer().map_or(0, |p| p.waiting()),
            _ => return Err(Errno::ENOTTY),
        };
        UserPtr::<i32>::new(arg)
            .write(n.min(i32::MAX as usize) as i32)
            .map(|()| 0)
    }
    fn asyncs(&self, with: &mut dyn FnMut(&Async)) -> bool {
        with(&self.0.owners);
        true
    }
    fn show_fdinfo(&self, _: &File, out: &mut Text) {
        let _ = writeln!(out, "scm_fds: {}", self.0.files_waiting());
    }
    fn release(&self, _: &File) {
        self.0.close();
        super::cycles::collect();
    }
}
