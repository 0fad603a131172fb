//! The processor's own registers, ports and features. Everything in `arch/x86_64` that needs a privileged
//! instruction goes through here.

use core::arch::asm;
use core::arch::x86_64::{__cpuid_count, CpuidResult};
use core::sync::atomic::{AtomicU32, Ordering};

/// What is in a register that only `mov` reaches: a control, debug or segment register.
macro_rules! read_register {
    ($register:literal) => {{
        let value: usize;
        core::arch::asm!(
            concat!("mov {}, ", $register), out(reg) value, options(nomem, nostack, preserves_flags)
        );
        value
    }};
}
/// Writes such a register.
macro_rules! write_register {
    ($register:literal, $value:expr) => {{
        let value: usize = $value;
        core::arch::asm!(
            concat!("mov ", $register, ", {}"), in(reg) value, options(nostack, preserves_flags)
        );
    }};
}
pub(super) use {read_register, write_register};

/// Extended feature enables.
pub const MSR_EFER: u32 = 0xc000_0080;
/// Selectors for `syscall` and `sysret`.
pub const MSR_STAR: u32 = 0xc000_0081;
/// Where `syscall` goes.
pub const MSR_LSTAR: u32 = 0xc000_0082;
/// Where `syscall` goes that 32-bit code makes.
pub const MSR_CSTAR: u32 = 0xc000_0083;
/// Flags that `syscall` clears.
pub const MSR_FMASK: u32 = 0xc000_0084;
/// The code segment that `sysenter` enters; none if it is 0.
pub const MSR_SYSENTER_CS: u32 = 0x174;
/// Base of FS.
pub const MSR_FS_BASE: u32 = 0xc000_0100;
/// Base of GS.
pub const MSR_GS_BASE: u32 = 0xc000_0101;
/// The base `swapgs` exchanges with that of GS.
pub const MSR_KERNEL_GS_BASE: u32 = 0xc000_0102;
/// What `rdtscp` and `rdpid` return.
pub const MSR_TSC_AUX: u32 = 0xc000_0103;
/// Local APIC base and enables.
pub const MSR_APIC_BASE: u32 = 0x1b;
/// The local APIC's timer as a TSC value.
pub const MSR_TSC_DEADLINE: u32 = 0x6e0;

/// `EFER`: system call extensions.
pub const EFER_SCE: u64 = 1 << 0;
/// `EFER`: long mode, once paging is turned on.
pub const EFER_LME: u64 = 1 << 8;
/// `EFER`: no-execute pages.
pub const EFER_NXE: u64 = 1 << 11;

/// `CR0`: protected mode.
pub const CR0_PE: usize = 1 << 0;
const CR0_MP: usize = 1 << 1;
const CR0_EM: usize = 1 << 2;
const CR0_TS: usize = 1 << 3;
/// `CR0`: always set.
pub const CR0_ET: usize = 1 << 4;
/// `CR0`: x87 errors are exceptions.
pub const CR0_NE: usize = 1 << 5;
/// `CR0`: the kernel may not write to what is read-only.
pub const CR0_WP: usize = 1 << 16;
const CR0_AM: usize = 1 << 18;
const CR0_NW: usize = 1 << 29;
const CR0_CD: usize = 1 << 30;
/// `CR0`: paging.
pub const CR0_PG: usize = 1 << 31;
/// `CR4`: 64-bit entries of page tables.
pub const CR4_PAE: usize = 1 << 5;
/// `CR4`: user mode cannot read the time stamp counter.
pub const CR4_TSD: usize = 1 << 2;
const CR4_MCE: usize = 1 << 6;
/// `CR4`: global pages.
pub const CR4_PGE: usize = 1 << 7;
const CR4_OSFXSR: usize = 1 << 9;
const CR4_OSXMMEXCPT: usize = 1 << 10;
const CR4_UMIP: usize = 1 << 11;
const CR4_FSGSBASE: usize = 1 << 16;
const CR4_OSXSAVE: usize = 1 << 18;
const CR4_SMEP: usize = 1 << 20;
const CR4_SMAP: usize = 1 << 21;

