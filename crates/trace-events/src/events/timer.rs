//! Events of the system `timer`: timers of the kernel. All count nanoseconds, which Linux calls `hrtimer`.

use crate::trace_event;

trace_event! {
    /// A timer is armed.
    timer: HrtimerStart = "hrtimer_start" {
        /// The timer.
        hrtimer: "void *" usize,
        /// What it calls.
        function: "void *" usize,
        /// When it ends.
        expires: "s64" i64,
        /// The same.
        softexpires: "s64" i64,
        /// 0: the time is one of the clock's.
        mode: "enum hrtimer_mode" u32,
        /// Whether it was armed already.
        was_armed: "bool" bool,
    }
    print concat!(
        "\"hrtimer=%p function=%ps expires=%llu softexpires=%llu mode=%s was_armed=%d\"",
        ", REC->hrtimer, REC->function, (unsigned long long) REC->expires",
        ", (unsigned long long) REC->softexpires",
        ", __print_symbolic(REC->mode, { 0, \"ABS\" }, { 1, \"REL\" }), REC->was_armed",
    )
}

trace_event! {
    /// A timer has ended, its function begins.
    timer: HrtimerExpireEntry = "hrtimer_expire_entry" {
        /// The timer.
        hrtimer: "void *" usize,
        /// The time.
        now: "s64" i64,
        /// What it calls.
        function: "void *" usize,
    }
    print concat!(
        "\"hrtimer=%p function=%ps now=%llu\"",
        ", REC->hrtimer, REC->function, (unsigned long long) REC->now",
    )
}

trace_event! {
    /// The function has ended.
    timer: HrtimerExpireExit = "hrtimer_expire_exit" {
        /// The timer.
        hrtimer: "void *" usize,
    }
    print concat!(
        "\"hrtimer=%p\"",
        ", REC->hrtimer",
    )
}

trace_event! {
    /// A timer is disarmed.
    timer: HrtimerCancel = "hrtimer_cancel" {
        /// The timer.
        hrtimer: "void *" usize,
    }
    print concat!(
        "\"hrtimer=%p\"",
        ", REC->hrtimer",
    )
}
