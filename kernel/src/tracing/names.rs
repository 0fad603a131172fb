//! Names of threads that recorded (`saved_cmdlines`, `saved_tgids`). A thread that lives is asked for its
//! name when the trace is read; the names of those that have ended are kept, of as many as were asked for.

use crate::sched::preempt;
use crate::sync::{Mutex, Once, SpinLock};
use crate::task::{self, IS_IN_TRACE, Task};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use limen_linux_abi::Errno;
use limen_trace_text::{Entry, Form, World};

/// How many names are kept at first.
const DEFAULT: usize = 128;
/// How many names can be kept (`PID_MAX_DEFAULT`).
const MOST: usize = 1 << 15;

/// Which threads recorded since they began, by the lower bits of their number.
static SEEN: [AtomicU32; MOST / 32] = [const { AtomicU32::new(0) }; MOST / 32];

/// A thread that has ended.
#[derive(Clone, Copy)]
struct Ended {
    pid: i32,
    tgid: i32,
    comm: [u8; 16],
}

struct Kept {
    most: usize,
    ended: VecDeque<Ended>,
}

static KEPT: Mutex<Kept> = Mutex::new(Kept {
    most: DEFAULT,
    ended: VecDeque::new(),
});

/// The running thread, or an interrupt that came to it, has recorded something. In any context.
#[inline(always)]
pub(super) fn note(pid: i32) {
    let (word, bit) = (&SEEN[pid as usize % MOST / 32], 1 << (pid % 32));
    if word.load(Relaxed) & bit == 0 {
        word.fetch_or(bit, Relaxed);
    }
    let trace = &preempt::current_info().trace;
    trace.store(trace.load(Relaxed) | IS_IN_TRACE, Relaxed);
}

/// Whether a thread has recorded something since it began.
fn seen(pid: i32) -> bool {
    SEEN[pid as usize % MOST / 32].load(Relaxed) >> (pid % 32) & 1 != 0
}

/// A thread ends.
fn ended(task: &Task) {
    let pid = task.tid();
    if !seen(pid) {
        return;
    }
    SEEN[pid as usize % MOST / 32].fetch_and(!(1 << (pid % 32)), Relaxed);
    let one = Ended {
        pid,
        tgid: task.tgid(),
        comm: task.comm(),
    };
    let mut kept = KEPT.lock();
    kept.ended.retain(|other| other.pid != pid);
    while kept.ended.len() >= kept.most {
        kept.ended.pop_front();
    }
    // Without memory the name is not known later.
    if crate::mm::reserve::room(&mut kept.ended, 1).is_ok() {
        kept.ended.push_back(one);
    }
}

/// Names are kept from now on.
pub(super) fn begin() {
    task::exit::when_threads_end(ended);
}

/// How many names are kept.
pub fn most() -> usize {
    KEPT.lock().most
}

/// Keeps so many names. `EINVAL`: none, or too many.
pub fn set_most(most: usize) -> Result<(), Errno> {
    if most == 0 || most > MOST {
        return Err(Errno::EINVAL);
    }
    let mut kept = KEPT.lock();
    kept.most = most;
    while kept.ended.len() > most {
        kept.ended.pop_front();
    }
    Ok(())
}

/// Calls `f` with number, process and name of each thread that is known.
pub fn each(mut f: impl FnMut(i32, i32, &[u8; 16])) {
    let mut all: Vec<Ended> = Vec::new();
    {
        let kept = KEPT.lock();
        if crate::mm::reserve::room(&mut all, kept.ended.len()).is_ok() {
            all.extend(kept.ended.iter());
        }
    }
    for one in all {
        if !(seen(one.pid) && task::find_task(one.pid).is_some()) {
            f(one.pid, one.tgid, &one.comm);
        }
    }
    for process in task::all_processes() {
        for thread in process.threads() {
            if seen(thread.tid()) {
                f(thread.tid(), thread.tgid(), &thread.comm());
            }
        }
    }
}

