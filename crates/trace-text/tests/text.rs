//! What the text looks like, beside lines as Linux writes them.

use limen_trace_text::entry::{self, COMMON, GraphEntry, GraphReturn, LONG};
use limen_trace_text::format::ALL;
use limen_trace_text::graph::{Graph, GraphOptions};
use limen_trace_text::head::Head;
use limen_trace_text::line::{self, Style, Time};
use limen_trace_text::options::{NAMES, parse};
use limen_trace_text::{Common, Entry, Flags, Form, Kind, Options, World};
use std::fmt;

/// A kernel with two functions and two threads.
struct Model;

impl World for Model {
    fn symbol(&self, address: u64, form: Form, out: &mut dyn fmt::Write) -> fmt::Result {
        let name = match address & !0xff {
            0x1000 => "schedule",
            0x2000 => "sys_read",
            _ => return write!(out, "{address:#x}"),
        };
        out.write_str(name)?;
        if form == Form::Offset {
            write!(out, "+{:#x}", address & 0xff)
        } else {
            Ok(())
        }
    }
    fn comm(&self, pid: i32) -> Option<[u8; 16]> {
        let mut comm = [0; 16];
        let name: &[u8] = match pid {
            7 => b"bash",
            8 => b"a-very-long-nam",
            _ => return None,
        };
        comm[..name.len()].copy_from_slice(name);
        Some(comm)
    }
    fn tgid(&self, pid: i32) -> Option<i32> {
        (pid == 7).then_some(6)
    }
    fn text(&self, address: u64) -> Option<&[u8]> {
        (address == 0x3000).then_some(b"woke %s-%d\n")
    }
    fn event(&self, entry: &Entry<'_>, out: &mut dyn fmt::Write) -> Result<bool, fmt::Error> {
        if entry.common.kind == Kind(300) {
            out.write_str("an_event: x=1")?;
            return Ok(true);
        }
        Ok(false)
    }
}

fn style(options: Options) -> Style<'static> {
    Style {
        world: &Model,
        options,
        time: Time::Nanoseconds,
        start: 0,
        next: None,
    }
}

fn record(kind: Kind, pid: i32, flags: Flags, body: &[u32]) -> Vec<u8> {
    let common = Common {
        kind,
        flags,
        preempt_count: 1,
        pid,
    };
    let words = common.words().into_iter().chain(body.iter().copied());
    words.flat_map(u32::to_ne_bytes).collect()
}

fn print(text: &[u8]) -> Vec<u8> {
    let mut bytes = record(Kind::PRINT, 7, Flags::empty(), &[]);
    bytes.extend(0x2000usize.to_ne_bytes());
    bytes.extend(text);
    bytes.push(0);
    bytes
}

fn line_of(data: &[u8], style: &Style<'_>) -> String {
    let mut out = String::new();
    line::line(&Entry::new(1, 12_345_678_900, data).unwrap(), style, &mut out).unwrap();
    out
}

#[test]
fn functions() {
    let body = entry::function(0x1000, 0x2012);
    let data = record(Kind::FUNCTION, 7, Flags::IRQS_OFF | Flags::HARDIRQ, &body);
    let shown = |options| line_of(&data, &style(options));
    let usual = Options::DEFAULT;
    assert_eq!(
        shown(usual),
        "            bash-7       [001] d.h1.    12.345679: schedule <-sys_read\n"
    );
    assert_eq!(
        shown(usual - Options::IRQ_INFO - Options::PRINT_PARENT),
        "            bash-7       [001]     12.345679: schedule\n"
    );
    assert_eq!(
        shown(usual | Options::RECORD_TGID | Options::SYM_OFFSET),
        "            bash-7       (      6) [001] d.h1.    12.345679: schedule+0x0 <-sys_read+0x12\n"
    );
    assert_eq!(shown(usual - Options::CONTEXT_INFO), "schedule <-sys_read\n");
    assert_eq!(shown(usual | Options::RAW), "7 1 12345678900 1000 2012\n");
    let addresses = shown((usual - Options::CONTEXT_INFO) | Options::SYM_ADDR);
    assert!(addresses.starts_with("schedule <0") && addresses.contains("1000> <-sys_read <"));
}

