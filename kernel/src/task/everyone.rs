//! Signals for all processes (`kill(-1, ..)`).
//!
//! They go by number, and a process may get a lower one than its maker has. So that none is missed, none
//! becomes known while such a signal is on its way: what was sent to its maker is kept for it
//! ([`crate::signal::queue_to_member`]), and nobody else sends it anything. Whoever sends waits for those
//! who make a process and already wait: however many send, a fork gets its turn.

use super::process::TREE;
use super::{Process, all_processes};
use crate::sched::WaitQueue;
use crate::sync::SpinGuard;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};

/// Signals on their way; becomes more under [`TREE`].
static SENDINGS: AtomicU32 = AtomicU32::new(0);
/// Forks that wait for them to be over, or did; becomes more under [`TREE`].
static FORKS: AtomicU32 = AtomicU32::new(0);
/// Both wait here: neither ever waits for long.
static WAIT: WaitQueue = WaitQueue::new();

/// One less of those that `count` counts.
fn leave(count: &AtomicU32) {
    if count.fetch_sub(1, Ordering::AcqRel) == 1 {
        WAIT.wake_all();
    }
}

fn is_zero(count: &AtomicU32) -> bool {
    count.load(Ordering::Acquire) == 0
}

/// A signal on its way.
struct Sending;

impl Sending {
    fn begin() -> Self {
        loop {
            WAIT.wait_until_uninterruptible(|| is_zero(&FORKS));
            let _tree = TREE.lock();
            if is_zero(&FORKS) {
                SENDINGS.fetch_add(1, Ordering::AcqRel);
                return Self;
            }
        }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        leave(&SENDINGS);
    }
}

/// All processes, and none becomes known meanwhile: for who sends a signal to each, with
/// [`crate::signal::queue_to_member`], or must not miss one that its maker made on the way. May sleep; not
/// with [`TREE`] locked.
pub fn sending() -> impl Iterator<Item = Arc<Process>> {
    let sending = Sending::begin();
    let mut processes = all_processes();
    core::iter::from_fn(move || {
        let _on_its_way = &sending;
        processes.next()
    })
}

/// A fork that had to wait and goes first now.
pub(super) struct Waited;

impl Drop for Waited {
    fn drop(&mut self) {
        leave(&FORKS);
    }
}

/// Whether a process can become known: `tree` is handed back. If not, waits until it probably can, for a fork
/// that is to keep `waited` until it is done.
pub(super) fn may_enter<'a>(
    tree: SpinGuard<'a, ()>,
    waited: &mut Option<Waited>,
) -> Option<SpinGuard<'a, ()>> {
    if is_zero(&SENDINGS) {
        return Some(tree);
    }
    wait(tree, waited);
    None
}

#[cold]
#[inline(never)]
fn wait(tree: SpinGuard<'_, ()>, waited: &mut Option<Waited>) {
    waited.get_or_insert_with(|| {
        FORKS.fetch_add(1, Ordering::AcqRel);
        Waited
    });
    drop(tree);
    WAIT.wait_until_uninterruptible(|| is_zero(&SENDINGS));
}
