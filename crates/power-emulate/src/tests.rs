use super::*;

/// Memory from [`BASE`] on.
#[derive(Clone)]
struct Bytes([u8; 48]);

const BASE: usize = 0x1_0000;

impl Memory for Bytes {
    fn load(&self, at: usize) -> Option<u8> {
        self.0.get(at.wrapping_sub(BASE)).copied()
    }
    fn store(&mut self, at: usize, byte: u8) -> Option<()> {
        *self.0.get_mut(at.wrapping_sub(BASE))? = byte;
        Some(())
    }
}

fn memory() -> Bytes {
    Bytes(std::array::from_fn(|n| n as u8 + 1))
}

/// Register n holds n * 0x0101_0101_0101_0101 but for r3, the base, and r4, an index.
fn registers() -> [usize; 32] {
    let mut gpr = std::array::from_fn(|n| n * 0x0101_0101_0101_0101);
    (gpr[3], gpr[4]) = (BASE, 5);
    gpr
}

fn multiple(op: u32, rt: u32, ra: u32, d: i16) -> u32 {
    op << 26 | rt << 21 | ra << 16 | u32::from(d as u16)
}

fn string(op: u32, rt: u32, ra: u32, rb: u32) -> u32 {
    31 << 26 | rt << 21 | ra << 16 | rb << 11 | op << 1
}

const LSWX: u32 = 533;
const LSWI: u32 = 597;
const STSWX: u32 = 661;
const STSWI: u32 = 725;

#[test]
fn meanings() {
    let of = |instruction| decode(instruction, &registers(), 0x1_0087);
    let access = |load, first, at, bytes| {
        Some(Access {
            load,
            first,
            at,
            bytes,
        })
    };
    assert_eq!(of(multiple(46, 30, 3, 8)), access(true, 30, BASE + 8, 8));
    assert_eq!(of(multiple(47, 0, 3, -4)), access(false, 0, BASE - 4, 128));
    assert_eq!(
        of(multiple(46, 31, 0, -4)),
        access(true, 31, 0usize.wrapping_sub(4), 4)
    );
    assert_eq!(of(string(LSWI, 5, 3, 7)), access(true, 5, BASE, 7));
    assert_eq!(of(string(STSWI, 5, 3, 0)), access(false, 5, BASE, 32));
    assert_eq!(of(string(LSWX, 5, 3, 4)), access(true, 5, BASE + 5, 7));
    assert_eq!(of(string(STSWX, 31, 0, 3)), access(false, 31, BASE, 7));
    // ld; lwbrx; loads over their base: r3 is among r2 to r31, r31 to r4, r2 and r3.
    for other in [multiple(58, 5, 3, 0), string(534, 5, 3, 4)] {
        assert_eq!(of(other), None);
    }
    for own in [
        multiple(46, 2, 3, 0),
        string(LSWI, 31, 3, 20),
        string(LSWX, 2, 3, 4),
    ] {
        assert_eq!(of(own), None);
        assert!(of(own ^ if own >> 26 == 46 { 1 << 26 } else { 128 << 1 }).is_some());
    }
    // r3 comes right after the last.
    assert!(of(string(LSWI, 31, 3, 16)).is_some());
}

#[test]
fn loads() {
    for (little_endian, words) in [
        (true, [0x0403_0201, 0x0007_0605]),
        (false, [0x0102_0304, 0x0506_0700]),
    ] {
        let mut gpr = registers();
        let access = decode(string(LSWI, 31, 3, 7), &gpr, 0).unwrap();
        assert_eq!(perform(&access, &mut gpr, &mut memory(), little_endian), Ok(()));
        let mut expected = registers();
        (expected[31], expected[0]) = (words[0], words[1]);
        assert_eq!(gpr, expected);
    }
}

#[test]
fn stores() {
    for (little_endian, bytes) in [
        (true, [0x34, 0x12, 0, 0, 0x78, 0x56]),
        (false, [0, 0, 0x12, 0x34, 0, 0]),
    ] {
        let mut gpr = registers();
        (gpr[7], gpr[8]) = (0x1234, 0x5678);
        let mut after = memory();
        let access = decode(string(STSWX, 7, 3, 4), &gpr, 6).unwrap();
        assert_eq!(perform(&access, &mut gpr, &mut after, little_endian), Ok(()));
        let mut expected = memory();
        expected.0[5..11].copy_from_slice(&bytes);
        assert_eq!(after.0, expected.0);
    }
}

#[test]
fn nothing_and_too_much() {
    let mut gpr = registers();
    let nothing = decode(string(LSWX, 5, 3, 4), &gpr, 0).unwrap();
    assert_eq!(perform(&nothing, &mut gpr, &mut Bytes([0; 48]), true), Ok(()));
    assert_eq!(gpr, registers());
    // The second half of the second word is not there, to be loaded or stored.
    let across = decode(multiple(46, 20, 3, 42), &gpr, 0).unwrap();
    assert_eq!(perform(&across, &mut gpr, &mut memory(), true), Err(BASE + 48));
    assert_eq!((gpr[20], gpr[21]), (0x2e2d_2c2b, registers()[21]));
    let across = decode(multiple(47, 20, 3, 42), &gpr, 0).unwrap();
    assert_eq!(perform(&across, &mut gpr, &mut memory(), true), Err(BASE + 48));
    // All of the address space is there, and ends within a word.
    struct Everything;
    impl Memory for Everything {
        fn load(&self, at: usize) -> Option<u8> {
            Some(at as u8)
        }
        fn store(&mut self, _: usize, _: u8) -> Option<()> {
            Some(())
        }
    }
    for op in [46, 47] {
        let around_the_end = decode(multiple(op, 30, 0, -2), &gpr, 0).unwrap();
        assert_eq!(perform(&around_the_end, &mut gpr, &mut Everything, true), Ok(()));
        assert_eq!(gpr[30], 0x0100_fffe);
    }
}

#[test]
fn special_registers() {
    // mfspr and mtspr, r5: the halves of the number are swapped.
    let of = |number: u32, write: bool| {
        let field = (number & 31) << 16 | number >> 5 << 11;
        special(31 << 26 | 5 << 21 | field | (339 + 128 * u32::from(write)) << 1)
    };
    assert_eq!(of(287, false), Some((Special::Version, 5)));
    assert_eq!(of(287, true), None);
    for number in [3, 17] {
        assert_eq!(of(number, false), Some((Special::ReadStreamControl, 5)));
        assert_eq!(of(number, true), Some((Special::WriteStreamControl, 5)));
    }
    for number in [1, 8, 9, 18, 22, 272, 815] {
        assert_eq!((of(number, false), of(number, true)), (None, None));
    }
}

#[test]
fn float_exceptions() {
    for (n, (pending, enabled)) in [(29, 7), (28, 6), (27, 5), (26, 4), (25, 3)]
        .into_iter()
        .enumerate()
    {
        assert_eq!(float_exception(1 << pending | 1 << enabled), Some(n));
        assert_eq!(
            float_exception(0x3e00_00f8 & !(1 << pending)),
            if n == 0 { Some(1) } else { Some(0) }
        );
        assert_eq!(float_exception(1 << pending | 0xf8 & !(1 << enabled)), None);
    }
    assert_eq!(float_exception(0), None);
}
