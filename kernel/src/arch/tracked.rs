//! The entry stubs call Rust functions that exist twice: one tells context tracking of each crossing, one
//! does not and is what the image calls. Boot may replace the calls, so that either costs only itself.
//!
//! Each call has an entry in the section `.tracked`: the offset of the call from the entry, and a call of the
//! other function, which is never executed and shows what the first is to become.

use super::patch::{self, CALL};
use core::sync::atomic::{AtomicBool, Ordering};

/// Assembler text: the macro `crossing call, function, tracked`, which calls the first function with
/// instruction `call` and lets boot make it a call of the second.
macro_rules! crossing {
    () => {
        r#"
    .macro crossing call, function, tracked
771:\call   \function
    .pushsection .tracked, "a"
    .balign 4
    .long   771b - .
    \call   \tracked
    .balign 4
    .popsection
    .endm
"#
    };
}
pub(super) use crossing;

unsafe extern "C" {
    static __tracked_start: [u32; 0];
    static __tracked_end: [u32; 0];
}

/// The processor's call instruction.
pub struct Call {
    /// Its bytes.
    pub size: usize,
    /// Which of them is the first of the word that holds the distance to the target.
    pub word: usize,
    /// The word's bits that do.
    pub distance: u32,
    /// The distance's unit, bytes, as a power of two.
    pub unit: u32,
}

/// Bytes of an entry.
const ENTRY: usize = (4 + CALL.size).next_multiple_of(4);

/// The calls were replaced.
static REPLACED: AtomicBool = AtomicBool::new(false);

/// Whether the stubs tell context tracking. Any context.
pub fn is_on() -> bool {
    REPLACED.load(Ordering::Relaxed)
}

/// Whether a word of the command line wants context tracking.
fn wants(word: &str) -> bool {
    word == "context_tracking=force" || word.starts_with("nohz_full=")
}

/// Replaces the calls if the command line wants context tracking. Boot CPU, once, while the early tables let
/// text be written and before a stub has run.
#[unsafe(link_section = ".init.text")]
pub fn adapt(command_line: &str) {
    let mut words = command_line
        .split_ascii_whitespace()
        .take_while(|word| *word != "--");
    if !words.any(wants) {
        return;
    }
    REPLACED.store(true, Ordering::Relaxed);
    let mut entry = (&raw const __tracked_start).cast::<u8>();
    while entry < (&raw const __tracked_end).cast() {
        // SAFETY: the linker script delimits the table, in which each entry has the size above. What it
        // refers to is a call in the stubs, which nobody executes yet.
        unsafe {
            let offset = entry.cast::<i32>().read() as isize;
            let (call, like) = (entry.wrapping_offset(offset), entry.add(4));
            let word = |of: *const u8| of.add(CALL.word).cast::<u32>().read_unaligned();
            // From the one that is replaced it is this much farther to the same target.
            let farther = ((like as usize).wrapping_sub(call as usize) >> CALL.unit) as u32;
            let distance = word(like).wrapping_add(farther);
            let new = word(call) & !CALL.distance | distance & CALL.distance;
            patch::write(call.add(CALL.word).cast::<u32>().cast_mut(), new);
            entry = entry.add(ENTRY);
        }
    }
    patch::text_has_changed();
}