#[test]
fn text_of_the_kernel() {
    let at = |ip: usize, text: usize| [ip.to_ne_bytes(), text.to_ne_bytes()].concat();
    let mut packed = at(0x1000, 0x3000);
    packed.extend(b"bash\0\0\0\0");
    packed.extend(12i32.to_ne_bytes());
    let shown = |kind, body: &[u8], options| {
        let mut data = record(kind, 7, Flags::empty(), &[]);
        data.extend(body);
        line_of(&data, &style(options))
    };
    let bare = Options::DEFAULT - Options::CONTEXT_INFO;
    assert_eq!(shown(Kind::BPRINT, &packed, bare), "schedule: woke bash-12\n");
    assert_eq!(
        shown(Kind::BPUTS, &at(0x1000, 0x3000), bare),
        "schedule: woke %s-%d\n"
    );
    assert_eq!(
        shown(Kind::BPUTS, &at(0x1000, 0x3001), bare),
        "schedule: (unknown text at 0x3001)\n"
    );
    assert_eq!(
        shown(Kind::BPRINT, &packed, bare | Options::PRINTK_MSG_ONLY),
        "woke bash-12\n"
    );
    assert_eq!(
        shown(Kind::BPRINT, &packed, bare | Options::RAW),
        ": 1000 : woke bash-12\n"
    );
}

#[test]
fn threads() {
    let name = |pid| {
        let data = record(Kind(300), pid, Flags::empty(), &[]);
        line_of(&data, &style(Options::DEFAULT))
    };
    assert_eq!(
        name(0),
        "          <idle>-0       [001] ...1.    12.345679: an_event: x=1\n"
    );
    assert!(name(99).starts_with("           <...>-99      [001]"));
    assert!(name(8).starts_with(" a-very-long-nam-8"));
    let unknown = record(Kind(301), 7, Flags::empty(), &[]);
    assert!(line_of(&unknown, &style(Options::DEFAULT)).ends_with(": Unknown type 301\n"));
}

#[test]
fn markers() {
    let shown = |data: &[u8], options| line_of(data, &style(options));
    let marker = print(b"hello\n");
    assert!(shown(&marker, Options::DEFAULT).ends_with("12.345679: sys_read: hello\n"));
    assert_eq!(
        shown(&marker, Options::DEFAULT | Options::PRINTK_MSG_ONLY),
        "hello\n"
    );
    assert!(shown(&print(b"\xff\n"), Options::DEFAULT).ends_with("sys_read: \\xff\n"));
    let raw = record(
        Kind::RAW_DATA,
        7,
        Flags::empty(),
        &[0x1234, 0x0403_0201u32.to_le()],
    );
    assert!(shown(&raw, Options::DEFAULT).ends_with(": # 1234 buf: 01 02 03 04\n"));
}

#[test]
fn columns_of_state() {
    let state = |flags, preempt_count| {
        let common = Common {
            kind: Kind::PRINT,
            flags,
            preempt_count,
            pid: 1,
        };
        line::state(&common).iter().collect::<String>()
    };
    assert_eq!(state(Flags::empty(), 0), ".....");
    assert_eq!(state(Flags::IRQS_OFF | Flags::BH_OFF, 0x2f), "D..f2");
    assert_eq!(state(Flags::NEED_RESCHED | Flags::PREEMPT_RESCHED, 0), ".N...");
    assert_eq!(state(Flags::NEED_RESCHED_LAZY | Flags::SOFTIRQ, 0), ".ls..");
    assert_eq!(state(Flags::NMI | Flags::HARDIRQ, 0), "..Z..");
    assert_eq!(state(Flags::HARDIRQ | Flags::SOFTIRQ, 0), "..H..");
}

#[test]
fn other_lines() {
    let mut out = String::new();
    line::lost(3, 0, &mut out).unwrap();
    line::lost(3, 17, &mut out).unwrap();
    line::lost(0, u64::MAX, &mut out).unwrap();
    line::started(2, &mut out).unwrap();
    assert_eq!(
        out,
        "CPU:3 [LOST 17 EVENTS]\nCPU:0 [LOST EVENTS]\n##### CPU 2 buffer started ####\n"
    );
    let mut out = String::new();
    line::time(77, Time::Count, &mut out).unwrap();
    assert_eq!(out, "           77");
}

#[test]
fn heads() {
    let head = Head {
        tracer: "nop",
        entries: 3,
        written: 5,
        cpus: 4,
    };
    let shown = |options| {
        let mut out = String::new();
        head.tracer(&mut out).unwrap();
        head.columns(options, &mut out).unwrap();
        out
    };
    assert_eq!(
        shown(Options::DEFAULT),
        "\
# tracer: nop
#
# entries-in-buffer/entries-written: 3/5   #P:4
#
#                                _-----=> irqs-off/BH-disabled
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| / _-=> migrate-disable
#                              |||| /     delay
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
"
    );
    assert!(shown(Options::DEFAULT - Options::IRQ_INFO).ends_with(
        "#           TASK-PID     CPU#     TIMESTAMP  FUNCTION\n\
         #              | |         |         |         |\n"
    ));
    assert_eq!(shown(Options::empty()), "# tracer: nop\n#\n");
}

