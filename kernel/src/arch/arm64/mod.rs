//! The arm64 processor: see `arch/mod.rs` for what each file owes.

mod asid;
pub mod boot;
pub mod console;
mod copy;
pub mod cpu;
pub mod cpuinfo;
mod devicetree;
mod emulate;
pub mod entry;
pub mod exception;
pub mod frame;
mod gic;
mod head;
pub mod interrupt;
pub mod irq;
mod kmap;
pub mod mmu;
pub mod patch;
pub mod platform;
mod psci;
pub mod serial;
pub mod signal;
pub mod smp;
pub mod stack;
pub mod switch;
pub mod syscalls;
mod sysreg;
pub mod time;
pub mod uaccess;
pub mod vdso;

pub use cpu::hwcap;

/// The name `uname` and the tools use.
pub const UTS_MACHINE: &str = "aarch64";
/// `AT_PLATFORM` of the auxiliary vector.
pub const ELF_PLATFORM: &str = "aarch64";
/// `e_machine` of the programs this kernel runs.
pub const ELF_MACHINE: u16 = 183;

/// Whether `clone` takes the thread-local-storage value before the child's id word (`CONFIG_CLONE_BACKWARDS`).
pub const CLONE_BACKWARDS: bool = true;

/// The system call table of the native ABI, built from the handlers the rooms register.
pub const NATIVE_ABI: limen_linux_abi::sysno::Abi = limen_linux_abi::sysno::AARCH64;

/// Builds the native system call table (see [`limen_linux_abi::syscall_table`]).
macro_rules! native_syscall_table {
    ($handlers:expr, $default:expr, $len:expr) => {
        limen_linux_abi::syscall_table!(aarch64, $handlers, $default, $len)
    };
}
pub(crate) use native_syscall_table;
