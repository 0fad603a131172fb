//! Direct calls: functions of modules that are called with what a traced function was called with, behind its
//! tracers. As on Linux they are preempted, and may sleep where the traced function may.
//!
//! So a grace period does not say that such a function runs no more: calls that may be preempted are counted
//! ([`Running`]) before preemption is turned on, and until it is off again. Whoever ends a direct call waits
//! until there are none. The list of tracers through which the function was called is read again behind it,
//! so each list with a direct call counts those that came through it, and is freed when all are back.

use super::inside;
use super::target::{Data, Target};
use crate::arch::sites::Entry;
use crate::mm::reserve::room;
use crate::rcu;
use crate::sched::preempt;
use crate::sync::Mutex;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicUsize};
use limen_trace_sites::sets::Kind;

/// Is called with the function's arguments, as many as are in registers, where the function is called. What
/// it calls itself does not call it again, in the same context of the same thread.
pub type Direct = extern "C" fn(usize, usize, usize, usize, usize, usize, usize, usize);

/// How many calls are under way that may be preempted.
struct Running(AtomicUsize);

impl Running {
    const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    fn any(&self) -> bool {
        self.0.load(Acquire) != 0
    }

    /// One begins. Preemption is off.
    fn begin(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// It is over. Preemption is off, and stays so until what called it has returned.
    fn end(&self) {
        self.0.fetch_sub(1, Release);
    }
}

/// A function that is called directly.
pub struct Called {
    direct: Direct,
    running: Running,
    /// It was to end, and there was no memory to take it out of the sites.
    ended: AtomicBool,
}

/// A direct call as the last of a list of tracers.
pub struct Last {
    of: Arc<Target>,
    running: Running,
}

/// The target of a direct call.
pub fn target(direct: Direct) -> Target {
    let kind = Kind {
        regs: false,
        ip_modify: false,
        direct: Some(direct as *const () as usize),
    };
    let called = Called {
        direct,
        running: Running::new(),
        ended: AtomicBool::new(false),
    };
    Target::of(kind, met, Data::Direct(called))
}

/// The same, `of`, for a list of tracers.
pub fn last(of: Arc<Target>) -> Target {
    let running = Running::new();
    Target::of(of.kind(), met_last, Data::Last(Last { of, running }))
}

extern "C" fn met(_ip: usize, _parent: usize, target: &Target, entry: &Entry) {
    if let Data::Direct(called) = &target.data {
        called.call(None, entry);
    }
}

extern "C" fn met_last(_ip: usize, _parent: usize, target: &Target, entry: &Entry) {
    if let Data::Last(last) = &target.data
        && let Data::Direct(called) = &last.of.data
    {
        called.call(Some(&last.running), entry);
    }
}

impl Called {
    /// The function was met; `list`: through a list of tracers. What is used here stays: it is counted.
    fn call(&self, list: Option<&Running>, entry: &Entry) {
        if self.ended.load(Relaxed) {
            return;
        }
        // From here on the entry is not looked at: it says that preemption is off.
        let [a, b, c, d, e, f, g, h] = core::array::from_fn(|n| entry.arg(n).unwrap_or(0));
        let call = || (self.direct)(a, b, c, d, e, f, g, h);
        inside::unless_inside(&raw const *self as usize, || {
            // Who called the function may not be preempted anyway: a grace period waits for it.
            if preempt::count() != preempt::PREEMPT {
                return call();
            }
            self.running.begin();
            list.inspect(|list| list.begin());
            preempt::enable();
            call();
            preempt::disable();
            list.inspect(|list| list.end());
            self.running.end();
        });
    }
}

/// Whether a target is a direct call, or a list with one, and how many calls of it are under way.
fn running(target: &Target) -> Option<&Running> {
    match &target.data {
        Data::Direct(called) => Some(&called.running),
        Data::Many(targets, _) => match &targets.last()?.data {
            Data::Last(last) => Some(&last.running),
            _ => None,
        },
        _ => None,
    }
}

/// What no site has any more, and calls are still under way through.
static LEFT: Mutex<Vec<Arc<Target>>> = Mutex::new(Vec::new());

/// Frees what nobody is in any more.
fn sweep() {
    let mut left = LEFT.lock();
    let mut idle = 0;
    for n in 0..left.len() {
        if running(&left[n]).is_none_or(|running| !running.any()) {
            left.swap(n, idle);
            idle += 1;
        }
    }
    if idle == 0 {
        return;
    }
    // They are on the way back.
    rcu::synchronize();
    left.drain(..idle);
}

/// Drops what no site has any more, since before the last grace period. What calls are under way through is
/// dropped later. May sleep.
pub fn release(former: impl IntoIterator<Item = Arc<Target>>) {
    for target in former {
        let Some(running) = running(&target) else {
            continue;
        };
        let mut left = LEFT.lock();
        if room(&mut *left, 1).is_ok() {
            left.push(target);
            continue;
        }
        drop(left);
        wait(running);
    }
    sweep();
}

fn wait(running: &Running) {
    while running.any() {
        rcu::synchronize();
    }
    // The last are on the way back.
    rcu::synchronize();
}

/// A direct call whose target no site has any more, or that was told to [`end`], and a grace period is over:
/// returns when its function does not run. May sleep, for as long as the function does.
pub fn settle(target: &Target) {
    if let Data::Direct(called) = &target.data
        && called.running.any()
    {
        wait(&called.running);
        sweep();
    }
}

/// A direct call ends, although sites have it still: its function is not called a grace period later.
pub fn end(target: &Target) {
    if let Data::Direct(called) = &target.data {
        called.ended.store(true, Relaxed);
    }
}
