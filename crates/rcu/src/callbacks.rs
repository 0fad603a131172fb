//! What one CPU is to do after grace periods, in the order in which it was asked.

use crate::Cookie;

/// Callbacks in order. The kernel's are linked through the objects that they free, so that asking allocates
/// nothing.
pub trait Batch: Sized {
    /// None.
    const EMPTY: Self;
    /// Whether there is none.
    fn is_empty(&self) -> bool;
    /// Moves all of `later` behind those that are here. Takes the same time for few and for many.
    fn append(&mut self, later: Self);
}

/// A CPU's callbacks. Only the CPU itself uses it, with interrupts off.
///
/// Of the grace periods that have not ended there are at most two that somebody can wait for: the one that
/// runs and the next. So there are at most two batches that wait for a known grace period, and one that came
/// after the last look.
#[derive(Debug)]
pub struct Callbacks<B> {
    ready: B,
    waiting: [Option<(Cookie, B)>; 2],
    new: B,
}

impl<B: Batch> Default for Callbacks<B> {
    fn default() -> Self {
        Self::new()
    }
}

impl<B: Batch> Callbacks<B> {
    /// None.
    pub const fn new() -> Self {
        Self {
            ready: B::EMPTY,
            waiting: [const { None }; 2],
            new: B::EMPTY,
        }
    }

    /// Adds callbacks, for a grace period that begins after this call.
    pub fn push(&mut self, new: B) {
        self.new.append(new);
    }

    /// Sorts by what has ended: `is_over` says of a cookie whether its grace period has; `cookie` makes one.
    /// Returns the newest grace period that callbacks wait for, which the driver is to be asked for.
    pub fn advance(
        &mut self,
        is_over: impl Fn(Cookie) -> bool,
        cookie: impl FnOnce() -> Cookie,
    ) -> Option<Cookie> {
        // In order: the second may be found over when the first was not yet.
        while let Some((_, batch)) = self.waiting[0].take_if(|(until, _)| is_over(*until)) {
            self.ready.append(batch);
            self.waiting.swap(0, 1);
        }
        if !self.new.is_empty() {
            let until = cookie();
            let new = core::mem::replace(&mut self.new, B::EMPTY);
            let [first, second] = &mut self.waiting;
            match (first, second) {
                // A cookie that was made later is the same or a later one: what waits for the second may as
                // well wait a little longer.
                (Some(_), Some((last, batch))) => {
                    *last = until;
                    batch.append(new);
                }
                (Some((last, batch)), None) if *last == until => batch.append(new),
                (Some(_), second) => *second = Some((until, new)),
                (first, _) => *first = Some((until, new)),
            }
        }
        self.waiting.iter().flatten().last().map(|(until, _)| *until)
    }

    /// Takes the callbacks whose grace periods have ended, in order.
    pub fn take_ready(&mut self) -> B {
        core::mem::replace(&mut self.ready, B::EMPTY)
    }

    /// Whether there are callbacks whose grace periods have ended.
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether there is nothing to do, now or later.
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.new.is_empty() && self.waiting.iter().all(Option::is_none)
    }
}
