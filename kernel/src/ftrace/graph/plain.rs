//! A call and its return are recorded in the usual case, with as few instructions as can be: one instance
//! traces, nothing but functions is chosen, and the running thread is in no interrupt. Every other case is
//! left to [`super::calls`].

use super::super::target::Target;
use super::calls::{self, GUARD};
use super::{LIVE, MAX_DEPTH, Recorder};
use crate::arch::exits::{self, Exit};
use crate::arch::sites::Entry;
use crate::arch::smp;
use crate::rcu;
use crate::sched::preempt;
use crate::tracing::clock::Clock;
use crate::tracing::record::{self, Other};
use core::sync::atomic::Ordering::Relaxed;
use limen_trace_returns::{Call, Marks, Returns};
use limen_trace_text::Kind;
use limen_trace_text::entry::{GRAPH_ENTRY_WORDS, GRAPH_RETURN_WORDS, GraphEntry, GraphReturn};

/// How often preemption is off here: once, by the code that calls this.
const NESTED: u32 = 1;

/// Whether the outermost and the innermost of the first `depth` calls are the recorder's, and so all are.
#[inline(always)]
fn are_its(recorder: &Recorder, returns: &Returns, depth: usize) -> bool {
    let is_its = |n| returns.is_traced_by(n, recorder.bit, recorder.since);
    depth == 0 || is_its(depth - 1) && (depth == 1 || is_its(0))
}

/// A function is called.
pub(super) extern "C" fn entered(ip: usize, parent: usize, target: &Target, entry: &mut Entry) {
    let Some(returns) = preempt::current_info().returns.get() else {
        return;
    };
    let Some(front) = record::usual(Kind::GRAPH_ENTRY, NESTED) else {
        return calls::entered(ip, parent, target, entry);
    };
    let reader = rcu::read_within(entry);
    let Some(recorder) = LIVE.load(&reader).and_then(|list| list.plain.as_deref()) else {
        return calls::entered(ip, parent, target, entry);
    };
    let is_chosen = !recorder.shared.are_plain() || MAX_DEPTH.load(Relaxed) != 0;
    if recorder.instance.threshold.load(Relaxed) != 0 || is_chosen {
        return calls::entered(ip, parent, target, entry);
    }
    let cpu = smp::cpu_id();
    if !GUARD.enter_in_thread(cpu) {
        return;
    }
    let trampoline = exits::return_address();
    let sp = entry.sp();
    let Some(depth) = returns.enter(sp, parent == trampoline) else {
        return GUARD.leave_in_thread(cpu);
    };
    if !are_its(recorder, returns, depth) {
        GUARD.leave_in_thread(cpu);
        return calls::entered(ip, parent, target, entry);
    }
    let body = GraphEntry {
        func: ip as u64,
        depth: depth as i32,
    };
    let time = Clock::Local.now();
    let words: [u32; GRAPH_ENTRY_WORDS + 2] = record::together(front, body.words());
    if let Err(other) = recorder.instance.record_plain(words, cpu, time, &reader) {
        let is_recorded = settle(other, recorder);
        GUARD.leave_in_thread(cpu);
        if !is_recorded {
            return calls::entered(ip, parent, target, entry);
        }
    } else {
        GUARD.leave_in_thread(cpu);
    }
    let marks = Marks {
        wanted: recorder.bit,
        inside: recorder.bit,
        not: 0,
    };
    let call = Call {
        ip,
        parent,
        sp,
        time,
        marks,
    };
    returns.push(depth, call);
    entry.set_parent(trampoline);
}

/// A record is not the usual case. `false`: it was not recorded.
#[cold]
#[inline(never)]
fn settle(other: Other<'_>, recorder: &Recorder) -> bool {
    other.settle(&recorder.instance)
}

/// A function has returned: where it really returns to. Preemption is off; in any context.
pub(super) fn returned(exit: &Exit) -> usize {
    let Some((returns, depth, call)) = preempt::current_info().returns.get().and_then(|returns| {
        let depth = returns.depth().checked_sub(1)?;
        let call = returns.get(depth)?;
        (call.sp == exit.sp()).then_some((returns, depth, call))
    }) else {
        return calls::returned(exit);
    };
    let Some(front) = record::usual(Kind::GRAPH_RETURN, NESTED) else {
        return calls::returned(exit);
    };
    let reader = rcu::read_within(exit);
    let Some(recorder) = LIVE.load(&reader).and_then(|list| list.plain.as_deref()) else {
        return calls::returned(exit);
    };
    if recorder.instance.threshold.load(Relaxed) != 0 || !are_its(recorder, returns, depth + 1) {
        return calls::returned(exit);
    }
    let cpu = smp::cpu_id();
    if !GUARD.enter_in_thread(cpu) {
        return calls::returned(exit);
    }
    let now = Clock::Local.now();
    let body = GraphReturn {
        func: call.ip as u64,
        retval: exit.value() as u64,
        depth: depth as i32,
        overrun: returns.overrun(),
        call_time: call.time,
        return_time: now,
    };
    let words: [u32; GRAPH_RETURN_WORDS + 2] = record::together(front, body.words());
    match recorder.instance.record_plain(words, cpu, now, &reader) {
        Ok(()) => {
            GUARD.leave_in_thread(cpu);
            returns.cut(depth);
            call.parent
        }
        Err(other) => returned_otherwise(other, recorder, exit),
    }
}

/// The record of a return is not the usual case.
#[cold]
#[inline(never)]
fn returned_otherwise(other: Other<'_>, recorder: &Recorder, exit: &Exit) -> usize {
    let is_recorded = other.settle(&recorder.instance);
    GUARD.leave_in_thread(smp::cpu_id());
    match is_recorded {
        true => calls::forget(exit),
        false => calls::returned(exit),
    }
}
