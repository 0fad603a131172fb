//! Moving data between files without user memory: `sendfile`, `copy_file_range`, `splice`, `tee`, `vmsplice`.
//!
//! Files with pages and pipes exchange whole pages by reference where possible. All others go through a page
//! in between.

use crate::fs::file::{File, FileMode};
use crate::fs::inode::{Dev, FileType};
use crate::fs::inotify;
use crate::fs::io::{IoDst, IoSrc};
use crate::fs::pipe::{self, Buf, Pipe, Slot};
use crate::mm::PAGE_SIZE;
use crate::mm::copy::{IoVec, MAX_RW};
use crate::mm::user::UserPtr;
use crate::rcu::Shared;
use alloc::sync::Arc;
use limen_linux_abi::SysResult;
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

/// How many bytes at most are one write to the watchers of the file: on Linux they go through a pipe.
const ONE_WRITE: usize = 16 * PAGE_SIZE;

/// Whether watchers of `out` hear of the single writes of `splice` and `sendfile`. On Linux pipes, sockets,
/// `/dev/null` and `/dev/zero` take the bytes in a way of their own, of which nobody is told.
fn tells_writes(out: &File) -> bool {
    let inode = out.inode();
    match inode.kind {
        FileType::Regular | FileType::BlockDevice => true,
        FileType::CharDevice => ![Dev::new(1, 3), Dev::new(1, 5)].contains(&inode.rdev),
        _ => false,
    }
}

/// `n` bytes have been written to `out`: tells its watchers if they hear of that.
fn tell_write(out: &File, n: usize) {
    if tells_writes(out) {
        let _ = inotify::was_written(|| out, Ok(n));
    }
}

/// Tells the watchers of both files that the whole call has moved bytes, if so.
fn tell_both(source: &File, out: &File, result: SysResult) -> SysResult {
    inotify::was_written(|| out, inotify::was_read(|| source, result))
}

