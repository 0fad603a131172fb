//! Unaligned accesses that a 32-bit Arm processor refuses: load and store multiple and double. [`decode`]
//! decodes them, [`fix`] does them byte by byte.
//!
//! The processor does unaligned accesses to words and half-words by itself (Arm Architecture Reference
//! Manual, ARMv7-A and ARMv7-R edition, A3.2.1 "Unaligned data access"). Exclusive and floating-point
//! accesses are not fixed up. Encodings are in A5.3 and A5.5 (Arm), A6.2 and A6.3 (Thumb), and at each
//! instruction in A8.8. The caller provides registers and memory.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

/// `CPSR.T`: Thumb.
const PSR_T: u32 = 1 << 5;
/// `CPSR.IT`: the state of an `it` block, in two places.
const PSR_IT: u32 = 0x3f << 10 | 3 << 25;

/// How many bytes the address that an abort reports can be from the start of the access: a list has at most
/// 16 words.
const FARTHEST: u32 = 64;

/// The program's memory.
pub trait Memory {
    /// Loads two bytes of an instruction; `None` if they cannot be read.
    fn half(&self, at: u32) -> Option<u16>;
    /// Loads four bytes from any address; `None` if they cannot be read.
    fn word(&self, at: u32) -> Option<u32>;
    /// Stores four bytes at any address; `None` if they cannot be written.
    fn set_word(&mut self, at: u32, word: u32) -> Option<()>;
}

/// The program's registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// r0 to r15. r15 is the address of the instruction.
    pub registers: [u32; 16],
    /// The `CPSR`.
    pub psr: u32,
}

/// An instruction, as read from memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Arm.
    Arm(u32),
    /// Thumb, of two bytes.
    Thumb(u16),
    /// Thumb, of four bytes.
    Thumb2(u16, u16),
}

/// Registers, in the order in which they lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registers {
    /// Bit n: register n.
    List(u32),
    /// Two registers. The second one need not follow the first.
    Pair(usize, usize),
}

impl Registers {
    /// Register `n` of them. `None`: there are fewer.
    fn get(self, n: usize) -> Option<usize> {
        match self {
            Self::List(list) => (0..16).filter(|r| list >> r & 1 != 0).nth(n),
            Self::Pair(first, second) => [first, second].get(n).copied(),
        }
    }
}

/// A load or store of several registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// `true`: a load; `false`: a store.
    pub load: bool,
    /// Which registers.
    pub registers: Registers,
    /// The address of the first one.
    pub start: u32,
    /// The base register and its new value.
    pub write_back: Option<(usize, u32)>,
}

impl Access {
    /// Whether the program goes on where it says.
    pub fn loads_pc(&self) -> bool {
        self.load && matches!(self.registers, Registers::List(list) if list >> 15 & 1 != 0)
    }
}

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done: the program continues behind the instruction.
    Done,
    /// The memory at this address cannot be accessed.
    Fault(u32),
    /// The instruction is not one that is fixed up.
    Unknown,
}

/// Does what the instruction at r15 was to do at the unaligned address `addr`. After a fault no register has
/// changed. As on Linux, r15 is behind an instruction that is not fixed up.
pub fn fix(state: &mut State, memory: &mut impl Memory, addr: u32) -> Outcome {
    let pc = state.registers[15];
    let Some(instruction) = fetch(state, memory) else {
        return Outcome::Fault(pc);
    };
    let length = match instruction {
        Instruction::Thumb(_) => 2,
        Instruction::Arm(_) | Instruction::Thumb2(..) => 4,
    };
    // The list may begin on the page before the reported address, but not farther away.
    let Some(access) = decode(state, instruction).filter(|a| a.start.abs_diff(addr) <= FARTHEST) else {
        state.registers[15] = pc.wrapping_add(length);
        return Outcome::Unknown;
    };
    if let Err(at) = state.run(memory, &access) {
        return Outcome::Fault(at);
    }
    if !access.loads_pc() {
        state.registers[15] = pc.wrapping_add(length);
    }
    state.advance_it();
    Outcome::Done
}

