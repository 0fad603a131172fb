//! The native ABI's table of system calls, made at compile time from the rooms' lists.

use super::Handler;
use crate::arch::frame::Frame;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use limen_entry::Frame as _;
use limen_linux_abi::Errno;

/// How many entries the table of any ABI has.
pub const LEN: usize = 512;

/// All lists of handlers, one per line.
const LISTS: &[&[(&str, Handler)]] = &[
    crate::arch::syscalls::HANDLERS,
    super::dir::HANDLERS,
    super::event::HANDLERS,
    super::file::HANDLERS,
    super::futex::HANDLERS,
    super::ids::HANDLERS,
    super::ipc::HANDLERS,
    super::misc::HANDLERS,
    super::mm::HANDLERS,
    super::module::HANDLERS,
    super::mqueue::HANDLERS,
    super::old::HANDLERS,
    super::open::HANDLERS,
    super::pipe::HANDLERS,
    super::poll::HANDLERS,
    super::rseq::HANDLERS,
    super::sched::HANDLERS,
    super::seccomp::HANDLERS,
    super::signal::HANDLERS,
    super::stat::HANDLERS,
    super::task::HANDLERS,
    super::time::HANDLERS,
    super::xattr::HANDLERS,
    super::socket::HANDLERS,
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

/// All handlers, by name.
pub(super) const HANDLERS: [(&str, Handler); COUNT] = {
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

/// The table of the native ABI.
#[allow(long_running_const_eval, reason = "some thousand steps, at most a second")]
pub static NATIVE: [Handler; LEN] = crate::arch::native_syscall_table!(HANDLERS, unknown as Handler, LEN);

/// Called for numbers without a handler: the architecture's own calls, else `ENOSYS`. With `limen.debug` on
/// the command line each is logged once.
pub fn unknown(frame: &mut Frame) -> usize {
    if let Some(result) = crate::arch::syscalls::private(frame) {
        return result;
    }
    if let Some(handler) = super::old_abi::handler(frame) {
        return handler(frame);
    }
    if LOG_UNKNOWN.load(Relaxed) {
        log_unknown(frame);
    }
    Errno::ENOSYS.to_return_value()
}

/// Whether `limen.debug` is on the command line.
static LOG_UNKNOWN: AtomicBool = AtomicBool::new(false);

/// Reads the command line. Once, at boot.
pub fn init() {
    LOG_UNKNOWN.store(crate::cmdline::flag("limen.debug"), Relaxed);
}

#[cold]
fn log_unknown(frame: &Frame) {
    static SEEN: [AtomicU32; LEN / 32] = [const { AtomicU32::new(0) }; LEN / 32];
    let number = frame.syscall_number();
    let Some(word) = usize::try_from(number).ok().and_then(|n| SEEN.get(n / 32)) else {
        return;
    };
    let bit = 1 << (number as usize % 32);
    if word.fetch_or(bit, Relaxed) & bit == 0 {
        let name = (crate::arch::NATIVE_ABI.name_of)(number as usize).unwrap_or("?");
        let task = crate::task::current();
        let comm = task.comm();
        let comm = core::str::from_utf8(&comm).unwrap_or("?").trim_end_matches('\0');
        info!("{comm}[{}]: unknown system call {number} ({name})", task.tid());
    }
}
