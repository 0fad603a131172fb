//! Text of modules in the trace (`tracing::printk`).

use crate::tracing::printk;

/// `void limen_trace_text(unsigned long ip, const char *text, size_t length)`. In any context but idle.
pub unsafe extern "C" fn text(ip: usize, text: *const u8, length: usize) {
    // SAFETY: the module's promise.
    printk::print(ip, unsafe { core::slice::from_raw_parts(text, length) });
}

/// `void limen_trace_string(unsigned long ip, const char *text)`: the text is one that the kernel keeps. In
/// any context but idle.
pub extern "C" fn string(ip: usize, text: usize) {
    printk::puts(ip, text);
}

/// `void limen_trace_binary(unsigned long ip, const char *format, const void *arguments, size_t length)`: the
/// format is one that the kernel keeps. In any context but idle.
pub unsafe extern "C" fn binary(ip: usize, format: usize, arguments: *const u8, length: usize) {
    // SAFETY: the module's promise.
    let arguments = unsafe { core::slice::from_raw_parts(arguments, length) };
    printk::binary(ip, format, arguments);
}
