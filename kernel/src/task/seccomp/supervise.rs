//! The supervisor's side of a listener: receiving calls, answering them, giving files to targets. Called by
//! the listener's file (`fs::seccomp`).

use super::notify::{Adding, Answer, Listener, Phase, Reply};
use crate::mm::reserve::room_behind;
use crate::sched::WaitQueue;
use alloc::sync::Arc;
use limen_bpf::Data;
use limen_linux_abi::Errno;

/// What a supervisor is told of a call.
pub struct Received {
    /// The call's number, for the answer.
    pub id: u64,
    /// The target's thread id in the supervisor's PID namespace.
    pub tid: i32,
    /// The call.
    pub data: Data,
}

/// What a supervisor could do now.
pub struct Events {
    /// Receive a call.
    pub receive: bool,
    /// Answer one.
    pub reply: bool,
    /// Nothing any more: no thread has the filter.
    pub hung_up: bool,
}

impl Listener {
    /// Receives a call; sleeps until there is one. `ENOENT`: it was interrupted meanwhile, or no thread has
    /// the filter any more; `ERESTARTSYS`.
    pub fn receive(&self) -> Result<Received, Errno> {
        let mut found = None;
        self.queue.wait_until(|| {
            let mut state = self.state.lock();
            if state.requests > 0 {
                state.requests -= 1;
                let mut list = state.list.iter_mut();
                found = list.find(|w| matches!(w.phase, Phase::Asked)).map(|waiting| {
                    waiting.phase = Phase::Sent;
                    Received {
                        id: waiting.id,
                        tid: waiting.thread.here(),
                        data: waiting.data,
                    }
                });
                return true;
            }
            !state.watched
        })?;
        self.queue.wake_all();
        found.ok_or(Errno::ENOENT)
    }

    /// A call that was received could not be told to the supervisor: it can be received again.
    pub fn put_back(&self, id: u64) {
        let wait = {
            let mut state = self.state.lock();
            let Some(waiting) = state.find(id) else { return };
            if !matches!(waiting.phase, Phase::Sent) {
                return;
            }
            waiting.phase = Phase::Asked;
            waiting.again = self.killable;
            let wait = waiting.again.then(|| waiting.wait.clone());
            state.requests += 1;
            wait
        };
        if let Some(wait) = wait {
            wait.wake_all();
        }
        self.queue.wake_all();
    }

    /// Answers a call. `ENOENT`: there is none with this id (any more); `EINPROGRESS`: it has not been
    /// received, or was answered.
    pub fn reply(&self, id: u64, reply: Reply) -> Result<(), Errno> {
        let wait = {
            let mut state = self.state.lock();
            let waiting = state.find(id).ok_or(Errno::ENOENT)?;
            if !matches!(waiting.phase, Phase::Sent) {
                return Err(Errno::EINPROGRESS);
            }
            waiting.phase = Phase::Replied(reply.answer());
            waiting.wait.clone()
        };
        wait.wake_all();
        Ok(())
    }

    /// Whether a call that was received still waits for its answer. `ENOENT` if not.
    pub fn check(&self, id: u64) -> Result<(), Errno> {
        let mut state = self.state.lock();
        match state.find(id) {
            Some(waiting) if matches!(waiting.phase, Phase::Sent) => Ok(()),
            _ => Err(Errno::ENOENT),
        }
    }

    /// Gives the target of a call a file, and sleeps until it has it. Returns its descriptor. `ENOENT`,
    /// `EINPROGRESS` as for [`Self::reply`]; `EBUSY`: it is to be the answer, and the target has not taken
    /// all others yet; `ESRCH`: the target was interrupted; `ERESTARTSYS`; `ENOMEM`; what the target's table
    /// of descriptors says.
    pub fn add(&self, id: u64, adding: &Arc<Adding>) -> Result<i32, Errno> {
        let wait = {
            let mut state = room_behind(|| self.state.lock(), |state| &mut state.adding, 1)?;
            let others = state.adding_of(id).is_some();
            let waiting = state.find(id).ok_or(Errno::ENOENT)?;
            if !matches!(waiting.phase, Phase::Sent) {
                return Err(Errno::EINPROGRESS);
            }
            if adding.replies {
                if others {
                    return Err(Errno::EBUSY);
                }
                // Until the target has the file, which is the only answer. It says what the target gets if
                // it could not be told that.
                waiting.phase = Phase::Replied(Answer::Result(Errno::ENOSYS.to_return_value()));
            }
            let wait = waiting.wait.clone();
            state.adding.push((id, adding.clone()));
            wait
        };
        wait.wake_all();
        if let Err(errno) = adding.wait.wait_until(|| adding.is_finished()) {
            let taken_back = {
                let mut state = self.state.lock();
                let at = state.adding.iter().position(|(_, a)| Arc::ptr_eq(a, adding));
                let taken_back = at.map(|at| state.adding.remove(at));
                if taken_back.is_some() && adding.replies && state.open {
                    // There is no answer after all.
                    if let Some(waiting) = state.find(id) {
                        waiting.phase = Phase::Sent;
                    }
                }
                taken_back
            };
            if taken_back.is_some() {
                return Err(errno);
            }
            // The target is just installing it, or has done so.
            adding.wait.wait_until_uninterruptible(|| adding.is_finished());
        }
        let result = *adding.result.lock();
        result.unwrap_or(Err(Errno::ESRCH))
    }

    /// The file for supervisors is closed: calls that were not answered fail with `ENOSYS`.
    pub fn close(&self) {
        let mut from = 0;
        self.state.lock().open = false;
        loop {
            let wait = {
                let mut state = self.state.lock();
                let at = state.list.partition_point(|waiting| waiting.id < from);
                let Some(waiting) = state.list.get_mut(at) else {
                    break;
                };
                from = waiting.id + 1;
                if matches!(waiting.phase, Phase::Replied(_)) {
                    continue;
                }
                waiting.phase = Phase::Replied(Answer::Result(Errno::ENOSYS.to_return_value()));
                waiting.wait.clone()
            };
            wait.wake_all();
        }
    }

    /// Who wants to know of events waits here.
    pub fn queue(&self) -> &WaitQueue {
        &self.queue
    }

    /// What a supervisor could do now.
    pub fn events(&self) -> Events {
        let state = self.state.lock();
        Events {
            receive: state.list.iter().any(|w| matches!(w.phase, Phase::Asked)),
            reply: state.list.iter().any(|w| matches!(w.phase, Phase::Sent)),
            hung_up: !state.watched,
        }
    }
}
