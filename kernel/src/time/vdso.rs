//! The vDSO's pages: one with clock data, shared by every program, and the shared object (`limen_vdso::image` around the
//! architecture's code). Built once at boot; exec maps them.

use crate::arch::vdso as code;
use crate::mm::{PAGE_SIZE, Page};
use crate::sync::Once;
use alloc::vec::Vec;
use limen_vdso::ClockData;
use limen_vdso::image::{self, Description, Symbol};

/// The pages as exec maps them: `data` first, the image right behind it.
pub struct Vdso {
    /// The clock data, read-only for programs (`[vvar]`).
    pub data: Page,
    /// Header and code, read-only and executable (`[vdso]`).
    pub image: Vec<Page>,
}

static VDSO: Once<Vdso> = Once::new();

/// Builds the pages. Needs the heap and the clock; called once, on the boot CPU.
pub fn init() {
    let text = code::text();
    let symbols: Vec<Symbol> = code::SYMBOLS
        .iter()
        .map(|&(name, function, size)| Symbol {
            name,
            offset: function() - text.as_ptr() as usize,
            size,
        })
        .collect();
    let description = Description {
        wide: usize::BITS == 64,
        machine: crate::arch::ELF_MACHINE,
        soname: "linux-vdso.so.1",
        version: code::VERSION,
        symbols: &symbols,
        code_offset: PAGE_SIZE,
        code_size: text.len(),
    };
    let pages = 1 + text.len().div_ceil(PAGE_SIZE);
    let allocate =
        || Page::alloc_zeroed(crate::mm::frame::For::Kernel).expect("no memory for the vDSO at boot");
    let image: Vec<Page> = (0..pages).map(|_| allocate()).collect();
    let mut header = alloc::vec![0; PAGE_SIZE];
    image::build(&mut header, &description).expect("the vDSO's header exceeds a page");
    image[0].write(0, &header);
    for (page, part) in image[1..].iter().zip(text.chunks(PAGE_SIZE)) {
        page.write(0, part);
    }
    for page in &image {
        crate::arch::mmu::sync_instructions(page.phys());
    }
    let vdso = VDSO.get_or_init(|| Vdso {
        data: allocate(),
        image,
    });
    let (base, mult) = crate::arch::time::clock_parameters();
    clock_data(vdso).set_counter(base, mult);
}

/// The pages to map; `None` before [`init`].
pub fn get() -> Option<&'static Vdso> {
    VDSO.get()
}

/// Tells programs that the wall clocks moved; offsets to the monotonic clock in nanoseconds.
pub fn set_offsets(realtime: u64, tai: u64) {
    if let Some(vdso) = get() {
        clock_data(vdso).set_offsets(realtime, tai);
    }
}

/// Offset of the signal-return trampoline in the image, for ABIs whose handlers return through the vDSO.
pub fn sigreturn_offset() -> usize {
    code::sigreturn().map_or(0, |function| {
        function - code::text().as_ptr() as usize + PAGE_SIZE
    })
}

fn clock_data(vdso: &'static Vdso) -> &'static ClockData {
    // SAFETY: the page is never freed, zero bytes are a valid `ClockData`, and it is only accessed through atomics.
    unsafe { &*vdso.data.as_ptr().cast::<ClockData>() }
}
