//! Each instruction by itself: what it does with registers, memory and data, as the manual has it, and that
//! the tests' own interpreter agrees.

mod common;

use common::*;
use limen_bpf::insn::code::*;
use limen_bpf::{Data, Error, Insn, Program};

fn result(program: &[Insn], data: &Data) -> u32 {
    let words = data.words();
    let result = Program::new(program).expect("valid").run_counting(&words);
    assert_eq!(result, reference(program, &data.to_bytes()), "{program:?}");
    result.0
}

/// `A = a; X = x; insn; return A`.
fn alu(a: u32, x: u32, insn: Insn) -> u32 {
    let program = [stmt(LD_IMM, a), stmt(LDX_IMM, x), insn, stmt(RET_A, 0)];
    result(&program, &Data::default())
}

#[test]
fn arithmetic() {
    const MAX: u32 = u32::MAX;
    // For each: code with K, code with X, and what A becomes for A and the operand.
    let table: &[(u16, u16, &[(u32, u32, u32)])] = &[
        (ADD_K, ADD_X, &[(1, 2, 3), (MAX, 2, 1)]),
        (SUB_K, SUB_X, &[(3, 2, 1), (2, 3, MAX), (0, 1 << 31, 1 << 31)]),
        (MUL_K, MUL_X, &[(3, 4, 12), (MAX, MAX, 1), (1 << 16, 1 << 16, 0)]),
        (
            DIV_K,
            DIV_X,
            &[(7, 2, 3), (MAX, 2, MAX / 2), (1, MAX, 0), (1 << 31, MAX, 0)],
        ),
        (OR_K, OR_X, &[(0b1010, 0b0110, 0b1110), (0, MAX, MAX)]),
        (AND_K, AND_X, &[(0b1010, 0b0110, 0b0010), (MAX, 0xff, 0xff)]),
        (XOR_K, XOR_X, &[(0b1010, 0b0110, 0b1100), (MAX, MAX, 0)]),
        (LSH_K, LSH_X, &[(1, 31, 1 << 31), (3, 31, 1 << 31), (5, 0, 5)]),
        (RSH_K, RSH_X, &[(1 << 31, 31, 1), (MAX, 31, 1), (5, 0, 5)]),
    ];
    for &(with_k, with_x, cases) in table {
        for &(a, operand, expected) in cases {
            assert_eq!(
                alu(a, 77, stmt(with_k, operand)),
                expected,
                "{with_k:#x} {a} {operand}"
            );
            assert_eq!(
                alu(a, operand, stmt(with_x, 77)),
                expected,
                "{with_x:#x} {a} {operand}"
            );
        }
    }
    for (a, expected) in [(0, 0), (1, MAX), (1 << 31, 1 << 31), (MAX, 1)] {
        assert_eq!(alu(a, 0, stmt(NEG, 9)), expected);
    }
}

#[test]
fn division_by_x_that_is_zero_returns_zero() {
    assert_eq!(alu(5, 0, stmt(DIV_X, 3)), 0);
    // Also where A is not what is returned.
    let program = [stmt(LDX_IMM, 0), stmt(DIV_X, 0), stmt(RET_K, ALLOW)];
    assert_eq!(result(&program, &Data::default()), 0);
}

#[test]
fn shifts_by_x_count_five_bits() {
    for (x, left, right) in [
        (32, 6, 6),
        (33, 12, 3),
        (63, 0, 0),
        (u32::MAX, 0, 0),
        (0x8000_0001, 12, 3),
    ] {
        assert_eq!(alu(6, x, stmt(LSH_X, 0)), left, "{x}");
        assert_eq!(alu(6, x, stmt(RSH_X, 0)), right, "{x}");
    }
}

