//! How many files are open, and how many may be (`/proc/sys/fs/file-max`).

use crate::arch::smp;
use crate::sync::MAX_CPUS;
use crate::task::creds::cap;
use core::sync::atomic::{AtomicI32, AtomicIsize, AtomicUsize, Ordering::Relaxed};
use limen_linux_abi::Errno;

/// How many files may be open without `CAP_SYS_ADMIN`.
pub static FILE_MAX: AtomicUsize = AtomicUsize::new(LEAST);

/// The value for the smallest machine.
const LEAST: usize = 8192;
/// How large a CPU's own part becomes before it is added to the total.
const BATCH: i32 = 32;

/// A CPU's own part of the count, in a cache line of its own.
#[repr(align(64))]
struct Part(AtomicI32);

static PARTS: [Part; MAX_CPUS] = [const { Part(AtomicI32::new(0)) }; MAX_CPUS];
static WHOLE: AtomicIsize = AtomicIsize::new(0);

/// Counts `n` more open files, or fewer.
#[inline]
pub fn add(n: i32) {
    // The thread may move to another CPU here; any CPU's part will do.
    let part = &PARTS[smp::cpu_id() % MAX_CPUS].0;
    let now = part.fetch_add(n, Relaxed).wrapping_add(n);
    if !(-BATCH..=BATCH).contains(&now) {
        hand_over(part, now);
    }
}

/// Adds a CPU's part that has become large to the total.
#[cold]
#[inline(never)]
fn hand_over(part: &AtomicI32, n: i32) {
    part.fetch_sub(n, Relaxed);
    WHOLE.fetch_add(n as isize, Relaxed);
}

/// How many files are open.
pub fn files() -> i64 {
    let parts: i64 = PARTS.iter().map(|part| i64::from(part.0.load(Relaxed))).sum();
    (WHOLE.load(Relaxed) as i64 + parts).max(0)
}

/// `ENFILE`: too many files are open.
#[inline]
pub fn may_open() -> Result<(), Errno> {
    // All parts together are at most this, positive or negative, and the total is below 0 by no more.
    const UNKNOWN: isize = (BATCH as usize * MAX_CPUS) as isize;
    if (WHOLE.load(Relaxed).wrapping_add(UNKNOWN) as usize) < FILE_MAX.load(Relaxed) {
        return Ok(());
    }
    look_closely()
}

#[cold]
#[inline(never)]
fn look_closely() -> Result<(), Errno> {
    let most = i64::try_from(FILE_MAX.load(Relaxed)).unwrap_or(i64::MAX);
    if files() < most || crate::task::current().creds().capable(cap::SYS_ADMIN) {
        Ok(())
    } else {
        Err(Errno::ENFILE)
    }
}

/// Sets the limit so that a tenth of the memory is enough, at a KiB for each file. Once, at boot.
pub fn init() {
    let kib = crate::mm::total_pages() * (crate::mm::PAGE_SIZE / 1024);
    FILE_MAX.store((kib / 10).max(LEAST), Relaxed);
}
