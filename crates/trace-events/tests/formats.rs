//! Formats, bytes and text of the events.

use limen_trace_events::events::{ALL, raw_syscalls::SysEnter, sched};
use limen_trace_events::print::{Output, Program};
use limen_trace_events::syscalls::{self, Call, End};
use limen_trace_events::{Common, Description, Event, Kind, Numbered, Str, common_fields};
use std::collections::BTreeSet;
use std::fmt::{self, Write};

struct Text(String);

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.push_str(text);
        Ok(())
    }
}

impl Output for Text {
    fn symbol(&mut self, address: u64, offset: bool) -> fmt::Result {
        write!(self, "f{address:x}{}", if offset { "+0x0" } else { "" })
    }
    fn pointer(&mut self, address: u64) -> fmt::Result {
        write!(self, "{address:016x}")
    }
}

fn text(description: &Description, record: &[u8]) -> String {
    let program = Program::new(description.print, description.fields).unwrap();
    let mut text = Text(String::new());
    program.print(record, &mut text).unwrap();
    text.0
}

fn name(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes
}

const COMMON: Common = Common {
    id: 99,
    flags: 1,
    preempt_count: 2,
    pid: 7,
};

#[test]
fn format_is_linux_s() {
    let mut format = String::new();
    sched::SchedWakeup::DESCRIPTION
        .write_format(318, &mut format)
        .unwrap();
    let expected = "name: sched_wakeup\nID: 318\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
        \n\
        \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;\n\
        \tfield:int target_cpu;\toffset:32;\tsize:4;\tsigned:1;\n\
        \n\
        print fmt: \"comm=%s pid=%d prio=%d target_cpu=%03d\", \
        REC->comm, REC->pid, REC->prio, REC->target_cpu\n";
    assert_eq!(format, expected);
}

#[test]
fn system_calls_have_linux_s_formats() {
    let call = Call::of("openat");
    let mut format = String::new();
    call.write_format(End::Enter, 700, &mut format).unwrap();
    let own = format.split("\n\n").nth(1).unwrap();
    assert_eq!(
        own,
        "\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n\
         \tfield:int dfd;\toffset:16;\tsize:8;\tsigned:0;\n\
         \tfield:const char * filename;\toffset:24;\tsize:8;\tsigned:0;\n\
         \tfield:int flags;\toffset:32;\tsize:8;\tsigned:0;\n\
         \tfield:umode_t mode;\toffset:40;\tsize:8;\tsigned:0;\n\
         \tfield:__data_loc char[] __filename_val;\toffset:48;\tsize:4;\tsigned:0;"
    );
    assert!(format.starts_with("name: sys_enter_openat\nID: 700\n"));
    assert!(format.ends_with(
        "print fmt: \"dfd: 0x%08lx, filename: 0x%08lx \\\"%s\\\", flags: 0x%08lx, mode: 0x%08lx\", \
         ((unsigned long)(REC->dfd)), ((unsigned long)(REC->filename)), __get_str(__filename_val), \
         ((unsigned long)(REC->flags)), ((unsigned long)(REC->mode))\n"
    ));
    let mut record = [0; syscalls::MAX_RECORD];
    let arguments = [usize::MAX - 99, 0x1000, 0x80000, 0, 7, 7];
    let len = syscalls::encode_enter(&COMMON, 257, &call, &arguments, &[b"/etc"], &mut record);
    assert_eq!(len, 48 + 4 + 5);
    let mut shown = String::new();
    call.print(End::Enter, &record[..len], &mut shown).unwrap();
    assert_eq!(
        shown,
        "sys_openat(dfd: ffffffffffffff9c, filename: 1000 \"/etc\", flags: 80000, mode: 0)"
    );
    let len = syscalls::encode_exit(&COMMON, 257, -2, &mut record);
    assert_eq!(len, 24);
    shown.clear();
    call.print(End::Exit, &record[..len], &mut shown).unwrap();
    assert_eq!(shown, "sys_openat -> 0xfffffffffffffffe");
    assert_eq!(Call::of("uname").name, "newuname");
    assert_eq!(Call::of("no such call").count(), 0);
}

