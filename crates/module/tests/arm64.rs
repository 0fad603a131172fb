//! Relocations of arm64: instructions are decoded again, and must mean the target.

mod common;

use common::*;
use limen_module::*;
use proptest::prelude::*;

const PLACE: u64 = 0xffff_8000_0800_0000;

fn sign(value: u64, bits: u32) -> i64 {
    (value << (64 - bits)) as i64 >> (64 - bits)
}

/// What an instruction at `at` means: where a branch, ADR or a literal load goes, what ADRP makes, what 12
/// or 16 bits say.
fn decode(code: u32, at: u64) -> u64 {
    let bits = |low: u32, count: u32| u64::from(code >> low & ((1 << count) - 1));
    let to = |value: i64| at.wrapping_add_signed(value);
    match code {
        _ if code & 0x7c00_0000 == 0x1400_0000 => to(sign(bits(0, 26), 26) * 4),
        _ if code & 0xff00_0010 == 0x5400_0000 => to(sign(bits(5, 19), 19) * 4),
        _ if code & 0x7e00_0000 == 0x3600_0000 => to(sign(bits(5, 14), 14) * 4),
        _ if code & 0x3b00_0000 == 0x1800_0000 => to(sign(bits(5, 19), 19) * 4),
        _ if code & 0x9f00_0000 == 0x1000_0000 => to(sign(bits(5, 19) << 2 | bits(29, 2), 21)),
        _ if code & 0x9f00_0000 == 0x9000_0000 => {
            (at & !0xfff).wrapping_add_signed(sign(bits(5, 19) << 2 | bits(29, 2), 21) << 12)
        }
        _ if code & 0x1f00_0000 == 0x1100_0000 => bits(10, 12),
        // Loads and stores: the size is in the top bits, and for 128 bits in opc.
        _ if code & 0x3b00_0000 == 0x3900_0000 => {
            let scale = if code & 0x0480_0000 == 0x0480_0000 {
                4
            } else {
                code >> 30
            };
            bits(10, 12) << scale
        }
        _ => panic!("{code:#x}"),
    }
}

/// What MOVZ, MOVN and MOVK one after the other leave in a register.
fn moved(codes: &[u32]) -> u64 {
    codes.iter().fold(0, |old, code| {
        let (shift, imm) = ((code >> 21 & 3) * 16, u64::from(code >> 5 & 0xffff));
        match code >> 29 & 3 {
            0 => !(imm << shift),
            2 => imm << shift,
            3 => old & !(0xffff << shift) | imm << shift,
            _ => panic!("{code:#x}"),
        }
    })
}

fn make(kind: u32, code: u32, place: u64, value: u64, addend: i64) -> Result<u32, Fault> {
    let made = one::<Arm64>(kind, &code.to_le_bytes(), place, own(value), addend, None)?;
    Ok(u32::from_le_bytes(made.try_into().unwrap()))
}

