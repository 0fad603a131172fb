//! The arguments of `poll`, `select` and `epoll`.

use super::SysResult;
use super::file::{file, files};
use super::time::TimeWord;
use crate::fs::epoll;
use crate::fs::poll::{self, PollEntry, PollEvents, Timeout};
use crate::fs::{RLIMIT_NOFILE, fdtable};
use crate::mm::copy::{with_bytes, zeroed};
use crate::mm::user::{self, UserPtr, Word, read_bytes, write_bytes, write_tails};
use crate::signal::SigSet;
use crate::signal::mask::with_mask;
use crate::task::current;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use limen_linux_abi::native::EpollEvent;
use limen_linux_abi::{EpollLayout, Errno};

const NANO: i64 = 1_000_000_000;
/// A flag of `personality`: timeouts in user memory are not changed.
const STICKY_TIMEOUTS: u32 = 0x0400_0000;

/// A relative `timespec` or, with `unit` 1000, a `timeval`. Null: no timeout.
pub(super) fn until<T: TimeWord>(at: UserPtr<[T; 2]>, unit: i64) -> Result<Timeout, Errno> {
    let Some(p) = at.non_null() else {
        return Ok(Timeout::Never);
    };
    let [sec, part] = p.read()?;
    let (sec, mut part) = (sec.get(), part.fraction());
    if sec < 0 || part < 0 {
        return Err(Errno::EINVAL);
    }
    part = part.checked_mul(unit).ok_or(Errno::EINVAL)?;
    if unit == 1 && part >= NANO {
        return Err(Errno::EINVAL);
    }
    let ns = (sec as u64)
        .saturating_mul(NANO as u64)
        .saturating_add(part as u64);
    if ns == 0 {
        return Ok(Timeout::Now);
    }
    Ok(Timeout::Until(Timeout::In(ns).deadline()))
}

/// Writes the time that is left to the program's timeout, as Linux's `ppoll`, `pselect6` and `select` do,
/// unless its personality forbids that. If it forbids that, or writing fails, the call is not restarted after
/// a signal, since it would wait the whole time again.
fn write_left<T: TimeWord>(at: UserPtr<[T; 2]>, timeout: Timeout, unit: i64, result: SysResult) -> SysResult {
    if at.is_null() {
        return result;
    }
    let sticky = current().personality.load(Ordering::Relaxed) & STICKY_TIMEOUTS != 0;
    if !sticky {
        let Timeout::Until(end) = timeout else {
            return result;
        };
        let left = end.saturating_sub(crate::time::now_ns()) as i64;
        if at
            .write([T::put(left / NANO), T::put(left % NANO / unit)])
            .is_ok()
        {
            return result;
        }
    }
    result.map_err(|e| {
        if e == Errno::ERESTARTNOHAND {
            Errno::EINTR
        } else {
            e
        }
    })
}

/// A signal mask argument.
pub(super) fn read_mask(addr: usize, size: usize) -> Result<Option<SigSet>, Errno> {
    if addr == 0 {
        return Ok(None);
    }
    if size != 8 {
        return Err(Errno::EINVAL);
    }
    Ok(Some(SigSet(UserPtr::<u64>::new(addr).read()?)))
}

/// An interrupted wait is restarted only if no handler ran (`ERESTARTNOHAND`).
fn no_hand(result: Result<usize, Errno>) -> SysResult {
    result.map_err(|e| {
        if e == Errno::ERESTARTSYS {
            Errno::ERESTARTNOHAND
        } else {
            e
        }
    })
}

/// A `struct pollfd`: descriptor, requested events, reported events.
type PollFd = [u8; 8];

fn asked(fd: &PollFd) -> (i32, PollEvents) {
    let [a, b, c, d, e, f, ..] = *fd;
    let events = u16::from_le_bytes([e, f]);
    (
        i32::from_le_bytes([a, b, c, d]),
        PollEvents::from_bits_truncate(u32::from(events)),
    )
}

fn found(fd: &mut PollFd, events: PollEvents) {
    fd[6..].copy_from_slice(&(events.bits() as u16).to_le_bytes());
}

/// What `poll` reports for a number that is no open descriptor. Negative numbers are skipped.
fn missing(number: i32) -> PollEvents {
    if number < 0 {
        PollEvents::empty()
    } else {
        PollEvents::NVAL
    }
}

