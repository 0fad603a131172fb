//! Changing code at run time.

/// Forgets whatever this CPU has fetched ahead: what it executes next is what memory holds now
/// (`membarrier`'s `SYNC_CORE`).
pub fn synchronize() {
    // The only such instruction that every processor has and that may be executed at any time.
    core::hint::black_box(core::arch::x86_64::__cpuid(0));
}
