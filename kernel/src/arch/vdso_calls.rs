//! The vDSO's functions, the same for every processor: each architecture's `vdso` exports them and owes the
//! four hooks imported below. They run in user mode, from a copy, so everything they use is inlined.

use super::imp::vdso::{CLOCK_GETRES, CLOCK_GETTIME, GETTIMEOFDAY, counter, own_start, syscall2};
use crate::mm::PAGE_SIZE;
use limen_vdso::{ClockData, clock};

unsafe extern "C" {
    static __vdso_text_start: u8;
    static __vdso_text_end: u8;
}

/// The code to copy.
pub fn text() -> &'static [u8] {
    let (start, end) = (&raw const __vdso_text_start, &raw const __vdso_text_end);
    // SAFETY: the linker script defines both around the section, which is mapped and never changes.
    unsafe { core::slice::from_raw_parts(start, end as usize - start as usize) }
}

/// The data of this copy: the machine's or, in a time namespace, that namespace's.
#[inline(always)]
fn data() -> &'static ClockData {
    // SAFETY: exec maps the data page two pages below the code; it is readable and only accessed atomically.
    unsafe { &*((own_start() - 2 * PAGE_SIZE) as *const ClockData) }
}

/// The machine's data, of a copy in a time namespace.
#[inline(always)]
fn machines() -> &'static ClockData {
    // SAFETY: exec maps it below the other page; it is readable and only accessed atomically.
    unsafe { &*((own_start() - 3 * PAGE_SIZE) as *const ClockData) }
}

/// The present time of a clock as seconds and nanoseconds. `None`: the kernel must be asked, or
/// [`gettime_in_namespace`].
#[inline(always)]
pub(super) fn gettime(id: u32) -> Option<(u64, u64)> {
    clock::gettime(data(), counter, id)
}

/// Whether the program is in a time namespace.
#[inline(always)]
pub(super) fn is_in_namespace() -> bool {
    data().is_namespace()
}

/// The same there. For functions of their own, so that the usual ones stay as short as they are.
#[inline(always)]
pub(super) fn gettime_in_namespace(id: u32) -> Option<(u64, u64)> {
    clock::gettime_in(data(), machines(), counter, id)
}

/// `clock_gettime`, with seconds and nanoseconds as words.
#[unsafe(link_section = ".vdso.text")]
pub extern "C" fn vdso_clock_gettime(id: u32, ts: *mut usize) -> isize {
    match gettime(id) {
        Some((seconds, nanoseconds)) => {
            // SAFETY: the caller's pointer; a wild one is the caller's fault, in user mode.
            unsafe {
                ts.write(seconds as usize);
                ts.wrapping_add(1).write(nanoseconds as usize);
            }
            0
        }
        None if is_in_namespace() => clock_gettime_in_namespace(id, ts),
        None => syscall2(CLOCK_GETTIME, id as usize, ts as usize),
    }
}

/// [`vdso_clock_gettime`] in a time namespace.
#[unsafe(link_section = ".vdso.text")]
#[inline(never)]
extern "C" fn clock_gettime_in_namespace(id: u32, ts: *mut usize) -> isize {
    match gettime_in_namespace(id) {
        Some((seconds, nanoseconds)) => {
            // SAFETY: the caller's pointer; a wild one is the caller's fault, in user mode.
            unsafe {
                ts.write(seconds as usize);
                ts.wrapping_add(1).write(nanoseconds as usize);
            }
            0
        }
        None => syscall2(CLOCK_GETTIME, id as usize, ts as usize),
    }
}

/// `clock_getres`.
#[unsafe(link_section = ".vdso.text")]
pub extern "C" fn vdso_clock_getres(id: u32, ts: *mut usize) -> isize {
    match clock::getres(data(), id) {
        Some(nanoseconds) => {
            if !ts.is_null() {
                // SAFETY: the caller's pointer: a wild one is the caller's fault, in user
                // mode.
                unsafe {
                    ts.write(0);
                    ts.wrapping_add(1).write(nanoseconds as usize);
                }
            }
            0
        }
        None => syscall2(CLOCK_GETRES, id as usize, ts as usize),
    }
}

/// `gettimeofday`.
#[unsafe(link_section = ".vdso.text")]
pub extern "C" fn vdso_gettimeofday(tv: *mut usize, tz: *mut [i32; 2]) -> isize {
    let Some((seconds, nanoseconds)) = gettime(0) else {
        return syscall2(GETTIMEOFDAY, tv as usize, tz as usize);
    };
    // SAFETY: the caller's pointers: a wild one is the caller's fault, in user mode.
    unsafe {
        if !tv.is_null() {
            tv.write(seconds as usize);
            tv.wrapping_add(1).write((nanoseconds as u32 / 1000) as usize);
        }
        if !tz.is_null() {
            tz.write_unaligned(data().zone());
        }
    }
    0
}
