//! Relocations of 32-bit Arm: instructions are decoded again, and must mean the target.

mod common;

use common::*;
use limen_module::*;
use proptest::prelude::*;

const CALL: u32 = 28;
const JUMP24: u32 = 29;
const THM_CALL: u32 = 10;
const THM_JUMP24: u32 = 30;
const THM_JUMP19: u32 = 51;

const BL: u32 = 0xebff_fffe;
const BL_EQ: u32 = 0x0bff_fffe;
const BLX: u32 = 0xfaff_fffe;
const B: u32 = 0xeaff_fffe;
/// BL and B.W of Thumb as assemblers leave them: with -4. The first half is the upper one.
const THUMB_BL: u32 = 0xf7ff_fffe;
const THUMB_BLX: u32 = 0xf7ff_effe;
const THUMB_B: u32 = 0xf7ff_bffe;
const THUMB_BNE: u32 = 0xf47f_affe;

fn sign(value: u32, bits: u32) -> u32 {
    ((value << (32 - bits)) as i32 >> (32 - bits)) as u32
}

/// Where a branch in Arm state goes: the address with the state in its lowest bit.
fn arm(code: u32, at: u32) -> u32 {
    let distance = sign(code & 0xff_ffff, 24) << 2;
    assert_eq!(code >> 25 & 7, 5, "{code:#x}");
    let to = at.wrapping_add(8).wrapping_add(distance);
    if code >> 28 == 15 {
        (to + (code >> 23 & 2)) | 1
    } else {
        to
    }
}

/// Where a branch in Thumb state goes.
fn thumb(code: u32, at: u32) -> u32 {
    let bit = |n: u32| code >> n & 1;
    assert_eq!(code >> 27, 0x1e);
    if code & 0xd000 == 0x8000 {
        let low = (code >> 16 & 0x3f) << 12 | (code & 0x7ff) << 1;
        let distance = sign(bit(26) << 20 | bit(11) << 19 | bit(13) << 18 | low, 21);
        return at.wrapping_add(4).wrapping_add(distance) | 1;
    }
    let (s, i1, i2) = (bit(26), 1 ^ bit(13) ^ bit(26), 1 ^ bit(11) ^ bit(26));
    let distance = sign(
        s << 24 | i1 << 23 | i2 << 22 | (code >> 16 & 0x3ff) << 12 | (code & 0x7ff) << 1,
        25,
    );
    match code & 0xd000 {
        0x9000 | 0xd000 => at.wrapping_add(4).wrapping_add(distance) | 1,
        0xc000 => {
            assert_eq!(code & 1, 0);
            (at.wrapping_add(4) & !3).wrapping_add(distance)
        }
        _ => panic!("{code:#x}"),
    }
}

fn bytes(kind: u32, code: u32) -> [u8; 4] {
    let halves = matches!(kind, THM_CALL | THM_JUMP24 | THM_JUMP19 | 47..=50);
    if halves { code.rotate_left(16) } else { code }.to_le_bytes()
}

fn make(kind: u32, code: u32, place: u32, target: Target, veneer: Option<u32>) -> Result<u32, Fault> {
    let veneer = veneer.map(u64::from);
    let made = one::<Arm>(kind, &bytes(kind, code), place.into(), target, 0, veneer)?;
    let made: [u8; 4] = made.try_into().unwrap();
    Ok(u32::from_le_bytes(bytes(kind, u32::from_le_bytes(made))))
}

fn distance() -> impl Strategy<Value = i32> {
    let near = (18..27u32, any::<bool>(), -16..16i32);
    prop_oneof![
        (1..27u32, any::<i32>()).prop_map(|(bits, n)| n >> (31 - bits)),
        near.prop_map(|(bits, negative, off)| if negative { -(1 << bits) } else { 1 << bits } + off),
    ]
}

