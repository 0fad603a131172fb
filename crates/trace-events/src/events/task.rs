//! Events of the system `task`.

use crate::trace_event;

trace_event! {
    /// A thread is made.
    task: TaskNewtask = "task_newtask" {
        /// Its number.
        pid: "pid_t" i32,
        /// Its name.
        comm: "char" [u8; 16],
        /// `CLONE_*`.
        clone_flags: "unsigned long" usize,
        /// How likely it is killed for memory.
        oom_score_adj: "short" i16,
    }
    print concat!(
        "\"pid=%d comm=%s clone_flags=%lx oom_score_adj=%hd\"",
        ", REC->pid, REC->comm, REC->clone_flags, REC->oom_score_adj",
    )
}

trace_event! {
    /// A thread gets a name.
    task: TaskRename = "task_rename" {
        /// Its number.
        pid: "pid_t" i32,
        /// Its former name.
        oldcomm: "char" [u8; 16],
        /// Its new name.
        newcomm: "char" [u8; 16],
        /// How likely it is killed for memory.
        oom_score_adj: "short" i16,
    }
    print concat!(
        "\"pid=%d oldcomm=%s newcomm=%s oom_score_adj=%hd\"",
        ", REC->pid, REC->oldcomm, REC->newcomm, REC->oom_score_adj",
    )
}
