//! The machine around the processor: devices found, power-off, reset.

use super::acpi::{self, Register};
use super::cpu::{self, Features, inb, outb, outw};
use super::interrupt::{Irq, LEVEL, LOW};
use super::{apic, cpus, irq};
use crate::arch::devices::PciConfig;
use crate::arch::devices::VirtioMmio;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Sleep control and reset registers in memory, mapped; 0 if they are ports or missing.
static SLEEP_REGISTER: AtomicUsize = AtomicUsize::new(0);
static RESET_REGISTER: AtomicUsize = AtomicUsize::new(0);

/// Called once on the boot CPU when the heap works: finds interrupt controller, timer, CPUs and devices.
#[inline(never)]
#[unsafe(link_section = ".init.text")]
pub fn init() {
    let m = acpi::machine();
    let mapped = crate::mm::map_device(m.local_apic, 0x1000) as usize;
    if mapped == 0 {
        panic!("the local APIC could not be mapped");
    }
    apic::init(mapped);
    apic::enable();
    apic::init_io();
    cpus::number(apic::id());
    super::time::start_cpu();
    for (register, slot) in [
        (m.sleep, &SLEEP_REGISTER),
        (m.reset.map(|r| r.0), &RESET_REGISTER),
    ] {
        if let Some(Register::Memory(address)) = register {
            slot.store(crate::mm::map_device(address, 4) as usize, Ordering::Relaxed);
        }
    }
}

/// The virtio-over-MMIO slots of this machine (empty ones included): those that ACPI names, and those of the
/// command line (`virtio_mmio.device=SIZE@BASE:IRQ`).
pub fn virtio_mmio() -> alloc::vec::Vec<VirtioMmio> {
    let mut slots: alloc::vec::Vec<VirtioMmio> = acpi::machine()
        .virtio
        .iter()
        .map(|s| VirtioMmio {
            base: s.base,
            size: s.size as usize,
            irq: Irq(s.gsi | if s.trigger.level { LEVEL } else { 0 } | if s.trigger.low { LOW } else { 0 }),
        })
        .collect();
    for word in crate::cmdline::words() {
        if let Some(slot) = word.strip_prefix("virtio_mmio.device=").and_then(parse_slot)
            && !slots.iter().any(|s| s.base == slot.base)
        {
            slots.push(slot);
        }
    }
    slots
}

/// `SIZE@BASE:IRQ`, as Linux's option of the same name.
fn parse_slot(text: &str) -> Option<VirtioMmio> {
    let number = |t: &str| match t.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => t
            .trim_end_matches(['K', 'k'])
            .parse::<u64>()
            .ok()
            .map(|n| if t.ends_with(['K', 'k']) { n << 10 } else { n }),
    };
    let (size, rest) = text.split_once('@')?;
    let mut parts = rest.split(':');
    let base = number(parts.next()?)?;
    let line = number(parts.next()?)?;
    Some(VirtioMmio {
        base,
        size: number(size)? as usize,
        irq: Irq(line as u32),
    })
}

/// The machine's PCI host bridge, if it has one.
pub fn pci() -> Option<PciConfig> {
    const IO_APIC_BASE: u64 = 0xfec0_0000;
    let (base, first, last) = acpi::machine().ecam?;
    let (low_end, high_end) = super::kmap::ram_ends();
    let ecam_end = base + ((u64::from(last - first) + 1) << 20);
    // QEMU's q35 puts the window between the configuration space (or RAM, whichever ends later) and the I/O
    // APIC.
    let start = ecam_end.max(low_end).next_multiple_of(1 << 24);
    let window32 = if start < IO_APIC_BASE {
        (start, IO_APIC_BASE - start)
    } else {
        (0, 0)
    };
    let start64 = high_end.max(1 << 32).next_multiple_of(1 << 30);
    let limit = 1u64 << (cpu::cpuid(0x8000_0008, 0).eax & 0xff).clamp(36, 46);
    let window64 = if start64 + (1 << 30) <= limit {
        (start64, (limit - start64).min(32 << 30))
    } else {
        (0, 0)
    };
    Some(PciConfig::Ecam {
        base,
        window32,
        window64,
    })
}

/// Turns the machine off; the host sees status 0.
pub fn power_off() -> ! {
    const SLEEP_ENABLE_16: u16 = 1 << 13;
    const SLEEP_ENABLE_8: u8 = 1 << 5;
    let m = acpi::machine();
    match m.sleep {
        // SAFETY: the register ACPI names for this purpose.
        Some(Register::Port(port)) => unsafe { outw(port, u16::from(m.s5_type) << 10 | SLEEP_ENABLE_16) },
        Some(Register::Memory(_)) => {
            let at = SLEEP_REGISTER.load(Ordering::Relaxed) as *mut u8;
            if !at.is_null() {
                // SAFETY: the sleep control register that ACPI names, mapped at `init`.
                unsafe { at.write_volatile(m.s5_type << 2 | SLEEP_ENABLE_8) };
            }
        }
        None => {}
    }
    // QEMU ends after the write, but not at once.
    irq::stop()
}

/// The keyboard controller's command port, and its command to pulse the processor's reset line.
const KEYBOARD_COMMAND: u16 = 0x64;
const PULSE_RESET: u8 = 0xfe;

