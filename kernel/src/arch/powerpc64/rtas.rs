//! Run-time abstraction services (PAPR, chapter 7): firmware's functions for starting CPUs, interrupts, PCI,
//! the clock and power-off.

use super::layout::to_phys;
use super::{devicetree, hcall, irq};
use crate::sync::{IrqSpinLock, Once};
use core::sync::atomic::{AtomicU32, Ordering};

/// Most arguments and results together.
const CELLS: usize = 16;

#[repr(C, align(64))]
struct Block([u32; 3 + CELLS]);

/// The call block, in firmware's byte order; firmware wants it below 4 GiB, where the image is.
static BLOCK: IrqSpinLock<Block> = IrqSpinLock::new(Block([0; 3 + CELLS]));

/// Calls the service `name`: its results, of which the first is the status. `None` if that says that it
/// failed, or if there is no such service.
pub fn call<const N: usize>(name: &str, arguments: &[u32]) -> Option<[u32; N]> {
    let token = token(name)?;
    let n = arguments.len();
    let mut block = BLOCK.lock();
    let words = &mut block.0;
    words[0] = token.to_be();
    words[1] = (n as u32).to_be();
    words[2] = (N as u32).to_be();
    for (to, from) in words[3..].iter_mut().zip(arguments) {
        *to = from.to_be();
    }
    words[3 + n] = u32::MAX;
    let at = to_phys((&raw const *words) as usize) as usize;
    let (status, _) = hcall::call(hcall::RTAS, at, 0, 0, 0);
    // SAFETY: valid references; volatile because the hypervisor wrote there.
    let results =
        core::array::from_fn(|i| u32::from_be(unsafe { core::ptr::read_volatile(&words[3 + n + i]) }));
    (status == hcall::SUCCESS && results.first().is_none_or(|status| *status == 0)).then_some(results)
}

/// Stops this CPU for good. The service does not return, so it must not be called with the lock of the
/// others: its block is its own, and the same for everyone.
pub fn stop_self() -> ! {
    static BLOCK: [AtomicU32; 3] = [const { AtomicU32::new(0) }; 3];
    // Nothing is to wake it.
    irq::local_disable();
    if let Some(token) = token("stop-self") {
        BLOCK[0].store(token.to_be(), Ordering::Relaxed);
        let at = to_phys(BLOCK.as_ptr() as usize) as usize;
        hcall::call(hcall::RTAS, at, 0, 0, 0);
    }
    loop {
        irq::spin_hint();
    }
}

/// The number of a service.
fn token(name: &str) -> Option<u32> {
    static RTAS: Once<Option<devicetree::Node>> = Once::new();
    let node = *RTAS.get_or_init(|| devicetree::tree().find_node("/rtas"));
    devicetree::cell(node?.property(name)?.value, 0)
}
