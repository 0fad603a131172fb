//! The arm64 processor: see `arch/contract.rs` for what each file owes. What the two Arms share is in
//! `arm_common`.

#[path = "../arm_common/asid.rs"]
mod asid;
mod bbm;
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
#[path = "../arm_common/descriptor.rs"]
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
mod emulate;
pub mod entry;
pub mod exception;
pub mod exits;
#[path = "../extable.rs"]
mod extable;
mod float;
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
#[path = "../large_copy.rs"]
mod large_copy;
#[path = "../last_fault.rs"]
mod last_fault;
#[path = "../line.rs"]
mod line;
#[path = "../memory_functions.rs"]
mod memory_functions;
#[path = "../arm_common/messages.rs"]
mod messages;
pub mod mmu;
pub mod module;
#[path = "../moves.rs"]
mod moves;
#[path = "../no_compat.rs"]
mod no_compat;
#[path = "../one_abi.rs"]
mod one_abi;
pub mod patch;
#[path = "../arm_common/platform.rs"]
pub mod platform;
#[path = "../arm_common/psci.rs"]
mod psci;
mod refuse;
pub mod regset;
mod regset_sve;
#[path = "../arm_common/serial.rs"]
pub mod serial;
pub mod signal;
mod signal_vectors;
pub mod sites;
#[path = "../arm_common/smp.rs"]
pub mod smp;
pub mod stack;
mod sve;
pub mod switch;
pub mod syscalls;
mod sysreg;
#[path = "../arm_common/time.rs"]
pub mod time;
pub mod uaccess;
#[path = "../user_copies.rs"]
mod user_copies;
pub mod vdso;
mod vectors;
mod window;

pub use cpu::hwcap;

/// The name `uname` and the tools use.
pub const UTS_MACHINE: &str = "aarch64";
/// `AT_PLATFORM` of the auxiliary vector.
pub const fn elf_platform() -> &'static str {
    "aarch64"
}
/// `e_machine` of the programs this kernel runs.
pub const ELF_MACHINE: u16 = 183;
/// `e_flags` of core files.
pub const ELF_CORE_FLAGS: u32 = 0;
/// `AUDIT_ARCH_*` of the native ABI: what seccomp filters and `SIGSYS` call it.
pub const AUDIT_ARCH: u32 = 0xc000_00b7;

/// Whether `clone` takes the thread-local-storage value before the child's id word
/// (`CONFIG_CLONE_BACKWARDS`).
pub const CLONE_BACKWARDS: bool = true;
/// Where thread-local storage must begin below for `clone` to take it: anything goes.
pub const TLS_END: Option<usize> = None;

/// The system call table of the native ABI, built from the handlers the rooms register.
pub const NATIVE_ABI: limen_linux_abi::sysno::Abi = limen_linux_abi::sysno::AARCH64;

/// Builds the native system call table (see [`limen_linux_abi::syscall_table`]).
macro_rules! native_syscall_table {
    ($handlers:expr, $default:expr, $len:expr) => {
        limen_linux_abi::syscall_table!(aarch64, $handlers, $default, $len)
    };
}
pub(crate) use native_syscall_table;

/// What only this architecture's programs find in the auxiliary vector: nothing.
pub fn more_auxv(_platform: usize) -> impl Iterator<Item = (usize, usize)> {
    core::iter::empty()
}
