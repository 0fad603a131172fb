//! Which functions that everybody shares may be traced. Those of `core` are called by all of the kernel: also
//! by the tracer, by what x86_64's CPUs do at a breakpoint, and by what changes the kernel's map. A site in
//! what these call would call the tracer from the tracer, or be met while it is changed. How much of `core`
//! is inlined there differs between builds, so the linked image says what is called.
//!
//! A shared function is *reached* if code without sites refers to it, calls it or jumps to it; if a shared
//! function that is reached does; or if its address is taken anywhere, in data or by an instruction, since
//! nobody knows who calls it then. Functions with sites in between are not looked through: whoever has no
//! site and calls such a one is prepared for tracers there. The same holds for `alloc`: of it only what makes
//! room is called, which nobody does in a tracer's call, in an NMI, or while others wait for the map.

use std::collections::{BTreeMap, BTreeSet};

/// A place in the image that refers to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The instruction, or the data.
    pub from: u64,
    /// What it refers to.
    pub to: u64,
    /// It calls it, or jumps there.
    pub is_jump: bool,
}

/// What a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It has no site: the tracer, and its like.
    Untraced,
    /// Everybody's.
    Shared,
    /// Any other.
    Own,
}

/// A function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function {
    /// The address behind it.
    pub end: u64,
    pub kind: Kind,
}

/// The shared ones among `functions`, which are known by their addresses, that are reached.
pub(crate) fn reached(functions: &BTreeMap<u64, Function>, references: &[Reference]) -> BTreeSet<u64> {
    let around = |address: u64| {
        let (&start, function) = functions.range(..=address).next_back()?;
        (address == start || address < function.end).then_some((start, function.kind))
    };
    let mut found = BTreeSet::new();
    let mut calls: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for reference in references {
        let Some((to, Kind::Shared)) = around(reference.to) else {
            continue;
        };
        match around(reference.from) {
            Some((from, _)) if from == to && (reference.is_jump || reference.to != to) => {}
            Some((_, Kind::Untraced)) => {
                found.insert(to);
            }
            Some((from, Kind::Shared)) if reference.is_jump => calls.entry(from).or_default().push(to),
            Some(_) if reference.is_jump => {}
            _ => {
                found.insert(to);
            }
        }
    }
    let mut todo: Vec<u64> = found.iter().copied().collect();
    while let Some(from) = todo.pop() {
        for to in calls.remove(&from).unwrap_or_default() {
            if found.insert(to) {
                todo.push(to);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACER: u64 = 0x1000;
    const SCHEDULE: u64 = 0x2000;
    const FIRST: u64 = 0x3000;
    const SECOND: u64 = 0x3100;
    const THIRD: u64 = 0x3200;
    const TABLE: u64 = 0x9000;

    fn found(references: &[(u64, u64, bool)]) -> Vec<u64> {
        let functions = [
            (TRACER, Kind::Untraced),
            (SCHEDULE, Kind::Own),
            (FIRST, Kind::Shared),
            (SECOND, Kind::Shared),
            (THIRD, Kind::Shared),
        ];
        let functions = functions.map(|(at, kind)| (at, Function { end: at + 0x80, kind }));
        let references = references.iter();
        let references: Vec<_> = references
            .map(|&(from, to, is_jump)| Reference { from, to, is_jump })
            .collect();
        reached(&functions.into(), &references).into_iter().collect()
    }

    #[test]
    fn what_the_tracer_calls_is_reached_and_what_that_calls() {
        let calls = [(FIRST + 4, SECOND, true), (SECOND + 8, THIRD + 8, true)];
        assert!(found(&calls).is_empty());
        let with = |more| found(&[&calls[..], &[more]].concat());
        assert_eq!(with((TRACER + 0x7c, FIRST, true)), [FIRST, SECOND, THIRD]);
        // Behind the entry that makes the address of the table of contents.
        assert_eq!(with((TRACER, SECOND + 8, true)), [SECOND, THIRD]);
        // What is behind the tracer is not the tracer.
        assert_eq!(with((TRACER + 0x80, FIRST, true)), [FIRST, SECOND, THIRD]);
        assert!(with((SCHEDULE, FIRST, true)).is_empty());
        // The function in between has a site.
        assert!(found(&[(TRACER, SCHEDULE, true), (SCHEDULE, FIRST, true)]).is_empty());
    }

    #[test]
    fn what_anybody_may_call_is_reached() {
        for from in [TRACER, SCHEDULE, SECOND, FIRST, TABLE] {
            assert_eq!(found(&[(from, FIRST, false)]), [FIRST], "{from:#x}");
        }
        // Not by its own jumps, and loops end.
        assert!(found(&[(FIRST + 4, FIRST + 0x10, true), (FIRST + 8, FIRST, true)]).is_empty());
        assert!(found(&[(FIRST, FIRST + 4, false)]).is_empty());
        assert_eq!(
            found(&[
                (TRACER, FIRST, true),
                (FIRST, SECOND, true),
                (SECOND, FIRST, true)
            ]),
            [FIRST, SECOND]
        );
    }
}
