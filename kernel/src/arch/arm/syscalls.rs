//! System calls only this architecture has: those with numbers of its own, from 0xf0001, and the return from signal handlers without
//! `SA_SIGINFO`.

use super::frame::Frame;
use crate::mm::PAGE_SIZE;
use crate::signal::{SIGILL, SIGTRAP, force_fault, info::code};
use limen_linux_abi::Errno;

/// The first of the private numbers.
const PRIVATE: usize = 0x0f_0000;

crate::syscalls! {
    fn sigreturn(call: &mut Call) {
        crate::signal::sigreturn(call.frame);
        Ok(call.frame.result())
    }
}

/// A call with a number beyond the table.
#[cold]
pub fn private(frame: &mut Frame) -> Option<usize> {
    let result = match (frame.syscallno as usize).wrapping_sub(PRIVATE) {
        // breakpoint
        1 => {
            frame.pc = frame.previous();
            force_fault(SIGTRAP, code::TRAP_BRKPT, frame.pc);
            Ok(0)
        }
        // cacheflush
        2 => flush(frame.arg(0), frame.arg(1), frame.arg(2)),
        // usr26, usr32: every program is in 32-bit mode.
        3 | 4 => Ok(frame.arg(0)),
        // set_tls
        5 => {
            super::switch::set_thread_pointer(frame.arg(0));
            Ok(0)
        }
        // get_tls
        6 => Ok(super::switch::thread_pointer()),
        // The rest of the private numbers: an illegal instruction, unless they are of the range that must say ENOSYS.
        n if n < 0x7ff => return None,
        n if n <= 0xffff => {
            force_fault(SIGILL, code::ILL_ILLTRP, frame.previous());
            Ok(0)
        }
        _ => return None,
    };
    Some(result.unwrap_or_else(Errno::to_return_value))
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
