//! Futexes: sleeping on a word of user memory.
//!
//! Waiters queue in a hash table of buckets. The key is the address space and the address or, for a shared
//! mapping, the memory object and the place in it. A waiter's entry lies on its own stack. The word is read
//! under the bucket's lock, where a page fault must not sleep: if the page is not present, the waiter unlocks
//! the bucket, faults the page in and starts again.
//!
//! `pi` has the priority-inheriting locks, `owner` the lists of who waits for whose locks, `requeue` moves
//! waiters from one word to another, `robust` handles the locks of a dying thread.

mod owner;
mod pi;
mod requeue;
mod robust;
mod table;

pub use owner::{PiOwner, priority_changed, release_waiters};
pub use pi::{lock_pi, unlock_pi};
pub use requeue::{cmp_requeue_pi, requeue, wait_requeue_pi};
pub use robust::exit_robust_list;

use super::{TaskState, current, schedule};
use crate::mm::AddressSpace;
use crate::mm::user::{UserPtr, check};
use crate::sched::preempt;
use crate::sched::{Alarm, Deadline};
use alloc::boxed::Box;
use alloc::vec::Vec;
use limen_linux_abi::{Errno, SysResult};
use table::{Bucket, Entry, bucket_of, lock_two};

/// The bit set of plain waits and wakes (`FUTEX_BITSET_MATCH_ANY`).
pub const MATCH_ANY: u32 = u32::MAX;

/// Makes the table of waiters. At boot, once all CPUs are there.
pub fn init() {
    table::init();
}
/// The thread id in a lock word (`FUTEX_TID_MASK`).
const TID_MASK: u32 = 0x3fff_ffff;
/// The lock's owner died (`FUTEX_OWNER_DIED`).
const OWNER_DIED: u32 = 1 << 30;
/// A thread waits in the kernel (`FUTEX_WAITERS`).
const WAITERS: u32 = 1 << 31;

/// What identifies a futex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    object: usize,
    offset: u64,
}

/// What an operation does with the word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Reads it at most.
    Read,
    /// Changes it: the word must be writable.
    Write,
}

/// The key of the word at `addr` of the running program. For a private futex it is the address, mapped or
/// not. `EFAULT`: a shared word that is not mapped, or cannot be used as `use_` says. May sleep.
#[inline(always)]
fn key_of(addr: usize, shared: bool, use_: Use) -> Result<Key, Errno> {
    if addr & 3 != 0 {
        return Err(Errno::EINVAL);
    }
    check(addr, 4)?;
    let mm = crate::mm::current_space().ok_or(Errno::EFAULT)?;
    if shared {
        return shared_key(&mm, addr, use_);
    }
    Ok(Key {
        object: core::ptr::from_ref(&*mm).addr(),
        offset: addr as u64,
    })
}
#[inline(never)]
fn shared_key(mm: &AddressSpace, addr: usize, use_: Use) -> Result<Key, Errno> {
    let (object, offset) = mm.futex_key(addr, use_ == Use::Write)?;
    Ok(Key { object, offset })
}

/// Reads the word without sleeping. `None`: its page is not present now.
fn peek(addr: usize) -> Option<u32> {
    preempt::disable();
    // SAFETY: `key_of` checked the range. With preemption off a fault is not resolved but reported.
    let value = unsafe { crate::arch::uaccess::load_u32(addr) };
    preempt::enable_no_resched();
    value
}

/// Compare-and-exchange of the word without sleeping. `None`: its page is not present, or not writable, now.
fn exchange(addr: usize, old: u32, new: u32) -> Option<u32> {
    preempt::disable();
    // SAFETY: as in `peek`.
    let value = unsafe { crate::arch::uaccess::cmpxchg_u32(addr, old, new) };
    preempt::enable_no_resched();
    value
}

/// Faults the word's page in, for reading or for writing. Sleeps.
fn fault_in(addr: usize, write: bool) -> Result<(), Errno> {
    let word = UserPtr::<u32>::new(addr);
    let value = word.read()?;
    if write {
        // SAFETY: the range is below `USER_END` (`key_of`). Exchanging a value for itself changes nothing and
        // makes the page writable.
        unsafe { crate::arch::uaccess::cmpxchg_u32(addr, value, value) }.ok_or(Errno::EFAULT)?;
    }
    Ok(())
}

