//! What differs between Linux's ABIs: structure layouts, and the numbers of flags and commands, in a module
//! for each ABI. All four are compiled on every host, with fields of fixed width, so that tests can compare
//! each with the headers of that architecture. [`native`] is the ABI of the kernel; only this file chooses
//! it.

mod generic;
mod layout;
mod powerpc;

pub mod aarch64;
pub mod arm;
pub mod compat;
pub mod ipc;
pub mod old;
pub mod powerpc64;
pub mod statx;
pub mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64 as native;
#[cfg(target_arch = "arm")]
pub use arm as native;
#[cfg(target_arch = "powerpc64")]
pub use powerpc64 as native;
#[cfg(target_arch = "x86_64")]
pub use x86_64 as native;

pub use layout::{EpollLayout, FileStatus, FsStatus, Layout, LockRequest, SystemInfo};

/// Declares a group of constants that have their C names, with a list of them for the tests.
macro_rules! constants {
    ($($(#[$meta:meta])* $name:ident: $t:ty = $value:expr;)*) => {
        $($(#[$meta])* pub const $name: $t = $value;)*
        /// Every constant of this group by its C name, for the tests.
        pub const NAMES: &[(&str, u64)] = &[$((stringify!($name), $name as u64)),*];
    };
}
pub(crate) use constants;

/// Declares structures of an ABI. Fields are integers of fixed width, or arrays of them, with their C names.
/// Those that begin with an underscore are padding.
macro_rules! layouts {
    ($($(#[$meta:meta])* $name:ident = $c:literal { $($field:ident: $t:ty,)* })*) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            #[repr(C)]
            #[allow(missing_docs, reason = "the fields have C's names")]
            pub struct $name { $(pub $field: $t,)* }
            const _: () = assert!(size_of::<$name>() == 0 $(+ size_of::<$t>())*, "padding must be spelled \
                out");
            impl $crate::abi::layout::Sealed for $name {}
            impl $crate::abi::Layout for $name {
                const C_NAME: &str = $c;
                const FIELDS: &[(&str, usize, usize)] =
                    &[$((stringify!($field), core::mem::offset_of!($name, $field), size_of::<$t>())),*];
            }
        )*
    };
}
pub(crate) use layouts;
