//! What only boot needs: code in the section `.init.text` and data in `.init.data`, which are given back to
//! the allocator before the first program starts.
//!
//! Functions that only boot calls say `#[unsafe(link_section = ".init.text")]`; rooms without `unsafe` let
//! [`at_boot`] call what the compiler puts into it. After linking `limen` checks that nothing else of the
//! image refers to these sections (`tools/limen/src/init_sections`). Constants and closures that are not
//! inlined stay where all are.

use super::{PAGE_SIZE, PhysAddr, PhysRange, frame, linear};
use crate::arch::{kernel_map, mmu};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Linux's value for memory of this kind: it faults, or ends badly, if it is run or followed.
const POISON: u8 = 0xcc;

static FREED: AtomicBool = AtomicBool::new(false);

/// Calls `f` as code that only boot needs. What it calls must be inlined to be given back with it.
#[inline(never)]
#[unsafe(link_section = ".init.text")]
pub fn at_boot<R>(f: impl FnOnce() -> R) -> R {
    f()
}

/// Whether something is linked there that has been given back: such an address has no name any more. In any
/// context.
pub fn is_freed(addr: usize) -> bool {
    let image = kernel_map::image();
    let offset = (addr.wrapping_sub(image.linked) as u64).wrapping_add(image.text);
    FREED.load(Relaxed) && (image.init..image.init_end).contains(&offset)
}

/// Gives back what only boot needed. The boot CPU, in a thread, when nobody is in such code any more.
pub fn free() {
    let image = kernel_map::image();
    let range = PhysRange {
        start: PhysAddr::new(image.init),
        size: image.init_end - image.init,
    };
    let size = range.size as usize;
    if size == 0 {
        return;
    }
    if let Err(errno) = linear::set_ordinary(range.start, size / PAGE_SIZE) {
        warning!("What only boot needed of the kernel's image cannot be given back: {errno:?}");
        return;
    }
    FREED.store(true, Relaxed);
    // SAFETY: in the linear map, writable since just now; nobody uses the sections any more.
    unsafe { mmu::phys_to_virt(range.start).write_bytes(POISON, size) };
    frame::free_reserved(range);
    info!(
        "Memory: {} KiB of the kernel's image were only for boot and are free",
        size >> 10
    );
}
