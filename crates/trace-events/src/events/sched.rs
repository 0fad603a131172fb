//! Events of the system `sched`: what the scheduler does, and the lives of threads.

use crate::{Str, trace_event};

macro_rules! of_thread {
    ($($(#[$meta:meta])* $name:ident = $text:literal)*) => { $(trace_event! {
        $(#[$meta])*
        sched: $name = $text {
            /// The thread's name, with NULs behind it.
            comm: "char" [u8; 16],
            /// Its number.
            pid: "pid_t" i32,
            /// Its priority, as Linux numbers them inside.
            prio: "int" i32,
        }
        print "\"comm=%s pid=%d prio=%d\", REC->comm, REC->pid, REC->prio"
    })* };
}

of_thread! {
    /// A thread's memory is given back.
    SchedProcessFree = "sched_process_free"
    /// A thread exits.
    SchedProcessExit = "sched_process_exit"
    /// A thread waits for a child.
    SchedProcessWait = "sched_process_wait"
}

macro_rules! wakeup {
    ($($(#[$meta:meta])* $name:ident = $text:literal)*) => { $(trace_event! {
        $(#[$meta])*
        sched: $name = $text {
            /// The woken thread's name, with NULs behind it.
            comm: "char" [u8; 16],
            /// Its number.
            pid: "pid_t" i32,
            /// Its priority, as Linux numbers them inside.
            prio: "int" i32,
            /// The CPU on whose queue it is.
            target_cpu: "int" i32,
        }
        print concat!(
            "\"comm=%s pid=%d prio=%d target_cpu=%03d\"",
            ", REC->comm, REC->pid, REC->prio, REC->target_cpu",
        )
    })* };
}

wakeup! {
    /// A waker begins to wake a thread.
    SchedWaking = "sched_waking"
    /// A thread has become runnable.
    SchedWakeup = "sched_wakeup"
    /// A new thread has become runnable.
    SchedWakeupNew = "sched_wakeup_new"
}

trace_event! {
    /// A CPU goes from one thread to another.
    sched: SchedSwitch = "sched_switch" {
        /// The former thread's name, with NULs behind it.
        prev_comm: "char" [u8; 16],
        /// The former thread's number.
        prev_pid: "pid_t" i32,
        /// Its priority.
        prev_prio: "int" i32,
        /// Why it stops, a bit of Linux's; 256: it is preempted.
        prev_state: "long" isize,
        /// The next thread's name, with NULs behind it.
        next_comm: "char" [u8; 16],
        /// The next thread's number.
        next_pid: "pid_t" i32,
        /// Its priority.
        next_prio: "int" i32,
    }
    print concat!(
        "\"prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> next_comm=%s next_pid=%d next_prio=%d\"",
        ", REC->prev_comm, REC->prev_pid, REC->prev_prio",
        ", (REC->prev_state & 255) ? __print_flags(REC->prev_state & 255, \"|\"",
        ", { 0x00000001, \"S\" }, { 0x00000002, \"D\" }, { 0x00000004, \"T\" }, { 0x00000008, \"t\" }",
        ", { 0x00000010, \"X\" }, { 0x00000020, \"Z\" }, { 0x00000040, \"P\" }",
        ", { 0x00000080, \"I\" }) : \"R\"",
        ", REC->prev_state & 256 ? \"+\" : \"\"",
        ", REC->next_comm, REC->next_pid, REC->next_prio",
    )
}

trace_event! {
    /// A thread goes to another CPU.
    sched: SchedMigrateTask = "sched_migrate_task" {
        /// The thread's name, with NULs behind it.
        comm: "char" [u8; 16],
        /// The thread's number.
        pid: "pid_t" i32,
        /// Its priority, as Linux numbers them inside.
        prio: "int" i32,
        /// From this one.
        orig_cpu: "int" i32,
        /// To this one.
        dest_cpu: "int" i32,
    }
    print concat!(
        "\"comm=%s pid=%d prio=%d orig_cpu=%d dest_cpu=%d\"",
        ", REC->comm, REC->pid, REC->prio, REC->orig_cpu, REC->dest_cpu",
    )
}

trace_event! {
    /// A thread is made.
    sched: SchedProcessFork = "sched_process_fork" {
        /// The maker's name, with NULs behind it.
        parent_comm: "char" [u8; 16],
        /// The maker's number.
        parent_pid: "pid_t" i32,
        /// The new thread's name, with NULs behind it.
        child_comm: "char" [u8; 16],
        /// The new thread's number.
        child_pid: "pid_t" i32,
    }
    print concat!(
        "\"comm=%s pid=%d child_comm=%s child_pid=%d\"",
        ", REC->parent_comm, REC->parent_pid, REC->child_comm, REC->child_pid",
    )
}

trace_event! {
    /// A program begins.
    sched: SchedProcessExec<'a> = "sched_process_exec" {
        /// Its path.
        filename: "__data_loc char[]" Str<'a>,
        /// The thread's number.
        pid: "pid_t" i32,
        /// Its number before.
        old_pid: "pid_t" i32,
    }
    print concat!(
        "\"filename=%s pid=%d old_pid=%d\"",
        ", __get_str(filename), REC->pid, REC->old_pid",
    )
}