const PLACE: u32 = 0xbf40_0000;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn branches(far in distance(), to_thumb in any::<bool>(), slot in 0..1024u32) {
        for (kind, code, from_thumb, reach, calls) in [
            (CALL, BL, false, 1 << 25, true),
            (CALL, BLX, false, 1 << 25, true),
            (JUMP24, B, false, 1 << 25, false),
            (JUMP24, BL_EQ, false, 1 << 25, false),
            (1, BL, false, 1 << 25, true),
            (THM_CALL, THUMB_BL, true, 1 << 24, true),
            (THM_CALL, THUMB_BLX, true, 1 << 24, true),
            (THM_JUMP24, THUMB_B, true, 1 << 24, false),
            (THM_JUMP19, THUMB_BNE, true, 1 << 20, false),
        ] {
            let place = PLACE + slot * if from_thumb { 2 } else { 4 };
            let address = place.wrapping_add_signed(far) & if to_thumb { !1 } else { !3 };
            let target = own((address | u32::from(to_thumb)).into());
            let far = i64::from(address) - i64::from(place);
            let made = make(kind, code, place, target, None);
            let (bias, slack) = if from_thumb { (4, 2) } else { (8, 0) };
            let near = far - bias >= -reach && far - bias < reach;
            let surely = far - bias >= -reach && far - bias < reach - 4 - slack;
            if let Ok(made) = made {
                prop_assert!(near && (from_thumb == to_thumb || calls));
                let gone = if from_thumb { thumb(made, place) } else { arm(made, place) };
                prop_assert_eq!(u64::from(gone), target.value, "{} {:#x}", kind, made);
                if !calls {
                    let kept = match kind {
                        THM_JUMP24 => 0xf800_d000,
                        THM_JUMP19 => 0xfbc0_d000,
                        _ => 0xff00_0000,
                    };
                    prop_assert_eq!(made & kept, code & kept);
                }
            } else {
                prop_assert_eq!(made, Err(Fault::Overflow), "{:#x}", far);
                prop_assert!(!surely || from_thumb != to_thumb && !calls);
            }
            // Through a veneer, which is in the state of the branch.
            let veneer = (place + 4096) & !3;
            let distant = Target { value: (address ^ 0x4000_0000 | u32::from(to_thumb)).into(), ..target };
            let made = make(kind, code, place, distant, Some(veneer)).unwrap();
            let gone = if from_thumb { thumb(made, place) } else { arm(made, place) };
            prop_assert_eq!(gone, veneer | u32::from(from_thumb), "{} {:#x}", kind, made);
        }
    }

    #[test]
    fn what_is_no_function_keeps_the_state(far in -1000..1000i32) {
        let address = PLACE.wrapping_add_signed(far) & !3;
        let label = Target { code: false, ..own(address.into()) };
        for (kind, code) in [(CALL, BL), (CALL, BLX), (JUMP24, B)] {
            let made = make(kind, code, PLACE, label, None).unwrap();
            prop_assert_eq!(arm(made, PLACE), address | u32::from(code == BLX));
        }
        for (kind, code) in [(THM_CALL, THUMB_BL), (THM_CALL, THUMB_BLX), (THM_JUMP24, THUMB_B)] {
            let made = make(kind, code, PLACE + 2, label, None).unwrap();
            prop_assert_eq!(thumb(made, PLACE + 2), address | u32::from(code != THUMB_BLX));
        }
    }

    #[test]
    fn data(value in any::<u32>(), addend in any::<i32>(), place in any::<u32>()) {
        let to = own(value.into());
        let sum = value.wrapping_add_signed(addend);
        prop_assert_eq!(make(2, addend as u32, place, to, None), Ok(sum));
        prop_assert_eq!(make(38, addend as u32, place, to, None), Ok(sum));
        prop_assert_eq!(make(3, addend as u32, place, to, None), Ok(sum.wrapping_sub(place)));
        prop_assert_eq!(make(40, 0xe12f_ff1e, place, to, None), Ok(0xe12f_ff1e));
        for top in [0, 1 << 31] {
            let made = make(42, addend as u32 & 0x7fff_ffff | top, place, to, None);
            let far = value.wrapping_add(sign(addend as u32 & 0x7fff_ffff, 31)).wrapping_sub(place);
            if sign(far, 31) == far {
                prop_assert_eq!(made, Ok(far & 0x7fff_ffff | top));
            } else {
                prop_assert_eq!(made, Err(Fault::Overflow));
            }
        }
    }

    #[test]
    fn moves(value in any::<u32>(), addend in any::<i16>(), place in any::<u32>(), register in 0..15u32) {
        let to = own(value.into());
        let imm = u32::from(addend as u16);
        let sum = value.wrapping_add_signed(addend.into());
        for (base, right) in [(43, sum), (45, sum.wrapping_sub(place))] {
            let read = |code: u32| {
                assert_eq!(code & 0xff0_f000, code & 0xfb0_0000 | code & 0x40_0000 | register << 12);
                code >> 4 & 0xf000 | code & 0xfff
            };
            let field = (imm & 0xf000) << 4 | imm & 0xfff | register << 12;
            let low = make(base, 0xe300_0000 | field, place, to, None).unwrap();
            let high = make(base + 1, 0xe340_0000 | field, place, to, None).unwrap();
            prop_assert_eq!(read(high) << 16 | read(low), right);
            prop_assert_eq!((low >> 20, high >> 20), (0xe30, 0xe34));
            let read = |code: u32| {
                assert_eq!(code >> 8 & 15, register);
                code >> 4 & 0xf000 | code >> 15 & 0x800 | code >> 4 & 0x700 | code & 0xff
            };
            let field = (imm & 0xf000) << 4 | (imm & 0x800) << 15 | (imm & 0x700) << 4 | imm & 0xff
                | register << 8;
            let low = make(base + 4, 0xf240_0000 | field, place, to, None).unwrap();
            let high = make(base + 5, 0xf2c0_0000 | field, place, to, None).unwrap();
            prop_assert_eq!(read(high) << 16 | read(low), right);
            prop_assert_eq!((low >> 20 & !0x40, high >> 20 & !0x40), (0xf24 & !0x40, 0xf2c & !0x40));
        }
    }
}

