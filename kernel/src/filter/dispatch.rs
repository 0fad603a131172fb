//! Syscall user dispatch: a call that does not come from where the thread allows it becomes `SIGSYS`, whose
//! handler does in user mode what the call asks for.

use crate::arch::frame::Frame;
use crate::arch::signal as arch_signal;
use crate::mm::user::UserPtr;
use crate::signal::{self, SIGSEGV, SIGSYS, SigInfo, info::code};
use crate::task::{calls, current};
use limen_entry::Frame as _;

/// The selector's values (`SYSCALL_DISPATCH_FILTER_*`).
const ALLOW: u8 = 0;
const BLOCK: u8 = 1;

/// Whether the call in `frame` (`COMPAT`: one of the ABI of 32-bit programs) became `SIGSYS`. The registers
/// are as the program had them then. May sleep.
pub fn dispatched<const COMPAT: bool>(frame: &mut Frame) -> bool {
    let task = current();
    let ip = frame.ip();
    // A program could not name the kernel's own code in a range.
    if task.dispatch.spares(ip) || arch_signal::is_trampoline(ip) {
        return false;
    }
    if let Some(at) = task.dispatch.selector() {
        match UserPtr::<u8>::new(at).read() {
            Ok(ALLOW) => return false,
            Ok(BLOCK) => {}
            Ok(_) => signal::end_by(&SigInfo::kernel(SIGSYS)),
            Err(_) => signal::end_by(&SigInfo::kernel(SIGSEGV)),
        }
    }
    let (number, arch) = (
        frame.syscall_number() as i32,
        calls::arch_of::<COMPAT>(&task, frame),
    );
    frame.roll_back_syscall();
    task.dispatch.roll_back();
    let info = SigInfo::refused(code::SYS_USER_DISPATCH, 0, ip, number, arch);
    signal::force(SIGSYS, info);
    true
}

/// Whether the call that ends became `SIGSYS`. Forgets it.
pub fn take_rolled_back() -> bool {
    current().dispatch.take_rolled_back()
}
