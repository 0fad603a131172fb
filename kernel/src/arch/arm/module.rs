//! What loading modules needs of this processor.

pub use limen_module::Arm as Format;

pub use super::helper::Helper;

macro_rules! helpers {
    ($($name:ident)*) => {
        unsafe extern "C" {
            $(fn $name();)*
        }
        /// What the compiler calls without being asked: divisions, and arithmetic in 64 bits ("Run-time ABI
        /// for the Arm Architecture").
        pub const HELPERS: &[(&str, Helper)] = &[$((stringify!($name), Helper($name as *const ()))),*];
    };
}
helpers!(
    __aeabi_idiv __aeabi_idivmod __aeabi_lasr __aeabi_ldivmod __aeabi_llsl __aeabi_llsr __aeabi_lmul
    __aeabi_memclr __aeabi_memclr4 __aeabi_memclr8 __aeabi_memcpy __aeabi_memcpy4 __aeabi_memcpy8
    __aeabi_memmove __aeabi_memmove4 __aeabi_memmove8 __aeabi_memset __aeabi_memset4 __aeabi_memset8
    __aeabi_uidiv __aeabi_uidivmod __aeabi_uldivmod
);
