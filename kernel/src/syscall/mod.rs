//! System calls: one table per ABI, and thin functions that parse arguments and call the room that does the work. Each room's
//! calls are in a file of this folder that ends in a `HANDLERS` list of `(name, handler)`.

use crate::arch::frame::Frame;
use crate::mm::user::UserPtr;
use limen_linux_abi::Errno;

mod dir;
mod event;
mod fcntl;
mod file;
pub mod futex;
mod ids;
pub mod misc;
mod mm;
mod mount;
mod pipe;
mod poll;
pub mod sched;
pub mod signal;
mod socket;
mod stat;
mod table;
mod task;
pub mod time;

pub use table::init;

/// What a system call returns.
pub type SysResult = Result<usize, Errno>;

/// A system call's handler, as the tables have it: returns what goes into the result register.
pub type Handler = fn(&mut Frame) -> usize;

/// One system call under way: the full register frame.
pub struct Call<'a> {
    /// The caller's registers; fork, signal return and exec change them.
    pub frame: &'a mut Frame,
}

impl Call<'_> {
    /// Argument `n` (0 to 5), as a register.
    #[inline(always)]
    pub fn arg(&self, n: usize) -> usize {
        self.frame.arg(n)
    }
}

/// How an argument register becomes a typed value.
pub trait FromArg {
    /// Converts; narrow integers are truncated as in C.
    fn from_arg(raw: usize) -> Self;
}

macro_rules! from_arg {
    ($($t:ty)*) => { $(impl FromArg for $t {
        #[inline(always)]
        fn from_arg(raw: usize) -> Self { raw as $t }
    })* };
}
from_arg!(u8 u16 u32 u64 usize i32 i64 isize);

impl<T> FromArg for UserPtr<T> {
    #[inline(always)]
    fn from_arg(raw: usize) -> Self {
        UserPtr::new(raw)
    }
}

/// Declares system calls and the room's `HANDLERS` list:
///
/// ```ignore
/// syscalls! {
///     fn close(fd: i32) { fs::close(fd) }
///     fn fork(call: &mut Call) { task::fork(call.frame) }
/// }
/// ```
#[macro_export]
macro_rules! syscalls {
    ($($(#[$meta:meta])* fn $name:ident($($args:tt)*) $body:block)*) => {
        $($crate::syscall_fn!($(#[$meta])* $name, ($($args)*), $body);)*
        /// This file's system calls, by name.
        pub const HANDLERS: &[(&str, $crate::syscall::Handler)] = &[$((stringify!($name), $name as $crate::syscall::Handler)),*];
    };
}

/// One function of [`syscalls!`].
#[macro_export]
macro_rules! syscall_fn {
    ($(#[$meta:meta])* $name:ident, ($call:ident: &mut Call $(, $arg:ident: $t:ty)* $(,)?), $body:block) => {
        $(#[$meta])*
        fn $name(frame: &mut $crate::arch::frame::Frame) -> usize {
            $crate::syscall::handle(frame, #[inline(always)] |$call| {
                let mut _n = 0;
                $(let $arg = <$t as $crate::syscall::FromArg>::from_arg($call.arg(_n)); _n += 1;)*
                $body
            })
        }
    };
    ($(#[$meta:meta])* $name:ident, ($($arg:ident: $t:ty),* $(,)?), $body:block) => {
        $(#[$meta])*
        fn $name(frame: &mut $crate::arch::frame::Frame) -> usize {
            $crate::syscall::handle(frame, #[inline(always)] |_call| {
                let mut _n = 0;
                $(let $arg = <$t as $crate::syscall::FromArg>::from_arg(_call.arg(_n)); _n += 1;)*
                $body
            })
        }
    };
}

/// Calls a handler's body and turns what it returns into the result register's value.
#[inline(always)]
pub fn handle(frame: &mut Frame, body: impl FnOnce(&mut Call<'_>) -> SysResult) -> usize {
    match body(&mut Call { frame }) {
        Ok(value) => value,
        Err(errno) => errno.to_return_value(),
    }
}

/// Runs system call `number` and puts its result into the frame.
#[inline(always)]
pub fn dispatch(frame: &mut Frame, number: usize) {
    let result = match table::NATIVE.get(number) {
        Some(handler) => handler(frame),
        None => table::unknown(frame),
    };
    frame.set_raw_result(result);
}
