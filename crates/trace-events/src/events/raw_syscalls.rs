//! Events of the system `raw_syscalls`: all system calls, by number.

use crate::trace_event;

trace_event! {
    /// A system call begins.
    raw_syscalls: SysEnter = "sys_enter" {
        /// Its number.
        id: "long" isize,
        /// Its arguments.
        args: "unsigned long" [usize; 6],
    }
    print concat!(
        "\"NR %ld (%lx, %lx, %lx, %lx, %lx, %lx)\"",
        ", REC->id, REC->args[0], REC->args[1], REC->args[2]",
        ", REC->args[3], REC->args[4], REC->args[5]",
    )
}

trace_event! {
    /// A system call has ended.
    raw_syscalls: SysExit = "sys_exit" {
        /// Its number.
        id: "long" isize,
        /// Its result.
        ret: "long" isize,
    }
    print concat!(
        "\"NR %ld = %ld\"",
        ", REC->id, REC->ret",
    )
}
