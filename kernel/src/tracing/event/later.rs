//! What a trace point or a tracer asks for and cannot do itself: snapshots, dumps. The thread that met the
//! event does them on its way to user mode; if it never goes there, the next that does, or whoever opens a
//! `snapshot` file.

use crate::sched;
use crate::tracing::Instance;
use crate::tracing::read::Only;
use core::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};
use limen_entry::ThreadFlags;

/// Some instance waits for a snapshot.
static PENDING: AtomicBool = AtomicBool::new(false);

/// A snapshot of an instance was asked for, and marked there. In any context.
pub(super) fn snapshot() {
    PENDING.store(true, Release);
    sched::current().info.work.set(ThreadFlags::NOTIFY_RESUME);
}

impl Instance {
    /// A snapshot of it is taken soon. In any context.
    pub fn ask_for_snapshot(&self) {
        self.events.snapshot_waits.store(true, Release);
        snapshot();
    }

    /// What it has recorded so far, of one CPU or all, is written to the log soon. Recording ends. In any
    /// context.
    pub fn ask_for_dump(&self, only: Only) {
        self.turn_quietly(false);
        self.dump.ask(only);
        snapshot();
    }
}

/// Takes the snapshots that wait, and writes what waits to the log. May sleep.
#[inline]
pub fn work() {
    if PENDING.load(Acquire) {
        take_all();
    }
}

#[cold]
fn take_all() {
    if !PENDING.swap(false, AcqRel) {
        return;
    }
    let top = crate::tracing::made().cloned();
    for instance in top.into_iter().chain(crate::tracing::all()) {
        if instance.events.snapshot_waits.swap(false, AcqRel) {
            let _ = instance.snapshot(None);
        }
        if let Some(only) = instance.dump.take() {
            instance.log_records(only);
        }
    }
}