fn do_poll(at: usize, count: usize, timeout: Timeout) -> SysResult {
    if count as u64 > crate::task::rlimit(RLIMIT_NOFILE) || count > fdtable::nr_open() {
        return Err(Errno::EINVAL);
    }
    with_bytes(at, count * size_of::<PollFd>(), |bytes| {
        let (list, _) = bytes.as_chunks_mut();
        let task = current();
        let mut ready = 0;
        for fd in list.iter_mut() {
            let (number, events) = asked(fd);
            let events = task.with_one_of_many(number, move |file| poll::ask(file, events), missing);
            found(fd, events);
            ready += usize::from(!events.is_empty());
        }
        let result = if ready != 0 || timeout == Timeout::Now {
            Ok(ready)
        } else {
            sleep_on(list, timeout)
        };
        write_tails(at, list)?;
        result
    })
}

/// No file of `list` had an event: sleeps.
#[inline(never)]
fn sleep_on(list: &mut [PollFd], timeout: Timeout) -> SysResult {
    let task = current();
    let mut entries = Vec::new();
    crate::mm::reserve::room_exact(&mut entries, list.len())?;
    entries.extend(list.iter().map(|fd| {
        let (number, events) = asked(fd);
        let file = task.file(number).ok();
        let revents = if file.is_some() {
            PollEvents::empty()
        } else {
            missing(number)
        };
        PollEntry {
            file,
            events,
            revents,
        }
    }));
    let result = poll::sleep(&mut entries, timeout);
    for (fd, entry) in list.iter_mut().zip(&entries) {
        found(fd, entry.revents);
    }
    result
}

/// The three sets of `select`: which events each asks for, and which reported events count.
const SETS: [(PollEvents, PollEvents); 3] = [
    (
        PollEvents::READABLE,
        PollEvents::READABLE
            .union(PollEvents::RDBAND)
            .union(PollEvents::HUP)
            .union(PollEvents::ERR),
    ),
    (
        PollEvents::WRITABLE,
        PollEvents::WRITABLE
            .union(PollEvents::WRBAND)
            .union(PollEvents::ERR),
    ),
    (PollEvents::PRI, PollEvents::PRI),
];

fn do_select<W: Word>(count: i32, sets: [usize; 3], timeout: Timeout) -> SysResult {
    let count = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
    let table = files();
    let count = count.min(table.size());
    let bytes = count.div_ceil(8 * size_of::<W>()) * size_of::<W>();
    let mut wanted = [zeroed(bytes)?, zeroed(bytes)?, zeroed(bytes)?];
    for (set, addr) in wanted.iter_mut().zip(sets) {
        if addr != 0 {
            read_bytes(set, addr)?;
        }
    }
    let has = |set: &[u8], fd: usize| set[fd / 8] >> (fd % 8) & 1 != 0;
    let mut entries = Vec::new();
    let mut numbers = Vec::new();
    for fd in 0..count {
        let mut events = PollEvents::empty();
        let mut answers = PollEvents::empty();
        for (set, (ask, answer)) in wanted.iter().zip(SETS) {
            if has(set, fd) {
                events |= ask;
                answers |= answer;
            }
        }
        if !events.is_empty() {
            let file = Some(table.get(fd as i32)?);
            crate::mm::reserve::room(&mut entries, 1)?;
            crate::mm::reserve::room(&mut numbers, 1)?;
            entries.push(PollEntry {
                file,
                events: events | (answers - PollEvents::ERR - PollEvents::HUP),
                revents: PollEvents::empty(),
            });
            numbers.push(fd);
        }
    }
    poll::wait(&mut entries, timeout)?;
    let mut found = [zeroed(bytes)?, zeroed(bytes)?, zeroed(bytes)?];
    let mut ready = 0;
    for (e, fd) in entries.iter().zip(&numbers) {
        for (i, (_, answer)) in SETS.iter().enumerate() {
            if has(&wanted[i], *fd) && e.revents.intersects(*answer) {
                found[i][fd / 8] |= 1 << (fd % 8);
                ready += 1;
            }
        }
    }
    for (set, addr) in found.iter().zip(sets) {
        if addr != 0 {
            write_bytes(addr, set)?;
        }
    }
    Ok(ready)
}

/// `select`, with sets of words `W`.
#[inline(always)]
pub(super) fn select_until<W: Word, T: TimeWord>(
    count: i32,
    sets: [usize; 3],
    time: UserPtr<[T; 2]>,
) -> SysResult {
    let timeout = until(time, 1000)?;
    let result = no_hand(do_select::<W>(count, sets, timeout));
    write_left(time, timeout, 1000, result)
}

/// `pselect6`, with sets of words `W`, which address and size of the mask are, too.
#[inline(always)]
pub(super) fn select_with_mask<W: Word, T: TimeWord>(
    count: i32,
    sets: [usize; 3],
    time: UserPtr<[T; 2]>,
    mask: usize,
) -> SysResult {
    let mask = UserPtr::<[W; 2]>::new(mask)
        .non_null()
        .map(|p| p.read())
        .transpose()?;
    let timeout = until(time, 1)?;
    let mask = match mask.map(|pair| pair.map(W::get)) {
        Some([addr, size]) => read_mask(addr, size)?,
        None => None,
    };
    let result = with_mask(mask, || no_hand(do_select::<W>(count, sets, timeout)));
    write_left(time, timeout, 1, result)
}

