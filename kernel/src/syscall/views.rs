//! `prctl`'s part of views of the system call table (`docs/views.md`).

use super::SysResult;
use crate::arch::NATIVE_ABI;
use crate::mm::user::{read_bytes, write_bytes};
use crate::task::calls::{self, NUMBERS, View};
use crate::task::{TaskFlags, creds::cap, current};
use limen_linux_abi::Errno;

/// The kinds of views: a list of the program's own; what coprocessors have.
const LIST: usize = 0;
const SPU: usize = 1;
/// A call that is not in it is a signal.
const SIGNAL: usize = 1;
/// What the second call returns if there is a view; a second bit says that it has that flag.
const IS_SET: usize = 1;
const SIGNALS: usize = 2;

/// The list in the program's memory: bytes, the lowest bit of the first for number 0.
type Bytes = [u8; NUMBERS / 8];

/// The list at `at`, of `size` bytes; calls beyond its end are not in it. `EINVAL`: it is longer than a
/// table.
fn list(at: usize, size: usize) -> Result<[u64; NUMBERS / 64], Errno> {
    let mut bytes: Bytes = [0; NUMBERS / 8];
    read_bytes(bytes.get_mut(..size).ok_or(Errno::EINVAL)?, at)?;
    let (words, _) = bytes.as_chunks();
    Ok(core::array::from_fn(|n| u64::from_le_bytes(words[n])))
}

/// A view of a kind. `EINVAL`: there is none of that kind.
fn of_kind(kind: usize, at: usize, size: usize) -> Result<[u64; NUMBERS / 64], Errno> {
    let mut has = match kind {
        LIST => list(at, size)?,
        SPU if at == 0 && size == 0 => {
            let ranges = NATIVE_ABI.no_spu.ok_or(Errno::EINVAL)?;
            let is_in = |number| {
                !ranges
                    .iter()
                    .any(|&(first, last)| (first..=last).contains(&number))
            };
            let bits = |first| (0..64).fold(0, |word, n| word | u64::from(is_in(first + n)) << n);
            core::array::from_fn(|n| bits(n * 64))
        }
        _ => return Err(Errno::EINVAL),
    };
    // The kernel makes it, to go on with a call that was allowed.
    if let Some(n) = (0..NUMBERS).find(|n| (NATIVE_ABI.name_of)(*n) == Some("restart_syscall")) {
        has[n / 64] |= 1 << (n % 64);
    }
    Ok(has)
}

/// Narrows the running thread's view: kind, list and its size, flags. `EACCES`: it could keep a set-id
/// program from calls that this counts on.
pub(super) fn set([kind, at, size, flags]: [usize; 4]) -> SysResult {
    let task = current();
    if flags & !SIGNAL != 0 {
        return Err(Errno::EINVAL);
    }
    if !task.flags().contains(TaskFlags::NO_NEW_PRIVS) && !task.creds().capable_own(cap::SYS_ADMIN) {
        return Err(Errno::EACCES);
    }
    let has = of_kind(kind, at, size)?;
    let signals = flags & SIGNAL != 0;
    calls::narrow(&task, View { has, signals });
    Ok(0)
}

/// Writes as much of the running thread's list as `size` bytes take; returns whether it has one.
pub(super) fn get([at, size, ..]: [usize; 4]) -> SysResult {
    let Some(view) = calls::view(&current()) else {
        return Ok(0);
    };
    let mut bytes: Bytes = [0; NUMBERS / 8];
    for (to, word) in bytes.as_chunks_mut().0.iter_mut().zip(view.has) {
        *to = word.to_le_bytes();
    }
    write_bytes(at, &bytes[..size.min(bytes.len())])?;
    Ok(if view.signals { IS_SET | SIGNALS } else { IS_SET })
}
