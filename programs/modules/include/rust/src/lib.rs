//! What modules of the kernel can call, for modules written in Rust: `limen.h` has the same for C, and says
//! more of each function.
//!
//! ```ignore
//! #![no_std]
//! limen::module!(name: "hello", license: "Dual MIT/GPL", init: start, exit: end);
//! fn start() -> Result<(), i32> { limen::info!("hello"); Ok(()) }
//! fn end() {}
//! ```

#![no_std]

mod alloc;
mod proc;
pub mod sys;
mod timer;
mod tracer;

pub use alloc::Pages;
pub use proc::{Proc, Text};
pub use timer::Timer;
pub use tracer::{Direct, Patched, Registers, Tracer, patch};

use core::fmt::{self, Write};

/// `EIO`, `ENOMEM`, `EFAULT`, `EINVAL`, as Linux has them.
pub const EIO: i32 = 5;
/// See [`EIO`].
pub const ENOMEM: i32 = 12;
/// See [`EIO`].
pub const EFAULT: i32 = 14;
/// See [`EIO`].
pub const EINVAL: i32 = 22;

/// What a module says of itself, and its two functions: `init` is `fn() -> Result<(), i32>` with a number of
/// an error, `exit` is `fn()`. Once per module.
#[macro_export]
macro_rules! module {
    (name: $name:literal, license: $license:literal, init: $init:path, exit: $exit:path $(,)?) => {
        $crate::modinfo!(NAME, "name", $name);
        $crate::modinfo!(LICENSE, "license", $license);
        $crate::modinfo!(ABI, "limen_abi", "1");

        #[unsafe(no_mangle)]
        #[unsafe(link_section = ".init.text")]
        extern "C" fn init_module() -> i32 {
            let init: fn() -> Result<(), i32> = $init;
            match init() {
                Ok(()) => 0,
                Err(errno) => -errno,
            }
        }

        #[unsafe(no_mangle)]
        extern "C" fn cleanup_module() {
            let exit: fn() = $exit;
            exit();
        }
    };
}

/// A line of `.modinfo`, in a constant of this name.
#[macro_export]
macro_rules! modinfo {
    ($constant:ident, $key:literal, $value:literal) => {
        const _: () = {
            #[used]
            #[unsafe(link_section = ".modinfo")]
            static $constant: [u8; concat!($key, "=", $value, "\0").len()] = {
                let text = concat!($key, "=", $value, "\0").as_bytes();
                let mut bytes = [0; concat!($key, "=", $value, "\0").len()];
                let mut n = 0;
                while n < bytes.len() {
                    bytes[n] = text[n];
                    n += 1;
                }
                bytes
            };
        };
    };
}

/// A parameter: an atomic static of this name; set by `name=value` when the module is loaded, and by its file
/// in `/sys/module/MODULE/parameters` with this mode (0: no file). The type is Linux's word for it.
#[macro_export]
macro_rules! param {
    (
        $(#[$doc:meta])*
        static $variable:ident: $type:ty = $value:expr, $name:literal, $word:literal, $mode:expr $(,)?
    ) => {
        $(#[$doc])*
        static $variable: $type = <$type>::new($value);
        $crate::modinfo!(PARAM, "parmtype", $name);
        const _: () = {
            #[used]
            #[unsafe(link_section = ".limen.params")]
            static ROW: $crate::sys::Param = $crate::sys::Param {
                name: concat!($word, "\0").as_ptr(),
                variable: (&raw const $variable).cast(),
                number: core::ptr::null(),
                elements: 1,
                mode: $mode,
            };
        };
    };
}

/// A line that is cut at 256 bytes.
struct Line {
    text: [u8; 256],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let room = &mut self.text[self.len..];
        let len = s.len().min(room.len());
        room[..len].copy_from_slice(&s.as_bytes()[..len]);
        self.len += len;
        Ok(())
    }
}

/// A line of the log, of one of syslog's levels. In any context.
pub fn log(level: i32, text: fmt::Arguments<'_>) {
    let mut line = Line {
        text: [0; 256],
        len: 0,
    };
    let _ = line.write_fmt(text);
    // SAFETY: the text has this length.
    unsafe { sys::limen_log_text(level, line.text.as_ptr(), line.len) };
}

/// A line of the log: an error.
#[macro_export]
macro_rules! error {
    ($($text:tt)*) => { $crate::log(3, format_args!($($text)*)) };
}
/// A warning.
#[macro_export]
macro_rules! warning {
    ($($text:tt)*) => { $crate::log(4, format_args!($($text)*)) };
}
/// Information.
#[macro_export]
macro_rules! info {
    ($($text:tt)*) => { $crate::log(6, format_args!($($text)*)) };
}

/// Nanoseconds of `CLOCK_MONOTONIC`. In any context.
pub fn now_ns() -> u64 {
    // SAFETY: asks for a number.
    unsafe { sys::limen_now_ns() }
}

/// Sleeps. `false`: a signal came.
pub fn sleep_ms(ms: u32) -> bool {
    // SAFETY: the caller is a thread, and may sleep.
    unsafe { sys::limen_sleep_ms(ms) == 0 }
}

/// A fault in a module is the kernel's: it panics, and names the function.
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    error!("{info}");
    // SAFETY: an instruction that there is not.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        core::arch::asm!("ud2", options(noreturn));
        #[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
        core::arch::asm!("udf #0", options(noreturn));
        #[cfg(target_arch = "powerpc64")]
        core::arch::asm!("trap", options(noreturn));
    }
}
