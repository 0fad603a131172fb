//! Words of `set_ftrace_filter` and its like.

use limen_trace_sites::command::{Action, Command, File, Probe, UNLIMITED, parse};
use limen_trace_sites::{Error, command::Select};
use proptest::prelude::*;

fn select(word: &str, file: File) -> Select<'_> {
    match parse(word.as_bytes(), file) {
        Ok(Command::Select(select)) => select,
        other => panic!("{word}: {other:?}"),
    }
}

fn probe(word: &str) -> (bool, &str, Probe<'_>) {
    match parse(word.as_bytes(), File::Filter) {
        Ok(Command::Probe {
            remove,
            functions,
            probe,
        }) => (remove, str::from_utf8(functions.text).unwrap(), probe),
        other => panic!("{word}: {other:?}"),
    }
}

fn refused(word: &str, file: File) -> Error {
    parse(word.as_bytes(), file)
        .map(|command| format!("{command:?}"))
        .unwrap_err()
}

#[test]
fn patterns() {
    for file in [File::Filter, File::Notrace, File::Graph] {
        let keep = select("sched*", file);
        assert!(!keep.remove && keep.module.is_none() && keep.functions.matches("schedule"));
        let drop = select("!sched*", file);
        assert!(drop.remove && drop.functions.matches("schedule") && !drop.functions.matches("do_sched"));
        // Numbers are lines, but for the graph.
        assert_eq!(select("12", file).functions.matches("12"), file == File::Graph);
        assert!(
            select("core::fmt::write", file)
                .functions
                .matches("core::fmt::write")
        );
    }
    assert!(select("a:traceoff", File::Graph).functions.matches("a:traceoff"));
}

#[test]
fn modules() {
    for file in [File::Filter, File::Notrace] {
        let one = select("open:mod:ext*", file).module.unwrap();
        assert_eq!(
            [Some("ext4"), Some("xfs"), None].map(|m| one.matches(m)),
            [true, false, false]
        );
        let other = select("!:mod:!ext4", file);
        assert!(other.remove && other.functions.text.is_empty());
        let other = other.module.unwrap();
        assert_eq!(
            [Some("ext4"), Some("xfs"), None].map(|m| other.matches(m)),
            [false, true, true]
        );
        for (text, expected) in [("*", [true, true, false]), ("", [true, true, false])] {
            let word = format!(":mod:{text}");
            let any = select(&word, file).module.unwrap();
            assert_eq!(
                [Some("ext4"), Some("xfs"), None].map(|m| any.matches(m)),
                expected,
                "{text}"
            );
        }
        let kernel = select(":mod:!*", file).module.unwrap();
        assert_eq!([Some("ext4"), None].map(|m| kernel.matches(m)), [false, true]);
        // A module whose name begins with a digit is one all the same.
        assert!(select(":mod:8021q", file).module.unwrap().matches(Some("8021q")));
        // Without the last colon it says nothing.
        let plain = select("open:mod", file);
        assert!(plain.module.is_none() && plain.functions.matches("open"));
    }
}

#[test]
fn probes() {
    for (name, action) in [
        ("traceon", Action::Traceon),
        ("traceoff", Action::Traceoff),
        ("snapshot", Action::Snapshot),
        ("stacktrace", Action::Stacktrace),
    ] {
        let word = format!("sched*:{name}");
        assert_eq!(
            probe(&word),
            (
                false,
                "sched*",
                Probe {
                    action,
                    counted: false,
                    count: UNLIMITED
                }
            )
        );
        assert_eq!(probe(&word).2.to_string(), format!("{name}:unlimited"));
        let word = format!("sched*:{name}:0x10");
        assert_eq!(
            probe(&word).2,
            Probe {
                action,
                counted: true,
                count: 16
            }
        );
        assert_eq!(probe(&word).2.to_string(), format!("{name}:count=16"));
        let word = format!("!sched*:{name}:0");
        assert_eq!(
            probe(&word),
            (
                true,
                "sched*",
                Probe {
                    action,
                    counted: true,
                    count: UNLIMITED
                }
            )
        );
        assert_eq!(refused(&format!("a:{name}:x"), File::Filter), Error::Invalid);
        assert_eq!(
            refused(&format!("a:{name}:99999999999999999999"), File::Filter),
            Error::Range
        );
    }
    // Dumps happen once.
    for word in ["a:dump", "a:dump:3", "a:dump:x", "!a:dump"] {
        let once = Probe {
            action: Action::Dump,
            counted: false,
            count: 1,
        };
        assert_eq!(probe(word).2, once);
        assert_eq!(once.to_string(), "dump:count=1");
    }
    assert_eq!(probe("a:cpudump:3").2.to_string(), "cpudump:unlimited");
    assert_eq!(probe("a::b:cpudump").1, "a::b");
    let event = |enable| Action::Event {
        enable,
        system: b"sched",
        event: b"sched_switch",
    };
    let word = "schedule:enable_event:sched:sched_switch";
    assert_eq!(
        probe(word).2,
        Probe {
            action: event(true),
            counted: false,
            count: UNLIMITED
        }
    );
    let word = "schedule:disable_event:sched:sched_switch:5";
    assert_eq!(
        probe(word).2,
        Probe {
            action: event(false),
            counted: true,
            count: 5
        }
    );
    assert_eq!(
        probe(word).2.to_string(),
        "disable_event:sched:sched_switch:count=5"
    );
}

#[test]
fn errors() {
    for word in [
        "a:",
        "a:nothing",
        "a:enable_event",
        "a:enable_event:sched",
        ":",
        "!a:traceon2",
    ] {
        assert_eq!(refused(word, File::Filter), Error::Invalid, "{word}");
    }
    assert_eq!(refused("a:traceoff", File::Notrace), Error::Invalid);
}

proptest! {
    #[test]
    fn any_bytes(word: Vec<u8>) {
        for file in [File::Filter, File::Notrace, File::Graph] {
            let _ = parse(&word, file);
        }
    }

    #[test]
    fn near_words(word in "!?[a:!0-9*]{0,6}(:mod|:traceon|:dump|:enable_event)?(:[a0!:]{0,4})?") {
        for file in [File::Filter, File::Notrace, File::Graph] {
            if let Ok(Command::Probe { probe, .. }) = parse(word.as_bytes(), file) {
                let _ = probe.to_string();
            }
        }
    }
}
