//! The Rust functions that entry stubs call exist more than once: one tells context tracking of each
//! crossing, one hardens the kernel stack (`threshold::hardened`), and one does neither and is what the image
//! calls. Boot may replace the calls, so that each costs only itself.
//!
//! A call has an entry in the section `.tracked`, and one in `.hardened` if it comes from user mode: the
//! offset of the call from the entry, and a call of the other function, which is never executed and shows
//! what the first is to become.

use super::patch::{self, CALL};
use crate::threshold::hardened as stack;
use core::sync::atomic::{AtomicBool, Ordering};

/// Assembler text: the macro `crossing call, function, tracked, hardened`, which calls the first function
/// with instruction `call` and lets boot make it a call of the second or, if there is one, the third.
macro_rules! crossing {
    () => {
        r#"
    .macro crossing call, function, tracked, hardened
771:\call   \function
    .pushsection .tracked, "a"
    .balign 4
    .long   771b - .
    \call   \tracked
    .balign 4
    .popsection
    .ifnb   \hardened
    .pushsection .hardened, "a"
    .balign 4
    .long   771b - .
    \call   \hardened
    .balign 4
    .popsection
    .endif
    .endm
"#
    };
}
pub(super) use crossing;

/// Functions for the third argument of `crossing`: what one that is entered from user mode (or, given a
/// condition, if that is true) is with a hardened stack.
macro_rules! hardened {
    ($($name:ident: $function:ident $(if $from_user:expr)?),+ $(,)?) => {
        $(#[unsafe(link_section = ".noinstr.text")]
        extern "C" fn $name(frame: &mut Frame) {
            use crate::arch::{stack_calls::OnStack, stub_calls};
            struct Handle;
            impl OnStack for Handle {
                #[unsafe(link_section = ".noinstr.text")]
                extern "C" fn run(frame: *mut u8) {
                    // SAFETY: the frame below, which nobody else uses meanwhile.
                    let frame = unsafe { &mut *frame.cast::<Frame>() };
                    if stub_calls::is_tracking() {
                        $function::<true>(frame);
                    } else {
                        $function::<false>(frame);
                    }
                }
            }
            let frame = (&raw mut *frame).cast();
            $(if !$from_user {
                return Handle::run(frame);
            })?
            crate::threshold::hardened::from_user::<Handle>(frame);
        })+
    };
}
pub(super) use hardened;

unsafe extern "C" {
    static __tracked_start: [u32; 0];
    static __tracked_end: [u32; 0];
    static __hardened_start: [u32; 0];
    static __hardened_end: [u32; 0];
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

/// The stubs tell context tracking.
static TRACKING: AtomicBool = AtomicBool::new(false);

/// Whether the stubs tell context tracking. Any context, early entry code as well.
#[inline(always)]
pub fn is_tracking() -> bool {
    TRACKING.load(Ordering::Relaxed)
}

/// Whether a word of the command line wants context tracking.
fn wants_tracking(word: &str) -> bool {
    word == "context_tracking=force" || word.starts_with("nohz_full=")
}

/// Replaces the calls as the command line wants it. Boot CPU, once, while the early tables let text be
/// written and before a stub has run.
#[unsafe(link_section = ".init.text")]
pub fn adapt(command_line: &str) {
    let words = || {
        command_line
            .split_ascii_whitespace()
            .take_while(|word| *word != "--")
    };
    if words().any(wants_tracking) {
        TRACKING.store(true, Ordering::Relaxed);
        // SAFETY: the linker script delimits the table; no stub runs yet.
        unsafe {
            replace(
                (&raw const __tracked_start).cast(),
                (&raw const __tracked_end).cast(),
            )
        }
    }
    words().for_each(stack::take);
    if stack::is_wanted() {
        // SAFETY: as above.
        unsafe {
            replace(
                (&raw const __hardened_start).cast(),
                (&raw const __hardened_end).cast(),
            )
        }
    }
}

/// Makes each call of a table call the other function.
///
/// # Safety
/// The table is one of the two, and nobody executes the stubs.
#[unsafe(link_section = ".init.text")]
unsafe fn replace(mut entry: *const u8, end: *const u8) {
    while entry < end {
        // SAFETY: each entry of the table has the size above. What it refers to is a call in the stubs.
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
