//! Every CPU's first instructions. The boot CPU begins at `pvh_start`, as the PVH protocol says: 32-bit code,
//! flat segments, no paging, EBX the address of the start info. The others begin in real mode, at a copy of
//! `x86_trampoline` below 1 MiB. Both go the same way into 64-bit mode; what differs is in [`START`].

use super::cpu::{self, CR0_ET, CR0_NE, CR0_PE, CR0_PG, CR0_WP, CR4_PAE, EFER_LME};
use super::descriptor::{CODE_32, CODE_64, DATA, KERNEL_CS, KERNEL_DS};
use super::mmu::{BLOCK, KERNEL_BASE, PAGE_SHIFT, PRESENT, TABLE_SHIFT, WRITE};
use super::{boot, cpus};
use core::arch::global_asm;
use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32};

/// With what a CPU goes into 64-bit mode, and where it goes on: at first the boot CPU's, then that of the CPU
/// which is being started.
#[repr(C)]
pub struct Start {
    /// The root table (physical, below 4 GiB).
    pub root: AtomicPtr<u8>,
    /// The top of its stack.
    pub stack: AtomicPtr<u8>,
    /// Its first function, which gets EBX and does not return.
    pub main: AtomicPtr<()>,
    /// What to turn on in `EFER`.
    pub efer: AtomicU32,
}

/// See [`Start`].
pub static START: Start = Start {
    root: AtomicPtr::new(physical((&raw const TABLES).cast())),
    stack: AtomicPtr::new(cpus::boot_stack_top()),
    main: AtomicPtr::new(boot::rust_start as *mut ()),
    efer: AtomicU32::new(EFER_LME as u32),
};

/// The physical address of something in the image, in what the linker fills in.
const fn physical(link: *const u8) -> *mut u8 {
    link.wrapping_byte_sub(KERNEL_BASE).cast_mut()
}

/// How many tables the boot CPU begins with.
const TABLE_COUNT: usize = 6;
/// Entries of one table.
const ENTRIES: usize = 1 << TABLE_SHIFT;
/// log2 of the bytes of a block: what an entry of a table of the second level maps.
const BLOCK_SHIFT: usize = PAGE_SHIFT + TABLE_SHIFT;

/// Page tables. Entries are pointers, so that the linker can fill in addresses.
#[repr(C, align(4096))]
pub struct Tables(UnsafeCell<[[*const u8; ENTRIES]; TABLE_COUNT]>);

// SAFETY: read by processors only, while they start; written by the one CPU that starts another.
unsafe impl Sync for Tables {}

/// The tables the boot CPU begins with: they map the first 4 GiB at 0 and the first GiB at `KERNEL_BASE`.
/// `kmap::build` replaces them, and `smp` uses the memory for those that the other CPUs begin with.
pub static TABLES: Tables = {
    let mut tables = [[ptr::null(); ENTRIES]; TABLE_COUNT];
    // The root has the second table for the lowest 512 GiB and for the highest.
    (tables[0][0], tables[0][511]) = (table(1), table(1));
    let mut gib = 0;
    while gib < 4 {
        tables[1][gib] = table(2 + gib);
        let mut n = 0;
        while n < ENTRIES {
            tables[2 + gib][n] = ptr::without_provenance(
                (gib * ENTRIES + n) << BLOCK_SHIFT | (BLOCK | WRITE | PRESENT) as usize,
            );
            n += 1;
        }
        gib += 1;
    }
    tables[1][510] = table(2);
    Tables(UnsafeCell::new(tables))
};

/// An entry that names one of [`TABLES`].
const fn table(n: usize) -> *const u8 {
    physical((&raw const TABLES).cast()).wrapping_byte_add(n << PAGE_SHIFT | (WRITE | PRESENT) as usize)
}

/// Where 32-bit code is in the table of the segments of this way, before the kernel's own code and data.
const PROTECTED_CS: usize = 0x8;
const _: () = assert!(KERNEL_CS == 0x10 && KERNEL_DS == 0x18);

