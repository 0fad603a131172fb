//! What moves memory: the kernel's `memcpy`, `memmove` and `memset` (the compiler calls them, by their names
//! in the Arm run-time ABI, too: `link.ld` has those for known alignments), and the moves that the copies to
//! and from user memory are made of (`uaccess`), which may fault.
//!
//! The order of moves is `limen_memory`'s. Words may lie anywhere; several at a time may not, and from
//! [`PIECE`] bytes on they go through borrowed floating-point registers (`switch`).

use super::{cpus, switch::USER_THREAD};
use core::arch::asm;
use core::hint::assert_unchecked;
use core::sync::atomic::{Ordering, compiler_fence};
use limen_memory::{Moves, copy, copy_backwards};

/// An instruction that may fault and then continues at `$to`.
macro_rules! faulting {
    ($access:literal, $to:literal) => {
        concat!(
            "9:",
            $access,
            "\n",
            $crate::arch::imp::extable::may_fault!("9b", $to)
        )
    };
}
pub(super) use faulting;

/// An instruction in the same place that may not.
macro_rules! may_not_fault {
    ($access:literal, $to:literal) => {
        $access
    };
}

/// Bytes of a chunk, which eight registers hold.
pub(super) const CHUNK: usize = 32;
/// Bytes from which on a fill is worth getting eight registers ready.
pub(super) const LONG_FILL: usize = 64;

/// Moves chunks; `$load` and `$store` are `faulting` or `may_not_fault`. Gives target and source behind what
/// was moved, and how many chunks are left: an access that faults leaves its address as it was.
macro_rules! copy_chunks {
    ($load:ident, $store:ident, $to:ident, $from:ident, $count:ident) => {{
        let (end, next, left): (usize, usize, usize);
        // SAFETY: as the caller promises; faults on the user's side are in the exception table.
        unsafe {
            asm!(
                "2:",
                $load!("ldm {from}!, {{r3, r4, r5, r7, r8, r10, r12, lr}}", "3f"),
                $store!("stm {to}!, {{r3, r4, r5, r7, r8, r10, r12, lr}}", "3f"),
                "subs {count}, {count}, #1",
                "bne 2b",
                "3:",
                to = inout(reg) $to => end, from = inout(reg) $from => next,
                count = inout(reg) $count => left,
                out("r3") _, out("r4") _, out("r5") _, out("r7") _, out("r8") _, out("r10") _, out("r12") _,
                out("lr") _,
                options(nostack)
            );
        }
        (end, next, left)
    }};
}

/// Stores chunks with the same word everywhere; `$store` is `faulting` or `may_not_fault`. Gives the target
/// behind what was stored, and how many chunks are left.
macro_rules! fill_chunks {
    ($store:ident, $to:ident, $word:expr, $count:ident) => {{
        let (end, left): (usize, usize);
        // SAFETY: both ranges are as the caller promises; faults on the user's side are in the
        // exception table.
        unsafe {
            asm!(
                "2:",
                $store!("stm {to}!, {{r3, r4, r5, r7, r8, r10, r12, lr}}", "3f"),
                "subs {count}, {count}, #1",
                "bne 2b",
                "3:",
                to = inout(reg) $to => end, count = inout(reg) $count => left,
                in("r3") $word, in("r4") $word, in("r5") $word, in("r7") $word, in("r8") $word,
                in("r10") $word, in("r12") $word, in("lr") $word,
                options(nostack)
            );
        }
        (end, left)
    }};
}