/// Follows a branch in `state` (1 Thumb), and a veneer if it goes to one.
fn follow(m: &Loaded, at: u32, state: u32) -> u32 {
    let word = |at: u32| m.u32(at.into());
    let to = match state {
        0 => arm(word(at), at),
        _ => thumb(word(at).rotate_left(16), at),
    };
    let inside = (0..PARTS).any(|n| {
        let start = m.addresses[n] as u32;
        (start..start + m.memory[n].len() as u32).contains(&to)
    });
    if !inside {
        return to;
    }
    match (to & 1, word(to & !1)) {
        (0, 0xe51f_f004) | (1, 0xf000_f8df) => {
            assert_eq!(to & 2, 0);
            word((to & !1) + 4)
        }
        _ => to,
    }
}

/// A module in which Arm and Thumb functions call each other and two of the kernel.
fn mixed() -> (Writer, usize, usize) {
    let mut w = Writer::module::<Arm>();
    let a: Vec<u8> = [BL, BL, BL, BL, B, B, BL_EQ, 0xe12f_ff1e]
        .map(u32::to_le_bytes)
        .concat();
    let arms = w.section(".text", A | X, 4, &a);
    let mut t: Vec<u8> = vec![0x70, 0x47];
    for code in [THUMB_BL, THUMB_BL, THUMB_BL, THUMB_BL, THUMB_B, THUMB_B] {
        t.extend(code.rotate_left(16).to_le_bytes());
    }
    let thumbs = w.section(".text.thumb", A | X, 4, &t);
    let (x, y) = (w.undefined("arm"), w.undefined("thumb"));
    let own_arm = w.symbol("own_arm", LOCAL, FUNC, arms, 28);
    let own_thumb = w.symbol("own_thumb", LOCAL, FUNC, thumbs, 1);
    for (n, symbol) in [x, y, own_arm, own_thumb, own_thumb, y, own_thumb]
        .into_iter()
        .enumerate()
    {
        let kind = if n < 4 { CALL } else { JUMP24 };
        w.relocate(arms, n as u64 * 4, kind, symbol, 0);
    }
    for (n, symbol) in [x, y, own_arm, own_thumb, own_arm, x].into_iter().enumerate() {
        let kind = if n < 4 { THM_CALL } else { THM_JUMP24 };
        w.relocate(thumbs, 2 + n as u64 * 4, kind, symbol, 0);
    }
    (w, arms, thumbs)
}

#[test]
fn veneers_and_interworking() {
    let (w, arms, thumbs) = mixed();
    for (x, y, used) in [
        // Near: only branches that must change the state need one.
        (PLACE + 0x10_0000, PLACE + 0x20_0001, 4),
        (0x8000_1234, 0x8000_4321, 6),
        (PLACE + 0x10_0000, 0x8000_4321, 5),
    ] {
        let kernel = Kernel::with(&[("arm", x.into()), ("thumb", y.into())]);
        let m = load::<Arm>(&w.build(), from(PLACE.into()), kernel).unwrap();
        // From Arm: arm, thumb, own_thumb. From Thumb: arm, thumb, own_arm.
        assert_eq!(m.layout.veneer_count(), 6);
        assert_eq!(m.linked.veneers, used, "{x:#x} {y:#x}");
        let at = |section, offset: u32| m.address(section) as u32 + offset;
        let (own_arm, own_thumb) = (at(arms, 28), at(thumbs, 0) | 1);
        let gone: Vec<u32> = (0..7).map(|n| follow(&m, at(arms, n * 4), 0)).collect();
        assert_eq!(gone, [x, y, own_arm, own_thumb, own_thumb, y, own_thumb]);
        let gone: Vec<u32> = (0..6).map(|n| follow(&m, at(thumbs, 2 + n * 4), 1)).collect();
        assert_eq!(gone, [x, y, own_arm, own_thumb, own_arm, x]);
    }
}

#[test]
fn functions_are_listed_by_their_first_instruction() {
    let (mut w, _, thumbs) = mixed();
    w.section(".ARM.exidx.init.text", A, 4, &[0; 8]);
    let routine = w.undefined("__aeabi_unwind_cpp_pr0");
    w.relocate(thumbs, 0, 0, routine, 0);
    w.symbol("$t", LOCAL, NOTYPE, thumbs, 0);
    let kernel = Kernel::with(&[("arm", 0x8000_0000), ("thumb", 0x8000_0001)]);
    let m = load::<Arm>(&w.build(), from(PLACE.into()), kernel).unwrap();
    let found = m.linked.symbols.find(m.address(thumbs)).unwrap();
    assert_eq!(
        (found.name, found.address),
        (b"own_thumb".as_slice(), m.address(thumbs))
    );
    assert_eq!(m.linked.symbols.iter().count(), 2);
    assert_eq!(m.layout.place(4).unwrap().part, Part::InitData);
}

#[test]
fn others_are_refused() {
    let told = |kind| {
        one::<Arm>(kind, &[0; 8], 0, own(0), 0, None)
            .unwrap_err()
            .to_string()
    };
    assert!(told(26).contains("-fno-pic"));
    assert!(told(104).contains("threads"));
    assert!(told(255).contains("unknown"));
}
