//! Timers, and sleeping threads (`sched::deadline`), that wait by a clock which can be set (`CLOCK_REALTIME`,
//! `CLOCK_TAI`). Those that were set relative to the present time are not among them: they run by
//! `CLOCK_MONOTONIC`.
//!
//! Each of them converts its time to `CLOCK_MONOTONIC` and arms its timer under a lock, in one step. Setting
//! a clock first changes the clock, and then does the same for all of them under the same locks. So whoever
//! arms a timer last has used the clock's new time.

use crate::sync::IrqSpinLock;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};

/// A timer of a clock that can be set.
pub trait WallTimer: Send + Sync {
    /// Its clock was set. `realtime`: `CLOCK_REALTIME` was, not only `CLOCK_TAI`.
    fn clock_was_set(&self, realtime: bool);
}

/// All such timers, by address. They are added when they are made, not each time they are set. An
/// interrupt-safe lock: a callback may drop the last reference to a timer.
static TIMERS: IrqSpinLock<BTreeMap<usize, Weak<dyn WallTimer>>> = IrqSpinLock::new(BTreeMap::new());

/// From now on `timer` is told when its clock is set.
pub fn add<T: WallTimer + 'static>(timer: &Arc<T>) {
    let weak = Arc::downgrade(timer);
    TIMERS.lock().insert(Arc::as_ptr(timer).addr(), weak);
}

/// Undoes [`add`], when `timer` is dropped.
pub fn remove<T: WallTimer>(timer: &T) {
    let old = TIMERS.lock().remove(&core::ptr::from_ref(timer).addr());
    drop(old);
}

/// A clock was set. `realtime`: `CLOCK_REALTIME` was, not only `CLOCK_TAI`.
pub(super) fn clock_was_set(realtime: bool) {
    crate::sched::deadline::clock_was_set();
    // One at a time, as there may be very many.
    let mut from = 0;
    loop {
        let next = {
            let timers = TIMERS.lock();
            let next = timers.range(from..).next();
            next.map(|(address, timer)| (*address, timer.upgrade()))
        };
        let Some((address, timer)) = next else { break };
        if let Some(timer) = timer {
            timer.clock_was_set(realtime);
        }
        from = address + 1;
    }
}
