//! Changing code at run time.

/// Bytes of a call.
pub const CALL: usize = 4;
/// The bits of `bl` that hold its distance, in words.
const DISTANCE: u32 = (1 << 24) - 1;

/// Where a call goes.
///
/// # Safety
/// There is a `bl` at `at`.
pub unsafe fn target(at: *const u8) -> usize {
    // SAFETY: the caller's promise.
    let distance = unsafe { at.cast::<u32>().read() } & DISTANCE;
    let signed = (distance << 8) as i32 >> 8;
    (at as usize + 8).wrapping_add_signed(4 * signed as isize)
}

/// Makes the call at `at` one of `target`.
///
/// # Safety
/// There is a `bl` at `at`, which can be written and nobody executes.
pub unsafe fn put_call(at: *mut u8, target: usize) {
    let at = at.cast::<u32>();
    let distance = target.wrapping_sub(at as usize + 8) as u32 >> 2;
    // SAFETY: the caller's promise; then its cache line is written back.
    unsafe {
        at.write_volatile(at.read() & !DISTANCE | distance & DISTANCE);
        super::sysreg::write!(DCCMVAU, at as u32);
    }
}

/// Text has been written that this CPU may execute next.
pub fn text_has_changed() {
    super::mmu::drop_instructions();
}

/// Forgets whatever this CPU has fetched ahead: what it executes next is what memory holds now
/// (`membarrier`'s `SYNC_CORE`).
pub fn synchronize() {
    super::sysreg::isb();
}
