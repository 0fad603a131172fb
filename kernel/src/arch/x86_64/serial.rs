//! Where the machine's serial ports are.

use super::cpu::{inb, outb};
use super::interrupt::{Irq, LEVEL, LOW};
use crate::arch::devices::SerialKind;
use alloc::vec::Vec;

/// A port's registers: here, I/O ports.
#[derive(Debug)]
pub struct SerialRegisters(u16);

impl SerialRegisters {
    /// Reads byte register `n`.
    pub fn read(&self, n: usize) -> u8 {
        // SAFETY: the ports belong to the serial port found there.
        unsafe { inb(self.0 + n as u16) }
    }
    /// Writes byte register `n`.
    pub fn write(&self, n: usize, value: u8) {
        // SAFETY: the ports belong to the serial port found there.
        unsafe { outb(self.0 + n as u16, value) }
    }
    /// Reads the 32-bit register at `offset`: this machine has none.
    pub fn read32(&self, offset: usize) -> u32 {
        u32::from(self.read(offset))
    }
    /// Writes the 32-bit register at `offset`.
    pub fn write32(&self, offset: usize, value: u32) {
        self.write(offset, value as u8);
    }
}

/// A serial port of the machine.
pub struct Serial {
    /// What it is, with its registers.
    pub kind: SerialKind,
    /// Its interrupt.
    pub irq: Irq,
}

/// The machine's serial ports, the console first.
pub fn ports() -> Vec<Serial> {
    /// COM1 and COM2: first I/O port, ISA interrupt.
    const PLACES: [(u16, u8); 2] = [(0x3f8, 4), (0x2f8, 3)];
    /// A register of a 16550 that keeps what is written to it.
    const SCRATCH: usize = 7;
    const PATTERN: u8 = 0xa5;
    let mut found = Vec::new();
    for (base, line) in PLACES {
        let registers = SerialRegisters(base);
        registers.write(SCRATCH, PATTERN);
        if registers.read(SCRATCH) != PATTERN {
            continue;
        }
        let moved = super::acpi::machine().overrides.iter().find(|o| o.source == line);
        let irq = moved.map_or(Irq(u32::from(line)), |o| {
            Irq(o.gsi | if o.trigger.level { LEVEL } else { 0 } | if o.trigger.low { LOW } else { 0 })
        });
        found.push(Serial {
            kind: SerialKind::Uart16550(registers),
            irq,
        });
    }
    found
}
