//! The jump table: the places where code asks a key of `jump_label`, and where it goes if that is on. The
//! compiler lists them here; the build checks and sorts them (`tools/symbols/src/jumps.rs`). A place is an
//! instruction that does nothing, and becomes a jump (`jump_label.rs` of each processor).

use super::imp::jump_label::nop;
use core::arch::asm;

/// An entry: the places, each as its distance from its own word.
#[repr(C)]
struct Entry {
    site: i32,
    target: i32,
    key: u32,
}

unsafe extern "C" {
    static __jump_table_start: Entry;
    static __jump_table_end: Entry;
}

/// The key of what some processors of an architecture have and others do not. It is none of `jump_label`'s:
/// the architecture turns it on at boot, before anybody asks.
#[allow(dead_code, reason = "not every architecture asks")]
pub const PROCESSOR: u32 = u32::MAX;

/// A place that is changed with its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    /// The address of its instruction.
    pub site: usize,
    /// Where code goes from there if the key is on.
    pub target: usize,
    /// The key's number.
    pub key: u32,
}

/// Whether key `KEY` is on. One instruction if it is not, which is where the caller goes on then: what the
/// caller does if it is on lies elsewhere. Any context, before the threshold as well.
#[inline(always)]
pub fn is_on<const KEY: u32>() -> bool {
    // SAFETY: no instruction that does anything, until it is a jump to the block that is named as its target.
    unsafe {
        asm!(
            "773:",
            nop!(),
            ".pushsection .jump_table, \"a\", %progbits",
            ".balign 4",
            ".long 773b - .",
            ".long {on} - .",
            ".long {key}",
            ".popsection",
            on = label { return true },
            key = const KEY,
            options(nomem, nostack, preserves_flags),
        );
    }
    false
}

/// How many places there are.
#[inline(always)]
pub fn len() -> usize {
    let bytes = (&raw const __jump_table_end as usize) - (&raw const __jump_table_start as usize);
    bytes / size_of::<Entry>()
}

/// Place `n`, in the order of their addresses.
#[inline(always)]
pub fn get(n: usize) -> Option<Jump> {
    if n >= len() {
        return None;
    }
    // SAFETY: the linker script delimits the table, which is of such entries.
    let entry = unsafe { &*(&raw const __jump_table_start).add(n) };
    let from = |word: &i32| (word as *const i32 as usize).wrapping_add_signed(*word as isize);
    Some(Jump {
        site: from(&entry.site),
        target: from(&entry.target),
        key: entry.key,
    })
}

/// All of them.
pub fn all() -> impl Iterator<Item = Jump> + Clone {
    (0..len()).filter_map(get)
}

/// Whether there is a place at an address. Any context; before the threshold as well.
#[inline(always)]
#[allow(dead_code, reason = "only x86_64 asks")]
pub fn is_site(address: usize) -> bool {
    let (mut low, mut high) = (0, len());
    while low < high {
        let middle = low.midpoint(high);
        match get(middle) {
            Some(jump) if jump.site == address => return true,
            Some(jump) if jump.site < address => low = middle + 1,
            _ => high = middle,
        }
    }
    false
}
