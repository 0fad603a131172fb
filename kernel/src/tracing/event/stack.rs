//! The kernel's stack as a record (`TRACE_STACK`).

use crate::arch::stack;
use crate::trace::backtrace;
use crate::tracing::Instance;
use crate::tracing::record::common;
use core::sync::atomic::Ordering::Relaxed;
use limen_trace_text::Kind;
use limen_trace_text::entry::{LONG, LONG_WORDS};

/// How many calls are recorded.
const DEPTH: usize = 32;
/// The innermost calls that are always those of tracing itself. Where less is inlined there are more.
const OWN: usize = 2;

/// How far behind its site a traced function's tracer returns at most, bytes.
const BEHIND: usize = 16;

/// Records the running thread's chain of calls. In any context.
#[inline(never)]
pub fn record(instance: &Instance) {
    let mut seen = 0;
    put(instance, |_| {
        seen += 1;
        seen > OWN
    });
}

/// [`record`], from the function on whose site is at `site`: a tracer of it calls this.
#[inline(never)]
pub fn record_from(instance: &Instance, site: usize) {
    let mut begun = false;
    put(instance, |ip| {
        begun |= ip.wrapping_sub(site) <= BEHIND;
        begun
    });
}

/// Records the calls for which `wants` holds.
#[inline(always)]
fn put(instance: &Instance, mut wants: impl FnMut(usize) -> bool) {
    let mut calls = [0_usize; DEPTH];
    let mut len = 0;
    backtrace::walk(stack::here(), |ip| {
        if wants(ip)
            && let Some(call) = calls.get_mut(len)
        {
            *call = ip;
            len += 1;
        }
    });
    // `int size` is followed by the alignment of a `long`.
    let front = LONG_WORDS;
    instance.record_with(common(Kind::STACK, 1), LONG + len * LONG, |words| {
        if let Some(size) = words.first() {
            size.store(len as u32, Relaxed);
        }
        // The room still has what was recorded there before.
        words
            .iter()
            .take(front)
            .skip(1)
            .for_each(|word| word.store(0, Relaxed));
        for (words, call) in words
            .get(front..)
            .unwrap_or_default()
            .chunks(LONG_WORDS)
            .zip(calls)
        {
            for (word, bytes) in words.iter().zip(call.to_ne_bytes().chunks(4)) {
                let mut four = [0; 4];
                four.copy_from_slice(bytes);
                word.store(u32::from_ne_bytes(four), Relaxed);
            }
        }
    });
}
