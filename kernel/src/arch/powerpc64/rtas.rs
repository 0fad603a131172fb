//! Run-time abstraction services (PAPR, chapter 7): firmware's functions for starting CPUs, interrupts, PCI, the clock and power-off.

use super::devicetree;
use super::hcall;
use crate::sync::IrqSpinLock;

/// Most arguments and results together.
const CELLS: usize = 16;

#[repr(C, align(64))]
struct Block([u32; 3 + CELLS]);

/// The call block, in firmware's byte order; firmware wants it below 4 GiB, where the image is.
static BLOCK: IrqSpinLock<Block> = IrqSpinLock::new(Block([0; 3 + CELLS]));

/// Calls the service `name`; its results go to `results`, the first being the status (0: fine). -1 also if there is no such service.
pub fn call(name: &str, arguments: &[u32], results: &mut [u32]) -> i32 {
    let Some(token) = token(name) else { return -1 };
    let (n, m) = (arguments.len(), results.len());
    let mut block = BLOCK.lock();
    let words = &mut block.0;
    words[0] = token.to_be();
    words[1] = (n as u32).to_be();
    words[2] = (m as u32).to_be();
    for (to, from) in words[3..].iter_mut().zip(arguments) {
        *to = from.to_be();
    }
    words[3 + n] = u32::MAX;
    let at = super::mmu::virt_to_phys((&raw const *words).cast()).as_usize();
    let (status, _) = hcall::call(hcall::RTAS, at, 0, 0, 0);
    if status != hcall::SUCCESS {
        return -1;
    }
    for (to, from) in results.iter_mut().zip(&words[3 + n..]) {
        // SAFETY: a valid reference; volatile because the hypervisor wrote it.
        *to = u32::from_be(unsafe { core::ptr::read_volatile(from) });
    }
    results.first().map_or(0, |status| *status as i32)
}

/// The number of a service.
fn token(name: &str) -> Option<u32> {
    let node = devicetree::tree().find_node("/rtas")?;
    devicetree::cell(node.property(name)?.value, 0)
}
