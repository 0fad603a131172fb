//! System calls only this architecture has: those with numbers of its own, from 0xf0001, the return from
//! signal handlers without `SA_SIGINFO`, and what tells the old ABI's calls apart.

use super::frame::Frame;
pub use super::no_compat::{
    COMPAT, Segment, call_arg, compat_arch_prctl, get_thread_area, give_segment, is_compat, read_segment,
    restart_in_user_mode, set_call_arg, set_thread_area,
};
use super::oabi;
pub use super::oabi::{OLD_ABI, find_call, is_old_call, program_is_old, was_not_made};
use super::switch::Fault;
use crate::arch::index;
use crate::mm::PAGE_SIZE;
use crate::signal::{SIGILL, SIGSEGV, SIGTRAP, force_fault, info::code};
use limen_linux_abi::Errno;

/// The first of the private numbers.
const PRIVATE: usize = 0x0f_0000;

/// This file's system calls, by name.
pub const HANDLERS: &[(&str, crate::arch::Handler)] = &[("sigreturn", |frame| {
    crate::signal::sigreturn(frame);
    frame.result()
})];

/// A call with a number beyond the table. `None`: it is none of these, or one of the old ABI's table.
#[inline(always)]
pub fn private(frame: &mut Frame) -> Option<usize> {
    match frame.syscallno as usize {
        PRIVATE.. => own(frame),
        _ => None,
    }
}

/// A call with a number of its own, or one that is none and says more than ENOSYS (Linux: `arm_syscall`).
#[cold]
#[inline(never)]
fn own(frame: &mut Frame) -> Option<usize> {
    let (number, _) = oabi::place(frame);
    if number < PRIVATE {
        return None;
    }
    let which = number - PRIVATE;
    Some(if which > 7 {
        none(frame, which, number)
    } else {
        // All there can be are here, so that no guess leads elsewhere.
        one(frame, index::within::<8>(which), number)
    })
}

/// The private call `which`.
fn one(frame: &mut Frame, which: usize, number: usize) -> usize {
    let result = match which {
        // A jump through zero.
        0 => {
            force_fault(SIGSEGV, code::SEGV_MAPERR, 0);
            Ok(0)
        }
        // breakpoint
        1 => {
            frame.pc = frame.previous();
            force_fault(SIGTRAP, code::TRAP_BRKPT, frame.pc);
            Ok(frame.arg(0))
        }
        // cacheflush
        2 => flush(frame.arg(0), frame.arg(1), frame.arg(2)),
        // set_tls
        5 => {
            super::switch::set_thread_pointer(frame.arg(0));
            Ok(0)
        }
        // get_tls
        6 => Ok(super::switch::thread_pointer()),
        7 => Err(Errno::ENOSYS),
        // usr26 and usr32: no processor has the 26-bit modes any more.
        _ => return none(frame, which, number),
    };
    result.unwrap_or_else(Errno::to_return_value)
}

/// A private number without a call, or one beyond them, of the old ABI.
fn none(frame: &mut Frame, which: usize, number: usize) -> usize {
    if (7..=0x7ff).contains(&which) {
        return Errno::ENOSYS.to_return_value();
    }
    Fault::remember(0, number as u32);
    force_fault(SIGILL, code::ILL_ILLTRP, frame.previous());
    if which <= 0xffff { 0 } else { frame.arg(0) }
}

/// Makes code that a program has written visible to instruction fetch.
fn flush(start: usize, end: usize, flags: usize) -> Result<usize, Errno> {
    if end < start || flags != 0 {
        return Err(Errno::EINVAL);
    }
    crate::mm::user::check(start, end - start)?;
    let mut addr = start;
    while addr < end && !crate::task::current().fatal_signal_pending() {
        let stop = end.min((addr & !(PAGE_SIZE - 1)) + PAGE_SIZE);
        super::uaccess::clean_user(addr, stop)?;
        addr = stop;
    }
    super::mmu::drop_instructions();
    Ok(0)
}

/// `prctl` options that only this architecture has: none.
pub fn prctl(_: &mut Frame, _: u32, _: usize) -> Result<usize, Errno> {
    Err(Errno::EINVAL)
}

/// Strict mode takes nothing but system calls from a thread.
pub fn enter_strict_mode() {}
