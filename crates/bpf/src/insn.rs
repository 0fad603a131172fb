//! Instructions, as a process hands them over.

use alloc::vec::Vec;

use crate::{Error, MAX_INSNS};

/// An instruction (`struct sock_filter`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insn {
    /// What it does: one of [`code`], if it is valid.
    pub code: u16,
    /// How many instructions a conditional jump skips if its condition is true.
    pub jt: u8,
    /// How many it skips otherwise.
    pub jf: u8,
    /// The operand that comes with it; of an unconditional jump, how many instructions it skips.
    pub k: u32,
}

impl Insn {
    /// The size in bytes.
    pub const SIZE: usize = 8;

    /// Reads one, in the processor's byte order.
    pub fn from_bytes(&[c0, c1, jt, jf, k0, k1, k2, k3]: &[u8; Self::SIZE]) -> Self {
        Self {
            code: u16::from_ne_bytes([c0, c1]),
            jt,
            jf,
            k: u32::from_ne_bytes([k0, k1, k2, k3]),
        }
    }

    /// The opposite of [`Self::from_bytes`].
    pub fn to_bytes(self) -> [u8; Self::SIZE] {
        let [c0, c1] = self.code.to_ne_bytes();
        let [k0, k1, k2, k3] = self.k.to_ne_bytes();
        [c0, c1, self.jt, self.jf, k0, k1, k2, k3]
    }

    /// Reads a program. It has not been checked then, except for its length.
    ///
    /// # Errors
    ///
    /// [`Error::Length`]: no program has so many instructions. [`Error::Torn`]: the last is not whole.
    /// [`Error::NoMemory`].
    pub fn parse(bytes: &[u8]) -> Result<Vec<Self>, Error> {
        let (whole, rest) = bytes.as_chunks::<{ Self::SIZE }>();
        if !rest.is_empty() {
            return Err(Error::Torn);
        }
        check_length(whole.len())?;
        let mut insns = Vec::new();
        insns
            .try_reserve_exact(whole.len())
            .map_err(|_| Error::NoMemory)?;
        insns.extend(whole.iter().map(Self::from_bytes));
        Ok(insns)
    }

    /// Whether it jumps if a condition is true, and else jumps elsewhere.
    pub(crate) fn is_conditional(self) -> bool {
        use code::*;
        matches!(
            self.code,
            JEQ_K | JEQ_X | JGT_K | JGT_X | JGE_K | JGE_X | JSET_K | JSET_X
        )
    }
}

/// Refuses programs with no or too many instructions.
pub(crate) fn check_length(insns: usize) -> Result<(), Error> {
    match insns {
        1..=MAX_INSNS => Ok(()),
        _ => Err(Error::Length(insns)),
    }
}

/// The values of [`Insn::code`]. `_K`: the other operand is `k`; `_X`: it is the register X.
#[allow(missing_docs, reason = "the names are the assembler's")]
pub mod code {
    pub const LD_IMM: u16 = 0x00;
    pub const LD_W_ABS: u16 = 0x20;
    pub const LD_H_ABS: u16 = 0x28;
    pub const LD_B_ABS: u16 = 0x30;
    pub const LD_W_IND: u16 = 0x40;
    pub const LD_H_IND: u16 = 0x48;
    pub const LD_B_IND: u16 = 0x50;
    pub const LD_MEM: u16 = 0x60;
    pub const LD_W_LEN: u16 = 0x80;
    pub const LDX_IMM: u16 = 0x01;
    pub const LDX_MEM: u16 = 0x61;
    pub const LDX_W_LEN: u16 = 0x81;
    pub const LDX_B_MSH: u16 = 0xb1;
    pub const ST: u16 = 0x02;
    pub const STX: u16 = 0x03;
    pub const ADD_K: u16 = 0x04;
    pub const ADD_X: u16 = 0x0c;
    pub const SUB_K: u16 = 0x14;
    pub const SUB_X: u16 = 0x1c;
    pub const MUL_K: u16 = 0x24;
    pub const MUL_X: u16 = 0x2c;
    pub const DIV_K: u16 = 0x34;
    pub const DIV_X: u16 = 0x3c;
    pub const OR_K: u16 = 0x44;
    pub const OR_X: u16 = 0x4c;
    pub const AND_K: u16 = 0x54;
    pub const AND_X: u16 = 0x5c;
    pub const LSH_K: u16 = 0x64;
    pub const LSH_X: u16 = 0x6c;
    pub const RSH_K: u16 = 0x74;
    pub const RSH_X: u16 = 0x7c;
    pub const NEG: u16 = 0x84;
    pub const MOD_K: u16 = 0x94;
    pub const MOD_X: u16 = 0x9c;
    pub const XOR_K: u16 = 0xa4;
    pub const XOR_X: u16 = 0xac;
    pub const JA: u16 = 0x05;
    pub const JEQ_K: u16 = 0x15;
    pub const JEQ_X: u16 = 0x1d;
    pub const JGT_K: u16 = 0x25;
    pub const JGT_X: u16 = 0x2d;
    pub const JGE_K: u16 = 0x35;
    pub const JGE_X: u16 = 0x3d;
    pub const JSET_K: u16 = 0x45;
    pub const JSET_X: u16 = 0x4d;
    pub const RET_K: u16 = 0x06;
    pub const RET_A: u16 = 0x16;
    pub const TAX: u16 = 0x07;
    pub const TXA: u16 = 0x87;
}
