//! System calls on sockets: arguments.

use super::file::{file, files};
use super::message::{many, receive_message, send_message};
use super::time::TimeWord;
use super::{Handler, SysResult};
use crate::fs::file::File;
use crate::fs::inode::{Dev, FileType};
use crate::fs::io::{IoDst, IoSrc};
use crate::fs::names::{self, New};
use crate::fs::walk::{AT_FDCWD, Walk, lookup, with_parent};
use crate::mm::copy::zeroed;
use crate::mm::user::{UserPtr, read_bytes, write_bytes};
use crate::net::AF_UNIX;
use crate::net::unix::{self, Kind, Name, Sock};
use crate::net::unix_file::{self, How};
use crate::task::current;
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_linux_abi::native::socket::{
    SO_PASSCRED, SO_PEERCRED, SO_RCVLOWAT, SO_RCVTIMEO_OLD, SO_SNDLOWAT, SO_SNDTIMEO_OLD,
};
use limen_linux_abi::{Errno, raw::general as abi};

pub(super) const SOL_SOCKET: i32 = 1;
const MSG_PEEK: u32 = 2;
pub(super) const MSG_TRUNC: u32 = 0x20;
pub(super) const MSG_DONTWAIT: u32 = 0x40;
const MSG_WAITALL: u32 = 0x100;
pub(super) const MSG_NOSIGNAL: u32 = 0x4000;
/// The timeouts whose words have 64 bits on every ABI.
const SO_RCVTIMEO_NEW: u32 = 66;
const SO_SNDTIMEO_NEW: u32 = 67;
/// Bytes of a machine word: `struct msghdr` is seven, some of them half used, and control data is laid out in them.
pub(super) const WORD: usize = size_of::<usize>();
/// Bytes of `struct sockaddr_un`.
const ADDR_LEN: usize = 110;

fn kind(kind: u32) -> Result<Kind, Errno> {
    match kind & 0xf {
        1 => Ok(Kind::Stream),
        2 | 3 => Ok(Kind::Datagram),
        5 => Ok(Kind::Packet),
        _ => Err(Errno::ESOCKTNOSUPPORT),
    }
}

