//! Addresses of which one instruction has made one half, by register: what a processor's pairs of
//! instructions make.
//!
//! The instructions are gone through in their order. What registers hold is taken along to the targets of
//! branches that lie ahead, and forgotten behind jumps, returns and, where a call may change them, calls.
//! What only a table of jumps or a branch backwards leads to begins with nothing.

use std::collections::BTreeMap;

use crate::noinstr::Flow;

type Registers = [Option<u64>; 32];

/// How halves are put together.
#[derive(Clone, Copy)]
pub enum Pairs {
    Arm64,
    Arm,
    /// With the address of the table of contents.
    Powerpc64(u64),
}

impl Pairs {
    /// Registers that a called function leaves as they are (AAPCS64 6.1.1, AAPCS32 6.1.1, ELFv2 2.2.1.1).
    fn kept_by_calls(self) -> u32 {
        match self {
            Self::Arm64 => 0x3ff8_0000,
            Self::Arm => 0x2ff0,
            Self::Powerpc64(_) => 0xffff_e006,
        }
    }
}

/// What registers hold while the instructions of a section are gone through.
pub struct Halves {
    pairs: Pairs,
    registers: Registers,
    /// What they hold at targets that lie ahead.
    ahead: BTreeMap<u64, Registers>,
}

impl Halves {
    pub fn new(pairs: Pairs) -> Self {
        Self {
            pairs,
            registers: Registers::default(),
            ahead: BTreeMap::new(),
        }
    }

    /// Comes to the instruction `word` at `address`; the address of which it makes the other half.
    pub fn step(&mut self, word: u32, address: u64, flow: Flow) -> Option<u64> {
        while let Some(entry) = self.ahead.first_entry().filter(|entry| *entry.key() <= address) {
            let (at, held) = entry.remove_entry();
            if at == address {
                for (register, held) in self.registers.iter_mut().zip(held) {
                    *register = register.or(held);
                }
            }
        }
        match flow {
            Flow::Next | Flow::ReturnIf => return self.next(word, address),
            Flow::Branch(target) => self.take_along(address, target),
            Flow::Jump(target) => {
                self.take_along(address, target);
                self.registers = Registers::default();
            }
            Flow::Call(_) | Flow::IndirectCall => self.forget(!self.pairs.kept_by_calls()),
            Flow::IndirectJump | Flow::Return | Flow::End => self.registers = Registers::default(),
        }
        match flow {
            Flow::Jump(target) | Flow::Branch(target) | Flow::Call(target) => Some(target),
            _ => None,
        }
    }

    /// The path ends here, with a call that never returns.
    pub fn end(&mut self) {
        self.registers = Registers::default();
    }

    fn take_along(&mut self, address: u64, target: u64) {
        if target <= address || self.registers.iter().all(Option::is_none) {
            return;
        }
        let there = self.ahead.entry(target).or_default();
        for (there, held) in there.iter_mut().zip(self.registers) {
            *there = there.or(held);
        }
    }

    fn forget(&mut self, which: u32) {
        for (n, register) in self.registers.iter_mut().enumerate() {
            if which >> n & 1 != 0 {
                *register = None;
            }
        }
    }

    fn next(&mut self, word: u32, address: u64) -> Option<u64> {
        match self.pairs {
            Pairs::Arm64 => self.adr(word, address),
            Pairs::Arm => self.movw(word),
            Pairs::Powerpc64(toc) => self.addis(word, toc),
        }
    }

