//! Timers.

use crate::{ENOMEM, sys};

/// A timer that expires once. Dropping it waits until its function does not run.
pub struct Timer(*mut sys::Opaque);

// SAFETY: the kernel's functions may be called in any thread and, but for deleting, in interrupts.
unsafe impl Send for Timer {}
// SAFETY: as above.
unsafe impl Sync for Timer {}

impl Timer {
    /// `expired` runs in an interrupt. `ENOMEM`.
    pub fn create(expired: fn()) -> Result<Self, i32> {
        extern "C" fn call(data: *mut u8) {
            // SAFETY: `create` gave a function of this type.
            let expired = unsafe { core::mem::transmute::<*mut u8, fn()>(data) };
            expired();
        }
        // SAFETY: the function stays as long as the module.
        let timer = unsafe { sys::limen_timer_create(call, expired as *mut u8) };
        if timer.is_null() {
            Err(ENOMEM)
        } else {
            Ok(Self(timer))
        }
    }
    /// It expires in `ns` nanoseconds. In any context, also in its function.
    pub fn start(&self, ns: u64) {
        // SAFETY: it is this handle's.
        unsafe { sys::limen_timer_start(self.0, ns) };
    }
    /// Whether it was to expire; it is not any more, and its function does not run.
    pub fn cancel(&self) -> bool {
        // SAFETY: as above.
        unsafe { sys::limen_timer_cancel(self.0) != 0 }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { sys::limen_timer_delete(self.0) };
    }
}