/// Whether the instruction at `pc` is one that debuggers use as a breakpoint (undefined instructions that
/// Linux reserves for that).
pub fn is_breakpoint(memory: &impl Memory, thumb: bool, pc: u32) -> bool {
    let half = |at| memory.half(at).map_or(0, u32::from);
    let word = half(pc) | half(pc.wrapping_add(2)) << 16;
    if thumb {
        word & 0xffff == 0xde01 || word == 0xa000_f7f0
    } else {
        word & 0x0fff_ffff == 0x07f0_01f0
    }
}

/// Whether the instruction at `pc` is `BKPT` (A8.8.24).
pub fn is_bkpt(memory: &impl Memory, thumb: bool, pc: u32) -> bool {
    if thumb {
        memory.half(pc).is_some_and(|half| half >> 8 == 0xbe)
    } else {
        memory
            .word(pc)
            .is_some_and(|word| word & 0x0ff0_00f0 == 0x0120_0070)
    }
}

/// The instruction at r15. The first half of a Thumb instruction tells whether there is a second (A6.1).
/// `None`: it cannot be read.
pub fn fetch(state: &State, memory: &impl Memory) -> Option<Instruction> {
    let pc = state.registers[15];
    if !state.thumb() {
        return memory.word(pc).map(Instruction::Arm);
    }
    let first = memory.half(pc)?;
    if first >> 11 < 0x1d {
        return Some(Instruction::Thumb(first));
    }
    let second = memory.half(pc.wrapping_add(2))?;
    Some(Instruction::Thumb2(first, second))
}

/// What the instruction means in this state; `None` if it is not a load or store multiple or double.
pub fn decode(state: &State, instruction: Instruction) -> Option<Access> {
    match instruction {
        Instruction::Arm(word) => state.arm(word),
        Instruction::Thumb(half) => state.thumb16(u32::from(half)),
        Instruction::Thumb2(first, second) => state.thumb32(u32::from(first), u32::from(second)),
    }
}

/// How an address is made of a base register and an offset.
#[derive(Clone, Copy)]
struct Mode {
    base: usize,
    up: bool,
    /// The offset is added before the access; else only for the write-back.
    before: bool,
    back: bool,
}

impl State {
    /// Whether the program is in Thumb state.
    pub fn thumb(&self) -> bool {
        self.psr & PSR_T != 0
    }

    /// A register as instructions see it: r15 is two instructions ahead.
    pub fn get(&self, n: usize) -> u32 {
        let ahead = match n {
            15 if self.thumb() => 4,
            15 => 8,
            _ => 0,
        };
        self.registers[n].wrapping_add(ahead)
    }

    /// Loads a register. The lowest bit of what is loaded into r15 selects Arm or Thumb (A2.3.1).
    pub fn load(&mut self, n: usize, value: u32) {
        self.registers[n] = value;
        if n == 15 {
            self.psr = self.psr & !PSR_T | (value & 1) << 5;
            self.registers[n] &= !1;
        }
    }

    /// The instruction is done: advances the state of an `it` block (A2.5.2).
    pub fn advance_it(&mut self) {
        let it = self.psr >> 8 & 0xfc | self.psr >> 25 & 3;
        let next = if it & 7 == 0 {
            0
        } else {
            it & 0xe0 | it << 1 & 0x1f
        };
        self.psr = self.psr & !PSR_IT | (next & 0xfc) << 8 | (next & 3) << 25;
    }

    /// Moves the words. `Err`: the address that cannot be accessed.
    fn run(&mut self, memory: &mut impl Memory, access: &Access) -> Result<(), u32> {
        let mut loaded = [0; 16];
        let mut at = access.start;
        for (n, value) in loaded.iter_mut().enumerate() {
            let Some(r) = access.registers.get(n) else {
                break;
            };
            if access.load {
                *value = memory.word(at).ok_or(at)?;
            } else {
                memory.set_word(at, self.get(r)).ok_or(at)?;
            }
            at = at.wrapping_add(4);
        }
        if let Some((base, value)) = access.write_back {
            self.load(base, value);
        }
        if access.load {
            for (n, value) in loaded.into_iter().enumerate() {
                if let Some(r) = access.registers.get(n) {
                    self.load(r, value);
                }
            }
        }
        Ok(())
    }

