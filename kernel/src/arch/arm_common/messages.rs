//! Message-signalled interrupts: a GICv2m frame (Arm Server Base System Architecture) raises a shared
//! interrupt of the controller when a device writes that interrupt's number to the frame's doorbell register.

use super::{devicetree, gic};
use crate::mm::map_device;
use crate::sync::Once;
use core::sync::atomic::{AtomicU32, Ordering};

/// Which interrupts the frame can raise: their number and the first one.
const MSI_TYPER: usize = 0x008;
/// Where devices write.
const MSI_SETSPI_NS: u64 = 0x040;

/// The frame.
struct Frame {
    /// Physical address of its doorbell.
    doorbell: u64,
    /// The first interrupt that nobody has yet.
    next: AtomicU32,
    /// One past the last.
    end: u32,
}
static FRAME: Once<Frame> = Once::new();

/// Looks for a frame. Boot CPU, heap working.
pub(super) fn init() {
    let tree = devicetree::tree();
    if let Some(node) = devicetree::compatible(&["arm,gic-v2m-frame"]).next()
        && let Some((base, size)) = devicetree::reg(tree, &node).next()
    {
        let registers = map_device(base, size as usize);
        // SAFETY: a register of the frame, which was just mapped.
        let typer = unsafe { registers.add(MSI_TYPER).cast::<u32>().read_volatile() };
        let (first, count) = (typer >> 16 & 0x3ff, typer & 0x3ff);
        let _ = FRAME.set(Frame {
            doorbell: base + MSI_SETSPI_NS,
            next: AtomicU32::new(first),
            end: first + count,
        });
    }
}

/// An interrupt that nobody has had yet: the address and the number that a device writes to raise it.
pub(super) fn allocate() -> Option<(u64, u32)> {
    let frame = FRAME.get()?;
    let number = frame
        .next
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
            (n < frame.end).then_some(n + 1)
        })
        .ok()?;
    gic::set_edge(number, true);
    Some((frame.doorbell, number))
}
