//! seccomp (`docs/seccomp.md`): what becomes of a call of a thread that has filters, or is in strict mode.

use super::log;
use crate::arch::frame::Frame;
use crate::signal::{self, SIGKILL, SIGSYS, SigInfo, info::code};
use crate::task::seccomp::{Answer, Filter, Mode};
use crate::task::{CurrentTask, calls, current, exit, ptrace};
use core::sync::atomic::{Ordering, fence};
use limen_bpf::{Action, Data, Verdict};
use limen_entry::Frame as _;
use limen_linux_abi::Errno;

/// Whether filters allow the call in `frame` whatever its arguments are.
#[inline(always)]
pub fn always_allows(frame: &Frame) -> bool {
    let number = frame.syscall_number() as usize;
    current()
        .filter()
        .is_some_and(|filter| filter.always_allows(number))
}

/// Whether the call in `frame` (`COMPAT`: one of the ABI of 32-bit programs) may run. If not, its result is
/// in the frame. May sleep, and may end the thread.
pub fn allows<const COMPAT: bool>(frame: &mut Frame) -> bool {
    if !COMPAT && always_allows(frame) {
        return true;
    }
    // The thread may have seen its work bit, which a sibling set, before what the sibling wrote earlier.
    fence(Ordering::Acquire);
    let task = current();
    if task.trace.options().contains(ptrace::Options::SUSPEND_SECCOMP) {
        return true;
    }
    match task.seccomp.mode() {
        Mode::Disabled => true,
        Mode::Strict => strict::<COMPAT>(frame),
        Mode::Filter => match task.filter() {
            Some(filter) => filtered::<COMPAT>(frame, &task, filter),
            None => true,
        },
    }
}

/// What a program of a filter sees of the call.
fn data<const COMPAT: bool>(frame: &Frame) -> Data {
    Data {
        nr: frame.syscall_number() as i32,
        arch: calls::arch_of::<COMPAT>(&current(), frame),
        instruction_pointer: frame.ip() as u64,
        args: [0, 1, 2, 3, 4, 5].map(|n| calls::arg::<COMPAT>(frame, n) as u64),
    }
}

/// Strict mode: any call but four ends the thread as `SIGKILL` would.
fn strict<const COMPAT: bool>(frame: &Frame) -> bool {
    let may = match calls::name::<COMPAT>(&current(), frame) {
        Some("read" | "write" | "exit") => true,
        Some("rt_sigreturn") => !COMPAT,
        Some("sigreturn") => COMPAT,
        _ => false,
    };
    if may {
        return true;
    }
    log::call(&data::<COMPAT>(frame), SIGKILL, Action::KillThread, true);
    exit::exit_thread(exit::status_of_signal(SIGKILL, false))
}

fn filtered<const COMPAT: bool>(frame: &mut Frame, task: &CurrentTask, filter: &Filter) -> bool {
    let mut data = data::<COMPAT>(frame);
    let (verdict, by) = filter.verdict(&data.words());
    let action = verdict.action();
    let requested = by.is_some_and(Filter::logs);
    match action {
        Action::Allow => return true,
        Action::Log => {
            log::call(&data, 0, action, true);
            return true;
        }
        Action::KillProcess | Action::KillThread => kill(task, &data, verdict),
        Action::Errno => {
            let result = match verdict.errno() {
                0 => 0,
                errno => usize::from(errno).wrapping_neg(),
            };
            frame.set_skipped_result(result);
        }
        Action::Trap => {
            frame.roll_back_syscall();
            signal::force(SIGSYS, refused(&data, verdict));
        }
        Action::Trace => match ptrace::seccomp(frame, verdict.data()) {
            Some(true) => {
                return task
                    .filter()
                    .is_none_or(|filter| again::<COMPAT>(frame, task, filter));
            }
            // The tracer has cancelled the call, which is logged as the one that it is now.
            Some(false) => data.nr = frame.syscall_number() as i32,
            None => frame.set_skipped_result(Errno::ENOSYS.to_return_value()),
        },
        Action::UserNotif => {
            let listener = by.and_then(Filter::listener);
            let answer = match listener {
                Some(listener) => listener.ask(data),
                None => Err(Errno::ENOSYS),
            };
            match answer {
                Ok(Answer::Continue) => return true,
                Ok(Answer::Result(result)) => frame.set_skipped_result(result),
                Err(errno) => frame.set_skipped_result(errno.to_return_value()),
            }
        }
    }
    log::call(&data, 0, action, requested);
    false
}

/// [`filtered`] after the tracer has seen the call, which it may have changed: that it is to see it again is
/// fine.
#[cold]
fn again<const COMPAT: bool>(frame: &mut Frame, task: &CurrentTask, filter: &Filter) -> bool {
    let (verdict, _) = filter.verdict(&data::<COMPAT>(frame).words());
    verdict.action() == Action::Trace || filtered::<COMPAT>(frame, task, filter)
}

/// The details of the `SIGSYS` for a call.
fn refused(data: &Data, verdict: Verdict) -> SigInfo {
    let at = data.instruction_pointer as usize;
    SigInfo::refused(code::SYS_SECCOMP, verdict.data(), at, data.nr, data.arch)
}

/// Ends the thread, or the process.
fn kill(task: &CurrentTask, data: &Data, verdict: Verdict) -> ! {
    let action = verdict.action();
    log::call(data, SIGSYS, action, true);
    if action == Action::KillThread && !task.process.is_last_thread() {
        exit::exit_thread(exit::status_of_signal(SIGSYS, false));
    }
    signal::end_by(&refused(data, verdict))
}
