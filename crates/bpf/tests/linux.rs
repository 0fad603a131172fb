//! Compares with the Linux that the tests run on: which programs it takes, and what they return.
//! `cargo test -p limen-bpf --test linux -- --ignored --nocapture`; it must be x86_64 and have seccomp.
//!
//! Each program gets a thread of its own, which has it until it ends. A few instructions before the program
//! keep it to the calls of `lseek`, of which nothing else in such a thread depends.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod common;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::AsRawFd;

use common::*;
use limen_bpf::insn::code::*;
use limen_bpf::program::{MAX_COST, PENALTY};
use limen_bpf::{Data, Insn, Program};
use seccompiler::{BpfProgram, apply_filter, sock_filter};

const LSEEK: u32 = 8;

/// Has Linux check a program and keep it for this thread. The error, if it does not.
fn load(insns: &[Insn]) -> Result<(), i32> {
    let program: BpfProgram = insns
        .iter()
        .map(|&Insn { code, jt, jf, k }| sock_filter { code, jt, jf, k })
        .collect();
    apply_filter(&program).map_err(|error| match error {
        seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => {
            error.raw_os_error().unwrap()
        }
        error => panic!("{error}"),
    })
}

/// `insns`, for `lseek` only. What the checks find is the same: nothing is written before it, and it starts
/// with A as another number.
fn kept_to_lseek(insns: &[Insn]) -> Vec<Insn> {
    let before = [stmt(LD_W_ABS, 0), jump(JEQ_K, LSEEK, 1, 0), stmt(RET_K, ALLOW)];
    [&before[..], insns].concat()
}

/// Runs `f` in a thread that ends afterwards.
fn apart<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(f).join().unwrap())
}

fn count(usual: u64) -> u64 {
    let count = std::env::var("LIMEN_BPF_LINUX").ok();
    count.and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// A program with a few things changed that the checks look at.
fn changed(r: &mut Random) -> Vec<Insn> {
    let len = 1 + r.below(16);
    let mut insns = valid(r, len);
    for _ in 0..r.below(4) {
        let at = r.below(insns.len());
        let insn = &mut insns[at];
        match r.below(7) {
            0 => insn.code = r.one_of(&SECCOMP),
            1 => insn.code ^= 1 << r.below(9),
            2 => insn.code = r.one_of(&FOREIGN),
            3 => insn.jt = r.below(12) as u8,
            4 => insn.jf = r.below(12) as u8,
            5 => insn.k = r.number(),
            _ => insn.k = insn.k.wrapping_add(1),
        }
    }
    insns
}

#[test]
#[ignore = "compares with the Linux it runs on"]
fn linux_takes_the_same_programs() {
    let mut ends: BTreeMap<String, u64> = BTreeMap::new();
    for n in 0..count(20_000) {
        let insns = kept_to_lseek(&changed(&mut Random::new(n)));
        let ours = Program::new(&insns);
        let theirs = apart(|| load(&insns));
        let end = match &ours {
            Ok(_) => "taken".into(),
            Err(why) => format!("{why:?}").split(' ').next().unwrap().to_string(),
        };
        assert_eq!(
            ours.map(|_| ()).map_err(|why| why.errno()),
            theirs,
            "program {n}: {end} {insns:?}"
        );
        *ends.entry(end).or_default() += 1;
    }
    println!("{ends:?}");
}

#[test]
#[ignore = "compares with the Linux it runs on"]
fn linux_knows_the_same_codes() {
    for code in 0..0x400u16 {
        // A cell, an offset and a shift that are right for all, and a way over what may be wrong.
        let insns = kept_to_lseek(&[stmt(ST, 0), stmt(ADD_K, 0), stmt(code, 0), stmt(RET_K, ALLOW)]);
        let ours = Program::new(&insns).map(|_| ()).map_err(|why| why.errno());
        assert_eq!(apart(|| load(&insns)), ours, "{code:#x}");
    }
}

#[test]
#[ignore = "compares with the Linux it runs on"]
fn linux_returns_the_same() {
    let file = File::open("/dev/null").unwrap();
    let (mut compared, mut different) = (0, std::collections::BTreeSet::new());
    for n in 0..count(5000) {
        let mut r = Random::new(n);
        let len = 2 + r.below(24);
        let mut insns = valid(&mut r, len);
        for insn in &mut insns {
            match insn.code {
                // Only what `lseek` decides: number, ABI and three arguments.
                LD_W_ABS => insn.k = r.one_of(&[0, 4, 16, 20, 24, 28, 32, 36]),
                RET_K => insn.k = ERRNO | insn.k & 0xfff,
                RET_A => insn.code = NEG,
                _ => {}
            }
        }
        // All of A becomes an error number of 12 bits.
        insns.extend([
            stmt(MUL_K, 0x9e37_79b1),
            stmt(RSH_K, 20),
            stmt(OR_K, ERRNO),
            stmt(RET_A, 0),
        ]);
        let insns = kept_to_lseek(&insns);
        let ours = Program::new(&insns).unwrap();
        let calls: Vec<SeekFrom> = (0..8)
            .map(|_| {
                let offset = u64::from(r.number()) << 32 | u64::from(r.number());
                match r.below(3) {
                    0 => SeekFrom::Start(offset),
                    1 => SeekFrom::Current(offset.cast_signed()),
                    _ => SeekFrom::End(offset.cast_signed()),
                }
            })
            .collect();
        apart(|| {
            load(&insns).unwrap();
            for call in calls {
                let (offset, whence) = match call {
                    SeekFrom::Start(offset) => (offset, 0),
                    SeekFrom::Current(offset) => (offset.cast_unsigned(), 1),
                    SeekFrom::End(offset) => (offset.cast_unsigned(), 2),
                };
                let data = Data {
                    nr: LSEEK as i32,
                    arch: X86_64,
                    instruction_pointer: 0,
                    args: [file.as_raw_fd() as u64, offset, whence, 0, 0, 0],
                };
                let expected = ours.run(&data.words());
                // A division by zero: Linux would kill this thread.
                if expected == 0 {
                    continue;
                }
                assert_eq!(expected & !0xfff, ERRNO);
                let result = (&file).seek(call);
                let errno = result.map_or_else(|error| error.raw_os_error().unwrap(), |_| 0);
                assert_eq!(errno as u32, expected & 0xfff, "program {n}: {insns:?} {data:x?}");
                compared += 1;
                different.insert(errno);
            }
        });
    }
    println!("{compared} results, {} different ones", different.len());
    assert!(different.len() > 1000);
}

#[test]
#[ignore = "compares with the Linux it runs on"]
fn linux_has_room_for_as_many() {
    for n in 0..count(40) {
        let mut r = Random::new(n);
        let len = 20 + r.below(2000);
        let insns = kept_to_lseek(&valid(&mut r, len));
        let cost = Program::new(&insns).unwrap().cost();
        // Each takes its own and the penalty, but for the newest.
        let expected = (MAX_COST - cost) / (cost + PENALTY) + 1;
        let loaded = apart(|| {
            let mut loaded = 0;
            loop {
                match load(&insns) {
                    Ok(()) => loaded += 1,
                    Err(12) => break loaded,
                    Err(other) => panic!("error {other}"),
                }
            }
        });
        assert_eq!(loaded, expected, "program {n} of {len} instructions, cost {cost}");
    }
}
