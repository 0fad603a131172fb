//! The `format` files of the fixed kinds of records (`events/ftrace/*/format`), which say where their fields
//! are.

use crate::Kind;
use alloc::format;
use alloc::string::String;

/// The kind of a field.
#[derive(Clone, Copy)]
enum Is {
    /// An `unsigned long`.
    Long,
    /// Fewer or more bytes: how many, and whether it has a sign.
    Bytes(usize, bool),
    /// An array without a length, of elements like the last.
    Rest,
    /// The same, of `u32`.
    Words,
    /// Eight `unsigned long`.
    Eight,
}

/// A field: its declaration, and its kind.
type Field = (&'static str, Is);

/// A fixed kind of record.
pub struct Fixed {
    /// The name of its directory.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    fields: &'static [Field],
    print: &'static str,
}

const FUNC: Field = ("unsigned long func", Is::Long);
const DEPTH: Field = ("int depth", Is::Bytes(4, true));

/// How the first eight addresses of a stack are shown.
const EIGHT: &str = "\"\\t=> %ps\\n\\t=> %ps\\n\\t=> %ps\\n\" \"\\t=> %ps\\n\\t=> %ps\\n\\t=> %ps\\n\" \
                     \"\\t=> %ps\\n\\t=> %ps\\n\", (void *)REC->caller[0], (void *)REC->caller[1], \
                     (void *)REC->caller[2], (void *)REC->caller[3], (void *)REC->caller[4], \
                     (void *)REC->caller[5], (void *)REC->caller[6], (void *)REC->caller[7]";

/// All of them, by name.
pub const ALL: [Fixed; 9] = [
    Fixed {
        name: "bprint",
        kind: Kind::BPRINT,
        fields: &[
            ("unsigned long ip", Is::Long),
            ("const char * fmt", Is::Long),
            ("u32 buf[]", Is::Words),
        ],
        print: "\"%ps: %s\", (void *)REC->ip, REC->fmt",
    },
    Fixed {
        name: "bputs",
        kind: Kind::BPUTS,
        fields: &[("unsigned long ip", Is::Long), ("const char * str", Is::Long)],
        print: "\"%ps: %s\", (void *)REC->ip, REC->str",
    },
    Fixed {
        name: "funcgraph_entry",
        kind: Kind::GRAPH_ENTRY,
        fields: &[FUNC, DEPTH],
        print: "\"--> %ps (%d)\", (void *)REC->func, REC->depth",
    },
    Fixed {
        name: "funcgraph_exit",
        kind: Kind::GRAPH_RETURN,
        fields: &[
            FUNC,
            ("unsigned long retval", Is::Long),
            DEPTH,
            ("unsigned int overrun", Is::Bytes(4, false)),
            ("unsigned long long calltime", Is::Bytes(8, false)),
            ("unsigned long long rettime", Is::Bytes(8, false)),
        ],
        print: "\"<-- %ps (%d) (start: %llx  end: %llx) over: %u retval: %lx\", (void *)REC->func, \
                REC->depth, REC->calltime, REC->rettime, REC->overrun, REC->retval",
    },
    Fixed {
        name: "function",
        kind: Kind::FUNCTION,
        fields: &[
            ("unsigned long ip", Is::Long),
            ("unsigned long parent_ip", Is::Long),
        ],
        print: "\" %ps <-- %ps\", (void *)REC->ip, (void *)REC->parent_ip",
    },
    Fixed {
        name: "kernel_stack",
        kind: Kind::STACK,
        fields: &[
            ("int size", Is::Bytes(4, true)),
            ("unsigned long caller[]", Is::Rest),
        ],
        print: EIGHT,
    },
    Fixed {
        name: "print",
        kind: Kind::PRINT,
        fields: &[
            ("unsigned long ip", Is::Long),
            ("char buf[]", Is::Bytes(0, false)),
        ],
        print: "\"%ps: %s\", (void *)REC->ip, REC->buf",
    },
    Fixed {
        name: "raw_data",
        kind: Kind::RAW_DATA,
        fields: &[
            ("unsigned int id", Is::Bytes(4, false)),
            ("char buf[]", Is::Bytes(0, false)),
        ],
        print: "\"id:%04x %08x\", REC->id, (int)REC->buf[0]",
    },
    Fixed {
        name: "user_stack",
        kind: Kind::USER_STACK,
        fields: &[
            ("unsigned int tgid", Is::Bytes(4, false)),
            ("unsigned long caller[8]", Is::Eight),
        ],
        print: EIGHT,
    },
];

fn row(declaration: &str, offset: usize, size: usize, signed: bool) -> String {
    format!(
        "\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{};\n",
        u8::from(signed)
    )
}

/// The rows of the fields that all records have in front, with the empty one behind them.
pub fn common() -> String {
    row("unsigned short common_type", 0, 2, false)
        + &row("unsigned char common_flags", 2, 1, false)
        + &row("unsigned char common_preempt_count", 3, 1, false)
        + &row("int common_pid", 4, 4, true)
        + "\n"
}

impl Fixed {
    /// The text of its file, on a target whose `long` has `long` bytes.
    pub fn text(&self, long: usize) -> String {
        let mut text = format!("name: {}\nID: {}\nformat:\n", self.name, self.kind.0) + &common();
        let mut at = crate::entry::COMMON;
        for (declaration, is) in self.fields {
            let (align, size, signed) = match *is {
                Is::Long => (long, long, false),
                Is::Bytes(size, signed) => (size.max(1), size, signed),
                Is::Rest => (long, 0, false),
                Is::Words => (4, 0, false),
                Is::Eight => (long, 8 * long, false),
            };
            at = at.next_multiple_of(align);
            text += &row(declaration, at, size, signed);
            at += size;
        }
        text + "\nprint fmt: " + self.print + "\n"
    }
}
