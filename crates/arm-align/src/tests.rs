use super::*;
use std::collections::BTreeMap;

/// Bytes of memory; what has none is not there.
#[derive(Clone, Default)]
struct Bytes(BTreeMap<u32, u8>);

impl Bytes {
    fn put(&mut self, at: u32, bytes: &[u8]) {
        self.0.extend((at..).zip(bytes.iter().copied()));
    }
    fn get<const N: usize>(&self, at: u32) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        for (address, byte) in (at..).zip(&mut bytes) {
            *byte = *self.0.get(&address)?;
        }
        Some(bytes)
    }
}

impl Memory for Bytes {
    fn half(&self, at: u32) -> Option<u16> {
        self.get(at).map(u16::from_le_bytes)
    }
    fn word(&self, at: u32) -> Option<u32> {
        self.get(at).map(u32::from_le_bytes)
    }
    fn set_word(&mut self, at: u32, word: u32) -> Option<()> {
        self.word(at)?;
        self.put(at, &word.to_le_bytes());
        Some(())
    }
}

const CODE: u32 = 0x8002;
const DATA: u32 = 0x2001;

/// Register n holds n * 0x0101_0101 but for r0, the stack pointer, r8 (all [`DATA`]) and r15.
fn state(thumb: bool) -> State {
    let mut registers: [u32; 16] = std::array::from_fn(|n| n as u32 * 0x0101_0101);
    for base in [0, 8, 13] {
        registers[base] = DATA;
    }
    registers[15] = if thumb { CODE } else { CODE + 2 };
    let psr = 0x10 | if thumb { PSR_T } else { 0 };
    State { registers, psr }
}

fn of(instruction: Instruction) -> Option<Access> {
    decode(&state(!matches!(instruction, Instruction::Arm(_))), instruction)
}

fn list(load: bool, list: u32, start: i32, back: Option<(usize, i32)>) -> Option<Access> {
    Some(Access {
        load,
        registers: Registers::List(list),
        start: DATA.wrapping_add_signed(start),
        write_back: back.map(|(base, by)| (base, DATA.wrapping_add_signed(by))),
    })
}

fn pair(load: bool, first: usize, second: usize, start: i32, back: Option<(usize, i32)>) -> Option<Access> {
    let access = list(load, 0, start, back)?;
    Some(Access {
        registers: Registers::Pair(first, second),
        ..access
    })
}

#[test]
fn arm_multiple() {
    let cases = [
        // (stm, start, new base): r0, {r1, r2}, and with write-back.
        (0xe880_0006, 0, 8),   // ia
        (0xe980_0006, 4, 8),   // ib
        (0xe800_0006, -4, -8), // da
        (0xe900_0006, -8, -8), // db
    ];
    for (store, start, end) in cases {
        for (bit, load) in [(0, false), (1 << 20, true)] {
            let back = 1 << 21;
            assert_eq!(of(Instruction::Arm(store | bit)), list(load, 6, start, None));
            assert_eq!(
                of(Instruction::Arm(store | bit | back)),
                list(load, 6, start, Some((0, end)))
            );
        }
    }
    // push {r4, lr}; pop {r4, pc}; all of them; with a condition
    assert_eq!(
        of(Instruction::Arm(0xe92d_4010)),
        list(false, 0x4010, -8, Some((13, -8)))
    );
    assert_eq!(
        of(Instruction::Arm(0xe8bd_8010)),
        list(true, 0x8010, 0, Some((13, 8)))
    );
    assert_eq!(of(Instruction::Arm(0xe890_ffff)), list(true, 0xffff, 0, None));
    assert_eq!(
        of(Instruction::Arm(0x18bd_8010)),
        list(true, 0x8010, 0, Some((13, 8)))
    );
}

