//! Static keys: switches that cost one instruction where they are asked while they are off, one that does
//! nothing. Whoever turns one on has that instruction become a jump, wherever it is (`arch/jump_table.rs`),
//! while all CPUs run. Code asks with `jump_label::is_on::<KEY>()`, in any context; trace points do it for
//! their events.

use crate::arch::jump_label::{PHASES, SIZE, store};
use crate::arch::jump_table::{self, Jump};
use crate::mm::reserve::room_exact;
use crate::mm::text::{Writable, exchange};
use crate::sched::crossings;
use crate::sync::Mutex;
use alloc::vec::Vec;
use limen_linux_abi::Errno;
use limen_trace_events::events;

pub use crate::arch::jump_table::is_on;

pub mod selftest;

/// Keys by number: first that of each event in [`events::ALL`], at its place there, then the one of the
/// threshold's counters, and that of audit.
const KEYS: usize = events::ALL.len() + 3;
/// The one of places that note details of audited calls.
pub const AUDIT: u32 = crossings::KEY + 1;
/// The self-test's.
const TEST: u32 = KEYS as u32 - 1;
const _: () = assert!(AUDIT + 1 == TEST);

/// Which are on. Whoever changes a key's places holds it.
static ON: Mutex<[bool; KEYS]> = Mutex::new([false; KEYS]);

/// Turns a key on. When it returns, all CPUs find it so. Nothing is done if it is on. Thread, interrupts on,
/// no spinlock held; may sleep. `ENOMEM`: it is as it was.
pub fn enable(key: usize) -> Result<(), Errno> {
    turn(key, true)
}

/// Turns a key off, in the same way. Without memory it stays on: whoever it leads to must find out that there
/// is nothing to be done.
pub fn disable(key: usize) {
    let _ = turn(key, false);
}

/// Whether a key is on. May sleep.
pub fn is_turned_on(key: usize) -> bool {
    ON.lock().get(key) == Some(&true)
}

fn turn(key: usize, on: bool) -> Result<(), Errno> {
    let mut keys = ON.lock();
    let state = keys.get_mut(key).ok_or(Errno::EINVAL)?;
    if *state == on {
        return Ok(());
    }
    let of_key = || jump_table::all().filter(|jump| jump.key as usize == key);
    let mut jumps: Vec<Jump> = Vec::new();
    room_exact(&mut jumps, of_key().count())?;
    jumps.extend(of_key());
    if let (Some(first), Some(last)) = (jumps.first(), jumps.last()) {
        let text = Writable::new(first.site..last.site + SIZE)?;
        exchange(
            PHASES,
            &jumps,
            |jump| (&text, jump.site),
            // SAFETY: all CPUs synchronise between phases, and with the lock nobody else changes them.
            |jump, phase| unsafe { store(&text, jump, on, phase) },
        );
    }
    *state = on;
    Ok(())
}
