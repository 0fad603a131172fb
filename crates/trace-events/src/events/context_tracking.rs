//! Events of the system `context_tracking`.

use crate::trace_event;

macro_rules! user {
    ($($(#[$meta:meta])* $name:ident = $text:literal)*) => { $(trace_event! {
        $(#[$meta])*
        context_tracking: $name = $text {
            /// Nothing.
            dummy: "int" i32,
        }
        print "\"%s\", \"\""
    })* };
}

user! {
    /// A CPU goes to user mode.
    UserEnter = "user_enter"
    /// A CPU comes from user mode.
    UserExit = "user_exit"
}
