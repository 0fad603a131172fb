//! Programs for seccomp: which it takes (Linux's `seccomp_check_filter`), and running them.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use crate::insn::code::*;
use crate::run::{Jump, Step, run};
use crate::{Error, Insn, check};

/// The size in bytes of `struct seccomp_data`.
pub const DATA_SIZE: u32 = 64;
/// Its size in words of 32 bits, which is how programs read it.
pub const WORDS: usize = DATA_SIZE as usize / 4;
/// The words of `struct seccomp_data`, each in the processor's byte order.
pub type Words = [u32; WORDS];

/// How many instructions all filters of a thread may come to (`MAX_INSNS_PER_PATH`), each counted with its
/// [`Program::cost`], and those that were there before with [`PENALTY`] more.
pub const MAX_COST: usize = (1 << 18) / Insn::SIZE;
/// See [`MAX_COST`].
pub const PENALTY: usize = 4;

/// The data that programs run over (`struct seccomp_data`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Data {
    /// The system call's number.
    pub nr: i32,
    /// The ABI (`AUDIT_ARCH_*`).
    pub arch: u32,
    /// Where the program will go on.
    pub instruction_pointer: u64,
    /// The arguments.
    pub args: [u64; 6],
}

impl Data {
    /// What programs see of it.
    pub fn words(&self) -> Words {
        let mut words = [0; WORDS];
        let ([head, wide @ ..], _) = words.as_chunks_mut() else {
            return words;
        };
        *head = [self.nr.cast_unsigned(), self.arch];
        let fields = [self.instruction_pointer].into_iter().chain(self.args);
        for (words, field) in wide.iter_mut().zip(fields) {
            // The halves in the order in which they are in memory.
            let [a, b, c, d, e, f, g, h] = field.to_ne_bytes();
            *words = [[a, b, c, d], [e, f, g, h]].map(u32::from_ne_bytes);
        }
        words
    }

    /// The structure's bytes, in the processor's byte order.
    pub fn to_bytes(&self) -> [u8; DATA_SIZE as usize] {
        let mut bytes = [0; DATA_SIZE as usize];
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(self.words()) {
            *bytes = word.to_ne_bytes();
        }
        bytes
    }
}

/// A program that seccomp takes.
#[derive(Debug)]
pub struct Program {
    steps: Vec<Step>,
    insns: Vec<Insn>,
    cost: usize,
}

impl Program {
    /// Checks and translates a program.
    ///
    /// # Errors
    ///
    /// Those of [`check()`]; then [`Error::Foreign`] and [`Error::Offset`]. [`Error::NoMemory`].
    pub fn new(insns: &[Insn]) -> Result<Self, Error> {
        check(insns)?;
        let mut steps = Vec::new();
        steps
            .try_reserve_exact(insns.len())
            .map_err(|_| Error::NoMemory)?;
        let mut kept = Vec::new();
        kept.try_reserve_exact(insns.len()).map_err(|_| Error::NoMemory)?;
        kept.extend_from_slice(insns);
        // Linux sets A and X to zero and moves the pointer to the data first.
        let mut cost = 3;
        for (at, insn) in insns.iter().enumerate() {
            steps.push(translate(*insn, at)?);
            cost += cost_of(*insn);
        }
        Ok(Self {
            steps,
            insns: kept,
            cost,
        })
    }

    /// The instructions of which it was made.
    #[must_use]
    pub fn insns(&self) -> &[Insn] {
        &self.insns
    }