/// Copies up to `count` bytes, and tells the watchers of both files. `from` and `to` are positions, `None`
/// for the files' own ones.
fn copy(source: &File, mut from: Option<u64>, out: &File, mut to: Option<u64>, count: usize) -> SysResult {
    // In the linear map, as the other file may sleep while it reads the page.
    let page = crate::mm::alloc_addressed_page().ok_or(Errno::ENOMEM)?;
    let mut done = 0;
    let mut told = 0;
    while done < count {
        let want = (count - done).min(PAGE_SIZE);
        let wait = done == 0;
        let n =
            match source
                .ops()
                .splice_read(source, &mut IoDst::kernel(&mut page.bytes()[..want]), from, wait)
            {
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
            match out.write_quietly(&mut IoSrc::kernel(&page.bytes()[written..n]), to) {
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
        if done - told >= ONE_WRITE {
            tell_write(out, done - told);
            told = done;
        }
        if written < n {
            give_back(source, from, n - written);
            break;
        }
        if crate::task::current().signal_pending() {
            break;
        }
    }
    tell_write(out, done - told);
    tell_both(source, out, Ok(done))
}

/// Moves the file's own position back by bytes that were read but not written.
fn give_back(source: &File, from: Option<u64>, n: usize) {
    if from.is_none() && !source.mode().contains(FileMode::STREAM) {
        let mut pos = source.pos.lock();
        *pos = pos.saturating_sub(n as u64);
    }
}

/// Checks the source of `sendfile`. `EBADF`: it was not opened for reading. If a position is given, the
/// source must have positions (`ESPIPE`), and it must not be negative (`EINVAL`).
pub fn source_position(source: &File, from: Option<i64>) -> Result<Option<u64>, Errno> {
    if !source.mode().contains(FileMode::READ) {
        return Err(Errno::EBADF);
    }
    if from.is_some() && source.mode().contains(FileMode::NO_PREAD) {
        return Err(Errno::ESPIPE);
    }
    from.map(u64::try_from).transpose().map_err(|_| Errno::EINVAL)
}

/// `sendfile`. [`source_position`] has checked the source.
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
        let nonblock = source.nonblocking() || out.nonblocking();
        return tell_both(source, out, fill(source, from, pipe, count, nonblock));
    }
    // A source without positions may end in the middle of the copy, and the caller would not see that end.
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
    let in_memory = source
        .inode()
        .pages
        .as_ref()
        .is_some_and(|pages| !pages.is_secret());
    if !Arc::ptr_eq(&source.inode().sb, &out.inode().sb) && !in_memory {
        return Err(Errno::EXDEV);
    }
    let len = len
        .min(MAX_RW)
        .min(source.inode().size().saturating_sub(start).min(MAX_RW as u64) as usize);
    if Shared::ptr_eq(source.inode(), out.inode())
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

/// `splice` of at least one byte.
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
    // The addresses of positions, and the positions there.
    let read = |p: Option<UserPtr<i64>>| p.map(|p| Ok((p, p.read()?))).transpose();
    let (to, from) = (read(to)?, read(from)?);
    if !source.mode().contains(FileMode::READ) || !out.mode().contains(FileMode::WRITE) {
        return Err(Errno::EBADF);
    }
    let (asked, len) = (len, len.min(MAX_RW));
    let nonblock = flags & NONBLOCK != 0;
    // The file that is not the pipe must be able to do this (`with`). If a position is given for it, it must
    // have positions, and the last byte must have one.
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
            let n = drain(a, out, start, len, nonblock || source.nonblocking())?;
            tell_write(out, n);
            (n, to)
        }
        (None, Some(b)) => {
            let start = start(source, from, FileMode::SENDS)?;
            (fill(source, start, b, len, nonblock || out.nonblocking())?, from)
        }
        (None, None) => return Err(Errno::EINVAL),
    };
    if let Some((pointer, start)) = at {
        let file = if a.is_some() { out } else { source };
        pointer.write(start + moves(file, n) as i64)?;
    }
    Ok(n)
}

/// By how much `n` bytes move a position that was given. 0 for files all of whose positions are the same.
pub fn moves(file: &File, n: usize) -> usize {
    if file.mode().contains(FileMode::STREAM) {
        0
    } else {
        n
    }
}

/// Moves at most `len` bytes, of what there is, from a pipe to a file.
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
        // What is taken keeps its slot until it is written out, since it may come back. A reader in between
        // may take what is behind it, as with any two readers.
        let n = buf.len.min(len - done);
        let whole = n == buf.len;
        let taken = Buf {
            page: buf.page.clone(),
            start: buf.start,
            len: n,
            packet: buf.packet,
            own: false,
        };
        // The page is shared from here on: nothing may write behind the bytes or use the page again.
        buf.own = false;
        buf.start += n;
        buf.len -= n;
        let slot = if whole {
            ring.bufs.pop_front();
            pipe.take_slot(&mut ring, true)
        } else {
            None
        };
        let freed = whole && slot.is_none();
        pipe.changed(ring, false, freed);
        // Writing may sleep, so the page must be in the linear map.
        let Ok(page) = taken.page.clone().addressed() else {
            put_back(pipe, slot, taken, whole);
            return if done > 0 { Ok(done) } else { Err(Errno::ENOMEM) };
        };
        let start = taken.start;
        let m = match out.write_quietly(&mut IoSrc::kernel(&page.bytes()[start..start + n]), to) {
            Ok(m) => m,
            Err(e) if done == 0 => {
                put_back(pipe, slot, taken, whole);
                return Err(e);
            }
            Err(_) => 0,
        };
        done += m;
        to = to.map(|t| t + m as u64);
        if m < n {
            let rest = Buf {
                start: start + m,
                len: n - m,
                ..taken
            };
            put_back(pipe, slot, rest, whole);
            break;
        }
    }
    Ok(done)
}