/// What records have of strings, and that a call with most of everything fits.
#[test]
fn strings_of_calls() {
    let cases: [(&[u8], &str); 4] = [
        (b"/a b\0rest", "/a b"),
        (b"\xc3\xa4\n\0", "..."),
        (b"no end", "(fault)"),
        (&[b'x'; 63], &("x".repeat(60) + "...")),
    ];
    for (bytes, shown) in cases {
        let mut room = [0xff; syscalls::STRING];
        room[..bytes.len()].copy_from_slice(bytes);
        let len = syscalls::clean_string(&mut room, bytes.len());
        assert_eq!(std::str::from_utf8(&room[..len]), Ok(shown));
    }
    let mut record = [0; syscalls::MAX_RECORD];
    let mut most = 0;
    for abi in [limen_linux_abi::sysno::X86_64, limen_linux_abi::sysno::ARM_EABI] {
        for name in (0..abi.limit).filter_map(abi.name_of) {
            let call = Call::of(name);
            let strings = [&[b'x'; syscalls::STRING][..]; syscalls::MOST_STRINGS];
            let len = syscalls::encode_enter(&COMMON, 1, &call, &[0; 6], &strings, &mut record);
            assert!(len <= syscalls::MAX_RECORD && call.strings().count() <= strings.len());
            most = most.max(call.strings().count());
            let fields = call.fields(End::Enter);
            let text = fields
                .iter()
                .skip(1 + call.count())
                .map(|field| field.text(&record[..len]));
            assert!(text.into_iter().all(|text| text == Some(strings[0])), "{name}");
        }
    }
    assert_eq!(most, 3);
    assert_eq!(
        Call::named("newfstat").map(|call| call.number_name()),
        Some("fstat")
    );
    assert_eq!(
        Call::named("select").map(|call| call.number_name()),
        Some("select")
    );
}

