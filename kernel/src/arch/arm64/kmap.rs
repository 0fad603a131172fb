//! The kernel's own map, built once at boot before anything else runs on it: the image (text executable and
//! read-only, constants read-only, data writable), the linear map of all RAM with the largest blocks (never
//! executable; the image's text and constants read-only there, too), and a few device pages. Nothing is
//! writable and executable.

use super::cpus::START;
use super::mmu::{EMPTY_ROOT, Entry, IMAGE_BASE, LEVELS, LINEAR_BASE, MemoryKind, PAGE_SHIFT, TABLE_SHIFT};
use crate::mm::PhysRange;
use crate::mm::{PAGE_SIZE, PhysAddr, Prot};
use core::arch::naked_asm;
use core::sync::atomic::{AtomicU64, Ordering};

unsafe extern "C" {
    static __image_start: u8;
    static __text_end: u8;
    static __rodata_end: u8;
    static __image_end: u8;
    static __boot_stack_guard: u8;
    static __idmap_tables: u8;
    static __table_pool_start: u8;
    static __table_pool_end: u8;
}

/// Where the image was loaded.
static IMAGE_PHYS: AtomicU64 = AtomicU64::new(0);

/// Where device pages needed before `mm` is up are mapped: the end of the image's gigabyte.
const FIXED: usize = IMAGE_BASE + (1 << 30) - (2 << 20);
/// Where the devicetree is mapped until the final map is live, in the early tables.
const EARLY_DEVICETREE: usize = IMAGE_BASE + (1 << 29);

/// The physical address of something in the kernel image.
pub fn image_to_phys(address: usize) -> u64 {
    (address - IMAGE_BASE) as u64 + IMAGE_PHYS.load(Ordering::Relaxed)
}

fn address(symbol: &'static u8) -> usize {
    core::ptr::from_ref(symbol) as usize
}

/// Notes where the image is. First of all.
pub fn init(image_phys: u64) {
    IMAGE_PHYS.store(image_phys, Ordering::Relaxed);
}

/// Makes the devicetree at `phys` readable through the early tables; up to 2 MiB from there, which is the
/// most the protocol allows.
pub fn early_devicetree(phys: u64) -> *const u8 {
    const BLOCK: u64 = 2 << 20;
    // The early tables are the first three pages of the pool; the third maps 2 MiB blocks of the image's
    // gigabyte.
    // SAFETY: the linker script places the pool; nobody else uses it yet.
    let table = unsafe {
        (&raw const __table_pool_start)
            .cast_mut()
            .cast::<u64>()
            .add(2 << TABLE_SHIFT)
    };
    let first = (EARLY_DEVICETREE >> 21) & 511;
    for n in 0..2u64 {
        let entry = Entry::kernel_leaf(
            PhysAddr::new((phys & !(BLOCK - 1)) + n * BLOCK),
            Prot::READ,
            MemoryKind::Normal,
            1,
        );
        // SAFETY: within the third table; that slot was empty.
        unsafe { table.add(first + n as usize).write_volatile(entry.0) };
    }
    super::mmu::update_kernel(EARLY_DEVICETREE, EARLY_DEVICETREE + (4 << 20));
    (EARLY_DEVICETREE + (phys & (BLOCK - 1)) as usize) as *const u8
}

/// The map under construction.
pub struct Builder {
    root: *mut u64,
    next: usize,
}

impl Builder {
    /// An empty map. The tables come from the pool in the image, after the early tables, which are live.
    pub fn new() -> Self {
        // SAFETY: the linker script places the pool.
        let pool = unsafe { address(&__table_pool_start) };
        let mut builder = Self {
            root: core::ptr::null_mut(),
            next: pool + 3 * PAGE_SIZE,
        };
        builder.root = builder.table();
        let empty = builder.table();
        EMPTY_ROOT.store(image_to_phys(empty as usize), Ordering::Relaxed);
        builder
    }

    fn table(&mut self) -> *mut u64 {
        let table = self.next;
        self.next += PAGE_SIZE;
        // SAFETY: the linker script places the pool.
        let end = unsafe { address(&__table_pool_end) };
        assert!(
            self.next <= end,
            "memory is in too many pieces for the boot page tables"
        );
        // SAFETY: a page of the pool that nobody has yet.
        unsafe { core::ptr::write_bytes(table as *mut u8, 0, PAGE_SIZE) };
        table as *mut u64
    }

    /// Maps `[phys, phys + size)` at `virt` with the largest leaves that fit; everything is page-aligned.
    fn map(&mut self, mut virt: usize, mut phys: u64, mut size: u64, prot: Prot, kind: MemoryKind) {
        while size > 0 {
            let mut level = 2;
            while level > 0 {
                let bytes = 1u64 << (PAGE_SHIFT + TABLE_SHIFT * level);
                if (virt as u64 | phys) & (bytes - 1) == 0 && size >= bytes {
                    break;
                }
                level -= 1;
            }
            self.set(
                virt,
                level,
                Entry::kernel_leaf(PhysAddr::new(phys), prot, kind, level),
            );
            let bytes = 1u64 << (PAGE_SHIFT + TABLE_SHIFT * level);
            virt += bytes as usize;
            phys += bytes;
            size -= bytes;
        }
    }

