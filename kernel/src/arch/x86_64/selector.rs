//! What the descriptors behind selectors allow. The processor is asked (`lar`), with the tables that this CPU
//! has: those of the running thread.

use super::cpu::{read_register, write_register};
use super::frame::{self, USER_DS};
use super::irq;
use core::arch::asm;

/// The privilege level that a selector asks with: user mode's.
const USER: u16 = 3;
/// The bit for the local table.
const LOCAL: u16 = frame::LOCAL as u16;

// Of a descriptor's upper half, as `lar` tells it.
const READABLE_CODE: u32 = 1 << 9;
const WRITABLE_DATA: u32 = 1 << 9;
const CODE: u32 = 1 << 11;
/// Code or data, not something of the processor's own.
const ORDINARY: u32 = 1 << 12;
const FOR_USER: u32 = 3 << 13;
const PRESENT: u32 = 1 << 15;

/// The upper half of the descriptor that user mode means by `selector`. `None`: user mode cannot use it: it
/// is null, beyond its table, empty, a gate, or the kernel's.
fn rights(selector: u16) -> Option<u32> {
    let (rights, found): (u32, u8);
    // SAFETY: reads a descriptor.
    unsafe {
        asm!(
            "xor {rights:e}, {rights:e}",
            "lar {rights:e}, {selector:e}",
            "setz {found}",
            rights = out(reg) rights,
            found = out(reg_byte) found,
            selector = in(reg) u32::from(selector | USER),
            options(nomem, nostack),
        );
    }
    (found != 0).then_some(rights)
}

/// Whether user mode can run with `selector` in SS.
pub fn is_stack(selector: u16) -> bool {
    const MUST: u32 = ORDINARY | FOR_USER | PRESENT | WRITABLE_DATA;
    rights(selector).is_some_and(|rights| rights & (MUST | CODE) == MUST)
}

/// Whether user mode can load `selector` into DS, ES, FS and GS; 0 to 3 always.
pub fn is_loadable(selector: u16) -> bool {
    const MUST: u32 = ORDINARY | PRESENT;
    selector <= USER
        || rights(selector)
            .is_some_and(|rights| rights & MUST == MUST && rights & (CODE | READABLE_CODE) != CODE)
}

/// The descriptors of the local table may have changed: DS and ES, which keep a copy, get the new ones, or
/// become null. (FS and GS keep theirs, as on Linux, until the next switch.) Interrupts are off.
pub fn refresh() {
    // SAFETY: the kernel uses none of them; what is loaded can be.
    unsafe {
        let renewed = |selector: usize| if is_loadable(selector as u16) { selector } else { 0 };
        let [ds, es] = [read_register!("ds"), read_register!("es")];
        if ds as u16 & LOCAL != 0 {
            write_register!("ds", renewed(ds));
        }
        if es as u16 & LOCAL != 0 {
            write_register!("es", renewed(es));
        }
    }
}

/// The selectors in DS, ES, FS and GS, 16 bits each.
pub fn segments() -> u64 {
    // SAFETY: reads registers.
    let [ds, es, fs, gs] = unsafe {
        [
            read_register!("ds"),
            read_register!("es"),
            read_register!("fs"),
            read_register!("gs"),
        ]
    };
    (ds | es << 16 | fs << 32 | gs << 48) as u64
}

/// Loads DS, ES, FS and GS, and thereby other bases of FS and GS in user mode. Whatever cannot be loaded, as
/// its descriptor has gone or a tracer made it up, becomes 0. Returns what was loaded. Interrupts are off, so
/// that this CPU's descriptors stay as they are from the question to the load.
pub fn load_segments(all: u64) -> u64 {
    let [ds, es, fs, gs] = [0, 16, 32, 48].map(|shift| {
        let selector = (all >> shift) as u16;
        if is_loadable(selector) {
            usize::from(selector)
        } else {
            0
        }
    });
    // SAFETY: none of the loads faults; the kernel uses none of them but the base of GS, which waits in the
    // other register meanwhile.
    unsafe {
        write_register!("ds", ds);
        write_register!("es", es);
        write_register!("fs", fs);
        write_user_gs(gs);
    }
    (ds | es << 16 | fs << 32 | gs << 48) as u64
}

/// Loads a selector into GS, and thereby another base of GS in user mode. Interrupts are off.
///
/// # Safety
/// It can be loaded.
pub unsafe fn write_user_gs(selector: usize) {
    // SAFETY: the caller's promise; the kernel's base waits in the other register meanwhile.
    unsafe { asm!("swapgs", "mov gs, {}", "swapgs", in(reg) selector, options(nostack, preserves_flags)) };
}

/// The selectors in DS, ES, FS and GS.
pub fn all() -> [u16; 4] {
    let all = segments();
    [0, 16, 32, 48].map(|shift| (all >> shift) as u16)
}

/// A handler of 32-bit code begins: DS and ES have the ordinary data.
pub fn enter_32_bits() {
    // SAFETY: the kernel uses neither, and the descriptor is always there.
    unsafe {
        write_register!("ds", USER_DS);
        write_register!("es", USER_DS);
    }
}

/// Those of DS, ES, FS and GS that are others than `wanted`, with user mode's rights, become those; what
/// cannot be loaded becomes 0. One that stays keeps its base.
pub fn reload(wanted: [u16; 4]) {
    let flags = irq::local_save();
    let now = all();
    let [ds, es, fs, gs] = core::array::from_fn(|n| {
        let wanted = if wanted[n] <= USER {
            wanted[n]
        } else {
            wanted[n] | USER
        };
        let loaded = if is_loadable(wanted) { wanted } else { 0 };
        (wanted != now[n]).then_some(usize::from(loaded))
    });
    // SAFETY: all of them can be loaded; the descriptors stay as they are while interrupts are off.
    unsafe {
        if let Some(ds) = ds {
            write_register!("ds", ds);
        }
        if let Some(es) = es {
            write_register!("es", es);
        }
        if let Some(fs) = fs {
            write_register!("fs", fs);
        }
        if let Some(gs) = gs {
            write_user_gs(gs);
        }
    }
    irq::local_restore(flags);
}

/// What `selector` means has changed: the registers that have it get that, or 0 if it cannot be loaded.
/// Interrupts are off.
pub fn renew(selector: u16) {
    let [ds, es, fs, gs] = all().map(|now| now == selector);
    let new = if is_loadable(selector) {
        usize::from(selector)
    } else {
        0
    };
    // SAFETY: it can be loaded, and the kernel uses none of them.
    unsafe {
        if ds {
            write_register!("ds", new);
        }
        if es {
            write_register!("es", new);
        }
        if fs {
            write_register!("fs", new);
        }
        if gs {
            write_user_gs(new);
        }
    }
}
