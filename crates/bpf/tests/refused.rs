//! Every kind of program that is refused, and its neighbours that are not.

mod common;

use common::*;
use limen_bpf::insn::code::*;
use limen_bpf::{Error, Insn, Program, check};

/// Refused whatever it is for.
fn invalid(insns: &[Insn], why: Error) {
    assert_eq!(check(insns), Err(why));
    assert_eq!(Program::new(insns).err(), Some(why));
    assert_eq!(why.errno(), 22);
    assert!(why.to_string().is_ascii() && why.to_string().len() < 80);
}

/// Valid, but not for seccomp.
fn foreign(insns: &[Insn], why: Error) {
    assert_eq!(check(insns), Ok(()));
    assert_eq!(Program::new(insns).err(), Some(why));
    assert_eq!(why.errno(), 22);
}

fn taken(insns: &[Insn]) {
    assert_eq!(check(insns), Ok(()));
    assert_eq!(Program::new(insns).err(), None);
}

const END: Insn = Insn {
    code: RET_A,
    jt: 0,
    jf: 0,
    k: 0,
};

#[test]
fn lengths() {
    // No instructions.
    invalid(&[], Error::Length(0));
    // The most there may be, and one more.
    taken(&vec![END; 4096]);
    invalid(&vec![END; 4097], Error::Length(4097));
    // The same before anything is allocated.
    assert_eq!(Insn::parse(&[]), Err(Error::Length(0)));
    assert_eq!(Insn::parse(&vec![0; 4097 * 8]), Err(Error::Length(4097)));
    assert_eq!(Insn::parse(&vec![0; 4096 * 8]).map(|insns| insns.len()), Ok(4096));
}

#[test]
fn codes() {
    for code in 0..=u16::MAX {
        // Operands that are right for all.
        let program = [stmt(ST, 4), stmt(code, 4), END];
        match code {
            _ if SECCOMP.contains(&code) => {
                // The jump behind the end.
                let k = if code == JA { 0 } else { 4 };
                taken(&[stmt(ST, 4), stmt(code, k), END]);
            }
            // Classic BPF, but not seccomp's: packets, and the remainder.
            _ if FOREIGN.contains(&code) => foreign(&program, Error::Foreign { at: 1, code }),
            // No code at all. Among them are `RET | X` and eBPF's.
            _ => invalid(&program, Error::Unknown { at: 1, code }),
        }
    }
}

#[test]
fn divisions_by_zero() {
    // A constant that is zero; X may be.
    invalid(&[stmt(DIV_K, 0), END], Error::Zero { at: 0 });
    invalid(&[stmt(MOD_K, 0), END], Error::Zero { at: 0 });
    taken(&[stmt(DIV_X, 0), END]);
    foreign(&[stmt(MOD_X, 0), END], Error::Foreign { at: 0, code: MOD_X });
}

#[test]
fn shifts() {
    // A constant of 32 or more bits.
    for code in [LSH_K, RSH_K] {
        taken(&[stmt(code, 31), END]);
        for bits in [32, 33, 64, u32::MAX] {
            invalid(&[stmt(code, bits), END], Error::Shift { at: 0, bits });
        }
    }
    // With X, the constant is not looked at.
    taken(&[stmt(LSH_X, 32), stmt(RSH_X, u32::MAX), END]);
}

#[test]
fn cells() {
    // Cells of scratch memory that there are not.
    for code in [ST, STX, LD_MEM, LDX_MEM] {
        taken(&[stmt(ST, 15), stmt(code, 15), END]);
        for cell in [16, 17, 32, 1 << 16, u32::MAX] {
            invalid(&[stmt(code, cell), END], Error::Cell { at: 0, cell });
        }
    }
}

#[test]
fn jumps() {
    // Behind the end: unconditionally, ...
    taken(&[stmt(JA, 0), END]);
    taken(&[stmt(JA, 1), END, END]);
    for k in [1, 2, i32::MAX as u32, u32::MAX - 1, u32::MAX] {
        invalid(&[stmt(JA, k), END], Error::Jump { at: 0 });
    }
    // ... if the condition is true, or if it is not.
    for code in [JEQ_K, JEQ_X, JGT_K, JGT_X, JGE_K, JGE_X, JSET_K, JSET_X] {
        taken(&[jump(code, 0, 1, 1), END, END]);
        invalid(&[jump(code, 0, 2, 0), END, END], Error::Jump { at: 0 });
        invalid(&[jump(code, 0, 0, 2), END, END], Error::Jump { at: 0 });
        invalid(&[END, jump(code, 0, 255, 255), END], Error::Jump { at: 1 });
    }
    // A jump cannot be the last instruction, as it goes at least to the next.
    invalid(&[END, stmt(JA, 0)], Error::Jump { at: 1 });
    invalid(&[END, jump(JEQ_K, 0, 0, 0)], Error::Jump { at: 1 });
}

