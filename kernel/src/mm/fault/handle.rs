//! A page fault as the architecture tells of it: resolved, a signal, the end of a copy, or a panic.

use super::FaultError;
use crate::arch::frame::Frame;
use crate::arch::mmu::USER_END;
use crate::mm::symbols::Symbol;
use crate::mm::{Prot, current_space, frame, oom, stack};

/// A page fault, decoded by the architecture. Runs as the threshold's fault handler. From user mode: resolves
/// it or sends a signal. From kernel mode, if the instruction is in the exception table: resolves it or
/// continues at the fix-up. All others panic. Returns whether it became a signal.
pub fn handle_fault(frame: &mut Frame, addr: usize, access: Prot, from_user: bool) -> bool {
    if from_user && addr < USER_END {
        // Nearly always this resolves it.
        match current_space().map(|space| space.fault(addr, access)) {
            Some(Ok(())) => false,
            Some(Err(error)) => refuse(addr, error),
            None => refuse(addr, FaultError::NotMapped),
        }
    } else if from_user {
        refuse(addr, FaultError::NotMapped)
    } else {
        kernel_fault(frame, addr, access);
        false
    }
}

/// The running thread made an access that cannot be made possible: sends the signal, or lets the OOM killer
/// end the process. Returns whether it sent one.
#[cold]
#[inline(never)]
fn refuse(addr: usize, error: FaultError) -> bool {
    let users = oom::users();
    if matches!(error, FaultError::NoMemory) {
        users.kill_current();
        return false;
    }
    users.bad_access(addr, error);
    true
}

/// A fault of the kernel itself. Only copies to and from user memory, and what asks for it, may fault.
#[inline(never)]
fn kernel_fault(frame: &mut Frame, addr: usize, access: Prot) {
    use crate::arch::{irq, nofault, uaccess};
    let nofault = nofault::is_nofault(frame.ip());
    if (addr < USER_END || nofault)
        && let Some(fixup) = uaccess::fixup(frame.ip())
    {
        // Where sleeping is not allowed, the copy fails instead.
        let resolved = !nofault
            && crate::sched::preempt::count() == 0
            && irq::enabled()
            && current_space().is_some_and(|space| space.fault(addr, access).is_ok());
        if !resolved {
            frame.set_ip(fixup);
        }
        return;
    }
    let what = if access.contains(Prot::WRITE) {
        "write to"
    } else if access.contains(Prot::EXEC) {
        "execution of"
    } else {
        "read of"
    };
    let note = if stack::is_guard(addr) {
        " (kernel stack overflow?)"
    } else {
        note(addr)
    };
    panic!(
        "unable to handle kernel {what} {addr:#x} at {:#x} ({}){note}",
        frame.ip(),
        Symbol(frame.ip())
    );
}

/// What is to be said of an address of the kernel's that faulted, in a report: nothing, mostly. Any context.
pub fn note(addr: usize) -> &'static str {
    if frame::debug_pagealloc::is_free(addr) {
        " (debug_pagealloc: the page is free)"
    } else {
        ""
    }
}