    /// 64-bit Arm: ADR; ADRP, and what adds to it (ADD, loads and stores).
    fn adr(&mut self, word: u32, address: u64) -> Option<u64> {
        let (to, from) = ((word & 31) as usize, (word >> 5 & 31) as usize);
        let low = u64::from(word >> 10 & 0xfff);
        let immediate = (word >> 3 & 0x1f_fffc | word >> 29 & 3) << 11;
        let offset = i64::from(immediate as i32 >> 11);
        let page = self.registers[from];
        self.forget(arm64_writes(word));
        match word & 0x9f00_0000 {
            0x1000_0000 => return Some(address.wrapping_add_signed(offset)),
            0x9000_0000 => {
                self.registers[to] = Some((address & !0xfff).wrapping_add_signed(offset << 12));
                return None;
            }
            _ => {}
        }
        if word & 0xffc0_0000 == 0x9100_0000 {
            return Some(page? + low);
        }
        // Loads and stores at a distance that is a number; of more than 8 bytes if it is of vectors.
        let is_access = word & 0x3b00_0000 == 0x3900_0000;
        let is_vector = word & 0x0480_0000 == 0x0480_0000 && word >> 30 == 0;
        let shift = if is_vector { 4 } else { word >> 30 };
        if is_access {
            Some(page? + (low << shift))
        } else {
            None
        }
    }

    /// 32-bit Arm: MOVW, MOVT. They come as a pair, so that whatever else writes a register does not matter.
    fn movw(&mut self, word: u32) -> Option<u64> {
        let register = (word >> 12 & 0xf) as usize;
        let immediate = u64::from(word >> 4 & 0xf000 | word & 0xfff);
        match word & 0x0ff0_0000 {
            0x0300_0000 => {
                self.registers[register] = Some(immediate);
                None
            }
            0x0340_0000 => Some(immediate << 16 | self.registers[register].take()?),
            _ => None,
        }
    }

    /// 64-bit Power: what is at a distance from the table of contents, whose address is in r2.
    fn addis(&mut self, word: u32, toc: u64) -> Option<u64> {
        let (to, from) = ((word >> 21 & 31) as usize, (word >> 16 & 31) as usize);
        let immediate = i64::from(word as i16);
        let base = match from {
            // It stands for the number zero.
            0 => None,
            2 => Some(toc),
            _ => self.registers[from],
        };
        self.forget(powerpc64_writes(word));
        let displacement = match word >> 26 {
            15 if from == 2 => {
                self.registers[to] = Some(toc.wrapping_add_signed(immediate << 16));
                return None;
            }
            // The address of the table of contents itself, at the beginning of a function.
            14 if to == 2 => return None,
            14 | 32 | 34 | 36 | 38 | 40 | 42 | 44 | 48 | 50 | 52 | 54 => immediate,
            58 | 62 => immediate & !3,
            _ => return None,
        };
        Some(base?.wrapping_add_signed(displacement))
    }
}

/// Which general registers an A64 instruction writes, a bit each (Arm Architecture Reference Manual, C4.1);
/// that of register 31 means nothing.
fn arm64_writes(word: u32) -> u32 {
    let field = |shift: u32| 1u32 << (word >> shift & 31);
    let is_vector = word >> 26 & 1 != 0;
    let is_load = word >> 22 & 1 != 0;
    match word >> 25 & 0xf {
        // Data processing with a number; with registers, but conditional comparisons.
        8 | 9 => field(0),
        5 | 13 if word & 0x1fe0_0000 != 0x1a40_0000 => field(0),
        // MRS, SYSL
        10 | 11 if word & 0xffe0_0000 == 0xd520_0000 => field(0),
        4 | 6 | 12 | 14 => match word >> 27 & 7 {
            // Exclusive, ordered, compare and swap: a status or the old value, and what is loaded.
            1 if is_vector => 0,
            1 if is_load => field(16) | field(0) | field(10),
            1 => field(16),
            // From beside the code.
            3 if !is_vector => field(0),
            // Two at once.
            5 => {
                let loaded = if is_load && !is_vector {
                    field(0) | field(10)
                } else {
                    0
                };
                let moved = if word >> 23 & 1 != 0 { field(5) } else { 0 };
                loaded | moved
            }
            // Prefetching.
            7 if word & 0xffc0_0000 == 0xf980_0000 => 0,
            7 => {
                let (is_number, has_21) = (word >> 24 & 1 != 0, word >> 21 & 1 != 0);
                let form = word >> 10 & 3;
                let is_atomic = !is_number && has_21 && form == 0;
                let loaded = !is_vector && (word >> 22 & 3 != 0 || is_atomic);
                let moves = !is_number && !has_21 && form & 1 != 0;
                (if loaded { field(0) } else { 0 }) | if moves { field(5) } else { 0 }
            }
            _ => 0,
        },
        _ => 0,
    }
}