/// Of all calls of all ABIs, those are missing that no kernel does any more.
#[test]
fn calls_of_the_abis_are_known() {
    use limen_linux_abi::sysno;
    let mut missing: BTreeSet<&'static str> = BTreeSet::new();
    for abi in [sysno::X86_64, sysno::AARCH64, sysno::ARM_EABI, sysno::POWERPC64] {
        let names = (0..abi.limit).filter_map(abi.name_of);
        missing.extend(names.filter(|name: &&'static str| !Call::is_known(name)));
    }
    assert_eq!(missing, BTreeSet::from(GONE), "in {missing:?}");
}

/// Calls of old, and of machines that are not Limen's.
const GONE: [&str; 29] = [
    "_sysctl",
    "afs_syscall",
    "bdflush",
    "create_module",
    "epoll_ctl_old",
    "epoll_wait_old",
    "ftime",
    "get_kernel_syms",
    "getpmsg",
    "gtty",
    "idle",
    "lock",
    "mpx",
    "multiplexer",
    "nfsservctl",
    "prof",
    "profil",
    "putpmsg",
    "query_module",
    "r#break",
    "security",
    "spu_create",
    "spu_run",
    "stty",
    "sys_debug_setcontext",
    "tuxcall",
    "ulimit",
    "vm86",
    "vserver",
];

#[test]
fn the_table_is_in_order() {
    // The table is searched, so it must be in order; each of these is at one of its ends or in between.
    for (of, count) in [
        ("_llseek", 5),
        ("accept", 3),
        ("read", 3),
        ("writev", 3),
        ("mmap", 6),
        ("getpid", 0),
    ] {
        assert_eq!(Call::of(of).count(), count, "{of}");
    }
}

#[test]
fn events_are_numbered_in_order() {
    assert_eq!(ALL[<sched::SchedSwitch as Numbered>::INDEX].name, "sched_switch");
    assert_eq!(ALL[<SysEnter as Numbered>::INDEX].name, "sys_enter");
    let names: BTreeSet<_> = ALL.iter().map(|event| (event.system, event.name)).collect();
    assert_eq!(names.len(), ALL.len());
}

/// Every `print fmt` can be evaluated, fields follow each other as in C, and short records do no harm.
#[test]
fn all_are_well_formed() {
    for event in ALL {
        let mut end = Common::SIZE;
        for field in event.fields {
            let align = match field.kind {
                Kind::Int => usize::from(field.size),
                Kind::Array(of) => usize::from(of),
                Kind::Dynamic => 4,
                _ => 1,
            };
            assert_eq!(
                usize::from(field.offset),
                end.next_multiple_of(align),
                "{}: {}",
                event.name,
                field.name
            );
            end = field.end();
            assert!(common_fields().iter().all(|common| common.name != field.name));
        }
        assert_eq!(end, event.size);
        for len in 0..event.size {
            text(event, &[0xff; 256][..len]);
        }
    }
}

#[test]
fn switches_read_as_in_linux() {
    let event = |prev_state| sched::SchedSwitch {
        prev_comm: name("sh"),
        prev_pid: 12,
        prev_prio: 120,
        prev_state,
        next_comm: name("swapper/0"),
        next_pid: 0,
        next_prio: 120,
    };
    let read = |state| {
        let mut record = [0; 128];
        let len = event(state).encode(&COMMON, &mut record);
        text(sched::SchedSwitch::DESCRIPTION, &record[..len])
    };
    let line = |state: &str| {
        format!(
            "prev_comm=sh prev_pid=12 prev_prio=120 prev_state={state} ==> next_comm=swapper/0 next_pid=0 \
             next_prio=120"
        )
    };
    assert_eq!(read(0), line("R"));
    assert_eq!(read(256), line("R+"));
    assert_eq!(read(1), line("S"));
    assert_eq!(read(2 | 0x80), line("D|I"));
}

#[test]
fn strings_have_any_length() {
    let event = sched::SchedProcessExec {
        filename: Str(b"/bin/true"),
        pid: 5,
        old_pid: 5,
    };
    let mut record = [0xaa; 64];
    let len = event.encode(&COMMON, &mut record);
    assert_eq!(len, 20 + 10);
    assert_eq!(Common::read(&record), Some(COMMON));
    assert_eq!(&record[8..12], &(10_u32 << 16 | 20).to_ne_bytes());
    let description = sched::SchedProcessExec::DESCRIPTION;
    assert_eq!(
        text(description, &record[..len]),
        "filename=/bin/true pid=5 old_pid=5"
    );
    // Where there is no room it is cut short, but ends.
    for room in description.size..40 {
        let long = sched::SchedProcessExec {
            filename: Str(&[b'x'; 100]),
            pid: 5,
            old_pid: 5,
        };
        let len = long.encode(&COMMON, &mut record[..room]);
        assert_eq!(len, room);
        let xs = "x".repeat((room - 20).saturating_sub(1));
        assert_eq!(
            text(description, &record[..len]),
            format!("filename={xs} pid=5 old_pid=5")
        );
    }
}

#[test]
fn conversions_are_c_s() {
    let event = sched::SchedWakeup {
        comm: name("a"),
        pid: -3,
        prio: 255,
        target_cpu: 2,
    };
    let mut record = [0; 64];
    let len = event.encode(&COMMON, &mut record);
    let fields = sched::SchedWakeup::DESCRIPTION.fields;
    let check = |print: &'static str, expected: &str| {
        let mut text = Text(String::new());
        let program = Program::new(print, fields).unwrap_or_else(|error| panic!("{print}: {error:?}"));
        program.print(&record[..len], &mut text).unwrap();
        assert_eq!(text.0, expected, "{print}");
    };
    check(
        r#""%d %u %x %lx", REC->pid, REC->pid, REC->pid, REC->pid"#,
        "-3 4294967293 fffffffd fffffffffffffffd",
    );
    check(
        r#""%5d|%-5d|%05d|%+d", REC->pid, REC->pid, REC->pid, REC->prio"#,
        "   -3|-3   |-0003|+255",
    );
    check(
        r#""%#x %X %o %hd %hhd", REC->prio, REC->prio, 8, REC->prio, REC->prio"#,
        "0xff FF 10 255 -1",
    );
    check(
        r#""%4s|%-4s|%.1s|%c%%\n", REC->comm, REC->comm, "xyz", 65"#,
        "   a|a   |x|A%\n",
    );
    check(r#""%d %d", 1 + 2 * 3 - 4 / 2, (1 + 2) * 3"#, "5 9");
    check(r#""%d %d %d", 1 << 4 | 3, 7 & ~2, 5 > 3 && !0"#, "19 5 1");
    check(
        r#""%s", REC->prio == 255 ? REC->pid < 0 ? "neg" : "pos" : "other""#,
        "neg",
    );
    check(r#""%u", (unsigned char)REC->pid"#, "253");
    check(r#""%lld", (long long)REC->pid"#, "-3");
    check(
        r#""%s", __print_symbolic(REC->prio, { 1, "ONE" }, { 0xff, "ALL" })"#,
        "ALL",
    );
    check(r#""%s", __print_symbolic(REC->prio, { 1, "ONE" })"#, "0xff");
    check(
        r#""%s", __print_flags(REC->prio, "|", { 1, "A" }, { 0x7e, "B" })"#,
        "A|B|0x80",
    );
    check(r#""%d", 5 / 0"#, "0");
    check(r#""%ps %pS %p", 16, 16, 16"#, "f10 f10+0x0 0000000000000010");
    for wrong in [
        r#""%d""#,
        r#""%d", REC->none"#,
        r#""%d", (1"#,
        r#""%q", 1"#,
        r#""%d", 1 1"#,
        "x",
        r#""%s", __get_str(comm)"#,
    ] {
        assert!(Program::new(wrong, fields).is_err(), "{wrong}");
    }
    let deep: &'static str = Box::leak(format!("\"%d\", {}1", "(".repeat(100_000)).into_boxed_str());
    assert!(Program::new(deep, fields).is_err());
}
