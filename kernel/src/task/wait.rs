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

/// Which children.
#[derive(Clone)]
pub enum Which {
    /// Any.
    Any,
    /// This process.
    Pid(i32),
    /// Processes of this group.
    Group(i32),
    /// The process a pidfd stands for.
    Process(Arc<Process>),
}

/// What was found.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// The child.
    pub pid: i32,
    /// Its real user.
    pub uid: u32,
    /// The status as `wait4` gives it.
    pub status: i32,
    /// `si_code`.
    pub code: i32,
    /// `si_status`.
    pub value: i32,
    /// What it and the children it waited for used.
    pub usage: Usage,
}

enum Look {
    Found(Report),
    Nothing,
    NoChild,
}

/// Waits for a change of state of a child. `Ok(None)`: `NOHANG` and nothing happened.
pub fn wait(which: &Which, options: WaitOptions) -> Result<Option<Report>, Errno> {
    let process = current().process.clone();
    match look(&process, which, options) {
        Look::Found(report) => return Ok(Some(report)),
        Look::NoChild => return Err(Errno::ECHILD),
        Look::Nothing if options.contains(WaitOptions::NOHANG) => return Ok(None),
        Look::Nothing => {}
    }
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

fn eligible(child: &Arc<Process>, which: &Which, options: WaitOptions) -> bool {
    let chosen = match which {
        Which::Any => true,
        Which::Pid(pid) => child.tgid == *pid,
        Which::Group(group) => child.pgrp() == *group,
        Which::Process(process) => Arc::ptr_eq(process, child),
    };
    if !chosen {
        return false;
    }
    let clone = child.exit_signal.load(Ordering::Relaxed) != SIGCHLD as i32;
    options.contains(WaitOptions::ALL) || clone == options.contains(WaitOptions::CLONE)
}

/// Looks once at all children. The condition of a wait queue: takes only spinlocks.
fn look(process: &Arc<Process>, which: &Which, options: WaitOptions) -> Look {
    let mut dead = None;
    let found = {
        let _tree = TREE.lock();
        let mut family = process.family();
        let mut any = false;
        let mut found = None;
        for (n, child) in family.children.iter().enumerate() {
            if !eligible(child, which, options) {
                continue;
            }
            any = true;
            if let Some(report) = examine(child, options) {
                found = Some((n, report));
                break;
            }
        }
        match found {
            None if any => return Look::Nothing,
            None => return Look::NoChild,
            Some((n, report)) => {
                let ended = matches!(
                    report.code,
                    code::CLD_EXITED | code::CLD_KILLED | code::CLD_DUMPED
                );
                if ended && !options.contains(WaitOptions::NOWAIT) {
                    let child = family.children.remove(n);
                    child.set_exit_state(ExitState::Dead);
                    bury(&child);
                    dead = Some(child);
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
