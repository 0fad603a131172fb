//! The polled console used for the kernel log: the PL011 that `/chosen/stdout-path` names.

use core::sync::atomic::{AtomicUsize, Ordering};

/// Address of the registers; zero until there is a console.
static BASE: AtomicUsize = AtomicUsize::new(0);

/// Data register.
const DR: usize = 0x00;
/// Flag register.
const FR: usize = 0x18;
/// `FR`: the transmit queue is full.
const FR_TXFF: u32 = 1 << 5;

/// The registers are mapped at `base`.
pub(super) fn init(base: usize) {
    BASE.store(base, Ordering::Release);
}

/// Writes bytes to the serial port, waiting for room. May be called from any context, on any CPU.
pub fn write(bytes: &[u8]) {
    let base = BASE.load(Ordering::Acquire);
    if base == 0 {
        return;
    }
    for &byte in bytes {
        if byte == b'\n' {
            put(base, b'\r');
        }
        put(base, byte);
    }
}

fn put(base: usize, byte: u8) {
    // SAFETY: `base` is the mapped register page of a PL011.
    unsafe {
        while ((base + FR) as *const u32).read_volatile() & FR_TXFF != 0 {
            core::hint::spin_loop();
        }
        ((base + DR) as *mut u32).write_volatile(u32::from(byte));
    }
}
