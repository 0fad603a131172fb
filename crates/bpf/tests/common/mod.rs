//! What the tests share: an interpreter written from the manual's bits, generators, and names for
//! instructions.

#![allow(dead_code, reason = "not every test needs everything")]

use limen_bpf::insn::code::*;
use limen_bpf::program::WORDS;
use limen_bpf::{Insn, MEM_WORDS, Words};

/// `SECCOMP_RET_ALLOW` and others.
pub const ALLOW: u32 = 0x7fff_0000;
pub const ERRNO: u32 = 0x0005_0000;
/// `AUDIT_ARCH_X86_64`.
pub const X86_64: u32 = 0xc000_003e;

/// An instruction that does not jump on a condition.
pub fn stmt(code: u16, k: u32) -> Insn {
    jump(code, k, 0, 0)
}

/// Any instruction.
pub fn jump(code: u16, k: u32, jt: u8, jf: u8) -> Insn {
    Insn { code, jt, jf, k }
}

/// Every code that seccomp takes.
pub const SECCOMP: [u16; 41] = [
    LD_W_ABS, LD_W_LEN, LDX_W_LEN, LD_IMM, LD_MEM, LDX_IMM, LDX_MEM, ST, STX, ADD_K, ADD_X, SUB_K, SUB_X,
    MUL_K, MUL_X, DIV_K, DIV_X, OR_K, OR_X, AND_K, AND_X, XOR_K, XOR_X, LSH_K, LSH_X, RSH_K, RSH_X, NEG, JA,
    JEQ_K, JEQ_X, JGT_K, JGT_X, JGE_K, JGE_X, JSET_K, JSET_X, RET_K, RET_A, TAX, TXA,
];

/// Every code that is classic BPF, and none that seccomp takes.
pub const FOREIGN: [u16; 8] = [
    LD_H_ABS, LD_B_ABS, LD_W_IND, LD_H_IND, LD_B_IND, LDX_B_MSH, MOD_K, MOD_X,
];

/// Runs a program the slow way: by the bits of the codes, over bytes, with bounds that are looked at. What is
/// returned, and the number of instructions that ran. Panics where a checked program cannot get.
pub fn reference(program: &[Insn], data: &[u8; 64]) -> (u32, usize) {
    let (mut a, mut x) = (0u32, 0u32);
    let mut mem = [None; MEM_WORDS];
    let (mut pc, mut count) = (0usize, 0);
    loop {
        let Insn { code, jt, jf, k } = program[pc];
        pc += 1;
        count += 1;
        let operand = if code & 0x08 != 0 { x } else { k };
        match code & 7 {
            // LD and LDX: the mode is in the upper three bits.
            class @ (0 | 1) => {
                let value = match code >> 5 {
                    0 => k,
                    1 => {
                        assert_eq!(code, 0x20);
                        u32::from_ne_bytes(data[k as usize..][..4].try_into().unwrap())
                    }
                    3 => mem[k as usize].expect("read before it was written"),
                    4 => 64,
                    mode => panic!("mode {mode}"),
                };
                *(if class == 0 { &mut a } else { &mut x }) = value;
            }
            2 => mem[k as usize] = Some(a),
            3 => mem[k as usize] = Some(x),
            4 => {
                let (wide, by) = (u64::from(a), u64::from(operand));
                a = match code >> 4 {
                    0 => wide + by,
                    1 => wide + (1 << 32) - by,
                    2 => wide * by,
                    3 if by == 0 => return (0, count),
                    3 => wide / by,
                    4 => wide | by,
                    5 => wide & by,
                    6 => wide << (by % 32),
                    7 => wide >> (by % 32),
                    8 => (1 << 32) - wide,
                    10 => wide ^ by,
                    op => panic!("operation {op}"),
                } as u32;
            }
            5 => {
                let condition = match code >> 4 {
                    0 => {
                        pc += k as usize;
                        continue;
                    }
                    1 => a == operand,
                    2 => a > operand,
                    3 => a >= operand,
                    4 => a & operand != 0,
                    op => panic!("condition {op}"),
                };
                pc += usize::from(if condition { jt } else { jf });
            }
            6 => return (if code == 0x16 { a } else { k }, count),
            _ if code == 0x07 => x = a,
            _ => a = x,
        }
    }
}

/// A generator of numbers (xorshift64*).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.next();
        random
    }
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n.max(1)
    }
    pub fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
    /// A number, often one at which something changes.
    pub fn number(&mut self) -> u32 {
        const EDGES: [u32; 12] = [
            0,
            1,
            2,
            31,
            32,
            64,
            0xffff,
            X86_64,
            i32::MAX as u32,
            1 << 31,
            u32::MAX - 1,
            u32::MAX,
        ];
        match self.below(4) {
            0 => self.next() as u32,
            1 => self.below(16) as u32,
            2 => self.one_of(&EDGES).wrapping_add(self.below(3) as u32),
            _ => self.one_of(&EDGES),
        }
    }
    pub fn data(&mut self) -> Words {
        [(); WORDS].map(|()| self.number())
    }
}

pub fn bytes(words: &Words) -> [u8; 64] {
    let mut bytes = [0; 64];
    for (n, word) in words.iter().enumerate() {
        bytes[n * 4..][..4].copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// A program of `len` instructions that seccomp takes. It is made from the start, with the cells that are
/// written on all ways known as the checker knows them.
pub fn valid(r: &mut Random, len: usize) -> Vec<Insn> {
    let mut program = Vec::new();
    let mut masks = vec![u16::MAX; len];
    let mut written = 0u16;
    for at in 0..len {
        let after = len - at - 1;
        written &= masks[at];
        // Returns end what is tested: few of them, but for the last.
        let code = match after {
            0 => r.one_of(&[RET_K, RET_A]),
            _ if r.below(4) == 0 => LD_W_ABS,
            _ => r.one_of(&SECCOMP),
        };
        let code = match code {
            RET_K | RET_A if after > 0 && r.below(8) > 0 => NEG,
            LD_MEM | LDX_MEM if written == 0 => ST,
            // One that would always be 0 ends a program that may have more to say.
            DIV_X if r.below(2) == 0 => DIV_K,
            code => code,
        };
        let reach = |r: &mut Random| {
            let far = if r.below(4) == 0 { 256 } else { 4 };
            r.below(after.min(far)) as u8
        };
        let mut insn = stmt(code, r.number());
        match code {
            LD_W_ABS => insn.k = r.below(16) as u32 * 4,
            ST | STX => {
                insn.k = r.below(16) as u32;
                written |= 1 << insn.k;
            }
            LD_MEM | LDX_MEM => {
                while written & 1 << insn.k.min(15) == 0 || insn.k > 15 {
                    insn.k = r.below(16) as u32;
                }
            }
            DIV_K => insn.k = insn.k.max(1),
            LSH_K | RSH_K => insn.k %= 32,
            JA => {
                insn.k = reach(r).into();
                masks[at + 1 + insn.k as usize] &= written;
                written = u16::MAX;
            }
            code if code & 7 == 5 => {
                (insn.jt, insn.jf) = (reach(r), reach(r));
                masks[at + 1 + insn.jt as usize] &= written;
                masks[at + 1 + insn.jf as usize] &= written;
                written = u16::MAX;
            }
            RET_K if r.below(2) == 0 => insn.k = ALLOW,
            _ => {}
        }
        // What an instruction does not use may be anything.
        if code & 7 != 5 && r.below(4) == 0 {
            (insn.jt, insn.jf) = (r.next() as u8, r.next() as u8);
        }
        program.push(insn);
    }
    program
}
