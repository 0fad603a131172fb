//! Events of the system `irq`: handlers of interrupts. There are no soft interrupts.

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