bitflags::bitflags! {
    /// What this machine's processors can do, as far as the kernel cares.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Features: u32 {
        /// No-execute pages.
        const NX = 1 << 0;
        /// 1 GiB pages.
        const PAGES_1G = 1 << 1;
        /// Global pages.
        const PGE = 1 << 2;
        /// Supervisor-mode execution prevention.
        const SMEP = 1 << 3;
        /// Supervisor-mode access prevention.
        const SMAP = 1 << 4;
        /// User-mode instruction prevention.
        const UMIP = 1 << 5;
        /// User-mode access to the FS and GS bases.
        const FSGSBASE = 1 << 6;
        /// `xsave` and `XCR0`.
        const XSAVE = 1 << 7;
        /// `xsaveopt`.
        const XSAVEOPT = 1 << 8;
        /// The local APIC by MSRs.
        const X2APIC = 1 << 9;
        /// The local APIC timer compares with the TSC.
        const TSC_DEADLINE = 1 << 10;
        /// `rdrand`.
        const RDRAND = 1 << 11;
        /// `rdseed`.
        const RDSEED = 1 << 12;
        /// `rdtscp`.
        const RDTSCP = 1 << 13;
        /// Runs under a hypervisor (or emulator).
        const HYPERVISOR = 1 << 14;
        /// 256-bit registers.
        const AVX = 1 << 15;
    }
}

static FEATURES: AtomicU32 = AtomicU32::new(0);
/// `CPUID.1:EDX`, which user space gets as `AT_HWCAP`.
static CPUID_1_EDX: AtomicU32 = AtomicU32::new(0);

/// The features found by [`detect`].
#[inline(always)]
pub fn features() -> Features {
    Features::from_bits_retain(FEATURES.load(Ordering::Relaxed))
}

/// Whether the processor has all of `f`.
#[inline(always)]
pub fn has(f: Features) -> bool {
    features().contains(f)
}

/// Settings that only this processor has: none.
pub const SETTINGS: &[crate::arch::settings::Setting] = &[];

/// `AT_HWCAP` and `AT_HWCAP2`.
pub fn hwcap() -> (usize, usize) {
    const HWCAP2_FSGSBASE: usize = 1 << 1;
    let two = if has(Features::FSGSBASE) {
        HWCAP2_FSGSBASE
    } else {
        0
    };
    (CPUID_1_EDX.load(Ordering::Relaxed) as usize, two)
}

/// One leaf of processor identification; zero if the leaf does not exist.
pub fn cpuid(leaf: u32, sub: u32) -> CpuidResult {
    let base = leaf & 0xffff_0000;
    // Leaves above the limit of their group return another leaf's data on some processors.
    let limit = __cpuid_count(base, 0).eax;
    if leaf > limit {
        return CpuidResult {
            eax: 0,
            ebx: 0,
            ecx: 0,
            edx: 0,
        };
    }
    __cpuid_count(leaf, sub)
}

/// Finds out what the processor can do. Boot CPU, first.
pub fn detect() {
    let one = cpuid(1, 0);
    let seven = cpuid(7, 0);
    let xsave = cpuid(0xd, 1);
    let ext = cpuid(0x8000_0001, 0);
    let mut f = Features::empty();
    let mut note = |feature, word: u32, bit: u32| f.set(feature, word & (1 << bit) != 0);
    note(Features::NX, ext.edx, 20);
    note(Features::PAGES_1G, ext.edx, 26);
    note(Features::RDTSCP, ext.edx, 27);
    note(Features::PGE, one.edx, 13);
    note(Features::SMEP, seven.ebx, 7);
    note(Features::SMAP, seven.ebx, 20);
    note(Features::UMIP, seven.ecx, 2);
    note(Features::FSGSBASE, seven.ebx, 0);
    note(Features::RDSEED, seven.ebx, 18);
    note(Features::XSAVE, one.ecx, 26);
    note(Features::AVX, one.ecx, 28);
    note(Features::X2APIC, one.ecx, 21);
    note(Features::TSC_DEADLINE, one.ecx, 24);
    note(Features::RDRAND, one.ecx, 30);
    note(Features::HYPERVISOR, one.ecx, 31);
    if f.contains(Features::XSAVE) {
        f.set(Features::XSAVEOPT, xsave.eax & 1 != 0);
    }
    FEATURES.store(f.bits(), Ordering::Relaxed);
    CPUID_1_EDX.store(one.edx, Ordering::Relaxed);
}

