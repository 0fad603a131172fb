//! seccomp (`docs/seccomp.md`): the mode and the filters of each thread. Here they are attached, inherited
//! and given up; `filter::seccomp` asks them about each call.
//!
//! A thread's mode and filters change under the lock of its process's signals: by the thread itself, or by a
//! sibling that synchronises all threads (`SECCOMP_FILTER_FLAG_TSYNC`). The only filter that can take the
//! place of another one descends from it and so holds it, which is why the thread may look at its own filter
//! without that lock.

mod filter;
mod notify;
mod supervise;

pub use filter::{Filter, NewFilter};
pub use notify::{Adding, Answer, Listener, Reply};
pub use supervise::Received;

use super::{Process, Task, TaskFlags};
use crate::mm::reserve::room_exact;
use crate::rcu::{Former, Shown, glance};
use crate::signal::ProcessSignals;
use crate::sync::{IrqSpinGuard, Once};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU8, Ordering};
use limen_bpf::Logged;
use limen_entry::SyscallWork;
use limen_linux_abi::Errno;

/// Which actions are logged (`kernel.seccomp.actions_logged`), as [`Logged::bits`].
pub static ACTIONS_LOGGED: AtomicU8 = AtomicU8::new(Logged::ALL.bits());

/// Is told which actions were logged and which are to be; `None`: the names were wrong.
type Changes = fn(Logged, Option<Logged>);
static CHANGES: Once<Changes> = Once::new();

/// From now on `changes` is told. At boot.
pub fn when_logging_changes(changes: Changes) {
    let _ = CHANGES.set(changes);
}

/// The running thread sets which actions are logged; `None`: it has named some that are none (`EINVAL`). May
/// sleep.
pub fn set_actions_logged(new: Option<Logged>) -> Result<(), Errno> {
    let old = match new {
        Some(new) => ACTIONS_LOGGED.swap(new.bits(), Ordering::Relaxed),
        None => ACTIONS_LOGGED.load(Ordering::Relaxed),
    };
    if let Some(changes) = CHANGES.get() {
        changes(Logged::from_bits(old), new);
    }
    new.map(|_| ()).ok_or(Errno::EINVAL)
}

/// What seccomp does for a thread (`SECCOMP_MODE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// Nothing.
    Disabled = 0,
    /// Only reading, writing, exiting and returning from signal handlers are allowed.
    Strict = 1,
    /// Filters decide.
    Filter = 2,
}

/// A thread's part.
pub struct Seccomp {
    mode: AtomicU8,
    filter: Shown<Filter>,
}

impl Seccomp {
    /// Of a thread without filters.
    pub const fn new() -> Self {
        Self {
            mode: AtomicU8::new(Mode::Disabled as u8),
            filter: Shown::empty(),
        }
    }

    /// Its mode.
    #[inline]
    pub fn mode(&self) -> Mode {
        match self.mode.load(Ordering::Relaxed) {
            0 => Mode::Disabled,
            1 => Mode::Strict,
            _ => Mode::Filter,
        }
    }

    /// The place of its newest filter. For `CurrentTask`, which looks at the running thread's.
    #[inline(always)]
    pub fn shown(&self) -> &Shown<Filter> {
        &self.filter
    }

    /// Its newest filter, counted.
    pub fn filter(&self) -> Option<Arc<Filter>> {
        self.filter.get(&glance())
    }

    /// How many filters it has.
    pub fn filters(&self) -> usize {
        let glance = glance();
        self.filter.look(&glance).map_or(0, Filter::depth)
    }

    /// The process's signals are locked.
    fn assign(&self, task: &Task, mode: Mode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
        // Comes last, and releases: whoever sees the bit finds mode and filter.
        task.info.work.set_syscall_work(SyscallWork::SECCOMP);
    }
}

/// A process's signals, locked.
type Shared<'a> = IrqSpinGuard<'a, ProcessSignals>;

/// A new thread, which nobody has seen yet, gets what the running thread `parent` has now. The signals of
/// `parent`'s process are locked, and the new thread is made known under the same lock: a sibling that
/// synchronises all threads comes before, or finds the new one.
#[inline]
pub(super) fn inherit(_: &Shared<'_>, parent: &Task, new: &Task) {
    if parent.flags().contains(TaskFlags::NO_NEW_PRIVS) {
        new.set_flags(TaskFlags::NO_NEW_PRIVS);
    }
    let mode = parent.seccomp.mode();
    if mode != Mode::Disabled {
        inherit_filters(parent, new, mode);
    }
}

