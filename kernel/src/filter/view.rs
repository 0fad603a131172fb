//! A thread that has only some of the system calls (`docs/views.md`): whether it has one.

use crate::arch::frame::Frame;
use crate::signal::{self, SIGSYS, SigInfo, info::code};
use crate::task::{calls, current};
use limen_linux_abi::Errno;

/// Whether the running thread has the call in `frame`, whose number is `number`. If not, its result is in the
/// frame, or it is no call any more and a signal is pending. A view is one of the native table: of the calls
/// of 32-bit programs (`COMPAT`) it has none.
pub fn has<const COMPAT: bool>(frame: &mut Frame, number: isize) -> bool {
    let task = current();
    let Some(view) = calls::view(&task) else {
        return true;
    };
    if !COMPAT {
        let Some(place) = calls::in_table(&task, frame) else {
            return true;
        };
        if view.contains(place) {
            return true;
        }
    }
    if view.signals {
        let arch = calls::arch_of::<COMPAT>(&task, frame);
        frame.roll_back_syscall();
        // What tells it from a filter's signal is the error, which a filter has no way to give.
        let info = SigInfo::refused(code::SYS_SECCOMP, ENOSYS, frame.ip(), number as i32, arch);
        signal::force(SIGSYS, info);
    } else {
        frame.set_skipped_result(Errno::ENOSYS.to_return_value());
    }
    false
}

/// `ENOSYS`, as `si_errno` has it.
const ENOSYS: u16 = 38;
