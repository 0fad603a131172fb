//! Job control: which session has the terminal, which process group gets its signals, and what they get when
//! it goes away.

use super::Tty;
use crate::signal::{self, IGNORE, SIGCONT, SIGHUP, SIGTTIN, SIGTTOU, SigInfo};
use crate::task::process::ExitState;
use crate::task::session::{ProcessGroup, Terminal};
use crate::task::{self, Task, current};
use alloc::sync::Arc;
use core::any::Any;
use limen_linux_abi::Errno;

impl Terminal for Tty {
    fn number(&self) -> u32 {
        let (major, minor) = self.dev;
        minor & 0xff | major << 8 | (minor & !0xff) << 12
    }
    fn name(&self) -> &str {
        Tty::name(self)
    }
    fn foreground(&self) -> i32 {
        self.job.lock().foreground
    }
    fn disassociate(&self) {
        *self.job.lock() = super::Job::default();
    }
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// The running process's controlling terminal.
pub fn controlling() -> Option<Arc<Tty>> {
    let terminal = current().process.group().session.terminal()?;
    terminal.into_any().downcast().ok()
}

/// Whether `task` blocks or ignores `sig`.
fn ignores(task: &Arc<Task>, sig: u32) -> bool {
    if task.signals.lock().blocked.has(sig) {
        return true;
    }
    let actions = task.process.signals.lock().actions.clone();
    actions.get(sig).handler == IGNORE
}

/// Whether no process of the group has a parent in another group of its session, which could bring the group
/// to the foreground.
fn orphaned(group: &ProcessGroup) -> bool {
    !group
        .members()
        .filter(|p| p.exit_state() == ExitState::Alive)
        .any(|p| {
            p.parent().is_some_and(|parent| {
                let theirs = parent.group();
                theirs.id != group.id && theirs.session.id == group.session.id
            })
        })
}

impl Tty {
    /// Whether it is the running process's controlling terminal.
    pub(super) fn is_mine(&self) -> bool {
        controlling().is_some_and(|t| core::ptr::eq(&*t, self))
    }

    /// Sends a signal to the foreground process group. In any context.
    pub fn signal_foreground(&self, sig: u32) {
        let group = self.job.lock().foreground;
        if group > 0 {
            // The group may have ended meanwhile.
            let _ = signal::send_to_pgrp(group, sig, SigInfo::kernel(sig));
        }
    }

    /// If the running process is not in the foreground, its group gets `sig` for what the process is about to
    /// do. `Ok`: the process may go on, as it is in the foreground or ignores `sig`.
    pub(super) fn check_background(&self, sig: u32) -> Result<(), Errno> {
        let me = current();
        let foreground = self.job.lock().foreground;
        let group = me.process.group();
        if foreground == 0 || foreground == group.id || !self.is_mine() {
            return Ok(());
        }
        if ignores(&me, sig) {
            return if sig == SIGTTIN { Err(Errno::EIO) } else { Ok(()) };
        }
        if orphaned(&group) {
            return Err(Errno::EIO);
        }
        signal::send_to_pgrp(group.id, sig, SigInfo::kernel(sig))?;
        Err(Errno::ERESTARTSYS)
    }

    pub(super) fn check_background_read(&self) -> Result<(), Errno> {
        self.check_background(SIGTTIN)
    }

    pub(super) fn check_background_change(&self) -> Result<(), Errno> {
        self.check_background(SIGTTOU)
    }

    /// Makes it the controlling terminal of the running process's session. The process must lead the session,
    /// which must have no terminal, and no other session may have this one. `steal`: takes it from another
    /// session (root only).
    pub(super) fn make_controlling(&self, steal: bool) -> Result<(), Errno> {
        let me = current();
        let group = me.process.group();
        let session = &group.session;
        if session.id != me.process.tgid {
            return Err(Errno::EPERM);
        }
        let tty = self.arc().ok_or(Errno::EIO)?;
        let mut job = self.job.lock();
        if job.session == session.id && self.is_mine() {
            return Ok(());
        }
        if job.session != 0 {
            let other = task::pid::find_session(job.session);
            if let Some(other) = other.filter(|s| s.terminal().is_some()) {
                if !steal {
                    return Err(Errno::EPERM);
                }
                *other.ctty.lock() = None;
            }
        }
        let mut ctty = session.ctty.lock();
        if ctty.is_some() {
            return Err(Errno::EPERM);
        }
        *ctty = Some(tty);
        *job = super::Job {
            session: session.id,
            foreground: group.id,
        };
        drop((ctty, job));
        session.set_left_behind(None);
        Ok(())
    }

    /// `TIOCNOTTY`: the running process gives up its controlling terminal. If it leads the session, the whole
    /// session does, and its foreground group is signalled.
    pub(super) fn give_up(&self) -> Result<(), Errno> {
        if !self.is_mine() {
            return Err(Errno::ENOTTY);
        }
        let me = current();
        let session = me.process.group().session.clone();
        if session.id == me.process.tgid {
            let foreground = self.job.lock().foreground;
            *session.ctty.lock() = None;
            self.disassociate();
            if foreground > 0 {
                let _ = signal::send_to_pgrp(foreground, SIGHUP, SigInfo::kernel(SIGHUP));
                let _ = signal::send_to_pgrp(foreground, SIGCONT, SigInfo::kernel(SIGCONT));
            }
        }
        Ok(())
    }

    /// The line went away: the session loses its terminal, and its leader gets `SIGHUP` and `SIGCONT`. When
    /// the leader ends, the foreground group gets them, too.
    pub(super) fn hang_up_session(&self) {
        let job = core::mem::take(&mut *self.job.lock());
        let foreground = task::pid::find_group(job.foreground);
        let mut noted = false;
        if let Some(session) = task::pid::find_session(job.session) {
            let mut ctty = session.ctty.lock();
            let mine = ctty.clone().and_then(|t| t.into_any().downcast::<Tty>().ok());
            noted = mine.is_some_and(|t| core::ptr::eq(&*t, self));
            // In one step, as the leader may just be ending.
            let old = noted.then(|| (ctty.take(), session.set_left_behind(foreground.as_ref())));
            drop(ctty);
            drop(old);
        }
        if let Some(leader) = task::pid::find_process(job.session) {
            signal::send_to_process(&leader, SIGHUP, SigInfo::kernel(SIGHUP));
            signal::send_to_process(&leader, SIGCONT, SigInfo::kernel(SIGCONT));
        }
        if let Some(group) = foreground.filter(|_| !noted) {
            // The leader has ended, perhaps before this group was noted: signal the group here.
            let _ = signal::send_to_pgrp(group.id, SIGHUP, SigInfo::kernel(SIGHUP));
            let _ = signal::send_to_pgrp(group.id, SIGCONT, SigInfo::kernel(SIGCONT));
        }
    }

    /// `TIOCSPGRP`.
    pub(super) fn set_foreground(&self, group: i32) -> Result<(), Errno> {
        match self.check_background_change() {
            Err(Errno::EIO) => return Err(Errno::ENOTTY),
            other => other?,
        }
        let session = current().process.group().session.id;
        if !self.is_mine() || self.job.lock().session != session {
            return Err(Errno::ENOTTY);
        }
        if group < 0 {
            return Err(Errno::EINVAL);
        }
        let target = task::pid::find_group_here(group).ok_or(Errno::ESRCH)?;
        if target.session.id != session {
            return Err(Errno::EPERM);
        }
        self.job.lock().foreground = target.id;
        Ok(())
    }
}
