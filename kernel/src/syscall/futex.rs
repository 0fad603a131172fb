//! System calls on futexes. `task` keeps the address of the robust list.

use super::SysResult;
use super::time::{TimeWord, deadline_after, read_timespec};
use crate::mm::user::UserPtr;
use crate::sched::Deadline;
use crate::sched::futex::{self, MATCH_ANY, WaitSpec};
use crate::task::current;
use crate::task::ns::time::meant;
use alloc::boxed::Box;
use alloc::vec::Vec;
use limen_linux_abi::Errno;

const FUTEX_PRIVATE: u32 = 128;
const FUTEX_CLOCK_REALTIME: u32 = 256;

/// [`futex::wait`]. If a signal interrupts it and the timeout was `relative`, it is restarted with the same
/// deadline.
fn wait(
    addr: usize,
    shared: bool,
    expected: u32,
    deadline: Option<Deadline>,
    mask: u32,
    relative: bool,
) -> SysResult {
    let Some(at) = deadline else {
        return futex::wait(addr, shared, expected, mask);
    };
    match futex::wait_until(addr, shared, expected, at, mask) {
        Err(Errno::ERESTARTSYS) if relative => {
            current().restart.set(Box::new(move || {
                wait(addr, shared, expected, deadline, mask, relative)
            }));
            Err(Errno::ERESTART_RESTARTBLOCK)
        }
        result => result,
    }
}

/// The deadline of an absolute timeout, a time of `CLOCK_REALTIME` or `CLOCK_MONOTONIC`.
fn absolute<T: TimeWord>(realtime: bool, at: UserPtr<[T; 2]>) -> Result<Option<Deadline>, Errno> {
    let clock = if realtime {
        Deadline::Realtime
    } else {
        Deadline::Monotonic
    };
    let id = if realtime { 0 } else { 1 };
    let at = at.non_null().map(read_timespec).transpose()?;
    Ok(at.map(|at| clock(meant(id, at))))
}

crate::syscalls! {
    fn futex/futex_time64(addr: usize, op: u32, value: u32, fourth: usize, second: usize, third: u32) {
        let shared = op & FUTEX_PRIVATE == 0;
        // The most frequent commands: waking, and waiting without a timeout.
        match (op & !FUTEX_PRIVATE, fourth) {
            (WAKE, _) => futex::wake_masked(addr, shared, wake_count(value), MATCH_ANY),
            (WAIT, 0) => futex::wait(addr, shared, value, MATCH_ANY),
            (WAIT_BITSET | WAIT_BITSET_REALTIME, 0) => futex::wait(addr, shared, value, third),
            _ => command::<Time>(op, addr, value, UserPtr::new(fourth), second, third),
        }
    }

    fn futex_waitv(list: usize, count: u32, flags: u32, timeout: UserPtr<[i64; 2]>, clock: i32) {
        if flags != 0 || count == 0 || count > 128 || list == 0 {
            return Err(Errno::EINVAL);
        }
        let deadline = deadline_on(clock, timeout)?;
        let specs = read_waiters(list, count as usize)?;
        futex::wait_many(&specs, deadline)
    }

    fn futex_wake(addr: usize, mask: usize, count: i32, flags: u32) {
        let shared = shared_of(flags)?;
        let mask = mask_of(mask)?;
        if count <= 0 && !addr.is_multiple_of(4) {
            return Err(Errno::EINVAL);
        }
        // This call wakes no waiter if asked for 0; `futex` wakes one.
        if count == 0 { Ok(0) } else { futex::wake_masked(addr, shared, wake_count(count as u32), mask) }
    }

    fn futex_wait(addr: usize, expected: usize, mask: usize, flags: u32, timeout: UserPtr<[i64; 2]>,
        clock: i32) {
        let shared = shared_of(flags)?;
        let mask = mask_of(mask)?;
        let expected = u32::try_from(expected).map_err(|_| Errno::EINVAL)?;
        wait(addr, shared, expected, deadline_on(clock, timeout)?, mask, false)
    }

    fn futex_requeue(list: usize, flags: u32, wake: i32, requeue: i32) {
        if flags != 0 || list == 0 {
            return Err(Errno::EINVAL);
        }
        let [from, to] = read_waiters(list, 2)?[..] else { return Err(Errno::EINVAL) };
        if wake < 0 || requeue < 0 {
            return Err(Errno::EINVAL);
        }
        let shared = (from.shared, to.shared);
        futex::requeue(from.addr, to.addr, shared, wake as usize, requeue as usize, Some(from.expected))
    }
}

const WAIT: u32 = 0;
const WAKE: u32 = 1;
const REQUEUE: u32 = 3;
const CMP_REQUEUE: u32 = 4;
const WAKE_OP: u32 = 5;
const LOCK_PI: u32 = 6;
const UNLOCK_PI: u32 = 7;
const TRYLOCK_PI: u32 = 8;
const WAIT_BITSET: u32 = 9;
const WAIT_BITSET_REALTIME: u32 = WAIT_BITSET | FUTEX_CLOCK_REALTIME;
const WAKE_BITSET: u32 = 10;
const WAIT_REQUEUE_PI: u32 = 11;
const CMP_REQUEUE_PI: u32 = 12;
const LOCK_PI2: u32 = 13;

