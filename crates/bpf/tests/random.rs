//! Random programs: those that are valid by construction, and what is in random bytes.

mod common;

use common::*;
use limen_bpf::{Error, Insn, Program, Words, check};
use proptest::collection::vec;
use proptest::prelude::*;

fn some_word() -> impl Strategy<Value = u32> {
    prop_oneof![
        any::<u32>(),
        0..64u32,
        prop::sample::select(vec![0, 1, 31, 32, 64, 1 << 31, u32::MAX, X86_64, ALLOW]),
    ]
}

fn some_data() -> impl Strategy<Value = Words> {
    prop::array::uniform16(some_word())
}

/// Any instruction; most have a code that there is.
fn some_insn() -> impl Strategy<Value = Insn> {
    let code = prop_oneof![
        8 => prop::sample::select(SECCOMP.to_vec()),
        1 => prop::sample::select(FOREIGN.to_vec()),
        1 => any::<u16>(),
    ];
    let near = prop_oneof![0..4u8, any::<u8>()];
    let k = prop_oneof![0..4u32, 0..16u32, some_word()];
    (code, near.clone(), near, k).prop_map(|(code, jt, jf, k)| jump(code, k, jt, jf))
}

/// That a program which was taken does what the tests' interpreter says, within its length.
fn same(program: &Program, insns: &[Insn], data: &Words) {
    let (result, count) = program.run_counting(data);
    assert_eq!((result, count), reference(insns, &bytes(data)));
    assert_eq!(program.run(data), result);
    assert!((1..=insns.len()).contains(&count));
    assert_eq!(program.len(), insns.len());
    assert!((insns.len() + 3..=insns.len() * 5 + 3).contains(&program.cost()));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn valid_programs_are_taken_and_run(seed: u64, len in 1..300usize, data in vec(some_data(), 1..8)) {
        let insns = valid(&mut Random::new(seed), len);
        let program = Program::new(&insns).expect("valid by construction");
        for data in &data {
            same(&program, &insns, data);
        }
    }

    #[test]
    fn random_instructions_are_judged(insns in vec(some_insn(), 0..12), data in some_data()) {
        match Program::new(&insns) {
            Ok(program) => same(&program, &insns, &data),
            Err(why) => {
                let valid = check(&insns);
                let foreign = matches!(why, Error::Foreign { .. } | Error::Offset { .. });
                assert_eq!(valid, if foreign { Ok(()) } else { Err(why) });
            }
        }
    }

    #[test]
    fn random_bytes_are_judged(bytes in vec(any::<u8>(), 0..200), data in some_data()) {
        match Program::from_bytes(&bytes) {
            Ok(program) => same(&program, &Insn::parse(&bytes).unwrap(), &data),
            Err(why) => assert_eq!(why.errno(), 22),
        }
    }

    #[test]
    fn instructions_survive_their_bytes(insn in some_insn()) {
        assert_eq!(Insn::from_bytes(&insn.to_bytes()), insn);
    }
}
