//! The CPUs' tables of descriptors and their task states, in memory. (`descriptor` makes them and tells the
//! processor.)

use crate::sync::MAX_CPUS;
use core::cell::UnsafeCell;

/// The first of the entries for threads' own segments (`thread_area`), and how many there are.
pub const OWN_FIRST: usize = 12;
pub const OWN_COUNT: usize = 3;
/// Index of the segment whose limit is the CPU number, for the vDSO's `getcpu`.
pub(super) const CPU_NUMBER_INDEX: usize = 15;
const _: () = assert!(OWN_FIRST + OWN_COUNT == CPU_NUMBER_INDEX);

#[repr(C, packed(4))]
pub(super) struct TaskState {
    _reserved0: u32,
    pub(super) rsp: [u64; 3],
    _reserved1: u64,
    pub(super) ist: [u64; 7],
    _reserved2: u64,
    _reserved3: u16,
    io_map: u16,
}

/// One CPU's tables. 256 bytes, so that finding a CPU's is a shift.
#[repr(C, align(256))]
pub(super) struct CpuTables {
    pub(super) gdt: [u64; 16],
    pub(super) tss: TaskState,
}

const _: () = assert!(size_of::<CpuTables>() == 256 && size_of::<TaskState>() == 104);

struct AllTables(UnsafeCell<[CpuTables; MAX_CPUS]>);

// SAFETY: element `n` is written only while CPU `n` is being set up, and afterwards only by CPU `n` with
// interrupts off (here, and in `descriptor` and `ldt`).
unsafe impl Sync for AllTables {}

static TABLES: AllTables = AllTables(UnsafeCell::new(
    [const {
        CpuTables {
            gdt: [0; 16],
            tss: TaskState {
                _reserved0: 0,
                rsp: [0; 3],
                _reserved1: 0,
                ist: [0; 7],
                _reserved2: 0,
                _reserved3: 0,
                io_map: size_of::<TaskState>() as u16,
            },
        }
    }; MAX_CPUS],
));

/// CPU `cpu`'s.
pub(super) fn tables(cpu: usize) -> *mut CpuTables {
    assert!(cpu < MAX_CPUS);
    // The bound was checked, so the element exists.
    TABLES.0.get().cast::<CpuTables>().wrapping_add(cpu)
}

/// Where entries from user mode start on CPU `cpu`.
///
/// # Safety
/// `cpu` is this CPU, interrupts are off, and `top` is the top of the stack of the thread about to run.
#[inline(always)]
pub unsafe fn set_kernel_stack(cpu: usize, top: usize) {
    // SAFETY: `cpu` is a CPU's number, so the element exists; only this CPU touches it.
    unsafe {
        let t = TABLES.0.get().cast::<CpuTables>().add(cpu);
        (&raw mut (*t).tss.rsp).cast::<u64>().write_unaligned(top as u64);
    }
}

/// Where the segment with this descriptor begins.
pub(super) const fn base(descriptor: u64) -> u64 {
    descriptor >> 16 & 0x00ff_ffff | descriptor >> 56 << 24
}

/// The selector of a thread's own segment at `place`, with user mode's rights.
pub const fn own_selector(place: usize) -> u16 {
    ((OWN_FIRST + place) << 3 | 3) as u16
}

/// This CPU's table gets these descriptors in the entries of threads' own segments.
///
/// # Safety
/// `cpu` is this CPU, interrupts are off, and each is 0 or for data of user mode.
pub unsafe fn set_own_segments(cpu: usize, descriptors: [u64; OWN_COUNT]) {
    let t = tables(cpu);
    // SAFETY: the entries exist; only this CPU touches them.
    unsafe {
        let gdt = (&raw mut (*t).gdt).cast::<u64>();
        for (n, descriptor) in descriptors.into_iter().enumerate() {
            gdt.add(OWN_FIRST + n).write(descriptor);
        }
    }
}
