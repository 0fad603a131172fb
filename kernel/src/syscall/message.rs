//! Messages on sockets: `struct msghdr` with its scatter list and control data, one at a time and many. Called by `socket`.

use super::SysResult;
use super::file::files;
use super::socket::{
    MSG_DONTWAIT, MSG_NOSIGNAL, MSG_TRUNC, SOL_SOCKET, WORD, encode, find, how, read_name, with,
};
use crate::fs::file::File;
use crate::fs::io::{IoDst, IoSrc};
use crate::mm::copy::{IoVec, read_iovecs, zeroed};
use crate::mm::user::{UserPtr, read_bytes, write_bytes};
use crate::net::unix::{self, Kind, MAX_FILES};
use crate::net::unix_file::{self, Received};
use crate::task::current;
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_linux_abi::Errno;

const SCM_RIGHTS: i32 = 1;
const SCM_CREDENTIALS: i32 = 2;
const MSG_CTRUNC: u32 = 8;
const MSG_CMSG_CLOEXEC: u32 = 0x4000_0000;
const MSG_OOB: u32 = 1;
/// Longest control data taken.
const MAX_CONTROL: usize = 20480;
/// Bytes of `struct cmsghdr`.
const CONTROL_HEADER: usize = WORD + 8;

/// `struct msghdr`.
struct Header {
    name: usize,
    name_len: usize,
    iov: Vec<IoVec>,
    control: usize,
    control_len: usize,
}

fn read_header(addr: usize) -> Result<Header, Errno> {
    let [name, name_len, iov, count, control, control_len, _] = UserPtr::<[usize; 7]>::new(addr).read()?;
    if count > 1024 {
        return Err(Errno::EMSGSIZE);
    }
    Ok(Header {
        name,
        name_len: name_len as u32 as usize,
        iov: read_iovecs(iov, count)?,
        control,
        control_len,
    })
}

/// The files that control data asks to send.
fn read_control(addr: usize, len: usize) -> Result<Vec<Arc<File>>, Errno> {
    let mut files_sent = Vec::new();
    if len == 0 {
        return Ok(files_sent);
    }
    if len > MAX_CONTROL {
        return Err(Errno::ENOBUFS);
    }
    let mut raw = zeroed(len)?;
    read_bytes(&mut raw, addr)?;
    let table = files();
    let mut rest = &raw[..];
    while rest.len() >= CONTROL_HEADER {
        let size = usize::from_le_bytes(core::array::from_fn(|i| rest[i]));
        let word = |at: usize| i32::from_le_bytes(core::array::from_fn(|i| rest[at + i]));
        if size < CONTROL_HEADER || size > rest.len() {
            return Err(Errno::EINVAL);
        }
        match (word(WORD), word(WORD + 4)) {
            (SOL_SOCKET, SCM_RIGHTS) => {
                for fd in rest[CONTROL_HEADER..size].chunks_exact(4) {
                    let fd = i32::from_le_bytes([fd[0], fd[1], fd[2], fd[3]]);
                    files_sent.push(table.get_any(fd)?);
                }
                if files_sent.len() > MAX_FILES {
                    return Err(Errno::EINVAL);
                }
            }
            (SOL_SOCKET, SCM_CREDENTIALS) => {
                let creds = current().creds();
                if size < CONTROL_HEADER + 12 {
                    return Err(Errno::EINVAL);
                }
                let claimed = [0, 4, 8].map(|at| word(CONTROL_HEADER + at) as u32);
                if claimed != unix::own_cred() && !creds.capable(crate::fs::perm::CAP_SYS_ADMIN) {
                    return Err(Errno::EPERM);
                }
            }
            (SOL_SOCKET, _) => return Err(Errno::EINVAL),
            _ => {}
        }
        rest = rest.get(size.next_multiple_of(WORD)..).unwrap_or(&[]);
    }
    Ok(files_sent)
}

