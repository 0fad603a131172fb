//! Where the machine's serial ports are.

use super::interrupt::Irq;
use super::{devicetree, gic};
use crate::driver::serial::SerialKind;
use alloc::vec::Vec;

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
    /// What it is, with its registers.
    pub kind: SerialKind,
    /// Its interrupt.
    pub irq: Irq,
}

/// The machine's serial ports, the console first.
pub fn ports() -> Vec<Serial> {
    let tree = devicetree::tree();
    let mut found = Vec::new();
    for node in tree.all_nodes() {
        let kind: fn(SerialRegisters) -> SerialKind = if devicetree::is_compatible(&node, "arm,pl011") {
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
        let port = Serial {
            kind: kind(SerialRegisters(registers)),
            irq: Irq(number),
        };
        found.push((base, port));
    }
    // The tree's order is arbitrary: the lower address is the first port of QEMU's machines.
    found.sort_unstable_by_key(|(base, _)| *base);
    found.into_iter().map(|(_, port)| port).collect()
}
