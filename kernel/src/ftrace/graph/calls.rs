//! A traced function is called, or has returned. Preemption is off, in any context.

use super::super::guard::Guard;
use super::super::profile;
use super::super::site;
use super::super::target::Target;
use super::{LIVE, List, MAX_DEPTH, Recorder, Settings, To};
use crate::arch::exits::{self, Exit};
use crate::arch::sites::Entry;
use crate::rcu;
use crate::sched::preempt::{self, HARDIRQ_MASK};
use crate::tracing::clock::Clock;
use crate::tracing::{Instance, record};
use core::sync::atomic::Ordering::Relaxed;
use limen_trace_returns::{Call, Marks, Returns};
use limen_trace_sites::Site;
use limen_trace_text::entry::{GraphEntry, GraphReturn};
use limen_trace_text::graph::GraphOptions;
use limen_trace_text::{Common, Kind};

/// Whatever is called here is not traced.
pub(super) static GUARD: Guard = Guard::new();

/// How often preemption is off here: by the code behind the site, and by the reader.
const NESTED: u32 = 2;

/// How many calls that a recorder traces the one on top of the first `depth` is in.
fn depth_of(recorder: &Recorder, list: &List, returns: &Returns, depth: usize) -> usize {
    let own = |call: Call| call.time >= recorder.since && call.marks.wanted & recorder.bit != 0;
    if list.recorders.len() == 1 && list.not.is_empty() && returns.get(0).is_none_or(own) {
        return depth;
    }
    (0..depth)
        .filter_map(|n| returns.get(n))
        .filter(|call| own(*call))
        .count()
}

/// Whether a function is among a recorder's.
fn traces(recorder: &Recorder, ip: usize) -> bool {
    site::find(ip, ip + 1).is_some_and(|n| recorder.sites.contains(Site(n as u32)))
}

/// Whether an instance is to trace a function that is called now. `depth`: how many calls that it traces this
/// is in; `inside`: whether it is in one that `set_graph_function` chose.
fn wants(
    (instance, settings): (&Instance, &Settings),
    list: &List,
    ip: usize,
    common: Common,
    depth: usize,
    inside: bool,
) -> bool {
    if !inside
        && list
            .only
            .as_ref()
            .is_some_and(|only| only.binary_search(&ip).is_err())
    {
        return false;
    }
    if !settings.threads.traces(common.pid) {
        return false;
    }
    let most = MAX_DEPTH.load(Relaxed) as usize;
    if most != 0 && depth >= most {
        return false;
    }
    instance.graph_options().contains(GraphOptions::IRQS) || preempt::count() & HARDIRQ_MASK == 0
}

/// Who traces a function that is called now, and `true` if it is to be kept. Records the call.
fn mark(list: &List, returns: &Returns, depth: usize, ip: usize) -> (Marks, bool) {
    let common = record::common(Kind::GRAPH_ENTRY, NESTED);
    let top = depth
        .checked_sub(1)
        .and_then(|n| returns.get(n))
        .unwrap_or_default();
    let (mut marks, mut kept) = (Marks::default(), false);
    for recorder in list
        .recorders
        .iter()
        .filter(|recorder| !recorder.ended.load(Relaxed))
    {
        let bit = recorder.bit;
        let is_its = list.exact || traces(recorder, ip);
        let To::Instance(instance, settings) = &recorder.to else {
            if is_its {
                profile::called(ip);
                marks.wanted |= bit;
            }
            continue;
        };
        let outer = if top.time >= recorder.since {
            top.marks
        } else {
            Marks::default()
        };
        let here = list.not.binary_search(&ip).is_ok();
        if outer.not & bit != 0 || here {
            marks.not |= bit;
            kept |= here;
            continue;
        }
        let inside = outer.inside & bit != 0;
        if inside {
            marks.inside |= bit;
        }
        let depth = depth_of(recorder, list, returns, depth);
        if !is_its || !wants((instance, settings), list, ip, common, depth, inside) {
            continue;
        }
        let entry = GraphEntry {
            func: ip as u64,
            depth: depth as i32,
        };
        // With a threshold it is known only at the end whether it is to be recorded.
        if instance.threshold() != 0 || instance.record_as(common, entry.words()) {
            marks.wanted |= bit;
            marks.inside |= bit;
        }
    }
    (marks, kept || marks.wanted != 0)
}

/// A function is called. In every case; [`super::plain`] is for the usual one.
#[cold]
pub(super) extern "C" fn entered(ip: usize, parent: usize, _: &Target, entry: &Entry) {
    let Some(returns) = preempt::current_info().returns.get() else {
        return;
    };
    let Some(_inside) = GUARD.enter() else {
        return;
    };
    let reader = rcu::read();
    let Some(list) = LIVE.load(&reader) else {
        return;
    };
    let trampoline = exits::return_address();
    let sp = entry.sp();
    let Some(depth) = returns.enter(sp, parent == trampoline) else {
        return;
    };
    let (marks, kept) = mark(list, returns, depth, ip);
    if kept {
        let time = Clock::Local.now();
        returns.push(
            depth,
            Call {
                ip,
                parent,
                sp,
                time,
                marks,
            },
        );
        entry.set_parent(trampoline);
    }
}

/// A function has returned: where it really returns to. In every case, as above.
#[cold]
#[inline(never)]
pub(super) fn returned(exit: &Exit) -> usize {
    let inside = GUARD.enter();
    let (returns, depth, call) = find(exit);
    if call.marks.wanted != 0 && inside.is_some() {
        let now = Clock::Local.now();
        record_return(returns, depth, &call, exit.value(), now);
    }
    returns.cut(depth);
    call.parent
}

/// What is known of a function that has returned.
fn find(exit: &Exit) -> (&'static Returns, usize, Call) {
    let found = preempt::current_info().returns.get();
    let found = found.and_then(|returns| Some((returns, returns.returned(exit.sp())?)));
    let Some((returns, (depth, call))) = found else {
        panic!("a function returned that was not called, at {:#x}", exit.sp());
    };
    (returns, depth, call)
}

/// [`returned`], when the return was recorded already.
pub(super) fn forget(exit: &Exit) -> usize {
    let (returns, depth, call) = find(exit);
    returns.cut(depth);
    call.parent
}

fn record_return(returns: &Returns, depth: usize, call: &Call, value: usize, now: u64) {
    let reader = rcu::read();
    let Some(list) = LIVE.load(&reader) else {
        return;
    };
    let common = record::common(Kind::GRAPH_RETURN, NESTED);
    for recorder in &list.recorders {
        let threshold = match &recorder.to {
            To::Instance(instance, _) => instance.threshold().saturating_mul(1000),
            To::Profile => 0,
        };
        let is_its = call.marks.wanted & recorder.bit != 0 && call.time >= recorder.since;
        if !is_its || recorder.ended.load(Relaxed) || now.wrapping_sub(call.time) < threshold {
            continue;
        }
        let To::Instance(instance, _) = &recorder.to else {
            profile::returned(call.ip, now.wrapping_sub(call.time));
            continue;
        };
        let exit = GraphReturn {
            func: call.ip as u64,
            retval: value as u64,
            depth: depth_of(recorder, list, returns, depth) as i32,
            overrun: returns.overrun(),
            call_time: call.time,
            return_time: now,
        };
        instance.record_as(common, exit.words());
    }
}