/// `FUTEX_WAIT[_BITSET]`: sleeps while the word at `addr` is `expected`, until a wake whose bit set meets
/// `mask`. Returns 0. `EAGAIN`: the word has another value. `ERESTARTSYS`: a signal came.
pub fn wait(addr: usize, shared: bool, expected: u32, mask: u32) -> SysResult {
    wait_with(addr, shared, expected, None, mask)
}

/// [`wait`] with a deadline. `ETIMEDOUT`: the deadline came first.
pub fn wait_until(addr: usize, shared: bool, expected: u32, deadline: Deadline, mask: u32) -> SysResult {
    let me = current();
    wait_with(addr, shared, expected, Some(&deadline.alarm(&me)), mask)
}

#[inline(always)]
fn wait_with(addr: usize, shared: bool, expected: u32, alarm: Option<&Alarm>, mask: u32) -> SysResult {
    if mask == 0 {
        return Err(Errno::EINVAL);
    }
    let me = current();
    loop {
        let key = key_of(addr, shared, Use::Read)?;
        let entry = Entry::new(&me, key, mask);
        match queue_if(bucket_of(&key), &entry, (addr, expected), true) {
            Ok(true) => {}
            Ok(false) => return Err(Errno::EAGAIN),
            Err(()) => {
                fault_in(addr, false)?;
                continue;
            }
        }
        if entry.is_queued() && !alarm.is_some_and(Alarm::is_over) {
            schedule();
        }
        me.sched.set_state_relaxed(TaskState::RUNNING);
        if !entry.unqueue() {
            return Ok(0);
        }
        if alarm.is_some_and(Alarm::is_over) {
            return Err(Errno::ETIMEDOUT);
        }
        if me.signal_pending() {
            return Err(Errno::ERESTARTSYS);
        }
    }
}

/// Queues `entry` if the word is `expected`; if `waits`, sets the thread's state to sleeping in the same
/// step. `Ok(false)`: the word has another value. `Err`: the word's page is not present.
fn queue_if(
    bucket: &'static Bucket,
    entry: &Entry,
    (addr, expected): (usize, u32),
    waits: bool,
) -> Result<bool, ()> {
    bucket.announce();
    let mut list = bucket.lock();
    let result = match peek(addr) {
        None => Err(()),
        Some(value) if value != expected => Ok(false),
        Some(_) => {
            if waits {
                current().sched.set_state(TaskState::INTERRUPTIBLE);
            }
            list.push(entry, bucket);
            Ok(true)
        }
    };
    drop(list);
    if result != Ok(true) {
        bucket.retract();
    }
    result
}

/// One futex of [`wait_many`].
#[derive(Clone, Copy, Debug)]
pub struct WaitSpec {
    /// Address of the word.
    pub addr: usize,
    /// What it must hold.
    pub expected: u32,
    /// Shared between address spaces.
    pub shared: bool,
}

/// `futex_waitv`: sleeps until a waker wakes one of `specs`, and returns its index.
pub fn wait_many(specs: &[WaitSpec], deadline: Option<Deadline>) -> SysResult {
    let me = current();
    let alarm = deadline.map(|deadline| deadline.alarm(&me));
    let is_over = || alarm.as_ref().is_some_and(Alarm::is_over);
    'again: loop {
        let mut entries: Vec<Box<Entry>> = Vec::with_capacity(specs.len());
        let mut failed = None;
        for spec in specs {
            let step = key_of(spec.addr, spec.shared, Use::Read).and_then(|key| {
                let entry = Box::new(Entry::new(&me, key, MATCH_ANY));
                match queue_if(bucket_of(&key), &entry, (spec.addr, spec.expected), false) {
                    Ok(true) => {
                        entries.push(entry);
                        Ok(true)
                    }
                    Ok(false) => Err(Errno::EAGAIN),
                    Err(()) => Ok(false),
                }
            });
            match step {
                Ok(true) => {}
                other => {
                    failed = Some((spec.addr, other));
                    break;
                }
            }
        }
        if failed.is_none() {
            // The thread becomes a sleeper only now that it is queued in all buckets, so a waker that finds
            // it asleep finds all entries. An earlier waker found it awake: either it has taken its entry out
            // already, or it still holds that bucket's lock, which `is_queued_now` takes, too.
            me.sched.set_state(TaskState::INTERRUPTIBLE);
            if entries.iter().all(|e| e.is_queued_now()) && !is_over() {
                schedule();
            }
        }
        me.sched.set_state(TaskState::RUNNING);
        let mut woken = None;
        for (i, entry) in entries.iter().enumerate() {
            if !entry.unqueue() {
                woken = Some(i);
            }
        }
        if let Some(i) = woken {
            return Ok(i);
        }
        match failed {
            Some((addr, Ok(_))) => match fault_in(addr, false) {
                Ok(()) => continue 'again,
                Err(e) => return Err(e),
            },
            Some((_, Err(e))) => return Err(e),
            None => {}
        }
        if is_over() {
            return Err(Errno::ETIMEDOUT);
        }
        if me.signal_pending() {
            return Err(Errno::ERESTARTSYS);
        }
    }
}