/// Moves between user and kernel memory, while user space is open (`uaccess`). `$load` and `$store` are
/// `faulting` or `may_not_fault`; `$stores` says whether it is the stores that may fault.
macro_rules! user_moves {
    ($(#[$doc:meta])* $name:ident, $load:ident, $store:ident, $stores:literal) => {
        $(#[$doc])*
        pub(super) struct $name;

        impl Moves for $name {
            const WORD: usize = 4;
            const CHUNK: usize = CHUNK;

            #[inline(always)]
            unsafe fn chunks(&self, to: usize, from: usize, count: usize) -> (usize, usize, bool) {
                let (to, from, left) = copy_chunks!($load, $store, to, from, count);
                // What could not be stored was loaded.
                let loaded = if left != 0 && $stores { CHUNK } else { 0 };
                (to, from.wrapping_sub(loaded), left == 0)
            }

            #[inline(always)]
            unsafe fn word<const AT: usize>(&self, to: usize, from: usize) -> bool {
                // SAFETY: as the caller promises; faults on the user's side are in the exception table.
                unsafe {
                    asm!(
                        $load!("ldr {word}, [{from}, #4 * {at}]", "{fault}"),
                        $store!("str {word}, [{to}, #4 * {at}]", "{fault}"),
                        to = in(reg) to, from = in(reg) from, at = const AT, word = out(reg) _,
                        fault = label { return false },
                        options(nostack, preserves_flags)
                    );
                }
                true
            }

            #[inline(always)]
            unsafe fn byte(&self, to: usize, from: usize) -> bool {
                // SAFETY: both ranges are as the caller promises; faults on the user's
                // side are in the exception table.
                unsafe {
                    asm!(
                        $load!("ldrb {byte}, [{from}]", "{fault}"),
                        $store!("strb {byte}, [{to}]", "{fault}"),
                        to = in(reg) to, from = in(reg) from, byte = out(reg) _,
                        fault = label { return false },
                        options(nostack, preserves_flags)
                    );
                }
                true
            }
        }
    };
}
user_moves!(
    /// From user memory.
    FromUser, faulting, may_not_fault, false
);
user_moves!(
    /// To user memory.
    ToUser, may_not_fault, faulting, true
);

/// Zeroes in user memory; where from does not matter. Its chunks are of [`CHUNK`] bytes, or of more if there
/// shall be none.
pub(super) struct ZeroUser<const CHUNK: usize>;

impl<const CHUNK: usize> Moves for ZeroUser<CHUNK> {
    const WORD: usize = 4;
    const CHUNK: usize = CHUNK;

    #[inline(always)]
    unsafe fn chunks(&self, to: usize, _: usize, count: usize) -> (usize, usize, bool) {
        let (to, left) = fill_chunks!(faulting, to, 0, count);
        (to, to, left == 0)
    }

    #[inline(always)]
    unsafe fn word<const AT: usize>(&self, to: usize, _: usize) -> bool {
        // SAFETY: as the caller promises; faults are in the exception table.
        unsafe {
            asm!(
                faulting!("str {zero}, [{to}, #4 * {at}]", "{fault}"),
                to = in(reg) to, at = const AT, zero = in(reg) 0, fault = label { return false },
                options(nostack, preserves_flags)
            );
        }
        true
    }

    #[inline(always)]
    unsafe fn byte(&self, to: usize, _: usize) -> bool {
        // SAFETY: both ranges are as the caller promises; faults are in the exception table.
        unsafe {
            asm!(
                faulting!("strb {zero}, [{to}]", "{fault}"),
                to = in(reg) to, zero = in(reg) 0, fault = label { return false },
                options(nostack, preserves_flags)
            );
        }
        true
    }
}

/// Within the kernel. Each move is a step of its own to the compiler, or it would make loops of them calls of
/// the functions they are in.
struct Kernel;

impl Moves for Kernel {
    const WORD: usize = 4;
    const CHUNK: usize = CHUNK;

    #[inline(always)]
    unsafe fn chunks(&self, to: usize, from: usize, count: usize) -> (usize, usize, bool) {
        let (to, from, _) = copy_chunks!(may_not_fault, may_not_fault, to, from, count);
        (to, from, true)
    }

    #[inline(always)]
    unsafe fn word<const AT: usize>(&self, to: usize, from: usize) -> bool {
        let (to, from) = (to as *mut u32, from as *const u32);
        // SAFETY: as the caller promises.
        unsafe { to.add(AT).write_unaligned(from.add(AT).read_unaligned()) };
        compiler_fence(Ordering::SeqCst);
        true
    }

    #[inline(always)]
    unsafe fn byte(&self, to: usize, from: usize) -> bool {
        // SAFETY: as the caller promises.
        unsafe { (to as *mut u8).write((from as *const u8).read()) };
        compiler_fence(Ordering::SeqCst);
        true
    }
}

/// Fills kernel memory with four bytes again and again; where from does not matter. Chunks as of
/// [`ZeroUser`].
struct Fill<const CHUNK: usize>(u32);

impl<const CHUNK: usize> Moves for Fill<CHUNK> {
    const WORD: usize = 4;
    const CHUNK: usize = CHUNK;

    #[inline(always)]
    unsafe fn chunks(&self, to: usize, _: usize, count: usize) -> (usize, usize, bool) {
        let (to, _) = fill_chunks!(may_not_fault, to, self.0, count);
        (to, to, true)
    }

    #[inline(always)]
    unsafe fn word<const AT: usize>(&self, to: usize, _: usize) -> bool {
        // SAFETY: as the caller promises.
        unsafe { (to as *mut u32).add(AT).write_unaligned(self.0) };
        compiler_fence(Ordering::SeqCst);
        true
    }

    #[inline(always)]
    unsafe fn byte(&self, to: usize, _: usize) -> bool {
        // SAFETY: as the caller promises.
        unsafe { (to as *mut u8).write(self.0 as u8) };
        compiler_fence(Ordering::SeqCst);
        true
    }
}

/// Bytes that are moved through floating-point registers at a time.
const PIECE: usize = 512;
/// How many times the borrowed registers, of 128 bytes, are moved for that.
const ROUNDS: usize = PIECE / 128;

/// Whether moves of memory so aligned may go through floating-point registers: those of the running thread
/// must be its own to be borrowed.
#[inline(always)]
fn may_borrow(to: usize, from: usize) -> bool {
    let thread = cpus::current().cast::<u8>();
    // SAFETY: the running thread is a task, or has room enough (`switch`).
    (to | from) & 3 == 0 && unsafe { thread.add(USER_THREAD).read() } != 0
}

/// Moves pieces through borrowed registers: the instructions that get these ready, then those that move all
/// of them once, which may fault. Gives how many bytes were moved; part of one more piece may have been.
///
/// The registers get back what was in them, also after a fault; a switch in between saves and loads what is
/// in them meanwhile. Used inside `unsafe` blocks.
macro_rules! pieces_asm {
    ([$($ready:literal),*], [$($move:literal),+], $len:ident, $($operand:tt)*) => {{
        let left: usize;
        asm!(
            ".fpu neon",
            "vpush {{d0-d15}}",
            $($ready,)*
            "2:",
            ".rept {rounds}",
            $(faulting!($move, "3f"),)+
            ".endr",
            "subs {left}, {left}, #1",
            "bne 2b",
            "3: vpop {{d0-d15}}",
            left = inout(reg) $len / PIECE => left, rounds = const ROUNDS, $($operand)*
        );
        ($len / PIECE - left) * PIECE
    }};
}

/// [`copy`] of a chunk or more.
///
/// # Safety
/// As for that.
#[inline(always)]
pub(super) unsafe fn copy_long<M: Moves>(moves: &M, mut to: usize, mut from: usize, mut len: usize) -> usize {
    // SAFETY: as the caller promises.
    unsafe {
        assert_unchecked(len >= CHUNK);
        if len >= PIECE && may_borrow(to, from) {
            let done = pieces_asm!(
                [],
                [
                    "vldm {from}!, {{d0-d15}}",
                    "vstm {to}!, {{d0-d15}}"
                ],
                len, to = inout(reg) to => _, from = inout(reg) from => _,
            );
            (to, from, len) = (to + done, from + done, len - done);
        }
        copy(moves, to, from, len)
    }
}

/// The same for a fill with `word`.
///
/// # Safety
/// As for [`copy`].
#[inline(always)]
pub(super) unsafe fn fill_long<M: Moves>(moves: &M, word: u32, mut to: usize, mut len: usize) -> usize {
    // SAFETY: as the caller promises, `LONG_FILL` bytes at least.
    unsafe {
        assert_unchecked(len >= LONG_FILL);
        if len >= PIECE && may_borrow(to, 0) {
            let done = pieces_asm!(
                [
                    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7",
                    "vdup.32 q\\n, {word}",
                    ".endr"
                ],
                [
                    "vstm {to}!, {{d0-d15}}"
                ],
                len, to = inout(reg) to => _, word = in(reg) word,
            );
            (to, len) = (to + done, len - done);
        }
        copy(moves, to, to, len)
    }
}

/// Zeroes memory before there is a running thread, or translation of addresses.
///
/// # Safety
/// `to` is writable for `len` bytes.
#[inline(always)]
pub(super) unsafe fn clear_early(to: usize, len: usize) {
    // SAFETY: as the caller promises.
    unsafe { copy(&Fill::<CHUNK>(0), to, to, len) };
}

/// # Safety
/// As the C library's; so are all of these, but for what they return. What is short is done at once.
#[unsafe(no_mangle)]
unsafe extern "C" fn __aeabi_memcpy(to: usize, from: usize, len: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        if len < CHUNK {
            copy(&Kernel, to, from, len);
        } else {
            kernel_copy_long(to, from, len);
        }
    }
}

#[inline(never)]
unsafe fn kernel_copy_long(to: usize, from: usize, len: usize) {
    // SAFETY: as the caller promises. What a fault leaves ends in another, at a place that may not.
    unsafe { copy_long(&Kernel, to, from, len) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __aeabi_memmove(to: usize, from: usize, len: usize) {
    // SAFETY: as the caller promises. Only if the target begins inside the source must the copy go backwards.
    unsafe {
        if to.wrapping_sub(from) >= len {
            __aeabi_memcpy(to, from, len);
        } else {
            copy_backwards(&Kernel, to, from, len);
        }
    }
}

#[inline(always)]
unsafe fn kernel_fill(to: usize, len: usize, word: u32) {
    // SAFETY: as the caller promises.
    unsafe {
        if len < LONG_FILL {
            copy(&Fill::<LONG_FILL>(word), to, to, len);
        } else {
            kernel_fill_long(to, len, word);
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __aeabi_memset(to: usize, len: usize, byte: u32) {
    // SAFETY: as the caller promises.
    unsafe { kernel_fill(to, len, (byte & 0xff) * 0x0101_0101) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __aeabi_memclr(to: usize, len: usize) {
    // SAFETY: as the caller promises.
    unsafe { kernel_fill(to, len, 0) };
}

#[inline(never)]
unsafe fn kernel_fill_long(to: usize, len: usize, word: u32) {
    // SAFETY: as the caller promises.
    unsafe { fill_long(&Fill::<CHUNK>(word), word, to, len) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: usize, from: usize, len: usize) -> usize {
    // SAFETY: as the caller promises.
    unsafe { __aeabi_memcpy(to, from, len) };
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: usize, from: usize, len: usize) -> usize {
    // SAFETY: as the caller promises.
    unsafe { __aeabi_memmove(to, from, len) };
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: usize, byte: u32, len: usize) -> usize {
    // SAFETY: as the caller promises.
    unsafe { __aeabi_memset(to, len, byte) };
    to
}
