//! What system calls on sockets do with netlink sockets. Called by `socket`, `message` and `sockopt`.

use super::SysResult;
use super::file::files;
use super::message::{Header, MSG_CTRUNC, SCM_CREDENTIALS, control_header, read_control};
use super::socket::{
    MSG_DONTWAIT, MSG_OOB, MSG_PEEK, MSG_TRUNC, WORD, check_type_flags, read_address, write_address,
};
use super::sockopt::{SOL_SOCKET, read_timeout, time_words};
use crate::fs::count;
use crate::fs::file::File;
use crate::fs::io::{IoDst, IoSrc};
use crate::mm::user::{UserPtr, Word, write_bytes};
use crate::net::netlink::{self, AF_NETLINK, Datagram, Flags, Socket};
use crate::net::unix::peer::Cred;
use crate::task::creds::cap;
use crate::task::current;
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_linux_abi::native::socket::{SO_PASSCRED, SO_RCVTIMEO_OLD, SO_SNDTIMEO_OLD};
use limen_linux_abi::{Errno, raw::general as abi};
use limen_netlink::Address;

const SOCK_DGRAM: u32 = 2;
const SOCK_RAW: u32 = 3;
/// The level of netlink's options, and of its control data.
const SOL_NETLINK: i32 = 270;
const ADD_MEMBERSHIP: u32 = 1;
const DROP_MEMBERSHIP: u32 = 2;
const PKTINFO: u32 = 3;
const LIST_MEMBERSHIPS: u32 = 9;
const SO_TYPE: u32 = 3;
const SO_ERROR: u32 = 4;
const SO_SNDBUF: u32 = 7;
const SO_RCVBUF: u32 = 8;
const SO_ACCEPTCONN: u32 = 30;
const SO_SNDBUFFORCE: u32 = 32;
const SO_RCVBUFFORCE: u32 = 33;
const SO_PROTOCOL: u32 = 38;
const SO_DOMAIN: u32 = 39;
const SO_RCVTIMEO_NEW: u32 = 66;
const SO_SNDTIMEO_NEW: u32 = 67;
/// The least size that a buffer gets, for sending and for receiving, and the most that a program may ask
/// for.
const LEAST_BUFFER: [usize; 2] = [4608, 2304];
const MOST_BUFFER: usize = 212_992;

/// The options of netlink that are on or off.
fn flag_of(name: u32) -> Option<Flags> {
    Some(match name {
        PKTINFO => Flags::PKTINFO,
        4 => Flags::BROADCAST_ERROR,
        5 => Flags::NO_ENOBUFS,
        10 => Flags::CAP_ACK,
        11 => Flags::EXT_ACK,
        12 => Flags::STRICT,
        _ => return None,
    })
}

/// Checks the arguments of `socket`, whose type is `raw`; returns the kind.
pub fn check(raw: u32, protocol: u32) -> Result<u32, Errno> {
    check_type_flags(raw)?;
    match raw & 0xf {
        11.. => Err(Errno::EINVAL),
        SOCK_DGRAM | SOCK_RAW if netlink::protocol(protocol).is_some() => Ok(raw & 0xf),
        SOCK_DGRAM | SOCK_RAW => Err(Errno::EPROTONOSUPPORT),
        _ => Err(Errno::ESOCKTNOSUPPORT),
    }
}

/// `socket`.
pub fn open(raw: u32, protocol: u32) -> SysResult {
    let socket = Socket::new(protocol, check(raw, protocol)?)?;
    count::may_open()?;
    let file = netlink::file::file(socket, raw);
    Ok(files().install(file, raw & abi::O_CLOEXEC != 0)? as usize)
}

/// The error for what only local sockets can do.
pub fn unable(file: &File, error: Errno) -> Errno {
    match netlink::file::of(file) {
        Ok(_) => Errno::EOPNOTSUPP,
        Err(_) => error,
    }
}

fn address(raw: &[u8]) -> Result<Address, Errno> {
    Address::from_bytes(raw).ok_or(Errno::EINVAL)
}

/// `bind`.
pub fn bind(socket: &Arc<Socket>, addr: usize, len: usize) -> SysResult {
    socket.bind(address(&read_address(addr, len)?)?)?;
    Ok(0)
}

/// `connect`.
pub fn connect(socket: &Arc<Socket>, raw: &[u8]) -> SysResult {
    match raw {
        [0, 0, ..] => socket.set_peer(None),
        _ => {
            let peer = address(raw)?;
            netlink::file::may_send_to(socket, peer)?;
            socket.take_port(0)?;
            socket.set_peer(Some(peer));
        }
    }
    Ok(0)
}

fn dont_wait(file: &File, flags: u32) -> bool {
    file.nonblocking() || flags & MSG_DONTWAIT != 0
}

