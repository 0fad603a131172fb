//! System calls only this architecture has.

use super::signal;
use super::spr::MSR_LE;
use crate::signal::{SIGSEGV, SigSet, force_fault, info::code, set_mask};
use crate::task::creds::cap;
use crate::task::current;
use limen_linux_abi::Errno;

crate::syscalls! {
    fn swapcontext(call: &mut Call) {
        let (old, new, size) = (call.frame.arg(0), call.frame.arg(1), call.frame.arg(2));
        if size < signal::CONTEXT_SIZE {
            return Err(Errno::EINVAL);
        }
        let task = current();
        if old != 0 {
            let mask = task.signals.lock().blocked;
            call.frame.complete();
            signal::save_context(old, call.frame, mask.0)?;
        }
        if new == 0 {
            return Ok(0);
        }
        match signal::load_context(call.frame, new) {
            Ok(mask) => set_mask(&task, SigSet(mask)),
            Err(_) => force_fault(SIGSEGV, code::KERNEL, new),
        }
        // The registers are complete, the result among them.
        Ok(call.frame.result())
    }

    fn switch_endian(call: &mut Call) {
        call.frame.msr ^= MSR_LE;
        // r3 stays as it is.
        call.frame.gpr[3] = call.frame.orig_gpr3;
        call.frame.changed = 1;
        call.frame.forget_syscall();
        Ok(call.frame.result())
    }

    fn rtas() {
        // Firmware's services are the kernel's alone.
        if !current().creds().capable(cap::SYS_ADMIN) {
            return Err(Errno::EPERM);
        }
        Err(Errno::EINVAL)
    }

    // Pages of radix trees have no smaller parts.
    fn subpage_prot() { Err(Errno::ENOENT) }
}

/// A call with a number beyond the table: none.
pub fn private(_: &mut crate::arch::frame::Frame) -> Option<usize> {
    None
}
