//! The PCI host bridge (`spapr-pci-host-bridge`): configuration space and messages through RTAS (PAPR,
//! chapters 7 and 9).

use super::devicetree::{self, number};
use super::interrupt::Irq;
use super::rtas;
use crate::arch::devices::{PciCalls, PciConfig};
use crate::sync::Once;

fn bridge() -> Option<devicetree::Node> {
    devicetree::of_type("pci").find(|node| {
        let ranges = node.property("ibm,msi-ranges").or(node.property("ranges"));
        ranges.is_some()
    })
}

/// The bridge's unit identifier, as RTAS wants it: two halves. Each access to a device's configuration needs
/// it, so it is looked for once.
fn unit() -> Option<(u32, u32)> {
    static UNIT: Once<Option<(u32, u32)>> = Once::new();
    let find = || {
        let value = bridge()?.property("reg")?.value;
        Some((devicetree::cell(value, 0)?, devicetree::cell(value, 1)?))
    };
    *UNIT.get_or_init(find)
}

fn read(function: u8, offset: u8) -> u32 {
    let address = u32::from(function) << 8 | u32::from(offset);
    let read = |(high, low)| rtas::call::<2>("ibm,read-pci-config", &[address, high, low, 4]);
    unit().and_then(read).map_or(u32::MAX, |results| results[1])
}

fn write(function: u8, offset: u8, value: u32) {
    let Some((high, low)) = unit() else { return };
    let address = u32::from(function) << 8 | u32::from(offset);
    rtas::call::<1>("ibm,write-pci-config", &[address, high, low, 4, value]);
}

/// Turns the function's messages on, one for everything.
fn message(function: u8) -> Option<Irq> {
    /// `ibm,change-msi`: extended messages, so many of them.
    const SET_MSIX: u32 = 4;
    let (high, low) = unit()?;
    let address = u32::from(function) << 8;
    let [_, count, ..] = rtas::call::<4>("ibm,change-msi", &[address, high, low, SET_MSIX, 1, 1])?;
    if count < 1 {
        return None;
    }
    let source = [address, high, low, 0];
    rtas::call::<3>("ibm,query-interrupt-source-number", &source).map(|results| Irq(results[1]))
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
        calls: PciCalls { read, write, message },
        window32,
        window64,
        offset32,
    })
}
