//! Waiting for children.

use super::exit::{self, bury, explain};
use super::process::TREE;
use super::ptrace::{self, Tracee};
use super::{ExitState, Process, Task, Usage, current};
use crate::fs::procfs;
use crate::signal::{SIGCHLD, SIGCONT, StopNews, info::code};
use alloc::sync::Arc;
use bitflags::bitflags;
use core::sync::atomic::Ordering;
use limen_linux_abi::Errno;

bitflags! {
    /// Options of `wait4` and `waitid` (`linux/wait.h`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct WaitOptions: u32 {
        /// Do not wait.
        const NOHANG = 1;
        /// Report stopped children, too (`WUNTRACED`).
        const STOPPED = 2;
        /// Report ended children.
        const EXITED = 4;
        /// Report continued children.
        const CONTINUED = 8;
        /// Leave the child waitable.
        const NOWAIT = 0x0100_0000;
        /// Not children of other threads of this process (`__WNOTHREAD`).
        const NOTHREAD = 0x2000_0000;
        /// All children (`__WALL`).
        const ALL = 0x4000_0000;
        /// Only children that end without SIGCHLD (`__WCLONE`).
        const CLONE = 0x8000_0000;
    }
}

/// For which children to wait.
#[derive(Clone)]
pub enum Which {
    /// Any.
    Any,
    /// The process with this number in the initial PID namespace.
    Pid(i32),
    /// Processes of the group with this number there.
    Group(i32),
    /// The process for which a pidfd stands.
    Process(Arc<Process>),
}

/// What `wait` reports.
pub struct Report {
    /// The child's number in the caller's PID namespace.
    pub pid: i32,
    /// Its real user.
    pub uid: u32,
    /// The status, as `wait4` returns it.
    pub status: i32,
    /// `si_code`.
    pub code: i32,
    /// `si_status`.
    pub value: i32,
    /// What the child, and children for which it waited, have used.
    pub usage: Usage,
    /// Who that is, if something was mounted below its directory in `/proc`.
    covered: Option<Covered>,
}

enum Covered {
    Process(Arc<Process>),
    /// A tracee that has ended and is no leader.
    Thread(Arc<Task>),
}

impl Covered {
    /// It has been waited for. May sleep.
    #[cold]
    fn gone(self) {
        match self {
            Self::Process(process) => procfs::process_gone(&process),
            Self::Thread(task) => procfs::thread_gone(&task),
        }
    }
}

impl Report {
    fn ended(&self) -> bool {
        matches!(self.code, code::CLD_EXITED | code::CLD_KILLED | code::CLD_DUMPED)
    }
}

enum Look {
    Found(Report),
    Nothing,
    NoChild,
}

/// Waits until the state of a child changes. `Ok(None)`: none has, and `NOHANG` was given.
pub fn wait(which: &Which, options: WaitOptions) -> Result<Option<Report>, Errno> {
    let mut found = wait_for_report(which, options)?;
    if let Some(found) = &mut found
        && let Some(covered) = found.covered.take()
        && found.ended()
        && !options.contains(WaitOptions::NOWAIT)
    {
        covered.gone();
    }
    Ok(found)
}

fn wait_for_report(which: &Which, options: WaitOptions) -> Result<Option<Report>, Errno> {
    let process = current().process.clone();
    match look(&process, which, options) {
        Look::Found(report) => return Ok(Some(report)),
        Look::NoChild => return Err(Errno::ECHILD),
        Look::Nothing if options.contains(WaitOptions::NOHANG) => return Ok(None),
        Look::Nothing => {}
    }
    super::events::waits(
        &current(),
        match which {
            Which::Any => 0,
            Which::Pid(pid) => *pid,
            Which::Group(group) => *group,
            Which::Process(process) => process.tgid,
        },
    );
    let mut result = None;
    process
        .child_wait
        .wait_until(|| match look(&process, which, options) {
            Look::Found(report) => {
                result = Some(Ok(Some(report)));
                true
            }
            Look::NoChild => {
                result = Some(Err(Errno::ECHILD));
                true
            }
            Look::Nothing => false,
        })?;
    result.unwrap_or(Err(Errno::ECHILD))
}

