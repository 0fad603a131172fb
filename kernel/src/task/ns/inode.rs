//! Numbers of namespaces in nsfs: the lowest that is free.

use crate::mm::numbers::Numbers;
use limen_linux_abi::Errno;

/// The first number (`PROC_DYNAMIC_FIRST`). It and the next are those of initial namespaces.
pub const FIRST: u32 = 0xf000_0000;
/// The first of the others.
const FIRST_MADE: u32 = FIRST + 2;

static NUMBERS: Numbers = Numbers::new(FIRST_MADE, (u32::MAX - FIRST_MADE) as usize);

/// Takes a number. `ENOMEM`; `ENOSPC`: all are used. May sleep.
pub fn take() -> Result<u32, Errno> {
    NUMBERS.take()?.ok_or(Errno::ENOSPC)
}

/// The number is free again.
pub fn give_back(inode: u32) {
    NUMBERS.give_back(inode);
}
