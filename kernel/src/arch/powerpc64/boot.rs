//! From Open Firmware to `crate::boot`: the devicetree, the final kernel map, the console. Everything up to
//! [`kmap::activate`] runs with translation off.

use super::devicetree::Tree;
use super::devicetree_ranges::Ranges;
use super::openfirmware::Firmware;
use super::{console, cpu, cpus, devicetree, extable, kmap, layout, patch, pid, time, tlb};
use crate::arch::stub_calls;
use crate::mm::PhysAddr;
use crate::mm::{BootInfo, PhysRange};

unsafe extern "C" {
    static mut __bss_start: u8;
    static __bss_end: u8;
    static __devicetree: u8;
    static __devicetree_end: u8;
}

/// The first Rust function: on the boot stack, interrupts and translation off. Initramfs and its size
/// (firmware also puts them in the tree), and Open Firmware's entry; without one, a flattened tree takes the
/// first place.
#[inline(never)]
#[unsafe(link_section = ".init.text")]
pub(super) extern "C" fn primary(initrd_or_tree: usize, initrd_size: usize, firmware: usize) -> ! {
    let bss = &raw mut __bss_start;
    // SAFETY: the linker script places both around what nothing has used yet.
    unsafe { bss.write_bytes(0, &raw const __bss_end as usize - bss as usize) };
    cpus::init_boot_cpu();
    extable::sort();
    patch::adapt();
    let data = flattened(initrd_or_tree, firmware);
    kmap::install_vectors();
    let tree = devicetree::parse(data);
    devicetree::keep(tree);
    console::init();
    let chosen = tree.find_node("/chosen");
    let command_line = chosen
        .as_ref()
        .and_then(|chosen| chosen.property("bootargs")?.as_str())
        .unwrap_or("");
    stub_calls::adapt(command_line);
    time::init();
    tlb::init();

    let mut memory = Ranges::new();
    find_memory(tree, &mut memory);
    let mut reserved = Ranges::new();
    // Vectors and image, up to the end of the tree.
    reserved.push(0, layout::to_phys(data.as_ptr_range().end as usize));
    for reservation in tree.memory_reservations() {
        reserved.push(reservation.address(), reservation.size());
    }

    let number = |name| devicetree::property(chosen.as_ref()?, name);
    let passed = match (number("linux,initrd-start"), number("linux,initrd-end")) {
        (Some(start), Some(end)) if end > start => Some((start, end - start)),
        _ if firmware != 0 && initrd_size != 0 => Some((initrd_or_tree as u64, initrd_size as u64)),
        _ => None,
    };
    let initrd = passed.map(|(start, size)| PhysRange {
        start: PhysAddr::new(start),
        size,
    });
    if let Some((start, size)) = passed {
        reserved.push(start, size);
    }

    make_roots(&memory, &mut reserved);
    make_map(&memory);
    kmap::activate();
    cpu::init();
    crate::arch::above::start(&BootInfo {
        memory: memory.as_slice(),
        reserved: reserved.as_slice(),
        initrd,
        command_line,
    })
}

/// The flattened devicetree, in the image's room for it. Never inlined: it needs much stack.
#[inline(never)]
#[unsafe(link_section = ".init.text")]
fn flattened(tree_at: usize, firmware: usize) -> &'static [u8] {
    // SAFETY: the linker script gives the tree its room; firmware's entry was passed by firmware.
    unsafe {
        let room = &raw const __devicetree;
        let size = (&raw const __devicetree_end) as usize - room as usize;
        if firmware != 0 {
            let out = core::slice::from_raw_parts_mut(room.cast_mut(), size);
            let total = limen_open_firmware::flatten(&mut Firmware::new(firmware), out);
            core::slice::from_raw_parts(room, total)
        } else {
            let tree = (layout::LINEAR_BASE | tree_at) as *const u8;
            let total = u32::from_be(tree.cast::<u32>().add(1).read()) as usize;
            assert!(total <= size, "the devicetree is too large");
            core::ptr::copy_nonoverlapping(tree, room.cast_mut(), total);
            core::slice::from_raw_parts(room, total)
        }
    }
}

/// What memory there is, in order. Never inlined, as all that follows: the frame of [`primary`] stays, and is
/// a part of the boot CPU's stack that nobody else has.
#[inline(never)]
#[unsafe(link_section = ".init.text")]
fn find_memory(tree: Tree, memory: &mut Ranges) {
    for node in devicetree::of_type("memory") {
        for (start, size) in devicetree::reg(tree, &node) {
            // Only what the linear map can hold.
            if start < 1 << 47 {
                memory.push(start, size.min((1 << 47) - start));
            }
        }
    }
    memory.items[..memory.len].sort_unstable_by_key(|range| range.start);
}

/// Takes room for the root tables of all identifiers.
#[inline(never)]
#[unsafe(link_section = ".init.text")]
fn make_roots(memory: &Ranges, reserved: &mut Ranges) {
    let cpus = devicetree::of_type("cpu").count();
    let size = memory.as_slice().iter().map(|range| range.size).sum();
    let pids = pid::wanted(cpus.min(crate::sync::MAX_CPUS), size);
    let (size, align) = ((pids * pid::ROOT_SIZE) as u64, pid::ROOT_SIZE as u64);
    let span = |range: &PhysRange| range.start.as_u64()..range.start.as_u64() + range.size;
    let pieces = memory.as_slice().iter().map(span);
    let taken = reserved.as_slice().iter().map(span);
    let Some(roots) = limen_page_alloc::early::room(pieces, taken, size, align) else {
        panic!("no room for root tables")
    };
    reserved.push(roots, size);
    pid::init(roots, pids);
}

#[inline(never)]
#[unsafe(link_section = ".init.text")]
fn make_map(memory: &Ranges) {
    let mut map = kmap::Builder::new();
    for &range in memory.as_slice() {
        map.map_ram(range);
    }
}
