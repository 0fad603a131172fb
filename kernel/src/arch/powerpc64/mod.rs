//! The 64-bit Power processor, little-endian, as a guest of a PAPR hypervisor (`pseries`): see
//! `arch/contract.rs` for what each file owes.

/// Lines of assembly for each `n` from 0 on, as many times as the last argument says.
macro_rules! each {
    ($($line:literal),+; $count:literal) => {
        concat!(".set n, 0\n.rept ", $count, "\n", $($line, "\n",)+ ".set n, n + 1\n.endr")
    };
}

/// Where a function in assembly begins: its name and its section.
macro_rules! function {
    ($name:literal, $section:literal) => {
        concat!(
            ".section ",
            $section,
            ", \"ax\", @progbits\n.irp f, ",
            $name,
            "\n.balign 64\n.globl \\f\n.type \\f, %function\n\\f:\n.endr"
        )
    };
}

pub mod boot;
mod cache;
pub mod console;
mod copy;
pub mod cpu;
pub mod cpuinfo;
mod cpus;
pub mod debug;
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
pub mod frame;
mod hcall;
mod head;
#[path = "../helper.rs"]
mod helper;
pub mod interrupt;
pub mod irq;
pub mod jump_label;
pub mod kernel_map;
#[path = "../kernel_tables.rs"]
mod kernel_tables;
mod kmap;
#[path = "../large_copy.rs"]
mod large_copy;
mod layout;
#[path = "../line.rs"]
mod line;
#[path = "../memory_functions.rs"]
mod memory_functions;
pub mod mmu;
pub mod module;
#[path = "../moves.rs"]
mod moves;
#[path = "../no_compat.rs"]
mod no_compat;
#[path = "../one_abi.rs"]
mod one_abi;
mod openfirmware;
pub mod patch;
mod pci;
mod pid;
pub mod platform;
mod radix;
pub mod regset;
mod rtas;
pub mod serial;
pub mod signal;
pub mod sites;
pub mod smp;
mod spr;
pub mod stack;
pub mod switch;
pub mod syscalls;
pub mod time;
mod tlb;
pub mod uaccess;
#[path = "../user_copies.rs"]
mod user_copies;
pub mod vdso;
mod window;

/// The name `uname` and the tools use.
pub const UTS_MACHINE: &str = "ppc64le";
/// `AT_PLATFORM` of the auxiliary vector.
pub use cpu::platform as elf_platform;
/// `e_machine` of the programs this kernel runs.
pub const ELF_MACHINE: u16 = 21;
/// `e_flags` of core files: version 2 of the ABI.
pub const ELF_CORE_FLAGS: u32 = 2;
/// `AUDIT_ARCH_*` of the native ABI: what seccomp filters and `SIGSYS` call it.
pub const AUDIT_ARCH: u32 = 0xc000_0015;

/// Whether `clone` takes the thread-local-storage value before the child's id word
/// (`CONFIG_CLONE_BACKWARDS`).
pub const CLONE_BACKWARDS: bool = true;
/// Where thread-local storage must begin below for `clone` to take it: anything goes.
pub const TLS_END: Option<usize> = None;

/// The system call table of the native ABI, built from the handlers the rooms register.
pub const NATIVE_ABI: limen_linux_abi::sysno::Abi = limen_linux_abi::sysno::POWERPC64;

/// Builds the native system call table (see [`limen_linux_abi::syscall_table`]).
macro_rules! native_syscall_table {
    ($handlers:expr, $default:expr, $len:expr) => {
        limen_linux_abi::syscall_table!(powerpc64, $handlers, $default, $len)
    };
}
pub(crate) use native_syscall_table;

/// What only this architecture's programs find in the auxiliary vector: the real platform's name, the sizes
/// of cache blocks (data, instructions, none that is both), and two entries to be ignored that old C
/// libraries use for alignment.
pub fn more_auxv(platform: usize) -> impl Iterator<Item = (usize, usize)> {
    const IGNORE: usize = 22;
    [
        (24, platform),
        (19, 128),
        (20, 128),
        (21, 0),
        (IGNORE, IGNORE),
        (IGNORE, IGNORE),
    ]
    .into_iter()
}
