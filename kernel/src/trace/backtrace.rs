//! Backtraces, with symbols. They follow the chain of frame pointers: at a frame pointer is the caller's
//! frame pointer, and at the architecture's distance from it the return address. Used by the panic handler
//! and by reports of faults.

use super::WORD_DIGITS;
use super::symbols::Symbol;
use crate::mm::peek::stack_word;

/// How many calls are shown at most.
const DEPTH: usize = 64;

/// Where a backtrace begins.
#[derive(Clone, Copy)]
pub struct Start {
    /// A frame pointer.
    pub fp: usize,
    /// Where the return address lies from each.
    pub return_address: usize,
    /// Whether an address is in the code that calls tracers of functions.
    pub is_tracer: fn(usize) -> bool,
    /// Where a function really returns to: its frame, and what that has as its return address.
    pub original: fn(usize, usize) -> usize,
    /// Where a frame of that code has a second return address, that of the traced function's caller.
    pub second: isize,
}

/// Calls `f` with each return address, from the frame at `fp` outwards.
pub fn walk(start: Start, mut f: impl FnMut(usize)) {
    frames(start, |_, ip| f(ip));
}

/// Calls `f` with each frame, where the return address lies, and that, from the frame at `fp` outwards.
pub fn frames(start: Start, mut f: impl FnMut(usize, usize)) {
    let mut fp = start.fp;
    let mut from = fp;
    for _ in 0..DEPTH {
        let (Some(next), Some(ip)) = (
            stack_word(from, fp),
            stack_word(from, fp.wrapping_add(start.return_address)),
        ) else {
            return;
        };
        if ip == 0 {
            return;
        }
        f(fp.wrapping_add(start.return_address), (start.original)(fp, ip));
        // A traced function has no frame of its own yet.
        if (start.is_tracer)(ip) {
            let (at, of_parent) = (
                next.wrapping_add(start.return_address),
                next.wrapping_add_signed(start.second),
            );
            let (own, parent) = (stack_word(fp, at), stack_word(fp, of_parent));
            let (Some(own), Some(parent), Some(above)) = (own, parent, stack_word(fp, next)) else {
                return;
            };
            f(at, own);
            f(of_parent, (start.original)(next, parent));
            (from, fp) = (next, above);
            continue;
        }
        (from, fp) = (fp, next);
    }
}

/// Logs the call chain from `start` on.
#[inline(never)]
pub fn print(start: Start) {
    log!(Emerg, "Call trace:");
    walk(start, print_one);
}

fn print_one(ip: usize) {
    // If a call never returns, its return address may already belong to the next function.
    log!(Emerg, "  [<{ip:0WORD_DIGITS$x}>] {}", Symbol(ip - 1));
}
