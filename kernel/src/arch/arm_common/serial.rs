//! Where the machine's serial ports are.

use super::interrupt::Irq;
use super::{devicetree, gic};
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
    let tree = devicetree::tree();
    let mut found = Vec::new();
    for node in tree.all_nodes() {
        let kind = if devicetree::is_compatible(&node, "arm,pl011") {
            SerialKind::Pl011
        } else if devicetree::is_compatible(&node, "ns16550a") {
            SerialKind::Uart16550
        } else {
            continue;
        };
        if !devicetree::enabled(&node) {
            continue;
        }
        let (Some((base, size)), Some((number, edge))) = (
            devicetree::reg(tree, &node).next(),
            devicetree::gic_interrupt(&node, 0),
        ) else {
            continue;
        };
        let registers = crate::mm::map_device(base, size as usize);
        if registers.is_null() {
            continue;
        }
        gic::set_edge(number, edge);
        found.push(Serial {
            kind,
            registers: SerialRegisters(registers),
            irq: Irq(number),
        });
    }
    // The tree's order is arbitrary: the lower address is the first port of QEMU's machines.
    found.sort_unstable_by_key(|s| s.registers.0 as usize);
    found
}
