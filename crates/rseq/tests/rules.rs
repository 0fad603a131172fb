//! The rules of the system call, and decisions about critical sections.

use limen_linux_abi::Errno;
use limen_rseq::register::{SLICE_EXT_DEFAULT_ON, UNREGISTER, judge};
use limen_rseq::{Action, Area, Fatal, Mode, Section, Verdict};

const END: usize = 0x8000_0000;
const SIG: u32 = 0x5305_3053;

fn area(at: usize, len: u32) -> Area {
    Area {
        at,
        len,
        signature: SIG,
    }
}

fn registers(at: usize, len: u32, flags: u32) -> Result<Action, Errno> {
    judge(None, (at, len, flags, SIG), END)
}

#[test]
fn the_probe_of_nothing_is_invalid() {
    assert_eq!(judge(None, (0, 0, 0, 0), END), Err(Errno::EINVAL));
}

#[test]
fn lengths_and_alignments() {
    for len in 0..100u32 {
        for at in (4096..4096 + 128).step_by(4) {
            let right = match len {
                32 => at % 32 == 0,
                33.. => at % 64 == 0,
                _ => false,
            };
            let expected = if right {
                Ok(Action::Register {
                    area: area(at, len),
                    slices: false,
                })
            } else {
                Err(Errno::EINVAL)
            };
            assert_eq!(registers(at, len, 0), expected, "{len} at {at}");
        }
    }
}

#[test]
fn addresses() {
    assert_eq!(registers(0, 32, 0), Err(Errno::EFAULT));
    assert_eq!(registers(END, 32, 0), Err(Errno::EFAULT));
    assert_eq!(registers(END - 64, 65, 0), Err(Errno::EFAULT));
    assert_eq!(registers(usize::MAX & !63, 64, 0), Err(Errno::EFAULT));
    assert!(registers(END - 32, 32, 0).is_ok());
    assert!(registers(END - 64, 64, 0).is_ok());
    assert_eq!(judge(None, (64, u32::MAX, 0, SIG), 4096), Err(Errno::EFAULT));
}

#[test]
fn flags_of_every_value() {
    for flags in 0..64 {
        let expected = match flags {
            0 | SLICE_EXT_DEFAULT_ON => Ok(Action::Register {
                area: area(4096, 64),
                slices: flags != 0,
            }),
            _ => Err(Errno::EINVAL),
        };
        assert_eq!(registers(4096, 64, flags), expected, "{flags}");
    }
    // A legacy area has no extensions, but may ask.
    let legacy = registers(4096, 32, SLICE_EXT_DEFAULT_ON);
    assert!(matches!(legacy, Ok(Action::Register { slices: false, .. })));
}

#[test]
fn a_registered_thread() {
    let now = Some(area(4096, 32));
    for (at, len, signature, again, off) in [
        (4096, 32, SIG, Errno::EBUSY, Ok(Action::Unregister)),
        (4096, 32, SIG + 1, Errno::EPERM, Err(Errno::EPERM)),
        (4096, 33, SIG, Errno::EINVAL, Err(Errno::EINVAL)),
        (4096, 33, SIG + 1, Errno::EINVAL, Err(Errno::EINVAL)),
        (8192, 32, SIG, Errno::EINVAL, Err(Errno::EINVAL)),
        (0, 0, 0, Errno::EINVAL, Err(Errno::EINVAL)),
    ] {
        let with = |current, flags| judge(current, (at, len, flags, signature), END);
        assert_eq!(with(now, 0), Err(again));
        assert_eq!(with(now, UNREGISTER), off);
        assert_eq!(with(None, UNREGISTER), Err(Errno::EINVAL));
        assert_eq!(with(now, UNREGISTER | 2), Err(Errno::EINVAL));
    }
}

#[test]
fn modes() {
    assert_eq!(area(64, 32).mode(), Mode::Legacy);
    assert_eq!(area(64, 33).mode(), Mode::Optimised);
    assert_eq!(area(64, 4096).mode(), Mode::Optimised);
}

const GOOD: Section = Section {
    version: 0,
    flags: 0,
    start: 0x1000,
    length: 0x20,
    abort: 0x2000,
};

#[test]
fn every_address_around_a_section() {
    for ip in 0xff0..0x1030 {
        let inside = (0x1000..0x1020).contains(&ip);
        let verdict = if inside {
            Verdict::Abort(0x2000)
        } else {
            Verdict::Outside
        };
        assert_eq!(GOOD.judge(ip, END, ip % 2 == 0), Ok(verdict), "{ip:#x}");
    }
    let empty = Section { length: 0, ..GOOD };
    assert_eq!(empty.judge(0x1000, END, true), Ok(Verdict::Outside));
    let behind = Section {
        abort: 0x1020,
        ..GOOD
    };
    assert_eq!(behind.judge(0x1000, END, true), Ok(Verdict::Abort(0x1020)));
}

#[test]
fn bad_sections() {
    let change = |change: fn(&mut Section)| {
        let mut section = GOOD;
        change(&mut section);
        section
    };
    let cases = [
        (change(|s| s.version = 1), Fatal::Version),
        (change(|s| s.flags = 1), Fatal::Flags),
        (change(|s| s.start = END as u64), Fatal::Range),
        (change(|s| s.start = u64::MAX), Fatal::Range),
        (change(|s| s.length = u64::MAX), Fatal::Range),
        (change(|s| s.length = END as u64 - 0xfff), Fatal::Range),
        (change(|s| s.abort = END as u64), Fatal::Abort),
        (change(|s| s.abort = u64::MAX), Fatal::Abort),
        (change(|s| s.abort = 0), Fatal::Abort),
        (change(|s| s.abort = 3), Fatal::Abort),
        (change(|s| s.abort = 0x1000), Fatal::Abort),
        (change(|s| s.abort = 0x101f), Fatal::Abort),
    ];
    for (section, why) in cases {
        let place = why == Fatal::Range;
        for ip in [0, 0xfff, 0x1000, 0x1010, 0x1020, 0x2000] {
            let inside = (ip as u64).wrapping_sub(section.start) < section.length;
            for strict in [false, true] {
                // For a thread that is not in it the pointer is only cleared, whatever the section says.
                let expected = if inside || strict && place {
                    Err(why)
                } else {
                    Ok(Verdict::Outside)
                };
                assert_eq!(section.judge(ip, END, strict), expected, "{section:?} {ip:#x}");
            }
        }
    }
}

#[test]
fn bytes() {
    let bytes = core::array::from_fn(|i| i as u8);
    let s = Section::from_bytes(&bytes);
    assert_eq!(s.version, u32::from_ne_bytes([0, 1, 2, 3]));
    assert_eq!(s.flags, u32::from_ne_bytes([4, 5, 6, 7]));
    assert_eq!(s.start, u64::from_ne_bytes([8, 9, 10, 11, 12, 13, 14, 15]));
    assert_eq!(s.length, u64::from_ne_bytes([16, 17, 18, 19, 20, 21, 22, 23]));
    assert_eq!(s.abort, u64::from_ne_bytes([24, 25, 26, 27, 28, 29, 30, 31]));
}