/// All commands of `futex` but [`WAKE`]. For some `timeout` is a number.
#[inline(never)]
fn command<T: TimeWord>(
    op: u32,
    addr: usize,
    value: u32,
    timeout: UserPtr<[T; 2]>,
    second: usize,
    third: u32,
) -> SysResult {
    let shared = op & FUTEX_PRIVATE == 0;
    let realtime = op & FUTEX_CLOCK_REALTIME != 0;
    let command = op & !(FUTEX_PRIVATE | FUTEX_CLOCK_REALTIME);
    if realtime && !matches!(command, WAIT_BITSET | WAIT_REQUEUE_PI | LOCK_PI2) {
        // A bad timeout is reported before other errors.
        if matches!(command, WAIT | LOCK_PI) {
            timeout.non_null().map(read_timespec).transpose()?;
        }
        return Err(Errno::ENOSYS);
    }
    let both = (shared, shared);
    // Numbers are C's `int`; Linux wakes one waiter even if asked for 0.
    let count = |n: u32| {
        if (n as i32) < 0 {
            Err(Errno::EINVAL)
        } else {
            Ok(n as usize)
        }
    };
    let other = timeout.number() as u32;
    match command {
        WAIT => {
            let deadline = timeout
                .non_null()
                .map(read_timespec)
                .transpose()?
                .map(|ns| Deadline::Monotonic(deadline_after(ns)));
            wait(addr, shared, value, deadline, MATCH_ANY, true)
        }
        WAIT_BITSET => wait(addr, shared, value, absolute(realtime, timeout)?, third, false),
        WAKE_BITSET => futex::wake_masked(addr, shared, wake_count(value), third),
        REQUEUE => futex::requeue(addr, second, both, count(value)?, count(other)?, None),
        CMP_REQUEUE => futex::requeue(addr, second, both, count(value)?, count(other)?, Some(third)),
        WAKE_OP => futex::wake_op(addr, second, shared, wake_count(value), wake_count(other), third),
        WAIT_REQUEUE_PI => {
            let deadline = absolute(realtime, timeout)?;
            futex::wait_requeue_pi(addr, second, shared, value, deadline, MATCH_ANY).map(|()| 0)
        }
        CMP_REQUEUE_PI => futex::cmp_requeue_pi(addr, second, shared, count(value)?, count(other)?, third),
        // Its timeout is a time of `CLOCK_REALTIME`, even without the flag.
        LOCK_PI => futex::lock_pi(addr, shared, absolute(true, timeout)?, false).map(|()| 0),
        LOCK_PI2 => futex::lock_pi(addr, shared, absolute(realtime, timeout)?, false).map(|()| 0),
        TRYLOCK_PI => futex::lock_pi(addr, shared, None, true).map(|()| 0),
        UNLOCK_PI => futex::unlock_pi(addr, shared).map(|()| 0),
        _ => Err(Errno::ENOSYS),
    }
}

/// Whether a word is shared, by the flags of the newer calls. `EINVAL`: it has not 32 bits.
fn shared_of(flags: u32) -> Result<bool, Errno> {
    const SIZE_U32: u32 = 2;
    const SIZES: u32 = 3;
    if flags & !(SIZES | FUTEX_PRIVATE) != 0 || flags & SIZES != SIZE_U32 {
        return Err(Errno::EINVAL);
    }
    Ok(flags & FUTEX_PRIVATE == 0)
}

/// A bit set. It must not have more bits than the word.
fn mask_of(mask: usize) -> Result<u32, Errno> {
    u32::try_from(mask).ok().filter(|&m| m != 0).ok_or(Errno::EINVAL)
}

/// The deadline of a newer call: an absolute time of `CLOCK_REALTIME` or `CLOCK_MONOTONIC`.
fn deadline_on(clock: i32, timeout: UserPtr<[i64; 2]>) -> Result<Option<Deadline>, Errno> {
    if timeout.is_null() {
        Ok(None)
    } else if clock == 0 || clock == 1 {
        absolute(clock == 0, timeout)
    } else {
        Err(Errno::EINVAL)
    }
}

/// An array of `struct futex_waitv`.
fn read_waiters(list: usize, count: usize) -> Result<Vec<WaitSpec>, Errno> {
    let mut specs = Vec::with_capacity(count);
    for n in 0..count {
        // Value, address, flags and a reserved word.
        let [value, addr, rest] = UserPtr::<[u64; 3]>::new(list.wrapping_add(n * 24)).read()?;
        let (flags, reserved) = split(rest);
        if reserved != 0 {
            return Err(Errno::EINVAL);
        }
        specs.push(WaitSpec {
            addr: addr as usize,
            expected: value as u32,
            shared: shared_of(flags)?,
        });
    }
    Ok(specs)
}

/// Splits 64 bits into the two 32-bit words that lie there one after the other.
fn split(word: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]))
}

/// As on Linux, 0 or a negative number wakes one waiter.
fn wake_count(n: u32) -> usize {
    (n as i32).max(1) as usize
}
