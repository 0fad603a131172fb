//! Single steps of 32-bit Arm code by software: where a program will be after its next instruction.
//!
//! [`step`] does an instruction that goes somewhere else (a branch, or whatever else writes the program
//! counter) itself, so that neither a branch to itself nor memory that changes meanwhile is a special case.
//! Any other instruction is the processor's to run: the answer is where it has to stop afterwards.
//!
//! An exception between an exclusive load and its store makes the store fail, so a program that is stopped in
//! there would try again for ever. From the load on such a sequence is one step, with a stop behind the store
//! and one at each place to which a branch leaves before it.
//!
//! Encodings are those of the Arm Architecture Reference Manual, ARMv7-A and ARMv7-R edition: A5 (Arm), A6
//! (Thumb), and A8.8, each instruction. What is unpredictable there is the processor's to run.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

mod arm;
mod exclusive;
mod thumb;

use limen_arm_align::{Instruction, Outcome, decode, fetch, fix};
pub use limen_arm_align::{Memory, State};

/// How many stops a step can have.
pub const STOPS: usize = 3;

/// Where the processor has to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stops {
    at: [u32; STOPS],
    count: usize,
}

impl Stops {
    fn one(at: u32) -> Self {
        Self {
            at: [at, 0, 0],
            count: 1,
        }
    }

    /// One more. `None`: there are too many.
    fn add(&mut self, at: u32) -> Option<()> {
        if !self.addresses().contains(&at) {
            *self.at.get_mut(self.count)? = at;
            self.count += 1;
        }
        Some(())
    }

    /// Their addresses, all in the instruction set that the program is in.
    pub fn addresses(&self) -> &[u32] {
        &self.at[..self.count]
    }
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It has been done: the state is that after it.
    Done,
    /// The processor does it, and has to be stopped there.
    Runs(Stops),
    /// The instruction cannot be read: the processor will say so.
    Unreadable,
}

/// Where an instruction goes when it does not go on behind itself.
enum Target {
    /// To an address in the same instruction set.
    To(u32),
    /// To an address whose lowest bit selects Thumb.
    Exchange(u32),
}

/// What an instruction is to who steps.
enum Kind {
    /// It goes on behind itself.
    Plain,
    /// It may go elsewhere.
    Jump {
        to: Target,
        /// What lr becomes.
        link: Option<u32>,
        /// The base register's new value.
        write_back: Option<(usize, u32)>,
    },
}

impl Kind {
    fn to(to: Target) -> Self {
        Self::Jump {
            to,
            link: None,
            write_back: None,
        }
    }

    fn exchange(to: u32) -> Self {
        Self::to(Target::Exchange(to))
    }

    fn call(to: Target, back: u32) -> Self {
        Self::Jump {
            to,
            link: Some(back),
            write_back: None,
        }
    }
}

/// The sum of an address and an offset of so many bits.
fn relative(base: u32, offset: u32, bits: u32) -> u32 {
    let shift = 32 - bits;
    base.wrapping_add(((offset << shift) as i32 >> shift) as u32)
}

/// Whether the flags meet a condition (A8.3).
fn holds(psr: u32, condition: u32) -> bool {
    let flag = |n: u32| psr >> n & 1 != 0;
    let [n, z, c, v] = [31, 30, 29, 28].map(flag);
    let base = match condition >> 1 & 7 {
        0 => z,
        1 => c,
        2 => n,
        3 => v,
        4 => c && !z,
        5 => n == v,
        6 => n == v && !z,
        _ => return true,
    };
    base != (condition & 1 != 0)
}

/// The condition under which the instruction at r15 is done, from the state of an `it` block in Thumb.
fn condition(state: &State, instruction: Instruction) -> u32 {
    /// Always.
    const AL: u32 = 14;
    match instruction {
        Instruction::Arm(word) => word >> 28,
        _ => {
            let it = state.psr >> 8 & 0xfc | state.psr >> 25 & 3;
            if it & 15 != 0 { it >> 4 } else { AL }
        }
    }
}

fn length(instruction: Instruction) -> u32 {
    match instruction {
        Instruction::Thumb(_) => 2,
        Instruction::Arm(_) | Instruction::Thumb2(..) => 4,
    }
}

/// Does the instruction at r15 if it may go elsewhere than on behind itself, else says where it goes on. The
/// state changes only with [`Step::Done`].
pub fn step(state: &mut State, memory: &mut impl Memory) -> Step {
    let pc = state.registers[15];
    let Some(instruction) = fetch(state, memory) else {
        return Step::Unreadable;
    };
    let runs = Step::Runs(Stops::one(pc.wrapping_add(length(instruction))));
    if exclusive::loads(instruction) {
        return exclusive::sequence(state, memory).map_or(runs, Step::Runs);
    }
    if !holds(state.psr, condition(state, instruction)) {
        return runs;
    }
    if let Some(access) = decode(state, instruction) {
        let done = access.loads_pc() && fix(state, memory, access.start) == Outcome::Done;
        return if done { Step::Done } else { runs };
    }
    let kind = match instruction {
        Instruction::Arm(word) => arm::kind(state, memory, word),
        Instruction::Thumb(half) => thumb::kind(state, u32::from(half)),
        Instruction::Thumb2(first, second) => {
            thumb::wide_kind(state, memory, u32::from(first), u32::from(second))
        }
    };
    // `None`: what it loads cannot be read, which the processor will find out.
    let Some(Kind::Jump { to, link, write_back }) = kind else {
        return runs;
    };
    state.advance_it();
    if let Some((base, value)) = write_back {
        state.registers[base] = value;
    }
    if let Some(back) = link {
        state.registers[14] = back;
    }
    match to {
        Target::To(to) => state.registers[15] = to & if state.thumb() { !1 } else { !3 },
        Target::Exchange(to) => state.load(15, to),
    }
    Step::Done
}

#[cfg(test)]
mod tests;