/// Puts bytes that could not be written back to the front of the pipe: into the slot they were taken out of,
/// or to those they were taken from, if they were not the `whole` buffer.
fn put_back(pipe: &Arc<Pipe>, slot: Option<Slot<'_>>, rest: Buf, whole: bool) {
    if let Some(slot) = slot {
        return slot.put(|bufs| bufs.push_front(rest));
    }
    let mut ring = pipe.lock();
    match ring.bufs.front_mut() {
        Some(front)
            if !whole
                && front.page.phys() == rest.page.phys()
                && front.start == rest.start + rest.len
                && front.packet == rest.packet =>
        {
            front.start = rest.start;
            front.len += rest.len;
        }
        // Another reader has taken the others.
        _ => ring.bufs.push_front(rest),
    }
    pipe.changed(ring, true, false);
}

/// Moves bytes from a file to a pipe until the pipe is full or the file ends.
fn fill(source: &File, mut from: Option<u64>, pipe: &Arc<Pipe>, len: usize, nonblock: bool) -> SysResult {
    let mut done = 0;
    while done < len {
        match pipe.wait_room(nonblock || done != 0) {
            Ok(()) => {}
            Err(_) if done != 0 => break,
            Err(e) => return Err(e),
        }
        // Reading may take its time, in which others write.
        let Some(slot) = pipe.take_slot(&mut pipe.lock(), false) else {
            continue;
        };
        let page = match crate::mm::alloc_addressed_page() {
            Some(page) => page,
            None if done != 0 => break,
            None => return Err(Errno::ENOMEM),
        };
        let want = PAGE_SIZE.min(len - done);
        let wait = !nonblock && done == 0;
        let n =
            match source
                .ops()
                .splice_read(source, &mut IoDst::kernel(&mut page.bytes()[..want]), from, wait)
            {
                Ok(0) => break,
                Ok(n) => n,
                Err(_) if done != 0 => break,
                Err(e) => return Err(e),
            };
        let new = Buf {
            page,
            start: 0,
            len: n,
            packet: false,
            own: true,
        };
        slot.put(|bufs| bufs.push_back(new));
        done += n;
        from = from.map(|f| f + n as u64);
        // A short read may be a line of a terminal or the last bytes of a socket. Waiting for more would hide
        // where it ended.
        if n < want {
            break;
        }
    }
    Ok(done)
}

/// `tee`, and `splice` between pipes: `b` shares buffers of `a`; with `consume` they are taken out of `a`.
pub fn link(a: &Arc<Pipe>, b: &Arc<Pipe>, len: usize, nonblock: bool, consume: bool) -> SysResult {
    if Arc::ptr_eq(a, b) {
        return Err(Errno::EINVAL);
    }
    loop {
        if !a.wait_data(nonblock)? {
            return Ok(0);
        }
        b.wait_room(nonblock)?;
        // Locks both, the one with the lower address first.
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
        // Nothing may be written behind bytes that are shared now.
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

/// `vmsplice`. Pages are copied, never shared with the program. Whether it may sleep depends on `flags`
/// alone, not on the file's.
pub fn vmsplice(file: &File, list: &[IoVec], flags: u32) -> SysResult {
    let nonblock = flags & NONBLOCK != 0;
    if list.iter().all(|part| part.len == 0) {
        return Ok(0);
    }
    let pipe = pipe::of(file).ok_or(Errno::EBADF)?;
    if file.mode().contains(FileMode::WRITE) {
        // What lies in a pipe can be reached by the kernel.
        let mm = crate::task::current().mm();
        let secret = |part: &IoVec| mm.as_ref().is_some_and(|mm| mm.has_secret(part.addr, part.len));
        if list.iter().any(secret) {
            return Err(Errno::EFAULT);
        }
        pipe.write_some(&mut IoSrc::vector(list), nonblock)
    } else {
        pipe.read(&mut IoDst::vector(list), nonblock)
    }
}