/// `FUTEX_WAKE[_BITSET]`: wakes up to `count` waiters whose bit sets meet `mask`, and returns how many it
/// woke.
pub fn wake_masked(addr: usize, shared: bool, count: usize, mask: u32) -> SysResult {
    if mask == 0 {
        return Err(Errno::EINVAL);
    }
    let key = key_of(addr, shared, Use::Read)?;
    let bucket = bucket_of(&key);
    if bucket.nobody() {
        return Ok(0);
    }
    bucket.lock().wake(&key, count, mask)
}

/// Wakes up to `count` waiters of the word at `addr`. For the kernel itself, at the end of a thread.
pub fn wake(addr: usize, count: usize, shared: bool) {
    let _ = wake_masked(addr, shared, count, MATCH_ANY);
}

/// `FUTEX_WAKE_OP`: changes the word at `second` as `op` says, wakes up to `wake` waiters of `first` and, if
/// the word's old value compares as `op` says, up to `wake_second` of `second`. `ENOSYS`: an unknown
/// operation, or an unknown comparison (then the word has been changed already, as on Linux).
pub fn wake_op(
    first: usize,
    second: usize,
    shared: bool,
    wake: usize,
    wake_second: usize,
    op: u32,
) -> SysResult {
    let compare = op >> 24 & 15;
    let argument = sign_extend_12(op >> 12);
    let compared = sign_extend_12(op);
    let operation = op >> 28 & 7;
    let argument = if op >> 31 != 0 {
        1i32.wrapping_shl(argument as u32 & 31)
    } else {
        argument
    };
    loop {
        let first_key = key_of(first, shared, Use::Read)?;
        let second_key = key_of(second, shared, Use::Write)?;
        if operation > 4 {
            return Err(Errno::ENOSYS);
        }
        let (mut a, mut b) = lock_two(bucket_of(&first_key), bucket_of(&second_key));
        let old = loop {
            let Some(old) = peek(second) else { break None };
            let new = match operation {
                0 => argument as u32,
                1 => old.wrapping_add(argument as u32),
                2 => old | argument as u32,
                3 => old & !(argument as u32),
                _ => old ^ argument as u32,
            };
            match exchange(second, old, new) {
                Some(found) if found == old => break Some(old as i32),
                Some(_) => {}
                None => break None,
            }
        };
        let Some(old) = old else {
            drop((a, b));
            fault_in(second, true)?;
            continue;
        };
        if compare > 5 {
            return Err(Errno::ENOSYS);
        }
        let mut woken = a.wake(&first_key, wake, MATCH_ANY)?;
        let meets = match compare {
            0 => old == compared,
            1 => old != compared,
            2 => old < compared,
            3 => old <= compared,
            4 => old > compared,
            _ => old >= compared,
        };
        if meets {
            let list = b.as_mut().unwrap_or(&mut a);
            woken += list.wake(&second_key, wake_second, MATCH_ANY)?;
        }
        return Ok(woken);
    }
}

const fn sign_extend_12(value: u32) -> i32 {
    ((value << 20) as i32) >> 20
}