#[test]
fn arm_double() {
    for (bits, load) in [(0, true), (0x20, false)] {
        let of = |word: u32| of(Instruction::Arm(word | bits));
        assert_eq!(of(0xe1c0_20d0), pair(load, 2, 3, 0, None)); // [r0]
        assert_eq!(of(0xe1c0_2fdf), pair(load, 2, 3, 255, None)); // [r0, #255]
        assert_eq!(of(0xe140_20d8), pair(load, 2, 3, -8, None)); // [r0, #-8]
        assert_eq!(of(0xe160_20d8), pair(load, 2, 3, -8, Some((0, -8)))); // [r0, #-8]!
        assert_eq!(of(0xe0c0_21d8), pair(load, 2, 3, 0, Some((0, 0x18)))); // [r0], #0x18
        assert_eq!(of(0xe040_20d8), pair(load, 2, 3, 0, Some((0, -8)))); // [r0], #-8
        assert_eq!(of(0xe180_20d1), pair(load, 2, 3, 0x0101_0101, None)); // [r0, r1]
        assert_eq!(
            of(0xe1a0_20d1),
            pair(load, 2, 3, 0x0101_0101, Some((0, 0x0101_0101)))
        ); // [r0, r1]!
        assert_eq!(of(0xe000_20d1), pair(load, 2, 3, 0, Some((0, -0x0101_0101)))); // [r0], -r1
    }
    // From behind the instruction.
    let literal = of(Instruction::Arm(0xe1cf_20d9)).map(|access| access.start);
    assert_eq!(literal, Some(CODE + 2 + 8 + 9));
    // No register follows r15.
    assert_eq!(of(Instruction::Arm(0xe1c0_f0d0)), None);
}

#[test]
fn thumb_multiple() {
    assert_eq!(of(Instruction::Thumb(0xc006)), list(false, 6, 0, Some((0, 8)))); // stm r0!, {r1, r2}
    assert_eq!(of(Instruction::Thumb(0xc007)), list(false, 7, 0, Some((0, 12)))); // stm r0!, {r0, r1, r2}
    assert_eq!(of(Instruction::Thumb(0xc806)), list(true, 6, 0, Some((0, 8)))); // ldm r0!, {r1, r2}
    assert_eq!(of(Instruction::Thumb(0xc803)), list(true, 3, 0, None)); // ldm r0, {r0, r1}
    assert_eq!(of(Instruction::Thumb(0xb401)), list(false, 1, -4, Some((13, -4)))); // push {r0}
    assert_eq!(
        of(Instruction::Thumb(0xb510)),
        list(false, 0x4010, -8, Some((13, -8)))
    ); // push {r4, lr}
    assert_eq!(of(Instruction::Thumb(0xbc01)), list(true, 1, 0, Some((13, 4)))); // pop {r0}
    assert_eq!(
        of(Instruction::Thumb(0xbd10)),
        list(true, 0x8010, 0, Some((13, 8)))
    ); // pop {r4, pc}
    for (first, load, down) in [
        (0xe888, false, false),
        (0xe898, true, false),
        (0xe908, false, true),
        (0xe918, true, true),
    ] {
        // r8, {r0, r1}, and with write-back.
        let start = if down { -8 } else { 0 };
        assert_eq!(of(Instruction::Thumb2(first, 3)), list(load, 3, start, None));
        let back = Some((8, if down { -8 } else { 8 }));
        assert_eq!(
            of(Instruction::Thumb2(first | 0x20, 3)),
            list(load, 3, start, back)
        );
    }
    // push.w {r4, lr}; pop.w {r4, pc}
    let push = of(Instruction::Thumb2(0xe92d, 0x4010));
    assert_eq!(push, list(false, 0x4010, -8, Some((13, -8))));
    let pop = of(Instruction::Thumb2(0xe8bd, 0x8010));
    assert_eq!(pop, list(true, 0x8010, 0, Some((13, 8))));
}

#[test]
fn thumb_double() {
    for (bits, load) in [(0, false), (0x10, true)] {
        let of = |first: u16, second| of(Instruction::Thumb2(first | bits, second));
        assert_eq!(of(0xe9c0, 0x2502), pair(load, 2, 5, 8, None)); // r2, r5, [r0, #8]
        assert_eq!(of(0xe940, 0x25ff), pair(load, 2, 5, -1020, None)); // [r0, #-1020]
        assert_eq!(of(0xe960, 0x2502), pair(load, 2, 5, -8, Some((0, -8)))); // [r0, #-8]!
        assert_eq!(of(0xe8e0, 0x2504), pair(load, 2, 5, 0, Some((0, 16)))); // [r0], #16
        assert_eq!(of(0xe860, 0x2504), pair(load, 2, 5, 0, Some((0, -16)))); // [r0], #-16
    }
    // From behind the instruction, rounded down to a word.
    let literal = of(Instruction::Thumb2(0xe9df, 0x2301)).map(|access| access.start);
    assert_eq!(literal, Some(((CODE + 4) & !3) + 4));
}

