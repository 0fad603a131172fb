//! Limits of memory: the running process's resource limits (in bytes), `vm.max_map_count` and
//! `vm.mmap_min_addr`.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use limen_linux_abi::raw::general::{RLIMIT_AS, RLIMIT_DATA, RLIMIT_MEMLOCK, RLIMIT_STACK};

/// `vm.max_map_count`. Lowering it does not remove mappings.
pub static MAX_MAP_COUNT: AtomicUsize = AtomicUsize::new(65530);

/// How many mappings an address space may have (`vm.max_map_count`).
#[inline(always)]
pub fn max_map_count() -> usize {
    MAX_MAP_COUNT.load(Relaxed)
}

/// `vm.mmap_min_addr`. Where words have 32 bits, programs may begin at 0x8000.
pub static MMAP_MIN_ADDR: AtomicUsize = AtomicUsize::new(if usize::BITS == 32 { 4096 } else { 65536 });

/// The lowest address that programs may map without privilege (`vm.mmap_min_addr`). Raising it does not
/// remove mappings.
#[inline(always)]
pub fn mmap_min_addr() -> usize {
    MMAP_MIN_ADDR.load(Relaxed)
}

fn soft(n: u32) -> u64 {
    crate::sched::current().process.limits.soft(n as usize)
}

/// `RLIMIT_STACK`.
pub(super) fn stack() -> u64 {
    soft(RLIMIT_STACK)
}
/// `RLIMIT_AS`.
pub(super) fn address_space() -> u64 {
    soft(RLIMIT_AS)
}
/// `RLIMIT_DATA`.
pub(super) fn data() -> u64 {
    soft(RLIMIT_DATA)
}
/// `RLIMIT_MEMLOCK` of the running process, in bytes.
pub fn memlock() -> u64 {
    soft(RLIMIT_MEMLOCK)
}
