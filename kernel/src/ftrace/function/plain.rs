//! A call is recorded in the usual case, with as few instructions as can be: nothing is called here, so that
//! nothing has to be saved. Every other case is left to [`super::record()`].

use super::super::target::{Data, Target};
use super::{ADDRESS, Recorder};
use crate::arch::exits;
use crate::arch::sites::Entry;
use crate::rcu;
use crate::tracing::clock::Clock;
use crate::tracing::record::{self, Other};
use limen_ring_buffer::Ring;
use limen_trace_text::Kind;

/// Words of a record.
const WORDS: usize = 2 + 2 * ADDRESS;

pub(super) extern "C" fn record(ip: usize, parent: usize, target: &Target, entry: &Entry) {
    let Data::Record(recorder) = &target.data else {
        return;
    };
    if parent == exits::return_address() {
        return super::record(recorder, ip, super::caller(parent, entry));
    }
    if !record::is_usual() {
        return super::record(recorder, ip, parent);
    }
    let reader = rcu::read_within(entry);
    let words = || -> [u32; WORDS] {
        // The code behind the site has turned preemption off once.
        record::together(record::usual(Kind::FUNCTION, 1), super::words(ip, parent))
    };
    match recorder.instance.record_plain(words, Clock::Local.now(), &reader) {
        Ok(()) => {}
        Err(Other::Unusual) => super::record(recorder, ip, parent),
        Err(Other::Disturbed(ring)) => disturbed(ring, recorder, ip, parent),
        Err(Other::Unfinished(ring)) => record::finish(ring),
    }
}

/// It was not the usual case after all.
#[cold]
#[inline(never)]
fn disturbed(ring: &Ring, recorder: &Recorder, ip: usize, parent: usize) {
    record::finish(ring);
    super::record(recorder, ip, parent);
}