/// `sendto`.
pub fn send(
    file: &File,
    socket: &Arc<Socket>,
    buf: usize,
    len: usize,
    flags: u32,
    to: (usize, usize),
) -> SysResult {
    if flags & MSG_OOB != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let to = match to {
        (0, _) => None,
        (at, len) => Some(read_address(at, len)?).filter(|raw| !raw.is_empty()),
    };
    let to = to.map(|raw| address(&raw)).transpose()?;
    let mut source = IoSrc::user(buf, len)?;
    netlink::file::send(socket, &mut source, to, None, dont_wait(file, flags))
}

/// `sendmsg`.
pub fn send_message<W: Word>(file: &File, socket: &Arc<Socket>, at: usize, flags: u32) -> SysResult {
    if flags & MSG_OOB != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let header = Header::read::<W>(at)?;
    let to = read_address(header.name, header.name_len)?;
    let to = match to.is_empty() {
        true => None,
        false => Some(address(&to)?),
    };
    let iov = header.iovecs::<W>()?;
    let (sent, cred) = read_control::<W>(header.control, header.control_len)?;
    if !sent.is_empty() {
        return Err(Errno::EINVAL);
    }
    netlink::file::send(socket, &mut IoSrc::vector(&iov), to, cred, dont_wait(file, flags))
}

/// What is told of a datagram beside its bytes.
struct Told {
    len: usize,
    full: usize,
    port: u32,
    group: u32,
    cred: Cred,
}

impl Told {
    fn sender(&self) -> [u8; Address::SIZE] {
        let groups = Address::of_group(self.group).groups;
        Address {
            port: self.port,
            groups,
        }
        .to_bytes()
    }
    fn result(&self, flags: u32) -> usize {
        if flags & MSG_TRUNC != 0 {
            self.full
        } else {
            self.len
        }
    }
}

fn take(file: &File, socket: &Socket, dst: &mut IoDst<'_>, flags: u32) -> Result<Told, Errno> {
    if flags & MSG_OOB != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    socket.receive(
        dont_wait(file, flags),
        flags & MSG_PEEK != 0,
        |datagram: &Datagram| {
            Ok(Told {
                len: dst.put(&datagram.data)?,
                full: datagram.data.len(),
                port: datagram.port,
                group: datagram.group,
                cred: datagram.cred.clone(),
            })
        },
    )
}

/// `recvfrom`.
pub fn receive(
    file: &File,
    socket: &Arc<Socket>,
    buf: usize,
    len: usize,
    flags: u32,
    from: (usize, usize),
) -> SysResult {
    let told = take(file, socket, &mut IoDst::user(buf, len)?, flags)?;
    if from.0 != 0 {
        write_address(&told.sender(), from.0, UserPtr::new(from.1))?;
    }
    Ok(told.result(flags))
}

/// `recvmsg`.
pub fn receive_message<W: Word>(file: &File, socket: &Arc<Socket>, at: usize, flags: u32) -> SysResult {
    let header = Header::read::<W>(at)?;
    let iov = header.iovecs::<W>()?;
    let told = take(file, socket, &mut IoDst::vector(&iov), flags)?;
    let mut out = if told.full > told.len { MSG_TRUNC } else { 0 };
    if header.name != 0 {
        write_address(&told.sender(), header.name, UserPtr::new(at + size_of::<W>()))?;
    }
    let mut used = 0;
    let mut put = |level: i32, kind: i32, words: &[u32]| -> Result<(), Errno> {
        let size = control_header::<W>() + size_of_val(words);
        if used + size > header.control_len {
            out |= MSG_CTRUNC;
            return Ok(());
        }
        let mut raw: Vec<u8> = size.to_le_bytes()[..size_of::<W>()].to_vec();
        raw.extend_from_slice(&level.to_ne_bytes());
        raw.extend_from_slice(&kind.to_ne_bytes());
        words
            .iter()
            .for_each(|word| raw.extend_from_slice(&word.to_ne_bytes()));
        write_bytes(header.control.wrapping_add(used), &raw)?;
        used = (used + size.next_multiple_of(size_of::<W>())).min(header.control_len);
        Ok(())
    };
    if socket.has(Flags::PKTINFO) {
        put(SOL_NETLINK, PKTINFO as i32, &[told.group])?;
    }
    if socket.has(Flags::PASSCRED) {
        put(SOL_SOCKET, SCM_CREDENTIALS, &told.cred.shown())?;
    }
    UserPtr::new(at + 5 * size_of::<W>()).write(W::put(used))?;
    UserPtr::<u32>::new(at + 6 * size_of::<W>()).write(out)?;
    Ok(told.result(flags))
}