/// Waits for all children, and until there are none, whatever signals come. For the first process of a PID
/// namespace that ends.
pub(super) fn for_all() {
    let process = current().process.clone();
    let options = WaitOptions::EXITED | WaitOptions::ALL;
    loop {
        let mut found = None;
        process
            .child_wait
            .wait_until_uninterruptible(|| match look(&process, &Which::Any, options) {
                Look::Found(report) => {
                    found = Some(report);
                    true
                }
                Look::NoChild => true,
                Look::Nothing => false,
            });
        let Some(found) = found else { return };
        if let Some(covered) = found.covered {
            covered.gone();
        }
    }
}

/// Whether to wait for `child`. `first`: the caller's process's [`Process::first_thread`].
fn eligible(child: &Arc<Process>, which: &Which, options: WaitOptions, first: i32) -> bool {
    let chosen = match which {
        Which::Any => true,
        Which::Pid(pid) => child.tgid == *pid,
        Which::Group(group) => child.pgrp() == *group,
        Which::Process(process) => Arc::ptr_eq(process, child),
    };
    if !chosen {
        return false;
    }
    if options.contains(WaitOptions::NOTHREAD) && !Process::is_threads_child(child, current().tid(), first) {
        return false;
    }
    let clone = child.exit_signal.load(Ordering::Relaxed) != SIGCHLD as i32;
    options.contains(WaitOptions::ALL) || clone == options.contains(WaitOptions::CLONE)
}

/// Looks at all children once. It is the condition of a wait queue, so it takes only spinlocks.
fn look(process: &Arc<Process>, which: &Which, options: WaitOptions) -> Look {
    let mut dead = None;
    // Declared before the lock, and so dropped behind it.
    let mut left = Left::default();
    let found = {
        let _tree = TREE.lock();
        let first = match options.contains(WaitOptions::NOTHREAD) {
            true => process.first_thread(),
            false => 0,
        };
        let mut family = process.family();
        let mut any = false;
        let mut found = None;
        let mut after = None;
        while let Some(child) = family.child_after(after) {
            after = Some(child.place());
            if !eligible(child, which, options, first) {
                continue;
            }
            any = true;
            if let Some(report) = examine(child, options, process.tgid) {
                found = Some((child.place(), report));
                break;
            }
        }
        if found.is_none() && process.traces.load(Ordering::Relaxed) {
            drop(family);
            if let Some(report) = look_at_tracees(process, which, options, &mut any, &mut left) {
                return Look::Found(report);
            }
            family = process.family();
        }
        match found {
            None if any => return Look::Nothing,
            None => return Look::NoChild,
            Some((place, report)) => {
                if report.ended() && !options.contains(WaitOptions::NOWAIT) {
                    dead = family.children.remove(place);
                    if let Some(child) = dead.as_ref().map(|node| &node.range().value) {
                        child.set_exit_state(ExitState::Dead);
                        bury(child);
                    }
                }
                report
            }
        }
    };
    if dead.is_some() {
        process.dead_children.lock().add(&found.usage);
    }
    Look::Found(found)
}

/// What is dropped when [`TREE`] is no longer locked.
#[derive(Default)]
struct Left {
    tracee: Option<Tracee>,
    gone: Option<exit::Reaped>,
}

impl Drop for Left {
    fn drop(&mut self) {
        self.tracee = None;
        // This is a condition, which does not sleep: who waits does the rest.
        exit::finish_still(self.gone.take());
    }
}

