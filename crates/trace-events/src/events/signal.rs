//! Events of the system `signal`.

use crate::trace_event;

trace_event! {
    /// A signal is sent.
    signal: SignalGenerate = "signal_generate" {
        /// The signal.
        sig: "int" i32,
        /// `si_errno`.
        errno: "int" i32,
        /// `si_code`.
        code: "int" i32,
        /// The receiver's name, with NULs behind it.
        comm: "char" [u8; 16],
        /// The receiver's number.
        pid: "pid_t" i32,
        /// Whether it is for the whole process.
        group: "int" i32,
        /// `TRACE_SIGNAL_*`: 0 if it is delivered or pending.
        result: "int" i32,
    }
    print concat!(
        "\"sig=%d errno=%d code=%d comm=%s pid=%d grp=%d res=%d\"",
        ", REC->sig, REC->errno, REC->code, REC->comm, REC->pid, REC->group, REC->result",
    )
}

trace_event! {
    /// A thread takes a signal.
    signal: SignalDeliver = "signal_deliver" {
        /// The signal.
        sig: "int" i32,
        /// `si_errno`.
        errno: "int" i32,
        /// `si_code`.
        code: "int" i32,
        /// Its handler.
        sa_handler: "unsigned long" usize,
        /// `SA_*`.
        sa_flags: "unsigned long" usize,
    }
    print concat!(
        "\"sig=%d errno=%d code=%d sa_handler=%lx sa_flags=%lx\"",
        ", REC->sig, REC->errno, REC->code, REC->sa_handler, REC->sa_flags",
    )
}