/// Distances of all sizes, with the limits of 2^14 to 2^48 bytes among them.
fn distance() -> impl Strategy<Value = i64> {
    let near = (13..50u32, any::<bool>(), -16..16i64);
    prop_oneof![
        (1..60u32, any::<i64>()).prop_map(|(bits, n)| n >> (63 - bits)),
        near.prop_map(|(bits, negative, off)| if negative { -(1 << bits) } else { 1 << bits } + off),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_reaches_means_its_target(far in distance(), addend in -4096..4096i64, slot in 0..1024u64) {
        let place = PLACE + slot * 4;
        let target = place.wrapping_add_signed(far);
        let value = target.wrapping_add_signed(-addend);
        let within = |bits: u32| far >= -(1 << (bits - 1)) && far < 1 << (bits - 1);
        for (kind, code, bits, mask) in [
            (283, 0x9400_0000, 28, 0x3ff_ffffu32),
            (282, 0x1400_0000, 28, 0x3ff_ffff),
            (280, 0x5400_0001, 21, 0xff_ffe0),
            (279, 0x3700_0003, 16, 0x7_ffe0),
            (279, 0xb678_0003, 16, 0x7_ffe0),
            (273, 0x5800_0007, 21, 0xff_ffe0),
            (274, 0x1000_0009, 21, 0x60ff_ffe0),
        ] {
            let made = make(kind, code, place, value, addend);
            if !within(bits) {
                prop_assert_eq!(made, Err(Fault::Overflow));
            } else if kind != 274 && target % 4 != 0 {
                // The last instruction that a branch reaches is 4 bytes before its limit.
                prop_assert!(matches!(made, Err(Fault::Misaligned | Fault::Overflow)));
            } else {
                let made = made.unwrap();
                prop_assert_eq!(decode(made, place), target, "{}: {:#x}", kind, made);
                prop_assert_eq!(made & !mask, code & !mask);
            }
        }
        let pages = (target as i64 >> 12) - (place as i64 >> 12);
        let adrp = make(275, 0x9000_0004, place, value, addend);
        if (-(1 << 20)..1 << 20).contains(&pages) {
            let low = make(277, 0x9100_0084, place, value, addend).unwrap();
            prop_assert_eq!(decode(adrp.unwrap(), place) + decode(low, place), target);
            prop_assert_eq!(make(276, 0x9000_0004, place, value, addend), adrp);
        } else {
            prop_assert_eq!(adrp, Err(Fault::Overflow));
            prop_assert!(make(276, 0x9000_0004, place, value, addend).is_ok());
        }
        for (kind, code, scale) in [
            (278, 0x3940_0000, 0), (284, 0x7900_0000, 1), (285, 0xb940_0000, 2), (286, 0xf940_0000, 3),
            (299, 0x3dc0_0000, 4),
        ] {
            match make(kind, code, place, value, addend) {
                Ok(made) => prop_assert_eq!(decode(made, place), target & 0xfff),
                Err(fault) => {
                    prop_assert_eq!(fault, Fault::Misaligned);
                    prop_assert!(target % (1 << scale) != 0);
                }
            }
        }
    }

    #[test]
    fn moves(value in any::<u64>(), shift in 0..64u32, slot in 0..1024u64) {
        let value = value >> shift;
        let place = PLACE + slot * 4;
        // MOVZ, then MOVKs.
        let all = [(269, 0xd2e0_0001), (268, 0xf2c0_0001), (266, 0xf2a0_0001), (264, 0xf280_0001)];
        let made: Vec<u32> = all.iter().map(|(k, c)| make(*k, *c, place, value, 0).unwrap()).collect();
        prop_assert_eq!(moved(&made), value);
        for (kind, code, bits) in [(263, 0xd280_0001, 16), (265, 0xd2a0_0001, 32), (267, 0xd2c0_0001, 48)] {
            let made = make(kind, code, place, value, 0);
            if value >> bits != 0 {
                prop_assert_eq!(made, Err(Fault::Overflow));
            } else {
                prop_assert_eq!(moved(&[made.unwrap()]), value & (0xffff << (bits - 16)));
            }
        }
        let (number, far) = (value as i64, (value as i64).wrapping_sub(place as i64));
        for (number, kinds) in [(number, [270, 271, 272]), (far, [287, 289, 291])] {
            for (kind, (code, bits)) in kinds.into_iter().zip([(0xd280_0001, 16u32), (0xd2a0_0001, 32),
                (0xd2c0_0001, 48)]) {
                let made = make(kind, code, place, value, 0);
                if number < -(1 << bits) || number >= 1 << bits {
                    prop_assert_eq!(made, Err(Fault::Overflow));
                    continue;
                }
                // The upper part; what is below is all ones if negative, for MOVKs to replace.
                let upper = moved(&[made.unwrap()]);
                let rest = (1u64 << (bits - 16)) - 1;
                prop_assert_eq!(upper & !rest, number as u64 & !rest);
            }
        }
        let (g3, g2, g1, g0) = (make(293, 0xd2e0_0001, place, value, 0),
            make(292, 0xf2c0_0001, place, value, 0),
            make(290, 0xf2a0_0001, place, value, 0), make(288, 0xf280_0001, place, value, 0));
        prop_assert_eq!(moved(&[g3.unwrap(), g2.unwrap(), g1.unwrap(), g0.unwrap()]), far as u64);
    }

    #[test]
    fn data(value in any::<i64>(), shift in 0..64u32, addend in -100..100i64) {
        let value = value >> shift;
        let symbol = own(value.wrapping_sub(addend) as u64);
        let made = |kind, place| one::<Arm64>(kind, &[0; 8], place, symbol, addend, None)
            .map(|b| u64::from_le_bytes(b.try_into().unwrap()));
        prop_assert_eq!(made(257, 0), Ok(value as u64));
        prop_assert_eq!(made(260, 1000), Ok(value.wrapping_sub(1000) as u64));
        for (kind, bits, least, most) in [
            (258, 32, -1 << 31, 1i64 << 32),
            (259, 16, -1 << 15, 1 << 16),
            (261, 32, -1 << 31, 1 << 31),
            (262, 16, -1 << 15, 1 << 15),
        ] {
            let fits = (least..most).contains(&value);
            let right = if fits { Ok(value as u64 & ((1 << bits) - 1)) } else { Err(Fault::Overflow) };
            prop_assert_eq!(made(kind, 0), right, "{}", kind);
        }
    }
}

/// Follows a branch, and a veneer if it goes to one.
fn follow(m: &Loaded, at: u64) -> u64 {
    let to = decode(m.u32(at), at);
    let inside = (0..PARTS).any(|n| {
        let start = m.addresses[n];
        (start..start + m.memory[n].len() as u64).contains(&to)
    });
    if !inside {
        return to;
    }
    let codes: Vec<u32> = (0..5).map(|n| m.u32(to + n * 4)).collect();
    if codes[4] == 0xd61f_0200 {
        assert!(codes[..4].iter().all(|c| c & 31 == 16));
        return moved(&codes[..4]);
    }
    to
}

#[test]
fn veneers() {
    let nop = 0xd503_201fu32.to_le_bytes().repeat(16);
    let mut code = nop.clone();
    for n in 0..8 {
        code[n * 4..n * 4 + 4].copy_from_slice(&0x9400_0000u32.to_le_bytes());
    }
    let mut w = Writer::module::<Arm64>();
    let text = w.section(".text", A | X, 16, &code);
    let more = w.section(".text.more", A | X, 16, &nop);
    let init = w.section(".init.text", A | X, 16, &code);
    let far = w.undefined("far");
    let near = w.undefined("near");
    let weak = w.symbol("weak", WEAK, NOTYPE, 0, 0);
    let inside = w.symbol("inside", LOCAL, FUNC, more, 8);
    for (section, calls) in [
        (
            text,
            vec![(far, 0), (far, 4), (far, 0), (near, 0), (weak, 0), (inside, 0)],
        ),
        (init, vec![(far, 0), (inside, 0), (inside, 4)]),
    ] {
        for (n, (symbol, addend)) in calls.into_iter().enumerate() {
            w.relocate(section, n as u64 * 4, 283, symbol, addend);
        }
    }
    let target = 0xffff_c123_4567_89a8;
    let kernel = Kernel::with(&[("far", target), ("near", PLACE + (1 << 26))]);
    let file = w.build();
    let m = load::<Arm64>(&file, from(PLACE), kernel.clone()).unwrap();
    // far, far + 4, near, weak; and for init: far, inside, inside + 4.
    assert_eq!(m.layout.veneer_count(), 7);
    assert_eq!(m.layout.used(Part::Text), 128 + 4 * 24);
    assert_eq!(m.layout.used(Part::InitText), 64 + 3 * 24);
    // Those that are used: init's calls within the module reach.
    assert_eq!(m.linked.veneers, 4);
    let at = |section, n: u64| follow(&m, m.address(section) + n * 4);
    let own = m.address(more) + 8;
    assert_eq!(
        [0, 1, 2, 3, 4, 5].map(|n| at(text, n)),
        [target, target + 4, target, PLACE + (1 << 26), 0, own]
    );
    assert_eq!([0, 1, 2].map(|n| at(init, n)), [target, own, own + 4]);
    // The parts far from each other: each has its own veneers.
    let apart = |sizes: [u64; PARTS]| {
        let mut at = PLACE;
        sizes.map(|_| {
            at += 1 << 32;
            at
        })
    };
    let m = load::<Arm64>(&file, apart, kernel).unwrap();
    assert_eq!(m.linked.veneers, 7);
    let own = m.address(more) + 8;
    assert_eq!(
        [0, 1, 2].map(|n| follow(&m, m.address(init) + n * 4)),
        [target, own, own + 4]
    );
    assert_eq!(follow(&m, m.address(text) + 20), own);
}

#[test]
fn markers_are_not_listed() {
    let mut w = Writer::module::<Arm64>();
    let text = w.section(".text", A | X, 4, &[0; 16]);
    for name in ["$x", "$d.12", "$xylophone", "label", ".L1"] {
        w.symbol(name, LOCAL, NOTYPE, text, 0);
    }
    let m = load::<Arm64>(&w.build(), from(PLACE), Kernel::default()).unwrap();
    let names: Vec<_> = m.linked.symbols.iter().map(|s| s.name.to_vec()).collect();
    assert_eq!(names, [b"$xylophone".to_vec(), b"label".to_vec()]);
}

#[test]
fn others_are_refused() {
    let told = |kind| {
        one::<Arm64>(kind, &[0; 8], PLACE, own(0), 0, None)
            .unwrap_err()
            .to_string()
    };
    assert!(told(300).contains("-fno-pic"));
    assert!(told(549).contains("threads"));
    assert!(told(1).contains("unknown"));
}

#[test]
fn addresses_of_weak_symbols() {
    let code = [0x9000_0000u32, 0xf940_0000, 0x5800_0000, 0x9400_0000]
        .map(u32::to_le_bytes)
        .concat();
    let mut w = Writer::module::<Arm64>();
    let text = w.section(".text", A | X, 4, &[&code[..], &code[..]].concat());
    let init = w.section(".init.text", A | X, 4, &code);
    let (weak, there) = (
        w.symbol("weak", WEAK, NOTYPE, 0, 0),
        w.symbol("there", WEAK, NOTYPE, 0, 0),
    );
    for (section, at, symbol) in [(text, 0, weak), (text, 16, there), (init, 0, there)] {
        for (n, kind) in [311, 312, 309, 283].into_iter().enumerate() {
            w.relocate(section, at + n as u64 * 4, kind, symbol, 0);
        }
    }
    let kernel = Kernel::with(&[("there", 0x1234_5678_9abc_def0)]);
    let m = load::<Arm64>(&w.build(), from(PLACE), kernel).unwrap();
    assert_eq!((m.layout.veneer_count(), m.linked.veneers), (6, 6));
    for (section, at, right) in [
        (text, 0, 0),
        (text, 16, 0x1234_5678_9abc_def0),
        (init, 0, 0x1234_5678_9abc_def0),
    ] {
        let at = m.address(section) + at;
        let slot = decode(m.u32(at), at) + decode(m.u32(at + 4), at + 4);
        assert_eq!(decode(m.u32(at + 8), at + 8), slot);
        assert_eq!((slot % 8, m.u64(slot)), (0, right));
        assert_eq!(follow(&m, at + 12), right);
    }
}
