//! Messages on sockets: `struct msghdr` with its scatter list and control data, a single one or several, of
//! words `W`. Used by `socket` and by `compat`.

use super::SysResult;
use super::file::files;
use super::socket::{MAX_ADDRESS, MSG_TRUNC, how, read_address, sending, write_address};
use super::sockopt::{SOL_SOCKET, timestamp};
use crate::fs::file::File;
use crate::fs::io::{IoDst, IoSrc};
use crate::mm::copy::{IoVec, read_iovecs, zeroed};
use crate::mm::user::{UserPtr, Word, read_bytes, write_bytes};
use crate::net::unix::file::{self as unix_file, Received};
use crate::net::unix::peer::{Cred, check_cred};
use crate::net::unix::{Kind, MAX_FILES, Sock};
use crate::time::realtime_ns;
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_linux_abi::Errno;

const SCM_RIGHTS: i32 = 1;
pub(super) const SCM_CREDENTIALS: i32 = 2;
pub(super) const MSG_CTRUNC: u32 = 8;
const MSG_CMSG_CLOEXEC: u32 = 0x4000_0000;
/// How many bytes of control data are accepted.
const MAX_CONTROL: usize = 20480;
/// The size of `struct cmsghdr` in bytes, with a word `W`.
pub(super) const fn control_header<W>() -> usize {
    size_of::<W>() + 8
}

/// `struct msghdr`.
pub(super) struct Header {
    pub(super) name: usize,
    pub(super) name_len: usize,
    iov: usize,
    iov_count: usize,
    pub(super) control: usize,
    pub(super) control_len: usize,
}

impl Header {
    /// From one of words `W`.
    pub(super) fn read<W: Word>(addr: usize) -> Result<Self, Errno> {
        let [name, name_len, iov, iov_count, control, control_len, _] =
            UserPtr::<[W; 7]>::new(addr).read()?.map(W::get);
        let name_len = if name == 0 {
            0
        } else {
            usize::try_from(name_len as i32).map_err(|_| Errno::EINVAL)?
        };
        Ok(Self {
            name,
            name_len: name_len.min(MAX_ADDRESS),
            iov,
            iov_count,
            control,
            control_len,
        })
    }

    pub(super) fn iovecs<W: Word>(&self) -> Result<Vec<IoVec>, Errno> {
        if self.iov_count > 1024 {
            return Err(Errno::EMSGSIZE);
        }
        read_iovecs::<W>(self.iov, self.iov_count)
    }
}

/// The files that control data asks to send, and the credentials that it gives.
pub(super) fn read_control<W: Word>(
    addr: usize,
    len: usize,
) -> Result<(Vec<Arc<File>>, Option<Cred>), Errno> {
    let (mut files_sent, mut cred) = (Vec::new(), None);
    if len == 0 {
        return Ok((files_sent, cred));
    }
    if len > MAX_CONTROL {
        return Err(Errno::ENOBUFS);
    }
    let mut raw = zeroed(len)?;
    read_bytes(&mut raw, addr)?;
    let table = files();
    let (header, align) = (control_header::<W>(), size_of::<W>());
    let mut rest = &raw[..];
    while rest.len() >= header {
        let size = W::start_of(rest);
        let word = |at: usize| i32::from_le_bytes(core::array::from_fn(|i| rest[at + i]));
        if size < header || size > rest.len() {
            return Err(Errno::EINVAL);
        }
        match (word(align), word(align + 4)) {
            (SOL_SOCKET, SCM_RIGHTS) => {
                for fd in rest[header..size].chunks_exact(4) {
                    let fd = i32::from_le_bytes([fd[0], fd[1], fd[2], fd[3]]);
                    files_sent.push(table.get_any(fd)?);
                }
                if files_sent.len() > MAX_FILES {
                    return Err(Errno::EINVAL);
                }
            }
            (SOL_SOCKET, SCM_CREDENTIALS) => {
                if size != header + 12 {
                    return Err(Errno::EINVAL);
                }
                let claimed = [0, 4, 8].map(|at| word(header + at) as u32);
                cred = Some(check_cred(claimed)?);
            }
            (SOL_SOCKET, _) => return Err(Errno::EINVAL),
            _ => {}
        }
        rest = rest.get(size.next_multiple_of(align)..).unwrap_or(&[]);
    }
    Ok((files_sent, cred))
}