    /// A list of registers. The lowest-numbered register is at the lowest address.
    fn multiple(&self, load: bool, list: u32, mode: Mode) -> Option<Access> {
        let at = self.get(mode.base);
        let bytes = list.count_ones() * 4;
        let end = mode.end(at, bytes);
        let low = if mode.up { at } else { end };
        Some(Access {
            load,
            registers: Registers::List(list),
            start: if mode.before == mode.up {
                low.wrapping_add(4)
            } else {
                low
            },
            write_back: mode.back.then_some((mode.base, end)),
        })
    }

    /// A pair of registers; `None` if `second` is no register.
    fn double(&self, load: bool, first: u32, second: u32, offset: u32, mode: Mode) -> Option<Access> {
        let at = self.get(mode.base) & if mode.base == 15 { !3 } else { !0 };
        let end = mode.end(at, offset);
        (second < 16).then_some(Access {
            load,
            registers: Registers::Pair(first as usize, second as usize),
            start: if mode.before { end } else { at },
            write_back: mode.back.then_some((mode.base, end)),
        })
    }

    fn arm(&self, word: u32) -> Option<Access> {
        let bit = |n: u32| word >> n & 1 != 0;
        let mode = Mode {
            base: (word >> 16 & 15) as usize,
            up: bit(23),
            before: bit(24),
            back: bit(21),
        };
        if word >> 28 == 15 {
            return None;
        }
        // LDM, STM (A5.5), except those that use the registers of another mode.
        if word & 0x0e40_0000 == 0x0800_0000 {
            return self.multiple(bit(20), word & 0xffff, mode);
        }
        // LDRD (bit 5 clear), STRD (A5.2.8).
        if word & 0x0e10_00d0 == 0x0000_00d0 {
            let first = word >> 12 & 15;
            let offset = if bit(22) {
                word >> 4 & 0xf0 | word & 15
            } else {
                self.get((word & 15) as usize)
            };
            let back = mode.back || !mode.before;
            return self.double(!bit(5), first, first + 1, offset, Mode { back, ..mode });
        }
        None
    }

    fn thumb16(&self, half: u32) -> Option<Access> {
        let load = half >> 11 & 1 != 0;
        let low = half & 0xff;
        match half >> 12 {
            // STM, LDM (A6.2). If the base is in the list of a load, there is no write-back.
            0xc => {
                let base = (half >> 8 & 7) as usize;
                let mode = Mode {
                    base,
                    up: true,
                    before: false,
                    back: !load || low >> base & 1 == 0,
                };
                self.multiple(load, low, mode)
            }
            // PUSH, with lr, POP, with pc (A6.2.5).
            0xb if half >> 9 & 3 == 2 => {
                let extra = (half >> 8 & 1) << if load { 15 } else { 14 };
                let mode = Mode {
                    base: 13,
                    up: load,
                    before: !load,
                    back: true,
                };
                self.multiple(load, low | extra, mode)
            }
            _ => None,
        }
    }

    fn thumb32(&self, first: u32, second: u32) -> Option<Access> {
        let bit = |n: u32| first >> n & 1 != 0;
        let mode = Mode {
            base: (first & 15) as usize,
            up: bit(7),
            before: bit(8),
            back: bit(5),
        };
        match first >> 6 {
            // LDM, STM, LDMDB, STMDB (A6.3.5).
            0b11_1010_0010 | 0b11_1010_0100 => self.multiple(bit(4), second, mode),
            // LDRD, STRD (A6.3.6), not the exclusive accesses and table branches among them.
            n if n >> 3 == 0b111_0100 && bit(6) && (bit(8) || bit(5)) => {
                let offset = (second & 0xff) << 2;
                self.double(bit(4), second >> 12 & 15, second >> 8 & 15, offset, mode)
            }
            _ => None,
        }
    }
}

impl Mode {
    /// The base register's value after a write-back.
    fn end(self, at: u32, offset: u32) -> u32 {
        if self.up {
            at.wrapping_add(offset)
        } else {
            at.wrapping_sub(offset)
        }
    }
}

#[cfg(test)]
mod tests;
