//! The local APIC (by memory, or by MSRs in x2APIC mode) and the I/O APICs.

use super::cpu::{self, Features, rdmsr, wrmsr};
use super::{acpi, cpus, irq};
use crate::sync::IrqSpinLock;
use core::sync::atomic::{AtomicUsize, Ordering};

const ID: usize = 0x20;
const TASK_PRIORITY: usize = 0x80;
const EOI: usize = 0xb0;
const SPURIOUS: usize = 0xf0;
/// In the spurious interrupt register: the APIC is on.
const SPURIOUS_ENABLE: u32 = 1 << 8;
const ICR: usize = 0x300;
const ICR_HIGH: usize = 0x310;
/// Local vector table: timer.
pub const LVT_TIMER: usize = 0x320;
const LVT_LINT0: usize = 0x350;
const LVT_LINT1: usize = 0x360;
const LVT_ERROR: usize = 0x370;
/// The timer's count to start from; writing starts it.
pub const TIMER_INITIAL: usize = 0x380;
/// The timer's count now.
pub const TIMER_CURRENT: usize = 0x390;
/// The timer's divider.
pub const TIMER_DIVIDE: usize = 0x3e0;
/// LVT: nothing is delivered.
pub const LVT_MASKED: u32 = 1 << 16;
const LVT_NMI: u32 = 4 << 8;
const ICR_PENDING: u32 = 1 << 12;
/// Interrupt command: INIT, asserted.
pub const ICR_INIT: u32 = 5 << 8 | 1 << 14;
/// Interrupt command: start-up, with the page number to start at.
pub const ICR_STARTUP: u32 = 6 << 8;
/// The vector of this CPU's timer.
pub const TIMER_VECTOR: u8 = 0xf0;
/// The vector for interrupts that went away before they were taken.
pub const SPURIOUS_VECTOR: u8 = 0xff;
const X2APIC_MSR: u32 = 0x800;
const X2APIC_ENABLE: u64 = 1 << 10;
const APIC_ENABLE: u64 = 1 << 11;

/// Where the registers are mapped; 0: not yet; [`BY_MSR`]: x2APIC.
static BASE: AtomicUsize = AtomicUsize::new(0);
const BY_MSR: usize = 1;

/// Chooses how the registers are reached. `mapped`: the address where they are mapped.
pub fn init(mapped: usize) {
    BASE.store(
        if cpu::has(Features::X2APIC) {
            BY_MSR
        } else {
            mapped
        },
        Ordering::Relaxed,
    );
}

/// Reads a register.
#[inline]
pub fn read(register: usize) -> u32 {
    match BASE.load(Ordering::Relaxed) {
        0 => 0,
        // SAFETY: the registers exist in this mode.
        BY_MSR => unsafe { rdmsr(X2APIC_MSR + (register as u32 >> 4)) as u32 },
        // SAFETY: the registers are mapped there.
        base => unsafe { ((base + register) as *const u32).read_volatile() },
    }
}

/// Writes a register.
#[inline]
pub fn write(register: usize, value: u32) {
    match BASE.load(Ordering::Relaxed) {
        0 => {}
        // SAFETY: the registers exist in this mode.
        BY_MSR => unsafe { wrmsr(X2APIC_MSR + (register as u32 >> 4), u64::from(value)) },
        // SAFETY: the registers are mapped there.
        base => unsafe { ((base + register) as *mut u32).write_volatile(value) },
    }
}

/// This CPU's identifier.
pub fn id() -> u32 {
    let id = read(ID);
    if BASE.load(Ordering::Relaxed) == BY_MSR {
        id
    } else {
        id >> 24
    }
}

/// Turns this CPU's APIC on: only the timer (masked until programmed) and NMIs.
pub fn enable() {
    // SAFETY: the register exists; its mode is the one chosen.
    unsafe {
        let mut base = rdmsr(cpu::MSR_APIC_BASE) | APIC_ENABLE;
        if BASE.load(Ordering::Relaxed) == BY_MSR {
            base |= X2APIC_ENABLE;
        }
        wrmsr(cpu::MSR_APIC_BASE, base);
    }
    write(TASK_PRIORITY, 0);
    write(LVT_TIMER, LVT_MASKED);
    write(LVT_LINT0, LVT_MASKED);
    write(LVT_LINT1, LVT_NMI);
    write(LVT_ERROR, LVT_MASKED);
    write(SPURIOUS, SPURIOUS_ENABLE | u32::from(SPURIOUS_VECTOR));
}

