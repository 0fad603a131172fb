//! From the boot protocol to `crate::boot`: the devicetree's account of the machine, the final kernel map,
//! the console.

use super::devicetree_ranges::Ranges;
use super::{console, cpu, cpus, devicetree, entry, kmap, mmu, switch, time};
use crate::arch::stub_calls;
use crate::mm::PhysAddr;
use crate::mm::{BootInfo, PhysRange};
use core::sync::atomic::{AtomicUsize, Ordering};

/// MiB of RAM that the kernel's addresses do not reach.
static UNUSED: AtomicUsize = AtomicUsize::new(0);

/// Says how much memory is not used, if any is. When the log works.
pub(super) fn report() {
    let unused = UNUSED.load(Ordering::Relaxed);
    if unused != 0 {
        crate::log!(Warning, "Memory: {unused} MiB cannot be reached and are not used");
    }
}

/// The first Rust function: on the boot stack, interrupts off, on the early tables.
#[inline(never)]
#[unsafe(link_section = ".init.text")]
pub(super) extern "C" fn primary(devicetree_phys: u64, image_phys: u64) -> ! {
    kmap::init(image_phys);
    cpus::init_boot(switch::boot_thread());
    cpu::init_boot();

    let early = kmap::early_devicetree(devicetree_phys);
    // SAFETY: the boot protocol passes a devicetree of at most 2 MiB, which was just mapped; nobody writes
    // it.
    let (tree, size) = unsafe {
        let total = devicetree_size(early);
        (
            devicetree::parse(core::slice::from_raw_parts(early, total)),
            used_size(early),
        )
    };

    let mut memory = Ranges::new();
    for node in tree.all_nodes() {
        if devicetree::is_type(&node, "memory") && devicetree::enabled(&node) {
            for (start, size) in devicetree::reg(tree, &node) {
                let mut used = 0;
                if let Some((start, size)) = mmu::usable_part(start, size) {
                    memory.push(start, size);
                    used = size;
                }
                UNUSED.fetch_add(((size - used) >> 20) as usize, Ordering::Relaxed);
            }
        }
    }
    memory.items[..memory.len].sort_unstable_by_key(|range| range.start);

    let mut reserved = Ranges::new();
    reserved.push(devicetree_phys, size as u64);
    for r in tree.memory_reservations() {
        reserved.push(r.address(), r.size());
    }
    if let Some(parent) = tree.find_node("/reserved-memory") {
        for node in parent.children() {
            for (start, size) in devicetree::reg(tree, &node) {
                reserved.push(start, size);
            }
        }
    }

    let chosen = tree.find_node("/chosen");
    let number = |name| devicetree::property(chosen.as_ref()?, name);
    let initrd = match (number("linux,initrd-start"), number("linux,initrd-end")) {
        (Some(start), Some(end)) if end > start => Some(PhysRange {
            start: PhysAddr::new(start),
            size: end - start,
        }),
        _ => None,
    };
    if let Some(initrd) = initrd {
        reserved.push(initrd.start.as_u64(), initrd.size);
    }
    let uart = devicetree::console(tree)
        .filter(|node| devicetree::is_compatible(node, "arm,pl011"))
        .and_then(|node| devicetree::reg(tree, &node).next());

    let words = chosen
        .as_ref()
        .and_then(|chosen| chosen.property("bootargs")?.as_str());
    cpu::options(words.unwrap_or(""));
    stub_calls::adapt(words.unwrap_or(""));

    let mut map = kmap::Builder::new();
    map.map_image();
    for &range in memory.as_slice() {
        map.map_ram(range);
    }
    let uart = uart.map(|(base, _)| map.map_fixed(0, base));
    let image = map.activate();
    reserved.push(image.start.as_u64(), image.size);
    entry::init_cpu();
    cpu::init();
    time::init();
    if let Some(base) = uart {
        console::init(base);
    }

    // The early mapping is gone; the same bytes are in the linear map, where they stay.
    let data = mmu::phys_to_virt(PhysAddr::new(devicetree_phys));
    // SAFETY: in RAM, reserved, and of this size.
    devicetree::publish(unsafe { core::slice::from_raw_parts(data, devicetree_size(data)) });
    let command_line = devicetree::tree()
        .find_node("/chosen")
        .and_then(|chosen| chosen.property("bootargs")?.as_str())
        .unwrap_or("");

    crate::arch::above::start(&BootInfo {
        memory: memory.as_slice(),
        reserved: reserved.as_slice(),
        initrd,
        command_line,
    })
}

/// Fields of a flattened devicetree's header, as words: sizes in bytes, and offsets from its start.
const TOTAL_SIZE: usize = 1;
const STRUCTURE_AT: usize = 2;
const STRINGS_AT: usize = 3;
const STRINGS_SIZE: usize = 8;
const STRUCTURE_SIZE: usize = 9;

/// Field `n` of the devicetree's header.
///
/// # Safety
/// `tree` points to a readable header.
unsafe fn header(tree: *const u8, n: usize) -> usize {
    // SAFETY: the header has ten words.
    u32::from_be(unsafe { tree.cast::<u32>().add(n).read_unaligned() }) as usize
}

/// The size the header claims, at most what the protocol allows.
///
/// # Safety
/// As for [`header`].
unsafe fn devicetree_size(tree: *const u8) -> usize {
    // SAFETY: as the caller promises.
    unsafe { header(tree, TOTAL_SIZE) }.min(2 << 20)
}

/// How much of it is in use: firmware leaves room for additions at the end that nobody needs to keep.
///
/// # Safety
/// As for [`header`].
unsafe fn used_size(tree: *const u8) -> usize {
    // SAFETY: as the caller promises.
    unsafe {
        let structure = header(tree, STRUCTURE_AT) + header(tree, STRUCTURE_SIZE);
        let strings = header(tree, STRINGS_AT) + header(tree, STRINGS_SIZE);
        structure.max(strings).min(devicetree_size(tree))
    }
}