#[test]
fn others() {
    for word in [
        0xe590_1000, // ldr r1, [r0]
        0xe580_1000, // str r1, [r0]
        0xe1d0_10b0, // ldrh
        0xe1c0_10b0, // strh
        0xe1d0_10f0, // ldrsh
        0xe1d0_10d0, // ldrsb
        0xe190_1f9f, // ldrex
        0xe1b0_2f9f, // ldrexd
        0xe100_1092, // swp
        0xec90_0b04, // vldm
        0xed90_0b00, // vldr
        0xf890_0a00, // rfe
        0xe8d0_0006, // ldm of user mode's registers
        0xe000_0291, // mul
    ] {
        assert_eq!(of(Instruction::Arm(word)), None, "{word:#x}");
    }
    for half in [
        0x6801, // ldr r1, [r0]
        0x6001, // str
        0x8801, // ldrh
        0x8001, // strh
        0x5e41, // ldrsh r1, [r0, r1]
        0x9901, // ldr r1, [sp, #4]
        0xb662, // cpsie
        0xbf00, // nop
        0xb082, // sub sp
    ] {
        assert_eq!(of(Instruction::Thumb(half)), None, "{half:#x}");
    }
    for (first, second) in [
        (0xf8d0, 0x1000), // ldr.w r1, [r0]
        (0xf8b0, 0x1000), // ldrh.w
        (0xe850, 0x1f00), // ldrex
        (0xe840, 0x1200), // strex
        (0xe8d0, 0x127f), // ldrexd
        (0xe8d0, 0xf001), // tbb
        (0xe810, 0xc000), // rfedb
        (0xec90, 0x0b04), // vldm
        (0xea40, 0x0001), // orr
    ] {
        assert_eq!(
            of(Instruction::Thumb2(first, second)),
            None,
            "{first:#x} {second:#x}"
        );
    }
}

/// Memory with that code, and with words 0x1111_1111, 0x2222_2222 and so on at [`DATA`].
fn memory(code: &[u16]) -> Bytes {
    let mut memory = Bytes::default();
    for (n, half) in code.iter().enumerate() {
        memory.put(CODE + 2 * n as u32, &half.to_le_bytes());
    }
    for n in 0..8 {
        memory.put(DATA + 4 * n, &((n + 1) * 0x1111_1111).to_le_bytes());
    }
    memory
}

#[test]
fn loads() {
    // ldmia r0!, {r1, r2}
    let mut state = state(false);
    let before = state;
    let mut memory = memory(&[0, 0x0006, 0xe8b0]);
    assert_eq!(fix(&mut state, &mut memory, DATA), Outcome::Done);
    let mut expected = before;
    (expected.registers[1], expected.registers[2]) = (0x1111_1111, 0x2222_2222);
    expected.registers[0] += 8;
    expected.registers[15] += 4;
    assert_eq!(state, expected);
}

#[test]
fn a_loaded_base_is_as_loaded() {
    for (code, thumb) in [([0, 0x0003, 0xe8b0], false), ([0xc803, 0, 0], true)] {
        let mut state = state(thumb);
        assert_eq!(fix(&mut state, &mut memory(&code), DATA), Outcome::Done);
        assert_eq!(state.registers[..2], [0x1111_1111, 0x2222_2222]);
    }
}

#[test]
fn stores() {
    // stmdb sp!, {r1, sp, pc}, from where there is memory.
    let mut state = state(false);
    let mut memory = memory(&[0, 0xa002, 0xe92d]);
    state.registers[13] = DATA + 12;
    assert_eq!(fix(&mut state, &mut memory, DATA), Outcome::Done);
    let words = [0, 4, 8, 12].map(|at| memory.word(DATA + at));
    let pc = CODE + 2 + 8;
    assert_eq!(words, [0x0101_0101, DATA + 12, pc, 0x4444_4444].map(Some));
    assert_eq!(state.registers[13], DATA);
}

#[test]
fn doubles() {
    // ldrd r2, r5, [r0], #16, in Thumb
    let mut state = state(true);
    let mut memory = memory(&[0xe8f0, 0x2504]);
    assert_eq!(fix(&mut state, &mut memory, DATA), Outcome::Done);
    assert_eq!(
        (state.registers[2], state.registers[5]),
        (0x1111_1111, 0x2222_2222)
    );
    assert_eq!((state.registers[0], state.registers[15]), (DATA + 16, CODE + 4));
}