#[test]
fn conditions() {
    const MAX: u32 = u32::MAX;
    let table: &[(u16, u16, &[(u32, u32, bool)])] = &[
        (JEQ_K, JEQ_X, &[(1, 1, true), (1, 2, false), (MAX, MAX, true)]),
        // Unsigned.
        (
            JGT_K,
            JGT_X,
            &[(2, 1, true), (1, 1, false), (MAX, 1, true), (1, MAX, false)],
        ),
        (
            JGE_K,
            JGE_X,
            &[(2, 1, true), (1, 1, true), (0, 1, false), (1 << 31, 1, true)],
        ),
        (
            JSET_K,
            JSET_X,
            &[
                (6, 2, true),
                (6, 1, false),
                (0, MAX, false),
                (1 << 31, 1 << 31, true),
            ],
        ),
    ];
    for &(with_k, with_x, cases) in table {
        for &(a, operand, expected) in cases {
            for (code, k, x) in [(with_k, operand, 77), (with_x, 77, operand)] {
                let run = |jt, jf| {
                    let mut program = vec![stmt(LD_IMM, a), stmt(LDX_IMM, x), jump(code, k, jt, jf)];
                    program.extend((0..=255).map(|n| stmt(RET_K, n)));
                    result(&program, &Data::default())
                };
                for (jt, jf) in [(0, 1), (1, 0), (255, 0), (0, 255), (3, 3), (100, 200)] {
                    let taken = if expected { jt } else { jf };
                    assert_eq!(run(jt, jf), taken.into(), "{code:#x} {a} {operand}");
                }
            }
        }
    }
}

#[test]
fn unconditional_jumps_use_k_and_nothing_else() {
    for far in [0u32, 1, 255, 256, 4093] {
        let mut program = vec![jump(JA, far, 7, 9)];
        program.extend((0..4095).map(|n| stmt(RET_K, n)));
        assert_eq!(program.len(), 4096);
        assert_eq!(result(&program, &Data::default()), far);
    }
}

#[test]
fn registers_and_cells_start_and_move() {
    let none = Data::default();
    assert_eq!(result(&[stmt(RET_A, 5)], &none), 0, "A is 0 at first");
    assert_eq!(
        result(&[stmt(TXA, 5), stmt(RET_A, 5)], &none),
        0,
        "X is 0 at first"
    );
    assert_eq!(
        result(
            &[
                stmt(LD_IMM, 5),
                stmt(TAX, 0),
                stmt(LD_IMM, 1),
                stmt(TXA, 0),
                stmt(RET_A, 0)
            ],
            &none
        ),
        5
    );
    for cell in 0..16 {
        // Each cell, from A to X and from X to A, with all others holding something else.
        let mut program = Vec::new();
        for (store, load) in [(ST, LDX_MEM), (STX, LD_MEM)] {
            program.extend([stmt(LD_IMM, 99), stmt(LDX_IMM, 99)]);
            program.extend((0..16).map(|other| stmt(ST, other)));
            program.extend([
                stmt(LD_IMM, 70 + cell),
                stmt(LDX_IMM, 70 + cell),
                stmt(store, cell),
            ]);
            program.extend([stmt(LD_IMM, 1), stmt(LDX_IMM, 2), stmt(load, cell)]);
            let moved = if load == LD_MEM { NEG } else { TXA };
            let back = if load == LD_MEM { NEG } else { TAX };
            program.extend([stmt(moved, 0), stmt(back, 0), stmt(JEQ_K, 70 + cell)]);
            program.last_mut().unwrap().jt = 1;
            program.push(stmt(RET_K, 0));
        }
        program.push(stmt(RET_K, 1));
        assert_eq!(result(&program, &none), 1, "cell {cell}");
    }
}

