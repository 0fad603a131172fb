//! What was wrong with commands that were written to files of an instance (`error_log`): the last few.

use super::Instance;
use crate::sync::Mutex;
use crate::time::raw_ns;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// How many are kept.
const MOST: usize = 8;
/// How much of a command is kept, bytes.
const COMMAND: usize = 256;

/// A command that was wrong.
#[derive(Clone)]
pub struct Report {
    /// When, nanoseconds since boot.
    pub time: u64,
    /// Which part of the kernel says so.
    pub room: &'static str,
    /// What was wrong.
    pub what: &'static str,
    /// The command, or the beginning of it.
    pub command: Vec<u8>,
    /// Where in the command, in bytes.
    pub at: usize,
}

/// The reports of an instance.
pub struct Reports(Mutex<VecDeque<Report>>);

impl Reports {
    /// None.
    pub const fn new() -> Self {
        Self(Mutex::new(VecDeque::new()))
    }
}

impl Instance {
    /// Keeps a report: `room` says that `what` is wrong with `command`, at byte `at` of it. Without memory it
    /// is not kept. May sleep.
    pub fn report(&self, room: &'static str, what: &'static str, command: &[u8], at: usize) {
        let command = command.trim_ascii();
        let kept = &command[..command.len().min(COMMAND)];
        let mut own = Vec::new();
        if crate::mm::reserve::room_exact(&mut own, kept.len()).is_err() {
            return;
        }
        own.extend_from_slice(kept);
        let report = Report {
            time: raw_ns(),
            room,
            what,
            command: own,
            at,
        };
        let mut reports = self.reports.0.lock();
        while reports.len() >= MOST {
            reports.pop_front();
        }
        if crate::mm::reserve::room(&mut *reports, 1).is_ok() {
            reports.push_back(report);
        }
    }

    /// Calls `f` with each report that is kept, the oldest first.
    pub fn each_report(&self, mut f: impl FnMut(&Report)) {
        for report in self.reports.0.lock().iter() {
            f(report);
        }
    }

    /// Forgets all reports.
    pub fn forget_reports(&self) {
        self.reports.0.lock().clear();
    }
}
