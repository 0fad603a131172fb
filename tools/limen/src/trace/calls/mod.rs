//! `--trace-syscalls`: a trace's events of system calls as lines like those of strace: a call with its
//! arguments and its result, where it ended. What else was traced stays between them.

mod names;
mod values;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt::Write;

use limen_linux_abi::Errno;
use limen_trace_events::syscalls::Call;

use super::parse;
use crate::arch::Arch;

/// A call that has begun.
struct Begun {
    /// Where its line stands if it never ends.
    line: usize,
    who: String,
    call: &'static str,
    text: String,
}

/// The trace as text, line by line.
pub fn show(trace: &[u8], arch: Arch) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut begun: HashMap<u64, Begun> = HashMap::new();
    for line in String::from_utf8_lossy(trace).lines() {
        let Some(line) = parse::Line::read(line).filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let who = format!("{}-{}", line.name, line.number);
        if let Some((name, result)) = ends(line.what) {
            let Some(call) = begun.remove(&line.number).filter(|begun| begun.call == name) else {
                // It began before the trace, or in the parent.
                continue;
            };
            let result = values::result(name, result, arch);
            lines.push(format!("{} {} = {result}", call.who, call.text));
        } else if let Some((call, arguments)) = begins(line.what) {
            let text = values::call(&call, arguments, arch);
            if let Some(former) = begun.remove(&line.number) {
                lines[former.line] = former.without_end(true);
            }
            let one = Begun {
                line: lines.len(),
                who,
                call: call.name,
                text,
            };
            begun.insert(line.number, one);
            lines.push(String::new());
        } else {
            lines.push(format!("{who} {}", line.what));
        }
    }
    for begun in begun.into_values() {
        let line = begun.line;
        lines[line] = begun.without_end(false);
    }
    let mut all = String::new();
    for line in lines.iter().filter(|line| !line.is_empty()) {
        let _ = writeln!(all, "{line}");
    }
    all
}

impl Begun {
    /// Its line when no result came; `goes_on`: its thread has begun another call.
    fn without_end(&self, goes_on: bool) -> String {
        // A program that begins has no result in the trace.
        let begins = goes_on && self.call.starts_with("execve");
        let result = if begins { "0" } else { "?" };
        format!("{} {} = {result}", self.who, self.text)
    }
}

/// `sys_NAME(ARGUMENTS)`: the call, and what is between the brackets.
fn begins(what: &str) -> Option<(Call, &str)> {
    let (name, rest) = what.strip_prefix("sys_")?.split_once('(')?;
    Some((Call::named(name)?, rest.strip_suffix(')')?))
}

/// `sys_NAME -> RESULT`.
fn ends(what: &str) -> Option<(&'static str, u64)> {
    let (name, result) = what.strip_prefix("sys_")?.split_once(" -> 0x")?;
    Some((
        Call::named(name)?.name,
        u64::from_str_radix(result.trim(), 16).ok()?,
    ))
}

/// `ENOENT (No such file or directory)`.
fn error(number: u16) -> String {
    let errno = Errno::new(number);
    match errno.name() {
        "E?" => number.to_string(),
        name => format!("{name} ({})", errno.text()),
    }
}