/// Restarts the machine.
pub fn reset() -> ! {
    match acpi::machine().reset {
        // SAFETY: the register ACPI names for this purpose.
        Some((Register::Port(port), value)) => unsafe { outb(port, value) },
        Some((Register::Memory(_), value)) => {
            let at = RESET_REGISTER.load(Ordering::Relaxed) as *mut u8;
            if !at.is_null() {
                // SAFETY: the reset register that ACPI names, mapped at `init`.
                unsafe { at.write_volatile(value) };
            }
        }
        None => {}
    }
    // SAFETY: the keyboard controller pulses the processor's reset line.
    unsafe { outb(KEYBOARD_COMMAND, PULSE_RESET) };
    irq::stop()
}

/// The port of QEMU's `isa-debug-exit`, as `tools/limen` places it.
const DEBUG_EXIT: u16 = 0xf4;
/// What a panic writes to QEMU's `isa-debug-exit`; QEMU's status is then twice this plus one.
const PANIC_CODE: u8 = 0x31;

/// Ends the machine after a panic with the status the host knows as "kernel panic", or stops if it can't.
pub fn panic_exit() -> ! {
    if cpu::has(Features::HYPERVISOR) {
        // SAFETY: the debug-exit device if QEMU has it; nothing answers otherwise.
        unsafe { outb(DEBUG_EXIT, PANIC_CODE) };
    }
    irq::stop()
}

/// The real-time clock: the port for a register's number, and the one for its value.
const CMOS_INDEX: u16 = 0x70;
const CMOS_DATA: u16 = 0x71;
/// Its registers: seconds, minutes, hours, day, month, year, century.
const CMOS_TIME: [u8; 7] = [0, 2, 4, 7, 8, 9, 0x32];
const CMOS_STATUS_A: u8 = 0x0a;
const CMOS_STATUS_B: u8 = 0x0b;
const CMOS_STATUS_D: u8 = 0x0d;
/// Status A: the time is being updated.
const CMOS_UPDATING: u8 = 1 << 7;
/// Status B: numbers are binary (else two decimal digits); hours are 0 to 23 (else 1 to 12, and afternoon).
const CMOS_BINARY: u8 = 1 << 2;
const CMOS_24_HOURS: u8 = 1 << 1;
/// In the hours, if they are 1 to 12.
const CMOS_AFTERNOON: u8 = 1 << 7;
/// Status D: the time is valid.
const CMOS_VALID: u8 = 1 << 7;

/// Seconds since 1970 from the machine's real-time clock (CMOS, in UTC), `None` if there is none.
pub fn wall_clock() -> Option<u64> {
    let read = |register: u8| {
        // SAFETY: index and data port of the clock; reading has no effect on it. Bit 7 keeps NMIs as they are
        // (on).
        unsafe {
            outb(CMOS_INDEX, register);
            inb(CMOS_DATA)
        }
    };
    if read(CMOS_STATUS_D) & CMOS_VALID == 0 {
        return None;
    }
    let take = || CMOS_TIME.map(read);
    let mut fields = None;
    for _ in 0..1000 {
        if read(CMOS_STATUS_A) & CMOS_UPDATING != 0 {
            continue;
        }
        let first = take();
        if first == take() {
            fields = Some(first);
            break;
        }
    }
    let fields = fields?;
    let mode = read(CMOS_STATUS_B);
    let binary = mode & CMOS_BINARY != 0;
    let value = |v: u8| u64::from(if binary { v } else { (v >> 4) * 10 + (v & 15) });
    let hour = if mode & CMOS_24_HOURS != 0 {
        value(fields[2])
    } else {
        value(fields[2] & !CMOS_AFTERNOON) % 12 + if fields[2] & CMOS_AFTERNOON != 0 { 12 } else { 0 }
    };
    let century = match value(fields[6]) {
        c @ 19..=21 => c,
        _ => 20,
    };
    limen_vdso::clock::since_1970(
        [
            century * 100 + value(fields[5]),
            value(fields[4]),
            value(fields[3]),
        ],
        [hour, value(fields[1]), value(fields[0])],
    )
}

/// Up to 32 bytes of entropy from the machine (instructions); returns how many were filled.
pub fn entropy(out: &mut [u8; 32]) -> usize {
    let seed = cpu::has(Features::RDSEED);
    if !seed && !cpu::has(Features::RDRAND) {
        return 0;
    }
    let mut filled = 0;
    for chunk in out.chunks_exact_mut(8) {
        let mut got = None;
        for _ in 0..16 {
            let (value, ok): (u64, u8);
            // SAFETY: the instruction exists.
            unsafe {
                if seed {
                    core::arch::asm!(
                        "rdseed {}", "setc {}", out(reg) value, out(reg_byte) ok, options(nomem, nostack),
                    );
                } else {
                    core::arch::asm!(
                        "rdrand {}", "setc {}", out(reg) value, out(reg_byte) ok, options(nomem, nostack),
                    );
                }
            }
            if ok != 0 {
                got = Some(value);
                break;
            }
        }
        let Some(value) = got else { break };
        chunk.copy_from_slice(&value.to_le_bytes());
        filled += 8;
    }
    filled
}
