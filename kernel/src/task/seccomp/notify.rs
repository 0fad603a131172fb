//! Listeners: a process (the supervisor) decides about calls of threads that have a filter (the targets). A
//! target puts its call on the listener's list and sleeps until it is answered. The supervisor's side is
//! in `supervise`.
//!
//! The list is ordered by id, since ids only grow. Whoever changes what a target or a supervisor waits for
//! does so under the list's lock and wakes afterwards; who waits looks under that lock.

use crate::fs::File;
use crate::mm::reserve::room_behind;
use crate::sched::WaitQueue;
use crate::sync::SpinLock;
use crate::task::current;
use crate::task::ns::pid::Id;
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_bpf::Data;
use limen_linux_abi::Errno;

/// What became of a call that a listener was asked about.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// It runs.
    Continue,
    /// It does not run. The value for the result register, errors negative.
    Result(usize),
}

/// A supervisor's answer.
#[derive(Clone, Copy)]
pub struct Reply {
    /// The result, if there is no error.
    pub value: i64,
    /// The result if it is not 0.
    pub error: i32,
    /// The call runs instead.
    pub runs: bool,
}

impl Reply {
    pub(super) fn answer(self) -> Answer {
        match self {
            Self { runs: true, .. } => Answer::Continue,
            Self { error: 0, value, .. } => Answer::Result(value as usize),
            Self { error, .. } => Answer::Result(error as isize as usize),
        }
    }
}

/// How far a call has come.
#[derive(Clone, Copy)]
pub(super) enum Phase {
    /// Nobody has received it yet.
    Asked,
    /// A supervisor knows of it.
    Sent,
    /// There is an answer.
    Replied(Answer),
}

/// A target that waits.
pub(super) struct Waiting {
    pub id: u64,
    pub thread: Id,
    pub data: Data,
    pub phase: Phase,
    /// The target has to find out anew how it may be woken.
    pub again: bool,
    pub wait: Arc<WaitQueue>,
}

/// A file that a supervisor gives to a target.
pub struct Adding {
    /// The file.
    pub file: Arc<File>,
    /// The descriptor that it is to get. `None`: the lowest free one.
    pub at: Option<i32>,
    /// Close-on-exec.
    pub cloexec: bool,
    /// The descriptor is the answer as well.
    pub replies: bool,
    pub(super) result: SpinLock<Option<Result<i32, Errno>>>,
    pub(super) wait: WaitQueue,
}

impl Adding {
    /// Of a file that was not given yet.
    pub fn new(file: Arc<File>, at: Option<i32>, cloexec: bool, replies: bool) -> Arc<Self> {
        Arc::new(Self {
            file,
            at,
            cloexec,
            replies,
            result: SpinLock::new(None),
            wait: WaitQueue::new(),
        })
    }
    fn finish(&self, result: Result<i32, Errno>) {
        *self.result.lock() = Some(result);
        self.wait.wake_all();
    }
    pub(super) fn is_finished(&self) -> bool {
        self.result.lock().is_some()
    }
    /// In the target: gives it the descriptor.
    fn install(&self) -> Result<i32, Errno> {
        let files = current().files();
        match self.at {
            None => files.install(self.file.clone(), self.cloexec),
            Some(fd) => files.install_at(self.file.clone(), fd, self.cloexec).map(|()| fd),
        }
    }
}

pub(super) struct State {
    /// Whether there is a file for supervisors.
    pub open: bool,
    /// Whether there is a thread with the filter.
    pub watched: bool,
    next_id: u64,
    /// How many calls nobody has begun to receive.
    pub requests: usize,
    pub list: Vec<Waiting>,
    /// Files for targets, with the ids of their calls.
    pub adding: Vec<(u64, Arc<Adding>)>,
}

impl State {
    fn at(&self, id: u64) -> Option<usize> {
        self.list.binary_search_by_key(&id, |waiting| waiting.id).ok()
    }
    pub fn find(&mut self, id: u64) -> Option<&mut Waiting> {
        let at = self.at(id)?;
        self.list.get_mut(at)
    }
    pub fn adding_of(&self, id: u64) -> Option<usize> {
        self.adding.iter().position(|(of, _)| *of == id)
    }
}

/// A filter's listener.
pub struct Listener {
    pub(super) state: SpinLock<State>,
    /// Supervisors, and those who poll.
    pub(super) queue: WaitQueue,
    /// Once a supervisor knows of a call, only fatal signals interrupt it
    /// (`SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV`).
    pub(super) killable: bool,
}