/// The interrupt under way is done.
#[inline(always)]
pub fn end_of_interrupt() {
    write(EOI, 0);
}

/// Sends an interrupt command to the CPU with identifier `to`.
pub fn send(to: u32, command: u32) {
    match BASE.load(Ordering::Relaxed) {
        0 => {}
        BY_MSR => {
            // Earlier stores must be visible before the interrupt is; the write of this MSR does not order
            // them.
            core::sync::atomic::fence(Ordering::SeqCst);
            // SAFETY: the register exists in this mode.
            unsafe {
                wrmsr(
                    X2APIC_MSR + (ICR as u32 >> 4),
                    u64::from(to) << 32 | u64::from(command),
                )
            }
        }
        _ => {
            let flags = irq::local_save();
            while read(ICR) & ICR_PENDING != 0 {
                irq::spin_hint();
            }
            write(ICR_HIGH, to << 24);
            write(ICR, command);
            irq::local_restore(flags);
        }
    }
}

/// Interrupts CPU `cpu` with `vector`.
pub fn send_vector(cpu: usize, vector: u8) {
    send(cpus::apic_id(cpu), u32::from(vector));
}

/// Interrupts CPU `cpu` with an NMI.
pub fn send_nmi(cpu: usize) {
    const NMI: u32 = 4 << 8;
    const ASSERT: u32 = 1 << 14;
    send(cpus::apic_id(cpu), NMI | ASSERT);
}

/// An I/O APIC's register that says, in bits 16 to 23, how many lines it has, less one.
const IO_VERSION: u32 = 1;
/// An I/O APIC's first register of lines: two for each, the upper one with the CPU in its highest byte.
const IO_LINES: u32 = 0x10;
/// In a line's lower register.
const IO_LOW: u32 = 1 << 13;
const IO_LEVEL: u32 = 1 << 15;
/// Where the number of an I/O APIC's register is written, and where its value is then.
const IO_SELECT: usize = 0;
const IO_WINDOW: usize = 0x10;
/// The mask registers of the two legacy interrupt controllers.
const PIC_MASKS: [u16; 2] = [0x21, 0xa1];

/// An I/O APIC, its registers mapped.
#[derive(Clone, Copy)]
struct Mapped {
    registers: usize,
    gsi_base: u32,
    lines: u32,
}

static IO_APICS: IrqSpinLock<[Option<Mapped>; 8]> = IrqSpinLock::new([None; 8]);

impl Mapped {
    fn read(&self, index: u32) -> u32 {
        // SAFETY: select, then data register, under the lock.
        unsafe {
            ((self.registers + IO_SELECT) as *mut u32).write_volatile(index);
            ((self.registers + IO_WINDOW) as *const u32).read_volatile()
        }
    }
    fn write(&self, index: u32, value: u32) {
        // SAFETY: select, then data register, under the lock.
        unsafe {
            ((self.registers + IO_SELECT) as *mut u32).write_volatile(index);
            ((self.registers + IO_WINDOW) as *mut u32).write_volatile(value);
        }
    }
}

/// Maps the I/O APICs and masks everything.
pub fn init_io() {
    for port in PIC_MASKS {
        // SAFETY: masks the lines of a legacy controller, which nothing uses.
        unsafe { cpu::outb(port, 0xff) };
    }
    let mut found = IO_APICS.lock();
    for (slot, io) in found.iter_mut().zip(acpi::machine().io_apics.iter()) {
        let registers = crate::mm::map_device(io.base, 0x20) as usize;
        if registers == 0 {
            continue;
        }
        let mut m = Mapped {
            registers,
            gsi_base: io.gsi_base,
            lines: 0,
        };
        m.lines = (m.read(IO_VERSION) >> 16 & 0xff) + 1;
        for line in 0..m.lines {
            m.write(IO_LINES + 2 * line, LVT_MASKED);
        }
        *slot = Some(m);
    }
}

/// Sends global interrupt `gsi` to the boot CPU as `vector`. `false` if there is no such line.
pub fn route(gsi: u32, vector: u8, level: bool, low: bool) -> bool {
    let found = IO_APICS.lock();
    for m in found.iter().flatten() {
        if gsi >= m.gsi_base && gsi - m.gsi_base < m.lines {
            let index = IO_LINES + 2 * (gsi - m.gsi_base);
            m.write(index + 1, cpus::apic_id(0) << 24);
            let low = if low { IO_LOW } else { 0 };
            let level = if level { IO_LEVEL } else { 0 };
            m.write(index, u32::from(vector) | low | level);
            return true;
        }
    }
    false
}
