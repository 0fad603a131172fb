//! Tests of `parse.rs`, with lines as kernels print them, and hostile ones.

use super::*;

/// A trace of `function` with an event.
pub const FUNCTION: &str = "\
# tracer: function
#
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
CPU:0 [LOST 6235 EVENTS]
             cat-13      [000] .....    13.841540: Program::open <-execve
         a b-c d-14      [001] d..1.    13.841571: open::{closure#0} <-open_exec
             cat-13      [000] .....    13.841600: sched_switch: prev_comm=cat [x] ==> next_comm=a <-b
             cat-13      (     12) [000] .....    13.841601: openat <-x86_syscall
 => stack_entry
";

/// A trace of `function_graph` with an event, a change of threads, and calls that are cut.
pub const GRAPH: &str = "\
# tracer: function_graph
#
#     TIME        CPU  TASK/PID         DURATION                  FUNCTION CALLS
#      |          |     |    |           |   |                     |   |   |   |
    9.000001 |   0)     sh-80      |   1.500 us    |  } /* before */
    9.000010 |   0)     sh-80      |               |  do_sys_open() {
    9.000012 |   0)     sh-80      |   0.500 us    |    getname();
    9.000013 |   0)     sh-80      |               |  /* sched_switch: a=1|2 ==> b */
 ------------------------------------------
 0)     sh-80      =>   rcu_pre-15  \u{20}
 ------------------------------------------

    9.000014 |   0)   rcu_pre-15   |               |  open::{closure#0}() {
    9.000020 |   0)     sh-80      | + 10.000 us   |  }
";

#[test]
fn functions_and_events() {
    let trace = parse(FUNCTION.as_bytes());
    assert_eq!(trace.unread, 0);
    assert_eq!(trace.threads.len(), 2);
    assert_eq!(
        (&*trace.threads[1].name, trace.threads[1].number),
        ("a b-c d", 14)
    );
    assert_eq!(trace.threads[0].process, Some(12));
    let of = |i: usize| {
        let mark = &trace.marks[i];
        (mark.at, &*mark.name, &*mark.detail, mark.event)
    };
    assert_eq!(of(0), (13_841_540_000, "Program::open", "execve", false));
    assert_eq!(of(1), (13_841_571_000, "open::{closure#0}", "open_exec", false));
    assert_eq!(of(2).1, "sched_switch");
    assert!(of(2).3 && of(2).2.ends_with("next_comm=a <-b"));
    assert_eq!(trace.marks[1].cpu, 1);
    assert_eq!(trace.marks.len(), 4);
}

#[test]
fn calls_are_nested() {
    let trace = parse(GRAPH.as_bytes());
    assert_eq!(trace.unread, 0, "{trace:?}");
    let of = |i: usize| {
        let call = &trace.calls[i];
        (&*call.name, call.start, call.end, call.depth, call.open)
    };
    assert_eq!(of(0), ("before", 9_000_001_000 - 1500, 9_000_001_000, 0, false));
    assert_eq!(of(1), ("getname", 9_000_012_000, 9_000_012_500, 1, false));
    assert_eq!(of(2), ("do_sys_open", 9_000_010_000, 9_000_020_000, 0, false));
    assert_eq!(
        of(3),
        ("open::{closure#0}", 9_000_014_000, 9_000_014_000, 0, true)
    );
    assert_eq!(trace.calls.len(), 4);
    assert_eq!(
        (&*trace.marks[0].name, &*trace.marks[0].detail),
        ("sched_switch", "a=1|2 ==> b")
    );
}

/// Lines of which a part is missing, doubled or absurd.
#[test]
fn hostile_lines_do_not_panic() {
    for text in [FUNCTION, GRAPH] {
        let bytes = text.as_bytes();
        for at in 0..bytes.len() {
            parse(&bytes[at..]);
            parse(&bytes[..at]);
            for new in [b'\n', b'|', b'[', b']', b')', b'-', b' ', b'}', b'.', 0xff, b'9'] {
                let mut changed = bytes.to_vec();
                changed[at] = new;
                parse(&changed);
            }
        }
    }
    let huge = "99999999999999999999.999999 | 0) a-1 | 1 us | f() {\n";
    assert_eq!(parse(huge.as_bytes()).unread, 1);
    let most = "18446744073.709551615 | 0) a-1 | 18446744073709551.615 us | f();\n";
    assert_eq!(parse(most.as_bytes()).calls.len(), 1);
    let deep = "1.000000 | 0) a-1 | | f() {\n".repeat(3000);
    assert_eq!(parse(deep.as_bytes()).calls.len(), DEEPEST);
    assert_eq!(parse("x-é [é] [0é]\n[1]\n-1 [0] 1.5: é\n".as_bytes()).unread, 2);
}
