//! The records of an instance as lines of the kernel's log: `dump`, `cpudump`, and what a panic shows.

use super::names::AtPanic;
use super::read::{self, Only, Walk};
use super::{Instance, Names};
use crate::log::Line;
use crate::sync::SpinLock;
use crate::task;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use limen_trace_text::line::{self, Style};
use limen_trace_text::{Entry, Options};

/// A line of the log has at most so many bytes of a record.
pub(super) const MOST: usize = 512;
/// Before the first record, and behind the last.
const RULE: &str = "---------------------------------";
/// Instead of records.
const EMPTY: &str = "   (ftrace buffer empty)";

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
        info!("Dumping ftrace buffer:");
        let style = Style {
            world: &Names,
            options: self.options(),
            time: self.clock().style(),
            start: 0,
            next: None,
        };
        let mut text = Line::<MOST>::new();
        let Ok(mut walk) = Walk::new(&self.main, only) else {
            warning!("no memory for a dump");
            return;
        };
        let mut any = false;
        while !task::current().fatal_signal_pending() {
            text.clear();
            let step = walk.next(&self.main, |step| {
                let _ = line::lost(step.entry.cpu, step.lost, &mut text);
                let _ = line::line(&step.entry, &style, &mut text);
                false
            });
            if !matches!(step, Ok(Some(()))) {
                break;
            }
            if !any {
                info!("{RULE}");
            }
            any = true;
            for line in text.text().lines() {
                info!("{line}");
            }
        }
        if any {
            info!("{RULE}");
        } else {
            info!("{EMPTY}");
        }
    }

    /// Ends recording, and writes its records, of one CPU or all, to the consoles, as Linux shows them at a
    /// panic: in the latency format, each once. The panicking CPU, when the others stand still: nothing is
    /// waited for or allocated. What another CPU was reading is left out.
    pub(super) fn show_at_panic(&self, only: Only) {
        self.turn_quietly(false);
        // For good: what is called meanwhile may turn recording on again.
        self.pause();
        match self.name.escape_ascii() {
            _ if self.is_top() => log!(Emerg, "Dumping ftrace buffer:"),
            name => log!(Emerg, "Dumping ftrace instance {name} buffer:"),
        }
        for cpu in read::readers(&self.main, only) {
            if self.main.reader_now(cpu).is_none() {
                log!(Emerg, "CPU:{cpu} [somebody reads its buffer]");
            }
        }
        let Some(mut room) = COPY.try_lock() else { return };
        let mut any = false;
        while let Some(copied) = read::consume_now(&self.main, only, &mut *room) {
            if !any {
                log!(Emerg, "{RULE}");
            }
            any = true;
            let mut text = Line::<MOST>::new();
            let _ = line::lost(copied.cpu, copied.lost, &mut text);
            if let Some(entry) = Entry::new(copied.cpu, copied.time, &room[..copied.len]) {
                let style = Style {
                    world: &AtPanic,
                    options: self.options() | Options::LATENCY_FMT,
                    time: self.clock().style(),
                    start: 0,
                    next: read::next_now(&self.main, only),
                };
                let _ = line::line(&entry, &style, &mut text);
            }
            for line in text.text().lines() {
                log!(Emerg, "{line}");
            }
        }
        log!(Emerg, "{}", if any { RULE } else { EMPTY });
    }
}

/// Where a panic has the record of which it shows the text.
static COPY: SpinLock<[u8; 4096]> = SpinLock::new([0; 4096]);
