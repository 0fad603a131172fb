//! Backtraces: the chain of frame pointers (at the frame pointer: the caller's frame pointer, and at the architecture's distance the return
//! address), shown with symbols. Called by the panic handler and by fault reports.

use super::WORD_DIGITS;
use super::symbols::Symbol;
use crate::arch::stack::{RETURN_ADDRESS, frame_pointer};
use crate::mm::peek::stack_word;

/// Deepest chain shown.
const DEPTH: usize = 64;

/// Calls `f` with each return address from the frame at `fp` on outwards.
pub fn walk(fp: usize, mut f: impl FnMut(usize)) {
    let mut fp = fp;
    let mut from = fp;
    for _ in 0..DEPTH {
        let (Some(next), Some(ip)) = (
            stack_word(from, fp),
            stack_word(from, fp.wrapping_add(RETURN_ADDRESS)),
        ) else {
            return;
        };
        if ip == 0 {
            return;
        }
        f(ip);
        (from, fp) = (fp, next);
    }
}

/// Logs the call chain of the caller.
#[inline(never)]
pub fn print_here() {
    log!(Emerg, "Call trace:");
    walk(frame_pointer(), print);
}

fn print(ip: usize) {
    // A return address may already be the next function's if the call never returns.
    log!(Emerg, "  [<{ip:0WORD_DIGITS$x}>] {}", Symbol(ip - 1));
}
