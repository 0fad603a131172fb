//! The arguments of system calls on sockets.

use super::file::{file, files};
use super::message::{many, receive_message, send_message};
use super::netlink as other;
use super::sockopt::{get_option, set_option};
use super::time::{TimeWord, deadline_after, read_timespec, write_timespec};
use super::{Call, Handler, SysResult};
use crate::arch::index;
use crate::fs::count;
use crate::fs::file::File;
use crate::fs::inode::{Dev, FileType};
use crate::fs::io::{IoDst, IoSrc};
use crate::fs::lookup::{AT_FDCWD, with_parent};
use crate::fs::names::{self, New};
use crate::mm::copy::zeroed;
use crate::mm::user::{UserPtr, Word, read_bytes, write_bytes};
use crate::net::unix::file::{self as unix_file, How, Sending};
use crate::net::unix::name::{address_of, find, name_of};
use crate::net::unix::{Kind, Sock};
use crate::net::{AF_UNIX, absent, netlink};
use crate::task::audit::details::Special;
use crate::task::ns::net::NetRef;
use crate::task::{audit, current};
use crate::time::now_ns;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use limen_linux_abi::native::socket::MSG_CMSG_COMPAT;
use limen_linux_abi::{Errno, raw::general as abi};

pub(super) const MSG_OOB: u32 = 1;
pub(super) const MSG_PEEK: u32 = 2;
pub(super) const MSG_TRUNC: u32 = 0x20;
pub(super) const MSG_DONTWAIT: u32 = 0x40;
const MSG_WAITALL: u32 = 0x100;
const MSG_NOSIGNAL: u32 = 0x4000;
const MSG_WAITFORONE: u32 = 0x1_0000;
/// The size of a machine word in bytes. `struct msghdr` has seven of them, some only half used, and control
/// data is aligned to them.
pub(super) const WORD: usize = size_of::<usize>();
/// The family of an address that removes a datagram socket's peer.
const AF_UNSPEC: [u8; 2] = [0; 2];
/// The size in bytes of the longest address (`struct sockaddr_storage`).
pub(super) const MAX_ADDRESS: usize = 128;
/// Checks the arguments of `socket`.
fn arguments(family: u32, raw: u32, protocol: u32) -> Result<Kind, Errno> {
    /// One more than the last family.
    const FAMILIES: u32 = 46;
    check_type_flags(raw)?;
    let kind = raw & 0xf;
    if family < FAMILIES && kind > 10 {
        return Err(Errno::EINVAL);
    }
    if family != AF_UNIX {
        absent::check(family, kind, protocol)?;
        return Err(Errno::EAFNOSUPPORT);
    }
    match kind {
        _ if protocol != 0 && protocol != AF_UNIX => Err(Errno::EPROTONOSUPPORT),
        1 => Ok(Kind::Stream),
        2 | 3 => Ok(Kind::Datagram),
        5 => Ok(Kind::Packet),
        _ => Err(Errno::ESOCKTNOSUPPORT),
    }
}

