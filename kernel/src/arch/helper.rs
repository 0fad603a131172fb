//! Addresses of functions that the kernel lends to modules.

/// A function, as modules get it.
#[derive(Clone, Copy)]
pub struct Helper(pub *const ());

// SAFETY: the address of code, which anybody may have.
unsafe impl Sync for Helper {}
