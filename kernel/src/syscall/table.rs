//! The native ABI's dispatch table, put together at compile time from the rooms' lists.

use super::{Call, Handler, SysResult};
use limen_linux_abi::Errno;

/// Longest table of any ABI.
const LEN: usize = 512;

/// Every list of handlers.
const LISTS: &[&[(&str, Handler)]] = &[
    crate::arch::syscalls::HANDLERS,
    super::futex::HANDLERS,
    super::mm::HANDLERS,
    super::sched::HANDLERS,
    super::time::HANDLERS,
    super::file::HANDLERS,
    super::dir::HANDLERS,
    super::stat::HANDLERS,
    super::pipe::HANDLERS,
    super::poll::HANDLERS,
    super::event::HANDLERS,
];

const COUNT: usize = {
    let mut n = 0;
    let mut i = 0;
    while i < LISTS.len() {
        n += LISTS[i].len();
        i += 1;
    }
    n
};

const HANDLERS: [(&str, Handler); COUNT] = {
    let mut all = [("", unknown as Handler); COUNT];
    let mut n = 0;
    let mut i = 0;
    while i < LISTS.len() {
        let mut j = 0;
        while j < LISTS[i].len() {
            all[n] = LISTS[i][j];
            n += 1;
            j += 1;
        }
        i += 1;
    }
    all
};

/// The native table.
#[allow(long_running_const_eval)]
pub static NATIVE: [Handler; LEN] = crate::arch::native_syscall_table!(HANDLERS, unknown as Handler, LEN);

/// Any number without a handler.
pub fn unknown(call: &mut Call<'_>) -> SysResult {
    let _ = call;
    Err(Errno::ENOSYS)
}