#[cold]
#[inline(never)]
fn inherit_filters(parent: &Task, new: &Task, mode: Mode) {
    if let Some(filter) = parent.seccomp.filter() {
        new.seccomp.filter.show(filter);
    }
    new.seccomp.assign(new, mode);
}

/// The running thread ends, and is marked so: gives up its filters. Their listeners are hung up if it was the
/// last one.
pub(super) fn release(task: &Task) {
    if task.seccomp.mode() == Mode::Filter {
        let former = {
            let _shared = task.process.signals.lock();
            task.seccomp.filter.replace(None)
        };
        drop(former);
    }
}

/// Strict mode for the running thread `task`. `EINVAL`: it has filters.
pub fn enter_strict(task: &Task) -> Result<(), Errno> {
    let shared = task.process.signals.lock();
    if task.seccomp.mode() == Mode::Filter {
        return Err(Errno::EINVAL);
    }
    task.seccomp.assign(task, Mode::Strict);
    drop(shared);
    crate::arch::syscalls::enter_strict_mode();
    Ok(())
}

/// Why filters were not attached.
pub enum Refused {
    /// With this error.
    Error(Errno),
    /// The thread with this id has other filters, so it cannot be synchronised.
    Thread(i32),
}

impl From<Errno> for Refused {
    fn from(errno: Errno) -> Self {
        Self::Error(errno)
    }
}

/// Attaches a filter to the running thread `task`, and to all threads of its process if `sync`. `EINVAL`: it
/// is in strict mode; `EBUSY`: the filter has a listener, and one of those that it has already has, too;
/// `ENOMEM`: there is no memory, or there are too many instructions. May sleep.
pub fn attach(task: &Arc<Task>, new: &NewFilter, sync: bool) -> Result<(), Refused> {
    let process = &task.process;
    // What the threads had. Dropped without the lock.
    let mut former: Vec<Former<Filter>> = Vec::new();
    let mut before = task.seccomp.filter();
    let mut filter = new.behind(before.as_ref())?;
    loop {
        let threads = if sync { process.thread_count() } else { 1 };
        room_exact(&mut former, threads)?;
        let shared = process.signals.lock();
        if task.seccomp.mode() == Mode::Strict {
            return Err(Errno::EINVAL.into());
        }
        if sync && process.threads_under(&shared).len() > threads {
            // There are more by now.
            continue;
        }
        let now = task.seccomp.filter();
        if !same(&now, &before) {
            // A sibling has synchronised all threads.
            drop(shared);
            before = now;
            filter = new.behind(before.as_ref())?;
            continue;
        }
        if sync {
            can_sync(&shared, process, task, before.as_deref()).map_err(Refused::Thread)?;
        }
        former.push(task.seccomp.filter.replace(Some(filter.clone())));
        task.seccomp.assign(task, Mode::Filter);
        if sync {
            let no_new_privs = task.flags() & TaskFlags::NO_NEW_PRIVS;
            for other in others(&process.threads_under(&shared), task) {
                former.push(other.seccomp.filter.replace(Some(filter.clone())));
                other.set_flags(no_new_privs);
                other.seccomp.assign(other, Mode::Filter);
            }
        }
        drop(shared);
        if let Some(listener) = filter.listener() {
            listener.begin();
        }
        return Ok(());
    }
}

fn same(one: &Option<Arc<Filter>>, two: &Option<Arc<Filter>>) -> bool {
    one.as_ref().map(Arc::as_ptr) == two.as_ref().map(Arc::as_ptr)
}

/// The threads of a list that are not `task` and do not end.
fn others<'a>(threads: &'a [Arc<Task>], task: &'a Task) -> impl Iterator<Item = &'a Arc<Task>> {
    threads.iter().filter(move |other| {
        !core::ptr::eq(Arc::as_ptr(other), task) && !other.flags().contains(TaskFlags::EXITING)
    })
}

/// Whether the filters of all threads are among `before`. If not: the id of the first other thread.
fn can_sync(shared: &Shared<'_>, process: &Process, task: &Task, before: Option<&Filter>) -> Result<(), i32> {
    for other in others(&process.threads_under(shared), task) {
        let may = match other.seccomp.mode() {
            Mode::Disabled => true,
            Mode::Strict => false,
            Mode::Filter => {
                let glance = glance();
                let theirs = other.seccomp.filter.look(&glance);
                theirs.is_none_or(|theirs| before.is_some_and(|before| before.descends_from(theirs)))
            }
        };
        if !may {
            return Err(other.own_tid());
        }
    }
    Ok(())
}
