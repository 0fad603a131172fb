//! The vDSO's pages: one of clock data, which all programs share, and those of the shared object
//! (`limen_vdso::image` around the architecture's code). Made once at boot; exec maps them.

use crate::arch::vdso as code;
use crate::mm::{PAGE_SIZE, Page};
use crate::sync::Once;
use alloc::vec::Vec;
use limen_vdso::ClockData;
use limen_vdso::image::{self, Description, Symbol};

/// The pages as exec maps them: the machine's clock data, the data of the program's time namespace, which in
/// the initial one is `data` again, and `image` directly behind it.
pub struct Vdso {
    /// The machine's clock data, read-only for programs (`[vvar]`).
    pub data: Page,
    /// What is in `data`.
    clock: &'static ClockData,
    /// Header and code, read-only and executable (`[vdso]`).
    pub image: Vec<Page>,
}

static VDSO: Once<Vdso> = Once::new();

/// Makes the pages. Needs the heap and the clock. Once, on the boot CPU.
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
    let signal_frame = code::SIGNAL_FRAME.as_ref();
    let description = Description {
        wide: usize::BITS == 64,
        machine: crate::arch::ELF_MACHINE,
        soname: "linux-vdso.so.1",
        version: code::VERSION,
        symbols: &symbols,
        code_offset: PAGE_SIZE,
        code_size: text.len(),
        signal_frame: signal_frame.map(|frame| ((frame.trampoline)() - text.as_ptr() as usize, frame)),
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
    let data = allocate();
    let clock = data.shared_for_ever();
    let vdso = VDSO.get_or_init(|| Vdso { data, clock, image });
    let (base, mult) = crate::arch::time::clock_parameters();
    vdso.clock.set_counter(base, mult);
}

/// The pages to map. `None` before [`init`].
pub fn get() -> Option<&'static Vdso> {
    VDSO.get()
}

/// Writes the offsets of `CLOCK_REALTIME` and `CLOCK_TAI` to `CLOCK_MONOTONIC`, in nanoseconds, for programs
/// to read.
pub fn set_offsets(realtime: u64, tai: u64) {
    if let Some(vdso) = get() {
        vdso.clock.set_offsets(realtime, tai);
    }
}

/// Writes the time zone for programs to read ([`limen_vdso::ClockData::set_zone`]).
pub fn set_zone(zone: [i32; 2]) {
    if let Some(vdso) = get() {
        vdso.clock.set_zone(zone);
    }
}

/// The time zone. Before [`init`] none is set.
pub fn zone() -> [i32; 2] {
    get().map_or([0; 2], |vdso| vdso.clock.zone())
}

/// Makes the clocks that programs read gain `rate` from the moment at which the counter shows `raw`
/// nanoseconds. See [`limen_vdso::Steering::set`].
pub fn steer(raw: u64, rate: i64) {
    if let Some(vdso) = get() {
        vdso.clock.steering().set(raw, rate);
    }
}

/// The offset in the image of the code that returns from signal handlers, for ABIs that have it in the vDSO.
pub fn sigreturn_offset() -> usize {
    code::sigreturn().map_or(0, |function| {
        function - code::text().as_ptr() as usize + PAGE_SIZE
    })
}