/// Turns on what [`detect`] found. Every CPU, early.
pub fn enable() {
    let f = features();
    let mut cr4 = CR4_PAE | CR4_MCE | CR4_OSFXSR | CR4_OSXMMEXCPT;
    for (feature, bit) in [
        (Features::PGE, CR4_PGE),
        (Features::UMIP, CR4_UMIP),
        (Features::FSGSBASE, CR4_FSGSBASE),
        (Features::XSAVE, CR4_OSXSAVE),
        (Features::SMEP, CR4_SMEP),
        (Features::SMAP, CR4_SMAP),
    ] {
        if f.contains(feature) {
            cr4 |= bit;
        }
    }
    // SAFETY: only features the processor has; the kernel's mappings already obey them (no user pages are
    // reachable yet).
    unsafe {
        wrmsr(
            MSR_EFER,
            rdmsr(MSR_EFER) | EFER_SCE | if f.contains(Features::NX) { EFER_NXE } else { 0 },
        );
        let cr0 = read_register!("cr0") & !(CR0_EM | CR0_TS | CR0_NW | CR0_CD);
        write_register!("cr0", cr0 | CR0_MP | CR0_NE | CR0_WP | CR0_AM);
        write_register!("cr4", cr4);
    }
}

/// Reads a model-specific register.
///
/// # Safety
/// The register exists.
#[inline(always)]
pub unsafe fn rdmsr(msr: u32) -> u64 {
    let (lo, hi): (u32, u32);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("rdmsr", in("ecx") msr, out("eax") lo, out("edx") hi, options(nomem, nostack, preserves_flags))
    }
    u64::from(hi) << 32 | u64::from(lo)
}

/// Writes a model-specific register.
///
/// # Safety
/// The register exists and the value keeps the kernel's assumptions.
#[inline(always)]
pub unsafe fn wrmsr(msr: u32, value: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "wrmsr", in("ecx") msr, in("eax") value as u32, in("edx") (value >> 32) as u32,
            options(nostack, preserves_flags),
        )
    }
}

/// Writes a byte to an I/O port.
///
/// # Safety
/// The device behind the port does nothing that harms the kernel.
#[inline(always)]
pub unsafe fn outb(port: u16, value: u8) {
    // SAFETY: the caller's promise.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack, preserves_flags)) }
}

/// Writes a 16-bit word to an I/O port.
///
/// # Safety
/// As [`outb`].
#[inline(always)]
pub unsafe fn outw(port: u16, value: u16) {
    // SAFETY: the caller's promise.
    unsafe { asm!("out dx, ax", in("dx") port, in("ax") value, options(nomem, nostack, preserves_flags)) }
}

/// Reads a byte from an I/O port.
///
/// # Safety
/// As [`outb`].
#[inline(always)]
pub unsafe fn inb(port: u16) -> u8 {
    let value: u8;
    // SAFETY: the caller's promise.
    unsafe { asm!("in al, dx", in("dx") port, out("al") value, options(nomem, nostack, preserves_flags)) }
    value
}

/// The address of the last page fault.
#[inline(always)]
pub fn read_cr2() -> usize {
    // SAFETY: reading CR2 has no effect.
    unsafe { read_register!("cr2") }
}

/// The root table in use.
#[inline(always)]
pub fn read_cr3() -> u64 {
    // SAFETY: reading CR3 has no effect.
    unsafe { read_register!("cr3") as u64 }
}

/// Changes the root table and forgets all translations that are not global.
///
/// # Safety
/// The tables map the kernel as before.
#[inline(always)]
pub unsafe fn write_cr3(value: u64) {
    // SAFETY: the caller's promise.
    unsafe { write_register!("cr3", value as usize) }
}

/// The time-stamp counter.
#[inline(always)]
pub fn rdtsc() -> u64 {
    let (lo, hi): (u32, u32);
    // SAFETY: reading the counter has no effect.
    unsafe { asm!("rdtsc", out("eax") lo, out("edx") hi, options(nomem, nostack, preserves_flags)) }
    u64::from(hi) << 32 | u64::from(lo)
}

/// All bits if `index` is below `len`, none if it is not, without a branch that could be guessed wrong.
#[inline(always)]
pub fn index_mask(index: usize, len: usize) -> usize {
    let mask;
    // SAFETY: only calculates.
    unsafe {
        asm!(
            "cmp {}, {}", "sbb {mask}, {mask}", in(reg) index, in(reg) len, mask = out(reg) mask,
            options(pure, nomem, nostack),
        );
    }
    mask
}
