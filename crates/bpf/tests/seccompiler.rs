//! Filters that another program's compiler made (`seccompiler`, of Firecracker and others): what they return
//! is what the rules they were made from say.

mod common;

use std::collections::BTreeMap;
use std::time::Instant;

use common::*;
use limen_bpf::{Action, Data, Insn, Program, Verdict, always_allows};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

/// A comparison: which argument, whether all of it, how, and with what.
#[derive(Clone, Debug)]
struct Compare {
    arg: usize,
    wide: bool,
    op: SeccompCmpOp,
    value: u64,
}

/// For each number the rules, of which one is enough; for each rule the comparisons, of which all must hold.
type Rules = BTreeMap<i64, Vec<Vec<Compare>>>;

impl Compare {
    fn holds(&self, data: &Data) -> bool {
        let cut = |value: u64| if self.wide { value } else { value & 0xffff_ffff };
        let (arg, value) = (cut(data.args[self.arg]), cut(self.value));
        match self.op {
            SeccompCmpOp::Eq => arg == value,
            SeccompCmpOp::Ne => arg != value,
            SeccompCmpOp::Ge => arg >= value,
            SeccompCmpOp::Gt => arg > value,
            SeccompCmpOp::Le => arg <= value,
            SeccompCmpOp::Lt => arg < value,
            SeccompCmpOp::MaskedEq(mask) => arg & cut(mask) == value & cut(mask),
        }
    }

    fn compile(&self) -> SeccompCondition {
        let len = match self.wide {
            true => SeccompCmpArgLen::Qword,
            false => SeccompCmpArgLen::Dword,
        };
        SeccompCondition::new(self.arg as u8, len, self.op.clone(), self.value).unwrap()
    }
}

/// Whether the rules cover a call.
fn matches(rules: &Rules, data: &Data) -> bool {
    let Some(rules) = rules.get(&data.nr.into()) else {
        return false;
    };
    rules.is_empty() || rules.iter().any(|rule| rule.iter().all(|c| c.holds(data)))
}

fn compile(rules: &Rules, otherwise: SeccompAction, matched: SeccompAction) -> Vec<Insn> {
    let rule = |rule: &Vec<Compare>| SeccompRule::new(rule.iter().map(Compare::compile).collect()).unwrap();
    let rules = rules
        .iter()
        .map(|(nr, rules)| (*nr, rules.iter().map(rule).collect()))
        .collect();
    let filter = SeccompFilter::new(rules, otherwise, matched, TargetArch::x86_64).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    program
        .iter()
        .map(|insn| jump(insn.code, insn.k, insn.jt, insn.jf))
        .collect()
}

fn some_value(r: &mut Random) -> u64 {
    match r.below(3) {
        0 => u64::from(r.number()) << 32 | u64::from(r.number()),
        1 => r.below(8) as u64,
        _ => r.number().into(),
    }
}

fn some_rules(r: &mut Random) -> Rules {
    let compare = |r: &mut Random| {
        let mask = some_value(r);
        Compare {
            arg: r.below(6),
            wide: r.below(2) == 0,
            op: match r.below(7) {
                0 => SeccompCmpOp::Eq,
                1 => SeccompCmpOp::Ne,
                2 => SeccompCmpOp::Ge,
                3 => SeccompCmpOp::Gt,
                4 => SeccompCmpOp::Le,
                5 => SeccompCmpOp::Lt,
                _ => SeccompCmpOp::MaskedEq(mask),
            },
            value: some_value(r),
        }
    };
    let numbers = 1 + r.below(12);
    (0..numbers)
        .map(|_| {
            let nr = r.below(40) as i64;
            let count = r.below(3);
            let rules = (0..count)
                .map(|_| (0..1 + r.below(3)).map(|_| compare(r)).collect())
                .collect();
            (nr, rules)
        })
        .collect()
}

/// A call whose arguments are often those that the rules name, or next to them.
fn some_call(r: &mut Random, rules: &Rules) -> Data {
    let mut data = Data {
        // Mostly one that has rules.
        nr: match r.below(4) {
            0 => r.below(42) as i32,
            _ => *rules.keys().nth(r.below(rules.len())).unwrap() as i32,
        },
        arch: X86_64,
        instruction_pointer: r.next(),
        args: [(); 6].map(|()| some_value(r)),
    };
    if let Some(compares) = rules.get(&data.nr.into()).filter(|rules| !rules.is_empty()) {
        for compare in &compares[r.below(compares.len())] {
            let arg = &mut data.args[compare.arg];
            match r.below(4) {
                0 => {}
                1 => *arg = compare.value.wrapping_add(r.below(3) as u64).wrapping_sub(1),
                2 => *arg = compare.value ^ 1 << r.below(64),
                _ => *arg = compare.value,
            }
        }
    }
    data
}

