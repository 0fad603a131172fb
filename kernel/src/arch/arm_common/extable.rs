//! Instructions that may fault, and where to go on then: pairs of offsets in the section `__ex_table`, put in order of address at boot and searched by
//! halves, since every fault of the kernel asks.

unsafe extern "C" {
    static __ex_table_start: [i32; 0];
    static __ex_table_end: [i32; 0];
}

/// The instruction, and where to go on if it faults, each an offset from the word itself.
type Entry = [i32; 2];

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
unsafe fn addresses(entry: *const Entry) -> [usize; 2] {
    // SAFETY: as the caller promises.
    let [at, to] = unsafe { entry.read() };
    let place = entry as usize;
    [
        place.wrapping_add_signed(at as isize),
        place.wrapping_add_signed(to as isize + 4),
    ]
}

/// Puts the table in order of address. Once, while the early tables still let constants be written.
pub fn sort() {
    let (table, len) = table();
    for from in 1..len {
        // SAFETY: all within the table, which nobody else looks at yet. Nearly everything is in its place already.
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
unsafe fn put(entry: *mut Entry, [at, to]: [usize; 2]) {
    let place = entry as usize;
    let value = [at.wrapping_sub(place) as i32, to.wrapping_sub(place + 4) as i32];
    // SAFETY: as the caller promises. Volatile: it is a constant otherwise.
    unsafe { entry.write_volatile(value) }
}

/// Where to go on if the instruction at `ip` faults and the fault cannot be resolved. `None`: it may not fault.
pub fn fixup(ip: usize) -> Option<usize> {
    let (table, len) = table();
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = usize::midpoint(low, high);
        // SAFETY: below `len`.
        let [at, to] = unsafe { addresses(table.add(middle)) };
        match at.cmp(&ip) {
            core::cmp::Ordering::Equal => return Some(to),
            core::cmp::Ordering::Less => low = middle + 1,
            core::cmp::Ordering::Greater => high = middle,
        }
    }
    None
}
