//! One request after the other.

use crate::sync::{Mutex, MutexGuard};
use crate::task::current;
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};

static REQUESTS: Mutex<()> = Mutex::new(());
/// The thread whose request is served; 0: none is. Only a thread itself asks whether it is this one.
static SERVED: AtomicI32 = AtomicI32::new(0);

/// The running thread's request is served as long as this lives.
pub struct Serving {
    _one: MutexGuard<'static, ()>,
}

/// Begins to serve a request of the running thread. May sleep.
pub fn begin() -> Serving {
    let one = REQUESTS.lock();
    SERVED.store(current().tid(), Relaxed);
    Serving { _one: one }
}

impl Drop for Serving {
    fn drop(&mut self) {
        SERVED.store(0, Relaxed);
    }
}

/// Whether a request of the running thread is served. Others wait until it is done: it must wait for nothing
/// that they may have to do.
pub fn is_own() -> bool {
    SERVED.load(Relaxed) == current().tid()
}
