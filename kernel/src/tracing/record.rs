//! The door through which records get into the buffers: in any context, NMIs too, without a lock.

use super::Instance;
use crate::arch::{irq, smp};
use crate::rcu::{self, Reader};
use crate::sched::preempt::{self, HARDIRQ_MASK, NMI_MASK};
use crate::task::IS_IN_TRACE;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use limen_entry::ThreadFlags;
use limen_ring_buffer::{Cpu, Plain, Ring};
use limen_trace_text::{Common, Flags, Kind, Options};

use super::clock::Clock;

/// What the ring buffer asks of its CPU.
#[derive(Clone, Copy)]
struct Here(Clock);

impl Cpu for Here {
    #[inline(always)]
    fn now(self) -> u64 {
        self.0.now()
    }
}

/// A time that was read before.
#[derive(Clone, Copy)]
struct At(u64);

impl Cpu for At {
    #[inline(always)]
    fn now(self) -> u64 {
        self.0
    }
}

/// Bits of the preempt count that are levels of disabled preemption.
const DEPTH_MASK: u32 = 0xff;

/// What all records have in front, of a record that the running thread, or an interrupt that came to it,
/// makes now. `nested`: how often the caller itself has turned preemption off.
#[inline(always)]
pub fn common(kind: Kind, nested: u32) -> Common {
    let info = preempt::current_info();
    let count = info.preempt_count.load(Relaxed);
    let mut flags = Flags::empty();
    if !irq::enabled() {
        flags |= Flags::IRQS_OFF;
    }
    if info.work.has(ThreadFlags::RESCHED) {
        if info.work.has(ThreadFlags::NEED_RESCHED) {
            flags |= Flags::NEED_RESCHED | Flags::PREEMPT_RESCHED;
        }
        if info.work.has(ThreadFlags::NEED_RESCHED_LAZY) {
            flags |= Flags::NEED_RESCHED_LAZY;
        }
    }
    if count & (HARDIRQ_MASK | NMI_MASK) != 0 {
        if count & HARDIRQ_MASK != 0 {
            flags |= Flags::HARDIRQ;
        }
        if count & NMI_MASK != 0 {
            flags |= Flags::NMI;
        }
    }
    let depth = (count & DEPTH_MASK).saturating_sub(nested).min(15);
    let pid = crate::sched::current().tid();
    Common {
        kind,
        flags,
        preempt_count: depth as u8,
        pid,
    }
}

/// Whether it is the usual case: a thread, whose name is already noted, which has turned preemption off only
/// a few times, is not to be rescheduled, and is in no tracer with a guard.
#[inline(always)]
pub fn is_usual() -> bool {
    let info = preempt::current_info();
    info.preempt_count.load(Relaxed) <= 15
        && !info.work.has(ThreadFlags::RESCHED)
        && info.trace.load(Relaxed) == IS_IN_TRACE
}

/// The words of [`common`] in the usual case.
#[inline(always)]
pub fn usual(kind: Kind, nested: u32) -> [u32; 2] {
    let flags = if irq::enabled() {
        Flags::empty()
    } else {
        Flags::IRQS_OFF
    };
    let common = Common {
        kind,
        flags,
        preempt_count: preempt::count().wrapping_sub(nested) as u8,
        pid: crate::sched::current().tid(),
    };
    common.words()
}

/// A record's words: those that all have in front, and its own. One by one, so that they need not lie beside
/// each other before they are stored.
#[inline(always)]
pub fn together<const BODY: usize, const ALL: usize>(front: [u32; 2], body: [u32; BODY]) -> [u32; ALL] {
    const { assert!(ALL == BODY + 2) };
    core::array::from_fn(|n| match n.checked_sub(2) {
        None => front[n],
        Some(n) => body[n],
    })
}

/// A record that was not made in the usual way.
#[must_use]
pub enum Other<'r> {
    /// Nothing was done.
    Unusual,
    /// Nothing was recorded, and the ring is to be [`finish`]ed.
    Disturbed(&'r Ring),
    /// It was recorded, and the ring is to be [`finish`]ed.
    Unfinished(&'r Ring),
}

/// Leaves a ring as it is to be after [`Instance::record_plain`].
#[cold]
#[inline(never)]
pub fn finish(ring: &Ring) {
    ring.finish(Here(Clock::Local));
}

impl Instance {
    /// Records what `words` gives, of which the first are those of [`usual`], if everything else is the usual
    /// case as well. `now`: the time of the clock [`Clock::Local`]. What was not recorded is the caller's to
    /// record.
    #[inline(always)]
    pub fn record_plain<'r, const N: usize>(
        &self,
        words: impl FnOnce() -> [u32; N],
        now: u64,
        reader: &'r Reader,
    ) -> Result<(), Other<'r>> {
        let cpu = smp::cpu_id();
        if self.plain.load(Relaxed) >> cpu & 1 == 0 {
            return Err(Other::Unusual);
        }
        let Some(live) = self.main.live.get(cpu).and_then(|live| live.load(reader)) else {
            return Err(Other::Unusual);
        };
        let ring = &live.0;
        let went = ring.write_plain(At(now), |room: &[AtomicU32; N]| {
            for (word, value) in room.iter().zip(words()) {
                word.store(value, Relaxed);
            }
        });
        match went {
            Plain::Done => {}
            Plain::Unusual => return Err(Other::Unusual),
            Plain::Disturbed => return Err(Other::Disturbed(ring)),
            Plain::Unfinished => {
                self.waiting.note();
                return Err(Other::Unfinished(ring));
            }
        }
        self.waiting.note();
        Ok(())
    }

    /// Whether this CPU records here. May be out of date at once.
    #[inline(always)]
    pub fn is_recording(&self) -> bool {
        self.recording.load(Relaxed) >> smp::cpu_id() & 1 != 0
    }

    /// Records `body` behind the fields that all records have, on this CPU. `false`: recording is off, or the
    /// buffer is full and keeps what it has. In any context but idle.
    #[inline]
    pub fn record<const N: usize>(&self, kind: Kind, body: [u32; N]) -> bool {
        self.record_as(common(kind, 0), body)
    }

    /// [`Self::record`], of a caller who has looked at the context itself, before it changed it.
    #[inline]
    pub fn record_as<const N: usize>(&self, common: Common, body: [u32; N]) -> bool {
        self.record_with(common, 4 * N, |words| {
            for (word, value) in words.iter().zip(body) {
                word.store(value, Relaxed);
            }
        })
    }

    /// Records `len` bytes, rounded up to words, which `fill` stores. They hold something old before. As
    /// [`Self::record`]; `fill` must not sleep, and what it records itself lies behind this record.
    #[inline]
    pub fn record_with(&self, common: Common, len: usize, fill: impl FnOnce(&[AtomicU32])) -> bool {
        let reader = rcu::read();
        let cpu = smp::cpu_id();
        if self.recording.load(Relaxed) >> cpu & 1 == 0 {
            return false;
        }
        let Some(live) = self.main.live.get(cpu).and_then(|live| live.load(&reader)) else {
            return false;
        };
        let clock = Here(Clock::from_number(self.clock.load(Relaxed)));
        let Some(room) = live.0.reserve(clock, limen_trace_text::entry::COMMON + len) else {
            return false;
        };
        if let [first, second, body @ ..] = room.words() {
            let [a, b] = common.words();
            first.store(a, Relaxed);
            second.store(b, Relaxed);
            fill(body);
        }
        room.commit();
        if self.options.load(Relaxed) & Options::RECORD_CMD.bits() != 0 {
            super::names::note(common.pid);
        }
        self.waiting.note();
        true
    }
}
