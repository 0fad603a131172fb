//! The polled console used for the kernel log: the first serial port (COM1), a 16550.

use super::cpu::{inb, outb};
use core::sync::atomic::{AtomicBool, Ordering};

const COM1: u16 = 0x3f8;
const LINE_STATUS: u16 = COM1 + 5;
const TRANSMIT_EMPTY: u8 = 1 << 5;
/// The register that keeps what is written to it.
const SCRATCH: u16 = COM1 + 7;
const PATTERN: u8 = 0xa5;

static PRESENT: AtomicBool = AtomicBool::new(false);

/// Looks for the port and sets it to 115200 8N1, FIFOs on, no interrupts.
pub fn init() {
    // SAFETY: these ports belong to the serial port, or to nothing.
    unsafe {
        outb(SCRATCH, PATTERN);
        if inb(SCRATCH) != PATTERN {
            return;
        }
        outb(COM1 + 1, 0); // no interrupts
        outb(COM1 + 3, 0x80); // divisor
        outb(COM1, 1);
        outb(COM1 + 1, 0);
        outb(COM1 + 3, 3); // 8N1
        outb(COM1 + 2, 0x07); // FIFOs on and clear
        outb(COM1 + 4, 0x0b); // DTR, RTS, OUT2
    }
    PRESENT.store(true, Ordering::Relaxed);
}

fn put(byte: u8) {
    // SAFETY: the port is a serial port; the wait is bounded so that a broken one cannot hang the kernel.
    unsafe {
        for _ in 0..100_000 {
            if inb(LINE_STATUS) & TRANSMIT_EMPTY != 0 {
                break;
            }
        }
        outb(COM1, byte);
    }
}

/// Writes bytes to the serial port, waiting for room. May be called from any context, on any CPU.
pub fn write(bytes: &[u8]) {
    if !PRESENT.load(Ordering::Relaxed) {
        return;
    }
    for &b in bytes {
        if b == b'\n' {
            put(b'\r');
        }
        put(b);
    }
}
