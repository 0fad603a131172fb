//! The options of sockets.

use super::SysResult;
use super::socket::{WORD, with};
use super::time::TimeWord;
use crate::mm::user::{UserPtr, write_bytes};
use crate::net::{AF_UNIX, unix::BUFFER};
use crate::task::creds::cap;
use crate::task::current;
use crate::task::ns::user::gid_shown;
use crate::time::NSEC_PER_SEC;
use alloc::vec::Vec;
use limen_linux_abi::Errno;
use limen_linux_abi::native::socket::{
    SO_PASSCRED, SO_PEERCRED, SO_RCVLOWAT, SO_RCVTIMEO_OLD, SO_SNDLOWAT, SO_SNDTIMEO_OLD,
};

pub(super) const SOL_SOCKET: i32 = 1;
const SO_DEBUG: u32 = 1;
const SO_REUSEADDR: u32 = 2;
const SO_TYPE: u32 = 3;
const SO_ERROR: u32 = 4;
const SO_DONTROUTE: u32 = 5;
const SO_BROADCAST: u32 = 6;
const SO_SNDBUF: u32 = 7;
const SO_RCVBUF: u32 = 8;
const SO_KEEPALIVE: u32 = 9;
const SO_OOBINLINE: u32 = 10;
const SO_NO_CHECK: u32 = 11;
const SO_PRIORITY: u32 = 12;
const SO_LINGER: u32 = 13;
const SO_REUSEPORT: u32 = 15;
/// These ask for a time with every message. The `_NEW` ones have words of 64 bits in every ABI.
const SO_TIMESTAMP_OLD: u32 = 29;
const SO_TIMESTAMPNS_OLD: u32 = 35;
const SO_TIMESTAMP_NEW: u32 = 63;
const SO_TIMESTAMPNS_NEW: u32 = 64;
const SO_ACCEPTCONN: u32 = 30;
const SO_SNDBUFFORCE: u32 = 32;
const SO_RCVBUFFORCE: u32 = 33;
const SO_PASSSEC: u32 = 34;
const SO_PROTOCOL: u32 = 38;
const SO_DOMAIN: u32 = 39;
const SO_PEERGROUPS: u32 = 59;
/// These timeouts have words of 64 bits in every ABI.
const SO_RCVTIMEO_NEW: u32 = 66;
const SO_SNDTIMEO_NEW: u32 = 67;
/// How many bytes it must ask for at least, doubled, for sending and for receiving.
const LEAST_BUFFER: [i32; 2] = [4608, 2304];

/// A time as two words of `word` bytes each.
pub(super) fn time_words(ns: u64, per_unit: u64, word: usize) -> Vec<u8> {
    [ns / NSEC_PER_SEC, ns % NSEC_PER_SEC / per_unit]
        .iter()
        .flat_map(|w| w.to_le_bytes().into_iter().take(word))
        .collect()
}

/// A time in the format of `option`, one of the `SO_TIMESTAMP` options.
pub(super) fn timestamp<W>(option: u32, ns: u64) -> Vec<u8> {
    let word = match option {
        SO_TIMESTAMP_OLD | SO_TIMESTAMPNS_OLD => size_of::<W>(),
        _ => 8,
    };
    match option {
        SO_TIMESTAMPNS_OLD | SO_TIMESTAMPNS_NEW => time_words(ns, 1, word),
        _ => time_words(ns, 1000, word),
    }
}

/// `getsockopt`.
pub(super) fn get_option(fd: i32, level: i32, name: u32, value: usize, len: usize) -> SysResult {
    with(
        fd,
        |_, sock| {
            if level != SOL_SOCKET {
                return Err(Errno::EOPNOTSUPP);
            }
            let room = usize::try_from(UserPtr::<i32>::new(len).read()?).map_err(|_| Errno::EINVAL)?;
            let time = |which: usize, word: usize| time_words(sock.timeout(which).unwrap_or(0), 1000, word);
            let int = |n: i32| n.to_ne_bytes().to_vec();
            let words = |all: &[u32]| -> Vec<u8> { all.iter().flat_map(|w| w.to_ne_bytes()).collect() };
            let data = match name {
                SO_TYPE => int(sock.kind as i32),
                SO_ERROR => int(sock.take_error().map_or(0, |e| i32::from(e.get()))),
                SO_DEBUG | SO_REUSEADDR | SO_DONTROUTE | SO_BROADCAST | SO_KEEPALIVE | SO_OOBINLINE
                | SO_NO_CHECK | SO_PRIORITY | SO_REUSEPORT | SO_PASSSEC => int(sock.kept(name).unwrap_or(0)),
                SO_SNDBUF | SO_RCVBUF => int(sock.kept(name).unwrap_or(BUFFER)),
                SO_LINGER => words(&sock.linger()),
                SO_TIMESTAMP_OLD | SO_TIMESTAMPNS_OLD | SO_TIMESTAMP_NEW | SO_TIMESTAMPNS_NEW => {
                    int(i32::from(sock.timestamp() == Some(name)))
                }
                SO_PASSCRED => int(i32::from(sock.pass_cred())),
                SO_PEERCRED => words(&sock.peer_identity().cred.shown()),
                SO_PEERGROUPS => {
                    let groups = sock.peer_identity().groups.ok_or(Errno::ENODATA)?;
                    let size = size_of_val(&groups[..]);
                    UserPtr::<i32>::new(len).write(size as i32)?;
                    if size > room {
                        return Err(Errno::ERANGE);
                    }
                    for (n, gid) in groups.iter().enumerate() {
                        UserPtr::<u32>::new(value).add(n).write(gid_shown(*gid))?;
                    }
                    return Ok(0);
                }
                SO_RCVTIMEO_OLD | SO_SNDTIMEO_OLD => time(usize::from(name == SO_SNDTIMEO_OLD), WORD),
                SO_RCVTIMEO_NEW | SO_SNDTIMEO_NEW => time(usize::from(name == SO_SNDTIMEO_NEW), 8),
                SO_RCVLOWAT | SO_SNDLOWAT => int(1),
                SO_ACCEPTCONN => int(i32::from(sock.is_listening())),
                SO_PROTOCOL => int(0),
                SO_DOMAIN => int(AF_UNIX as i32),
                _ => return Err(Errno::ENOPROTOOPT),
            };
            let n = data.len().min(room);
            write_bytes(value, &data[..n])?;
            UserPtr::<i32>::new(len).write(n as i32)?;
            Ok(0)
        },
        |_, socket| super::netlink::get_option(socket, level, name, value, len),
    )
}

