//! Memory in numbers, for `/proc/meminfo` and `sysinfo`.

use super::{cache, commit, frame, heap, stack, vmap};

/// All numbers are pages, except `kernel_stack_kib`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the fields are their names")]
pub struct MemStats {
    pub total: usize,
    pub free: usize,
    pub available: usize,
    pub cached: usize,
    pub slab: usize,
    pub kernel_stack_kib: usize,
    pub vmalloc_used: usize,
    pub committed: usize,
    pub commit_limit: usize,
}

/// The numbers now.
pub fn stats() -> MemStats {
    let free = frame::free_count();
    MemStats {
        total: frame::total(),
        free,
        available: free.saturating_sub(frame::reserve()),
        cached: cache::cached_pages(),
        slab: heap::slab_frames() + heap::large_frames(),
        kernel_stack_kib: stack::kib(),
        vmalloc_used: vmap::used_pages(),
        committed: commit::committed(),
        commit_limit: commit::limit(),
    }
}
