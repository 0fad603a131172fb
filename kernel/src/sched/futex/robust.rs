//! Robust futexes: the locks that a dying thread owns are marked, and their next waiters woken.

use super::{OWNER_DIED, TID_MASK, WAITERS, exchange, fault_in, peek, wake};
use crate::mm::user::{UserPtr, Word, check};
use crate::sched::current;
use limen_linux_abi::Errno;

/// How many entries are followed at most (Linux: `ROBUST_LIST_LIMIT`): the program may have made a circle.
const LIMIT: usize = 2048;

/// Walks the list whose head (`struct robust_list_head`) is at `head`, and marks each lock that the running
/// thread owns as orphaned. An address that cannot be read ends the walk.
pub fn exit_robust_list<W: Word>(head: usize) {
    // Nobody is there to be told of a bad address: the thread is ending.
    let _ = walk::<W>(head);
}

fn walk<W: Word>(head: usize) -> Result<(), Errno> {
    let word = size_of::<W>();
    let read = |addr: usize| UserPtr::<W>::new(addr).read().map(W::get);
    let offset = read(head.wrapping_add(word))?;
    let pending = read(head.wrapping_add(2 * word))?;
    // The sum is cut, too.
    let at = |entry: usize| W::put((entry & !1).wrapping_add(offset)).get();
    let mut entry = read(head)?;
    for _ in 0..LIMIT {
        if entry & !1 == head {
            break;
        }
        // The next entry is read first: a woken thread may free this one at once.
        let next = read(entry & !1);
        if entry & !1 != pending & !1 {
            orphan(at(entry), entry & 1 != 0, false)?;
        }
        entry = next?;
    }
    if pending != 0 {
        orphan(at(pending), pending & 1 != 0, true)?;
    }
    Ok(())
}

/// Marks the lock word at `addr` if the running thread owns it. Waiters for robust locks use the shared key,
/// so only that is woken.
fn orphan(addr: usize, pi: bool, pending: bool) -> Result<(), Errno> {
    if addr & 3 != 0 {
        return Err(Errno::EINVAL);
    }
    check(addr, 4)?;
    let tid = current().own_tid() as u32;
    loop {
        let Some(word) = peek(addr) else {
            fault_in(addr, true)?;
            continue;
        };
        if pending && !pi && word == 0 {
            // The thread died after it had unlocked the word and before it woke a waiter.
            wake(addr, 1, true);
            return Ok(());
        }
        if word & TID_MASK != tid {
            return Ok(());
        }
        match exchange(addr, word, word & WAITERS | OWNER_DIED) {
            None => fault_in(addr, true)?,
            Some(found) if found == word => {
                // `release_waiters` wakes the waiters of a priority-inheriting lock, together with those of
                // the thread's other such locks.
                if !pi && word & WAITERS != 0 {
                    wake(addr, 1, true);
                }
                return Ok(());
            }
            Some(_) => {}
        }
    }
}