/// Looks at those whom threads of `process` trace. `any`: whether there is anybody to wait for. [`TREE`] is
/// locked.
fn look_at_tracees(
    process: &Arc<Process>,
    which: &Which,
    options: WaitOptions,
    any: &mut bool,
    left: &mut Left,
) -> Option<Report> {
    let mut list = process.tracees.lock();
    if list.is_empty() {
        return None;
    }
    let me = current();
    let mut found = None;
    for (at, tracee) in list.iter().enumerate() {
        let target = &tracee.task.process;
        let chosen = match which {
            Which::Any => true,
            Which::Pid(pid) => tracee.task.tid() == *pid,
            Which::Group(group) => target.pgrp() == *group,
            Which::Process(process) => Arc::ptr_eq(process, target) && tracee.task.tid() == target.tgid,
        };
        if !chosen || options.contains(WaitOptions::NOTHREAD) && !tracee.is_of(&me) {
            continue;
        }
        *any = true;
        if let Some(report) = examine_tracee(tracee, options) {
            found = Some((at, report));
            break;
        }
    }
    let (at, report) = found?;
    let ended = report.code != code::CLD_TRAPPED;
    if !ended || options.contains(WaitOptions::NOWAIT) {
        return Some(report);
    }
    let tracee = ptrace::reap(&mut list, at);
    drop(list);
    let target = &tracee.task.process;
    if tracee.ended {
        left.gone = Some(ptrace::ended_thread(&tracee.task));
    } else if target
        .parent()
        .is_some_and(|parent| Arc::ptr_eq(&parent, process))
    {
        let node = process.family().children.remove(target.place());
        target.set_exit_state(ExitState::Dead);
        bury(target);
        process.dead_children.lock().add(&report.usage);
        left.gone = node.map(exit::Reaped::Process);
    } else {
        left.gone = exit::report_end(target);
    }
    left.tracee = Some(tracee);
    Some(report)
}

/// What there is to report of a tracee.
fn examine_tracee(tracee: &Tracee, options: WaitOptions) -> Option<Report> {
    let task = &tracee.task;
    let process = &task.process;
    let ended = |status| {
        let (code, value) = explain(status);
        let found = report(process, status, code, value);
        options.contains(WaitOptions::EXITED).then_some(found)
    };
    if tracee.ended {
        let found = ended(exit::thread_status(task))?;
        return Some(Report {
            pid: task.number_in(current().pid_ns()),
            usage: Usage::of_task(task),
            covered: task.is_covered().then(|| Covered::Thread(task.clone())),
            ..found
        });
    }
    if process.exit_state() != ExitState::Alive {
        return ended(process.exit_code.load(Ordering::Relaxed));
    }
    let stop = {
        let _shared = process.signals.lock();
        let news = task.trace.state().news(!options.contains(WaitOptions::NOWAIT));
        news?
    };
    let found = report(process, stop << 8 | 0x7f, code::CLD_TRAPPED, stop);
    Some(Report {
        pid: task.number_in(current().pid_ns()),
        ..found
    })
}

/// What there is to report of one child of the process with the id `parent`.
fn examine(child: &Arc<Process>, mut options: WaitOptions, parent: i32) -> Option<Report> {
    let tracer = child.tracer.load(Ordering::Relaxed);
    if tracer == parent {
        // It is waited for as a tracee.
        options.remove(WaitOptions::STOPPED);
    }
    if child.exit_state() == ExitState::Zombie {
        // A tracer comes first.
        if !options.contains(WaitOptions::EXITED) || tracer != 0 {
            return None;
        }
        let status = child.exit_code.load(Ordering::Relaxed);
        let (code, value) = explain(status);
        return Some(report(child, status, code, value));
    }
    let mut shared = child.signals.lock();
    let (status, code, value) = match shared.news {
        StopNews::Stopped(sig) if options.contains(WaitOptions::STOPPED) => {
            ((sig as i32) << 8 | 0x7f, code::CLD_STOPPED, sig as i32)
        }
        StopNews::Continued if options.contains(WaitOptions::CONTINUED) => {
            (0xffff, code::CLD_CONTINUED, SIGCONT as i32)
        }
        _ => return None,
    };
    if !options.contains(WaitOptions::NOWAIT) {
        shared.news = StopNews::None;
    }
    drop(shared);
    Some(report(child, status, code, value))
}

fn report(child: &Arc<Process>, status: i32, code: i32, value: i32) -> Report {
    let uid = child.real_uid.load(Ordering::Relaxed);
    let mut usage = child.usage();
    usage.add(&child.dead_children.lock());
    Report {
        pid: child.number_in(current().pid_ns()),
        uid,
        status,
        code,
        value,
        usage,
        covered: child.is_covered().then(|| Covered::Process(child.clone())),
    }
}
