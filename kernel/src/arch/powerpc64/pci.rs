//! The PCI host bridge (`spapr-pci-host-bridge`): configuration space and messages through RTAS (PAPR, chapters 7 and 9).

use super::devicetree::{self, number};
use super::interrupt::Irq;
use super::rtas;
use crate::driver::virtio::pci::{Calls, PciConfig};
use flat_device_tree::node::FdtNode;

fn bridge() -> Option<FdtNode<'static, 'static>> {
    devicetree::tree().all_nodes().find(|node| {
        devicetree::is_type(node, "pci")
            && node
                .property("ibm,msi-ranges")
                .or(node.property("ranges"))
                .is_some()
    })
}

/// The bridge's unit identifier, as RTAS wants it: two halves.
fn unit() -> Option<(u32, u32)> {
    let value = bridge()?.property("reg")?.value;
    Some((devicetree::cell(value, 0)?, devicetree::cell(value, 1)?))
}

fn read(function: u8, offset: u8) -> u32 {
    let Some((high, low)) = unit() else {
        return u32::MAX;
    };
    let mut results = [0; 2];
    let address = u32::from(function) << 8 | u32::from(offset);
    match rtas::call("ibm,read-pci-config", &[address, high, low, 4], &mut results) {
        0 => results[1],
        _ => u32::MAX,
    }
}

fn write(function: u8, offset: u8, value: u32) {
    let Some((high, low)) = unit() else { return };
    let address = u32::from(function) << 8 | u32::from(offset);
    rtas::call("ibm,write-pci-config", &[address, high, low, 4, value], &mut [0]);
}

/// Turns the function's messages on, one for everything.
fn message(function: u8) -> Option<Irq> {
    /// `ibm,change-msi`: extended messages, so many of them.
    const SET_MSIX: u32 = 4;
    let (high, low) = unit()?;
    let address = u32::from(function) << 8;
    let mut results = [0; 4];
    if rtas::call(
        "ibm,change-msi",
        &[address, high, low, SET_MSIX, 1, 1],
        &mut results,
    ) != 0
        || results[1] < 1
    {
        return None;
    }
    let mut results = [0; 3];
    if rtas::call(
        "ibm,query-interrupt-source-number",
        &[address, high, low, 0],
        &mut results,
    ) != 0
    {
        return None;
    }
    Some(Irq(results[1]))
}

/// The machine's PCI host bridge, if it has one.
pub fn pci() -> Option<PciConfig> {
    let value = bridge()?.property("ranges")?.value;
    // Each: three cells of bus address (the first says which space), two of the processor's, two of size.
    let (mut window32, mut window64, mut offset32) = ((0, 0), (0, 0), 0);
    for n in 0..value.len() / 28 {
        let (bus, processor) = (number(value, n * 7 + 1, 2)?, number(value, n * 7 + 3, 2)?);
        let size = number(value, n * 7 + 5, 2)?;
        match devicetree::cell(value, n * 7)? >> 24 & 3 {
            2 => {
                window32 = (bus, size);
                offset32 = processor.wrapping_sub(bus);
            }
            3 if bus == processor => window64 = (bus, size),
            _ => {}
        }
    }
    Some(PciConfig::Firmware {
        calls: Calls { read, write, message },
        window32,
        window64,
        offset32,
    })
}