/// `getsockopt`.
pub fn get_option(socket: &Arc<Socket>, level: i32, name: u32, value: usize, len: usize) -> SysResult {
    let room = usize::try_from(UserPtr::<i32>::new(len).read()?).map_err(|_| Errno::EINVAL)?;
    let int = |n: usize| i32::try_from(n).unwrap_or(i32::MAX).to_ne_bytes().to_vec();
    let options = socket.options();
    let time = |which: usize, word: usize| time_words(options.timeouts[which].unwrap_or(0), 1000, word);
    let data = match (level, name) {
        (SOL_NETLINK, LIST_MEMBERSHIPS) => {
            let words = socket.groups();
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let fits = bytes.len().min(room / 4 * 4);
            write_bytes(value, &bytes[..fits])?;
            UserPtr::<i32>::new(len).write(bytes.len() as i32)?;
            return Ok(0);
        }
        (SOL_NETLINK, _) => {
            let flag = flag_of(name).ok_or(Errno::ENOPROTOOPT)?;
            if room < 4 {
                return Err(Errno::EINVAL);
            }
            int(usize::from(socket.has(flag)))
        }
        (SOL_SOCKET, SO_TYPE) => int(socket.kind as usize),
        (SOL_SOCKET, SO_ERROR) => int(socket.take_error().map_or(0, |e| usize::from(e.get()))),
        (SOL_SOCKET, SO_SNDBUF) => int(options.sends),
        (SOL_SOCKET, SO_RCVBUF) => int(socket.receive_buffer()),
        (SOL_SOCKET, SO_PASSCRED) => int(usize::from(socket.has(Flags::PASSCRED))),
        (SOL_SOCKET, SO_ACCEPTCONN) => int(0),
        (SOL_SOCKET, SO_PROTOCOL) => int(socket.protocol as usize),
        (SOL_SOCKET, SO_DOMAIN) => int(AF_NETLINK as usize),
        (SOL_SOCKET, SO_RCVTIMEO_OLD | SO_SNDTIMEO_OLD) => time(usize::from(name == SO_SNDTIMEO_OLD), WORD),
        (SOL_SOCKET, SO_RCVTIMEO_NEW | SO_SNDTIMEO_NEW) => time(usize::from(name == SO_SNDTIMEO_NEW), 8),
        _ => return Err(Errno::ENOPROTOOPT),
    };
    let n = data.len().min(room);
    write_bytes(value, &data[..n])?;
    UserPtr::<i32>::new(len).write(n as i32)?;
    Ok(0)
}

/// `setsockopt`.
pub fn set_option(socket: &Arc<Socket>, level: i32, name: u32, value: usize, len: usize) -> SysResult {
    let capable = |cap| current().creds().capable(cap);
    if level == SOL_NETLINK {
        let number = match len {
            4.. => UserPtr::<u32>::new(value).read()?,
            _ => 0,
        };
        match (name, flag_of(name)) {
            (ADD_MEMBERSHIP | DROP_MEMBERSHIP, _) => socket.hear(number, name == ADD_MEMBERSHIP)?,
            (_, Some(flag)) => socket.set(flag, number != 0),
            _ => return Err(Errno::ENOPROTOOPT),
        }
        return Ok(0);
    }
    if level != SOL_SOCKET {
        return Err(Errno::ENOPROTOOPT);
    }
    if len < 4 {
        return Err(Errno::EINVAL);
    }
    let number = UserPtr::<i32>::new(value).read()?;
    // Doubled as on Linux, for what the kernel needs to store the bytes.
    let size = |which: usize, n: usize| n.saturating_mul(2).clamp(LEAST_BUFFER[which], i32::MAX as usize);
    // A negative size is taken as a large one.
    let asked = (number as u32 as usize).min(MOST_BUFFER);
    let forced = number.max(0) as usize;
    let timeout = |which: usize, ns: Option<u64>| {
        socket.change_options(|options| options.timeouts[which] = ns);
    };
    match name {
        SO_PASSCRED => socket.set(Flags::PASSCRED, number != 0),
        // Buffers are the machine's memory, whoever owns the network.
        SO_SNDBUFFORCE | SO_RCVBUFFORCE if !capable(cap::NET_ADMIN) => return Err(Errno::EPERM),
        SO_RCVBUF => socket.set_receive_buffer(size(1, asked)),
        SO_RCVBUFFORCE => socket.set_receive_buffer(size(1, forced)),
        SO_SNDBUF => socket.change_options(|options| options.sends = size(0, asked)),
        SO_SNDBUFFORCE => socket.change_options(|options| options.sends = size(0, forced)),
        SO_RCVTIMEO_OLD | SO_SNDTIMEO_OLD => {
            timeout(
                usize::from(name == SO_SNDTIMEO_OLD),
                read_timeout::<isize>(value, len)?,
            );
        }
        SO_RCVTIMEO_NEW | SO_SNDTIMEO_NEW => {
            timeout(
                usize::from(name == SO_SNDTIMEO_NEW),
                read_timeout::<i64>(value, len)?,
            );
        }
        _ => return Err(Errno::ENOPROTOOPT),
    }
    Ok(0)
}
