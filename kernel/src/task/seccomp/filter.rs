//! Filters: programs that were attached, each with those that were attached before it. They are a tree that
//! threads share: a thread has one filter, the newest, which holds its ancestors.

use super::notify::Listener;
use crate::arch::{AUDIT_ARCH, index};
use alloc::sync::Arc;
use limen_bpf::program::{MAX_COST, PENALTY};
use limen_bpf::{Program, Verdict, Words};
use limen_linux_abi::Errno;

/// For how many system call numbers it is known beforehand whether they are always allowed.
const NUMBERS: usize = 512;

/// A program, and what comes with it, before it is attached.
pub struct NewFilter {
    /// The program.
    pub program: Arc<Program>,
    /// Whether its actions are to be logged (`SECCOMP_FILTER_FLAG_LOG`).
    pub log: bool,
    /// Who is told of calls (`SECCOMP_FILTER_FLAG_NEW_LISTENER`).
    pub listener: Option<Arc<Listener>>,
}

/// An attached filter.
pub struct Filter {
    program: Arc<Program>,
    log: bool,
    listener: Option<Arc<Listener>>,
    before: Option<Arc<Filter>>,
    /// How many filters there are from the oldest to this one.
    depth: usize,
    /// How many instructions they come to, as Linux counts.
    cost: usize,
    /// A bit for each call, by number, that all of them always allow.
    always: [u64; NUMBERS / 64],
}

impl NewFilter {
    /// The filter, attached behind `before`. `EBUSY`: both have listeners; `ENOMEM`: there is no memory, or
    /// there are too many instructions.
    pub(super) fn behind(&self, before: Option<&Arc<Filter>>) -> Result<Arc<Filter>, Errno> {
        if self.listener.is_some() && Filter::chain(before).any(|filter| filter.listener.is_some()) {
            return Err(Errno::EBUSY);
        }
        let cost = self.program.cost() + before.map_or(0, |before| before.cost + PENALTY);
        if cost > MAX_COST {
            return Err(Errno::ENOMEM);
        }
        let mut always = [0; NUMBERS / 64];
        for number in 0..NUMBERS {
            let may = before.is_none_or(|before| before.always_allows(number));
            if may && limen_bpf::always_allows(&self.program, AUDIT_ARCH, number as u32) {
                always[number / 64] |= 1 << (number % 64);
            }
        }
        Ok(Arc::new(Filter {
            program: self.program.clone(),
            log: self.log,
            listener: self.listener.clone(),
            before: before.cloned(),
            depth: before.map_or(0, |before| before.depth) + 1,
            cost,
            always,
        }))
    }
}

impl Filter {
    /// A filter and its ancestors, the newest first.
    fn chain(newest: Option<&Arc<Self>>) -> impl Iterator<Item = &Self> {
        core::iter::successors(newest.map(|filter| &**filter), |filter| filter.before.as_deref())
    }

    /// How many filters there are from the oldest to this one.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// One of it and its ancestors, by place from the oldest.
    pub fn at(self: &Arc<Self>, place: usize) -> Option<&Self> {
        let mut all = Self::chain(Some(self));
        all.find(|filter| filter.depth - 1 == place)
    }

    /// Whether this is `other`, or was attached behind it.
    pub(super) fn descends_from(&self, other: &Self) -> bool {
        let mut at = self;
        while at.depth > other.depth {
            let Some(before) = &at.before else { return false };
            at = before;
        }
        core::ptr::eq(at, other)
    }

    /// Whether it and its ancestors allow the call with this number whatever its arguments are.
    #[inline(always)]
    pub fn always_allows(&self, number: usize) -> bool {
        number < NUMBERS && {
            let number = index::within::<NUMBERS>(number);
            self.always[number / 64] >> (number % 64) & 1 != 0
        }
    }

    /// What they say of a call, and which of them says so.
    pub fn verdict(&self, data: &Words) -> (Verdict, Option<&Self>) {
        let all = core::iter::successors(Some(self), |filter| filter.before.as_deref());
        Verdict::of_all(all, |filter| filter.program.run(data))
    }

    /// Whether its actions are to be logged.
    pub fn logs(&self) -> bool {
        self.log
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Who is told of the calls about which it does not decide.
    pub fn listener(&self) -> Option<&Arc<Listener>> {
        self.listener.as_ref()
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        if let Some(listener) = &self.listener {
            listener.hang_up();
        }
        // One after the other: thousands that each dropped the next would not fit on the stack.
        let mut next = self.before.take();
        while let Some(mut filter) = next.and_then(Arc::into_inner) {
            next = filter.before.take();
        }
    }
}
