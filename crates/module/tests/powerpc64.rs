//! Relocations of powerpc64: instructions are decoded again, and must mean the target.

mod common;

use common::*;
use limen_module::*;
use proptest::prelude::*;

const NOP: u32 = 0x6000_0000;
const RESTORE: u32 = 0xe841_0018;
const BL: u32 = 0x4800_0001;
const PLACE: u64 = 0xc008_0000_0100_0000;

fn half(kind: u32, place: u64, value: u64, base: u64) -> Result<i64, Fault> {
    let mut bytes = [0xff; 2];
    let mut site = Site {
        bytes: &mut bytes,
        address: place,
        addend: 0,
        base,
    };
    Powerpc64::relocate(&mut site, kind, &own(value), &mut |_, _| None)?;
    Ok(i16::from_le_bytes(bytes).into())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn halves_make_the_whole(far in any::<i64>(), shift in 0..63u32, off in -3..4i64) {
        let far = (far >> shift).wrapping_add(off);
        // addis and addi; addis and ori; what is relative to the TOC, to the place, to nothing.
        for (ha, lo, hi, whole) in [(50, 48, 49, 47), (252, 250, 251, 249), (6, 4, 5, 0)] {
            let place = if whole == 249 { PLACE } else { 0 };
            let base = if whole == 47 { PLACE } else { 0 };
            let value = (if whole == 0 { 0 } else { PLACE }).wrapping_add_signed(far);
            let low = half(lo, place, value, base).unwrap();
            match half(ha, place, value, base) {
                Ok(high) => prop_assert_eq!((high << 16) + low, far),
                Err(fault) => {
                    prop_assert_eq!(fault, Fault::Overflow);
                    prop_assert!(!(-0x8000_8000..0x7fff_8000).contains(&far));
                }
            }
            match half(hi, place, value, base) {
                Ok(high) => prop_assert_eq!((high << 16) | (low & 0xffff), far),
                Err(_) => prop_assert!(i64::from(far as i32) != far),
            }
            if whole != 0 {
                let fits = i64::from(far as i16) == far;
                let right = if fits { Ok(far) } else { Err(Fault::Overflow) };
                prop_assert_eq!(half(whole, place, value, base), right);
            }
        }
        let value = far as u64;
        let [highest, higher, lo] = [41, 39, 4].map(|kind| half(kind, 0, value, 0).unwrap() & 0xffff);
        prop_assert_eq!(highest << 48 | higher << 32 | (far & 0xffff_0000) | lo, far);
        // Loads and stores that keep two bits of the instruction: here they are set.
        for (kind, base) in [(57, 0), (64, PLACE), (63, PLACE)] {
            let made = half(kind, 0, base.wrapping_add_signed(far), base);
            if kind == 63 && i64::from(far as i16) != far {
                prop_assert_eq!(made, Err(Fault::Overflow));
            } else if far & 3 != 0 {
                prop_assert_eq!(made, Err(Fault::Misaligned));
            } else {
                prop_assert_eq!(made, Ok(i64::from(far as i16) | 3));
            }
        }
    }

    #[test]
    fn data(value in any::<i64>(), shift in 0..64u32, addend in -100..100i64) {
        let value = value >> shift;
        let symbol = own(value.wrapping_sub(addend) as u64);
        let made = |kind, place| one::<Powerpc64>(kind, &[0; 8], place, symbol, addend,
            None).map(|b| u64::from_le_bytes(b.try_into().unwrap()));
        prop_assert_eq!(made(38, 0), Ok(value as u64));
        prop_assert_eq!(made(44, 1000), Ok(value.wrapping_sub(1000) as u64));
        prop_assert_eq!(made(118, 0), Ok(0));
        let signed = i64::from(value as i32) == value;
        let right = |fits| if fits { Ok(u64::from(value as u32)) } else { Err(Fault::Overflow) };
        prop_assert_eq!(made(26, 0), right(signed));
        prop_assert_eq!(made(1, 0), right(signed || value as u64 >> 32 == 0));
    }

    #[test]
    fn own_functions(far in -(1 << 26)..1i64 << 26, entry in 0..7u8) {
        let far = far & !3;
        let local = [0, 0, 4, 8, 16, 32, 64][usize::from(entry)];
        let target = Target { other: entry << 5, ..own(PLACE.wrapping_add_signed(far - local)) };
        // No nop is needed.
        let made = one::<Powerpc64>(10, &BL.to_le_bytes(), PLACE, target, 0, None);
        if (-(1 << 25)..1 << 25).contains(&far) {
            let code = u32::from_le_bytes(made.unwrap().try_into().unwrap());
            prop_assert_eq!(i64::from(code as i32) << 38 >> 38 & !3, far);
            prop_assert_eq!(code & 0xfc00_0003, BL);
        } else {
            prop_assert_eq!(made, Err(Fault::Overflow));
        }
    }
}

