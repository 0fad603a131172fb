//! A call and its return are recorded in the usual case, with as few instructions as can be: one instance
//! traces, nothing but functions is chosen, and the running thread is in no interrupt. Nothing is called
//! here, so that nothing has to be saved; every other case is left to [`super::calls`].

use super::super::target::Target;
use super::{LIVE, Plain, calls};
use crate::arch::exits::{self, Exit};
use crate::arch::sites::Entry;
use crate::rcu;
use crate::sched::preempt;
use crate::tracing::clock::Clock;
use crate::tracing::record::{self, Other};
use limen_ring_buffer::Ring;
use limen_trace_returns::{Call, Marks, Place, Returns};
use limen_trace_text::Kind;
use limen_trace_text::entry::{GRAPH_ENTRY_WORDS, GRAPH_RETURN_WORDS, GraphEntry, GraphReturn};

/// How often preemption is off here: once, by the code that calls this.
const NESTED: u32 = 1;

/// A function is called.
pub(super) extern "C" fn entered(ip: usize, parent: usize, target: &Target, entry: &Entry) {
    let Some(returns) = preempt::current_info().returns.get() else {
        return;
    };
    if !record::is_usual() {
        return calls::entered(ip, parent, target, entry);
    }
    let reader = rcu::read_within(entry);
    let Some(plain) = LIVE.load(&reader).and_then(|list| list.plain.as_ref()) else {
        return calls::entered(ip, parent, target, entry);
    };
    let sp = entry.sp();
    let Some(place) = returns.enter_plain(sp, &plain.only) else {
        return calls::entered(ip, parent, target, entry);
    };
    let time = Clock::Local.now();
    let words = || -> [u32; GRAPH_ENTRY_WORDS + 2] {
        let body = GraphEntry {
            func: ip as u64,
            depth: place.depth() as i32,
        };
        record::together(record::usual(Kind::GRAPH_ENTRY, NESTED), body.words())
    };
    match plain.instance.record_plain(words, time, &reader) {
        Ok(()) => keep(returns, place, plain, [ip, parent], time, entry),
        Err(Other::Unusual) => calls::entered(ip, parent, target, entry),
        Err(Other::Disturbed(ring)) => entered_disturbed(ring, [ip, parent], target, entry),
        Err(Other::Unfinished(ring)) => entered_unfinished(ring, plain, [ip, parent], time, entry),
    }
}

/// A call was recorded: its return will be.
#[inline(always)]
fn keep(
    returns: &Returns,
    place: Place<'_>,
    plain: &Plain,
    [ip, parent]: [usize; 2],
    time: u64,
    entry: &Entry,
) {
    let call = Call {
        ip,
        parent,
        sp: entry.sp(),
        time,
        marks: Marks::default(),
    };
    returns.push_at(place, &plain.only, call);
    entry.set_parent(exits::return_address());
}

/// The record of a call is not the usual case after all.
#[cold]
#[inline(never)]
fn entered_disturbed(ring: &Ring, [ip, parent]: [usize; 2], target: &Target, entry: &Entry) {
    record::finish(ring);
    calls::entered(ip, parent, target, entry);
}

/// The record of a call was made, and others came in between.
#[cold]
#[inline(never)]
fn entered_unfinished(ring: &Ring, plain: &Plain, call: [usize; 2], time: u64, entry: &Entry) {
    record::finish(ring);
    // As it was before: what interrupted this has taken its calls away.
    if let Some(returns) = preempt::current_info().returns.get()
        && let Some(place) = returns.enter_plain(entry.sp(), &plain.only)
    {
        keep(returns, place, plain, call, time, entry);
    }
}

/// A function has returned: where it really returns to. Preemption is off; in any context.
pub(super) fn returned(exit: &Exit) -> usize {
    if !record::is_usual() {
        return calls::returned(exit);
    }
    let reader = rcu::read_within(exit);
    let Some(plain) = LIVE.load(&reader).and_then(|list| list.plain.as_ref()) else {
        return calls::returned(exit);
    };
    let Some((returns, place)) = preempt::current_info()
        .returns
        .get()
        .and_then(|returns| Some((returns, returns.returned_plain(exit.sp(), &plain.only)?)))
    else {
        return calls::returned(exit);
    };
    let now = Clock::Local.now();
    let words = || -> [u32; GRAPH_RETURN_WORDS + 2] {
        let body = GraphReturn {
            func: place.ip() as u64,
            retval: exit.value() as u64,
            depth: place.depth() as i32,
            overrun: returns.overrun(),
            call_time: place.time(),
            return_time: now,
        };
        record::together(record::usual(Kind::GRAPH_RETURN, NESTED), body.words())
    };
    match plain.instance.record_plain(words, now, &reader) {
        Ok(()) => {
            returns.cut(place.depth());
            place.parent()
        }
        Err(Other::Unusual) => calls::returned(exit),
        Err(Other::Disturbed(ring)) => returned_disturbed(ring, exit),
        Err(Other::Unfinished(ring)) => returned_unfinished(ring, exit),
    }
}

/// The record of a return is not the usual case after all.
#[cold]
#[inline(never)]
fn returned_disturbed(ring: &Ring, exit: &Exit) -> usize {
    record::finish(ring);
    calls::returned(exit)
}

/// The record of a return was made, and others came in between.
#[cold]
#[inline(never)]
fn returned_unfinished(ring: &Ring, exit: &Exit) -> usize {
    record::finish(ring);
    calls::forget(exit)
}
