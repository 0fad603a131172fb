//! Self-tests of what the map forbids: accesses to what is not there, or may not be written, fault; a page
//! that can be written and executed is found.

use super::selftest::{Block, pattern_word};
use super::{Reason, Window, reset, set_present, set_read_only, set_writable};
use crate::arch::mmu::{self, Entry};
use crate::arch::nofault::{get_kernel_nofault, put_kernel_nofault};
use crate::check;
use crate::cmdline;
use crate::mm::frame::{self, For, debug_pagealloc};
use crate::mm::{PAGE_SIZE, PhysAddr, fault, init_memory, kernel_map, table, vmap};
use crate::selftest::Test;
use limen_linear_map::{self as linear_map, Access, Leaf};

/// The tests.
pub const TESTS: &[Test] = &[
    ("reads of pages that are not there fault", absent),
    ("a page that is free is not there (debug_pagealloc)", free),
    ("a block that is free is not there (debug_pagealloc)", free_block),
    (
        "writes to what is read-only fault, through both mappings",
        read_only,
    ),
    ("writes to the image's text and constants fault", image_is_fixed),
    ("what only boot needed is memory as any other", boot_only),
    (
        "what only boot needs is in no block with other parts",
        boot_only_is_apart,
    ),
    (
        "a table in the block that is changed is written through the window",
        through_window,
    ),
    ("a page that can be written and executed is found", planted),
];

/// Reads a word of the test's own memory, or of a page that is free.
fn read(at: usize) -> Option<u32> {
    // SAFETY: it is aligned, and memory.
    unsafe { get_kernel_nofault(at) }
}

/// Writes a word of the test's own memory.
fn write(at: usize, value: u32) -> bool {
    // SAFETY: it is aligned, memory, and the test's, or what was there is written.
    unsafe { put_kernel_nofault(at, value) }
}

fn absent() -> Result<(), &'static str> {
    let block = Block::new()?;
    let at = block.at() + 7 * PAGE_SIZE;
    check!(read(at) == Some(pattern_word(7)));
    check!(set_present(block.phys(7), 1, false, Reason::Test).is_ok());
    let (there, before, behind) = (read(at), read(at - PAGE_SIZE), read(at + PAGE_SIZE));
    let written = write(at, 0);
    check!(set_present(block.phys(7), 1, true, Reason::Test).is_ok());
    check!(there.is_none() && !written);
    check!(before == Some(pattern_word(6)) && behind == Some(pattern_word(8)));
    check!(read(at) == Some(pattern_word(7)) && block.is_whole());
    Ok(())
}

/// How often another CPU may have taken what was just freed.
const TRIES: usize = 100;

/// Whether blocks of an order cannot be read once they are free, and the report of a fault says why. Another
/// CPU may take one at once: then it is there again.
fn leaves(order: usize) -> Result<(), &'static str> {
    let off = !debug_pagealloc::is_on();
    for _ in 0..TRIES {
        let pfn = frame::alloc_block(order, For::Kernel).ok_or("no memory")?;
        let at = frame::virt(pfn) as usize;
        let pages = (0..1 << order).map(|n| at + n * PAGE_SIZE);
        let there = pages.clone().all(|page| write(page, 5) && read(page) == Some(5));
        frame::free_block(pfn, order);
        check!(there);
        let absent = pages.clone().all(|page| read(page).is_none());
        let told = pages.clone().all(|page| !fault::note(page).is_empty());
        if off {
            check!(!absent && !told);
            return Ok(());
        }
        if absent && told {
            return Ok(());
        }
    }
    Err("it is still there")
}

fn free() -> Result<(), &'static str> {
    leaves(0)?;
    if cmdline::flag("limen.use_after_free") {
        use_after_free();
    }
    Ok(())
}

/// What the tests on the host look at the panic of.
fn use_after_free() {
    for _ in 0..TRIES {
        if let Some(pfn) = frame::alloc(For::Kernel) {
            frame::free(pfn);
            // SAFETY: it is memory, or faults, which is the purpose.
            let _ = unsafe { frame::virt(pfn).read_volatile() };
        }
    }
}

fn free_block() -> Result<(), &'static str> {
    leaves(3)
}

fn read_only() -> Result<(), &'static str> {
    let at = vmap::alloc_pages(1) as usize;
    check!(at != 0);
    let slot = table::find(mmu::kernel_root(), at).ok_or("not mapped")?;
    let alias = mmu::phys_to_virt(table::load(slot).phys()) as usize;
    check!(write(at, 1) && read(alias) == Some(1) && write(alias, 2) && read(at) == Some(2));
    check!(set_read_only(at, 1, Reason::Test).is_ok());
    let written = (write(at, 3), write(alias, 4));
    let kept = (read(at), read(alias));
    check!(set_writable(at, 1, Reason::Test).is_ok());
    let again = write(at, 5) && write(alias, 6) && read(at) == Some(6);
    check!(reset(at, 1).is_ok());
    vmap::free(at as *mut u8);
    check!(!written.0);
    if super::aliases() {
        check!(!written.1 && kept == (Some(2), Some(2)));
    }
    check!(again);
    Ok(())
}

fn image_is_fixed() -> Result<(), &'static str> {
    let image = crate::arch::kernel_map::image();
    let linear = |phys| mmu::phys_to_virt(PhysAddr::new(phys)) as usize;
    let places = [
        image_is_fixed as *const () as usize & !3,
        TESTS.as_ptr() as usize,
        linear(image.text),
        linear(image.rodata),
    ];
    for at in places {
        let value = read(at).ok_or("not mapped")?;
        check!(!write(at, value));
    }
    Ok(())
}

