//! Whose calls an instance traces: `set_ftrace_pid` and `set_ftrace_notrace_pid`. Tracers look without a
//! lock. With the option `function-fork`, threads that are made are in the lists that their makers are in,
//! and those that end leave them.

use super::function::Functions;
use super::ops::errno;
use crate::mm::reserve::handling;
use crate::rcu::{self, Retire, Shared, Slot};
use crate::sync::Mutex;
use crate::task::events::{self, Told};
use crate::tracing;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use limen_linux_abi::Errno;
use limen_trace_sites::pids::{self, PidFilter, Pids};

/// Which of the lists.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// Those that are traced.
    Only,
    /// Those that are not.
    Not,
}

struct Lists(PidFilter);

impl Retire for Lists {}

/// The lists of an instance.
pub struct Threads {
    /// Empty: there is no list.
    lists: Slot<Lists>,
    /// Whether there may be one, for a quick look.
    any: AtomicBool,
    changing: Mutex<()>,
}

impl List {
    fn of(self, lists: &PidFilter) -> &Option<Pids> {
        match self {
            Self::Only => &lists.only,
            Self::Not => &lists.not,
        }
    }
    fn of_mut(self, lists: &mut PidFilter) -> &mut Option<Pids> {
        match self {
            Self::Only => &mut lists.only,
            Self::Not => &mut lists.not,
        }
    }
}

impl Threads {
    /// Without lists.
    pub const fn new() -> Self {
        Self {
            lists: Slot::empty(),
            any: AtomicBool::new(false),
            changing: Mutex::new(()),
        }
    }

    /// Whether there may be a list. In any context.
    #[inline(always)]
    pub fn are_listed(&self) -> bool {
        self.any.load(Relaxed)
    }

    /// Whether calls of the thread `tid` are traced. In any context.
    #[inline]
    pub fn traces(&self, tid: i32) -> bool {
        if !self.are_listed() {
            return true;
        }
        let reader = rcu::read();
        self.lists
            .load(&reader)
            .is_none_or(|lists| lists.0.traces(tid as u32))
    }

    fn is_named(&self, tid: i32) -> bool {
        let reader = rcu::read();
        self.lists
            .load(&reader)
            .is_some_and(|lists| lists.0.names(tid as u32))
    }

    /// Calls `f` with a list. May sleep.
    pub fn with<R>(&self, list: List, f: impl FnOnce(Option<&Pids>) -> R) -> R {
        let lists = self.lists.get(&rcu::read());
        f(lists.as_ref().and_then(|lists| list.of(&lists.0).as_ref()))
    }

    /// The lists are what `f` makes of them, and `told` is told whether there are some. On an error they are
    /// those of before. May sleep.
    fn change(
        &self,
        told: impl FnOnce(bool),
        f: impl FnOnce(&mut PidFilter) -> Result<(), limen_trace_sites::Error>,
    ) -> Result<(), Errno> {
        let _changing = self.changing.lock();
        let old = self.lists.get(&rcu::read());
        let mut new = handling(|| {
            let mut new = old
                .as_ref()
                .map_or(Ok(PidFilter::default()), |old| old.0.try_clone())?;
            f(&mut new).map(|()| Some(new))
        })
        .map_err(errno)?;
        if new
            .as_ref()
            .is_some_and(|new| new.only.is_none() && new.not.is_none())
        {
            new = None;
        }
        let new = match new {
            Some(new) => Some(Shared::try_new(Lists(new)).ok_or(Errno::ENOMEM)?),
            None => None,
        };
        let any = new.is_some();
        drop(self.lists.replace(new));
        self.any.store(any, Relaxed);
        told(any);
        Ok(())
    }

    /// There is no such list any more. `ENOMEM`: there still is. When it returns nobody finds it. `told` is
    /// told whether there are lists. May sleep.
    pub fn clear(&self, list: List, told: impl FnOnce(bool)) -> Result<(), Errno> {
        self.change(told, |lists| {
            *list.of_mut(lists) = None;
            Ok(())
        })?;
        rcu::synchronize_expedited();
        Ok(())
    }

    /// Adds the numbers in `text` to a list. `EINVAL`: a word is none; `EPERM`: no thread can have it;
    /// `ENOMEM`. When it returns all find the new list. `told` is told whether there are lists. May sleep.
    pub fn add(&self, list: List, text: &[u8], told: impl FnOnce(bool)) -> Result<(), Errno> {
        self.change(told, |lists| {
            let of = list.of_mut(lists);
            *of = match pids::written(of.as_ref(), text)? {
                // A list of which all have ended is still one.
                None => of.take(),
                new => new,
            };
            Ok(())
        })?;
        rcu::synchronize_expedited();
        Ok(())
    }

    /// `parent` has made `child`.
    pub(super) fn forked(&self, parent: i32, child: i32) {
        if self.is_named(parent) {
            // Without memory the new thread is one that nobody names.
            let _ = self.change(|_| (), |lists| lists.forked(parent as u32, child as u32));
        }
    }

    /// A thread ends.
    pub(super) fn exited(&self, tid: i32) {
        if self.is_named(tid) {
            let _ = self.change(
                |_| (),
                |lists| {
                    lists.exited(tid as u32);
                    Ok(())
                },
            );
        }
    }
}

fn each(f: impl Fn(&Threads)) {
    tracing::each_function_fork(|instance| {
        if let Ok(functions) = Functions::of(instance) {
            f(&functions.shared.threads);
        }
    });
}

/// Threads that are made, and that end, change the lists from now on. Boot.
pub(super) fn init() {
    events::tell(Told {
        forked: |parent, child| each(|threads| threads.forked(parent, child)),
        exits: |tid| each(|threads| threads.exited(tid)),
    });
}
