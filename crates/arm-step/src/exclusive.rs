//! Sequences of an exclusive load and its store.

use super::{Memory, State, Stops, length, relative};
use limen_arm_align::{Instruction, fetch};

/// How many instructions a sequence has at most. The manual asks programs for far fewer (A3.4.5).
const LONGEST: usize = 16;

/// What an instruction is in such a sequence.
enum Part {
    Store,
    /// A branch to an address in the same instruction set, under a condition or not.
    Branch(u32),
    /// It goes where only its execution tells.
    Unknown,
    Other,
}

/// Bits 7 to 4 of the second half of Thumb's exclusive accesses to bytes, half-words and pairs; and words,
/// with acquire or release.
fn is_narrow(second: u32) -> bool {
    matches!(second >> 4 & 15, 4 | 5 | 7 | 12..=15)
}

/// Whether it is an exclusive load: `LDREX`, `LDAEX`, of any size.
pub fn loads(instruction: Instruction) -> bool {
    match instruction {
        Instruction::Arm(word) => word >> 28 != 15 && word & 0x0f90_0ef0 == 0x0190_0e90,
        Instruction::Thumb(_) => false,
        Instruction::Thumb2(first, second) => match first & 0xfff0 {
            0xe850 => true,
            0xe8d0 => is_narrow(u32::from(second)),
            _ => false,
        },
    }
}

fn stores(instruction: Instruction) -> bool {
    match instruction {
        Instruction::Arm(word) => word >> 28 != 15 && word & 0x0f90_0ef0 == 0x0180_0e90,
        Instruction::Thumb(_) => false,
        Instruction::Thumb2(first, second) => match first & 0xfff0 {
            0xe840 => true,
            0xe8c0 => is_narrow(u32::from(second)),
            _ => false,
        },
    }
}

/// What an instruction, at r15 of `state`, is; nothing of the state but that, and which set it is in, is
/// known.
fn part(state: &State, instruction: Instruction) -> Part {
    if stores(instruction) {
        return Part::Store;
    }
    let pc = state.get(15);
    match instruction {
        Instruction::Arm(word) => match word >> 25 & 7 {
            _ if word >> 28 == 15 => Part::Other,
            5 if word >> 24 & 1 == 0 => Part::Branch(relative(pc, word << 2 & 0x03ff_fffc, 26)),
            5 => Part::Unknown,
            7 if word >> 24 & 1 != 0 => Part::Unknown,
            0 if word & 0x0ff0_00c0 == 0x0120_0000 && word & 0x30 != 0 => Part::Unknown,
            4 if word >> 15 & 1 != 0 => Part::Unknown,
            0 | 1 if word & 0xf000 == 0xf000 && word >> 23 & 3 != 2 => Part::Unknown,
            2 | 3 if word & 0xf000 == 0xf000 => Part::Unknown,
            _ => Part::Other,
        },
        Instruction::Thumb(half) => {
            let half = u32::from(half);
            match half >> 8 {
                0x44 | 0x46 if half & 0x87 == 0x87 => Part::Unknown,
                0x47 | 0xbd | 0xbe | 0xde | 0xdf => Part::Unknown,
                0xb1 | 0xb3 | 0xb9 | 0xbb => {
                    Part::Branch(pc.wrapping_add(half >> 3 & 0x40 | half >> 2 & 0x3e))
                }
                0xd0..=0xdd => Part::Branch(relative(pc, half << 1 & 0x1fe, 9)),
                0xe0..=0xe7 => Part::Branch(relative(pc, half << 1 & 0xffe, 12)),
                _ => Part::Other,
            }
        }
        Instruction::Thumb2(first, second) => {
            let (first, second) = (u32::from(first), u32::from(second));
            if first >> 11 == 0x1e && second >> 15 == 1 {
                return super::thumb::plain_branch(pc, first, second).map_or_else(
                    // Barriers are in the middle of the other branches.
                    || {
                        if first & 0xfff0 == 0xf3b0 && second & 0xd000 == 0x8000 {
                            Part::Other
                        } else {
                            Part::Unknown
                        }
                    },
                    Part::Branch,
                );
            }
            let to_pc = first & 0xff70 == 0xf850 && second >> 12 == 15;
            let multiple = first & 0xfe50 == 0xe810 && second >> 15 == 1;
            let table = first & 0xfff0 == 0xe8d0 && second & 0xffe0 == 0xf000;
            if to_pc || multiple || table {
                Part::Unknown
            } else {
                Part::Other
            }
        }
    }
}

/// Where a sequence ends that begins at r15. `None`: it is none that can be followed.
pub fn sequence(state: &State, memory: &impl Memory) -> Option<Stops> {
    let begin = state.registers[15];
    let mut at = *state;
    let mut leaves = [0; LONGEST];
    let mut count = 0;
    for _ in 0..LONGEST {
        let instruction = fetch(&at, memory)?;
        let part = part(&at, instruction);
        at.registers[15] = at.registers[15].wrapping_add(length(instruction));
        match part {
            Part::Store => {
                let end = at.registers[15];
                let mut stops = Stops::one(end);
                for to in leaves.into_iter().take(count) {
                    if !(begin..end).contains(&to) {
                        stops.add(to)?;
                    }
                }
                return Some(stops);
            }
            Part::Branch(to) => {
                *leaves.get_mut(count)? = to;
                count += 1;
            }
            Part::Unknown => return None,
            Part::Other => {}
        }
    }
    None
}
