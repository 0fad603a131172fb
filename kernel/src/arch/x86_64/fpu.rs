//! Floating-point and vector state. The kernel is compiled without it, so the registers always hold the state
//! of the last user thread this CPU ran. A thread's state is saved when it is switched out and loaded when it
//! is switched in, unless the registers still hold it.
//!
//! A thread's save area lies at the top of its kernel stack, above the register frame: its size is known only
//! at run time, and it needs no allocation that could fail.

use super::cpu::{self, Features};
use super::uaccess::{close_window, open_window, try_asm};
use core::arch::asm;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The upper halves of the 256-bit registers.
pub const AVX: u64 = 4;
/// What AVX-512 has besides: masks, the upper halves of the 512-bit registers, and more of these.
pub const AVX512: u64 = 0xe0;
/// x87, SSE, AVX and AVX-512: what the kernel lets user space use.
const WANTED: u64 = 1 | 2 | AVX | AVX512;
/// Bytes of the legacy area.
pub const LEGACY: usize = 512;
/// Bytes of legacy area and header.
const HEADER_END: usize = 576;
const MXCSR_DEFAULT: u32 = 0x1f80;

static FEATURES: AtomicU64 = AtomicU64::new(0);
static STATE_SIZE: AtomicUsize = AtomicUsize::new(LEGACY);
static AREA_SIZE: AtomicUsize = AtomicUsize::new(LEGACY);

/// The state of a fresh program: x87 and SSE control words at their defaults, everything else (header 0)
/// initial.
#[repr(C, align(64))]
struct Initial([u8; HEADER_END]);

static INITIAL: Initial = {
    let mut bytes = [0; HEADER_END];
    bytes[0] = 0x7f;
    bytes[1] = 0x03;
    let mxcsr = MXCSR_DEFAULT.to_le_bytes();
    bytes[24] = mxcsr[0];
    bytes[25] = mxcsr[1];
    Initial(bytes)
};

/// State components in use (`XCR0`); 0 without `xsave`.
#[inline(always)]
pub fn components() -> u64 {
    FEATURES.load(Ordering::Relaxed)
}

/// Bytes of the state as the processor writes it.
#[inline(always)]
pub fn state_size() -> usize {
    STATE_SIZE.load(Ordering::Relaxed)
}

/// Bytes a thread's area takes at the top of its stack.
#[inline(always)]
pub fn area_size() -> usize {
    AREA_SIZE.load(Ordering::Relaxed)
}

/// Finds the size (boot CPU) and turns the components on (every CPU).
pub fn init() {
    if cpu::has(Features::XSAVE) {
        let leaf = cpu::cpuid(0xd, 0);
        let mut have = (u64::from(leaf.edx) << 32 | u64::from(leaf.eax)) & WANTED;
        // AVX-512's components come together, and need AVX; registers without instructions stay off.
        if !cpu::has(Features::AVX) {
            have &= !AVX;
        }
        if have & (AVX | AVX512) != AVX | AVX512 {
            have &= !AVX512;
        }
        // SAFETY: `CR4.OSXSAVE` is on, and the processor supports these components.
        unsafe {
            asm!(
                "xsetbv", in("ecx") 0, in("eax") have as u32, in("edx") (have >> 32) as u32,
                options(nomem, nostack, preserves_flags),
            );
        }
        let size = cpu::cpuid(0xd, 0).ebx as usize;
        FEATURES.store(have, Ordering::Relaxed);
        STATE_SIZE.store(size, Ordering::Relaxed);
        AREA_SIZE.store(size.next_multiple_of(64), Ordering::Relaxed);
    }
    load_initial();
}

/// Prepares a fresh area.
///
/// # Safety
/// `area` is a 64-byte aligned area of [`area_size`] bytes that belongs to the caller.
pub unsafe fn init_area(area: usize) {
    // SAFETY: the caller's promise; the area is larger than legacy part and header if there is a header.
    unsafe {
        if components() != 0 {
            // `xsave` does not write all of the header.
            (area as *mut u8).add(LEGACY).write_bytes(0, HEADER_END - LEGACY);
        }
    }
}

/// Writes the registers to `area`.
///
/// # Safety
/// As [`init_area`].
#[inline(always)]
pub unsafe fn save(area: usize) {
    let c = components();
    // SAFETY: the caller's promise; the area is aligned and large enough for the components.
    unsafe {
        if c != 0 {
            asm!(
                "xsave64 [{}]", in(reg) area, in("eax") c as u32, in("edx") 0,
                options(nostack, preserves_flags),
            );
        } else {
            asm!("fxsave64 [{}]", in(reg) area, options(nostack, preserves_flags));
        }
    }
}

