//! The boot CPU's way from its first Rust line to [`crate::arch::above::start`] on the final kernel map.

use super::{acpi, apic, console, cpu, cpus, debug, descriptor, fpu, i386, kmap, pvh, time, uaccess};
use crate::arch::stub_calls;
use crate::mm::BootInfo;

/// The boot CPU's first Rust code. Nothing is behind it but the first tables (`head`).
#[inline(never)]
#[unsafe(link_section = ".init.text")]
pub extern "C" fn rust_start(start_info: u32) -> ! {
    // SAFETY: first thing on the boot CPU, interrupts off, once.
    unsafe {
        let local = cpus::init_boot_cpu();
        cpu::detect();
        cpu::enable();
        descriptor::init_idt();
        descriptor::load(local, descriptor::boot_stacks());
    }
    console::init();
    // SAFETY: the first tables still map the first 4 GiB at 0, and the image writable.
    let mut info = unsafe {
        uaccess::init();
        pvh::parse(start_info as usize)
    };
    stub_calls::adapt(pvh::command_line());
    if i386::is_wanted(pvh::command_line()) {
        descriptor::open_to_user(i386::VECTOR);
    }
    fpu::init();
    debug::init();
    // SAFETY: the tables ACPI leads to lie below 4 GiB, which the first tables still map.
    unsafe { acpi::parse(info.rsdp) };
    // The first tables map the local APIC at its physical address.
    apic::init(acpi::machine().local_apic as usize);
    apic::enable();
    time::calibrate();
    // SAFETY: once, on the boot CPU.
    unsafe { kmap::build(&mut info) };
    crate::arch::above::start(&BootInfo {
        memory: info.memory(),
        reserved: info.reserved(),
        initrd: info.initrd,
        command_line: pvh::command_line(),
    })
}
