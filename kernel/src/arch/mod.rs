//! The one door to the processor. Portable rooms say `arch::mmu::...`, never an architecture's name; this
//! file holds the kernel's only `cfg(target_arch)`.
//!
//! What an architecture owes is [`contract`]; `docs/porting.md` tells it as a story.

#[cfg(target_arch = "x86_64")]
#[path = "x86_64/mod.rs"]
mod imp;

#[cfg(target_arch = "aarch64")]
#[path = "arm64/mod.rs"]
mod imp;

#[cfg(target_arch = "arm")]
#[path = "arm/mod.rs"]
mod imp;

#[cfg(target_arch = "powerpc64")]
#[path = "powerpc64/mod.rs"]
mod imp;

pub mod above;
mod contract;
pub mod devices;
mod events;
pub mod index;
mod irq_calls;
pub mod jump_table;
#[cfg(target_pointer_width = "64")]
mod linear;
pub mod nofault;
mod pages;
pub mod register_set;
pub mod settings;
mod site_entry;
pub mod site_table;
pub mod stack_calls;
pub mod stub_calls;
mod vdso_calls;
mod windows;

pub use imp::*;

/// What the log needs.
pub static LOG: crate::log::Machine = crate::log::Machine {
    write: console::write,
    now_ns: time::now_ns,
};

/// An old ABI of the architecture, whose programs the kernel runs as well.
#[derive(Clone, Copy)]
pub struct OldAbi {
    /// `AUDIT_ARCH_*`: what seccomp filters and tracers call it.
    pub audit_arch: u32,
    /// The number of its first call; none of another ABI is as large.
    pub first: usize,
}

/// The ABI of the architecture's 32-bit programs, whose system calls 64-bit programs can make as well.
pub struct CompatAbi {
    /// `AUDIT_ARCH_*`: what seccomp filters and tracers call it.
    pub audit_arch: u32,
    /// Its numbers.
    pub numbers: limen_linux_abi::sysno::Abi,
}

/// A system call's handler, as the tables have it: returns what goes into the result register.
pub type Handler = fn(&mut frame::Frame) -> usize;

/// Assembler text for the address of a label, as wide as a pointer.
#[cfg(target_pointer_width = "64")]
macro_rules! mark_address {
    ($label:literal) => {
        concat!(".quad ", $label)
    };
}
#[cfg(target_pointer_width = "32")]
macro_rules! mark_address {
    ($label:literal) => {
        concat!(".long ", $label)
    };
}
pub(crate) use mark_address;
