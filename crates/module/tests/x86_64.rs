//! Relocations of x86_64.

mod common;

use common::*;
use limen_module::*;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn all_kinds(raw in any::<i64>(), shift in 0..64u32, off in -2..3i64, addend in -100..100i64,
        place in any::<u64>()) {
        let value = (raw >> shift).wrapping_add(off);
        let made = |kind, place: u64, value: i64| {
            let symbol = own((value as u64).wrapping_add_signed(-addend));
            one::<X86_64>(kind, &[0xcc; 8], place, symbol, addend, None)
        };
        for (kind, relative, bytes, least, most) in [
            (1, false, 8, i64::MIN, i64::MAX as i128 + 1),
            (24, true, 8, i64::MIN, i64::MAX as i128 + 1),
            (2, true, 4, -1 << 31, 1 << 31),
            (4, true, 4, -1 << 31, 1 << 31),
            (10, false, 4, 0, 1 << 32),
            (11, false, 4, -1 << 31, 1 << 31),
            (12, false, 2, -1 << 15, 1 << 16),
            (13, true, 2, -1 << 15, 1 << 15),
            (14, false, 1, -1 << 7, 1 << 8),
            (15, true, 1, -1 << 7, 1 << 7),
        ] {
            let target = if relative { value.wrapping_add(place as i64) } else { value };
            let made = made(kind, place, target);
            if i128::from(value) < i128::from(least) || i128::from(value) >= most {
                prop_assert_eq!(made, Err(Fault::Overflow), "{}", kind);
                continue;
            }
            let mut right = value.to_le_bytes()[..bytes].to_vec();
            right.resize(8, 0xcc);
            prop_assert_eq!(made, Ok(right), "{}", kind);
        }
    }
}

#[test]
fn others_are_refused() {
    let told = |kind| {
        one::<X86_64>(kind, &[0; 8], 0, own(0), 0, None)
            .unwrap_err()
            .to_string()
    };
    for kind in [9, 41, 42] {
        assert!(told(kind).contains("-fno-pic"));
    }
    assert!(told(19).contains("threads"));
    assert!(told(0xffff).contains("unknown"));
    assert_eq!(one::<X86_64>(1, &[0; 7], 0, own(0), 0, None), Err(Fault::Outside));
}

#[test]
fn a_function_calls_the_kernel() {
    let mut w = Writer::module::<X86_64>();
    let text = w.section(".text", A | X, 16, &[0xe8, 0, 0, 0, 0, 0xc3]);
    let printk = w.undefined("printk");
    w.relocate(text, 1, 4, printk, -4);
    let file = w.build();
    let at = 0xffff_ffff_c000_0000u64;
    let m = load::<X86_64>(
        &file,
        from(at),
        Kernel::with(&[("printk", 0xffff_ffff_8123_4567)]),
    )
    .unwrap();
    let distance = i64::from(m.u32(at + 1) as i32);
    assert_eq!((at + 5).wrapping_add_signed(distance), 0xffff_ffff_8123_4567);
    let far = load::<X86_64>(
        &file,
        from(at),
        Kernel::with(&[("printk", 0xffff_8000_0000_0000)]),
    );
    let (told, errno) = far.err().unwrap();
    assert_eq!(told, "relocation 4 against 'printk' at .text+0x1 is out of range");
    assert_eq!(errno, 8);
}