#[inline(always)]
pub(super) fn do_epoll_wait<E: EpollLayout>(fd: i32, to: usize, max: i32, timeout: Timeout) -> SysResult {
    let max = usize::try_from(max)
        .ok()
        .filter(|m| *m > 0 && *m <= i32::MAX as usize / size_of::<E>())
        .ok_or(Errno::EINVAL)?;
    // One word goes into each of the ways to the file.
    let wanted = &(to, max, timeout);
    current()
        .with_file(fd, move |file| {
            epoll::wait::<E>(file, wanted.0, wanted.1, wanted.2)
        })
        .map_err(|e| no_events(e, to, max * size_of::<E>()))
}

/// The error of a wait that failed with `e`. What user memory can never be is no place for events, whatever
/// the descriptor is.
#[cold]
fn no_events(e: Errno, to: usize, size: usize) -> Errno {
    match e {
        Errno::ERESTARTSYS => Errno::EINTR,
        e => user::check(to, size).err().unwrap_or(e),
    }
}

/// `epoll_ctl`. The file that is watched is counted, as the item refers to it; the epoll file is not.
pub(super) fn control(epfd: i32, op: i32, fd: i32, event: (u32, u64)) -> SysResult {
    let file = file(fd);
    // An epoll file that is not there is the error that comes first, but both are `EBADF`.
    current().with_file(epfd, |epfile| epoll::control(epfile, op, fd, &file?, event))?;
    Ok(0)
}

/// A timeout in milliseconds. Negative: none.
pub(super) fn millis(ms: i32) -> Timeout {
    match ms {
        ..0 => Timeout::Never,
        0 => Timeout::Now,
        _ => Timeout::In(ms as u64 * 1_000_000),
    }
}

crate::syscalls! {
    fn poll(fds: usize, count: u32, ms: i32) {
        no_hand(do_poll(fds, count as usize, millis(ms)))
    }
    fn ppoll/ppoll_time64(fds: usize, count: u32, time: UserPtr<[Time; 2]>, mask: usize, size: usize) {
        let timeout = until(time, 1)?;
        let mask = read_mask(mask, size)?;
        let result = with_mask(mask, || no_hand(do_poll(fds, count as usize, timeout)));
        write_left(time, timeout, 1, result)
    }
    fn select(count: i32, read: usize, write: usize, except: usize, time: UserPtr<[isize; 2]>) {
        select_until::<usize, isize>(count, [read, write, except], time)
    }
    fn pselect6/pselect6_time64(count: i32, read: usize, write: usize, except: usize,
        time: UserPtr<[Time; 2]>, mask: usize) {
        select_with_mask::<usize, Time>(count, [read, write, except], time, mask)
    }
    fn epoll_create(size: i32) {
        if size <= 0 {
            return Err(Errno::EINVAL);
        }
        Ok(files().install(epoll::create()?, false)? as usize)
    }
    fn epoll_create1(flags: u32) {
        const CLOEXEC: u32 = limen_linux_abi::raw::general::O_CLOEXEC;
        if flags & !CLOEXEC != 0 {
            return Err(Errno::EINVAL);
        }
        Ok(files().install(epoll::create()?, flags != 0)? as usize)
    }
    fn epoll_ctl(epfd: i32, op: i32, fd: i32, event: usize) {
        let event = epoll::read_event::<EpollEvent>(op, event)?;
        control(epfd, op, fd, event)
    }
    fn epoll_wait(epfd: i32, to: usize, max: i32, ms: i32) {
        do_epoll_wait::<EpollEvent>(epfd, to, max, millis(ms))
    }
    fn epoll_pwait(epfd: i32, to: usize, max: i32, ms: i32, mask: usize, size: usize) {
        // C libraries of ABIs without `epoll_wait` call it also without a mask.
        if mask == 0 {
            return do_epoll_wait::<EpollEvent>(epfd, to, max, millis(ms));
        }
        let mask = read_mask(mask, size)?;
        with_mask(mask, || do_epoll_wait::<EpollEvent>(epfd, to, max, millis(ms)))
    }
    fn epoll_pwait2(epfd: i32, to: usize, max: i32, time: UserPtr<[i64; 2]>, mask: usize, size: usize) {
        let timeout = until(time, 1)?;
        let mask = read_mask(mask, size)?;
        with_mask(mask, || do_epoll_wait::<EpollEvent>(epfd, to, max, timeout))
    }
}
