//! The stack tracer: looks at each function that is called how much of its thread's kernel stack is in use,
//! and keeps the calls of the most that it has seen (`stack_trace`, `stack_max_size`).

use super::guard::Guard;
use super::names::{self, Known};
use super::ops::{self, Registered, errno};
use super::target::{Data, Target};
use crate::arch::sites::Entry;
use crate::arch::stack;
use crate::mm::reserve::{handling, room_exact};
use crate::sched::preempt::{self, NMI_MASK};
use crate::sync::{Mutex, without_interrupts};
use crate::trace::backtrace;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicUsize};
use limen_linux_abi::Errno;
use limen_trace_sites::Site;
use limen_trace_sites::filter::Effective;
use limen_trace_sites::hash::Hash;

/// How many calls are kept.
const DEPTH: usize = 64;

/// How far behind its site a traced function's tracer returns at most, bytes.
const BEHIND: usize = 16;

/// The most that was in use, bytes.
static MAX: AtomicUsize = AtomicUsize::new(0);

/// The calls of it, the innermost first: where each is, and how much was in use up to its frame.
static CALLS: [(AtomicUsize, AtomicUsize); DEPTH] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; DEPTH];
static LEN: AtomicUsize = AtomicUsize::new(0);

/// Somebody writes or reads the calls. Who may not wait for that goes on without.
static BUSY: AtomicBool = AtomicBool::new(false);

static GUARD: Guard = Guard::new();

struct State {
    registered: Option<Registered>,
    filter: Hash,
}

static STATE: Mutex<State> = Mutex::new(State {
    registered: None,
    filter: Hash::new(),
});

extern "C" fn look(ip: usize, parent: usize, _target: &Target, entry: &Entry) {
    // Other stacks than the thread's own are not looked at, nor what NMIs add to it.
    if preempt::count() & NMI_MASK != 0 {
        return;
    }
    let sp = entry.sp();
    let stack = &crate::sched::current().stack;
    if sp < stack.bottom() || sp >= stack.top() {
        return;
    }
    let used = stack.top() - sp;
    if used <= MAX.load(Relaxed) {
        return;
    }
    if let Some(_inside) = GUARD.enter() {
        keep(ip, parent, used, stack.top());
    }
}

/// Keeps the running thread's calls, of which `used` bytes are in use at the function whose site is at `ip`.
#[inline(never)]
fn keep(ip: usize, parent: usize, used: usize, top: usize) {
    if BUSY.swap(true, Acquire) {
        return;
    }
    if used > MAX.load(Relaxed) {
        MAX.store(used, Relaxed);
        let mut len = 0;
        let mut put = |at: usize, used: usize| {
            if let Some((call, depth)) = CALLS.get(len) {
                call.store(at, Relaxed);
                depth.store(used, Relaxed);
                len += 1;
            }
        };
        put(ip, used);
        let mut begun = false;
        backtrace::frames(stack::here(), |frame, at| {
            let left = top.saturating_sub(frame);
            if !begun {
                begun = at.wrapping_sub(ip) <= BEHIND;
            } else if left <= used {
                put(at, left);
            }
        });
        if !begun {
            put(parent, used);
        }
        LEN.store(len, Relaxed);
    }
    BUSY.store(false, Release);
}

/// Runs `f` while nobody else writes or reads the calls.
fn alone<R>(f: impl FnOnce() -> R) -> R {
    // Whoever is interrupted holding it would be waited for by the interrupt.
    without_interrupts(|| {
        while BUSY.swap(true, Acquire) {
            core::hint::spin_loop();
        }
        let result = f();
        BUSY.store(false, Release);
        result
    })
}

/// The most that was in use of a thread's stack, bytes.
pub fn max_size() -> usize {
    MAX.load(Relaxed)
}

/// Calls are kept from now on when more than `size` bytes are in use.
pub fn set_max_size(size: usize) {
    alone(|| MAX.store(size, Relaxed));
}

/// The calls that were kept, the innermost first: where each is, and how many bytes were in use up to its
/// frame. `ENOMEM`. May sleep.
pub fn calls() -> Result<Vec<(usize, usize)>, Errno> {
    let mut all = Vec::new();
    room_exact(&mut all, DEPTH)?;
    alone(|| {
        let kept = CALLS.iter().take(LEN.load(Relaxed));
        all.extend(kept.map(|(call, depth)| (call.load(Relaxed), depth.load(Relaxed))));
    });
    Ok(all)
}

/// The functions that are looked at.
fn effective(filter: &Hash) -> Result<Effective, Errno> {
    let sites = handling(|| filter.sites().try_clone()).map_err(errno)?;
    Ok(match filter.is_empty() {
        true => Effective::All { except: sites },
        false => Effective::Only(sites),
    })
}

/// Whether it is on. May sleep.
pub fn is_on() -> bool {
    STATE.lock().registered.is_some()
}

/// Turns it on or off. `ENOMEM`: nothing has changed. May sleep.
pub fn turn(on: bool) -> Result<(), Errno> {
    let mut state = STATE.lock();
    match (state.registered.take(), on) {
        (None, true) => {
            let set = effective(&state.filter)?;
            let target = Arc::new(Target::new(look, Data::None));
            state.registered = Some(ops::add(target, set)?);
            Ok(())
        }
        (Some(registered), false) => ops::remove(registered).map_err(|(registered, errno)| {
            state.registered = Some(registered);
            errno
        }),
        (as_before, _) => {
            state.registered = as_before;
            Ok(())
        }
    }
}

/// Calls `f` with what `stack_trace_filter` holds.
pub fn with_hash<R>(f: impl FnOnce(&Hash) -> R) -> R {
    f(&STATE.lock().filter)
}

/// That file was written, and is closed. On an error it holds what it held before.
pub fn set_hash(mut hash: Hash) -> Result<(), Errno> {
    let mut state = STATE.lock();
    let names = names::known()?;
    handling(|| hash.settle(&names)).map_err(errno)?;
    if let Some(registered) = &state.registered {
        ops::change(registered, effective(&hash)?)?;
    }
    state.filter = hash;
    Ok(())
}

/// A module was loaded, whose functions are among `names`. On an error the filter is that of before.
pub(super) fn module_loaded(names: &Known, module: &str) -> Result<(), Errno> {
    let mut state = STATE.lock();
    let (filter, changed) = handling(|| {
        let mut filter = state.filter.try_clone()?;
        let changed = filter.loaded(names, module)?;
        Ok((filter, changed))
    })
    .map_err(errno)?;
    if let Some(registered) = &state.registered
        && changed
    {
        ops::change(registered, effective(&filter)?)?;
    }
    state.filter = filter;
    Ok(())
}

/// Sites are gone with their module.
pub(super) fn forget(sites: &[Site]) {
    let mut state = STATE.lock();
    sites.iter().for_each(|site| state.filter.forget(*site));
}
