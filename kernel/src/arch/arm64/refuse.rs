//! What is said when the kernel cannot run on this processor, with the memory management unit off: by the
//! first PL011 of the devicetree, if there is one. As all that runs then (`head`), it calls nothing, and
//! reads words and bytes at their natural alignment only.

/// Tokens of a flattened devicetree's structure.
const BEGIN_NODE: u32 = 1;
const PROPERTY: u32 = 3;
const END: u32 = 9;
/// Words of its header: where the structure begins, and the strings.
const STRUCTURE: usize = 2;
const STRINGS: usize = 3;
/// A PL011's flags, and the one that says that there is no room.
const FLAGS: usize = 0x18;
const FULL: u32 = 1 << 5;

/// # Safety
/// Readable memory.
#[inline(always)]
unsafe fn word(at: usize) -> u32 {
    // SAFETY: as the caller promises.
    u32::from_be(unsafe { (at as *const u32).read_volatile() })
}

/// Whether the text there begins like this.
///
/// # Safety
/// Readable memory, up to the first byte that differs.
#[inline(always)]
unsafe fn begins(at: usize, text: &[u8]) -> bool {
    // SAFETY: as the caller promises. Volatile: this does not become a call.
    (0..text.len()).all(|n| unsafe { ((at + n) as *const u8).read_volatile() == *text.as_ptr().add(n) })
}

/// The registers of the first PL011, if there is one.
///
/// # Safety
/// A devicetree is there.
#[inline(always)]
unsafe fn pl011(tree: usize) -> Option<usize> {
    // SAFETY: the caller promises a tree; everything is read where its format says.
    unsafe {
        let strings = tree + word(tree + 4 * STRINGS) as usize;
        let mut at = tree + word(tree + 4 * STRUCTURE) as usize;
        let (mut registers, mut is_one) = (0, false);
        loop {
            let token = word(at);
            at += 4;
            if token == BEGIN_NODE {
                (registers, is_one) = (0, false);
                while word(at) & 0xff != 0 {
                    at += 4;
                }
                at += 4;
            } else if token == PROPERTY {
                let (size, name) = (word(at) as usize, strings + word(at + 4) as usize);
                at += 8;
                if begins(name, b"compatible\0") && size >= 9 {
                    is_one = begins(at, b"arm,pl011");
                } else if begins(name, b"reg\0") && size >= 16 {
                    registers = (word(at) as usize) << 32 | word(at + 4) as usize;
                }
                at += size.next_multiple_of(4);
                if is_one && registers != 0 {
                    return Some(registers);
                }
            } else if token == END {
                return None;
            }
        }
    }
}

/// Says it and waits for ever.
///
/// # Safety
/// The memory management unit is off; the devicetree is at `tree`.
#[inline(always)]
pub(super) unsafe fn refuse(tree: usize, text: &[u8]) -> ! {
    // SAFETY: as the caller promises; the registers are nobody else's.
    unsafe {
        if let Some(registers) = pl011(tree) {
            for n in 0..text.len() {
                while ((registers + FLAGS) as *const u32).read_volatile() & FULL != 0 {}
                (registers as *mut u32).write_volatile(u32::from(*text.as_ptr().add(n)));
            }
        }
        loop {
            core::arch::asm!("wfe", options(nomem, nostack, preserves_flags));
        }
    }
}
