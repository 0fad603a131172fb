//! Changing code at run time.

/// Bytes of a call: `call`, and how far the target is from its end.
pub const CALL: usize = 5;

/// Where a call goes.
///
/// # Safety
/// There is a `call` at `at`.
pub unsafe fn target(at: *const u8) -> usize {
    // SAFETY: the caller's promise.
    let distance = unsafe { at.add(1).cast::<i32>().read_unaligned() };
    (at as usize + CALL).wrapping_add_signed(distance as isize)
}

/// Makes the call at `at` one of `target`.
///
/// # Safety
/// There is a `call` at `at`, which can be written and nobody executes.
pub unsafe fn put_call(at: *mut u8, target: usize) {
    let distance = target.wrapping_sub(at as usize + CALL) as u32;
    // SAFETY: the caller's promise.
    unsafe { at.add(1).cast::<u32>().write_unaligned(distance) }
}

/// Text has been written that this CPU may execute next.
pub fn text_has_changed() {
    synchronize();
}

/// Forgets whatever this CPU has fetched ahead: what it executes next is what memory holds now
/// (`membarrier`'s `SYNC_CORE`).
pub fn synchronize() {
    // The only such instruction that every processor has and that may be executed at any time.
    core::hint::black_box(core::arch::x86_64::__cpuid(0));
}