/// Checks the flags that are passed with a type of socket.
pub(super) fn check_type_flags(raw: u32) -> Result<(), Errno> {
    if raw & !(0xf | abi::O_CLOEXEC | abi::O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// `EINVAL`: the flags say that the message has the layout of a compat ABI.
fn check_layout(flags: u32) -> Result<(), Errno> {
    if MSG_CMSG_COMPAT.is_some_and(|bit| flags & bit != 0) {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// Calls `f` with the local socket behind a descriptor, or `other` with a netlink socket. `EBADF`;
/// `ENOTSOCK`.
pub(super) fn with<R>(
    fd: i32,
    f: impl FnOnce(&Arc<File>, &Arc<Sock>) -> Result<R, Errno>,
    other: impl FnOnce(&Arc<File>, &Arc<netlink::Socket>) -> Result<R, Errno>,
) -> Result<R, Errno> {
    let file = file(fd)?;
    match unix_file::of(&file) {
        Ok(sock) => f(&file, sock),
        Err(_) => other(&file, netlink::file::of(&file)?),
    }
}

/// An address, of any family, as the program passed it.
pub(super) fn read_address(addr: usize, len: usize) -> Result<Vec<u8>, Errno> {
    if len > MAX_ADDRESS {
        return Err(Errno::EINVAL);
    }
    let mut raw = zeroed(len)?;
    if len != 0 {
        read_bytes(&mut raw, addr)?;
        if audit::wants_details() {
            audit::details::address(&raw);
        }
    }
    Ok(raw)
}

/// Writes as much of an address as there is room for, and its real length.
pub(super) fn write_address(raw: &[u8], addr: usize, len: UserPtr<i32>) -> Result<(), Errno> {
    let room = usize::try_from(len.read()?).map_err(|_| Errno::EINVAL)?;
    let fits = &raw[..raw.len().min(room)];
    if !fits.is_empty() {
        write_bytes(addr, fits)?;
    }
    len.write(raw.len() as i32)
}

fn do_bind(fd: i32, addr: usize, len: usize) -> SysResult {
    with(
        fd,
        |_, sock| {
            let address = read_address(addr, len)?;
            if address == address_of(None) {
                return bind_anywhere(sock);
            }
            let name = name_of(&address)?;
            if name[0] == 0 {
                sock.bind(name, None)?;
                return Ok(0);
            }
            if sock.name().is_some() {
                return Err(Errno::EINVAL);
            }
            let new = New {
                kind: FileType::Socket,
                mode: 0o777 & !current().fs().umask(),
                rdev: Dev::default(),
                target: b"",
            };
            let made = with_parent(AT_FDCWD, &name, Errno::EADDRINUSE, |w, last, _| {
                names::create(&w.cur, last, &w.creds(), &new)
            });
            let made = made.map_err(|e| if e == Errno::EEXIST { Errno::EADDRINUSE } else { e })?;
            sock.bind(name, Some(&**made.inode))?;
            Ok(0)
        },
        |_, socket| other::bind(socket, addr, len),
    )
}

/// Binds a socket without a name to a free abstract name of five hexadecimal digits. `ENOSPC`: all names that
/// were tried are used, one time all there are.
fn bind_anywhere(sock: &Arc<Sock>) -> SysResult {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    const NAMES: u32 = 1 << 20;
    for _ in 0..NAMES {
        if sock.name().is_some() {
            return Ok(0);
        }
        let n = NEXT.fetch_add(1, Ordering::Relaxed) % NAMES;
        match sock.bind(Arc::from(alloc::format!("\0{n:05x}").into_bytes()), None) {
            Err(Errno::EADDRINUSE | Errno::EINVAL) => {}
            result => return result.map(|()| 0),
        }
    }
    Err(Errno::ENOSPC)
}

fn do_accept(fd: i32, addr: usize, len: usize, flags: u32) -> SysResult {
    let file = file(fd)?;
    if flags & !(abi::O_CLOEXEC | abi::O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    let files = files();
    files.check_room()?;
    count::may_open()?;
    let sock = unix_file::of(&file).map_err(|e| other::unable(&file, e))?;
    let sock = sock.accept(file.nonblocking())?;
    let peer = sock.peer_name().ok().flatten();
    let new = unix_file::file(sock, flags);
    if addr != 0 {
        write_address(&address_of(peer.as_ref()), addr, UserPtr::new(len))?;
    }
    Ok(files.install(new, flags & abi::O_CLOEXEC != 0)? as usize)
}

pub(super) fn how(file: &File, flags: u32) -> How {
    How {
        nonblock: file.nonblocking() || flags & MSG_DONTWAIT != 0,
        peek: flags & MSG_PEEK != 0,
        wait_all: flags & MSG_WAITALL != 0,
        oob: flags & MSG_OOB != 0,
    }
}

/// What `flags` say about sending. `to`: the receiver's address, empty for none.
pub(super) fn sending(file: &File, flags: u32, to: Vec<u8>) -> Sending {
    Sending {
        to,
        files: Vec::new(),
        cred: None,
        nonblock: file.nonblocking() || flags & MSG_DONTWAIT != 0,
        quiet: flags & MSG_NOSIGNAL != 0,
        oob: flags & MSG_OOB != 0,
    }
}

/// `sendto`. `to`: address and length of the receiver's address, 0 for none.
fn do_send(fd: i32, buf: usize, len: usize, flags: u32, to: (usize, usize)) -> SysResult {
    let mut source = IoSrc::user(buf, len)?;
    with(
        fd,
        |file, sock| {
            let to = if to.0 == 0 {
                Vec::new()
            } else {
                read_address(to.0, to.1)?
            };
            unix_file::send(sock, &mut source, sending(file, flags, to))
        },
        |file, socket| other::send(file, socket, buf, len, flags, to),
    )
}

/// `recvfrom`. `from`: where to write the sender's address and its length, 0 for nowhere.
fn do_receive(fd: i32, buf: usize, len: usize, flags: u32, from: (usize, usize)) -> SysResult {
    let mut dst = IoDst::user(buf, len)?;
    with(
        fd,
        |file, sock| {
            let r = unix_file::receive(sock, &mut dst, how(file, flags))?;
            if from.0 != 0 {
                write_address(&r.sender(), from.0, UserPtr::new(from.1))?;
            }
            Ok(if flags & MSG_TRUNC != 0 { r.full } else { r.len })
        },
        |file, socket| other::receive(file, socket, buf, len, flags, from),
    )
}

/// The calls of `socketcall`, from number 1 on, each with the number of its arguments.
pub(super) const CALLS: [(Handler, usize); 20] = [
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

/// `socketcall`: one of `calls`, with its arguments in user memory.
pub(super) fn one_of<W: Word>(
    calls: &[(Handler, usize); CALLS.len()],
    call: &Call<'_>,
    which: u32,
    at: UserPtr<W>,
) -> SysResult {
    let (handler, count) = *index::get(calls, (which as usize).wrapping_sub(1)).ok_or(Errno::EINVAL)?;
    // A copy of the frame gets those arguments. The frame itself is needed if the call is restarted.
    let mut frame = call.frame.clone();
    let mut own = [0; 6];
    for (n, word) in own.iter_mut().enumerate().take(count) {
        *word = at.add(n).read()?.get();
        frame.set_arg(n, *word);
    }
    if audit::wants_details() {
        audit::details::special(Special::SocketCall(own, count));
    }
    let result = handler(&mut frame);
    Errno::from_return_value(result).map_or(Ok(result), Err)
}

/// `sendmsg`, with structures of words `W`, as the following.
pub(super) fn send_one<W: Word>(fd: i32, message: usize, flags: u32) -> SysResult {
    check_layout(flags)?;
    with(
        fd,
        |file, sock| send_message::<W>(file, sock, message, flags),
        |file, socket| other::send_message::<W>(file, socket, message, flags),
    )
}

/// `recvmsg`.
pub(super) fn receive_one<W: Word>(fd: i32, message: usize, flags: u32) -> SysResult {
    check_layout(flags)?;
    with(
        fd,
        |file, sock| receive_message::<W>(file, sock, message, flags),
        |file, socket| other::receive_message::<W>(file, socket, message, flags),
    )
}

/// `sendmmsg`.
pub(super) fn send_many<W: Word>(fd: i32, (vector, count): (usize, u32), flags: u32) -> SysResult {
    check_layout(flags)?;
    with(
        fd,
        |file, sock| many::<W>(vector, count, |at| send_message::<W>(file, sock, at, flags)),
        |file, socket| {
            many::<W>(vector, count, |at| {
                other::send_message::<W>(file, socket, at, flags)
            })
        },
    )
}

/// `recvmmsg`.
pub(super) fn receive_several<W: Word, T: TimeWord>(
    fd: i32,
    (vector, count): (usize, u32),
    flags: u32,
    timeout: UserPtr<[T; 2]>,
) -> SysResult {
    check_layout(flags)?;
    let timeout = timeout.non_null();
    let end = timeout
        .map(|at| read_timespec(at).map(deadline_after))
        .transpose()?;
    // The timeout is checked between messages only: waiting for one message may take longer.
    let receive_many = |one: &dyn Fn(usize, u32) -> SysResult| {
        let mut flags = flags;
        let mut first = true;
        let done = many::<W>(vector, count, |at| {
            if !first && end.is_some_and(|end| now_ns() >= end) {
                return Err(Errno::EAGAIN);
            }
            let len = one(at, flags)?;
            first = false;
            if flags & MSG_WAITFORONE != 0 {
                flags |= MSG_DONTWAIT;
            }
            Ok(len)
        })?;
        if let (Some(at), Some(end), true) = (timeout, end, done != 0) {
            write_timespec(at, end.saturating_sub(now_ns()))?;
        }
        Ok(done)
    };
    with(
        fd,
        |file, sock| receive_many(&|at, flags| receive_message::<W>(file, sock, at, flags)),
        |file, socket| receive_many(&|at, flags| other::receive_message::<W>(file, socket, at, flags)),
    )
}

crate::syscalls! {
    // Old ABIs have these calls only in this way: the number of the call, and its arguments in user memory.
    fn socketcall(call: &mut Call, which: u32, at: UserPtr<usize>) {
        one_of(&CALLS, call, which, at)
    }
    fn socket(family: u32, raw: u32, protocol: u32) {
        if family == netlink::AF_NETLINK {
            return other::open(raw, protocol);
        }
        let sock = Sock::new(arguments(family, raw, protocol)?, NetRef::of_current());
        count::may_open()?;
        Ok(files().install(unix_file::file(sock, raw), raw & abi::O_CLOEXEC != 0)? as usize)
    }
    fn socketpair(family: u32, raw: u32, protocol: u32, to: usize) {
        check_type_flags(raw)?;
        // An address that cannot be written is reported before descriptors are made.
        let to = UserPtr::<[i32; 2]>::new(to);
        to.write(to.read()?)?;
        if family == netlink::AF_NETLINK {
            other::check(raw, protocol)?;
            return Err(Errno::EOPNOTSUPP);
        }
        let kind = arguments(family, raw, protocol).map_err(|e| if e == Errno::EAFNOSUPPORT
            && absent::is_known(family) { Errno::EOPNOTSUPP } else { e })?;
        let (a, b) = Sock::pair(kind);
        count::may_open()?;
        let table = files();
        let fds = table.install_pair(unix_file::file(a, raw), unix_file::file(b, raw),
            raw & abi::O_CLOEXEC != 0)?;
        if let Err(e) = to.write(fds) {
            let _ = (table.close(fds[0]), table.close(fds[1]));
            return Err(e);
        }
        Ok(0)
    }
    fn bind(fd: i32, addr: usize, len: u32) {
        do_bind(fd, addr, len as usize)
    }
    fn listen(fd: i32, backlog: i32) {
        with(fd, |_, sock| sock.listen(backlog), |_, _| Err(Errno::EOPNOTSUPP))?;
        Ok(0)
    }
    fn accept(fd: i32, addr: usize, len: usize) {
        do_accept(fd, addr, len, 0)
    }
    fn accept4(fd: i32, addr: usize, len: usize, flags: u32) {
        do_accept(fd, addr, len, flags)
    }
    fn connect(fd: i32, addr: usize, len: u32) {
        let file = file(fd)?;
        let address = read_address(addr, len as usize)?;
        let Ok(sock) = unix_file::of(&file) else {
            return other::connect(netlink::file::of(&file)?, &address);
        };
        if sock.kind == Kind::Datagram && address.starts_with(&AF_UNSPEC) {
            sock.leave();
            return Ok(0);
        }
        let target = find(sock, name_of(&address)?)?;
        sock.connect(&target, file.nonblocking())?;
        Ok(0)
    }
    fn getsockname(fd: i32, addr: usize, len: UserPtr<i32>) {
        with(fd, |_, sock| write_address(&address_of(sock.name().as_ref()), addr, len),
            |_, socket| write_address(&socket.address().to_bytes(), addr, len))?;
        Ok(0)
    }
    fn getpeername(fd: i32, addr: usize, len: UserPtr<i32>) {
        with(fd, |_, sock| write_address(&address_of(sock.peer_name()?.as_ref()), addr, len),
            |_, socket| write_address(&socket.peer().to_bytes(), addr, len))?;
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
        send_one::<usize>(fd, message, flags)
    }
    fn recvmsg(fd: i32, message: usize, flags: u32) {
        receive_one::<usize>(fd, message, flags)
    }
    fn sendmmsg(fd: i32, vector: usize, count: u32, flags: u32) {
        send_many::<usize>(fd, (vector, count), flags)
    }
    fn recvmmsg/recvmmsg_time64(fd: i32, vector: usize, count: u32, flags: u32, timeout: UserPtr<[Time; 2]>) {
        receive_several::<usize, Time>(fd, (vector, count), flags, timeout)
    }
    fn shutdown(fd: i32, direction: u32) {
        with(fd, |_, sock| {
            if direction > 2 {
                return Err(Errno::EINVAL);
            }
            sock.shutdown(direction != 1, direction != 0);
            Ok(0)
        }, |_, _| Err(Errno::EOPNOTSUPP))
    }
    fn getsockopt(fd: i32, level: i32, name: u32, value: usize, len: usize) {
        get_option(fd, level, name, value, len)
    }
    fn setsockopt(fd: i32, level: i32, name: u32, value: usize, len: i32) {
        set_option(fd, level, name, value, len)
    }
}
