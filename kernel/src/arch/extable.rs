//! Instructions that may fault, and where to go on then: three offsets for each stretch of them in the
//! section `__ex_table`, put in order of address at boot and searched by halves, since every fault of the
//! kernel asks. Stretches do not overlap.

/// The instruction labelled `$at`, or those from `$from` to before `$until`, may fault and go on at label
/// `$to`: an entry of the table.
macro_rules! may_fault {
    ($at:literal, $to:literal) => {
        concat!(
            ".pushsection __ex_table, \"a\"\n.balign 4\n.long ",
            $at,
            " - ., ",
            $at,
            " + 4 - ., ",
            $to,
            " - .\n.popsection"
        )
    };
    ($from:literal, $until:literal, $to:literal) => {
        concat!(
            ".pushsection __ex_table, \"a\"\n.balign 4\n.long ",
            $from,
            " - ., ",
            $until,
            " - ., ",
            $to,
            " - .\n.popsection"
        )
    };
}
pub(super) use may_fault;

unsafe extern "C" {
    static __ex_table_start: [i32; 0];
    static __ex_table_end: [i32; 0];
}

/// The first instruction, the one behind the last, and where to go on if one of them faults, each an offset
/// from the word itself.
type Entry = [i32; 3];

/// The table's start, and how many entries it has.
fn table() -> (*mut Entry, usize) {
    let start = (&raw const __ex_table_start).cast::<Entry>();
    let bytes = (&raw const __ex_table_end) as usize - start as usize;
    (start.cast_mut(), bytes / size_of::<Entry>())
}

/// The addresses that the entry at `entry` means.
///
/// # Safety
/// It is in the table.
unsafe fn addresses(entry: *const Entry) -> [usize; 3] {
    // SAFETY: as the caller promises.
    let offsets = unsafe { entry.read() };
    core::array::from_fn(|n| (entry as usize + 4 * n).wrapping_add_signed(offsets[n] as isize))
}

/// Puts the table in order of address. Once, while the early tables still let constants be written.
pub fn sort() {
    let (table, len) = table();
    for from in 1..len {
        // SAFETY: all within the table, which nobody else looks at yet. Nearly everything is in its place
        // already.
        unsafe {
            let moved = addresses(table.add(from));
            let mut to = from;
            while to > 0 && addresses(table.add(to - 1))[0] > moved[0] {
                put(table.add(to), addresses(table.add(to - 1)));
                to -= 1;
            }
            if to != from {
                put(table.add(to), moved);
            }
        }
    }
}

/// The inverse of [`addresses`].
///
/// # Safety
/// `entry` is in the table, which can be written and nobody looks at.
unsafe fn put(entry: *mut Entry, addresses: [usize; 3]) {
    let value = core::array::from_fn(|n| addresses[n].wrapping_sub(entry as usize + 4 * n) as i32);
    // SAFETY: as the caller promises. Volatile: it is a constant otherwise.
    unsafe { entry.write_volatile(value) }
}

/// Where to go on if the instruction at `ip` faults and the fault cannot be resolved. `None`: it may not
/// fault.
pub fn fixup(ip: usize) -> Option<usize> {
    let (table, len) = table();
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = usize::midpoint(low, high);
        // SAFETY: below `len`.
        let [from, until, to] = unsafe { addresses(table.add(middle)) };
        if ip < from {
            high = middle;
        } else if ip < until {
            return Some(to);
        } else {
            low = middle + 1;
        }
    }
    // Instructions of modules are further away than any of the image's.
    crate::mm::symbols::fixup_outside(ip)
}
