//! Where the machine's serial ports are.

pub use super::devicetree_registers::{Serial, SerialRegisters};
use super::interrupt::Irq;
use super::{devicetree, gic};
use crate::arch::devices::SerialKind;
use alloc::vec::Vec;

/// The machine's serial ports, the console first.
pub fn ports() -> Vec<Serial> {
    let tree = devicetree::tree();
    let mut found = Vec::new();
    for node in devicetree::compatible(&["arm,pl011", "ns16550a"]) {
        let kind: fn(SerialRegisters) -> SerialKind = if devicetree::is_compatible(&node, "arm,pl011") {
            SerialKind::Pl011
        } else {
            SerialKind::Uart16550
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
