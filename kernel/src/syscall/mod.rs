//! System calls: a table per ABI, and short functions that read the arguments and call the room which does
//! the work. The calls of each room are in a file here, which ends in a list `HANDLERS` of `(name, handler)`.

#![forbid(unsafe_code)]

use crate::arch::frame::Frame;
use crate::arch::index;
use crate::mm::user::UserPtr;
use limen_linux_abi::{Errno, SysResult};

pub mod compat;
mod dir;
mod event;
mod fcntl;
mod file;
pub mod futex;
mod id;
mod ids;
mod ipc;
mod message;
pub mod misc;
mod mm;
mod module;
mod mount;
mod mqueue;
mod netlink;
mod old;
mod old_abi;
mod open;
mod pipe;
mod poll;
mod rseq;
pub mod sched;
mod seccomp;
pub mod signal;
mod socket;
mod sockopt;
mod stat;
mod table;
mod task;
pub mod time;
mod views;
mod xattr;

pub use crate::arch::Handler;
pub use table::init;

/// A system call that is running, with all its registers.
pub struct Call<'a> {
    /// The caller's registers. fork, signal return and exec change them.
    pub frame: &'a mut Frame,
}

/// How registers become an argument of a type.
pub trait FromArgs {
    /// The type of the argument in the call's body.
    type Value;
    /// Takes the value from register argument `*next` on, and moves `*next` behind it. Narrow integers are
    /// truncated as in C.
    fn take(frame: &Frame, next: &mut usize) -> Self::Value;
}

macro_rules! from_args {
    ($($t:ty)*) => { $(impl FromArgs for $t {
        type Value = Self;
        #[inline(always)]
        fn take(frame: &Frame, next: &mut usize) -> Self {
            let raw = frame.arg(*next);
            *next += 1;
            raw as $t
        }
    })* };
}
from_args!(u8 u16 u32 usize i32 isize);

/// A file offset or size: 64 bits in every ABI. Where a register has 32 bits it is passed in two, the lower
/// half first; the first of them has an even number, so an odd register before it is skipped.
impl FromArgs for u64 {
    type Value = Self;
    #[inline(always)]
    fn take(frame: &Frame, next: &mut usize) -> Self {
        if size_of::<usize>() == size_of::<u64>() {
            return usize::take(frame, next) as u64;
        }
        *next = next.next_multiple_of(2);
        let low = usize::take(frame, next) as u64;
        low | (usize::take(frame, next) as u64) << 32
    }
}

impl FromArgs for i64 {
    type Value = Self;
    #[inline(always)]
    fn take(frame: &Frame, next: &mut usize) -> Self {
        u64::take(frame, next) as i64
    }
}

/// A 64-bit argument: the next two registers, the lower half first.
struct Pair;

impl FromArgs for Pair {
    type Value = i64;
    #[inline(always)]
    fn take(frame: &Frame, next: &mut usize) -> i64 {
        let low = u32::take(frame, next);
        (u64::from(u32::take(frame, next)) << 32 | u64::from(low)) as i64
    }
}

impl<T> FromArgs for UserPtr<T> {
    type Value = Self;
    #[inline(always)]
    fn take(frame: &Frame, next: &mut usize) -> Self {
        UserPtr::new(usize::take(frame, next))
    }
}