/// The ELF note by which a loader finds the entry point: name and value sizes, type, name, value. (QEMU takes
/// the note's alignment for that of the value, which has to follow the name.)
#[repr(C, packed(4))]
struct Note(u32, u32, u32, [u8; 4], *const u8);

// SAFETY: never written.
unsafe impl Sync for Note {}

/// `XEN_ELFNOTE_PHYS32_ENTRY`.
const PHYS32_ENTRY: u32 = 18;

#[used]
#[unsafe(link_section = ".note.Xen")]
static NOTE: Note = Note(4, 8, PHYS32_ENTRY, *b"Xen\0", physical(&raw const pvh_start));

// Until the last jump addresses are physical: the linked ones less KERNEL_BASE. Paging is turned on in the
// page that this lies in, and the last jump looks at the segments, so the tables map that page at its
// physical address, too. CR0 and CR4 are the least that 64-bit mode needs; `cpu::enable` sets the
// rest.
global_asm!(
    r#"
.pushsection .head.text, "ax"
.globl x86_trampoline, x86_trampoline_end, pvh_start

// A start-up interrupt begins here, in real mode, with CS the page of the copy; INIT has cleared the flags.
// Setting PE is all it takes to leave real mode, and the far jump leads to 32-bit code in the image.
.code16
x86_trampoline:
    lgdtl %cs:gdt_pointer - x86_trampoline
    movw ${cr0_pe}, %ax
    lmsw %ax
    ljmpl ${protected_cs}, $protected_mode - {base}
gdt_pointer:
    .word 4 * 8 - 1
    .long gdt - {base}
x86_trampoline_end:
    .balign 8
gdt:
    .quad 0, {code_32}, {code_64}, {data}

// The boot CPU begins here. The protocol does not say what the direction flag is.
.code32
pvh_start:
    cld
    lgdtl gdt_pointer - {base}

// All CPUs: 64-bit mode begins when paging is turned on with PAE and LME, and 64-bit code with the jump.
protected_mode:
    movl ${kernel_ds}, %eax
    movl %eax, %ds
    movl {start} - {base} + {root}, %eax
    movl %eax, %cr3
    movl ${cr4_pae}, %eax
    movl %eax, %cr4
    movl ${msr_efer}, %ecx
    rdmsr
    orl {start} - {base} + {efer}, %eax
    wrmsr
    movl ${cr0}, %eax
    movl %eax, %cr0
    ljmpl ${kernel_cs}, $long_mode - {base}

// On the tables, at the physical address; the call leads to where the image is linked. RBP 0 ends backtraces.
.code64
long_mode:
    movq ${start}, %rax
    movq {stack}(%rax), %rsp
    movl %ebx, %edi
    xorl %ebp, %ebp
    callq *{main}(%rax)
    ud2
.popsection
"#,
    cr0_pe = const CR0_PE,
    protected_cs = const PROTECTED_CS,
    base = const KERNEL_BASE,
    code_32 = const CODE_32,
    code_64 = const CODE_64,
    data = const DATA,
    kernel_ds = const KERNEL_DS,
    start = sym START,
    root = const offset_of!(Start, root),
    cr4_pae = const CR4_PAE,
    msr_efer = const cpu::MSR_EFER,
    efer = const offset_of!(Start, efer),
    cr0 = const CR0_PE | CR0_ET | CR0_NE | CR0_WP | CR0_PG,
    kernel_cs = const KERNEL_CS,
    stack = const offset_of!(Start, stack),
    main = const offset_of!(Start, main),
    options(att_syntax)
);

unsafe extern "C" {
    static x86_trampoline: u8;
    static x86_trampoline_end: u8;
    static pvh_start: u8;
}

/// What the other CPUs begin with: where it is to be copied from, and its length.
pub fn trampoline() -> (*const u8, usize) {
    let (start, end) = (&raw const x86_trampoline, &raw const x86_trampoline_end);
    (start, end as usize - start as usize)
}

/// An address (linked) in the page that the tables of a CPU which starts must map where it is physically.
pub fn passage() -> usize {
    &raw const pvh_start as usize
}
