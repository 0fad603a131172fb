//! What results of filters mean, one by one and together.

mod common;

use common::*;
use limen_bpf::verdict::{ACTIONS_AVAIL, NotActions};
use limen_bpf::{Action, Logged, Verdict};

#[test]
fn actions_are_linux_s() {
    use Action::*;
    // `SECCOMP_RET_*` of the user headers, from the strictest on.
    let values = [
        (KillProcess, 0x8000_0000),
        (KillThread, 0),
        (Trap, 0x0003_0000),
        (Errno, 0x0005_0000),
        (UserNotif, 0x7fc0_0000),
        (Trace, 0x7ff0_0000),
        (Log, 0x7ffc_0000),
        (Allow, 0x7fff_0000u32),
    ];
    assert_eq!(values.map(|(action, _)| action), Action::ALL);
    assert!(values.is_sorted_by_key(|(action, raw)| (*action, raw.cast_signed())));
    for (action, raw) in values {
        assert_eq!(action.raw(), raw);
        assert_eq!(Action::from_raw(raw), Some(action));
        assert_eq!(Action::from_raw(raw | 1), None, "with data it is no action");
        let verdict = Verdict(raw | 0xabcd);
        assert_eq!((verdict.action(), verdict.data()), (action, 0xabcd));
    }
    let names = Action::ALL.map(Action::name).join(" ");
    assert_eq!(names, ACTIONS_AVAIL);
    assert_eq!(
        names,
        "kill_process kill_thread trap errno user_notif trace log allow"
    );
}

#[test]
fn unknown_actions_kill_the_process() {
    for high in 0..=u16::MAX {
        let raw = u32::from(high) << 16;
        let expected = Action::from_raw(raw).unwrap_or(Action::KillProcess);
        assert_eq!(Verdict(raw | 7).action(), expected);
    }
    assert_eq!(Verdict(0x0001_0000).action(), Action::KillProcess);
    assert_eq!(Verdict(0xffff_0000).action(), Action::KillProcess);
}

#[test]
fn errors_are_at_most_the_largest() {
    for (data, errno) in [(0, 0), (1, 1), (4095, 4095), (4096, 4095), (0xffff, 4095)] {
        assert_eq!(Verdict(ERRNO | data).errno(), errno);
    }
}

fn all(results: &[u32]) -> (u32, Option<usize>) {
    let (verdict, whose) = Verdict::of_all(results.iter().copied().enumerate(), |(_, result)| *result);
    (verdict.0, whose.map(|(n, _)| n))
}

#[test]
fn the_strictest_prevails() {
    // All pairs of actions, in both orders.
    for (n, first) in Action::ALL.into_iter().enumerate() {
        for (m, second) in Action::ALL.into_iter().enumerate() {
            let (result, whose) = all(&[first.raw() | 1, second.raw() | 2]);
            let expected = match (n.min(m), n <= m) {
                // Nothing was decided by anyone.
                (7, _) => (Action::Allow.raw(), None),
                // Of equal ones it is the newest's.
                (_, true) => (first.raw() | 1, Some(0)),
                (_, false) => (second.raw() | 2, Some(1)),
            };
            assert_eq!((result, whose), expected, "{first:?} {second:?}");
        }
    }
    // A value without meaning takes part with its number, and kills only if it prevails.
    assert_eq!(all(&[ALLOW, 0x7ffe_0000, ERRNO | 5]), (ERRNO | 5, Some(2)));
    assert_eq!(all(&[0x0001_0000, ERRNO | 5]), (0x0001_0000, Some(0)));
    assert_eq!(all(&[0x8001_0000, 0, 0x8000_0000]), (0x8000_0000, Some(2)));
    assert_eq!(all(&[]), (Action::KillProcess.raw(), None));
}

#[test]
fn every_filter_runs() {
    let mut ran = Vec::new();
    Verdict::of_all(0..5, |n| {
        ran.push(*n);
        Action::KillProcess.raw()
    });
    assert_eq!(ran, [0, 1, 2, 3, 4]);
}

#[test]
fn combinations_are_the_first_minimum() {
    let mut r = Random::new(7);
    for _ in 0..100_000 {
        let results: Vec<u32> = (0..1 + r.below(6))
            .map(|_| match r.below(4) {
                0 => r.next() as u32,
                _ => Action::ALL[r.below(8)].raw() | r.below(3) as u32,
            })
            .collect();
        // `min_by_key` takes the first of equal ones.
        let action = |result: &u32| (result & 0xffff_0000) as i32;
        let (n, least) = results
            .iter()
            .enumerate()
            .min_by_key(|(_, result)| action(result))
            .unwrap();
        let expected = match action(least) == ALLOW as i32 {
            true => (ALLOW, None),
            false => (*least, Some(n)),
        };
        assert_eq!(all(&results), expected, "{results:x?}");
    }
}

#[test]
fn what_is_logged_is_named() {
    let everything = "kill_process kill_thread trap errno user_notif trace log";
    assert_eq!(Logged::ALL.to_string(), everything);
    assert_eq!(Logged::parse(everything), Ok(Logged::ALL));
    for bits in 0..=0x7f {
        let logged = Logged::from_bits(bits);
        assert_eq!(Logged::parse(&logged.to_string()), Ok(logged));
        assert_eq!(logged.bits(), bits);
    }
    // In any order, several times.
    let some = Logged::parse("log trap log").unwrap();
    assert_eq!(some.to_string(), "trap log");
    assert_eq!(Logged::parse("").map(|l| l.to_string()), Ok(String::new()));
    // An empty name is the end, as in Linux.
    assert_eq!(Logged::parse(" trap"), Logged::parse(""));
    assert_eq!(Logged::parse("trap  nonsense"), Logged::parse("trap"));
    assert_eq!(Logged::parse("trap "), Logged::parse("trap"));
    for wrong in [
        "allow",
        "trap allow",
        "kill",
        "Trap",
        "trap,log",
        "trap\tlog",
        "traplog",
    ] {
        assert_eq!(Logged::parse(wrong), Err(NotActions), "{wrong}");
    }
    assert!(!Logged::from_bits(0xff).has(Action::Allow));
}

#[test]
fn what_is_logged_was_asked_for_or_is_severe() {
    use Action::*;
    for action in Action::ALL {
        let only = Logged::parse(action.name()).unwrap_or(Logged::from_bits(0));
        let always = matches!(action, KillProcess | KillThread | Log);
        for logged in [only, Logged::ALL] {
            assert_eq!(logged.logs(action, true), action != Allow);
            assert_eq!(logged.logs(action, false), always);
        }
        let others = Logged::from_bits(Logged::ALL.bits() & !only.bits());
        assert!(!others.logs(action, true));
    }
}