/// What a veneer does: whether it saves `r2`, and where it goes with that address in `r12`.
fn veneer(m: &Loaded, at: u64) -> (bool, u64) {
    let code: Vec<u32> = (0..8).map(|n| m.u32(at + n * 4)).collect();
    assert!(matches!(code[0], 0xf841_0018 | NOP));
    let mut r12 = 0u64;
    for code in &code[1..6] {
        let imm = u64::from(code & 0xffff);
        r12 = match code & 0xffff_0000 {
            0x3d80_0000 => (i64::from(imm as i16) << 16) as u64,
            0x618c_0000 => r12 | imm,
            0x658c_0000 => r12 | imm << 16,
            0x798c_0000 if imm == 0x07c6 => r12 << 32,
            _ => panic!("{code:#x}"),
        };
    }
    assert_eq!(code[6..], [0x7d89_03a6, 0x4e80_0420]);
    (code[0] != NOP, r12)
}

fn calls() -> (Writer, usize, usize, usize) {
    let mut w = Writer::module::<Powerpc64>();
    let code: Vec<u8> = [BL, NOP, BL, NOP, BL, BL, RESTORE, NOP]
        .map(u32::to_le_bytes)
        .concat();
    let text = w.section(".text", A | X, 8, &code);
    let init = w.section(".init.text", A | X, 8, &code);
    let data = w.section(".data", A | W, 8, &[0; 40]);
    let toc = w.section(".toc", A | W, 8, &[0; 8]);
    let printk = w.undefined("printk");
    let weak = w.symbol("weak", WEAK, NOTYPE, 0, 0);
    let own = w.symbol("own", LOCAL, FUNC, text, 4);
    w.symbols[own - 1].other = 3 << 5;
    let base = w.undefined(".TOC.");
    for section in [text, init] {
        w.relocate(section, 0, 10, printk, 0);
        w.relocate(section, 8, 10, weak, 0);
        w.relocate(section, 16, 10, own, 0);
        w.relocate(section, 20, 10, printk, 0);
    }
    w.relocate(data, 0, 38, printk, 1);
    w.relocate(data, 8, 38, base, 0);
    w.relocate(data, 16, 51, base, 8);
    w.relocate(data, 24, 44, base, 0);
    w.relocate(toc, 0, 38, own, 0);
    (w, text, init, data)
}

#[test]
fn calls_out_of_the_module() {
    let (w, text, init, data) = calls();
    // A function that is near is called through a veneer all the same.
    for printk in [PLACE - 0x10000, 0xc000_0000_8765_4321, 0xffff_8000_7fff_8000] {
        let kernel = || Kernel::with(&[("printk", printk)]);
        let m = load::<Powerpc64>(&w.build(), from(PLACE), kernel()).unwrap();
        assert_eq!((m.layout.veneer_count(), m.linked.veneers), (2 + 3, 4));
        let to = |at: u64| at.wrapping_add_signed(i64::from(m.u32(at) as i32) << 38 >> 38 & !3);
        for section in [text, init] {
            let at = m.address(section);
            assert_eq!(veneer(&m, to(at)), (true, printk));
            assert_eq!(veneer(&m, to(at + 8)), (true, 0));
            assert_eq!(to(at + 16), m.address(text) + 4 + 8, "the local entry point");
            assert_eq!(to(at + 20), to(at), "one veneer for both");
            let after = [4, 12, 24].map(|offset| m.u32(at + offset));
            assert_eq!(after, [RESTORE; 3]);
            assert_eq!(m.u32(at + 28), NOP);
        }
        let (data, base) = (m.address(data), m.address(5) + 0x8000);
        assert_eq!(m.u64(data), printk + 1);
        assert_eq!((m.u64(data + 8), m.u64(data + 16)), (base, base + 8));
        assert_eq!(m.u64(data + 24), base.wrapping_sub(data + 24));
        assert_eq!(m.u64(m.address(5)), m.address(text) + 4, "the global entry point");
        // Init's text far away: what it calls of the module keeps r2.
        let apart = |sizes: [u64; PARTS]| {
            let mut at = PLACE;
            sizes.map(|_| {
                at += 1 << 30;
                at
            })
        };
        let m = load::<Powerpc64>(&w.build(), apart, kernel()).unwrap();
        assert_eq!(m.linked.veneers, 5);
        let at = m.address(init) + 16;
        let to = at.wrapping_add_signed(i64::from(m.u32(at) as i32) << 38 >> 38 & !3);
        assert_eq!(veneer(&m, to), (false, m.address(text) + 12));
    }
}

#[test]
fn a_call_without_a_nop() {
    for code in [vec![BL, BL], vec![BL]] {
        let mut w = Writer::module::<Powerpc64>();
        let code: Vec<u8> = code.into_iter().flat_map(u32::to_le_bytes).collect();
        let text = w.section(".text", A | X, 8, &code);
        let printk = w.undefined("printk");
        w.relocate(text, 0, 10, printk, 0);
        let told = load::<Powerpc64>(&w.build(), from(PLACE), Kernel::with(&[("printk", 0)]));
        assert!(
            told.err()
                .unwrap()
                .0
                .contains("against 'printk' at .text+0x0 is of a call out")
        );
    }
}

#[test]
fn others_are_refused() {
    let told = |kind| {
        one::<Powerpc64>(kind, &[0; 8], PLACE, own(0), 0, None)
            .unwrap_err()
            .to_string()
    };
    assert!(told(116).contains("-mno-pcrel") && told(132).contains("-mno-pcrel"));
    assert!(told(14).contains("-fno-pic"));
    assert!(told(73).contains("threads"));
    assert!(told(3).contains("unknown"));
}