fn known(pid: i32) -> Option<Ended> {
    if seen(pid)
        && let Some(task) = task::find_task(pid)
    {
        return Some(Ended {
            pid,
            tgid: task.tgid(),
            comm: task.comm(),
        });
    }
    KEPT.lock().ended.iter().find(|one| one.pid == pid).copied()
}

/// What writes the text of events (`events/`).
pub trait Events: Sync {
    /// Writes what `entry` says, without a line's end. `false`: there is no such event.
    fn event(&self, entry: &Entry<'_>, out: &mut dyn fmt::Write) -> Result<bool, fmt::Error>;
}

static EVENTS: Once<&'static dyn Events> = Once::new();

/// From now on events have a text. Boot.
pub fn set_events(events: &'static dyn Events) {
    let _ = EVENTS.set(events);
}

/// Writes what an event says, without a line's end. `false`: there is no such event.
pub(super) fn event(entry: &Entry<'_>, out: &mut dyn fmt::Write) -> Result<bool, fmt::Error> {
    match EVENTS.get() {
        Some(events) => events.event(entry, out),
        None => Ok(false),
    }
}

/// Who knows names, for the text of a trace.
pub struct Names;

impl World for Names {
    fn symbol(&self, address: u64, form: Form, out: &mut dyn fmt::Write) -> fmt::Result {
        if super::marker::is_marker(address as usize) {
            return out.write_str("tracing_mark_write");
        }
        let symbol = crate::trace::symbols::Symbol(address as usize);
        match form {
            Form::Name => symbol.write_bare(out),
            Form::Module => symbol.write_short(false, out),
            Form::Offset => symbol.write_short(true, out),
        }
    }
    fn comm(&self, pid: i32) -> Option<[u8; 16]> {
        known(pid).map(|one| one.comm)
    }
    fn tgid(&self, pid: i32) -> Option<i32> {
        known(pid).map(|one| one.tgid)
    }
    fn text(&self, address: u64) -> Option<&[u8]> {
        super::printk::kept(address as usize)
    }
    fn event(&self, entry: &Entry<'_>, out: &mut dyn fmt::Write) -> Result<bool, fmt::Error> {
        event(entry, out)
    }
}

/// [`Names`], where nobody may be waited for: what another CPU has locked is not known.
pub(super) struct AtPanic;

fn known_now(pid: i32) -> Option<([u8; 16], i32)> {
    if seen(pid)
        && let Some(task) = task::find_task(pid)
    {
        return Some((task.comm_now(), task.tgid()));
    }
    let kept = KEPT.try_lock()?;
    let ended = kept.ended.iter().find(|one| one.pid == pid)?;
    Some((ended.comm, ended.tgid))
}

/// Where names are put together at a panic: as long as the longest.
static PATH: SpinLock<[u8; 2048]> = SpinLock::new([0; 2048]);

impl World for AtPanic {
    fn symbol(&self, address: u64, form: Form, out: &mut dyn fmt::Write) -> fmt::Result {
        if super::marker::is_marker(address as usize) {
            return Names.symbol(address, form, out);
        }
        let symbol = crate::trace::symbols::Symbol(address as usize);
        let offset = matches!(form, Form::Offset);
        match PATH.try_lock() {
            Some(mut room) => symbol.write_short_in(&mut *room, offset, out),
            None => symbol.write(offset, out),
        }
    }
    fn comm(&self, pid: i32) -> Option<[u8; 16]> {
        known_now(pid).map(|(comm, _)| comm)
    }
    fn tgid(&self, pid: i32) -> Option<i32> {
        known_now(pid).map(|(_, tgid)| tgid)
    }
    fn text(&self, address: u64) -> Option<&[u8]> {
        Names.text(address)
    }
    fn event(&self, entry: &Entry<'_>, out: &mut dyn fmt::Write) -> Result<bool, fmt::Error> {
        event(entry, out)
    }
}
