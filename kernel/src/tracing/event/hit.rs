//! What happens when an event comes. In any context: no lock is taken, nothing is allocated or woken.

use super::list::{self, Event, Which};
use super::listen::Listener;
use super::pids::Other;
use crate::arch::smp;
use crate::rcu;
use crate::tracing::console;
use crate::tracing::record::common;
use core::sync::atomic::Ordering::Relaxed;
use limen_trace_events::filter::Context;
use limen_trace_events::{Common, Numbered, events};
use limen_trace_text::{Kind, Options};

/// The longest record of a declared event, bytes. Strings are cut short to fit.
const MOST: usize = 512;

/// A declared event comes, and somebody may want it.
pub fn hit<E: Numbered>(event: &E) {
    super::pids::look(E::INDEX, event);
    let Some(listed) = list::made().get(E::INDEX) else {
        return;
    };
    deliver(listed, MOST, |common, room| event.encode(common, room));
}

/// The thread that an event is about besides the running one.
fn other_thread(event: &Event, record: &[u8]) -> Other {
    use events::sched::{SchedSwitch, SchedWakeup, SchedWakeupNew, SchedWaking};
    let Which::Declared(place) = event.which else {
        return Other::None;
    };
    let (name, is): (_, fn(i32) -> Other) = match place {
        SchedSwitch::INDEX => ("next_pid", Other::Next),
        SchedWakeup::INDEX | SchedWakeupNew::INDEX | SchedWaking::INDEX => ("pid", Other::Woken),
        _ => return Other::None,
    };
    let fields = events::ALL[place].fields;
    let field = fields.iter().find(|field| field.name == name);
    let pid = field.and_then(|field| field.integer(record));
    pid.map_or(Other::None, |pid| is(pid as i32))
}

/// Gives a record, which `encode` stores, to all who listen.
#[inline]
pub(super) fn deliver(event: &Event, most: usize, encode: impl FnOnce(&Common, &mut [u8]) -> usize) {
    let reader = rcu::read();
    let Some(listeners) = event.listeners.load(&reader) else {
        return;
    };
    let front = common(Kind(event.id), 1);
    let shared = Common {
        id: event.id,
        flags: front.flags.bits(),
        preempt_count: front.preempt_count,
        pid: front.pid,
    };
    let mut room = [0; MOST];
    let room = &mut room[..most.min(MOST)];
    let len = encode(&shared, room);
    let record = &room[..len];
    let context = Context {
        cpu: smp::cpu_id() as u32,
        comm: crate::sched::current().comm_now(),
    };
    let other = other_thread(event, record);
    for listener in &listeners.0 {
        listener.take(front, record, other, &context);
    }
}

impl Listener {
    fn take(&self, front: limen_trace_text::Common, record: &[u8], other: Other, context: &Context) {
        for trigger in self.triggers.iter().filter(|trigger| !trigger.is_after()) {
            trigger.meet(&self.instance, record, context);
        }
        if self.is_recording()
            && self.instance.events.pids.wants(front.pid, other)
            && self
                .filter
                .as_ref()
                .is_none_or(|filter| filter.keeps(record, context))
        {
            if self.instance.is_recording() {
                console::write(record);
            }
            let body = record.get(Common::SIZE..).unwrap_or_default();
            let recorded = self.instance.record_with(front, body.len(), |words| {
                for (word, bytes) in words.iter().zip(body.chunks(4)) {
                    let mut four = [0; 4];
                    four[..bytes.len()].copy_from_slice(bytes);
                    word.store(u32::from_ne_bytes(four), Relaxed);
                }
            });
            if recorded && self.instance.options().contains(Options::STACKTRACE) {
                super::stack::record(&self.instance);
            }
        }
        for trigger in self.triggers.iter().filter(|trigger| trigger.is_after()) {
            trigger.meet(&self.instance, record, context);
        }
    }
}
