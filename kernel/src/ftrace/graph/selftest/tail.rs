//! A function that is traced until it returns may jump to another at its end. That one seems to be called
//! from where traced functions return to.

use super::{CALLS, Traced, function_of, is};
use crate::check;
use crate::mm::reserve::handling;
use crate::selftest::{probe, probe_tail};
use crate::tracing::read;
use alloc::vec::Vec;
use limen_trace_text::Kind;
use limen_trace_text::entry::{COMMON, LONG};

/// Functions and their callers, as the tracer `function` has recorded them.
fn recorded(traced: &Traced) -> Vec<(usize, usize)> {
    let mut all = Vec::new();
    while read::consume(&traced.0.main, None, |entry, _| {
        if entry.common.kind == Kind::FUNCTION {
            let call = (entry.long(COMMON) as usize, entry.long(COMMON + LONG) as usize);
            // As many as there are, and only a test.
            handling(|| all.push(call));
        }
        true
    })
    .is_some()
    {}
    all
}

pub(super) fn jumped_to() -> Result<(), &'static str> {
    let _graph = Traced::new(b"graph", &["probe_tail"])?;
    let calls = Traced::with("function", b"calls", &["probe"])?;
    for n in 0..CALLS {
        check!(probe_tail(n, 2, 3, 4) == (n + 1) * 7 + 22 + 39 + 68);
    }
    let all = recorded(&calls);
    check!(all.len() == CALLS);
    let function = probe as *const () as usize;
    let tail = probe_tail as *const () as usize;
    let own = jumped_to as *const () as usize;
    // If the compiler has made a call of it, it is called by that function.
    let by = |caller| function_of(caller).is_some_and(|by| is(by as u64, own) || is(by as u64, tail));
    check!(
        all.iter()
            .all(|(ip, caller)| is(*ip as u64, function) && by(*caller))
    );
    Ok(())
}