#[test]
fn results_are_what_the_rules_say() {
    let mut r = Random::new(5);
    let (mut matched, mut total) = (0, 0);
    for _ in 0..3000 {
        let rules = some_rules(&mut r);
        let code = r.below(4096) as u32;
        let insns = compile(&rules, SeccompAction::Errno(code), SeccompAction::Allow);
        let program = Program::new(&insns).unwrap();
        for _ in 0..200 {
            let data = some_call(&mut r, &rules);
            let verdict = Verdict(program.run(&data.words()));
            let expected = match matches(&rules, &data) {
                true => Verdict(ALLOW),
                false => Verdict(ERRNO | code),
            };
            assert_eq!(verdict, expected, "{rules:?} {data:x?}");
            matched += usize::from(verdict.action() == Action::Allow);
            total += 1;
        }
        for nr in 0..50 {
            // Numbers without comparisons are known to be allowed, and no others.
            let free = rules.get(&nr.into()).is_some_and(Vec::is_empty);
            assert_eq!(always_allows(&program, X86_64, nr), free, "{nr}: {rules:?}");
        }
        // Another ABI.
        let foreign = Data {
            arch: 0x4000_0003,
            ..some_call(&mut r, &rules)
        };
        let verdict = Verdict(program.run(&foreign.words()));
        assert_eq!(verdict.action(), Action::KillProcess);
    }
    println!("{matched} of {total} matched");
    assert!(matched > total / 10 && matched < total * 9 / 10);
}

#[test]
fn actions_are_the_compiler_s() {
    let rules = Rules::from([(1, Vec::new())]);
    for (action, verdict) in [
        (SeccompAction::Errno(38), (Action::Errno, 38)),
        (SeccompAction::KillProcess, (Action::KillProcess, 0)),
        (SeccompAction::KillThread, (Action::KillThread, 0)),
        (SeccompAction::Log, (Action::Log, 0)),
        (SeccompAction::Trace(7), (Action::Trace, 7)),
        (SeccompAction::Trap, (Action::Trap, 0)),
    ] {
        let program = Program::new(&compile(&rules, SeccompAction::Allow, action)).unwrap();
        let call = |nr| {
            let data = Data {
                nr,
                arch: X86_64,
                ..Data::default()
            };
            let verdict = Verdict(program.run(&data.words()));
            (verdict.action(), verdict.data())
        };
        assert_eq!(call(1), verdict);
        assert_eq!(call(2), (Action::Allow, 0));
    }
}

/// How many instructions of a usual filter run: `cargo test -- --ignored --nocapture` says it.
#[test]
#[ignore = "prints figures"]
fn steps_of_a_filter_of_fifty_instructions() {
    // As container runtimes do it: the ABI, and number after number. This makes 50 instructions.
    let mut insns = vec![
        stmt(0x20, 4),
        jump(0x15, X86_64, 1, 0),
        stmt(0x06, 0x8000_0000),
        stmt(0x20, 0),
    ];
    insns.extend((0..44).map(|n| jump(0x15, n, 44 - n as u8, 0)));
    insns.extend([stmt(0x06, ERRNO | 1), stmt(0x06, ALLOW)]);
    assert_eq!(insns.len(), 50);
    let program = Program::new(&insns).unwrap();
    for nr in [0, 1, 20, 43, 44, 400] {
        let data = Data {
            nr,
            arch: X86_64,
            ..Data::default()
        };
        let words = data.words();
        let (result, steps) = program.run_counting(&words);
        const ROUNDS: u32 = 1_000_000;
        let start = Instant::now();
        for _ in 0..ROUNDS {
            std::hint::black_box(program.run(std::hint::black_box(&words)));
        }
        let each = start.elapsed().as_nanos() as f64 / f64::from(ROUNDS);
        println!("number {nr}: {result:#x} after {steps} steps, {each:.0} ns");
        assert_eq!(Verdict(result).action() == Action::Allow, nr < 44);
        assert_eq!(steps, if nr < 44 { nr as usize + 5 } else { 48 });
    }
}
