//! Events of system calls: those of all (`raw_syscalls`) and those of each (`syscalls`). They hang on
//! `SyscallWork::TRACEPOINT`, which every thread has as long as somebody wants one of them. Those of each
//! mean the native ABI's calls only.

use super::hit::deliver;
use super::list;
use crate::arch::frame::Frame;
use crate::arch::mmu::USER_END;
use crate::arch::syscalls;
use crate::mm::copy::copy_in;
use crate::sync::Mutex;
use crate::task::all_tasks;
use crate::trace::point;
use crate::tracepoint;
use limen_entry::{Frame as _, SyscallWork};
use limen_trace_events::Numbered;
use limen_trace_events::events::raw_syscalls::{SysEnter, SysExit};
use limen_trace_events::syscalls::{
    Call, End, MAX_RECORD, MOST_STRINGS, STRING, clean_string, encode_enter, encode_exit,
};

/// How many of these events are wanted.
static WANTED: Mutex<usize> = Mutex::new(0);

/// Whether a declared event is one of them.
pub(super) fn is_raw(place: usize) -> bool {
    [SysEnter::INDEX, SysExit::INDEX].contains(&place)
}

/// One of them (if `is_one`) was and is wanted or not. May sleep.
pub(super) fn changed(is_one: bool, was: bool, is: bool) {
    if !is_one || was == is {
        return;
    }
    let mut wanted = WANTED.lock();
    let before = *wanted > 0;
    *wanted = if is { *wanted + 1 } else { *wanted - 1 };
    let now = *wanted > 0;
    if before == now {
        return;
    }
    // A thread that is made meanwhile looks when it can be found.
    point::trace_calls(now);
    for task in all_tasks() {
        mark(&task.info.work, now);
    }
}

fn mark(work: &limen_entry::WorkWords, on: bool) {
    if on {
        work.set_syscall_work(SyscallWork::TRACEPOINT);
    } else {
        work.clear_syscall_work(SyscallWork::TRACEPOINT);
    }
}

/// The running thread begins a system call, and has the bit.
pub fn enter(frame: &Frame, number: isize) {
    let arguments = core::array::from_fn(|n| syscalls::call_arg(frame, n));
    tracepoint!(raw_syscalls::SysEnter {
        id: number,
        args: arguments
    });
    if let Ok(index) = usize::try_from(number)
        && !syscalls::is_compat(frame)
        && let Some(event) = list::of_call(index, End::Enter)
        && let list::Which::Call(_, call) = event.which
        && event.is_wanted()
    {
        begins(event, &call, number, &arguments);
    }
}

/// A call begins, and somebody wants its event. What its strings are is read before the record is made: that
/// may sleep.
#[cold]
#[inline(never)]
fn begins(event: &list::Event, call: &Call, number: isize, arguments: &[usize; 6]) {
    let mut texts = [[0; STRING]; MOST_STRINGS];
    let mut strings: [&[u8]; MOST_STRINGS] = [&[]; MOST_STRINGS];
    let own = call.strings().filter_map(|place| arguments.get(place));
    for ((text, string), address) in texts.iter_mut().zip(&mut strings).zip(own) {
        let room = USER_END.saturating_sub(*address).min(STRING);
        let read = if *address == 0 {
            0
        } else {
            copy_in(&mut text[..room], *address)
        };
        let len = clean_string(text, read);
        *string = &text[..len];
    }
    deliver(event, MAX_RECORD, |common, room| match room.first_chunk_mut() {
        Some(room) => encode_enter(common, number as i32, call, arguments, &strings, room),
        None => 0,
    });
}

/// The running thread has ended a system call, and has the bit.
pub fn exit(frame: &Frame) {
    let (number, result) = (frame.syscall_number(), frame.result() as isize);
    tracepoint!(raw_syscalls::SysExit {
        id: number,
        ret: result
    });
    if let Ok(index) = usize::try_from(number)
        && !syscalls::is_compat(frame)
        && let Some(event) = list::of_call(index, End::Exit)
    {
        deliver(event, MAX_RECORD, |common, room| match room.first_chunk_mut() {
            Some(room) => encode_exit(common, number as i32, result, room),
            None => 0,
        });
    }
}