/// Checks `socket`'s arguments.
fn arguments(family: u32, raw: u32, protocol: u32) -> Result<Kind, Errno> {
    if raw & !(0xf | abi::O_CLOEXEC | abi::O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    if family != AF_UNIX {
        return Err(Errno::EAFNOSUPPORT);
    }
    let kind = kind(raw)?;
    if protocol != 0 && protocol != AF_UNIX {
        return Err(Errno::EPROTONOSUPPORT);
    }
    Ok(kind)
}

pub(super) fn with<R>(
    fd: i32,
    f: impl FnOnce(&Arc<File>, &Arc<Sock>) -> Result<R, Errno>,
) -> Result<R, Errno> {
    let file = file(fd)?;
    let sock = unix_file::of(&file)?;
    f(&file, sock)
}

/// A name as user space passes it: the bytes after the family.
pub(super) fn read_name(addr: usize, len: usize) -> Result<Vec<u8>, Errno> {
    if !(2..=ADDR_LEN).contains(&len) {
        return Err(Errno::EINVAL);
    }
    let mut raw = zeroed(len)?;
    read_bytes(&mut raw, addr)?;
    if u32::from(u16::from_le_bytes([raw[0], raw[1]])) != AF_UNIX {
        return Err(Errno::EINVAL);
    }
    raw.drain(..2);
    if raw.first().is_some_and(|b| *b != 0) {
        let end = raw.iter().position(|b| *b == 0).unwrap_or(raw.len());
        raw.truncate(end);
    }
    Ok(raw)
}

/// The socket a name stands for.
pub(super) fn find(name: &[u8]) -> Result<Arc<Sock>, Errno> {
    match name.first() {
        None => Err(Errno::EINVAL),
        Some(0) => unix::find_abstract(name),
        Some(_) => {
            let at = lookup(AT_FDCWD, name, Walk::FOLLOW)?;
            crate::fs::perm::path_permission(&at, crate::fs::perm::WRITE, &current().creds())?;
            if at.dentry.inode.kind != FileType::Socket {
                return Err(Errno::ECONNREFUSED);
            }
            unix::find_bound(&at.dentry.inode)
        }
    }
}

/// Writes an address and its true length back.
fn write_name(name: Option<&Name>, addr: usize, len: usize) -> Result<(), Errno> {
    if addr == 0 || len == 0 {
        return Ok(());
    }
    let room = UserPtr::<i32>::new(len).read()?;
    let room = usize::try_from(room).map_err(|_| Errno::EINVAL)?;
    let raw = encode(name);
    write_bytes(addr, &raw[..raw.len().min(room)])?;
    UserPtr::<i32>::new(len).write(raw.len() as i32)
}

pub(super) fn encode(name: Option<&Name>) -> Vec<u8> {
    let mut raw = (AF_UNIX as u16).to_le_bytes().to_vec();
    if let Some(name) = name {
        raw.extend_from_slice(name);
        if name.first().is_some_and(|b| *b != 0) {
            raw.push(0);
        }
    }
    raw
}

fn do_bind(fd: i32, addr: usize, len: usize) -> SysResult {
    with(fd, |_, sock| {
        let name = read_name(addr, len)?;
        match name.first() {
            None => {
                // Linux picks a name: five hexadecimal digits after the NUL.
                static NEXT: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(1);
                let n = NEXT.fetch_add(1, core::sync::atomic::Ordering::Relaxed) & 0xfffff;
                sock.bind(Arc::from(alloc::format!("\0{n:05x}").into_bytes()), None)?;
            }
            Some(0) => sock.bind(Arc::from(name), None)?,
            Some(_) => {
                if sock.name().is_some() {
                    return Err(Errno::EINVAL);
                }
                let mode = 0o777 & !current().fs().umask();
                let new = New {
                    kind: FileType::Socket,
                    mode,
                    rdev: Dev::default(),
                    target: b"",
                };
                let made = with_parent(AT_FDCWD, &name, Errno::EADDRINUSE, |w, last, _| {
                    names::create(&w.cur, last, &w.creds(), &new)
                });
                let made = made.map_err(|e| if e == Errno::EEXIST { Errno::EADDRINUSE } else { e })?;
                sock.bind(Arc::from(name), Some(&made.inode))?;
            }
        }
        Ok(0)
    })
}

fn do_accept(fd: i32, addr: usize, len: usize, flags: u32) -> SysResult {
    if flags & !(abi::O_CLOEXEC | abi::O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    let sock = with(fd, |file, sock| sock.accept(file.nonblocking()))?;
    let name = sock.peer_name().ok().flatten();
    let new = unix_file::file(sock, flags);
    write_name(name.as_ref(), addr, len)?;
    Ok(files().install(new, flags & abi::O_CLOEXEC != 0)? as usize)
}

pub(super) fn how(file: &File, flags: u32) -> How {
    How {
        nonblock: file.nonblocking() || flags & MSG_DONTWAIT != 0,
        peek: flags & MSG_PEEK != 0,
        wait_all: flags & MSG_WAITALL != 0,
    }
}

/// `sendto`: `name` is the receiver's, if any.
fn do_send(fd: i32, buf: usize, len: usize, flags: u32, name: (usize, usize)) -> SysResult {
    with(fd, |file, sock| {
        let to = if name.0 == 0 {
            None
        } else {
            Some(find(&read_name(name.0, name.1)?)?)
        };
        let nonblock = file.nonblocking() || flags & MSG_DONTWAIT != 0;
        let mut source = IoSrc::user(buf, len)?;
        unix_file::send(
            sock,
            &mut source,
            to,
            Vec::new(),
            nonblock,
            flags & MSG_NOSIGNAL != 0,
        )
    })
}

/// `recvfrom`: `name` is where the sender's goes, and where its length is, if wanted.
fn do_receive(fd: i32, buf: usize, len: usize, flags: u32, name: (usize, usize)) -> SysResult {
    with(fd, |file, sock| {
        let r = unix_file::receive(sock, &mut IoDst::user(buf, len)?, how(file, flags))?;
        if r.from.is_some() {
            write_name(r.from.as_ref(), name.0, name.1)?;
        } else if name.0 != 0 && name.1 != 0 {
            UserPtr::<i32>::new(name.1).write(0)?;
        }
        Ok(if flags & MSG_TRUNC != 0 { r.full } else { r.len })
    })
}

fn get_option(fd: i32, level: i32, name: u32, value: usize, len: usize) -> SysResult {
    with(fd, |_, sock| {
        let room = usize::try_from(UserPtr::<i32>::new(len).read()?).map_err(|_| Errno::EINVAL)?;
        if level != SOL_SOCKET {
            return Err(Errno::EOPNOTSUPP);
        }
        // In words of this many bytes.
        let time = |which: usize, word: usize| -> Vec<u8> {
            let ns = sock.timeout(which).unwrap_or(0);
            [ns / 1_000_000_000, ns % 1_000_000_000 / 1000]
                .iter()
                .flat_map(|w| w.to_le_bytes().into_iter().take(word))
                .collect()
        };
        let int = |n: i32| n.to_le_bytes().to_vec();
        let data = match name {
            3 => int(sock.kind as i32),
            4 => int(sock.take_error().map_or(0, |e| i32::from(e.get()))),
            2 | 5 | 6 | 9 | 10 | 13 => int(0),
            7 | 8 => int(212_992),
            SO_PASSCRED => int(i32::from(sock.pass_cred())),
            SO_PEERCRED => sock.peer_cred().iter().flat_map(|w| w.to_le_bytes()).collect(),
            SO_RCVTIMEO_OLD | SO_SNDTIMEO_OLD => time(usize::from(name == SO_SNDTIMEO_OLD), WORD),
            SO_RCVTIMEO_NEW | SO_SNDTIMEO_NEW => time(usize::from(name == SO_SNDTIMEO_NEW), 8),
            SO_RCVLOWAT | SO_SNDLOWAT => int(1),
            30 => int(i32::from(sock.is_listening())),
            38 => int(0),
            39 => int(AF_UNIX as i32),
            _ => return Err(Errno::ENOPROTOOPT),
        };
        let n = data.len().min(room);
        write_bytes(value, &data[..n])?;
        UserPtr::<i32>::new(len).write(n as i32)?;
        Ok(0)
    })
}

/// A timeout of an option; none if it is zero, and at once if it is negative.
fn read_timeout<T: TimeWord>(value: usize, len: usize) -> Result<Option<u64>, Errno> {
    if len < size_of::<[T; 2]>() {
        return Err(Errno::EINVAL);
    }
    let [sec, usec] = UserPtr::<[T; 2]>::new(value).read()?;
    let usec = u64::try_from(usec.fraction()).map_err(|_| Errno::EDOM)?;
    if usec >= 1_000_000 {
        return Err(Errno::EDOM);
    }
    let Ok(sec) = u64::try_from(sec.get()) else {
        return Ok(Some(0));
    };
    let ns = sec.saturating_mul(1_000_000_000).saturating_add(usec * 1000);
    Ok((ns != 0).then_some(ns))
}

fn set_option(fd: i32, level: i32, name: u32, value: usize, len: usize) -> SysResult {
    with(fd, |_, sock| {
        if level != SOL_SOCKET {
            return Err(Errno::EOPNOTSUPP);
        }
        if len < 4 {
            return Err(Errno::EINVAL);
        }
        let n = UserPtr::<i32>::new(value).read()?;
        match name {
            SO_PASSCRED => sock.set_pass_cred(n != 0),
            SO_RCVTIMEO_OLD | SO_SNDTIMEO_OLD => {
                let ns = read_timeout::<isize>(value, len)?;
                sock.set_timeout(usize::from(name == SO_SNDTIMEO_OLD), ns);
            }
            SO_RCVTIMEO_NEW | SO_SNDTIMEO_NEW => {
                let ns = read_timeout::<i64>(value, len)?;
                sock.set_timeout(usize::from(name == SO_SNDTIMEO_NEW), ns);
            }
            SO_RCVLOWAT => {}
            2 | 5 | 6 | 7 | 8 | 9 | 10 | 12 | 13 | 32 | 33 => {}
            _ => return Err(Errno::ENOPROTOOPT),
        }
        Ok(0)
    })
}

/// The calls that `socketcall` stands for, from 1 on, and how many arguments each has.
const CALLS: [(Handler, usize); 20] = [
    (socket, 3),
    (bind, 3),
    (connect, 3),
    (listen, 2),
    (accept, 3),
    (getsockname, 3),
    (getpeername, 3),
    (socketpair, 4),
    (send, 4),
    (recv, 4),
    (sendto, 6),
    (recvfrom, 6),
    (shutdown, 2),
    (setsockopt, 5),
    (getsockopt, 5),
    (sendmsg, 3),
    (recvmsg, 3),
    (accept4, 4),
    (recvmmsg, 5),
    (sendmmsg, 4),
];

crate::syscalls! {
    // The only way to these calls on old ABIs: which, and its arguments in memory.
    fn socketcall(call: &mut Call, which: u32, at: UserPtr<usize>) {
        let index = (which as usize).wrapping_sub(1);
        let (handler, count) = *CALLS.get(index).ok_or(Errno::EINVAL)?;
        // A frame with those arguments: this one stays as it is, in case the call is made again.
        let mut frame = call.frame.clone();
        for n in 0..count {
            frame.set_arg(n, at.add(n).read()?);
        }
        let result = handler(&mut frame);
        Errno::from_return_value(result).map_or(Ok(result), Err)
    }
    fn socket(family: u32, raw: u32, protocol: u32) {
        let sock = Sock::new(arguments(family, raw, protocol)?);
        Ok(files().install(unix_file::file(sock, raw), raw & abi::O_CLOEXEC != 0)? as usize)
    }
    fn socketpair(family: u32, raw: u32, protocol: u32, to: usize) {
        let kind = arguments(family, raw, protocol).map_err(|e| if e == Errno::EAFNOSUPPORT && family == 2 { Errno::EOPNOTSUPP } else { e })?;
        let (a, b) = Sock::pair(kind);
        let table = files();
        let fds = table.install_pair(unix_file::file(a, raw), unix_file::file(b, raw), raw & abi::O_CLOEXEC != 0)?;
        if let Err(e) = UserPtr::<[i32; 2]>::new(to).write(fds) {
            let _ = (table.close(fds[0]), table.close(fds[1]));
            return Err(e);
        }
        Ok(0)
    }
    fn bind(fd: i32, addr: usize, len: u32) {
        do_bind(fd, addr, len as usize)
    }
    fn listen(fd: i32, backlog: i32) {
        with(fd, |_, sock| sock.listen(backlog))?;
        Ok(0)
    }
    fn accept(fd: i32, addr: usize, len: usize) {
        do_accept(fd, addr, len, 0)
    }
    fn accept4(fd: i32, addr: usize, len: usize, flags: u32) {
        do_accept(fd, addr, len, flags)
    }
    fn connect(fd: i32, addr: usize, len: u32) {
        with(fd, |file, sock| {
            let target = find(&read_name(addr, len as usize)?)?;
            sock.connect(&target, file.nonblocking())
        })?;
        Ok(0)
    }
    fn getsockname(fd: i32, addr: usize, len: usize) {
        with(fd, |_, sock| write_name(sock.name().as_ref(), addr, len))?;
        Ok(0)
    }
    fn getpeername(fd: i32, addr: usize, len: usize) {
        with(fd, |_, sock| write_name(sock.peer_name()?.as_ref(), addr, len))?;
        Ok(0)
    }
    fn sendto(fd: i32, buf: usize, len: usize, flags: u32, addr: usize, addr_len: u32) {
        do_send(fd, buf, len, flags, (addr, addr_len as usize))
    }
    fn send(fd: i32, buf: usize, len: usize, flags: u32) {
        do_send(fd, buf, len, flags, (0, 0))
    }
    fn recvfrom(fd: i32, buf: usize, len: usize, flags: u32, addr: usize, addr_len: usize) {
        do_receive(fd, buf, len, flags, (addr, addr_len))
    }
    fn recv(fd: i32, buf: usize, len: usize, flags: u32) {
        do_receive(fd, buf, len, flags, (0, 0))
    }
    fn sendmsg(fd: i32, message: usize, flags: u32) {
        send_message(fd, message, flags)
    }
    fn recvmsg(fd: i32, message: usize, flags: u32) {
        receive_message(fd, message, flags)
    }
    fn sendmmsg(fd: i32, vector: usize, count: u32, flags: u32) {
        many(vector, count, |at, _| send_message(fd, at, flags))
    }
    fn recvmmsg/recvmmsg_time64(fd: i32, vector: usize, count: u32, flags: u32, _timeout: UserPtr<[Time; 2]>) {
        // After the first message it takes what is there (`MSG_WAITFORONE` is what programs ask for).
        many(vector, count, |at, first| receive_message(fd, at, if first { flags } else { flags | MSG_DONTWAIT }))
    }
    fn shutdown(fd: i32, direction: u32) {
        with(fd, |_, sock| match direction {
            0 => sock.shutdown(true, false),
            1 => sock.shutdown(false, true),
            2 => sock.shutdown(true, true),
            _ => Err(Errno::EINVAL),
        })?;
        Ok(0)
    }
    fn getsockopt(fd: i32, level: i32, name: u32, value: usize, len: usize) {
        get_option(fd, level, name, value, len)
    }
    fn setsockopt(fd: i32, level: i32, name: u32, value: usize, len: u32) {
        set_option(fd, level, name, value, len as usize)
    }
}
