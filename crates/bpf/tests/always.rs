//! System calls that are always allowed, compared with trying.

mod common;

use common::*;
use limen_bpf::insn::code::*;
use limen_bpf::program::WORDS;
use limen_bpf::{Insn, Program, always_allows};

fn program(insns: &[Insn]) -> Program {
    Program::new(insns).expect("valid")
}

/// Whether a program allows `nr` for each of many values of everything else. They are random, and the
/// program's own constants.
fn allows_all(p: &Program, insns: &[Insn], nr: u32, r: &mut Random, tries: usize) -> bool {
    (0..tries).all(|_| {
        let mut data = r.data();
        for word in &mut data[2..] {
            if r.below(2) == 0 {
                let k = insns[r.below(insns.len())].k;
                *word = k.wrapping_add(r.below(3) as u32).wrapping_sub(1);
            }
        }
        (data[0], data[1]) = (nr, X86_64);
        p.run(&data) & 0xffff_0000 == ALLOW
    })
}

/// What Linux finds: loads of the number and the ABI, masks and comparisons with constants, and no more.
fn linux_knows(insns: &[Insn], nr: u32) -> bool {
    let (mut a, mut pc) = (0, 0);
    loop {
        let Insn { code, jt, jf, k } = insns[pc];
        let condition = match code {
            LD_W_ABS if k == 0 => {
                a = nr;
                None
            }
            LD_W_ABS if k == 4 => {
                a = X86_64;
                None
            }
            AND_K => {
                a &= k;
                None
            }
            JA => {
                pc += k as usize;
                None
            }
            JEQ_K => Some(a == k),
            JGT_K => Some(a > k),
            JGE_K => Some(a >= k),
            JSET_K => Some(a & k != 0),
            RET_K => return k == ALLOW,
            _ => return false,
        };
        pc += 1 + condition.map_or(0, |is| usize::from(if is { jt } else { jf }));
    }
}

#[test]
fn what_depends_on_arguments_is_not_always_allowed() {
    let allow = |insns: &[Insn]| always_allows(&program(insns), X86_64, 5);
    let ret = stmt(RET_K, ALLOW);
    assert!(allow(&[ret]));
    // Data make no difference to a call that is allowed; other actions do.
    assert!(allow(&[stmt(RET_K, ALLOW | 3)]));
    assert!(!allow(&[stmt(RET_K, 0x7ffc_0000)]));
    assert!(!allow(&[stmt(RET_K, ERRNO)]));
    // Only the number and the ABI are known.
    for offset in (0..64).step_by(4) {
        let known = offset < 8;
        let value = if offset == 0 { 5 } else { X86_64 };
        let test = [
            stmt(LD_W_ABS, offset),
            jump(JEQ_K, value, 0, 1),
            ret,
            stmt(RET_K, 0),
        ];
        assert_eq!(allow(&test), known, "{offset}");
        // A word that is loaded but means nothing does no harm.
        assert!(allow(&[stmt(LD_W_ABS, offset), ret]));
        // One that is returned does.
        let returned = [
            stmt(LD_W_ABS, offset),
            stmt(AND_K, 0),
            stmt(OR_K, ALLOW),
            stmt(RET_A, 0),
        ];
        assert_eq!(allow(&returned), known, "{offset}");
        // Through X, memory and arithmetic.
        let around = [
            stmt(LD_W_ABS, offset),
            stmt(ST, 3),
            stmt(LDX_MEM, 3),
            stmt(LD_IMM, value),
            stmt(SUB_X, 0),
            jump(JEQ_K, 0, 0, 1),
            ret,
            stmt(RET_K, 0),
        ];
        assert_eq!(allow(&around), known, "{offset}");
        // A division by what may be zero may return.
        let divided = [stmt(LD_W_ABS, offset), stmt(TAX, 0), stmt(DIV_X, 0), ret];
        assert_eq!(allow(&divided), known, "{offset}");
    }
    assert!(!allow(&[stmt(DIV_X, 0), ret]), "X is zero");
    // Of a condition that is not known one cannot say which way it goes.
    let neither = [stmt(LD_W_ABS, 16), jump(JSET_K, 1, 0, 1), stmt(RET_K, 0), ret];
    assert!(!allow(&neither));
}

#[test]
fn is_as_brute_force_says() {
    let mut r = Random::new(3);
    let (mut allowed, mut missed, mut total, mut by_linux) = (0, 0, 0, 0);
    for _ in 0..500 {
        // Comparisons of the number, then something that may look at anything.
        let mut insns = vec![
            stmt(LD_W_ABS, 4),
            jump(JEQ_K, X86_64, 1, 0),
            stmt(RET_K, 0),
            stmt(LD_W_ABS, 0),
        ];
        for _ in 0..r.below(6) {
            let code = r.one_of(&[JEQ_K, JEQ_K, JGT_K, JGE_K, JSET_K]);
            let result = r.one_of(&[ALLOW, ALLOW, ERRNO | 1]);
            insns.extend([jump(code, r.below(40) as u32, 0, 1), stmt(RET_K, result)]);
        }
        if r.below(4) > 0 {
            let len = 1 + r.below(12);
            insns.extend(valid(&mut r, len));
        } else {
            insns.push(stmt(RET_K, ALLOW));
        }
        let p = program(&insns);
        let count = r.one_of(&[1, 37, 64, 65, 130]);
        for nr in 0..count {
            let says = always_allows(&p, X86_64, nr);
            assert!(
                says || !linux_knows(&insns, nr),
                "Linux finds more: {nr} {insns:?}"
            );
            by_linux += usize::from(linux_knows(&insns, nr));
            let tries = if says { 200 } else { 20 };
            let is = allows_all(&p, &insns, nr, &mut r, tries);
            assert!(is || !says, "{nr} is not always allowed: {insns:?}");
            total += 1;
            allowed += usize::from(says);
            missed += usize::from(is && !says);
        }
    }
    println!("{total}: {allowed} always allowed (Linux: {by_linux}), {missed} perhaps too");
    assert!(allowed > total / 10 && allowed < total * 9 / 10);
}

#[test]
fn words_that_are_known_are_the_ones_given() {
    // `run_partly` is right about every word, not just the two.
    let mut r = Random::new(11);
    let mut known = 0;
    for _ in 0..20_000 {
        let len = 2 + r.below(20);
        let insns = valid(&mut r, len);
        let p = program(&insns);
        let data = r.data();
        assert_eq!(p.run_partly(&data.map(Some)), Some(p.run(&data)));
        let partly: [_; WORDS] = data.map(|word| (r.below(2) == 0).then_some(word));
        if let Some(result) = p.run_partly(&partly) {
            known += 1;
            for _ in 0..5 {
                let other = r.data();
                let mut n = 0;
                let filled = partly.map(|word| {
                    n += 1;
                    word.unwrap_or(other[n - 1])
                });
                assert_eq!(p.run(&filled), result, "{insns:?}");
            }
        }
    }
    assert!(known > 5000, "{known}");
}

/// A long program and all numbers there may be: `cargo test -- --ignored --nocapture` says how long it takes.
#[test]
#[ignore = "prints figures"]
fn the_longest_program() {
    let mut insns = vec![stmt(LD_W_ABS, 0); 1];
    insns.extend((0..4094).map(|n| jump(JEQ_K, 1000 + n, 0, 0)));
    insns.push(stmt(RET_K, ALLOW));
    let p = program(&insns);
    let start = std::time::Instant::now();
    assert!((0..512).all(|nr| always_allows(&p, X86_64, nr)));
    println!("512 times {} steps: {:?}", p.len(), start.elapsed());
}
