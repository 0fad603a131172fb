//! `core_pattern`: a path with `%` and letters in it, or behind `|` a program and its arguments.

use crate::{NoMemory, add};
use alloc::vec::Vec;

/// What is known of a program whose core file is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Program<'a> {
    /// `%P`: its process, in the initial PID namespace.
    pub process: i32,
    /// `%p`: its process, in its own PID namespace.
    pub own_process: i32,
    /// `%I`: the thread, in the initial PID namespace.
    pub thread: i32,
    /// `%i`: the thread, in its own PID namespace.
    pub own_thread: i32,
    /// `%u`: its real user.
    pub uid: u32,
    /// `%g`: its real group.
    pub gid: u32,
    /// `%d`: `PR_GET_DUMPABLE`.
    pub dumpable: u8,
    /// `%s`: the signal.
    pub signal: u32,
    /// `%t`: seconds since 1970.
    pub seconds: u64,
    /// `%c`: `RLIMIT_CORE`.
    pub limit: u64,
    /// `%C`: the CPU.
    pub cpu: u32,
    /// `%h`: the machine.
    pub host: &'a [u8],
    /// `%e`: the thread's name.
    pub comm: &'a [u8],
    /// `%f`, `%E`: the path of the program's file.
    pub path: &'a [u8],
}

/// Where a core file goes.
#[derive(Debug, PartialEq, Eq)]
pub enum Name {
    /// To a file.
    File(Vec<u8>),
    /// To the standard input of a program: its path and arguments.
    Pipe(Vec<Vec<u8>>),
}

/// A core file's name from a pattern. `uses_pid`: the process is added to the name of a file that has no `%p`
/// (`core_uses_pid`).
pub fn name(pattern: &[u8], uses_pid: bool, program: &Program<'_>) -> Result<Name, NoMemory> {
    if let Some(command) = pattern.strip_prefix(b"|") {
        let mut words = Vec::new();
        // Spaces of what is put in separate nothing.
        for word in command
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty())
        {
            words.try_reserve(1)?;
            words.push(expand(word, program)?.0);
        }
        return Ok(Name::Pipe(words));
    }
    let (mut path, has_pid) = expand(pattern, program)?;
    if uses_pid && !has_pid {
        add(&mut path, b".")?;
        number(&mut path, program.own_process.into())?;
    }
    Ok(Name::File(path))
}

/// Puts in what the letters stand for. Also returns whether the process was among it.
fn expand(pattern: &[u8], program: &Program<'_>) -> Result<(Vec<u8>, bool), NoMemory> {
    let mut out = Vec::new();
    let mut has_pid = false;
    let mut rest = pattern.iter();
    while let Some(&byte) = rest.next() {
        if byte != b'%' {
            add(&mut out, &[byte])?;
            continue;
        }
        let Some(letter) = rest.next() else { break };
        match letter {
            b'%' => add(&mut out, b"%")?,
            b'p' => {
                has_pid = true;
                number(&mut out, program.own_process.into())?;
            }
            b'P' => number(&mut out, program.process.into())?,
            b'i' => number(&mut out, program.own_thread.into())?,
            b'I' => number(&mut out, program.thread.into())?,
            b'u' => number(&mut out, program.uid.into())?,
            b'g' => number(&mut out, program.gid.into())?,
            b'd' => number(&mut out, program.dumpable.into())?,
            b's' => number(&mut out, program.signal.into())?,
            b't' => number(&mut out, program.seconds as i128)?,
            b'c' => number(&mut out, program.limit.into())?,
            b'C' => number(&mut out, program.cpu.into())?,
            b'h' => component(&mut out, program.host)?,
            b'e' => component(&mut out, program.comm)?,
            b'f' => component(
                &mut out,
                program.path.rsplit(|b| *b == b'/').next().unwrap_or(b""),
            )?,
            b'E' => component(&mut out, program.path)?,
            // Linux leaves out what it does not know.
            _ => {}
        }
    }
    Ok((out, has_pid))
}

/// Adds text of a program's that becomes one component of a path, and none with a meaning of its own.
fn component(out: &mut Vec<u8>, text: &[u8]) -> Result<(), NoMemory> {
    match text {
        b"" => add(out, b"!"),
        b"." => add(out, b"!"),
        b".." => add(out, b"!."),
        _ => text
            .iter()
            .try_for_each(|&byte| add(out, &[if byte == b'/' { b'!' } else { byte }])),
    }
}

fn number(out: &mut Vec<u8>, number: i128) -> Result<(), NoMemory> {
    let mut digits = [0; 40];
    let mut at = digits.len();
    let mut left = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if number < 0 {
        add(out, b"-")?;
    }
    add(out, &digits[at..])
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::String;
    use std::vec;

    const PROGRAM: Program<'_> = Program {
        process: 12,
        own_process: 2,
        thread: 13,
        own_thread: 3,
        uid: 1000,
        gid: 4_294_967_295,
        dumpable: 1,
        signal: 11,
        seconds: 1_700_000_000,
        limit: u64::MAX,
        cpu: 3,
        host: b"machine",
        comm: b"a/b c",
        path: b"/usr/bin/prog",
    };

    fn file(pattern: &str, uses_pid: bool) -> String {
        match name(pattern.as_bytes(), uses_pid, &PROGRAM) {
            Ok(Name::File(path)) => String::from_utf8(path).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn letters() {
        assert_eq!(file("core", false), "core");
        assert_eq!(
            file("/c/%p-%P-%i-%I-%u-%g", false),
            "/c/2-12-3-13-1000-4294967295"
        );
        assert_eq!(
            file("%d.%s.%t.%c.%C", false),
            "1.11.1700000000.18446744073709551615.3"
        );
        assert_eq!(file("%h %e %f %E", false), "machine a!b c prog !usr!bin!prog");
        assert_eq!(file("100%%%", false), "100%");
        assert_eq!(file("a%xb", false), "ab");
        assert_eq!(file("", false), "");
    }

    #[test]
    fn process_in_the_name() {
        assert_eq!(file("core", true), "core.2");
        assert_eq!(file("core.%p", true), "core.2");
        // Only that letter counts.
        assert_eq!(file("core.%P", true), "core.12.2");
        assert_eq!(file("core%%p", true), "core%p.2");
    }

    #[test]
    fn no_name_leads_elsewhere() {
        for (comm, shown) in [
            ("", "!"),
            (".", "!"),
            ("..", "!."),
            ("../x", "..!x"),
            ("...", "..."),
        ] {
            let program = Program {
                comm: comm.as_bytes(),
                ..PROGRAM
            };
            let path = name(b"/cores/%e", false, &program);
            let wanted = std::format!("/cores/{shown}").into_bytes();
            assert_eq!(path, Ok(Name::File(wanted)));
        }
    }

    #[test]
    fn pipes() {
        let words = |pattern: &str| -> vec::Vec<String> {
            match name(pattern.as_bytes(), true, &PROGRAM) {
                Ok(Name::Pipe(words)) => words.into_iter().map(|w| String::from_utf8(w).unwrap()).collect(),
                other => panic!("{other:?}"),
            }
        };
        let none: Vec<String> = vec![];
        assert_eq!(words("|"), none);
        assert_eq!(words("| "), none);
        assert_eq!(words("|/bin/h  %e x%p"), ["/bin/h", "a!b c", "x2"]);
    }
}
