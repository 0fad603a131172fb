//! Functions that never return: what lies behind a call of one is reached from elsewhere, with other things
//! in the registers.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use crate::noinstr::{Flow, Step};

pub struct Ends<'a> {
    decode: fn(&[u8], u64) -> Step,
    /// Where functions and sections begin.
    starts: BTreeSet<u64>,
    /// The sections with code.
    sections: Vec<(u64, &'a [u8])>,
    known: RefCell<HashMap<u64, bool>>,
}

impl<'a> Ends<'a> {
    pub fn new(
        decode: fn(&[u8], u64) -> Step,
        starts: BTreeSet<u64>,
        sections: Vec<(u64, &'a [u8])>,
    ) -> Self {
        let known = RefCell::default();
        Self {
            decode,
            starts,
            sections,
            known,
        }
    }

    /// Whether the function at, or a little before, `address` has no return and no way to another.
    pub fn never_returns(&self, address: u64) -> bool {
        if let Some(known) = self.known.borrow().get(&address) {
            return *known;
        }
        let never = self.look(address);
        self.known.borrow_mut().insert(address, never);
        never
    }

    fn look(&self, address: u64) -> bool {
        let holds = |(at, code): &&(u64, &[u8])| (*at..*at + code.len() as u64).contains(&address);
        let Some((section, code)) = self.sections.iter().find(holds) else {
            return false;
        };
        let start = self.starts.range(..=address).next_back().copied();
        let start = start.unwrap_or(*section).max(*section);
        let end = *section + code.len() as u64;
        let end = self
            .starts
            .range(address + 1..)
            .next()
            .map_or(end, |next| end.min(*next));
        let mut at = start;
        while at < end {
            let step = (self.decode)(&code[(at - section) as usize..], at);
            match step.flow {
                Flow::Return | Flow::ReturnIf | Flow::IndirectJump => return false,
                Flow::Jump(to) | Flow::Branch(to) if !(start..end).contains(&to) => return false,
                _ => at += step.length.max(1),
            }
        }
        true
    }
}
