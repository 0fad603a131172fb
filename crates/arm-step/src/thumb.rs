//! Thumb instructions that may write the program counter.

use super::{Kind, Memory, State, Target, holds, relative};

/// What an instruction of two bytes is, whose condition holds.
pub fn kind(state: &State, half: u32) -> Option<Kind> {
    let pc = state.get(15);
    let register = |n: u32| state.get((n & 15) as usize);
    Some(match half >> 8 {
        // ADD and MOV of any registers: to the program counter.
        0x44 if half & 0x87 == 0x87 => Kind::to(Target::To(pc.wrapping_add(register(half >> 3)))),
        0x46 if half & 0x87 == 0x87 => Kind::to(Target::To(register(half >> 3))),
        // BX, BLX.
        0x47 if half & 0x80 != 0 => {
            let back = state.registers[15].wrapping_add(2) | 1;
            Kind::call(Target::Exchange(register(half >> 3)), back)
        }
        0x47 => Kind::exchange(register(half >> 3)),
        // CBZ, CBNZ.
        0xb1 | 0xb3 | 0xb9 | 0xbb => {
            let is_zero = register(half & 7) == 0;
            if is_zero == (half >> 11 & 1 != 0) {
                return Some(Kind::Plain);
            }
            let offset = half >> 3 & 0x40 | half >> 2 & 0x3e;
            Kind::to(Target::To(pc.wrapping_add(offset)))
        }
        // B, with a condition of its own. 14 is undefined, 15 a system call.
        0xd0..=0xdd if holds(state.psr, half >> 8 & 15) => {
            Kind::to(Target::To(relative(pc, half << 1 & 0x1fe, 9)))
        }
        // B.
        0xe0..=0xe7 => Kind::to(Target::To(relative(pc, half << 1 & 0xffe, 12))),
        _ => Kind::Plain,
    })
}

/// The offset of a wide branch without a condition (A8.8.18, encoding T4).
fn far(first: u32, second: u32) -> u32 {
    let sign = first >> 10 & 1;
    let [j1, j2] = [13, 11].map(|n| !(second >> n ^ sign) & 1);
    sign << 24 | j1 << 23 | j2 << 22 | (first & 0x3ff) << 12 | (second & 0x7ff) << 1
}

/// What an instruction of four bytes is, whose condition holds. `None`: what it loads cannot be read.
pub fn wide_kind(state: &State, memory: &impl Memory, first: u32, second: u32) -> Option<Kind> {
    let pc = state.get(15);
    if first >> 11 == 0x1e && second >> 15 == 1 {
        return Some(branch(state, pc, first, second));
    }
    let base = (first & 15) as usize;
    // TBB, TBH.
    if first & 0xfff0 == 0xe8d0 && second & 0xffe0 == 0xf000 {
        let index = state.get((second & 15) as usize);
        let table = state.get(base);
        let entry = if second & 0x10 != 0 {
            u32::from(memory.half(table.wrapping_add(index << 1))?)
        } else {
            let at = table.wrapping_add(index);
            u32::from(memory.half(at & !1)?) >> (8 * (at & 1)) & 0xff
        };
        return Some(Kind::to(Target::To(pc.wrapping_add(2 * entry))));
    }
    // LDR.
    if first & 0xff70 == 0xf850 && second >> 12 == 15 {
        return load(state, memory, base, first, second);
    }
    Some(Kind::Plain)
}

/// The offset of a wide branch with a condition (A8.8.18, encoding T3).
fn near(first: u32, second: u32) -> u32 {
    let [sign, j2, j1] = [first >> 10, second >> 11, second >> 13].map(|bit| bit & 1);
    sign << 20 | j2 << 19 | j1 << 18 | (first & 0x3f) << 12 | (second & 0x7ff) << 1
}

/// Where `B`, which is one of those, goes if it does.
pub fn plain_branch(pc: u32, first: u32, second: u32) -> Option<u32> {
    match second >> 12 & 5 {
        0 if first >> 7 & 7 != 7 => Some(relative(pc, near(first, second), 21)),
        1 => Some(relative(pc, far(first, second), 25)),
        _ => None,
    }
}

/// Branches, and what lies between them (A6.3.4).
fn branch(state: &State, pc: u32, first: u32, second: u32) -> Kind {
    let back = state.registers[15].wrapping_add(4) | 1;
    match second >> 12 & 5 {
        // B with a condition; with 14 and 15 in its place it is something else. BXJ is among these.
        0 if first >> 7 & 7 != 7 => {
            if !holds(state.psr, first >> 6 & 15) {
                return Kind::Plain;
            }
            Kind::to(Target::To(relative(pc, near(first, second), 21)))
        }
        0 if first & 0xfff0 == 0xf3c0 && second & 0xd000 == 0x8000 => {
            Kind::exchange(state.get((first & 15) as usize))
        }
        1 => Kind::to(Target::To(relative(pc, far(first, second), 25))),
        // BLX: to Arm.
        4 if second & 1 == 0 => {
            let to = relative(pc & !3, far(first, second), 25);
            Kind::call(Target::Exchange(to & !3), back)
        }
        5 => Kind::call(Target::To(relative(pc, far(first, second), 25)), back),
        _ => Kind::Plain,
    }
}

/// `LDR` of the program counter (A6.3.7). `None`: it cannot be read.
fn load(state: &State, memory: &impl Memory, base: usize, first: u32, second: u32) -> Option<Kind> {
    let bit = |n: u32| second >> n & 1 != 0;
    let at = state.get(base);
    let moved = |up: bool, by: u32| {
        if up {
            at.wrapping_add(by)
        } else {
            at.wrapping_sub(by)
        }
    };
    let (from, write_back) = match (base, first >> 7 & 1 != 0) {
        // Beside the program counter.
        (15, up) => {
            let by = second & 0xfff;
            let at = at & !3;
            let from = if up {
                at.wrapping_add(by)
            } else {
                at.wrapping_sub(by)
            };
            (from, None)
        }
        (_, true) => (moved(true, second & 0xfff), None),
        _ if bit(11) => {
            let (before, up, back) = (bit(10), bit(9), bit(8));
            // Undefined, and as user mode would (`LDRT`).
            if !back && (up || !before) {
                return Some(Kind::Plain);
            }
            let end = moved(up, second & 0xff);
            (if before { end } else { at }, back.then_some((base, end)))
        }
        _ if second & 0xfc0 == 0 => {
            let by = state.get((second & 15) as usize) << (second >> 4 & 3);
            (moved(true, by), None)
        }
        _ => return Some(Kind::Plain),
    };
    Some(Kind::Jump {
        to: Target::Exchange(memory.word(from)?),
        link: None,
        write_back,
    })
}