/// `sendmsg`.
pub(super) fn send_message(fd: i32, addr: usize, flags: u32) -> SysResult {
    if flags & MSG_OOB != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    with(fd, |file, sock| {
        let h = read_header(addr)?;
        let sent = read_control(h.control, h.control_len)?;
        let to = if h.name == 0 || h.name_len == 0 {
            None
        } else {
            Some(find(&read_name(h.name, h.name_len)?)?)
        };
        let nonblock = file.nonblocking() || flags & MSG_DONTWAIT != 0;
        unix_file::send(
            sock,
            &mut IoSrc::vector(&h.iov),
            to,
            sent,
            nonblock,
            flags & MSG_NOSIGNAL != 0,
        )
    })
}

/// Writes what came along as control data; the flags to report and the length used.
fn write_control(
    r: Received,
    pass_cred: bool,
    to: usize,
    room: usize,
    cloexec: bool,
) -> Result<(u32, usize), Errno> {
    let (mut flags, mut used) = (0, 0);
    let put = |kind: i32, data: &[u8], used: &mut usize| -> Result<bool, Errno> {
        let size = CONTROL_HEADER + data.len();
        if *used + size > room {
            return Ok(false);
        }
        let mut raw = size.to_le_bytes().to_vec();
        raw.extend_from_slice(&SOL_SOCKET.to_le_bytes());
        raw.extend_from_slice(&kind.to_le_bytes());
        raw.extend_from_slice(data);
        write_bytes(to.wrapping_add(*used), &raw)?;
        *used = (*used + size.next_multiple_of(WORD)).min(room);
        Ok(true)
    };
    if pass_cred {
        let cred: Vec<u8> = r
            .cred
            .unwrap_or_default()
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .collect();
        if !put(SCM_CREDENTIALS, &cred, &mut used)? {
            flags |= MSG_CTRUNC;
        }
    }
    if !r.files.is_empty() {
        let fits = room.saturating_sub(used + CONTROL_HEADER) / 4;
        if fits < r.files.len() {
            flags |= MSG_CTRUNC;
        }
        let table = files();
        let mut fds = Vec::new();
        for f in r.files.into_iter().take(fits) {
            match table.install(f, cloexec) {
                Ok(fd) => fds.extend_from_slice(&fd.to_le_bytes()),
                Err(_) => {
                    flags |= MSG_CTRUNC;
                    break;
                }
            }
        }
        if !fds.is_empty() {
            put(SCM_RIGHTS, &fds, &mut used)?;
        }
    }
    Ok((flags, used))
}

/// `recvmsg`.
pub(super) fn receive_message(fd: i32, addr: usize, flags: u32) -> SysResult {
    if flags & MSG_OOB != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    with(fd, |file, sock| {
        let h = read_header(addr)?;
        let r = unix_file::receive(sock, &mut IoDst::vector(&h.iov), how(file, flags))?;
        let (len, full) = (r.len, r.full);
        let mut out = 0;
        if sock.kind != Kind::Stream && full > len {
            out |= MSG_TRUNC;
        }
        if h.name != 0 {
            let raw = if sock.kind == Kind::Datagram {
                encode(r.from.as_ref())
            } else {
                Vec::new()
            };
            let raw = if r.from.is_none() { Vec::new() } else { raw };
            write_bytes(h.name, &raw[..raw.len().min(h.name_len)])?;
            UserPtr::<u32>::new(addr + WORD).write(raw.len() as u32)?;
        }
        let cloexec = flags & MSG_CMSG_CLOEXEC != 0;
        let (more, used) = write_control(r, sock.pass_cred(), h.control, h.control_len, cloexec)?;
        UserPtr::<usize>::new(addr + 5 * WORD).write(used)?;
        UserPtr::<u32>::new(addr + 6 * WORD).write(out | more)?;
        Ok(if flags & MSG_TRUNC != 0 { full } else { len })
    })
}

/// `sendmmsg` and `recvmmsg`: one after another until one fails.
pub(super) fn many(vector: usize, count: u32, mut one: impl FnMut(usize, bool) -> SysResult) -> SysResult {
    let mut done = 0;
    for i in 0..count.min(1024) as usize {
        // A `struct msghdr` and the length.
        let at = vector.wrapping_add(i * 8 * WORD);
        match one(at, i == 0) {
            Ok(n) => UserPtr::<u32>::new(at.wrapping_add(7 * WORD)).write(n as u32)?,
            Err(e) if done == 0 => return Err(e),
            Err(_) => break,
        }
        done += 1;
    }
    Ok(done)
}
