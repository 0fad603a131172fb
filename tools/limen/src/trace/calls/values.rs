//! Arguments and results of system calls, as C programs write them.

use limen_trace_events::syscalls::Call;

use super::error;
use super::names::{self, Style};
use crate::arch::Arch;

/// An argument.
struct Argument<'a> {
    c_type: &'static str,
    name: &'static str,
    value: u64,
    /// What was at its address.
    text: Option<&'a str>,
}

/// Bits of a word.
fn bits(arch: Arch) -> u32 {
    if arch == Arch::Arm { 32 } else { 64 }
}

/// A word with its sign.
fn signed(value: u64, bits: u32) -> i64 {
    (value << (64 - bits)).cast_signed() >> (64 - bits)
}

/// The arguments between the brackets of an event's text: `NAME: HEX`, with ` "TEXT"` behind some. A text may
/// have anything in it: it ends where the next name begins.
fn read<'a>(call: &Call, text: &'a str) -> Vec<Argument<'a>> {
    let mut rest = text;
    let mut all = Vec::new();
    let mut arguments = call.arguments().peekable();
    while let Some((c_type, name)) = arguments.next() {
        let Some(behind) = rest.strip_prefix(name).and_then(|rest| rest.strip_prefix(": ")) else {
            break;
        };
        let next = arguments.peek().map(|(_, name)| format!(", {name}: "));
        let end = next.and_then(|next| behind.find(&next));
        let own = &behind[..end.unwrap_or(behind.len())];
        rest = end.map_or("", |end| &behind[end + 2..]);
        let (value, text) = match own.split_once(' ') {
            Some((value, text)) => (value, text.strip_prefix('"').and_then(|t| t.strip_suffix('"'))),
            None => (own, None),
        };
        let value = value.strip_prefix("0x").unwrap_or(value);
        let Ok(value) = u64::from_str_radix(value, 16) else {
            break;
        };
        all.push(Argument {
            c_type,
            name,
            value,
            text,
        });
    }
    all
}

/// A call: its name, and its arguments in brackets.
pub fn call(call: &Call, text: &str, arch: Arch) -> String {
    let mut arguments = read(call, text);
    let flags = arguments.iter().find(|argument| argument.name == "flags");
    let creates = flags.is_some_and(|flags| names::creates(flags.value));
    if ["open", "openat"].contains(&call.name) && !creates {
        arguments.retain(|argument| argument.name != "mode");
    }
    // What the last one means is said by the one before it.
    let command = arguments
        .iter()
        .find(|argument| argument.name == "cmd")
        .map(|a| a.value);
    if call.name.starts_with("fcntl") && command.is_some_and(names::fcntl_is_alone) {
        arguments.truncate(2);
    }
    let shown: Vec<String> = arguments
        .iter()
        .map(|argument| argument.show(call.name, command, arch))
        .collect();
    format!("{}({})", call.number_name(), shown.join(", "))
}

impl Argument<'_> {
    fn show(&self, call: &str, command: Option<u64>, arch: Arch) -> String {
        if self.c_type.contains('*') {
            return self.pointer();
        }
        let int = self.value as u32;
        let style = names::style(call, self.name, self.c_type, command, arch);
        match style {
            Style::Flags(zero, flags) => names::flags(u64::from(int), zero, flags),
            Style::One(values) => match values.iter().find(|(value, _)| *value == u64::from(int)) {
                Some((_, name)) => (*name).to_owned(),
                None => int.cast_signed().to_string(),
            },
            Style::With(values, mask, flags) => names::with(u64::from(int), values, mask, flags),
            Style::Clone => names::clone(self.value),
            Style::Signal => names::signal(int),
            Style::Folder if int.cast_signed() == -100 => "AT_FDCWD".to_owned(),
            Style::Folder | Style::Int => int.cast_signed().to_string(),
            Style::Unsigned => int.to_string(),
            Style::Octal => match int & 0xffff {
                0 => "0".to_owned(),
                mode => format!("0{mode:o}"),
            },
            Style::Word => signed(self.value, bits(arch)).to_string(),
            Style::Hex => match self.value {
                0 => "0".to_owned(),
                value => format!("{value:#x}"),
            },
            Style::Address => address(self.value),
        }
    }

    fn pointer(&self) -> String {
        match self.text {
            None => address(self.value),
            // It could not be read.
            Some("(fault)") => address(self.value),
            Some(text) => match text.strip_suffix("...").filter(|_| text.len() == 63) {
                Some(cut) => format!("\"{cut}\"..."),
                None => format!("\"{text}\""),
            },
        }
    }
}

fn address(value: u64) -> String {
    match value {
        0 => "NULL".to_owned(),
        value => format!("{value:#x}"),
    }
}

/// Calls whose result is an address.
const ADDRESSES: [&str; 5] = ["brk", "mmap", "mmap2", "mremap", "shmat"];

/// What a call returned.
pub fn result(call: &str, value: u64, arch: Arch) -> String {
    let number = signed(value, bits(arch));
    match number {
        // It begins anew when a signal was handled, or returns EINTR.
        -516..=-512 => format!("? {}", names::restart(-number)),
        -4095..=-1 => format!("-1 {}", error(-number as u16)),
        _ if ADDRESSES.contains(&call) => format!("{value:#x}"),
        _ => number.to_string(),
    }
}
