//! The kernel's `memcpy`, `memmove` and `memset`, which the compiler calls.

use super::copy::{Copy, Fill};
use limen_memory::{copy, copy_backwards};

/// # Safety
/// As the C library's; so are all of these.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: usize, from: usize, len: usize) -> usize {
    // SAFETY: as the caller promises.
    unsafe { copy(&Copy::<0>, to, from, len) };
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: usize, from: usize, len: usize) -> usize {
    // SAFETY: as the caller promises. Only if the target begins inside the source must the copy go backwards.
    unsafe {
        if to.wrapping_sub(from) >= len {
            return memcpy(to, from, len);
        }
        copy_backwards(&Copy::<0>, to, from, len);
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: usize, byte: u32, len: usize) -> usize {
    let word = u64::from(byte & 0xff) * (u64::MAX / 255);
    // SAFETY: as the caller promises.
    unsafe { copy(&Fill::<0>(word), to, to, len) };
    to
}
