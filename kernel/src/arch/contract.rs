//! What an architecture owes the portable rooms: each item once, with its type, what its errors mean, and
//! where it is called. The compiler checks the types for the architecture that is being built; nothing of it
//! is left at run time. The story beside it is `docs/porting.md`.
//!
//! Contexts, from the most to the least that may be done:
//! * thread: may sleep, interrupts on;
//! * atomic: in a thread or an interrupt, preemption or interrupts off, locks held: does not sleep, allocates
//!   nothing;
//! * this CPU: atomic, and it means the CPU it runs on: the caller keeps it there (preemption off), or takes
//!   what may be another's;
//! * interrupts off: so;
//! * boot: on the boot CPU, once, in the order of `boot`;
//! * any: atomic, and in an NMI or a panic, too: takes no lock that its interrupted self may hold.
//!
//! If nothing is said, a function cannot fail, and user addresses were checked to lie below
//! [`mmu::USER_END`].

use super::imp::{
    console, cpu, cpuinfo, debug, exits, frame, frame::Frame, interrupt, irq, jump_label, kernel_map, mmu,
    module, patch, platform, regset, serial, signal, sites, smp, stack, switch, syscalls, time, uaccess,
    vdso,
};
use crate::arch::devices::{PciConfig, VirtioMmio};
use crate::arch::jump_table::Jump;
use crate::arch::register_set::{RegisterSet, Requests, Step, VaryingSet};
use crate::arch::settings::Setting;
use crate::arch::stack_calls::OnStack;
use crate::arch::stub_calls::Call;
use crate::mm::kernel_map::{Area, Image, Run};
use crate::mm::text::Writable;
use crate::mm::{PhysAddr, Prot};
use crate::sched::{CpuData, cpu::CpuLocal, resume::Resume};
use crate::signal::{CompatRestored, Delivery, Restored};
use crate::task::ThreadInfo;
use crate::trace::backtrace;
use alloc::{string::String, vec::Vec};
use core::ops::RangeInclusive;
use limen_linear_map::Map;
use limen_linux_abi::{Errno, Restart, SysResult, sysno::Abi};

