//! Events of the system `exceptions`.

use crate::trace_event;

macro_rules! page_fault {
    ($($(#[$meta:meta])* $name:ident = $text:literal)*) => { $(trace_event! {
        $(#[$meta])*
        exceptions: $name = $text {
            /// The address that was accessed.
            address: "unsigned long" usize,
            /// The instruction's.
            ip: "unsigned long" usize,
            /// What the processor says of it: bits of x86 (1: protection, 2: write, 4: user, 16: fetch).
            error_code: "unsigned long" usize,
        }
        print concat!(
            "\"address=%ps ip=%ps error_code=0x%lx\"",
            ", (void *)REC->address, (void *)REC->ip, REC->error_code",
        )
    })* };
}

page_fault! {
    /// A program's access faults.
    PageFaultUser = "page_fault_user"
    /// The kernel's access faults.
    PageFaultKernel = "page_fault_kernel"
}