/// Which general registers a Power instruction writes, a bit each; perhaps more of one that this does not
/// know (Power ISA 3.1, book I, 3.3).
fn powerpc64_writes(word: u32) -> u32 {
    let (to, base) = (1u32 << (word >> 21 & 31), 1u32 << (word >> 16 & 31));
    match word >> 26 {
        7 | 8 | 12..=15 | 32 | 34 | 40 | 42 => to,
        20 | 21 | 23..=30 => base,
        33 | 35 | 41 | 43 => to | base,
        // lmw: that one and all behind it.
        46 => to.wrapping_neg(),
        // Stores, floating point; with the address kept.
        36 | 38 | 44 | 47 | 48 | 50 | 52 | 54 => 0,
        37 | 39 | 45 | 49 | 51 | 53 | 55 => base,
        58 if word & 3 == 1 => to | base,
        58 => to,
        62 if word & 3 == 1 => base,
        62 => 0,
        // Comparisons, what is in the group of the branches.
        10 | 11 | 16..=19 => 0,
        _ => to | base,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arm64_instructions_write() {
        for (word, registers) in [
            // add x2, x0, 0x10; mov x3, x4; ccmp x1, x2, #0, eq; mrs x5, tpidr_el1; nop
            (0x9100_4002, 1 << 2),
            (0xaa04_03e3, 1 << 3),
            (0xfa42_0020, 0),
            (0xd538_d085, 1 << 5),
            (0xd503_201f, 0),
            // str x3, [x0, 0x18]; ldr x3, [x0, 0x18]; str x3, [x0, 8]!; ldr x3, [x0], 8; prfm [x0]
            (0xf900_0c03, 0),
            (0xf940_0c03, 1 << 3),
            (0xf800_8c03, 1),
            (0xf840_8403, 1 << 3 | 1),
            (0xf980_0000, 0),
            // stp x29, x30, [sp, -16]!; ldp x1, x2, [x0]; ldxr x1, [x0]; stxr w2, x1, [x0];
            // ldadd x1, x2, [x0]
            (0xa9bf_7bfd, 1 << 31),
            (0xa940_0801, 1 << 1 | 1 << 2),
            (0xc85f_7c01, 1 << 1 | 1 << 31),
            (0xc802_7c01, 1 << 2),
            (0xf821_0002, 1 << 2),
        ] {
            assert_eq!(arm64_writes(word), registers, "{word:#x}");
        }
    }

    #[test]
    fn what_powerpc64_instructions_write() {
        for (word, registers) in [
            // addi 3, 4, 8; ori 5, 3, 1; lwz 3, 4(4); lwzu 3, 4(4); stw 3, 4(4); stdu 1, -32(1); std 3, 8(1)
            (0x3864_0008, 1 << 3),
            (0x6065_0001, 1 << 5),
            (0x8064_0004, 1 << 3),
            (0x8464_0004, 1 << 3 | 1 << 4),
            (0x9064_0004, 0),
            (0xf821_ffe1, 1 << 1),
            (0xf861_0008, 0),
            // cmpdi 3, 0; mr 4, 3 (one or the other)
            (0x2c23_0000, 0),
            (0x7c64_1b78, 1 << 3 | 1 << 4),
        ] {
            assert_eq!(powerpc64_writes(word), registers, "{word:#x}");
        }
    }
}