/// Declares system calls and the room's `HANDLERS` list:
///
/// ```ignore
/// syscalls! {
///     fn close(fd: i32) { fs::close(fd) }
///     fn fork(call: &mut Call) { task::fork(call.frame) }
///     fn clock_getres/clock_getres_time64(id: i32, at: UserPtr<[Time; 2]>) { ... }
/// }
/// ```
///
/// A call with two names is two calls with one body, in which `Time` stands for the width of a time's words:
/// a machine word for the first, 64 bits for the second, which only ABIs with 32-bit words have. `fn time/()`
/// has no such second one, but words of 32 bits, too, when 32-bit programs' calls are made (`compat`). `fn
/// getuid | getuid16()` is two calls for which `Id` stands for the width of user and group ids: the second,
/// of 16 bits, is an old one of such ABIs. `i64` and `u64` arguments are 64 bits wide everywhere; what C
/// calls `long` is `isize` and `usize`.
#[macro_export]
macro_rules! syscalls {
    ($($(#[$meta:meta])* fn $name:ident $(/ $($wide:ident)?)? $(| $old:ident)? ($($args:tt)*)
        $body:block)*) => {
        $($crate::syscall_fn!($(#[$meta])* $name $(/ $($wide)?)? $(| $old)?, ($($args)*), $body);)*
        /// This file's system calls, by name.
        pub const HANDLERS: &[(&str, $crate::syscall::Handler)] = &[$(
            (stringify!($name), $name as $crate::syscall::Handler),
            $($((stringify!($wide), $wide as $crate::syscall::Handler),)?)?
            $((stringify!($old), $old as $crate::syscall::Handler),)?
        )*];
        /// Those with times, for words of 32 bits (`compat`); the others have no name here.
        #[allow(dead_code, reason = "some files have none with times")]
        pub const NARROW: &[(&str, $crate::syscall::Handler)] =
            &[$($crate::narrow_call!($name $(/ $($wide)?)?, ($($args)*), $body)),*];
    };
}

/// One entry of the list `NARROW` of [`syscalls!`].
#[macro_export]
macro_rules! narrow_call {
    ($name:ident / $($wide:ident)?, $args:tt, $body:block) => {
        (stringify!($name), {
            $crate::syscall_fn!($name { Time = i32 }, $args, $body);
            $name as $crate::syscall::Handler
        })
    };
    ($name:ident, $args:tt, $body:block) => {
        ("", $crate::syscall::no_call as $crate::syscall::Handler)
    };
}

/// One function of [`syscalls!`].
#[macro_export]
macro_rules! syscall_fn {
    ($(#[$meta:meta])* $name:ident / $wide:ident, $args:tt, $body:block) => {
        $crate::syscall_fn!($(#[$meta])* $name { Time = isize }, $args, $body);
        $crate::syscall_fn!($(#[$meta])* $wide { Time = i64 }, $args, $body);
    };
    ($(#[$meta:meta])* $name:ident /, $args:tt, $body:block) => {
        $crate::syscall_fn!($(#[$meta])* $name { Time = isize }, $args, $body);
    };
    ($(#[$meta:meta])* $name:ident | $old:ident, $args:tt, $body:block) => {
        $crate::syscall_fn!($(#[$meta])* $name { Id = limen_linux_abi::id::Id32 }, $args, $body);
        $crate::syscall_fn!($(#[$meta])* $old { Id = limen_linux_abi::id::Id16 }, $args, $body);
    };
    ($(#[$meta:meta])* $name:ident $({ $alias:ident = $width:ty })?,
        ($call:ident: &mut Call $(, $arg:ident: $t:ty)* $(,)?), $body:block) => {
        $(#[$meta])*
        fn $name(frame: &mut $crate::arch::frame::Frame) -> usize {
            $(type $alias = $width;)?
            $crate::syscall::handle(frame, #[inline(always)] |$call| {
                let mut _n = 0;
                $(let $arg = <$t as $crate::syscall::FromArgs>::take($call.frame, &mut _n);)*
                $body
            })
        }
    };
    ($(#[$meta:meta])* $name:ident $({ $alias:ident = $width:ty })?, ($($arg:ident: $t:ty),* $(,)?),
        $body:block) => {
        $(#[$meta])*
        fn $name(frame: &mut $crate::arch::frame::Frame) -> usize {
            $(type $alias = $width;)?
            $crate::syscall::handle(frame, #[inline(always)] |_call| {
                let mut _n = 0;
                $(let $arg = <$t as $crate::syscall::FromArgs>::take(_call.frame, &mut _n);)*
                $body
            })
        }
    };
}

/// Calls the body of a handler, and converts what it returns to the value of the result register.
#[inline(always)]
pub fn handle(frame: &mut Frame, body: impl FnOnce(&mut Call<'_>) -> SysResult) -> usize {
    match body(&mut Call { frame }) {
        Ok(value) => value,
        Err(errno) => errno.to_return_value(),
    }
}

/// What the table of 32-bit programs has for numbers without a call.
pub fn no_call(_: &mut Frame) -> usize {
    Errno::ENOSYS.to_return_value()
}

/// Whether the native ABI's system call `number` is one that the kernel does.
pub fn has(number: usize) -> bool {
    table::NATIVE
        .get(number)
        .is_some_and(|handler| !core::ptr::fn_addr_eq(*handler, table::unknown as Handler))
}

/// Runs system call `number` and stores its result in the frame. May sleep, and may not return.
#[inline(always)]
pub fn dispatch(frame: &mut Frame, number: usize) {
    let result = if number < table::LEN {
        table::NATIVE[index::within::<{ table::LEN }>(number)](frame)
    } else {
        table::unknown(frame)
    };
    frame.set_raw_result(result);
}
