//! In which order a site's slot and branch are written while CPUs run through it.
//!
//! A trampoline reads the slot some time after the branch was taken, so that at every moment the slot must be
//! valid for the branch as it is, and for what it was since the last grace period. Valid are:
//! * with the branch off, or to a direct function, any slot: nobody reads it;
//! * with [`Branch::Plain`] a slot of which no ops need registers; the empty one does nothing;
//! * with [`Branch::Regs`] any.

/// Where a site's branch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// Nowhere: the instruction does nothing.
    Off,
    /// To the trampoline that calls what the slot holds.
    Plain,
    /// To the one that saves all registers before.
    Regs,
    /// To this function, which a [`Kind::direct`](super::Kind::direct) named.
    Direct(usize),
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The slot.
    Slot,
    /// The branch.
    Branch(Branch),
}

/// How a site is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// What is written first.
    pub first: Step,
    /// Between the two a grace period passes.
    pub wait: bool,
    /// What is written second.
    pub second: Option<Step>,
}

impl Steps {
    /// The steps from one branch to another, and from the slot of the one to that of the other.
    pub fn between(from: Branch, to: Branch) -> Self {
        let branch = Step::Branch(to);
        let (first, wait, second) = match (from, to) {
            (Branch::Off, Branch::Off) | (Branch::Plain, Branch::Plain) | (Branch::Regs, Branch::Regs) => {
                (Step::Slot, false, None)
            }
            // Nobody reads the slot any more: those who still do find nothing, or what was there.
            (_, Branch::Off | Branch::Direct(_)) => (branch, false, Some(Step::Slot)),
            // Those who came by the plain trampoline have no registers for the new ops.
            (Branch::Plain, Branch::Regs) => (branch, true, Some(Step::Slot)),
            (Branch::Off | Branch::Direct(_) | Branch::Regs, Branch::Plain | Branch::Regs) => {
                (Step::Slot, false, Some(branch))
            }
        };
        Self { first, wait, second }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a slot may hold: whether its ops need registers. The empty one does not.
    type NeedsRegs = bool;

    fn valid(branch: Branch, slot: NeedsRegs) -> bool {
        branch != Branch::Plain || !slot
    }

    /// Goes through the steps, with CPUs in the trampolines to which the branch has led since the last grace
    /// period.
    fn is_valid_throughout(steps: Steps, from: (Branch, NeedsRegs), to: (Branch, NeedsRegs)) -> bool {
        let (mut branch, mut slot) = from;
        let mut inside = alloc::vec![branch];
        for (step, wait) in [(Some(steps.first), steps.wait), (steps.second, false)] {
            match step {
                Some(Step::Slot) => slot = to.1,
                Some(Step::Branch(to)) => branch = to,
                None => {}
            }
            inside.push(branch);
            if !inside.iter().all(|&branch| valid(branch, slot)) {
                return false;
            }
            if wait {
                inside = alloc::vec![branch];
            }
        }
        (branch, slot) == to
    }

    /// Branches with the slots that they can stand for.
    fn states() -> impl Iterator<Item = (Branch, NeedsRegs)> {
        let branches = [
            Branch::Off,
            Branch::Plain,
            Branch::Regs,
            Branch::Direct(1),
            Branch::Direct(2),
        ];
        branches
            .into_iter()
            .map(|branch| (branch, branch == Branch::Regs))
    }

    #[test]
    fn at_every_moment_the_slot_is_valid() {
        for from in states() {
            for to in states() {
                let steps = Steps::between(from.0, to.0);
                assert!(is_valid_throughout(steps, from, to), "{from:?} {to:?}");
                // Every mistake that matters is seen.
                let hasty = Steps { wait: false, ..steps };
                assert!(
                    !steps.wait || !is_valid_throughout(hasty, from, to),
                    "{from:?} {to:?}"
                );
            }
        }
        let wrong = Steps {
            first: Step::Slot,
            wait: true,
            second: Some(Step::Branch(Branch::Regs)),
        };
        assert!(!is_valid_throughout(
            wrong,
            (Branch::Plain, false),
            (Branch::Regs, true)
        ));
        let wrong = Steps {
            first: Step::Branch(Branch::Plain),
            wait: true,
            second: Some(Step::Slot),
        };
        assert!(!is_valid_throughout(
            wrong,
            (Branch::Regs, true),
            (Branch::Plain, false)
        ));
    }

    #[test]
    fn what_is_switched_on_finds_its_slot() {
        for to in [Branch::Plain, Branch::Regs] {
            let steps = Steps {
                first: Step::Slot,
                wait: false,
                second: Some(Step::Branch(to)),
            };
            assert_eq!(Steps::between(Branch::Off, to), steps);
            let steps = Steps {
                first: Step::Branch(Branch::Off),
                wait: false,
                second: Some(Step::Slot),
            };
            assert_eq!(Steps::between(to, Branch::Off), steps);
        }
    }
}
