//! Events of the system `rseq`: restartable sequences.

use crate::trace_event;

trace_event! {
    /// A thread's area is updated.
    rseq: RseqUpdate = "rseq_update" {
        /// The CPU it says.
        cpu_id: "s32" i32,
    }
    print concat!(
        "\"cpu_id=%d\"",
        ", REC->cpu_id",
    )
}

trace_event! {
    /// A critical section is aborted, or found not to be one.
    rseq: RseqIpFixup = "rseq_ip_fixup" {
        /// Where the thread was.
        regs_ip: "unsigned long" usize,
        /// Where the section begins.
        start_ip: "unsigned long" usize,
        /// Its length.
        post_commit_offset: "unsigned long" usize,
        /// Where the thread goes on.
        abort_ip: "unsigned long" usize,
    }
    print concat!(
        "\"regs_ip=0x%lx start_ip=0x%lx post_commit_offset=%lu abort_ip=0x%lx\"",
        ", REC->regs_ip, REC->start_ip, REC->post_commit_offset, REC->abort_ip",
    )
}
