//! POSIX message queues: what they are apart from their names and files, which `fs::mqueue` has. A message
//! goes straight to the most urgent thread that waits for one, else into the queue; who takes one out of a
//! full queue puts in the message of the most urgent thread that waits for room.
//!
//! A queue's spinlock comes before those of its waiters. Who waits, who polls and who is told are woken
//! without it.

pub mod limits;
mod messages;
pub mod notice;
mod waiting;

use super::ns::Place as Part;
use crate::sched::{Deadline, WaitQueue};
use crate::sync::{SpinGuard, SpinLock};
use crate::task::Process;
use crate::task::user::QueueBytes;
use alloc::sync::Arc;
use limen_linux_abi::Errno;
use limits::{Counted, Shape, Table};
use messages::{Messages, Room};
use notice::{Notice, Owner, Shown};
use waiting::{Place, Waiting};

pub use messages::{Message, PRIORITIES};

/// How long a call on a queue waits.
#[derive(Clone, Copy)]
pub enum Wait {
    /// Not at all (`O_NONBLOCK`).
    Not,
    /// Until this time; `None`: for ever.
    Until(Option<Deadline>),
}

/// What changes of a queue.
struct State {
    messages: Messages,
    senders: Waiting,
    receivers: Waiting,
    notice: Option<Notice>,
    /// What is counted for the queue, while there is one.
    counted: Option<(Counted, QueueBytes)>,
}

/// A queue.
pub struct Queue {
    /// How much it takes.
    pub shape: Shape,
    state: SpinLock<State>,
    /// Those that poll it.
    pub changes: WaitQueue,
}

/// What there is in a queue, and who is told of messages.
pub struct Status {
    /// How long all messages are together, in bytes.
    pub bytes: usize,
    /// `None`: nobody is told.
    pub notice: Option<Shown>,
}

impl Queue {
    /// An empty one of a namespace. `asked`: how many messages a program asks for, and how long they may be.
    /// `ENOSPC`, `EACCES`, `EINVAL`, `EOVERFLOW`, `EMFILE`.
    pub fn new(table: &Part<Table>, asked: Option<[isize; 2]>) -> Result<Arc<Self>, Errno> {
        let counted = Counted::new(table)?;
        let shape = match asked {
            Some([messages, size]) => Shape::asked(messages, size)?,
            None => Shape::usual(table),
        };
        let bytes = shape.charge(table)?;
        Ok(Arc::new(Self {
            shape,
            state: SpinLock::new(State {
                messages: Messages::new(),
                senders: Waiting::new(),
                receivers: Waiting::new(),
                notice: None,
                counted: Some((counted, bytes)),
            }),
            changes: WaitQueue::new(),
        }))
    }