    fn set(&mut self, virt: usize, at: usize, entry: Entry) {
        let mut table = self.root;
        for level in (at + 1..LEVELS).rev() {
            let index = virt >> (PAGE_SHIFT + TABLE_SHIFT * level) & 511;
            // SAFETY: `table` is one of our tables, in the image.
            let slot = unsafe { table.add(index) };
            // SAFETY: the slot lies in one of the image's tables.
            let current = Entry(unsafe { slot.read() });
            table = if current.is_empty() {
                let lower = self.table();
                // SAFETY: the slot lies in one of the image's tables, which nothing else
                // writes yet.
                unsafe { slot.write(Entry::table(PhysAddr::new(image_to_phys(lower as usize))).0) };
                lower
            } else {
                (IMAGE_BASE + (current.phys().as_u64() - IMAGE_PHYS.load(Ordering::Relaxed)) as usize)
                    as *mut u64
            };
        }
        // SAFETY: the slot lies in one of the image's tables, which nothing else writes yet.
        unsafe {
            table
                .add(virt >> (PAGE_SHIFT + TABLE_SHIFT * at) & 511)
                .write(entry.0)
        };
    }

    /// The image at its link address.
    pub fn map_image(&mut self) {
        // SAFETY: linker symbols; only their addresses are used.
        let (text_end, rodata_end, guard, end) = unsafe {
            (
                address(&__text_end),
                address(&__rodata_end),
                address(&__boot_stack_guard),
                address(&__image_end),
            )
        };
        let mut part = |start: usize, end: usize, prot| {
            self.map(
                start,
                image_to_phys(start),
                (end - start) as u64,
                prot,
                MemoryKind::Normal,
            )
        };
        part(IMAGE_BASE, text_end, Prot::READ | Prot::EXEC);
        part(text_end, rodata_end, Prot::READ);
        part(rodata_end, guard, Prot::READ | Prot::WRITE);
        part(guard + PAGE_SIZE, end, Prot::READ | Prot::WRITE);
    }

    /// A range of RAM in the linear map.
    pub fn map_ram(&mut self, range: PhysRange) {
        let start = range.start.as_u64().next_multiple_of(PAGE_SIZE as u64);
        let end = (range.start.as_u64() + range.size) & !(PAGE_SIZE as u64 - 1);
        // SAFETY: a linker symbol; only its address is used.
        let read_only = (
            image_to_phys(IMAGE_BASE),
            image_to_phys(unsafe { address(&__rodata_end) }),
        );
        let mut part = |from: u64, to: u64, prot| {
            let (from, to) = (from.max(start), to.min(end));
            if from < to {
                self.map(
                    from as usize + LINEAR_BASE,
                    from,
                    to - from,
                    prot,
                    MemoryKind::Normal,
                );
            }
        };
        part(0, read_only.0, Prot::READ | Prot::WRITE);
        part(read_only.0, read_only.1, Prot::READ);
        part(read_only.1, u64::MAX, Prot::READ | Prot::WRITE);
    }

    /// Device page `slot` at `phys`; returns where.
    pub fn map_fixed(&mut self, slot: usize, phys: u64) -> usize {
        let virt = FIXED + slot * PAGE_SIZE;
        let page = phys & !(PAGE_SIZE as u64 - 1);
        self.map(
            virt,
            page,
            PAGE_SIZE as u64,
            Prot::READ | Prot::WRITE,
            MemoryKind::Device,
        );
        virt + (phys - page) as usize
    }

    /// Makes the map live, for good. Returns what the kernel occupies: the image without the unused end of
    /// the pool.
    pub fn activate(self) -> PhysRange {
        let root = image_to_phys(self.root as usize);
        START.table.store(root as usize, Ordering::Relaxed);
        let replace = image_to_phys(replace_kernel_root as *const () as usize) as usize;
        // SAFETY: the identity map of early boot is current, so the function can be called at its physical
        // address; the new map has this code, this stack and all data at the same addresses as the old one.
        unsafe {
            core::mem::transmute::<usize, unsafe extern "C" fn(u64, u64)>(replace)(
                root,
                EMPTY_ROOT.load(Ordering::Relaxed),
            )
        }
        super::mmu::switch_to_kernel();
        super::mmu::flush_kernel(0, usize::MAX);
        PhysRange {
            start: PhysAddr::new(image_to_phys(IMAGE_BASE)),
            size: image_to_phys(self.next) - image_to_phys(IMAGE_BASE),
        }
    }
}

/// Makes `root` the kernel's, with `empty` a table with nothing in it (both physical). Called at its physical
/// address, through the identity map: no two translations of one address may meet in the TLB, so the old ones
/// go first. In between nothing is at its link address, the stack neither.
#[unsafe(naked)]
#[unsafe(link_section = ".idmap.text")]
unsafe extern "C" fn replace_kernel_root(root: u64, empty: u64) {
    naked_asm!(
        "msr ttbr1_el1, x1",
        "isb",
        "tlbi vmalle1",
        "dsb nsh",
        "isb",
        "msr ttbr1_el1, x0",
        "isb",
        "ret"
    )
}
