//! The records of an instance as lines of the kernel's log (`dump`, `cpudump`).

use super::read::{Only, Walk};
use super::{Instance, Names};
use crate::task;
use alloc::string::String;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use limen_trace_text::line::{self, Style};

/// A line of the log has at most so many bytes of a record.
const MOST: usize = 512;

/// Nothing is to be written.
const NONE: usize = 0;
/// The records of all CPUs are. A larger number: those of the CPU with that number less two.
const ALL: usize = 1;

/// What is to be written to the log.
pub(super) struct Dump(AtomicUsize);

impl Dump {
    pub(super) const fn new() -> Self {
        Self(AtomicUsize::new(NONE))
    }

    /// These are to be written. In any context. If some are already, all are.
    pub(super) fn ask(&self, only: Only) {
        let new = only.map_or(ALL, |cpu| cpu + 2);
        if self
            .0
            .compare_exchange(NONE, new, Release, Relaxed)
            .is_err_and(|old| old != new)
        {
            self.0.store(ALL, Release);
        }
    }

    /// What was asked for, which whoever calls this does.
    pub(super) fn take(&self) -> Option<Only> {
        if self.0.load(Relaxed) == NONE {
            return None;
        }
        match self.0.swap(NONE, AcqRel) {
            NONE => None,
            ALL => Some(None),
            cpu => Some(Some(cpu - 2)),
        }
    }
}

impl Instance {
    /// Writes its records, of one CPU or all, to the log; they stay. A fatal signal ends it. May sleep.
    pub(super) fn log_records(&self, only: Only) {
        let rule = "---------------------------------";
        info!("Dumping ftrace buffer:");
        let style = Style {
            world: &Names,
            options: self.options(),
            time: self.clock().style(),
            start: 0,
            next: None,
        };
        let mut text = String::new();
        let room = crate::mm::reserve::handling(|| text.try_reserve_exact(4 * MOST));
        let (Ok(()), Ok(mut walk)) = (room, Walk::new(&self.main, only)) else {
            warning!("no memory for a dump");
            return;
        };
        let mut any = false;
        while !task::current().fatal_signal_pending() {
            text.clear();
            let step = walk.next(&self.main, |step| {
                let mut room = Cut(&mut text);
                let _ = line::lost(step.entry.cpu, step.lost, &mut room);
                let _ = line::line(&step.entry, &style, &mut room);
                false
            });
            if !matches!(step, Ok(Some(()))) {
                break;
            }
            if !any {
                info!("{rule}");
            }
            any = true;
            for line in text.lines() {
                info!("{line}");
            }
        }
        if any {
            info!("{rule}");
        } else {
            info!("   (ftrace buffer empty)");
        }
    }
}

/// Text that is cut off where there is no more room.
struct Cut<'a>(&'a mut String);

impl core::fmt::Write for Cut<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        if self.0.len() + text.len() > self.0.capacity() {
            return Err(core::fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}