/// Items that have to be there, each of a type.
macro_rules! owed {
    ($($(#[doc = $says:literal])* $item:path => $type:ty;)*) => { $(const _: $type = $item;)* };
}

// `entry`, `exception` and `boot` are not called: they call. `boot` ends in `above::start` on the boot CPU
// with the kernel's map final (no page writable and executable), console, local block and exceptions working
// and interrupts off, and in `above::secondary` on each of the others. `entry` saves every general register
// into a `Frame` and calls one function of `threshold`, interrupts off; `exception` says which fault is what.

// The processor.
owed! {
    /// `AT_HWCAP` and `AT_HWCAP2`. Atomic.
    cpu::hwcap => fn() -> (usize, usize);
    /// Settings that only it has.
    cpu::SETTINGS => &'static [Setting];
    /// All bits if the index is below the length, none if it is not, without a branch that could be guessed
    /// wrong. Any.
    cpu::index_mask => fn(usize, usize) -> usize;
    /// A CPU's part of `/proc/cpuinfo`. Thread.
    cpuinfo::show => fn(usize, &mut String);
    /// What this CPU executes next is what memory holds now. This CPU.
    patch::synchronize => fn();
    /// Writes a word of text that nobody executes. The next: text has been written that this CPU may execute.
    /// Boot.
    patch::write => unsafe fn(*mut u32, u32);
    /// How a call is put together.
    patch::CALL => Call;
    patch::text_has_changed => fn();
    /// A backtrace of how the caller was called, and one from a frame on. Any.
    stack::here => fn() -> backtrace::Start;
    stack::from => fn(usize) -> backtrace::Start;
}

// Sites of functions, where tracers are called. A site is an entry of `site_table`.
owed! {
    /// How often all CPUs do `patch::synchronize` while a site is changed.
    sites::PHASES => usize;
    /// The address of its function, or near it. Any.
    sites::ip => fn(usize) -> usize;
    /// Where a pointer to the tracer is read, whose first word is the function to call. Any.
    sites::slot => fn(usize) -> usize;
    /// Where the word is that is changed. Any.
    sites::place => fn(usize) -> usize;
    /// What that word is to be: of the site, what it calls, what the word is, whether it is to call, and
    /// after which phase. Any.
    sites::word => fn(usize, usize, sites::Value, bool, usize) -> sites::Value;
    /// What a site of the image calls. Any.
    sites::trampoline => fn(usize) -> usize;
    /// What those of modules call, themselves or through a veneer (`limen_module::Tracing`). Any.
    sites::for_modules => fn() -> [usize; 2];
    /// Whether that word calls no tracer. Any.
    sites::is_off => fn(sites::Value) -> bool;
    /// Whether an address is in the code that calls tracers. Any.
    sites::is_trampoline => fn(usize) -> bool;
    /// What the traced function was called with. Any, by the tracer.
    sites::Entry::arg => fn(&sites::Entry, usize) -> Option<usize>;
    /// The register with a number of DWARF's; `None`: it was not saved.
    sites::Entry::register => fn(&sites::Entry, usize) -> Option<usize>;
    /// The same, where all registers were saved; `Saved::of` finds them.
    sites::Saved::register => fn(&sites::Saved, usize) -> Option<usize>;
    sites::Entry::sp => fn(&sites::Entry) -> usize;
    sites::Entry::set_ip => fn(&sites::Entry, usize);
    sites::Entry::set_parent => fn(&sites::Entry, usize);
}

// Places that are changed with a key (`jump_table`).
owed! {
    /// Bytes of a place.
    jump_label::SIZE => usize;
    /// How often all CPUs do `patch::synchronize` while a place is changed.
    jump_label::PHASES => usize;
    /// Stores what that phase of its change stores: a jump, or nothing that does anything. Thread.
    jump_label::store => unsafe fn(&Writable, &Jump, bool, usize);
}

// The ends of traced functions.
owed! {
    /// Where a function is to return to (`Entry::set_parent`) so that its return is traced: it calls
    /// `site_table::returned`, and returns where that says. Any.
    exits::return_address => fn() -> usize;
    /// What the function returned, if that is a number, and its stack pointer: that which `Entry::sp` said.
    /// Any, by the tracer.
    exits::Exit::value => fn(&exits::Exit) -> usize;
    exits::Exit::sp => fn(&exits::Exit) -> usize;
}

// The register file: `Frame` implements `limen_entry::Frame`, and these. Atomic, by the frame's holder.
owed! {
    /// Of a program that begins: entry point, stack pointer.
    Frame::new_user => fn(usize, usize) -> Frame;
    Frame::begin_program => fn(&mut Frame, usize, usize);
    Frame::ip => fn(&Frame) -> usize;
    Frame::set_ip => fn(&mut Frame, usize);
    Frame::sp => fn(&Frame) -> usize;
    Frame::set_sp => fn(&mut Frame, usize);
    /// The system call's arguments, by number from 0; they outlive the result.
    Frame::arg => fn(&Frame, usize) -> usize;
    Frame::set_arg => fn(&mut Frame, usize, usize);
    /// The system call's result, in the form that the ABI gives errors.
    Frame::set_result => fn(&mut Frame, Result<usize, Errno>);
    /// The same, but the register as it is to be.
    Frame::set_raw_result => fn(&mut Frame, usize);
    Frame::result => fn(&Frame) -> usize;
    /// It is not a system call's (any more).
    Frame::forget_syscall => fn(&mut Frame);
    /// User mode makes the same system call again.
    Frame::rewind_syscall => fn(&mut Frame);
    /// Signals come, and with them tracers and core files that look at the registers of an interrupted call;
    /// and the end of that: how the call restarts (as `restart` of the frame says, too), if it is to, after
    /// what a tracer made of the registers.
    Frame::interrupt_syscall => fn(&mut Frame) -> frame::Interrupted;
    Frame::resume_syscall => fn(&mut Frame, frame::Interrupted) -> Option<Restart>;
    /// The call does not run: as if it had not been made, or with this result register.
    Frame::roll_back_syscall => fn(&mut Frame);
    Frame::set_skipped_result => fn(&mut Frame, usize);
}
const _: fn(&Frame) -> bool = <Frame as limen_entry::Frame>::from_user;

// This CPU's interrupt flag. The `raw_` ones are for code that tells the lock validator itself, as
// `irq_calls` does for all others.
owed! {
    /// This CPU.
    irq::raw_disable => fn();
    /// Interrupts arrive before it returns. This CPU.
    irq::raw_enable => fn();
    /// Off, and how it was. This CPU.
    irq::raw_save => fn() -> irq::Flags;
    /// As it was. This CPU.
    irq::raw_restore => fn(irq::Flags);
    /// Off, with NMIs held off, too, where the processor can do that; `raw_restore` ends both. This CPU.
    irq::raw_save_nmis => fn() -> irq::Flags;
    /// Whether they were on.
    irq::Flags::enabled => fn(irq::Flags) -> bool;
    /// Whether they are on. Any.
    irq::enabled => fn() -> bool;
    /// On, and sleeps until one arrives, without a gap in between. The idle thread, interrupts off.
    irq::enable_and_wait => fn();
    /// A hint inside a spinning loop. Any.
    irq::spin_hint => fn();
    irq::local_disable => fn();
    irq::local_enable => fn();
    irq::local_save => fn() -> irq::Flags;
    irq::local_restore => fn(irq::Flags);
}

// Interrupts of devices and other CPUs.
owed! {
    /// Interrupts a CPU, perhaps this one. Atomic.
    interrupt::send_ipi => fn(usize, interrupt::Ipi);
    /// Interrupts a CPU, perhaps this one, even where its interrupts are off: it tells `sched::nmi::came`.
    /// `false`: the machine cannot. Atomic.
    interrupt::send_nmi => fn(usize) -> bool;
    /// Calls the handler, with interrupts off, whenever the line or message comes, from now on. Thread.
    /// Errors: `EBUSY` if it is taken, `EINVAL` or `ENODEV` if there is no such line, `ENOSPC` if there
    /// is no room.
    interrupt::request => fn(interrupt::Irq, &'static str, interrupt::Handler) -> Result<(), Errno>;
    /// Address and data of a message, and its interrupt; `None` if there are no more. Thread.
    interrupt::allocate_msi => fn() -> Option<(u64, u32, interrupt::Irq)>;
}

// The CPUs.
owed! {
    /// This CPU's block. This CPU.
    smp::cpu_local => fn() -> *const CpuLocal;
    /// Its number, less than `MAX_CPUS`. This CPU.
    smp::cpu_id => fn() -> usize;
    /// What the scheduler has for it; null before there is a scheduler. This CPU.
    smp::cpu_data => fn() -> *const CpuData;
    /// The running thread's. Any, from the first line of portable code on; the same within a function, so the
    /// compiler may ask once: code that makes another thread the running one, other than by switching stacks,
    /// must call what comes after as a function of its own.
    smp::current => fn() -> *const ThreadInfo;
    /// The same, asked again where keeping it costs more than that. Any.
    smp::current_again => fn() -> *const ThreadInfo;
    /// The thread that runs, and the top of its kernel stack. Interrupts off, on that stack or about to be.
    smp::set_current => unsafe fn(*const ThreadInfo, usize);
    /// How many CPUs there are. Any.
    smp::count => fn() -> usize;
    /// Starts a CPU: number, block, top of its stack, what is to be done before sizes of the kernel's map
    /// cease to change live, if the CPU cannot bear that. Thread, one at a time. Errors, for the log: what
    /// the firmware or the last of these says, `ETIMEDOUT` if it is not heard of. The block and the stack
    /// stay its own even then, and it does not use the kernel's map.
    smp::start => fn(usize, &'static CpuLocal, usize, fn() -> Result<(), Errno>) -> Result<(), Errno>;
}

// Time.
owed! {
    /// Nanoseconds since some moment of boot: monotonic, the same on every CPU. Any.
    time::now_ns => fn() -> u64;
    /// This CPU's timer interrupt comes at, or soon after, this time; at once if that has gone by, never if
    /// it is `u64::MAX`. Interrupts off.
    time::set_event => fn(u64);
    /// The counter's value when `now_ns` was 0, and nanoseconds per step, 32.32 fixed point. Boot.
    time::clock_parameters => fn() -> (u64, u64);
    /// The counter itself as a clock of traces, if Linux has it among those: its name there, and its value.
    /// Any.
    time::COUNTER => Option<(&'static str, fn() -> u64)>;
    /// A fast counter whose low bits nobody can foretell. Any, early entry code as well.
    time::cycles => fn() -> u64;
}

// The address layout.
owed! {
    /// What `pages` says.
    mmu::PAGE_SHIFT => usize;
    /// One past the last user address, a multiple of the page size.
    mmu::USER_END => usize;
    /// Levels of a user page table; level 0 holds pages, `LEVELS - 1` is the root.
    mmu::LEVELS => usize;
    /// log2 of the entries of one table; of a table of pages; of the root.
    mmu::TABLE_SHIFT => usize;
    mmu::LEAF_SHIFT => usize;
    mmu::ROOT_SHIFT => usize;
    /// The kernel's addresses for stacks, device registers and the like: first, one past the last.
    mmu::VMAP => (usize, usize);
    /// Where code of modules must be so that its branches reach the kernel, nothing else: outside `VMAP`, or
    /// at the end of what is used of it. Empty: anywhere in `VMAP`.
    mmu::MODULES => (usize, usize);
    /// What user mode sees of the kernel's part: start, end, name.
    mmu::GATE => Option<(usize, usize, &'static str)>;
    /// What is there.
    mmu::gate => fn() -> &'static [u8];
    /// Each of these permissions lets user mode load.
    mmu::READABLE => Prot;
    /// Whether there may be memory that the linear map has no room for; it begins at `linear_end`, and
    /// `View` reaches it.
    mmu::HIGH_MEMORY => bool;
    mmu::linear_end => fn() -> u64;
    mmu::View::new => fn(PhysAddr) -> mmu::View;
    mmu::View::as_ptr => fn(&mmu::View) -> *mut u8;
    /// The linear map, both ways. Any.
    mmu::phys_to_virt => fn(PhysAddr) -> *mut u8;
    mmu::virt_to_phys => fn(*const u8) -> PhysAddr;
}

const _: () = assert!(
    mmu::PAGE_SHIFT == super::pages::SHIFT,
    "this processor has no pages of that size"
);

// Page table entries, as values: what is in memory, in the processor's order.
owed! {
    mmu::Entry::EMPTY => mmu::Entry;
    mmu::Entry::user_page => fn(PhysAddr, Prot) -> mmu::Entry;
    /// At a level, of a kind of memory.
    mmu::Entry::kernel_leaf => fn(PhysAddr, Prot, mmu::MemoryKind, usize) -> mmu::Entry;
    /// A pointer to a table of a level.
    mmu::Entry::table => fn(PhysAddr, usize) -> mmu::Entry;
    mmu::Entry::is_empty => fn(mmu::Entry) -> bool;
    mmu::Entry::is_table => fn(mmu::Entry) -> bool;
    mmu::Entry::phys => fn(mmu::Entry) -> PhysAddr;
    mmu::Entry::prot => fn(mmu::Entry) -> Prot;
    /// Of the kernel's map at a level, as `crates/linear-map` has it, both ways.
    mmu::Entry::kernel => fn(mmu::Entry, usize) -> limen_linear_map::Entry;
    mmu::Entry::of_kernel => fn(limen_linear_map::Entry, usize) -> mmu::Entry;
    /// As a number, to reckon with, both ways.
    mmu::Entry::number => fn(mmu::Entry) -> u64;
    mmu::Entry::of_number => fn(u64) -> mmu::Entry;
    /// `None`: it is so already.
    mmu::Entry::write_protected => fn(mmu::Entry) -> Option<mmu::Entry>;
    mmu::Entry::with_prot => fn(mmu::Entry, Prot) -> mmu::Entry;
}

/// How entries in memory are read and written: with the lock of their table, or to be looked at only. What is
/// stored is seen after everything before it.
const _: fn(&mmu::Slot) -> mmu::Entry = |slot| {
    mmu::store_slot(slot, mmu::Entry::EMPTY.0);
    // At once, but in any order: a barrier follows.
    mmu::store_unordered(slot, mmu::Entry::EMPTY.0);
    // Zero only if the entry is empty.
    let _ = mmu::load_part(slot) == 0;
    mmu::Entry(mmu::load_slot(slot))
};

// Address spaces and the TLB.
owed! {
    /// What an address space has of the processor: its numbers in TLBs.
    mmu::MmContext::new => fn() -> mmu::MmContext;
    /// For a copy, of what a child inherits. Thread.
    mmu::MmContext::copied => fn(&mmu::MmContext) -> mmu::MmContext;
    /// Fills a zeroed root with what all share. Thread.
    mmu::init_user_root => fn(PhysAddr);
    /// The root of the kernel's own table.
    mmu::kernel_root => fn() -> PhysAddr;
    /// This CPU's user addresses are that address space's, which stays. Interrupts off.
    mmu::switch_to => fn(PhysAddr, &mmu::MmContext);
    /// This CPU has no user addresses. Interrupts off.
    mmu::switch_to_kernel => fn();
    /// When it returns no CPU uses translations of that range from before: start, end, whether tables were
    /// freed. Interrupts on, no spinlock held that is taken with them off.
    mmu::flush_user => fn(&mmu::MmContext, usize, usize, bool);
    /// An entry became valid, or gained permission (`true`): the access is tried again. Atomic.
    mmu::update_user => fn(&mmu::MmContext, usize, bool);
    /// As `flush_user`, of the kernel's addresses.
    mmu::flush_kernel => fn(usize, usize);
    /// Entries of the kernel's addresses became valid, and are used next. Atomic.
    mmu::update_kernel => fn(usize, usize);
    /// A page's content can be executed. Atomic.
    mmu::sync_instructions => fn(PhysAddr);
    /// Pages of the caller's. Atomic.
    mmu::clear_page => fn(PhysAddr);
    /// To, from.
    mmu::copy_page => fn(PhysAddr, PhysAddr);
}

// The kernel's own map, as `crates/linear-map` knows it. Addresses and tables are as the processor's tables
// count. Any.
owed! {
    /// The form of the tables, the processor's rule for sizes, the root.
    kernel_map::map => fn() -> Map;
    /// Where the image lies in memory.
    kernel_map::image => fn() -> Image;
    /// Whether all leaves are to be pages, though nobody asked for it. Boot.
    kernel_map::wants_pages => fn() -> bool;
    /// An address as the tables count.
    kernel_map::address => fn(usize) -> u64;
    /// No CPU keeps a translation of the range from before: start, end, the lowest and the highest level of
    /// leaves, whether tables were taken out as well. Any, with the map's lock; returns when it is so.
    kernel_map::invalidate => fn(u64, u64, (usize, usize), bool);
    /// The parts of the kernel's addresses, the linear map first.
    kernel_map::areas => fn() -> [Area; kernel_map::AREAS];
    /// Writes a line of `kernel_page_tables`, with this processor's words; whether they have the memory's
    /// address.
    kernel_map::show => fn(&mut dyn core::fmt::Write, &Run) -> core::fmt::Result;
    kernel_map::SHOWS_MEMORY => bool;
    /// Self-tests of what only this processor's map has.
    kernel_map::TESTS => &'static [crate::selftest::Test];
}

// User memory, in a thread. A page that is not there is brought in, which may sleep; where that is forbidden
// (`mm::user`) and where there is none, it is a fault. The window to user memory is open only inside these.
owed! {
    /// To, from, length: how many bytes were *not* copied, up to the very byte.
    uaccess::copy_from_user => unsafe fn(*mut u8, usize, usize) -> usize;
    uaccess::copy_to_user => unsafe fn(usize, *const u8, usize) -> usize;
    uaccess::clear_user => unsafe fn(usize, usize) -> usize;
    /// To, from, most bytes: its length without the NUL, the most if there was none; `None` on a fault.
    uaccess::copy_string_from_user => unsafe fn(*mut u8, usize, usize) -> Option<usize>;
    /// At any address; `None` or `false` on a fault.
    uaccess::get_u32 => unsafe fn(usize) -> Option<u32>;
    uaccess::put_u32 => unsafe fn(usize, u32) -> bool;
    uaccess::get_u64 => unsafe fn(usize) -> Option<u64>;
    uaccess::put_u64 => unsafe fn(usize, u64) -> bool;
    uaccess::get_pair => unsafe fn(usize) -> Option<[u64; 2]>;
    uaccess::put_pair => unsafe fn(usize, [u64; 2]) -> bool;
    /// 16 of every 64 bits, so many times: `poll`'s results.
    uaccess::put_u16s => unsafe fn(usize, *const u8, usize) -> bool;
    /// Of a futex, naturally aligned, in order with what is before and after. `None` on a fault.
    uaccess::load_u32 => unsafe fn(usize) -> Option<u32>;
    /// Address, expected, new: what was there.
    uaccess::cmpxchg_u32 => unsafe fn(usize, u32, u32) -> Option<u32>;
    /// A `struct rseq`'s identifiers, to be stored if others are found; those found, and `rseq_cs`.
    uaccess::exchange_rseq => unsafe fn(usize, [u64; 2]) -> Option<[u64; 3]>;
    /// Whether a legacy `struct rseq` says what its thread was told, and no critical section: see each.
    uaccess::rseq_as_told::<0, 4> => unsafe fn(*const u8) -> bool;
    /// Where to go on if the instruction there faults for good. In an exception.
    uaccess::fixup => fn(usize) -> Option<usize>;
    /// Of the kernel's memory (`nofault`): what may fault is the function's first instruction. Address,
    /// where the word goes or the word; 0 on a fault. Any.
    uaccess::nofault_load => unsafe extern "C" fn(usize, *mut u32) -> usize;
    uaccess::nofault_store => unsafe extern "C" fn(usize, u32) -> usize;
}

// Modules: the type `module::Format` is the machine of their objects (`crates/module`).
owed! {
    /// Functions that compilers of this processor call without being asked: name, address.
    module::HELPERS => &'static [(&'static str, module::Helper)];
}

// Threads: what is kept of one that does not run.
owed! {
    switch::Context::running => fn() -> switch::Context;
    /// The stack pointer with which it goes on. By who keeps it from running.
    switch::Context::sp => fn(&switch::Context) -> usize;
    /// A thread that begins with a frame at the top of its stack: stack, frame.
    switch::Context::new => fn(usize, &Frame) -> switch::Context;
    /// As the running thread is, whose context is given, but for another stack pointer and thread pointer, if
    /// any. Thread.
    switch::Context::fork_from => fn(&mut switch::Context, &switch::Context, Option<usize>, Option<usize>);
    /// What the running thread, whose context is the second, has besides what fork copies goes to a context
    /// made by `fork_from`, or comes back. Atomic.
    switch::Context::exchange_rest => fn(&mut switch::Context, &mut switch::Context);
    /// The running thread's: a program begins. Thread.
    switch::Context::reset_for_exec => fn(&mut switch::Context);
    /// Where a stack that begins there has the frame of user mode. Any.
    switch::user_frame => fn(usize) -> *mut Frame;
    /// The caller's stack pointer. Any.
    switch::stack_pointer => fn() -> usize;
    /// Bytes below it that a function that calls none may use.
    switch::RED_ZONE => usize;
}

/// On another stack: its top, the function's argument. Interrupts off.
const _: unsafe fn(usize, *mut u8) = |top, data| {
    struct Nothing;
    impl OnStack for Nothing {
        extern "C" fn run(_: *mut u8) {}
    }
    // SAFETY: never called.
    unsafe { switch::call_on_stack::<Nothing>(top, data) }
};

/// From a context to another; returns when the first runs again, after `resumed` if it asked for that
/// (`Context::resume`). Everything user mode can write goes with it: `programs/registers/apart.h` lists that.
/// Interrupts off.
const _: unsafe fn(*mut switch::Context, *const switch::Context) -> Resume = |from, to| {
    // SAFETY: never called.
    unsafe { switch::switch(from, to, || ()) };
    // SAFETY: never called.
    unsafe { (*to).resume }
};

// Signals.
owed! {
    /// Builds a signal frame and goes to the handler. Thread. Errors: `EFAULT` if it cannot be written.
    signal::setup => fn(&mut Frame, &Delivery<'_>) -> Result<(), Errno>;
    /// Takes everything back from the signal frame at the stack pointer, checked. Thread. Errors: `EFAULT` if
    /// it cannot be read, or is none.
    signal::restore => fn(&mut Frame) -> Result<Restored, Errno>;
    /// The same two for handlers that calls of 32-bit programs have set, where 64-bit programs make such. The
    /// first also gets the stack that an old action names instead of a restorer; the second is told whether
    /// the frame has a `siginfo_t`. Thread. Errors: as above.
    signal::setup_compat => fn(&mut Frame, &Delivery<'_>, Option<usize>) -> Result<(), Errno>;
    signal::restore_compat => fn(&mut Frame, bool) -> Result<CompatRestored, Errno>;
    /// Whether a program goes on there behind the system call of the kernel's own code to which handlers
    /// return. Thread.
    signal::is_trampoline => fn(usize) -> bool;
    /// `si_code` of the SIGSEGV for a bad one, if it is not the kernel's.
    signal::BAD_FRAME => Option<i32>;
    /// The least alternate stack.
    signal::MIN_STACK_SIZE => usize;
    /// `AT_MINSIGSTKSZ`.
    signal::min_frame_size => fn() -> usize;
}

// Tracers. A frame and a context are those of a thread that sleeps. Atomic.
owed! {
    /// The register sets, general registers first.
    regset::SETS => &'static [RegisterSet];
    /// Those whose size is not the same for all threads.
    regset::VARYING => &'static [VaryingSet];
    /// Numbers of sets that threads never have, and the error for a tracer that asks for them.
    regset::NEVER => &'static [(RangeInclusive<usize>, Errno)];
    /// Requests whose numbers are its own.
    regset::REQUESTS => Requests;
    /// Bytes of the `USER` area, and the set and place there of a word of it.
    regset::USER_SIZE => usize;
    regset::user_word => fn(usize) -> Option<(usize, usize)>;
    /// Makes it trap after its next instruction or branch, or not; whether it did. `None`: it cannot.
    regset::stepping => fn(&mut Frame, &mut switch::Context, Option<Step>) -> Option<bool>;
    /// Whether a step has to be begun on the way to user mode; does that for the running thread, whose frame
    /// it is. Returns whether the step is done already. Thread.
    regset::STEPS_BY_SOFTWARE => bool;
    regset::STEP_OVER_CALL => Option<i32>;
    regset::begin_step => fn(&mut Frame) -> bool;
    /// A thread's breakpoints and watchpoints (`Context::debug`): none; whether there are any; they become
    /// this CPU's, which may keep those of a thread that ran before. Interrupts off.
    debug::Registers::NONE => debug::Registers;
    debug::Registers::is_used => fn(&debug::Registers) -> bool;
    debug::Registers::load => fn(&debug::Registers);
    /// What tells a tracer entry from exit (`true`) in the registers, and the end of that.
    regset::begin_stop => fn(&mut Frame, bool) -> usize;
    regset::end_stop => fn(&mut Frame, usize);
    /// After the stop at the entry: number and arguments are where the kernel looks for them.
    regset::changed_at_entry => fn(&mut Frame);
    /// The registers as a tracer sees them whom a filter asks about a call, and the end of that, as above.
    regset::begin_filter_stop => fn(&mut Frame);
    regset::end_filter_stop => fn(&mut Frame);
    /// The result at the stop at the exit, errors negative, and whether it is one.
    regset::result => fn(&Frame) -> (usize, bool);
    /// Another system call: its number; its arguments were set.
    regset::set_number => fn(&mut Frame, i32);
    regset::arguments_set => fn(&mut Frame);
}

// System calls.
owed! {
    /// Numbers.
    super::imp::NATIVE_ABI => Abi;
    /// Calls that only it has, by name. Thread.
    syscalls::HANDLERS => &'static [(&'static str, super::Handler)];
    /// A call beyond the table, if there is such a one: its result. Thread.
    syscalls::private => fn(&mut Frame) -> Option<usize>;
    /// The old ABI, if there is one: it has numbers of its own. The next: whether a program with these flags
    /// (`e_flags`) and this entry point is of it; `None`: it cannot run. Thread.
    syscalls::OLD_ABI => Option<super::OldAbi>;
    syscalls::program_is_old => fn(u32, usize) -> Option<bool>;
    /// A thread of such a program makes a call: finds out which, of which ABI. `false`: that cannot be read,
    /// and user mode makes the call again. Thread.
    syscalls::find_call => fn(&mut Frame) -> bool;
    /// What that has found, of such a thread's call: nothing; one of the old ABI. Atomic, by the frame's
    /// holder.
    syscalls::was_not_made => fn(&Frame) -> bool;
    syscalls::is_old_call => fn(&Frame) -> bool;
    /// The ABI of 32-bit programs, if 64-bit ones can make its calls. The next, of a frame: whether its call
    /// is one of them; the arguments of its call, whichever ABI's that is; they are others. Atomic, by the
    /// frame's holder.
    syscalls::COMPAT => Option<super::CompatAbi>;
    syscalls::is_compat => fn(&Frame) -> bool;
    syscalls::call_arg => fn(&Frame, usize) -> usize;
    syscalls::set_call_arg => fn(&mut Frame, usize, usize);
    /// A tracer has made the frame of an exception that of such a call, or a native one, to be restarted in
    /// this way: user mode makes it again. Thread, by the frame's holder.
    syscalls::restart_in_user_mode => fn(&mut Frame, Restart);
    /// Those programs' `set_thread_area` and `get_thread_area` of the `struct user_desc` there; what such a
    /// `clone` reads there for its child, and gives to the child's context. The first three: thread. Errors:
    /// `EFAULT`, `EINVAL`, `ESRCH`.
    syscalls::set_thread_area => fn(usize) -> SysResult;
    syscalls::get_thread_area => fn(usize) -> SysResult;
    syscalls::read_segment => fn(usize) -> Result<syscalls::Segment, Errno>;
    syscalls::give_segment => fn(&mut switch::Context, &syscalls::Segment);
    /// And their `arch_prctl`: option, argument. Thread. Errors: `EINVAL`, `ENODEV`.
    syscalls::compat_arch_prctl => fn(i32, usize) -> SysResult;
    /// Options only this architecture has: option, argument. Thread. Errors: `EINVAL` for those of others.
    syscalls::prctl => fn(&mut Frame, u32, usize) -> Result<usize, Errno>;
    /// The running thread enters seccomp's strict mode: what else it cannot do then. Thread.
    syscalls::enter_strict_mode => fn();
}

// The vDSO, in user mode: nothing there may call anything. `vdso_calls` has the functions.
owed! {
    vdso::VERSION => &'static str;
    /// The code to copy. Boot.
    vdso::text => fn() -> &'static [u8];
    /// Where handlers return to, if that is in the vDSO.
    vdso::sigreturn => fn() -> Option<usize>;
    /// What unwinders are told of that place, if they do not know by themselves.
    vdso::SIGNAL_FRAME => Option<limen_vdso::unwind::SignalFrame>;
    /// Where this copy begins.
    vdso::own_start => fn() -> usize;
    vdso::counter => fn() -> u64;
    /// Number, arguments.
    vdso::syscall2 => fn(usize, usize, usize) -> isize;
}

// The machine.
owed! {
    /// Bytes out, polled. Any.
    console::write => fn(&[u8]);
    /// The heap works: interrupt controller, CPUs, devices. Boot.
    platform::init => fn();
    /// What was found. Thread.
    platform::virtio_mmio => fn() -> Vec<VirtioMmio>;
    platform::pci => fn() -> Option<PciConfig>;
    serial::ports => fn() -> Vec<serial::Serial>;
    /// Thread.
    platform::power_off => fn() -> !;
    platform::reset => fn() -> !;
    /// As `power_off`, but tells that something went wrong where a machine can. Any.
    platform::panic_exit => fn() -> !;
    /// Seconds since 1970, if the machine knows. Thread.
    platform::wall_clock => fn() -> Option<u64>;
    /// Bytes of the machine's entropy, and how many. Boot.
    platform::entropy => fn(&mut [u8; 32]) -> usize;
}
