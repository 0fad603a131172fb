//! Numbers of namespaces in nsfs: the lowest that is free.

use crate::mm::reserve;
use crate::sync::SpinLock;
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// The first number (`PROC_DYNAMIC_FIRST`). It and the next are those of initial namespaces.
pub const FIRST: u32 = 0xf000_0000;
/// How many numbers there may be.
const MOST: usize = (u32::MAX - FIRST) as usize;

/// A bit for each number that is used, and a word below which none is free.
struct Used {
    bits: Vec<u64>,
    full: usize,
}

static USED: SpinLock<Used> = SpinLock::new(Used {
    bits: Vec::new(),
    full: 0,
});

/// Takes a number. `ENOMEM`; `ENOSPC`: all are used. May sleep.
pub fn take() -> Result<u32, Errno> {
    let mut used = reserve::room_behind(|| USED.lock(), |used: &mut Used| &mut used.bits, 1)?;
    let from = used.full;
    let free = used.bits.iter().skip(from).position(|&word| word != u64::MAX);
    let word = free.map_or(used.bits.len(), |n| from + n);
    if word * 64 >= MOST {
        return Err(Errno::ENOSPC);
    }
    if word == used.bits.len() {
        // The first two are used from the beginning.
        used.bits.push(if word == 0 { 3 } else { 0 });
    }
    used.full = word;
    let bit = used.bits[word].trailing_ones();
    used.bits[word] |= 1 << bit;
    Ok(FIRST + word as u32 * 64 + bit)
}

/// The number is free again.
pub fn give_back(inode: u32) {
    let n = (inode - FIRST) as usize;
    let mut used = USED.lock();
    used.bits[n / 64] &= !(1 << (n % 64));
    used.full = used.full.min(n / 64);
}
