//! Where the machine's serial ports are: the hypervisor's terminals.

use super::interrupt::Irq;
use alloc::vec::Vec;

/// What kind of port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SerialKind {
    /// A 16550, byte-wide registers.
    Uart16550,
    /// An Arm PL011, 32-bit registers.
    Pl011,
}

/// A port's registers, mapped.
#[derive(Debug)]
pub struct SerialRegisters(*mut u8);

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
        // SAFETY: as above.
        unsafe { self.0.add(n).write_volatile(value) }
    }
    /// Reads the 32-bit register at `offset`.
    pub fn read32(&self, offset: usize) -> u32 {
        // SAFETY: as above; offsets are multiples of four.
        unsafe { self.0.add(offset).cast::<u32>().read_volatile() }
    }
    /// Writes the 32-bit register at `offset`.
    pub fn write32(&self, offset: usize, value: u32) {
        // SAFETY: as above.
        unsafe { self.0.add(offset).cast::<u32>().write_volatile(value) }
    }
}

/// A serial port of the machine.
pub struct Serial {
    /// What it is.
    pub kind: SerialKind,
    /// Its registers.
    pub registers: SerialRegisters,
    /// Its interrupt.
    pub irq: Irq,
}

/// The machine's serial ports, the console first.
pub fn ports() -> Vec<Serial> {
    Vec::new()
}
