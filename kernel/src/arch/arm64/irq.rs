//! This CPU's interrupt flag.

/// The saved interrupt state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(usize);

impl Flags {
    /// Whether interrupts were on.
    pub fn enabled(self) -> bool {
        self.0 != 0
    }
}

/// Turns interrupts off.
#[inline(always)]
pub fn local_disable() {}

/// Turns interrupts on.
#[inline(always)]
pub fn local_enable() {}

/// Turns interrupts off and returns the state before.
#[inline(always)]
pub fn local_save() -> Flags {
    Flags(0)
}

/// Restores a saved state.
#[inline(always)]
pub fn local_restore(flags: Flags) {
    let _ = flags;
}

/// Whether interrupts are on.
#[inline(always)]
pub fn enabled() -> bool {
    false
}

/// Turns interrupts on and sleeps until one arrives, without a gap in between (idle). Returns with interrupts on.
pub fn enable_and_wait() {}

/// A hint inside a spinning loop.
#[inline(always)]
pub fn spin_hint() {
    core::hint::spin_loop()
}
