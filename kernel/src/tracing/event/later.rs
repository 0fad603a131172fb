//! What a trace point asks for and cannot do itself: snapshots. The thread that met the event takes them on
//! its way to user mode; if it never goes there, the next that does, or whoever opens a `snapshot` file.

use crate::sched;
use core::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Acquire};
use limen_entry::ThreadFlags;

/// Some instance waits for a snapshot.
static PENDING: AtomicBool = AtomicBool::new(false);

/// A snapshot of an instance was asked for, and marked there. In any context.
pub(super) fn snapshot() {
    PENDING.store(true, core::sync::atomic::Ordering::Release);
    sched::current().info.work.set(ThreadFlags::NOTIFY_RESUME);
}

/// Takes the snapshots that wait. May sleep.
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
    }
}
