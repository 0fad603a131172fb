//! Waiting for children.

use super::exit::{bury, explain};
use super::process::TREE;
use super::{ExitState, Process, Usage, current};
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
    /// This process.
    Pid(i32),
    /// Processes of this group.
    Group(i32),
    /// The process for which a pidfd stands.
    Process(Arc<Process>),
}

/// What `wait` reports.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// The child.
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
}

enum Look {
    Found(Report),
    Nothing,
    NoChild,
}

/// Waits until the state of a child changes. `Ok(None)`: none has, and `NOHANG` was given.
pub fn wait(which: &Which, options: WaitOptions) -> Result<Option<Report>, Errno> {
    let found = wait_for_report(which, options)?;
    if let Some(report) = &found {
        crate::fs::procfs::process_gone(report.pid);
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
            if let Some(report) = examine(child, options) {
                found = Some((child.place(), report));
                break;
            }
        }
        match found {
            None if any => return Look::Nothing,
            None => return Look::NoChild,
            Some((place, report)) => {
                let ended = matches!(
                    report.code,
                    code::CLD_EXITED | code::CLD_KILLED | code::CLD_DUMPED
                );
                if ended && !options.contains(WaitOptions::NOWAIT) {
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

/// What there is to report of one child.
fn examine(child: &Arc<Process>, options: WaitOptions) -> Option<Report> {
    if child.exit_state() == ExitState::Zombie {
        if !options.contains(WaitOptions::EXITED) {
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
        pid: child.tgid,
        uid,
        status,
        code,
        value,
        usage,
    }
}
