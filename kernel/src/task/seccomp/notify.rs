//! Listeners: a process (the supervisor) decides about calls of threads that have a filter (the targets). A
//! target puts its call on the listener's list and sleeps until it is answered. The supervisor's side is
//! called by the listener's file (`fs::seccomp`).
//!
//! The list is ordered by id, since ids only grow. Whoever changes what a target or a supervisor waits for
//! does so under the list's lock and wakes afterwards; who waits looks under that lock.

use crate::fs::File;
use crate::mm::reserve::room_behind;
use crate::sched::WaitQueue;
use crate::sync::SpinLock;
use crate::task::current;
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

/// What a supervisor is told of a call.
pub struct Received {
    /// The call's number, for the answer.
    pub id: u64,
    /// The target's thread id.
    pub tid: i32,
    /// The call.
    pub data: Data,
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
    fn answer(self) -> Answer {
        match self {
            Self { runs: true, .. } => Answer::Continue,
            Self { error: 0, value, .. } => Answer::Result(value as usize),
            Self { error, .. } => Answer::Result(error as isize as usize),
        }
    }
}

/// How far a call has come.
#[derive(Clone, Copy)]
enum Phase {
    /// Nobody has received it yet.
    Asked,
    /// A supervisor knows of it.
    Sent,
    /// There is an answer.
    Replied(Answer),
}

/// A target that waits.
struct Waiting {
    id: u64,
    tid: i32,
    data: Data,
    phase: Phase,
    /// The target has to find out anew how it may be woken.
    again: bool,
    wait: Arc<WaitQueue>,
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
    result: SpinLock<Option<Result<i32, Errno>>>,
    wait: WaitQueue,
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
    fn is_finished(&self) -> bool {
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

struct State {
    /// Whether there is a file for supervisors.
    open: bool,
    /// Whether there is a thread with the filter.
    watched: bool,
    next_id: u64,
    /// How many calls nobody has begun to receive.
    requests: usize,
    list: Vec<Waiting>,
    /// Files for targets, with the ids of their calls.
    adding: Vec<(u64, Arc<Adding>)>,
}

impl State {
    fn at(&self, id: u64) -> Option<usize> {
        self.list.binary_search_by_key(&id, |waiting| waiting.id).ok()
    }
    fn find(&mut self, id: u64) -> Option<&mut Waiting> {
        let at = self.at(id)?;
        self.list.get_mut(at)
    }
    fn adding_of(&self, id: u64) -> Option<usize> {
        self.adding.iter().position(|(of, _)| *of == id)
    }
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

/// A filter's listener.
pub struct Listener {
    state: SpinLock<State>,
    /// Supervisors, and those who poll.
    queue: WaitQueue,
    /// Once a supervisor knows of a call, only fatal signals interrupt it
    /// (`SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV`).
    killable: bool,
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
                tid: current().tid(),
                data,
                phase: Phase::Asked,
                again: false,
                wait: wait.clone(),
            });
            id
        };
        self.queue.wake_all();
        let answer = self.await_answer(id, &wait);
        let (waiting, adding) = {
            let mut state = self.state.lock();
            let waiting = state.at(id).map(|at| state.list.remove(at));
            (waiting, state.adding_of(id).map(|at| state.adding.remove(at)))
        };
        drop(waiting);
        let mut next = adding;
        while let Some((_, adding)) = next {
            adding.finish(Err(Errno::ESRCH));
            let mut state = self.state.lock();
            next = state.adding_of(id).map(|at| state.adding.remove(at));
        }
        answer
    }

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
            if let Err(errno) = woken {
                // The supervisor may have received the call since the sleep began.
                if !killable && self.is_killable(id) {
                    continue;
                }
                return Err(errno);
            }
            if self.add_file(id) {
                continue;
            }
            let mut state = self.state.lock();
            let waiting = state.find(id).ok_or(Errno::ENOSYS)?;
            waiting.again = false;
            if let Phase::Replied(answer) = waiting.phase {
                return Ok(answer);
            }
        }
    }

    fn is_killable(&self, id: u64) -> bool {
        self.killable
            && self
                .state
                .lock()
                .find(id)
                .is_some_and(|waiting| matches!(waiting.phase, Phase::Sent))
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
                        tid: waiting.tid,
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
