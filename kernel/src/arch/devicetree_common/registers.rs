//! A serial port whose registers lie in memory.

use super::interrupt::Irq;
use crate::arch::devices::SerialKind;

/// A port's registers, mapped.
#[derive(Debug)]
pub struct SerialRegisters(pub(super) *mut u8);

// SAFETY: device registers may be used from any CPU; the port's lock serialises.
unsafe impl Send for SerialRegisters {}

impl SerialRegisters {
    /// Reads byte register `n`.
    pub fn read(&self, n: usize) -> u8 {
        // SAFETY: the registers are mapped for good.
        unsafe { self.0.add(n).read_volatile() }
    }
    /// Writes byte register `n`.
    pub fn write(&self, n: usize, value: u8) {
        // SAFETY: the registers stay mapped; writing one has no effect on memory.
        unsafe { self.0.add(n).write_volatile(value) }
    }
    /// Reads the 32-bit register at `offset`.
    pub fn read32(&self, offset: usize) -> u32 {
        // SAFETY: the registers stay mapped; offsets are multiples of four.
        unsafe { self.0.add(offset).cast::<u32>().read_volatile() }
    }
    /// Writes the 32-bit register at `offset`.
    pub fn write32(&self, offset: usize, value: u32) {
        // SAFETY: the registers stay mapped; offsets are multiples of four.
        unsafe { self.0.add(offset).cast::<u32>().write_volatile(value) }
    }
}

/// A serial port of the machine.
pub struct Serial {
    /// What it is, with its registers.
    pub kind: SerialKind,
    /// Its interrupt.
    pub irq: Irq,
}