#[test]
fn loads_are_the_data_s_words() {
    let data = Data {
        nr: -2,
        arch: X86_64,
        instruction_pointer: 0x1111_2222_3333_4444,
        args: [1, 2, 3, 4, 5, 6].map(|n| n << 32 | (n + 0x10)),
    };
    let load = |offset| result(&[stmt(LD_W_ABS, offset), stmt(RET_A, 0)], &data);
    assert_eq!((load(0), load(4)), (-2i32 as u32, X86_64));
    // A field of 64 bits is two words, in the processor's order.
    let wide = |offset| {
        let (first, second) = (u64::from(load(offset)), u64::from(load(offset + 4)));
        if cfg!(target_endian = "big") {
            first << 32 | second
        } else {
            second << 32 | first
        }
    };
    assert_eq!(wide(8), data.instruction_pointer);
    for (n, arg) in data.args.into_iter().enumerate() {
        assert_eq!(wide(16 + n as u32 * 8), arg);
    }
    // The layout is the one of the C compiler.
    let bytes = data.to_bytes();
    assert_eq!(bytes[..4], (-2i32).to_ne_bytes());
    assert_eq!(bytes[4..8], X86_64.to_ne_bytes());
    assert_eq!(bytes[8..16], data.instruction_pointer.to_ne_bytes());
    assert_eq!(bytes[56..], data.args[5].to_ne_bytes());
    // The length is a constant, whatever K is.
    assert_eq!(result(&[stmt(LD_W_LEN, 9), stmt(RET_A, 0)], &data), 64);
    assert_eq!(
        result(&[stmt(LDX_W_LEN, 9), stmt(TXA, 0), stmt(RET_A, 0)], &data),
        64
    );
    assert_eq!(result(&[stmt(LD_IMM, 9), stmt(RET_K, 8)], &data), 8);
}

#[test]
fn instructions_are_read_in_native_order() {
    let insn = jump(0x1234, 0x89ab_cdef, 0x56, 0x78);
    let mut bytes = Vec::new();
    bytes.extend(0x1234u16.to_ne_bytes());
    bytes.extend([0x56, 0x78]);
    bytes.extend(0x89ab_cdefu32.to_ne_bytes());
    assert_eq!(insn.to_bytes()[..], bytes);
    assert_eq!(Insn::parse(&bytes), Ok(vec![insn]));
    bytes.extend(stmt(RET_A, 0).to_bytes());
    assert_eq!(Insn::parse(&bytes).map(|insns| insns.len()), Ok(2));
    assert_eq!(Insn::parse(&bytes[1..]), Err(Error::Torn));
    assert_eq!(
        Program::from_bytes(&bytes).err(),
        Some(Error::Unknown { at: 0, code: 0x1234 })
    );
    assert_eq!(Program::from_bytes(&bytes[8..]).map(|p| p.len()).ok(), Some(1));
}

/// The instructions that Linux translates to, after the three that every program starts with.
#[test]
fn costs_are_linux_s() {
    let cost = |insns: &[Insn]| Program::new(insns).unwrap().cost() - 3;
    assert_eq!(cost(&[stmt(RET_A, 0)]), 1);
    assert_eq!(cost(&[stmt(RET_K, 0)]), 2);
    let with = |insn: Insn| {
        let end = [stmt(RET_A, 0); 4];
        cost(&[&[insn][..], &end].concat()) - 4
    };
    for code in [LD_W_ABS, LD_W_LEN, LD_IMM, ST, NEG, ADD_X, XOR_K, TAX, JA] {
        assert_eq!(with(stmt(code, 0)), 1, "{code:#x}");
    }
    assert_eq!((with(stmt(DIV_K, 1)), with(stmt(DIV_X, 0))), (1, 5));
    // A jump that goes on with the next instruction in one case is one, unless it cannot be turned round.
    for (jt, jf, usual, jset) in [(0, 0, 1, 1), (2, 0, 1, 1), (0, 2, 1, 2), (1, 2, 2, 2)] {
        for (code, k) in [(JEQ_K, 1), (JGT_K, 1), (JGE_X, u32::MAX)] {
            assert_eq!(with(jump(code, k, jt, jf)), usual);
        }
        assert_eq!(with(jump(JSET_X, u32::MAX, jt, jf)), jset);
        // Constants with the highest bit take one more.
        assert_eq!(with(jump(JEQ_K, 1 << 31, jt, jf)), usual + 1);
        assert_eq!(with(jump(JSET_K, 1 << 31, jt, jf)), jset + 1);
    }
}
