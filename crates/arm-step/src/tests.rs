use super::*;
use std::collections::BTreeMap;

/// Bytes of memory; what has none is not there.
#[derive(Default)]
struct Bytes(BTreeMap<u32, u8>);

impl Bytes {
    fn put(&mut self, at: u32, bytes: &[u8]) {
        self.0.extend((at..).zip(bytes.iter().copied()));
    }
    fn get<const N: usize>(&self, at: u32) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        for (n, byte) in (0..).zip(&mut bytes) {
            *byte = *self.0.get(&at.wrapping_add(n))?;
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
    fn set_word(&mut self, _: u32, _: u32) -> Option<()> {
        panic!("a step stores nothing")
    }
}

/// `CPSR.T`: Thumb.
const PSR_T: u32 = 1 << 5;

const CODE: u32 = 0x1_0100;
const DATA: u32 = 0x2_0000;
const N: u32 = 1 << 31;
const Z: u32 = 1 << 30;
const C: u32 = 1 << 29;

/// Registers in front of the step: r0 is [`DATA`], where the words 0x3001, 0x3100, 0x3202 lie behind
/// 0x3300 and 0x3400; r1 to r3 are small.
fn before(psr: u32) -> State {
    let mut registers = [0; 16];
    registers[..4].copy_from_slice(&[DATA, 2, 0x5000, 0x4001]);
    (registers[13], registers[14], registers[15]) = (DATA, 0x6003, CODE);
    State {
        registers,
        psr: psr | 0x10,
    }
}

fn memory(code: &[u8]) -> Bytes {
    let mut memory = Bytes::default();
    memory.put(CODE, code);
    let words: [u32; 6] = [0x3300, 0x3400, 0x3001, 0x3100, 0x3200, 0x3500];
    for (at, word) in (DATA - 8..).step_by(4).zip(words) {
        memory.put(at, &word.to_le_bytes());
    }
    memory
}

fn run(code: &[u8], psr: u32) -> (Step, State) {
    let mut state = before(psr);
    let step = step(&mut state, &mut memory(code));
    if step != Step::Done {
        assert_eq!(state, before(psr));
    }
    (step, state)
}

/// Where an instruction of Arm goes, and whether Thumb is there; the rest of the state is as `change` makes
/// it.
fn arm(word: u32, psr: u32, to: u32, thumb: bool, change: impl FnOnce(&mut State)) {
    check(&word.to_le_bytes(), psr, to, thumb, change);
}

fn check(code: &[u8], psr: u32, to: u32, thumb: bool, change: impl FnOnce(&mut State)) {
    let (step, state) = run(code, psr);
    assert_eq!(step, Step::Done, "{code:x?}");
    let mut wanted = before(psr);
    wanted.registers[15] = to;
    wanted.psr = wanted.psr & !PSR_T | u32::from(thumb) << 5;
    change(&mut wanted);
    assert_eq!(state, wanted, "{code:x?}");
}

fn thumb(halves: &[u16], psr: u32, to: u32, thumb: bool, change: impl FnOnce(&mut State)) {
    check(&bytes(halves), psr | PSR_T, to, thumb, change);
}

fn bytes(halves: &[u16]) -> Vec<u8> {
    halves.iter().flat_map(|half| half.to_le_bytes()).collect()
}

fn runs(code: &[u8], psr: u32, stops: &[u32]) {
    match run(code, psr).0 {
        Step::Runs(found) => assert_eq!(found.addresses(), stops, "{code:x?}"),
        other => panic!("{code:x?}: {other:?}"),
    }
}

fn nothing(_: &mut State) {}

#[test]
fn arm_branches() {
    arm(0xeaff_fffe, 0, CODE, false, nothing); // b .
    arm(0x1a00_0006, 0, CODE + 0x20, false, nothing); // bne .+0x20
    runs(&0x1a00_0006u32.to_le_bytes(), Z, &[CODE + 4]);
    let link = |state: &mut State| state.registers[14] = CODE + 4;
    arm(0xebff_ffee, 0, CODE - 0x40, false, link); // bl .-0x40
    arm(0xfb00_003b, 0, CODE + 0xf6, true, link); // blx .+0xf6
    arm(0xe12f_ff1e, 0, 0x6002, true, nothing); // bx lr
    arm(0xe12f_ff33, 0, 0x4000, true, link); // blx r3
    arm(0xe12f_ff22, 0, 0x5000, false, nothing); // bxj r2
}

#[test]
fn arm_calculations() {
    arm(0xe1a0_f003, 0, 0x4000, true, nothing); // mov pc, r3
    arm(0xe08f_f101, 0, CODE + 16, false, nothing); // add pc, pc, r1, lsl #2
    arm(0xe24e_f003, 0, 0x6000, false, nothing); // sub pc, lr, #3
    arm(0xe2e1_f012, 0, 15, true, |state| state.registers[15] = 14); // rsc pc, r1, #18: 18 - 2 - 1
    arm(0xe2e1_f012, C, 16, false, nothing);
    arm(0xe1a0_f062, 0, 0x2800, false, nothing); // mov pc, r2, rrx
    arm(0xe1a0_f062, C, 0x8000_2800, false, nothing);
    arm(0xe3c2_fa01, 0, 0x4000, false, nothing); // bic pc, r2, #0x1000
    arm(0xe3e0_f0ff, 0, 0xffff_ff00, false, nothing); // mvn pc, #0xff
    for word in [
        0xe1b0_f00eu32, // movs pc, lr
        0xe150_0001,    // cmp r0, r1
        0xe00f_0291,    // mul r15, r1, r2
        0xe30f_1000,    // movw r1, #0xf000
        0xe128_f000,    // msr cpsr_f, r0
        0xef00_0000,    // svc 0
        0xe7f0_01f0,    // udf
    ] {
        runs(&word.to_le_bytes(), 0, &[CODE + 4]);
    }
}

#[test]
fn arm_loads() {
    let moved = |by: u32| move |state: &mut State| state.registers[0] = DATA.wrapping_add(by);
    arm(0xe490_f004, 0, 0x3000, true, moved(4)); // ldr pc, [r0], #4
    arm(0xe530_f008, 0, 0x3300, false, moved(8u32.wrapping_neg())); // ldr pc, [r0, #-8]!
    arm(0xe790_f101, 0, 0x3200, false, nothing); // ldr pc, [r0, r1, lsl #2]
    arm(0xe8bd_8010, 0, 0x3100, false, |state| {
        // pop {r4, pc}
        (state.registers[4], state.registers[13]) = (0x3001, DATA + 8);
    });
    arm(0x0930_8002, Z, 0x3400, false, |state| {
        // ldmdbeq r0!, {r1, pc}
        (state.registers[0], state.registers[1]) = (DATA - 8, 0x3300);
    });
    runs(&0x0930_8002u32.to_le_bytes(), 0, &[CODE + 4]);
    // What cannot be read is the processor's to find out.
    runs(&0xe491_f004u32.to_le_bytes(), 0, &[CODE + 4]); // ldr pc, [r1], #4
    runs(&0xe891_8010u32.to_le_bytes(), 0, &[CODE + 4]); // ldm r1, {r4, pc}
    runs(&0xe5d0_f000u32.to_le_bytes(), 0, &[CODE + 4]); // ldrb pc, [r0]
}

#[test]
fn thumb_branches() {
    thumb(&[0xe7fe], 0, CODE, true, nothing); // b .
    thumb(&[0xd006], Z, CODE + 0x10, true, nothing); // beq .+0x10
    runs(&bytes(&[0xd006]), PSR_T, &[CODE + 2]);
    let link = |by: u32| move |state: &mut State| state.registers[14] = CODE + by + 1;
    thumb(&[0x4770], 0, 0x6002, true, nothing); // bx lr
    thumb(&[0x4798], 0, 0x4000, true, link(2)); // blx r3
    thumb(&[0x4790], 0, 0x5000, false, link(2)); // blx r2
    thumb(&[0x4778], 0, CODE + 4, false, nothing); // bx pc
    thumb(&[0x468f], 0, 2, true, nothing); // mov pc, r1
    thumb(&[0x4497], 0, CODE + 4 + 0x5000, true, nothing); // add pc, r2
    runs(&bytes(&[0xb171]), PSR_T, &[CODE + 2]); // cbz r1
    thumb(&[0xb174], 0, CODE + 0x20, true, nothing); // cbz r4, .+0x20
    thumb(&[0xbb01], 0, CODE + 0x44, true, nothing); // cbnz r1, .+0x44
    runs(&bytes(&[0xdf00]), PSR_T, &[CODE + 2]); // svc 0
    runs(&bytes(&[0xde01]), PSR_T, &[CODE + 2]); // udf #1
    thumb(&[0xf47f, 0xaffe], 0, CODE, true, nothing); // bne.w .
    runs(&bytes(&[0xf47f, 0xaffe]), PSR_T | Z, &[CODE + 4]);
    thumb(&[0xf7fd, 0xbffe], 0, CODE - 0x2000, true, nothing); // b.w .-0x2000
    thumb(&[0xf3ff, 0xf7fe], 0, CODE + 0x80_0000, true, link(4)); // bl .+0x800000
    thumb(&[0xf7ff, 0xef6a], 0, CODE - 0x128, false, link(4)); // blx .-0x128
    runs(&bytes(&[0xf3bf, 0x8f5b]), PSR_T, &[CODE + 4]); // dmb ish
    runs(&bytes(&[0xf7f0, 0xa000]), PSR_T, &[CODE + 4]); // udf.w #0
    thumb(&[0xf3c3, 0x8f00], 0, 0x4000, true, nothing); // bxj r3
}

#[test]
fn thumb_loads() {
    thumb(&[0xbd10], 0, 0x3100, false, |state| {
        // pop {r4, pc}
        (state.registers[4], state.registers[13]) = (0x3001, DATA + 8);
    });
    let moved = |by: u32| move |state: &mut State| state.registers[0] = DATA.wrapping_add(by);
    thumb(&[0xf8d0, 0xf00c], 0, 0x3500, false, nothing); // ldr.w pc, [r0, #12]
    thumb(&[0xf850, 0xfb04], 0, 0x3000, true, moved(4)); // ldr.w pc, [r0], #4
    thumb(&[0xf850, 0xfd04], 0, 0x3400, false, moved(4u32.wrapping_neg())); // ldr.w pc, [r0, #-4]!
    thumb(&[0xf850, 0xf021], 0, 0x3200, false, nothing); // ldr.w pc, [r0, r1, lsl #2]
    // ldr.w pc, [pc, #-4]: the instruction itself.
    thumb(&[0xf85f, 0xf004], 0, 0xf004_f85e, true, nothing);
    thumb(&[0xe8b0, 0x8110], 0, 0x3200, false, |state| {
        // ldmia.w r0!, {r4, r8, pc}
        (state.registers[0], state.registers[4], state.registers[8]) = (DATA + 12, 0x3001, 0x3100);
    });
    // tbb [pc, r1], tbh [r0, r1, lsl #1]
    thumb(&[0xe8df, 0xf001, 0, 0x0700], 0, CODE + 4, true, nothing);
    thumb(&[0xe8d0, 0xf011], 0, CODE + 4 + 2 * 0x3100, true, nothing);
    runs(&bytes(&[0xe8d1, 0xf011]), PSR_T, &[CODE + 4]);
    let mut state = before(PSR_T);
    state.registers[1] = 3;
    let mut memory = memory(&bytes(&[0xe8df, 0xf001, 0, 0x0700]));
    assert_eq!(step(&mut state, &mut memory), Step::Done);
    assert_eq!(state.registers[15], CODE + 4 + 14);
}

/// The state of an `it` block in the program status.
fn it(state: u32) -> u32 {
    (state & 0xfc) << 8 | (state & 3) << 25
}

#[test]
fn blocks_of_it() {
    // The last one of a block of `ne`.
    let last = it(0x18);
    thumb(&[0x4770], last, 0x6002, true, |state| state.psr &= !it(0xff));
    runs(&bytes(&[0x4770]), PSR_T | Z | last, &[CODE + 2]);
    thumb(&[0xbd10], last, 0x3100, false, |state| {
        (state.registers[4], state.registers[13]) = (0x3001, DATA + 8);
        state.psr &= !it(0xff);
    });
    // it eq
    runs(&bytes(&[0xbf08]), PSR_T, &[CODE + 2]);
}

#[test]
fn conditions() {
    for (condition, psr, met) in [
        (0, Z, true),
        (1, Z, false),
        (2, C, true),
        (3, C, false),
        (4, N, true),
        (8, C, true),
        (8, C | Z, false),
        (9, C | Z, true),
        (10, N, false),
        (11, N, true),
        (12, 0, true),
        (12, Z, false),
        (13, Z, true),
        (14, 0, true),
    ] {
        let word: u32 = 0x0aff_fffe | condition << 28;
        let (step, _) = run(&word.to_le_bytes(), psr);
        assert_eq!(step == Step::Done, met, "{condition} {psr:x}");
    }
}

#[test]
fn exclusive_sequences() {
    // 1: ldrex, cmp, bne 2f, strex, cmp, bne 1b, 2: bx lr
    let code = [
        0xe850, 0x1f00, 0x4291, 0xd103, 0xe840, 0x2300, 0x2b00, 0xd1f7, 0x4770,
    ];
    runs(&bytes(&code), PSR_T, &[CODE + 12, CODE + 16]);
    // ldrexd, cbz 4f, dmb, b.w 4f, it eq, strexdeq, 4:
    let code = [
        0xe8d0, 0x457f, 0xb134, 0xf3bf, 0x8f5b, 0xf000, 0xb803, 0xbf08, 0xe8c0, 0x2371, 0xbf00,
    ];
    runs(&bytes(&code), PSR_T, &[CODE + 20]);
    // ldrex, cmp, beq, mcr, strexeq, teq
    let code: Vec<u8> = [
        0xe190_1f9fu32,
        0xe151_0002,
        0x0a00_0003,
        0xee07_0fba,
        0x0180_3f92,
        0xe333_0001,
    ]
    .iter()
    .flat_map(|word| word.to_le_bytes())
    .collect();
    runs(&code, 0, &[CODE + 20, CODE + 28]);
    // One that calls a function, and one without an end.
    runs(
        &bytes(&[0xe850, 0x1f00, 0x4798, 0xe840, 0x2300]),
        PSR_T,
        &[CODE + 4],
    );
    runs(&bytes(&[0xe850, 0x1f00, 0x4291]), PSR_T, &[CODE + 4]);
    // Behind the load a step is one as any other.
    runs(&bytes(&[0x4291, 0xd103, 0xe840, 0x2300]), PSR_T, &[CODE + 2]);
}

#[test]
fn what_cannot_be_read() {
    assert_eq!(run(&[], 0).0, Step::Unreadable);
    assert_eq!(run(&[0xff, 0xf7], PSR_T).0, Step::Unreadable);
}

#[test]
fn any_instruction_is_one_step() {
    let mut seed = 0x2545_f491u32;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 17;
        seed ^= seed << 5;
        seed
    };
    let mut done = 0;
    for _ in 0..100_000 {
        let (words, psr) = ([random(), random()], random() & !0x1f);
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        match run(&code, psr).0 {
            Step::Done => done += 1,
            Step::Runs(stops) => assert!(stops.addresses()[0] > CODE && stops.addresses().len() <= STOPS),
            Step::Unreadable => panic!("{words:x?}"),
        }
    }
    assert!(done > 1000);
}