/// Loads the registers from `area`.
///
/// # Safety
/// As [`init_area`]; the area was written by [`save`] or is a valid image.
#[inline(always)]
pub unsafe fn load(area: usize) {
    let c = components();
    // SAFETY: the caller's promise.
    unsafe {
        if c != 0 {
            load_components(area, c);
        } else {
            asm!("fxrstor64 [{}]", in(reg) area, options(nostack, preserves_flags));
        }
    }
}

/// Loads `components` from `area`.
///
/// # Safety
/// As [`load`]; the processor has `xsave`.
#[inline(always)]
unsafe fn load_components(area: usize, components: u64) {
    // SAFETY: the caller's promise. There are no components beyond the lower half.
    unsafe {
        asm!(
            "xrstor64 [{}]", in(reg) area, in("eax") components as u32, in("edx") 0,
            options(nostack, preserves_flags),
        );
    }
}

/// Loads the state of a fresh program (also on entry to a signal handler).
#[inline(always)]
pub fn load_initial() {
    // SAFETY: a valid image, aligned; with the header's component bits 0 nothing beyond the header is read.
    unsafe { load(&raw const INITIAL as usize) }
}

/// Loads the initial state of `components` only.
pub fn load_initial_components(components: u64) {
    if components != 0 {
        // SAFETY: as `load_initial`; only called with `xsave`.
        unsafe { load_components(&raw const INITIAL as usize, components) };
    }
}

/// Changes the legacy area of the running thread's registers by `f`, which leaves MXCSR alone: anything else
/// there can be loaded.
pub fn change_legacy(f: impl FnOnce(&mut [u8])) {
    #[repr(C, align(16))]
    struct Image([u8; LEGACY]);
    let mut image = Image([0; LEGACY]);
    // SAFETY: aligned, and as large as it must be. (In between the thread may be switched out and in, which
    // does not change its registers.)
    unsafe { asm!("fxsave64 [{}]", in(reg) &raw mut image, options(nostack, preserves_flags)) };
    f(&mut image.0);
    // SAFETY: as above; the control word of SSE is one that was there.
    unsafe { asm!("fxrstor64 [{}]", in(reg) &raw const image, options(nostack, preserves_flags)) };
}

/// Unmasked x87 exceptions that are pending.
pub fn x87_exceptions() -> u32 {
    let (mut status, mut control) = (0u16, 0u16);
    // SAFETY: stores of 16 bits each.
    unsafe {
        asm!("fnstsw [{}]", in(reg) &raw mut status, options(nostack, preserves_flags));
        asm!("fnstcw [{}]", in(reg) &raw mut control, options(nostack, preserves_flags));
    }
    u32::from(status & !control & 0x3f)
}

/// Unmasked SSE exceptions that are pending.
pub fn simd_exceptions() -> u32 {
    let mut mxcsr = 0u32;
    // SAFETY: a store of 32 bits.
    unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut mxcsr, options(nostack, preserves_flags)) };
    mxcsr & !(mxcsr >> 7) & 0x3f
}

/// One instruction that transfers state from or to user memory at `$at`; `false` on a fault.
macro_rules! transfer {
    ($instruction:literal, $at:expr $(, $mask:expr)?) => {{
        let mut fault = 0u32;
        open_window();
        try_asm!(
            fault, concat!($instruction, " [{at}]"), at = in(reg) $at
            $(, in("eax") $mask as u32, in("edx") ($mask >> 32) as u32)?
        );
        close_window();
        fault == 0
    }};
}

/// Writes the registers to user memory at `at`; `false` if it is not there. A page fault is resolved and the
/// whole store starts again.
pub fn save_to_user(at: usize) -> bool {
    let c = components();
    // SAFETY: the caller checked the range and its alignment; a fault is told.
    unsafe {
        if c != 0 {
            transfer!("xsave64", at, c)
        } else {
            transfer!("fxsave64", at)
        }
    }
}

/// Loads `components` from user memory at `at` (64-byte aligned, range checked); `false` if it is not there
/// or not a valid image.
pub fn load_from_user(at: usize, components: u64) -> bool {
    // SAFETY: the processor refuses bad images; refusals and page faults that cannot be resolved are told.
    unsafe { transfer!("xrstor64", at, components) }
}

/// Loads the legacy state from user memory at `at` (16-byte aligned, range checked); `false` as in
/// [`load_from_user`].
pub fn load_legacy_from_user(at: usize) -> bool {
    // SAFETY: as `load_from_user`.
    unsafe { transfer!("fxrstor64", at) }
}
