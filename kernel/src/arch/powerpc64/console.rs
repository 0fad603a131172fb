//! The polled console used for the kernel log: the hypervisor's terminal.

use super::{devicetree, hcall};
use core::sync::atomic::{AtomicUsize, Ordering};

/// The terminal's number; all ones until there is one.
static TERMINAL: AtomicUsize = AtomicUsize::new(usize::MAX);
/// How often a full terminal is asked before bytes are given up.
const PATIENCE: usize = 10_000_000;

/// The terminals the machine has, the console first.
pub(super) fn terminals() -> impl Iterator<Item = devicetree::Node> {
    devicetree::compatible(&["hvterm1"])
}

/// Finds the console.
pub(super) fn init() {
    if let Some(number) = terminals().find_map(|node| devicetree::property(&node, "reg")) {
        TERMINAL.store(number as usize, Ordering::Release);
    }
}

/// Writes up to 16 bytes to terminal `number`; `false` if it is still full after so many attempts.
pub(super) fn put(number: usize, bytes: &[u8], patience: usize) -> bool {
    let mut words = [0u8; 16];
    let n = bytes.len().min(16);
    words[..n].copy_from_slice(&bytes[..n]);
    // The hypervisor takes the bytes from the most significant one down.
    let [first, second] = [0, 64].map(|less| (u128::from_be_bytes(words) << less >> 64) as usize);
    (0..patience).any(|_| hcall::call(hcall::PUT_TERM_CHAR, number, n, first, second).0 != hcall::BUSY)
}

/// Writes bytes to the terminal, waiting for room. May be called from any context, on any CPU.
pub fn write(bytes: &[u8]) {
    let number = TERMINAL.load(Ordering::Acquire);
    if number == usize::MAX {
        return;
    }
    for line in bytes.split_inclusive(|&b| b == b'\n') {
        let (text, end): (&[u8], &[u8]) = match line.strip_suffix(b"\n") {
            Some(text) => (text, b"\r\n"),
            None => (line, b""),
        };
        for piece in text.chunks(16).chain([end]).filter(|piece| !piece.is_empty()) {
            put(number, piece, PATIENCE);
        }
    }
}