/// `sendmsg`.
pub(super) fn send_message<W: Word>(file: &File, sock: &Arc<Sock>, addr: usize, flags: u32) -> SysResult {
    let h = Header::read::<W>(addr)?;
    let mut how = sending(file, flags, read_address(h.name, h.name_len)?);
    let iov = h.iovecs::<W>()?;
    (how.files, how.cred) = read_control::<W>(h.control, h.control_len)?;
    unix_file::send(sock, &mut IoSrc::vector(&iov), how)
}

/// Writes what came with a message as control data. Returns the flags to report and the length in bytes.
fn write_control<W: Word>(
    r: Received,
    sock: &Sock,
    to: usize,
    room: usize,
    cloexec: bool,
) -> Result<(u32, usize), Errno> {
    let (mut flags, mut used) = (0, 0);
    let put = |kind: i32, data: &[u8], used: &mut usize| -> Result<bool, Errno> {
        let size = control_header::<W>() + data.len();
        if *used + size > room {
            return Ok(false);
        }
        let mut raw = size.to_le_bytes()[..size_of::<W>()].to_vec();
        raw.extend_from_slice(&SOL_SOCKET.to_le_bytes());
        raw.extend_from_slice(&kind.to_le_bytes());
        raw.extend_from_slice(data);
        write_bytes(to.wrapping_add(*used), &raw)?;
        *used = (*used + size.next_multiple_of(size_of::<W>())).min(room);
        Ok(true)
    };
    if sock.kind != Kind::Stream
        && r.cred.is_some()
        && let Some(option) = sock.timestamp()
        && !put(option as i32, &timestamp::<W>(option, realtime_ns()), &mut used)?
    {
        flags |= MSG_CTRUNC;
    }
    if sock.pass_cred() {
        let cred: Vec<u8> = r
            .cred
            .map_or([0; 3], |cred| cred.shown())
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .collect();
        if !put(SCM_CREDENTIALS, &cred, &mut used)? {
            flags |= MSG_CTRUNC;
        }
    }
    if !r.files.is_empty() {
        let fits = room.saturating_sub(used + control_header::<W>()) / 4;
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
pub(super) fn receive_message<W: Word>(file: &File, sock: &Arc<Sock>, addr: usize, flags: u32) -> SysResult {
    let h = Header::read::<W>(addr)?;
    let iov = h.iovecs::<W>()?;
    let r = unix_file::receive(sock, &mut IoDst::vector(&iov), how(file, flags))?;
    let (len, full) = (r.len, r.full);
    let cloexec = flags & MSG_CMSG_CLOEXEC;
    let mut out = cloexec;
    if full > len {
        out |= MSG_TRUNC;
    }
    if h.name != 0 {
        write_address(&r.sender(), h.name, UserPtr::new(addr + size_of::<W>()))?;
    }
    let (more, used) = write_control::<W>(r, sock, h.control, h.control_len, cloexec != 0)?;
    UserPtr::new(addr + 5 * size_of::<W>()).write(W::put(used))?;
    UserPtr::<u32>::new(addr + 6 * size_of::<W>()).write(out | more)?;
    Ok(if flags & MSG_TRUNC != 0 { full } else { len })
}

/// `sendmmsg` and `recvmmsg`: one message after the other until one fails.
pub(super) fn many<W: Word>(vector: usize, count: u32, mut one: impl FnMut(usize) -> SysResult) -> SysResult {
    let mut done = 0;
    while done < count.min(1024) as usize {
        // Each element is a `struct msghdr` and a length.
        let at = vector.wrapping_add(done * 8 * size_of::<W>());
        let length = UserPtr::<u32>::new(at.wrapping_add(7 * size_of::<W>()));
        match one(at).and_then(|n| length.write(n as u32)) {
            Ok(()) => done += 1,
            Err(e) if done == 0 => return Err(e),
            Err(_) => break,
        }
    }
    Ok(done)
}
