//! `kernel.print-fatal-signals`: logs which thread was killed by a signal that means an error of its program,
//! and where it was.

use super::{SigInfo, SigSet};
use crate::task::CurrentTask;
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// Whether to log. Off unless the command line has `print-fatal-signals=1`.
pub static PRINT: AtomicI32 = AtomicI32::new(0);

/// Reads the command line.
pub fn init() {
    PRINT.store(
        i32::from(crate::cmdline::value("print-fatal-signals") == Some("1")),
        Relaxed,
    );
}

/// Whether a process's end by `sig` is logged.
fn says(sig: u32) -> bool {
    SigSet::COREDUMP.has(sig) && PRINT.load(Relaxed) != 0
}

/// Logs that `info`'s signal, whose default action is about to be carried out, kills the running thread.
pub(super) fn report(task: &CurrentTask, info: &SigInfo) {
    if !says(info.signal()) {
        return;
    }
    let (ip, sp) = task.user_ip_and_sp();
    let comm = task.comm();
    let name = comm.split(|&byte| byte == 0).next().unwrap_or_default();
    crate::log!(
        Info,
        "{}[{}]: potentially unexpected fatal signal {}: code {}, address {:#x}, ip {ip:#x}, sp {sp:#x}",
        core::str::from_utf8(name).unwrap_or("?"),
        task.tid(),
        info.signal(),
        info.code(),
        info.addr(),
    );
}