fn graph_text(options: GraphOptions, records: &[(usize, Vec<u8>)]) -> String {
    let mut graph = Graph::new(options);
    let mut out = String::new();
    graph.columns(Options::DEFAULT, &mut out).unwrap();
    let mut n = 0;
    while let Some((cpu, data)) = records.get(n) {
        let entry = Entry::new(*cpu, 1_000, data).unwrap();
        let next = records[n + 1..].iter().find(|(other, _)| other == cpu);
        let next = next.and_then(|(_, data)| Entry::new(*cpu, 1_000, data));
        let both = graph
            .line(&entry, next.as_ref(), &style(Options::DEFAULT), &mut out)
            .unwrap();
        n += 1 + usize::from(both);
    }
    out
}

fn call(pid: i32, func: u64, depth: i32) -> Vec<u8> {
    record(
        Kind::GRAPH_ENTRY,
        pid,
        Flags::empty(),
        &GraphEntry { func, depth }.words(),
    )
}

fn end(pid: i32, func: u64, depth: i32, took: u64, retval: u64) -> Vec<u8> {
    let end = GraphReturn {
        func,
        retval,
        depth,
        overrun: 0,
        call_time: 1_000,
        return_time: 1_000 + took,
    };
    record(Kind::GRAPH_RETURN, pid, Flags::empty(), &end.words())
}

#[test]
fn graphs() {
    let records = [
        (0, call(7, 0x1000, 0)),
        (0, call(7, 0x2000, 1)),
        (0, end(7, 0x2000, 1, 1_234, 0)),
        (0, end(7, 0x1000, 0, 123_456, 5)),
        (0, call(8, 0x1000, 0)),
        (0, print(b"in between")),
        (0, end(8, 0x1000, 0, 2_000_000, (-5i64) as usize as u64)),
    ];
    assert_eq!(
        graph_text(GraphOptions::DEFAULT, &records[..4]),
        "\
# CPU  DURATION                  FUNCTION CALLS
# |     |   |                     |   |   |   |
 0)               |  schedule() {
 0)   1.234 us    |    sys_read();
 0) ! 123.456 us  |  }
"
    );
    let all = graph_text(GraphOptions::DEFAULT | GraphOptions::RETVAL, &records);
    assert!(all.contains(" 0)   1.234 us    |    sys_read(); /* ret=0x0 */\n"));
    assert!(all.contains(" 0) ! 123.456 us  |  } /* ret=0x5 */\n"));
    assert!(all.contains(
        " ------------------------------------------\n \
         0)     bash-7     =>   a-very--8   \n \
         ------------------------------------------\n\n \
         0)               |  schedule() {\n"
    ));
    assert!(all.ends_with(" 0) # 2000.000 us |  } /* ret=-5 */\n"));
    let lost = graph_text(GraphOptions::DEFAULT, &[(1, end(7, 0x2000, 2, 5, 0))]);
    assert!(lost.ends_with(" 1)   0.005 us    |      } /* sys_read */\n"));
}

#[test]
fn what_was_returned_is_read_back() {
    let data = end(7, 0x1000, 3, 55, 9);
    let entry = Entry::new(0, 0, &data).unwrap();
    let back = entry.graph_return().unwrap();
    assert_eq!((back.func, back.depth, back.retval), (0x1000, 3, 9));
    assert_eq!(back.return_time - back.call_time, 55);
    assert!(entry.graph_entry().is_none());
    let data = call(7, 0x2000, 4);
    let call = Entry::new(0, 0, &data).unwrap().graph_entry().unwrap();
    assert_eq!((call.func, call.depth), (0x2000, 4));
}

#[test]
fn options() {
    for (name, option) in NAMES {
        assert_eq!(parse(name), (name, true));
        let no = format!("no{name}");
        assert_eq!(parse(&no), (name, false));
        assert_eq!(Options::named(name), Some(option));
    }
    assert_eq!(parse("nonsense"), ("nsense", false));
    assert!(Options::named("nsense").is_none());
}

#[test]
fn formats() {
    let print = ALL.iter().find(|fixed| fixed.name == "print").unwrap();
    assert_eq!(
        print.text(8),
        "name: print
ID: 5
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;
\tfield:char buf[];\toffset:16;\tsize:0;\tsigned:0;

print fmt: \"%ps: %s\", (void *)REC->ip, REC->buf
"
    );
    // The last field of a return is where the record has it.
    let end = ALL.iter().find(|fixed| fixed.name == "funcgraph_exit").unwrap();
    let at = COMMON + 2 * LONG + 16;
    assert!(
        end.text(LONG)
            .contains(&format!("rettime;\toffset:{at};\tsize:8"))
    );
    for fixed in ALL {
        assert!(fixed.text(4).contains("\nprint fmt: \""));
    }
}
