//! Garbled programs: no panic, and whatever is taken runs as the tests' interpreter says, within its length.
//!
//! 100,000 programs in the usual run, as many as `LIMEN_BPF_FUZZ` says otherwise, and ten million in the one
//! that is ignored. All is determined by the number of the program: `LIMEN_BPF_FUZZ_FIRST` is the first.

mod common;

use std::collections::BTreeMap;
use std::panic::catch_unwind;

use common::*;
use limen_bpf::program::WORDS;
use limen_bpf::{Insn, Program, always_allows};

/// A program made from nothing, or a valid one that was changed.
fn garbled(r: &mut Random) -> Vec<Insn> {
    let len = match r.below(50) {
        0 => 1 + r.below(600),
        _ => 1 + r.below(24),
    };
    if r.below(4) == 0 {
        return (0..len)
            .map(|_| {
                let code = match r.below(8) {
                    0 => r.next() as u16,
                    1 => r.one_of(&FOREIGN),
                    _ => r.one_of(&SECCOMP),
                };
                let near = |r: &mut Random| r.below(len + 1) as u8;
                jump(
                    code,
                    if r.below(2) == 0 {
                        r.number()
                    } else {
                        near(r).into()
                    },
                    near(r),
                    near(r),
                )
            })
            .collect();
    }
    let mut insns = valid(r, len);
    for _ in 0..r.one_of(&[0, 1, 1, 2, 4]) {
        let (at, from) = (r.below(insns.len()), r.below(insns.len()));
        match r.below(8) {
            0 => insns[at].code = r.one_of(&SECCOMP),
            1 => insns[at].code ^= 1 << r.below(16),
            2 => insns[at].code = r.one_of(&FOREIGN),
            3 => insns[at].jt = r.next() as u8,
            4 => insns[at].jf = insns[at].jf.wrapping_add(1),
            5 => insns[at].k = r.number(),
            6 => insns.swap(at, from),
            _ => {
                insns.remove(at);
                if insns.is_empty() {
                    break;
                }
            }
        }
    }
    insns
}

/// Does everything with a program, and says how it ended.
fn attempt(r: &mut Random) -> String {
    let insns = garbled(r);
    let raw: Vec<u8> = insns.iter().flat_map(|insn| insn.to_bytes()).collect();
    let program = match Program::from_bytes(&raw) {
        Ok(program) => program,
        Err(why) => {
            assert_eq!(why.errno(), 22);
            assert!(why.to_string().len() < 80);
            return format!("{why:?}").split([' ', '(']).next().unwrap().into();
        }
    };
    let nr = r.number();
    let mut partly = [None; WORDS];
    (partly[0], partly[1]) = (Some(nr), Some(X86_64));
    let always = program.run_partly(&partly);
    let allowed = always_allows(&program, X86_64, nr);
    assert_eq!(
        allowed,
        always.is_some_and(|result| result & 0xffff_0000 == ALLOW)
    );
    for _ in 0..4 {
        let mut data = r.data();
        (data[0], data[1]) = (nr, X86_64);
        let (result, count) = program.run_counting(&data);
        assert_eq!((result, count), reference(&insns, &bytes(&data)), "{insns:?}");
        assert!(count <= insns.len());
        assert!(always.is_none_or(|always| always == result), "{insns:?}");
    }
    match always {
        Some(_) if allowed => "allowed".into(),
        Some(_) => "decided".into(),
        None => "taken".into(),
    }
}

fn fuzz(first: u64, count: u64) {
    let mut ends: BTreeMap<String, u64> = BTreeMap::new();
    for n in first..first + count {
        let Ok(end) = catch_unwind(|| attempt(&mut Random::new(n))) else {
            panic!("program {n} (LIMEN_BPF_FUZZ_FIRST={n} LIMEN_BPF_FUZZ=1)");
        };
        *ends.entry(end).or_default() += 1;
    }
    println!("{ends:?}");
    if count >= 20_000 {
        // The changes are neither harmless nor too coarse: every end is met.
        for end in [
            "taken",
            "decided",
            "allowed",
            "Length",
            "Unknown",
            "Zero",
            "Shift",
            "Cell",
            "Jump",
            "Ancillary",
            "End",
            "Unwritten",
            "Foreign",
            "Offset",
        ] {
            assert!(ends.get(end).is_some_and(|n| *n > 0), "never {end}");
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .and_then(|n| n.replace('_', "").parse().ok())
}

#[test]
fn garbled_programs() {
    fuzz(
        number("LIMEN_BPF_FUZZ_FIRST").unwrap_or(0),
        number("LIMEN_BPF_FUZZ").unwrap_or(100_000),
    );
}

#[test]
#[ignore = "takes minutes"]
fn ten_million_garbled_programs() {
    fuzz(number("LIMEN_BPF_FUZZ_FIRST").unwrap_or(1 << 32), 10_000_000);
}
