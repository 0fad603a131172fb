//! The processors' relocations, a file each. Numbers and rules are those of the processors' ELF ABIs.

mod arm;
mod arm64;
mod powerpc64;
mod x86_64;

pub use arm::Arm;
pub use arm64::Arm64;
pub use powerpc64::Powerpc64;
pub use x86_64::X86_64;
