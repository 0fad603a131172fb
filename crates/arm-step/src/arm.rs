//! Arm instructions that may write the program counter.

use super::{Kind, Memory, State, Target, relative};

/// `CPSR.C`.
const CARRY: u32 = 29;

/// What the instruction `word` is, whose condition holds. `None`: what it loads cannot be read.
pub fn kind(state: &State, memory: &impl Memory, word: u32) -> Option<Kind> {
    let bit = |n: u32| word >> n & 1 != 0;
    let pc = state.registers[15];
    let offset = word << 2 & 0x03ff_fffc;
    if word >> 28 == 15 {
        // BLX: to Thumb.
        return Some(match word >> 25 & 7 {
            5 => {
                let to = relative(state.get(15), offset, 26).wrapping_add(word >> 23 & 2);
                Kind::call(Target::Exchange(to | 1), pc.wrapping_add(4))
            }
            _ => Kind::Plain,
        });
    }
    let register = state.get((word & 15) as usize);
    Some(match word >> 25 & 7 {
        // B, BL.
        5 => {
            let to = Target::To(relative(state.get(15), offset, 26));
            if bit(24) {
                Kind::call(to, pc.wrapping_add(4))
            } else {
                Kind::to(to)
            }
        }
        // BX, BXJ (where there is no Jazelle), BLX.
        0 if word & 0x0ff0_00d0 == 0x0120_0010 && bit(5) => {
            Kind::call(Target::Exchange(register), pc.wrapping_add(4))
        }
        0 if word & 0x0ff0_00f0 == 0x0120_0010 || word & 0x0ff0_00f0 == 0x0120_0020 => {
            Kind::exchange(register)
        }
        0 | 1 if writes_pc(word) => calculate(state, word).map_or(Kind::Plain, Kind::exchange),
        // LDR, without the half-words of `LDRB`, and with an offset that is no media instruction.
        2 | 3 if word & 0x0050_f000 == 0x0010_f000 && !(bit(25) && bit(4)) => {
            return load(state, memory, word);
        }
        _ => Kind::Plain,
    })
}

/// Whether it is a calculation with the program counter as its result. That which also sets the flags returns
/// from exceptions.
fn writes_pc(word: u32) -> bool {
    let bit = |n: u32| word >> n & 1 != 0;
    // Comparisons, and multiplications and accesses between them, are others. A register that is shifted by
    // another may not be for the program counter.
    let compares = word >> 23 & 3 == 2;
    word & 0xf000 == 0xf000 && !bit(20) && !compares && (bit(25) || !bit(4))
}

/// A register, shifted by a constant (A8.4.1), as an offset or operand.
fn shifted(state: &State, word: u32) -> u32 {
    let value = state.get((word & 15) as usize);
    let amount = word >> 7 & 31;
    match (word >> 5 & 3, amount) {
        (0, _) => value << amount,
        (1, 0) => 0,
        (1, _) => value >> amount,
        (2, 0) => ((value as i32) >> 31) as u32,
        (2, _) => ((value as i32) >> amount) as u32,
        (_, 0) => value >> 1 | (state.psr >> CARRY & 1) << 31,
        _ => value.rotate_right(amount),
    }
}

/// The result of a calculation (A5.2.1, A5.2.3).
fn calculate(state: &State, word: u32) -> Option<u32> {
    let a = state.get((word >> 16 & 15) as usize);
    let b = if word >> 25 & 1 != 0 {
        (word & 0xff).rotate_right(word >> 7 & 30)
    } else {
        shifted(state, word)
    };
    let carry = state.psr >> CARRY & 1;
    Some(match word >> 21 & 15 {
        0 => a & b,
        1 => a ^ b,
        2 => a.wrapping_sub(b),
        3 => b.wrapping_sub(a),
        4 => a.wrapping_add(b),
        5 => a.wrapping_add(b).wrapping_add(carry),
        6 => a.wrapping_sub(b).wrapping_sub(1 - carry),
        7 => b.wrapping_sub(a).wrapping_sub(1 - carry),
        12 => a | b,
        13 => b,
        14 => a & !b,
        15 => !b,
        _ => return None,
    })
}

/// `LDR` of the program counter. `None`: it cannot be read.
fn load(state: &State, memory: &impl Memory, word: u32) -> Option<Kind> {
    let bit = |n: u32| word >> n & 1 != 0;
    let base = (word >> 16 & 15) as usize;
    let (before, back) = (bit(24), bit(21));
    let offset = if bit(25) {
        shifted(state, word)
    } else {
        word & 0xfff
    };
    // As user mode would (`LDRT`), and from a program counter that changes: unpredictable.
    if !before && back || base == 15 && (!before || back) {
        return Some(Kind::Plain);
    }
    let at = state.get(base);
    let end = if bit(23) {
        at.wrapping_add(offset)
    } else {
        at.wrapping_sub(offset)
    };
    Some(Kind::Jump {
        to: Target::Exchange(memory.word(if before { end } else { at })?),
        link: None,
        write_back: (!before || back).then_some((base, end)),
    })
}