/// The value of a timeout option. `None`: 0, no timeout. A negative value is an immediate timeout.
pub(super) fn read_timeout<T: TimeWord>(value: usize, len: usize) -> Result<Option<u64>, Errno> {
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

/// `setsockopt`.
pub(super) fn set_option(fd: i32, level: i32, name: u32, value: usize, len: i32) -> SysResult {
    let len = usize::try_from(len).map_err(|_| Errno::EINVAL)?;
    with(
        fd,
        |_, sock| {
            if level != SOL_SOCKET {
                return Err(Errno::EOPNOTSUPP);
            }
            if len < 4 {
                return Err(Errno::EINVAL);
            }
            let n = UserPtr::<i32>::new(value).read()?;
            let capable = |cap| current().creds().capable(cap);
            let net_capable = |cap| current().creds().capable_in(sock.net.owner(), cap);
            // Doubled as on Linux, for what the kernel needs to store the bytes.
            let buffer = |which: u32, n: i32| {
                n.saturating_mul(2)
                    .max(LEAST_BUFFER[usize::from(which == SO_RCVBUF)])
            };
            match name {
                SO_PASSCRED => sock.set_pass_cred(n != 0),
                SO_TIMESTAMP_OLD | SO_TIMESTAMPNS_OLD | SO_TIMESTAMP_NEW | SO_TIMESTAMPNS_NEW => {
                    sock.set_timestamp((n != 0).then_some(name));
                }
                SO_RCVTIMEO_OLD | SO_SNDTIMEO_OLD => {
                    let ns = read_timeout::<isize>(value, len)?;
                    sock.set_timeout(usize::from(name == SO_SNDTIMEO_OLD), ns);
                }
                SO_RCVTIMEO_NEW | SO_SNDTIMEO_NEW => {
                    let ns = read_timeout::<i64>(value, len)?;
                    sock.set_timeout(usize::from(name == SO_SNDTIMEO_NEW), ns);
                }
                SO_RCVLOWAT => {}
                SO_DEBUG if n != 0 && !capable(cap::NET_ADMIN) => return Err(Errno::EACCES),
                SO_REUSEPORT if n != 0 => return Err(Errno::EOPNOTSUPP),
                SO_DEBUG | SO_REUSEADDR | SO_DONTROUTE | SO_BROADCAST | SO_KEEPALIVE | SO_OOBINLINE
                | SO_NO_CHECK | SO_REUSEPORT | SO_PASSSEC => sock.keep(name, i32::from(n != 0)),
                SO_PRIORITY
                    if !(0..=6).contains(&n)
                        && !net_capable(cap::NET_ADMIN)
                        && !net_capable(cap::NET_RAW) =>
                {
                    return Err(Errno::EPERM);
                }
                SO_PRIORITY => sock.keep(name, n),
                SO_LINGER if len < size_of::<[u32; 2]>() => return Err(Errno::EINVAL),
                SO_LINGER => {
                    let [on, time] = UserPtr::<[u32; 2]>::new(value).read()?;
                    sock.set_linger([u32::from(on != 0), time]);
                }
                // Buffers are the machine's memory, whoever owns the network.
                SO_SNDBUFFORCE | SO_RCVBUFFORCE if !capable(cap::NET_ADMIN) => return Err(Errno::EPERM),
                SO_SNDBUFFORCE => sock.keep(SO_SNDBUF, buffer(SO_SNDBUF, n.max(0))),
                SO_RCVBUFFORCE => sock.keep(SO_RCVBUF, buffer(SO_RCVBUF, n.max(0))),
                // A negative size is taken as a large one.
                SO_SNDBUF | SO_RCVBUF => sock.keep(name, buffer(name, (n as u32).min(BUFFER as u32) as i32)),
                _ => return Err(Errno::ENOPROTOOPT),
            }
            Ok(0)
        },
        |_, socket| super::netlink::set_option(socket, level, name, value, len),
    )
}
