//! A call is recorded in the usual case, with as few instructions as can be: nothing is called here, so that
//! nothing has to be saved. Every other case is left to [`super::record`].

use super::super::guard::Inside;
use super::super::target::{Data, Target};
use super::{ADDRESS, Recorder, words};
use crate::arch::exits;
use crate::arch::sites::Entry;
use crate::rcu;
use crate::tracing::clock::Clock;
use crate::tracing::record::{self, Other};
use limen_trace_text::{Common, Kind};

/// Words of a record.
const WORDS: usize = 2 + 2 * ADDRESS;

/// A record's words.
#[inline(always)]
fn all(common: Common, ip: usize, parent: usize) -> [u32; WORDS] {
    let mut all = [0; WORDS];
    let (front, body) = all.split_at_mut(2);
    front.copy_from_slice(&common.words());
    body.copy_from_slice(&words(ip, parent));
    all
}

pub(super) extern "C" fn record(ip: usize, parent: usize, target: &Target, entry: &mut Entry) {
    let Data::Record(recorder) = &target.data else {
        return;
    };
    let Some(common) = record::usual(Kind::FUNCTION, 1) else {
        return super::record(ip, parent, target, entry);
    };
    if !recorder.takes_all() || parent == exits::return_address() {
        return super::record(ip, parent, target, entry);
    }
    let Some(inside) = recorder.guard.enter_in_thread() else {
        return;
    };
    let reader = rcu::read_within(entry);
    let now = Clock::Local.now();
    match recorder
        .instance
        .record_plain(all(common, ip, parent), now, &reader)
    {
        Ok(()) => {}
        Err(other) => rest(recorder, other, inside, common, words(ip, parent)),
    }
}

/// It was not the usual case.
#[cold]
#[inline(never)]
fn rest(
    recorder: &Recorder,
    other: Other<'_>,
    _inside: Inside<'_>,
    common: Common,
    body: [u32; 2 * ADDRESS],
) {
    if !other.settle(&recorder.instance) {
        recorder.instance.record_as(common, body);
    }
}
