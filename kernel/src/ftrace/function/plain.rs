//! A call is recorded in the usual case, with as few instructions as can be: nothing is called here, so that
//! nothing has to be saved. Every other case is left to [`super::record()`].

use super::super::target::{Data, Target};
use super::{ADDRESS, Recorder};
use crate::arch::exits;
use crate::arch::sites::Entry;
use crate::arch::smp;
use crate::rcu;
use crate::tracing::clock::Clock;
use crate::tracing::record::{self, Other};
use core::sync::atomic::Ordering::Relaxed;
use limen_trace_text::Kind;

/// Words of a record.
const WORDS: usize = 2 + 2 * ADDRESS;

pub(super) extern "C" fn record(ip: usize, parent: usize, target: &Target, entry: &mut Entry) {
    let Data::Record(recorder) = &target.data else {
        return;
    };
    if parent == exits::return_address() {
        return super::record(recorder, ip, super::caller(parent, entry));
    }
    let Some(front) = record::usual(Kind::FUNCTION, 1) else {
        return super::record(recorder, ip, parent);
    };
    if !recorder.shared.are_plain() || recorder.ended.load(Relaxed) {
        return super::record(recorder, ip, parent);
    }
    let cpu = smp::cpu_id();
    if !recorder.guard.enter_in_thread(cpu) {
        return;
    }
    let reader = rcu::read_within(entry);
    let now = Clock::Local.now();
    let words: [u32; WORDS] = record::together(front, super::words(ip, parent));
    match recorder.instance.record_plain(words, cpu, now, &reader) {
        Ok(()) => recorder.guard.leave_in_thread(cpu),
        Err(other) => rest(other, recorder, ip, parent),
    }
}

/// It was not the usual case.
#[cold]
#[inline(never)]
fn rest(other: Other<'_>, recorder: &Recorder, ip: usize, parent: usize) {
    let is_recorded = other.settle(&recorder.instance);
    recorder.guard.leave_in_thread(smp::cpu_id());
    if !is_recorded {
        super::record(recorder, ip, parent);
    }
}
