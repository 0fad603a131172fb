//! Robust futexes: the locks a dying thread holds are marked and their next waiter woken.

use super::{OWNER_DIED, TID_MASK, WAITERS, exchange, fault_in, key_of, peek, wake};
use crate::mm::user::UserPtr;
use crate::sched::current;
use limen_linux_abi::Errno;

/// The longest list that is walked (user space may have made a circle).
const LIMIT: usize = 2048;

/// Walks the list whose head (`struct robust_list_head`) is at `head` and marks each lock the running thread owns as orphaned. Bad pointers
/// end the walk.
pub fn exit_robust_list(head: usize) {
    // Bad memory is the program's own affair, and it is dying.
    let _ = walk(head);
}

fn walk(head: usize) -> Result<(), Errno> {
    const WORD: usize = size_of::<usize>();
    let read = |addr: usize| UserPtr::<usize>::new(addr).read();
    let offset = read(head.wrapping_add(WORD))?;
    let pending = read(head.wrapping_add(2 * WORD))?;
    let mut entry = read(head)?;
    for _ in 0..LIMIT {
        if entry & !1 == head {
            break;
        }
        // The next one first: once woken, another thread may free this one.
        let next = read(entry & !1);
        if entry & !1 != pending & !1 {
            orphan((entry & !1).wrapping_add(offset), entry & 1 != 0, false)?;
        }
        entry = next?;
    }
    if pending != 0 {
        orphan((pending & !1).wrapping_add(offset), pending & 1 != 0, true)?;
    }
    Ok(())
}

/// Marks the lock word at `addr` if the running thread owns it.
fn orphan(addr: usize, pi: bool, pending: bool) -> Result<(), Errno> {
    key_of(addr, true)?;
    let tid = current().tid() as u32;
    loop {
        let Some(word) = peek(addr) else {
            fault_in(addr, true)?;
            continue;
        };
        if pending && !pi && word == 0 {
            // Died between unlocking and waking.
            wake_all_keys(addr);
            return Ok(());
        }
        if word & TID_MASK != tid {
            return Ok(());
        }
        match exchange(addr, word, word & WAITERS | OWNER_DIED) {
            None => fault_in(addr, true)?,
            Some(found) if found == word => {
                // The waiters of a priority-inheriting one are let go with the rest of the thread's (`release_waiters`).
                if !pi && word & WAITERS != 0 {
                    wake_all_keys(addr);
                }
                return Ok(());
            }
            Some(_) => {}
        }
    }
}

/// One waiter of the word, whether it waits privately or shared.
fn wake_all_keys(addr: usize) {
    wake(addr, 1, true);
    wake(addr, 1, false);
}
