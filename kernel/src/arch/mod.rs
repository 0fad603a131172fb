//! The one door to the processor. Portable rooms say `arch::mmu::...`, never an architecture's name; this file holds the
//! kernel's only `cfg(target_arch)`.
//!
//! # What an architecture owes
//!
//! Each architecture is a folder with the same files; every item listed here must exist with this shape (the portable rooms are what
//! checks it: they do not compile otherwise). `docs/porting.md` tells it as a story.
//!
//! * `boot`: early entry from the boot protocol; builds [`crate::boot::BootInfo`] and calls [`crate::boot::start`]; secondaries call [`crate::boot::secondary`].
//! * `console`: `write(&[u8])` (polled, from any context), `init_input(fn(u8))` later.
//! * `entry`: the stubs (`entry.S` or `global_asm!`), `Frame` offsets generated from the Rust type.
//! * `exception`: decodes faults and calls `threshold::*` with the right handler.
//! * `frame`: `Frame` and `impl limen_entry::Frame for Frame`, plus the accessors listed in the stub.
//! * `interrupt` and `irq`: controller, lines, inter-processor interrupts; the interrupt flag of this CPU.
//! * `mmu`: page table entries, address layout, TLB, the kernel's own map.
//! * `uaccess`: copies that may fault.
//! * `switch`: `Context`, the switch, floating-point state, thread-local-storage register.
//! * `smp`: starting CPUs, this CPU's local block.
//! * `time`: the counter and the per-CPU one-shot event.
//! * `signal`: building and restoring signal frames.
//! * `patch`: changing code; `platform`: devices, power-off, panic exit.

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

mod irq_calls;
#[cfg(target_pointer_width = "64")]
mod linear;
mod vdso_calls;

pub use imp::*;

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