    /// As [`Self::new`], from the bytes of its instructions.
    ///
    /// # Errors
    ///
    /// Those of [`Insn::parse`] and [`Self::new`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        Self::new(&Insn::parse(bytes)?)
    }

    /// How many instructions it has, which is the most that run. Not 0.
    #[allow(clippy::len_without_is_empty, reason = "none is empty")]
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// How many instructions Linux counts for [`MAX_COST`]: those that it translates the program to.
    pub fn cost(&self) -> usize {
        self.cost
    }

    /// What it returns for these data: see [`crate::Verdict`].
    pub fn run(&self, data: &Words) -> u32 {
        run(&self.steps, data, || ()).unwrap_or(0)
    }

    /// As [`Self::run`], with the number of instructions that ran.
    pub fn run_counting(&self, data: &Words) -> (u32, usize) {
        let mut count = 0;
        let result = run(&self.steps, data, || count += 1).unwrap_or(0);
        (result, count)
    }

    /// What it returns for all data with these words, if that does not depend on those that are `None`. This
    /// may give up where one could find out more, but what it says is right.
    pub fn run_partly(&self, data: &[Option<u32>; WORDS]) -> Option<u32> {
        run(&self.steps, data, || ())
    }
}

/// Translates a checked instruction.
fn translate(insn: Insn, at: usize) -> Result<Step, Error> {
    let Insn { code, jt, jf, k } = insn;
    let jump = Jump { jt, jf };
    // The checks have seen to it that cells, shifts and jumps are small numbers.
    let small = k as u8;
    Ok(match code {
        LD_W_ABS if k >= DATA_SIZE || !k.is_multiple_of(4) => return Err(Error::Offset { at, offset: k }),
        LD_W_ABS => Step::LdAbs((k / 4) as u8),
        LD_W_LEN => Step::LdImm(DATA_SIZE),
        LDX_W_LEN => Step::LdxImm(DATA_SIZE),
        LD_IMM => Step::LdImm(k),
        LD_MEM => Step::LdMem(small),
        LDX_IMM => Step::LdxImm(k),
        LDX_MEM => Step::LdxMem(small),
        ST => Step::St(small),
        STX => Step::Stx(small),
        ADD_K => Step::AddK(k),
        ADD_X => Step::AddX,
        SUB_K => Step::SubK(k),
        SUB_X => Step::SubX,
        MUL_K => Step::MulK(k),
        MUL_X => Step::MulX,
        DIV_K => Step::DivK(NonZeroU32::new(k).ok_or(Error::Zero { at })?),
        DIV_X => Step::DivX,
        OR_K => Step::OrK(k),
        OR_X => Step::OrX,
        AND_K => Step::AndK(k),
        AND_X => Step::AndX,
        XOR_K => Step::XorK(k),
        XOR_X => Step::XorX,
        LSH_K => Step::LshK(small),
        LSH_X => Step::LshX,
        RSH_K => Step::RshK(small),
        RSH_X => Step::RshX,
        NEG => Step::Neg,
        JA => Step::Ja(k as u16),
        JEQ_K => Step::JeqK(jump, k),
        JEQ_X => Step::JeqX(jump),
        JGT_K => Step::JgtK(jump, k),
        JGT_X => Step::JgtX(jump),
        JGE_K => Step::JgeK(jump, k),
        JGE_X => Step::JgeX(jump),
        JSET_K => Step::JsetK(jump, k),
        JSET_X => Step::JsetX(jump),
        RET_K => Step::RetK(k),
        RET_A => Step::RetA,
        TAX => Step::Tax,
        TXA => Step::Txa,
        _ => return Err(Error::Foreign { at, code }),
    })
}

/// How many instructions of its own machine Linux makes of one.
fn cost_of(insn: Insn) -> usize {
    match insn.code {
        // A return of a constant loads it first.
        RET_K => 2,
        // X is compared with zero, for which the program is left.
        DIV_X => 5,
        _ if insn.is_conditional() => {
            // Constants are sign-extended there, so those that would change are loaded first.
            let wide = matches!(insn.code, JEQ_K | JGT_K | JGE_K | JSET_K) && insn.k.cast_signed() < 0;
            // All conditions but that of JSET can be turned round.
            let turns = !matches!(insn.code, JSET_K | JSET_X);
            let one = insn.jf == 0 || insn.jt == 0 && turns;
            usize::from(wide) + if one { 1 } else { 2 }
        }
        _ => 1,
    }
}