#[test]
fn the_program_counter() {
    // pop {pc}, which changes to Arm and stays in Thumb
    for (target, psr) in [(0x4000, 0x10), (0x4001, 0x30)] {
        let mut state = state(true);
        let mut memory = memory(&[0xbd00]);
        memory.put(DATA, &u32::to_le_bytes(target));
        assert_eq!(fix(&mut state, &mut memory, DATA), Outcome::Done);
        assert_eq!((state.registers[15], state.psr), (0x4000, psr));
        assert_eq!(state.registers[13], DATA + 4);
    }
}

#[test]
fn it_moves_on() {
    // The eight bits of the state, before and after: A2.5.2.
    for (before, after) in [(0x08, 0), (0x04, 0x08), (0x16, 0x0c), (0xe1, 0xe2), (0, 0)] {
        let bits = |it: u32| (it & 0xfc) << 8 | (it & 3) << 25;
        let mut state = state(true);
        state.psr |= bits(before);
        assert_eq!(fix(&mut state, &mut memory(&[0xc806]), DATA), Outcome::Done);
        assert_eq!(state.psr, 0x30 | bits(after), "{before:#x}");
        assert_eq!(state.registers[15], CODE + 2);
    }
}

#[test]
fn faults() {
    let before = state(false);
    let attempt = |code: [u16; 3], at, missing: u32| {
        let mut memory = memory(&code);
        memory.0.remove(&missing);
        let mut after = before;
        after.registers[0] = at;
        let outcome = fix(&mut after, &mut memory, at);
        after.registers[0] = before.registers[0];
        assert_eq!(after, before);
        outcome
    };
    // ldmia r0!, {r1, r2}; stmia r0!, {r1, r2}: the second word, the instruction
    for code in [[0, 0x0006, 0xe8b0], [0, 0x0006, 0xe8a0]] {
        assert_eq!(attempt(code, DATA, DATA + 7), Outcome::Fault(DATA + 4));
        assert_eq!(attempt(code, DATA, CODE + 4), Outcome::Fault(CODE + 2));
    }
}

#[test]
fn unknown() {
    // ldr r1, [r0]; ldrex r1, [r0] in both instruction sets; a Thumb store: the program counter is behind
    // them.
    let cases: [(bool, [u16; 3], u32); 4] = [
        (false, [0, 0x1000, 0xe590], 4),
        (false, [0, 0x1f9f, 0xe190], 4),
        (true, [0xe850, 0x1f00, 0], 4),
        (true, [0x6001, 0, 0], 2),
    ];
    for (thumb, code, length) in cases {
        let before = state(thumb);
        let mut after = before;
        assert_eq!(fix(&mut after, &mut memory(&code), DATA), Outcome::Unknown);
        assert_eq!(after.registers[15], before.registers[15] + length, "{code:x?}");
        after.registers[15] = before.registers[15];
        assert_eq!(after, before);
    }
}

#[test]
fn elsewhere() {
    // An access that does not begin near the address.
    for (addr, outcome) in [(DATA + 65, Outcome::Unknown), (DATA + 64, Outcome::Done)] {
        let mut state = state(true);
        assert_eq!(fix(&mut state, &mut memory(&[0xc806]), addr), outcome);
    }
    // The second half of an instruction.
    let mut state = state(true);
    assert_eq!(
        fix(&mut state, &mut memory(&[0xe8b0]), DATA),
        Outcome::Fault(CODE)
    );
}

#[test]
fn breakpoints() {
    let is = |thumb, code: [u16; 2]| is_breakpoint(&memory(&code), thumb, CODE);
    // For every condition; udf #1 and its wide form.
    for condition in 0..16 {
        assert!(is(false, [0x01f0, condition << 12 | 0x7f0]));
    }
    assert!(is(true, [0xde01, 0]) && is(true, [0xf7f0, 0xa000]));
    for (thumb, code) in [
        (false, [0xde01, 0]),
        (false, [0x01f1, 0xe7f0]),
        (true, [0xde00, 0]),
        (true, [0x01f0, 0xe7f0]),
    ] {
        assert!(!is(thumb, code), "{code:x?}");
    }
    // Where there is only a first half.
    assert!(is_breakpoint(&memory(&[0xde01]), true, CODE) && !is_breakpoint(&memory(&[0xf7f0]), true, CODE));
}
