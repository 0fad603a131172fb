//! What is written to `set_event` and `trigger`.

use limen_trace_events::select::Selection;
use limen_trace_events::trigger::{Action, Command};
use proptest::prelude::*;

#[test]
fn selections() {
    let covers = |word: &str, system, event| {
        Selection::parse(word.as_bytes())
            .unwrap_or_else(|| panic!("{word}"))
            .covers(system, event, None)
    };
    for (word, system, event, expected) in [
        ("sched:sched_switch", "sched", "sched_switch", true),
        ("sched:sched_switch", "sched", "sched_wakeup", false),
        ("sched:", "sched", "sched_wakeup", true),
        ("sched:*", "irq", "sched_wakeup", false),
        (":sched_wakeup", "sched", "sched_wakeup", true),
        ("*:*", "irq", "irq_handler_exit", true),
        ("*", "irq", "irq_handler_exit", true),
        ("sched", "sched", "sched_wakeup", true),
        ("sched_wakeup", "sched", "sched_wakeup", true),
        ("sched_wak*", "sched", "sched_waking", true),
        ("irq", "sched", "sched_waking", false),
        ("!sched:", "sched", "sched_waking", true),
        ("sched:sched_switch:mod:x", "sched", "sched_switch", false),
    ] {
        assert_eq!(covers(word, system, event), expected, "{word} {system}:{event}");
    }
    assert!(!Selection::parse(b"!sched:").unwrap().on);
    let module = Selection::parse(b":mod:some").unwrap();
    assert!(module.covers("any", "event", Some("some")));
    assert!(!module.covers("any", "event", Some("other")));
    assert!(Selection::parse(b"").is_none());
    assert!(Selection::parse(b"!").is_none());
    assert!(Selection::parse(b"a:b:c").is_none());
    assert!(Selection::parse(b"a:b:mod:").is_none());
}

#[test]
fn triggers() {
    let parse = |line: &'static str| Command::parse(line.as_bytes());
    let plain = |action| Command {
        remove: false,
        action,
        count: None,
        filter: None,
    };
    assert_eq!(parse("traceon"), Some(plain(Action::TraceOn)));
    assert_eq!(
        parse(" traceoff:5 "),
        Some(Command {
            count: Some(5),
            ..plain(Action::TraceOff)
        })
    );
    let filter: Option<&[u8]> = Some(b"child_pid < 10");
    assert_eq!(
        parse("!stacktrace if child_pid < 10"),
        Some(Command {
            remove: true,
            filter,
            ..plain(Action::StackTrace)
        })
    );
    let event = Action::Event {
        enable: true,
        system: b"sched",
        name: b"sched_switch",
    };
    assert_eq!(
        parse("enable_event:sched:sched_switch:1"),
        Some(Command {
            count: Some(1),
            ..plain(event)
        })
    );
    for wrong in [
        "",
        "!",
        "trace",
        "traceoff if",
        "traceoff:",
        "traceoff:x",
        "traceoff:1:2",
        "traceoff x",
        "enable_event",
        "enable_event:sched",
        "enable_event::x",
        "snapshot:-1",
        "traceon iffy",
    ] {
        assert_eq!(parse(wrong), None, "{wrong}");
    }
    let listed = |line, left| {
        let mut text = String::new();
        parse(line).unwrap().write(left, &mut text).unwrap();
        text
    };
    assert_eq!(listed("traceoff", None), "traceoff:unlimited\n");
    assert_eq!(
        listed("snapshot:3 if a == 1", Some(2)),
        "snapshot:count=2 if a == 1\n"
    );
    assert_eq!(
        listed("disable_event:sched:sched_switch", None),
        "disable_event:sched:sched_switch:unlimited\n"
    );
}

proptest! {
    /// What is listed can be written again.
    #[test]
    fn listed_are_triggers(line in "!?(traceon|enable_event:a:b|x)(:[0-9]{0,3})?( if [a-z ]{0,5})?") {
        if let Some(command) = Command::parse(line.as_bytes()) {
            let mut text = String::new();
            command.write(command.count, &mut text).unwrap();
            let again = Command { remove: false, ..command };
            prop_assert_eq!(Command::parse(text.as_bytes()), Some(again));
        }
    }

    #[test]
    fn bytes_are_judged(text in prop::collection::vec(any::<u8>(), 0..32)) {
        let _ = Command::parse(&text);
        if let Some(selection) = Selection::parse(&text) {
            selection.covers("sched", "sched_switch", Some("m"));
        }
    }
}