#[test]
fn ends() {
    // The last instruction does not return.
    invalid(&[stmt(LD_IMM, 0)], Error::End);
    invalid(&[END, stmt(TAX, 0)], Error::End);
    taken(&[stmt(RET_K, 0)]);
    // What is wrong with an instruction comes first, what is wrong with memory after it.
    invalid(&[stmt(DIV_K, 0), stmt(TAX, 0)], Error::Zero { at: 0 });
    invalid(&[stmt(LD_MEM, 0), stmt(TAX, 0)], Error::End);
}

#[test]
fn cells_that_are_read_before_they_are_written() {
    for load in [LD_MEM, LDX_MEM] {
        let unwritten = |at| Error::Unwritten { at, cell: 3 };
        // Never written.
        invalid(&[stmt(load, 3), END], unwritten(0));
        // Another was written; or it was, but afterwards.
        invalid(&[stmt(ST, 2), stmt(load, 3), END], unwritten(1));
        invalid(&[stmt(load, 3), stmt(ST, 3), END], unwritten(0));
        taken(&[stmt(STX, 3), stmt(load, 3), END]);
        // Written if the condition is true only, or if it is false only.
        let one = |jt, jf| [jump(JEQ_K, 0, jt, jf), stmt(ST, 3), stmt(load, 3), END];
        invalid(&one(0, 1), unwritten(2));
        invalid(&one(1, 0), unwritten(2));
        taken(&one(0, 0));
        // Written on both ways.
        let both = [
            jump(JGT_X, 0, 0, 2),
            stmt(ST, 3),
            stmt(JA, 1),
            stmt(STX, 3),
            stmt(load, 3),
            END,
        ];
        taken(&both);
        // Jumped over.
        invalid(&[stmt(JA, 1), stmt(ST, 3), stmt(load, 3), END], unwritten(2));
        // Nothing leads there, behind a jump: Linux takes it.
        taken(&[stmt(JA, 1), stmt(load, 3), END]);
        // Nothing leads there either, but behind a return: it does not.
        invalid(&[END, stmt(load, 3), END], unwritten(1));
        // All that lead there wrote it, but a return stands before it that did not: Linux refuses it too.
        let behind_a_return = [
            jump(JEQ_K, 0, 0, 2),
            stmt(ST, 3),
            stmt(JA, 1),
            END,
            stmt(load, 3),
            END,
        ];
        invalid(&behind_a_return, unwritten(4));
    }
}

#[test]
fn loads_from_packets_with_special_offsets() {
    const AD: u32 = -0x1000i32 as u32;
    for code in [LD_W_ABS, LD_H_ABS, LD_B_ABS] {
        let load = |offset| check(&[stmt(code, offset), END]);
        // Bytes of a packet, also relative to a header (`SKF_LL_OFF`, `SKF_NET_OFF`).
        for offset in [
            0,
            1,
            64,
            i32::MAX as u32,
            -0x20_0000i32 as u32,
            -0x10_0000i32 as u32,
            AD - 1,
        ] {
            assert_eq!(load(offset), Ok(()), "{offset:#x}");
        }
        // Something about the packet.
        for what in (0..64).step_by(4) {
            assert_eq!(load(AD + what), Ok(()), "{what}");
        }
        // There is nothing of this number.
        for offset in [AD + 1, AD + 2, AD + 63, AD + 64, AD + 68, u32::MAX] {
            assert_eq!(load(offset), Err(Error::Ancillary { at: 0, offset }));
        }
    }
    // Loads relative to X are only checked when they run.
    assert_eq!(check(&[stmt(LD_W_IND, u32::MAX), END]), Ok(()));
    assert_eq!(check(&[stmt(LDX_B_MSH, u32::MAX), END]), Ok(()));
}

#[test]
fn loads_from_seccomp_data() {
    for offset in 0..64 {
        match offset % 4 {
            0 => taken(&[stmt(LD_W_ABS, offset), END]),
            // Not at the start of a word.
            _ => foreign(&[stmt(LD_W_ABS, offset), END], Error::Offset { at: 0, offset }),
        }
    }
    // Behind the end, also where a packet has something.
    for offset in [
        64,
        68,
        1 << 16,
        0x7fff_fffc,
        -0x1000i32 as u32,
        -0x10_0000i32 as u32,
    ] {
        foreign(
            &[END, stmt(LD_W_ABS, offset), END],
            Error::Offset { at: 1, offset },
        );
    }
}

#[test]
fn every_error_says_why() {
    let told: Vec<String> = [
        Error::Length(0),
        Error::Torn,
        Error::Unknown { at: 1, code: 0xff },
        Error::Zero { at: 1 },
        Error::Shift { at: 1, bits: 32 },
        Error::Cell { at: 1, cell: 16 },
        Error::Jump { at: 1 },
        Error::Ancillary {
            at: 1,
            offset: u32::MAX,
        },
        Error::End,
        Error::Unwritten { at: 1, cell: 3 },
        Error::Foreign { at: 1, code: MOD_K },
        Error::Offset { at: 1, offset: 64 },
        Error::NoMemory,
    ]
    .iter()
    .map(Error::to_string)
    .collect();
    let mut different = told.clone();
    different.sort();
    different.dedup();
    assert_eq!(different.len(), told.len());
    assert_eq!(Error::NoMemory.errno(), 12);
}
