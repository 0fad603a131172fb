//! The x86_64 processor: see `arch/contract.rs` for what each file owes.

mod acpi;
mod apic;
pub mod boot;
pub mod console;
pub mod cpu;
pub mod cpuinfo;
mod cpus;
pub mod debug;
mod descriptor;
pub mod entry;
mod espfix;
pub mod exception;
pub mod exits;
#[path = "../extable.rs"]
mod extable;
mod fpu;
pub mod frame;
mod head;
#[path = "../helper.rs"]
mod helper;
mod i386;
pub mod interrupt;
pub mod irq;
pub mod jump_label;
pub mod kernel_map;
#[path = "../kernel_tables.rs"]
mod kernel_tables;
mod kmap;
#[path = "../last_fault.rs"]
mod last_fault;
mod ldt;
pub mod mmu;
pub mod module;
#[path = "../one_abi.rs"]
mod one_abi;
mod page;
pub mod patch;
pub mod platform;
mod pvh;
pub mod regset;
mod segments;
mod selector;
pub mod serial;
pub mod signal;
mod signal_fpu;
mod signal_i386;
pub mod sites;
pub mod smp;
pub mod stack;
pub mod switch;
pub mod syscalls;
mod tables;
mod thread_area;
pub mod time;
mod tlb;
pub mod uaccess;
pub mod vdso;

/// The name `uname` and the tools use.
pub const UTS_MACHINE: &str = "x86_64";
/// `AT_PLATFORM` of the auxiliary vector.
pub const fn elf_platform() -> &'static str {
    "x86_64"
}
/// `e_machine` of the programs this kernel runs.
pub const ELF_MACHINE: u16 = 62;
/// `e_flags` of core files.
pub const ELF_CORE_FLAGS: u32 = 0;
/// `AUDIT_ARCH_*` of the native ABI: what seccomp filters and `SIGSYS` call it.
pub const AUDIT_ARCH: u32 = 0xc000_003e;

/// Whether `clone` takes the thread-local-storage value before the child's id word
/// (`CONFIG_CLONE_BACKWARDS`).
pub const CLONE_BACKWARDS: bool = false;
/// Where thread-local storage must begin below for `clone` to take it: the register faults in the kernel if
/// its address is not canonical.
pub const TLS_END: Option<usize> = Some(mmu::USER_END);

/// The system call table of the native ABI, built from the handlers the rooms register.
pub const NATIVE_ABI: limen_linux_abi::sysno::Abi = limen_linux_abi::sysno::X86_64;

/// Builds the native system call table (see [`limen_linux_abi::syscall_table`]).
macro_rules! native_syscall_table {
    ($handlers:expr, $default:expr, $len:expr) => {
        limen_linux_abi::syscall_table!(x86_64, $handlers, $default, $len)
    };
}
pub(crate) use native_syscall_table;

/// What only this architecture's programs find in the auxiliary vector: nothing.
pub fn more_auxv(_platform: usize) -> impl Iterator<Item = (usize, usize)> {
    core::iter::empty()
}
