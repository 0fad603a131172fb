//! Moving data between files without user memory: `sendfile`, `copy_file_range`, `splice`, `tee`, `vmsplice`.
//!
//! Files with pages and pipes exchange whole pages by reference where they can; anything else goes through a bounce page.

use crate::fs::file::{File, FileMode};
use crate::fs::inode::FileType;
use crate::fs::io::{IoDst, IoSrc};
use crate::fs::pipe::{self, Buf, Pipe};
use crate::mm::PAGE_SIZE;
use crate::mm::copy::{IoVec, MAX_RW};
use crate::mm::user::UserPtr;
use crate::syscall::SysResult;
use alloc::sync::Arc;
use limen_linux_abi::{Errno, raw::general as abi};

/// `SPLICE_F_NONBLOCK`.
const NONBLOCK: u32 = 2;
/// `SPLICE_F_*` known.
const KNOWN_FLAGS: u32 = 15;

/// `EINVAL` for unknown `SPLICE_F_*`.
pub fn check_flags(flags: u32) -> Result<(), Errno> {
    if flags & !KNOWN_FLAGS == 0 {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}

/// Copies up to `count` bytes; `from`/`to` are positions, `None` for the files' own.
fn copy(source: &File, mut from: Option<u64>, out: &File, mut to: Option<u64>, count: usize) -> SysResult {
    // The other side may take its time: a page with an address.
    let page = crate::mm::alloc_addressed_page().ok_or(Errno::ENOMEM)?;
    let mut done = 0;
    while done < count {
        let want = (count - done).min(PAGE_SIZE);
        let n = match source.read(&mut IoDst::kernel(&mut page.bytes()[..want]), from) {
            Ok(0) => break,
            Ok(n) => n,
            Err(_) if done != 0 => break,
            Err(e) => return Err(e),
        };
        if !out.mode().contains(FileMode::RECEIVES) {
            give_back(source, from, n);
            return Err(Errno::EINVAL);
        }
        let mut written = 0;
        while written < n {
            match out.write(&mut IoSrc::kernel(&page.bytes()[written..n]), to) {
                Ok(0) => break,
                Ok(m) => {
                    written += m;
                    to = to.map(|t| t + m as u64);
                }
                Err(e) => {
                    if done + written == 0 {
                        give_back(source, from, n);
                        return Err(e);
                    }
                    break;
                }
            }
        }
        from = from.map(|f| f + written as u64);
        done += written;
        if written < n {
            give_back(source, from, n - written);
            break;
        }
        if crate::task::current().signal_pending() {
            break;
        }
    }
    Ok(done)
}

/// What was read from a file's own position but not written is read again next time.
fn give_back(source: &File, from: Option<u64>, n: usize) {
    if from.is_none() && !source.mode().contains(FileMode::STREAM) {
        let mut pos = source.pos.lock();
        *pos = pos.saturating_sub(n as u64);
    }
}

/// `sendfile`'s source: `EBADF` if it was not opened for reading; a position must be possible, if one is given, and not negative.
pub fn source_position(source: &File, from: Option<i64>) -> Result<Option<u64>, Errno> {
    if !source.mode().contains(FileMode::READ) {
        return Err(Errno::EBADF);
    }
    if from.is_some() && source.mode().contains(FileMode::NO_PREAD) {
        return Err(Errno::ESPIPE);
    }
    from.map(u64::try_from).transpose().map_err(|_| Errno::EINVAL)
}

/// `sendfile`, after [`source_position`].
pub fn sendfile(out: &File, source: &File, from: Option<u64>, count: usize) -> SysResult {
    if !out.mode().contains(FileMode::WRITE) {
        return Err(Errno::EBADF);
    }
    let count = count.min(MAX_RW);
    let sends = source.mode().contains(FileMode::SENDS);
    if let Some(pipe) = pipe::of(out) {
        if !sends {
            return Err(Errno::EINVAL);
        }
        return fill(
            source,
            from,
            pipe,
            count,
            source.nonblocking() || out.nonblocking(),
        );
    }
    // A source that can't be sought in may end in the middle of the copy, and its end would be lost to the caller.
    if out.flags() & abi::O_APPEND != 0 || source.ops().seek(source, 0, abi::SEEK_CUR).is_err() {
        return Err(Errno::EINVAL);
    }
    match count {
        0 => Ok(0),
        _ if !sends => Err(Errno::EINVAL),
        _ => copy(source, from, out, None, count),
    }
}

/// `copy_file_range`.
pub fn copy_file_range(
    source: &File,
    from: Option<UserPtr<i64>>,
    out: &File,
    to: Option<UserPtr<i64>>,
    len: usize,
    flags: u32,
) -> SysResult {
    let position = |p: Option<UserPtr<i64>>, f: &File| match p {
        Some(p) => p.read(),
        None => Ok(*f.pos.lock() as i64),
    };
    let (start, dest) = (position(from, source)?, position(to, out)?);
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let kinds = [source.inode().kind, out.inode().kind];
    if kinds.contains(&FileType::Directory) {
        return Err(Errno::EISDIR);
    }
    if kinds != [FileType::Regular; 2] {
        return Err(Errno::EINVAL);
    }
    if !source.mode().contains(FileMode::READ)
        || !out.mode().contains(FileMode::WRITE)
        || out.flags() & abi::O_APPEND != 0
    {
        return Err(Errno::EBADF);
    }
    let (Ok(start), Ok(dest)) = (u64::try_from(start), u64::try_from(dest)) else {
        return Err(Errno::EINVAL);
    };
    if !Arc::ptr_eq(&source.inode().sb, &out.inode().sb) && source.inode().pages.is_none() {
        return Err(Errno::EXDEV);
    }
    let len = len
        .min(MAX_RW)
        .min(source.inode().size().saturating_sub(start).min(MAX_RW as u64) as usize);
    if Arc::ptr_eq(source.inode(), out.inode())
        && start < dest.saturating_add(len as u64)
        && dest < start.saturating_add(len as u64)
        && len != 0
    {
        return Err(Errno::EINVAL);
    }
    let n = copy(source, Some(start), out, Some(dest), len)?;
    let update = |p: Option<UserPtr<i64>>, f: &File, pos: u64| match p {
        Some(p) => p.write(pos as i64),
        None => {
            *f.pos.lock() = pos;
            Ok(())
        }
    };
    update(from, source, start + n as u64)?;
    update(to, out, dest + n as u64)?;
    Ok(n)
}

/// `splice`, of at least a byte.
pub fn splice(
    source: &File,
    from: Option<UserPtr<i64>>,
    out: &File,
    to: Option<UserPtr<i64>>,
    len: usize,
    flags: u32,
) -> SysResult {
    let (a, b) = (pipe::of(source), pipe::of(out));
    if a.is_some() && from.is_some() || b.is_some() && to.is_some() {
        return Err(Errno::ESPIPE);
    }
    // The pointers to positions with what is there.
    let read = |p: Option<UserPtr<i64>>| p.map(|p| Ok((p, p.read()?))).transpose();
    let (to, from) = (read(to)?, read(from)?);
    if !source.mode().contains(FileMode::READ) || !out.mode().contains(FileMode::WRITE) {
        return Err(Errno::EBADF);
    }
    let (asked, len) = (len, len.min(MAX_RW));
    let nonblock = flags & NONBLOCK != 0;
    // The file that is not a pipe must be good for it (`with`), and know positions if it is given one, from which on all that is asked for has one.
    let start = |file: &File, at: Option<(UserPtr<i64>, i64)>, with: FileMode| {
        if !file.mode().contains(with) || at.is_some() && file.mode().contains(FileMode::NO_PREAD) {
            return Err(Errno::EINVAL);
        }
        at.map(|(_, pos)| {
            let end = i64::try_from(asked).ok().and_then(|asked| pos.checked_add(asked));
            end.and(u64::try_from(pos).ok()).ok_or(Errno::EINVAL)
        })
        .transpose()
    };
    let (n, at) = match (a, b) {
        (Some(a), Some(b)) => {
            let nonblock = nonblock || source.nonblocking() || out.nonblocking();
            return link(a, b, len, nonblock, true);
        }
        (Some(a), None) => {
            if out.flags() & abi::O_APPEND != 0 {
                return Err(Errno::EINVAL);
            }
            let start = start(out, to, FileMode::RECEIVES)?;
            (drain(a, out, start, len, nonblock || source.nonblocking())?, to)
        }
        (None, Some(b)) => {
            let start = start(source, from, FileMode::SENDS)?;
            (fill(source, start, b, len, nonblock || out.nonblocking())?, from)
        }
        (None, None) => return Err(Errno::EINVAL),
    };
    if let Some((pointer, start)) = at {
        pointer.write(start + n as i64)?;
    }
    Ok(n)
}

/// From a pipe to a file: what is there, at most `len`.
fn drain(pipe: &Arc<Pipe>, out: &File, mut to: Option<u64>, len: usize, nonblock: bool) -> SysResult {
    let mut done = 0;
    while done < len {
        let mut ring = pipe.lock();
        let Some(buf) = ring.bufs.front_mut() else {
            drop(ring);
            if done != 0 || !pipe.wait_data(nonblock)? {
                break;
            }
            continue;
        };
        // The page stays in the pipe while it is being written out; a reader in between may take it, as with any two readers.
        let (page, start) = (buf.page.clone(), buf.start);
        let n = buf.len.min(len - done);
        let whole = n == buf.len;
        // Shared from here on: nobody may write behind the bytes or reuse the page.
        buf.own = false;
        buf.start += n;
        buf.len -= n;
        if whole {
            ring.bufs.pop_front();
        }
        pipe.changed(ring, false, whole);
        // Writing may take its time.
        let page = match page.addressed() {
            Ok(page) => page,
            Err(page) => {
                put_back(pipe, page, start, n);
                return if done > 0 { Ok(done) } else { Err(Errno::ENOMEM) };
            }
        };
        let m = match out.write(&mut IoSrc::kernel(&page.bytes()[start..start + n]), to) {
            Ok(m) => m,
            Err(e) if done == 0 => {
                put_back(pipe, page, start, n);
                return Err(e);
            }
            Err(_) => 0,
        };
        done += m;
        to = to.map(|t| t + m as u64);
        if m < n {
            put_back(pipe, page, start + m, n - m);
            break;
        }
    }
    Ok(done)
}

/// Returns bytes that could not be written to the front of the pipe.
fn put_back(pipe: &Arc<Pipe>, page: crate::mm::Page, start: usize, len: usize) {
    let mut ring = pipe.lock();
    ring.bufs.push_front(Buf {
        page,
        start,
        len,
        packet: false,
        own: false,
    });
    pipe.changed(ring, true, false);
}

/// From a file to a pipe: until the pipe is full or the file has no more.
fn fill(source: &File, mut from: Option<u64>, pipe: &Arc<Pipe>, len: usize, nonblock: bool) -> SysResult {
    let mut done = 0;
    while done < len {
        match pipe.wait_room(nonblock || done != 0) {
            Ok(()) => {}
            Err(_) if done != 0 => break,
            Err(e) => return Err(e),
        }
        let page = crate::mm::alloc_addressed_page().ok_or(Errno::ENOMEM)?;
        let want = PAGE_SIZE.min(len - done);
        let n = match source.read(&mut IoDst::kernel(&mut page.bytes()[..want]), from) {
            Ok(0) => break,
            Ok(n) => n,
            Err(_) if done != 0 => break,
            Err(e) => return Err(e),
        };
        let mut ring = pipe.lock();
        ring.bufs.push_back(Buf {
            page,
            start: 0,
            len: n,
            packet: false,
            own: true,
        });
        pipe.changed(ring, true, false);
        done += n;
        from = from.map(|f| f + n as u64);
        // A short read may be a terminal's line or a socket's last bytes: to wait for more would lose where it ended.
        if n < want {
            break;
        }
    }
    Ok(done)
}

/// `tee` and pipe-to-pipe `splice`: shares buffers of `a` with `b`, taking them out of `a` if `consume`.
pub fn link(a: &Arc<Pipe>, b: &Arc<Pipe>, len: usize, nonblock: bool, consume: bool) -> SysResult {
    if Arc::ptr_eq(a, b) {
        return Err(Errno::EINVAL);
    }
    loop {
        if !a.wait_data(nonblock)? {
            return Ok(0);
        }
        b.wait_room(nonblock)?;
        // Both locks, the lower address first.
        let (mut from, mut to);
        if Arc::as_ptr(a).addr() < Arc::as_ptr(b).addr() {
            from = a.lock();
            to = b.lock_second();
        } else {
            to = b.lock();
            from = a.lock_second();
        }
        let mut done = 0;
        let mut taken = 0;
        let mut partial = None;
        for (i, buf) in from.bufs.iter().enumerate() {
            if done == len || to.bufs.len() >= to.slots {
                break;
            }
            let n = buf.len.min(len - done);
            to.bufs.push_back(Buf {
                page: buf.page.clone(),
                start: buf.start,
                len: n,
                packet: buf.packet,
                own: false,
            });
            done += n;
            if n == buf.len {
                taken = i + 1;
            } else {
                partial = Some(n);
            }
        }
        // What is shared now must not be written behind any more.
        for buf in from.bufs.iter_mut().take(taken + 1) {
            buf.own = false;
        }
        if consume {
            from.bufs.drain(..taken);
            if let (Some(n), Some(first)) = (partial, from.bufs.front_mut()) {
                first.start += n;
                first.len -= n;
            }
        }
        a.changed(from, false, consume && taken != 0);
        b.changed(to, done != 0, false);
        if done != 0 {
            return Ok(done);
        }
    }
}

/// `vmsplice`: user memory and a pipe. Pages are copied, never shared with the program. Only the flags say whether it may sleep, not the file's.
pub fn vmsplice(file: &File, list: &[IoVec], flags: u32) -> SysResult {
    let nonblock = flags & NONBLOCK != 0;
    if list.iter().all(|part| part.len == 0) {
        return Ok(0);
    }
    let pipe = pipe::of(file).ok_or(Errno::EBADF)?;
    if file.mode().contains(FileMode::WRITE) {
        pipe.write_some(&mut IoSrc::vector(list), nonblock)
    } else {
        pipe.read(&mut IoDst::vector(list), nonblock)
    }
}