fn boot_only() -> Result<(), &'static str> {
    let image = crate::arch::kernel_map::image();
    check!(image.init < image.data && image.data <= image.init_end);
    let map = super::map();
    for phys in (image.init..image.init_end).step_by(PAGE_SIZE) {
        let (linked, linear) = (
            image.linked + (phys - image.text) as usize,
            mmu::phys_to_virt(PhysAddr::new(phys)) as usize,
        );
        check!(init_memory::is_freed(linked) && (linked == linear || read(linked).is_none()));
        let found = {
            let _lock = super::MAP.lock();
            map.at(&super::Live, crate::arch::kernel_map::address(linear))
        };
        let access = found.ok_or("not mapped")?.leaf.attributes.access;
        check!(access.contains(Access::WRITE) && !access.contains(Access::EXECUTE));
    }
    check!(!init_memory::is_freed(boot_only as *const () as usize));
    Ok(())
}

/// Wherever the image lies, what is given back after boot is in no block with what stays: when it is, sizes
/// may not change any more while others read.
fn boot_only_is_apart() -> Result<(), &'static str> {
    const PAGE: u64 = PAGE_SIZE as u64;
    let image = |text: u64, sizes: [u64; 6]| {
        let mut at = text;
        let rest = sizes.map(|pages| {
            at += pages * PAGE;
            at
        });
        let [rodata, init, data, init_end, guard, end] = rest;
        kernel_map::Image::new([text, rodata, init, data, init_end, guard, end], 0)
    };
    let images = [
        crate::arch::kernel_map::image(),
        // Everything but the data is in one block; the data that follow are as large.
        image(64 << 20, [0x80, 0x40, 0x10, 0x10, 0x800, 0x20]),
        image(64 << 20, [0x1, 0x1, 0x1, 0x1, 0x1, 0x2]),
    ];
    for image in images {
        for (runs_here, block) in [(false, 1), (true, 1), (false, 2 << 20), (true, 2 << 20)] {
            let mut at = 0;
            for part in image.parts(runs_here, block).filter(|part| part.start < part.end) {
                let inside = |bound| part.start < bound && bound < part.end;
                check!(part.pages || !inside(image.init) && !inside(image.init_end));
                // Nothing is missing but the guard page, and nothing is there twice.
                check!(
                    part.start == at || runs_here && (at, part.start) == (image.guard, image.guard + PAGE)
                );
                at = part.end;
            }
            check!(at == u64::MAX);
        }
    }
    Ok(())
}

/// Only where others wait for changes of size.
fn through_window() -> Result<(), &'static str> {
    let map = super::map();
    if !map.rule.parks(map.rule.table) {
        return Ok(());
    }
    const INDEX: usize = 5;
    const OFFSET: usize = INDEX * size_of::<mmu::Slot>();
    let (closed, open) = (Block::new()?, Block::new()?);
    let start = crate::arch::kernel_map::address(closed.at());
    let slot = |window: &mut Window, block: &Block, page| {
        window.slot(linear_map::Table(block.phys(page).as_u64()), INDEX) as usize
    };
    let linear = |block: &Block, page| block.at() + page * PAGE_SIZE + OFFSET;
    for (page, value) in [(3, 1), (8, 2), (15, 3), (3, 4)] {
        // Nothing else may use the window meanwhile.
        let lock = super::MAP.lock();
        let mut window = Window::open(start, start + (16 * PAGE_SIZE) as u64);
        let at = slot(&mut window, &closed, page);
        let same = slot(&mut window, &closed, page) == at;
        let elsewhere = at != linear(&closed, page) && vmap::contains(at);
        let written = write(at, value) && read(linear(&closed, page)) == Some(value);
        // What is not in the block is written where it is.
        let outside = slot(&mut window, &open, page) == linear(&open, page)
            && slot(&mut window, &closed, 16) == linear(&closed, 16);
        window.close();
        let gone = read(at).is_none();
        drop(lock);
        check!(same && elsewhere);
        check!(written && outside);
        check!(gone);
    }
    Ok(())
}

/// Whether the log has that line since then.
fn logged(mut since: crate::log::Cursor, line: &str) -> bool {
    let mut text = [0; 128];
    loop {
        match crate::log::with_ring(|ring| ring.read(&mut since, &mut text)) {
            Some(record) if &text[..record.len] == line.as_bytes() => return true,
            Some(_) => {}
            None => return false,
        }
    }
}

fn planted() -> Result<(), &'static str> {
    check!(kernel_map::writable_and_executable() == 0);
    let at = vmap::alloc_pages(2) as usize;
    check!(at != 0);
    let slot = table::find(mmu::kernel_root(), at).ok_or("not mapped")?;
    let old = table::load(slot);
    let linear_map::Entry::Leaf(leaf) = old.kernel(0) else {
        return Err("no leaf");
    };
    let put = |entry| {
        table::store(slot, entry);
        mmu::flush_kernel(at, at + PAGE_SIZE);
    };
    let mut attributes = leaf.attributes;
    attributes.access = attributes.access | Access::WRITE | Access::EXECUTE;
    let since = crate::log::with_ring(|ring| ring.end());
    put(Entry::of_kernel(
        linear_map::Entry::Leaf(Leaf { attributes, ..leaf }),
        0,
    ));
    let (count, passed) = (kernel_map::writable_and_executable(), kernel_map::check());
    put(old);
    vmap::free(at as *mut u8);
    check!(count == 1 && !passed);
    check!(logged(since, "Checked W+X mappings: FAILED, 1 W+X pages found"));
    check!(kernel_map::check());
    Ok(())
}
