//! Events of the system `irq`: interrupt handlers and deferred work.

use crate::{Str, trace_event};

trace_event! {
    /// A handler begins.
    irq: IrqHandlerEntry<'a> = "irq_handler_entry" {
        /// The interrupt's number.
        irq: "int" i32,
        /// Whose it is.
        name: "__data_loc char[]" Str<'a>,
    }
    print concat!(
        "\"irq=%d name=%s\"",
        ", REC->irq, __get_str(name)",
    )
}

trace_event! {
    /// A handler has ended.
    irq: IrqHandlerExit = "irq_handler_exit" {
        /// The interrupt's number.
        irq: "int" i32,
        /// Whether it was handled.
        ret: "int" i32,
    }
    print concat!(
        "\"irq=%d ret=%s\"",
        ", REC->irq, REC->ret ? \"handled\" : \"unhandled\"",
    )
}

macro_rules! softirq {
    ($($(#[$meta:meta])* $name:ident = $text:literal)*) => { $(trace_event! {
        $(#[$meta])*
        irq: $name = $text {
            /// Which kind of work.
            vec: "unsigned int" u32,
        }
        print concat!(
            "\"vec=%u [action=%s]\", REC->vec, __print_symbolic(REC->vec, { 0, \"HI\" }, { 1, \"TIMER\" }",
            ", { 2, \"NET_TX\" }, { 3, \"NET_RX\" }, { 4, \"BLOCK\" }, { 5, \"IRQ_POLL\" }",
            ", { 6, \"TASKLET\" }, { 7, \"SCHED\" }, { 8, \"HRTIMER\" }, { 9, \"RCU\" })",
        )
    })* };
}

softirq! {
    /// Deferred work begins.
    SoftirqEntry = "softirq_entry"
    /// Deferred work has ended.
    SoftirqExit = "softirq_exit"
    /// Work is deferred.
    SoftirqRaise = "softirq_raise"
}
