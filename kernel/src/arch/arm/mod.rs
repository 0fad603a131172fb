//! The 32-bit Arm processor, v7-A, with long descriptors or (feature `short-descriptors`) short ones: see
//! `arch/contract.rs` for what each file owes. What the two Arms share is in `arm_common`.

mod align;
#[path = "../arm_common/asid.rs"]
mod asid;
#[path = "vexpress.rs"]
mod board;
#[path = "../arm_common/boot.rs"]
pub mod boot;
#[path = "../arm_common/console.rs"]
pub mod console;
mod copy;
pub mod cpu;
pub mod cpuinfo;
#[path = "../arm_common/cpus.rs"]
mod cpus;
pub mod debug;
#[cfg(not(feature = "short-descriptors"))]
#[path = "../arm_common/descriptor.rs"]
mod descriptor;
#[cfg(feature = "short-descriptors")]
#[path = "descriptor_short.rs"]
mod descriptor;
#[path = "../arm_common/devicetree.rs"]
mod devicetree;
#[path = "../devicetree_common/entropy.rs"]
mod devicetree_entropy;
#[path = "../devicetree_common/ranges.rs"]
mod devicetree_ranges;
#[path = "../devicetree_common/registers.rs"]
mod devicetree_registers;
#[path = "../devicetree_common/tree.rs"]
mod devicetree_tree;
pub mod entry;
pub mod exception;
pub mod exits;
#[path = "../extable.rs"]
mod extable;
#[cfg(not(feature = "short-descriptors"))]
#[path = "long.rs"]
mod format;
#[cfg(feature = "short-descriptors")]
#[path = "short.rs"]
mod format;
pub mod frame;
#[path = "../arm_common/gic.rs"]
mod gic;
mod head;
#[path = "../helper.rs"]
mod helper;
#[path = "../arm_common/image.rs"]
mod image;
#[path = "../arm_common/interrupt.rs"]
pub mod interrupt;
pub mod irq;
pub mod jump_label;
pub mod kernel_map;
#[path = "../kernel_tables.rs"]
mod kernel_tables;
mod kmap;
#[cfg(not(feature = "short-descriptors"))]
#[path = "kmap_long.rs"]
mod kmap_format;
#[cfg(feature = "short-descriptors")]
#[path = "kmap_short.rs"]
mod kmap_format;
mod kuser;
#[path = "../last_fault.rs"]
mod last_fault;
mod layout;
#[path = "../line.rs"]
mod line;
#[path = "../arm_common/messages.rs"]
mod messages;
pub mod mmu;
pub mod module;
#[path = "../no_compat.rs"]
mod no_compat;
mod oabi;
pub mod patch;
#[path = "../arm_common/platform.rs"]
pub mod platform;
#[path = "../arm_common/psci.rs"]
mod psci;
pub mod regset;
#[path = "../arm_common/serial.rs"]
pub mod serial;
pub mod signal;
pub mod sites;
#[path = "../arm_common/smp.rs"]
pub mod smp;
pub mod stack;
mod step;
pub mod switch;
pub mod syscalls;
mod sysreg;
#[path = "../arm_common/time.rs"]
pub mod time;
mod tlb;
pub mod uaccess;
pub mod vdso;
mod window;

pub use cpu::hwcap;

/// The name `uname` and the tools use.
pub const UTS_MACHINE: &str = "armv7l";
/// `AT_PLATFORM` of the auxiliary vector.
pub const fn elf_platform() -> &'static str {
    "v7l"
}
/// `e_machine` of the programs this kernel runs.
pub const ELF_MACHINE: u16 = 40;
/// `e_flags` of core files.
pub const ELF_CORE_FLAGS: u32 = 0;
/// `AUDIT_ARCH_*` of the native ABI: what seccomp filters and `SIGSYS` call it.
pub const AUDIT_ARCH: u32 = 0x4000_0028;

/// Whether `clone` takes the thread-local-storage value before the child's id word
/// (`CONFIG_CLONE_BACKWARDS`).
pub const CLONE_BACKWARDS: bool = true;
/// Where thread-local storage must begin below for `clone` to take it: anything goes.
pub const TLS_END: Option<usize> = None;

/// The system call table of the native ABI, built from the handlers the rooms register.
pub const NATIVE_ABI: limen_linux_abi::sysno::Abi = limen_linux_abi::sysno::ARM_EABI;

/// Builds the native system call table (see [`limen_linux_abi::syscall_table`]).
macro_rules! native_syscall_table {
    ($handlers:expr, $default:expr, $len:expr) => {
        limen_linux_abi::syscall_table!(arm, $handlers, $default, $len)
    };
}
pub(crate) use native_syscall_table;

/// What only this architecture's programs find in the auxiliary vector: nothing.
pub fn more_auxv(_platform: usize) -> impl Iterator<Item = (usize, usize)> {
    core::iter::empty()
}
