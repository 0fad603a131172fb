//! Which programs are valid, whatever they are for (Linux's `bpf_check_classic`).

use alloc::vec::Vec;

use crate::insn::check_length;
use crate::insn::code::*;
use crate::{Error, Insn, MEM_WORDS};

/// Offsets from here on mean something about the packet (`SKF_AD_OFF`), not a byte of it...
const ANCILLARY: u32 = -0x1000i32 as u32;
/// ... up to here (`SKF_AD_MAX`), in steps of 4.
const ANCILLARY_SIZE: u32 = 64;

/// Checks a program.
///
/// # Errors
///
/// The first rule that it breaks, in Linux's order: what an instruction says for itself, from the first to
/// the last; that it ends with a return; that scratch memory is written before it is read.
/// [`Error::NoMemory`]: the last check needs two bytes for each instruction.
pub fn check(insns: &[Insn]) -> Result<(), Error> {
    check_length(insns.len())?;
    for (at, insn) in insns.iter().enumerate() {
        check_insn(*insn, at, insns.len() - at - 1)?;
    }
    if !matches!(insns.last(), Some(insn) if matches!(insn.code, RET_K | RET_A)) {
        return Err(Error::End);
    }
    check_scratch(insns)
}

/// Checks the instruction `at`. `after`: how many follow it.
fn check_insn(insn: Insn, at: usize, after: usize) -> Result<(), Error> {
    let k = insn.k;
    let within = |skipped: usize| skipped < after;
    match insn.code {
        DIV_K | MOD_K if k == 0 => Err(Error::Zero { at }),
        LSH_K | RSH_K if k >= 32 => Err(Error::Shift { at, bits: k }),
        LD_MEM | LDX_MEM | ST | STX if k as usize >= MEM_WORDS => Err(Error::Cell { at, cell: k }),
        JA if !within(k as usize) => Err(Error::Jump { at }),
        _ if insn.is_conditional() && !(within(insn.jt.into()) && within(insn.jf.into())) => {
            Err(Error::Jump { at })
        }
        LD_W_ABS | LD_H_ABS | LD_B_ABS if !loadable(k) => Err(Error::Ancillary { at, offset: k }),
        code if !is_known(code) => Err(Error::Unknown { at, code }),
        _ => Ok(()),
    }
}

/// Whether an absolute load may be from this offset. Those below [`ANCILLARY`] that are negative are relative
/// to a header of the packet; whether the packet has that byte is only known when the program runs.
fn loadable(offset: u32) -> bool {
    match offset.checked_sub(ANCILLARY) {
        None => true,
        Some(what) => what < ANCILLARY_SIZE && what.is_multiple_of(4),
    }
}

fn is_known(code: u16) -> bool {
    let load = matches!(code, LD_IMM | LD_MEM | LD_W_LEN | LDX_IMM | LDX_MEM | LDX_W_LEN);
    let packet = matches!(
        code,
        LD_W_ABS | LD_H_ABS | LD_B_ABS | LD_W_IND | LD_H_IND | LD_B_IND | LDX_B_MSH
    );
    let arithmetic = matches!(
        code,
        ADD_K | ADD_X | SUB_K | SUB_X | MUL_K | MUL_X | DIV_K | DIV_X | MOD_K | MOD_X | NEG
    );
    let bits = matches!(
        code,
        OR_K | OR_X | AND_K | AND_X | XOR_K | XOR_X | LSH_K | LSH_X | RSH_K | RSH_X
    );
    let jump = matches!(
        code,
        JA | JEQ_K | JEQ_X | JGT_K | JGT_X | JGE_K | JGE_X | JSET_K | JSET_X
    );
    let other = matches!(code, ST | STX | TAX | TXA | RET_K | RET_A);
    load || packet || arithmetic || bits || jump || other
}

/// Checks that no cell of scratch memory is read to which something was not written before, on every way.
///
/// As Linux does, a return is not taken for the end of a way: what was not written before it counts as not
/// written behind it, even if one can only get there by a jump. So some programs are refused that are right;
/// and everything goes for instructions that nothing leads to, behind a jump.
fn check_scratch(insns: &[Insn]) -> Result<(), Error> {
    const ALL: u16 = !0;
    // A bit for each cell that all jumps to an instruction leave written.
    let mut masks: Vec<u16> = Vec::new();
    masks
        .try_reserve_exact(insns.len())
        .map_err(|_| Error::NoMemory)?;
    masks.resize(insns.len(), ALL);
    let mut masks = masks.as_mut_slice();
    let mut written = 0;
    for (at, insn) in insns.iter().enumerate() {
        // There is one for each; that jumps and cells are within bounds has been checked.
        let (here, behind) = masks.split_first_mut().ok_or(Error::End)?;
        written &= *here;
        let cell = 1u16.wrapping_shl(insn.k);
        let mut jump = |skipped: usize| {
            if let Some(mask) = behind.get_mut(skipped) {
                *mask &= written;
            }
        };
        match insn.code {
            ST | STX => written |= cell,
            LD_MEM | LDX_MEM if written & cell == 0 => {
                return Err(Error::Unwritten { at, cell: insn.k });
            }
            JA => {
                jump(insn.k as usize);
                written = ALL;
            }
            _ if insn.is_conditional() => {
                jump(insn.jt.into());
                jump(insn.jf.into());
                written = ALL;
            }
            _ => {}
        }
        masks = behind;
    }
    Ok(())
}
