//! Steps that are decided and not yet said.

use crate::Step;

/// A block of level 3 that becomes three tables, each with two groups unfolded, by a break: 21 steps.
const ROOM: usize = 24;

/// A queue with room for what is decided at once.
#[derive(Debug)]
pub(crate) struct Queue {
    steps: [Step; ROOM],
    first: usize,
    end: usize,
}

impl Queue {
    pub(crate) const fn new() -> Self {
        Self {
            steps: [Step::Pause; ROOM],
            first: 0,
            end: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, step: Step) {
        self.steps[self.end] = step;
        self.end += 1;
    }

    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<Step> {
        if self.first == self.end {
            (self.first, self.end) = (0, 0);
            return None;
        }
        self.first += 1;
        Some(self.steps[self.first - 1])
    }
}