impl Listener {
    /// With a file, which calls [`Self::close`] at its end.
    pub fn new(killable: bool) -> Arc<Self> {
        Arc::new(Self {
            state: SpinLock::new(State {
                open: true,
                watched: false,
                // Not to be guessed, and with room to grow.
                next_id: crate::random::word() >> 1,
                requests: 0,
                list: Vec::new(),
                adding: Vec::new(),
            }),
            queue: WaitQueue::new(),
            killable,
        })
    }

    /// The running thread has attached the filter.
    pub(super) fn begin(&self) {
        self.state.lock().watched = true;
    }

    /// No thread has the filter any more.
    pub(super) fn hang_up(&self) {
        self.state.lock().watched = false;
        self.queue.wake_all();
    }

    /// Asks about the running thread's call and sleeps until there is an answer. `ENOSYS`: nobody listens
    /// (any more); `ERESTARTSYS`: a signal came first; `ENOMEM`.
    pub fn ask(&self, data: Data) -> Result<Answer, Errno> {
        let wait = Arc::new(WaitQueue::new());
        let id = {
            let mut state = room_behind(|| self.state.lock(), |state| &mut state.list, 1)?;
            if !state.open {
                return Err(Errno::ENOSYS);
            }
            let id = state.next_id;
            state.next_id += 1;
            state.requests += 1;
            state.list.push(Waiting {
                id,
                thread: current().id(),
                data,
                phase: Phase::Asked,
                again: false,
                wait: wait.clone(),
            });
            id
        };
        self.queue.wake_all();
        let answer = self.await_answer(id, &wait);
        let next = || {
            let mut state = self.state.lock();
            state.adding_of(id).map(|at| state.adding.remove(at).1)
        };
        while let Some(adding) = next() {
            adding.finish(Err(Errno::ESRCH));
        }
        answer
    }

    /// Sleeps until there is an answer. Then, or after an error, the call is on the list no more.
    fn await_answer(&self, id: u64, wait: &WaitQueue) -> Result<Answer, Errno> {
        loop {
            let killable = self.is_killable(id);
            let there_is_news = || {
                let state = self.state.lock();
                state.adding_of(id).is_some()
                    || state.at(id).is_none_or(|at| {
                        let waiting = &state.list[at];
                        waiting.again || matches!(waiting.phase, Phase::Replied(_))
                    })
            };
            let woken = match killable {
                true => wait.wait_until_killable(there_is_news),
                false => wait.wait_until(there_is_news),
            };
            if woken.is_ok() && self.add_file(id) {
                continue;
            }
            let mut state = self.state.lock();
            let at = state.at(id).ok_or(Errno::ENOSYS)?;
            state.list[at].again = false;
            let result = match (woken, state.list[at].phase) {
                // A supervisor has received it since the sleep began, and perhaps answered it: it is decided
                // here, under the lock, that it does or that the call is gone.
                (Err(_), Phase::Sent | Phase::Replied(_)) if self.killable && !killable => continue,
                (Err(errno), _) => Err(errno),
                (Ok(()), Phase::Replied(answer)) => Ok(answer),
                (Ok(()), _) => continue,
            };
            let waiting = state.list.remove(at);
            drop(state);
            drop(waiting);
            return result;
        }
    }

    /// Whether only fatal signals interrupt the wait for an answer to a call.
    fn is_killable(&self, id: u64) -> bool {
        self.killable
            && self
                .state
                .lock()
                .find(id)
                .is_some_and(|waiting| !matches!(waiting.phase, Phase::Asked))
    }

    /// In the target: takes one of the files for it. `false`: there is none.
    fn add_file(&self, id: u64) -> bool {
        let adding = {
            let mut state = self.state.lock();
            state.adding_of(id).map(|at| state.adding.remove(at).1)
        };
        let Some(adding) = adding else { return false };
        let result = adding.install();
        if adding.replies {
            let mut state = self.state.lock();
            let open = state.open;
            if let Some(waiting) = state.find(id) {
                waiting.phase = match result {
                    Ok(fd) => Phase::Replied(Answer::Result(fd as usize)),
                    Err(_) if open => Phase::Sent,
                    Err(_) => Phase::Replied(Answer::Result(Errno::ENOSYS.to_return_value())),
                };
            }
        }
        adding.finish(result);
        true
    }
}