    /// It has no name and no user any more.
    pub fn end(&self) {
        let (messages, notice, counted) = {
            let mut state = self.state.lock();
            let messages = core::mem::replace(&mut state.messages, Messages::new());
            (messages, state.notice.take(), state.counted.take())
        };
        drop((messages, notice, counted));
    }

    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.state.lock().messages.len()
    }

    /// What the status text says.
    pub fn status(&self) -> Status {
        let (bytes, notice) = {
            let state = self.state.lock();
            let notice = state.notice.as_ref();
            let notice = notice.map(|notice| (notice.shown(), notice.owner().clone()));
            (state.messages.bytes(), notice)
        };
        let notice = notice.filter(|(_, owner)| owner.is_living());
        Status {
            bytes,
            notice: notice.map(|(shown, _)| shown),
        }
    }

    /// Locks it, with room for another message. `ENOMEM`. May sleep.
    fn lock_with_room(&self) -> Result<SpinGuard<'_, State>, Errno> {
        loop {
            let lack = {
                let state = self.state.lock();
                match state.messages.lacks() {
                    None => return Ok(state),
                    Some(lack) => lack,
                }
            };
            let mut room = Room::new(lack)?;
            self.state.lock().messages.take_room(&mut room);
            // What is left in it is freed without the lock.
            drop(room);
        }
    }

    /// `EMSGSIZE`: no message may be so long.
    pub fn check_sent(&self, len: usize) -> Result<(), Errno> {
        if len <= self.shape.size {
            Ok(())
        } else {
            Err(Errno::EMSGSIZE)
        }
    }

    /// Sends a message, which is not too long. Returns whether that was at once. `EAGAIN`, `ENOMEM`,
    /// `ERESTARTSYS`, `ETIMEDOUT`. May sleep.
    pub fn send(&self, message: Message, wait: Wait) -> Result<bool, Errno> {
        let mut place: Option<Place> = None;
        loop {
            let state = self.lock_with_room()?;
            if state.messages.len() < self.shape.messages {
                self.put(state, message);
                return Ok(true);
            }
            let Wait::Until(deadline) = wait else {
                return Err(Errno::EAGAIN);
            };
            let Some(own) = place.take() else {
                drop(state);
                place = Some(Place::new()?);
                continue;
            };
            own.waiter().put(message);
            self.wait(state, own, |state| &mut state.senders, deadline)?;
            return Ok(false);
        }
    }

    /// Waits in a list until another thread takes `own` out of it: one that has taken the message there, or
    /// has left one. `ERESTARTSYS`, `ETIMEDOUT`: none did. May sleep.
    fn wait(
        &self,
        mut state: SpinGuard<'_, State>,
        own: Place,
        list: fn(&mut State) -> &mut Waiting,
        deadline: Option<Deadline>,
    ) -> Result<(), Errno> {
        let waiter = own.waiter().clone();
        let at = list(&mut state).add(own);
        drop(state);
        let slept = waiter.sleep(deadline);
        if slept.is_ok() {
            return Ok(());
        }
        let mut state = self.state.lock();
        let left = list(&mut state).remove(at);
        drop(state);
        if left.is_some() { slept } else { Ok(()) }
    }

    /// Puts a message into the queue, which is not full, or gives it to who waits for one.
    fn put(&self, mut state: SpinGuard<'_, State>, message: Message) {
        if let Some(receiver) = state.receivers.remove_first() {
            let waiter = receiver.waiter();
            waiter.put(message);
            waiter.set_done();
            drop(state);
            waiter.wake();
            return;
        }
        state.messages.push(message);
        let notice = match state.messages.len() {
            1 => state.notice.take(),
            _ => None,
        };
        drop(state);
        if let Some(notice) = notice {
            notice.tell();
        }
        self.changes.wake_one();
    }

    /// `EMSGSIZE`: not every message of the queue has room in `room` bytes.
    pub fn check_received(&self, room: usize) -> Result<(), Errno> {
        if room >= self.shape.size {
            Ok(())
        } else {
            Err(Errno::EMSGSIZE)
        }
    }

    /// Receives a message, and says whether that was at once. `EAGAIN`, `ENOMEM`, `ERESTARTSYS`, `ETIMEDOUT`.
    /// May sleep.
    pub fn receive(&self, wait: Wait) -> Result<(Message, bool), Errno> {
        let mut place: Option<Place> = None;
        loop {
            // Without memory there may be no place for the message of a thread that waits for room, which
            // waits on.
            let mut state = match self.lock_with_room() {
                Ok(state) => state,
                Err(_) => self.state.lock(),
            };
            if let Some(message) = state.messages.pop() {
                self.refill(state);
                return Ok((message, true));
            }
            let Wait::Until(deadline) = wait else {
                return Err(Errno::EAGAIN);
            };
            let Some(own) = place.take() else {
                drop(state);
                place = Some(Place::new()?);
                continue;
            };
            let waiter = own.waiter().clone();
            self.wait(state, own, |state| &mut state.receivers, deadline)?;
            // Whoever took it out of the list has given it a message.
            return waiter.take().map(|message| (message, false)).ok_or(Errno::EINTR);
        }
    }

    /// A message was taken out: a thread that waits for room sends its own.
    fn refill(&self, mut state: SpinGuard<'_, State>) {
        let sender = match state.messages.lacks() {
            None => state.senders.remove_first(),
            Some(_) => None,
        };
        match &sender {
            Some(sender) => {
                let waiter = sender.waiter();
                if let Some(message) = waiter.take() {
                    state.messages.push(message);
                }
                waiter.set_done();
                drop(state);
                waiter.wake();
            }
            None => {
                drop(state);
                self.changes.wake_one();
            }
        }
    }

    /// The process for which the notice is will be told of a message. `EBUSY`: another one is.
    pub fn give_notice(&self, notice: Notice) -> Result<(), Errno> {
        loop {
            let other = {
                let mut state = self.state.lock();
                match &state.notice {
                    None => {
                        state.notice = Some(notice);
                        return Ok(());
                    }
                    Some(other) => other.owner().clone(),
                }
            };
            if other.is_living() {
                return Err(Errno::EBUSY);
            }
            let former = self.take_notice(|owner| owner.is_same(&other));
            drop(former);
        }
    }

    /// Takes the notice of such a process out.
    fn take_notice(&self, which: impl FnOnce(&Owner) -> bool) -> Option<Notice> {
        let mut state = self.state.lock();
        match &state.notice {
            Some(notice) if which(notice.owner()) => state.notice.take(),
            _ => None,
        }
    }

    /// A process is not to be told any more. Returns whether it was to be.
    pub fn forget_notice(&self, process: &Arc<Process>) -> bool {
        let notice = self.take_notice(|owner| owner.is(process));
        let was = notice.is_some();
        if let Some(notice) = notice {
            notice.remove();
        }
        was
    }
}
