//! What a function is called for short, where lists are of names without spaces: `schedule` for
//! `limen_kernel::sched::run::schedule`, `File.read` for a method, of a trait as well, `run.closure0` for a
//! closure. What is generic has no parameters. Several functions may have one name. There is no `:` nor `#`
//! in a name: in tracefs they are between a function and its command, and before what is none.

use core::fmt;

/// Writes the short name of the function with this path, as `rustc-demangle` writes it. Does not allocate.
pub fn write_short(path: &str, out: &mut dyn fmt::Write) -> fmt::Result {
    let (owner, last) = match path.strip_prefix('<') {
        // `<A>::f`, `<A as B>::f`: of A, whatever it implements.
        Some(rest) => {
            let end = closing(rest);
            let of = rest.get(..end).unwrap_or(rest);
            let of = top_level(of, " as ").map_or(of, |at| &of[..at]);
            (Some(kind(of)), last_of(rest.get(end + 1..).unwrap_or_default()).1)
        }
        None => {
            let (before, last) = last_of(path);
            let owner = last_of(before).1;
            let method = owner.starts_with(char::is_uppercase) || last.starts_with('{');
            ((method && !owner.is_empty()).then_some(owner), last)
        }
    };
    let named = |text: &str| text.contains(char::is_alphanumeric);
    if !owner.is_some_and(named) && !named(last) {
        return write_plain(path, out);
    }
    if let Some(owner) = owner {
        write_plain(owner, out)?;
        out.write_char('.')?;
    }
    write_plain(last, out)
}

/// Writes a text without what short names do not have.
fn write_plain(text: &str, out: &mut dyn fmt::Write) -> fmt::Result {
    for (n, part) in text.split("::").enumerate() {
        if n != 0 {
            out.write_char('.')?;
        }
        let kept = |c: &char| !c.is_whitespace() && !matches!(c, '{' | '}' | '#');
        for c in part.chars().filter(kept) {
            out.write_char(if c == ':' { '_' } else { c })?;
        }
    }
    Ok(())
}

/// How far the `>` is that closes what a `<` before the text has opened.
fn closing(text: &str) -> usize {
    let mut depth = 1;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            // Not the end of an arrow.
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
        before = c;
    }
    text.len()
}

/// Where `what` stands in the text for the last time, outside of any brackets.
fn top_level(text: &str, what: &str) -> Option<usize> {
    let mut depth = 0;
    let mut found = None;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' if before == '-' => {}
            '>' | ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 && text[at..].starts_with(what) {
            found = Some(at);
        }
        before = c;
    }
    found
}

/// The text before the last part of a path, and that part, without parameters.
fn last_of(path: &str) -> (&str, &str) {
    let mut path = path.trim_start_matches("::");
    loop {
        let (before, last) = match top_level(path, "::") {
            Some(at) => (&path[..at], &path[at + 2..]),
            None => ("", path),
        };
        // `f::<T>`
        if last.starts_with('<') && !before.is_empty() {
            path = before;
            continue;
        }
        let end = last.find(['<', '(']).unwrap_or(last.len());
        return (before, &last[..end]);
    }
}

/// The name of a type, of what it points to, or of what it is made of.
fn kind(path: &str) -> &str {
    let mut path = path;
    loop {
        let inner = path
            .trim_start_matches(['&', '*', '[', '('])
            .trim_start_matches("mut ")
            .trim_start_matches("const ")
            .trim_start_matches("dyn ");
        if inner.len() == path.len() {
            break;
        }
        path = inner;
    }
    let end = path.find([';', ']', ')', ',']).unwrap_or(path.len());
    last_of(path[..end].split(" + ").next().unwrap_or_default()).1
}

#[cfg(test)]
mod tests {
    use super::write_short;
    use alloc::string::String;

    fn short(path: &str) -> String {
        let mut name = String::new();
        let _ = write_short(path, &mut name);
        name
    }

    #[test]
    fn names() {
        for (path, name) in [
            ("limen_kernel::sched::run::schedule", "schedule"),
            ("limen_kernel::fs::file::File::read", "File.read"),
            ("<limen_kernel::fs::file::File>::read", "File.read"),
            (
                "<limen_kernel::fs::pipe::Pipe as limen_kernel::fs::file::FileOps>::read",
                "Pipe.read",
            ),
            ("<limen_rcu::Slot<T, alloc::Arc<U>>>::load", "Slot.load"),
            (
                "core::ptr::drop_in_place::<limen_kernel::fs::File>",
                "drop_in_place",
            ),
            (
                "core::ptr::drop_in_place<limen_kernel::fs::File>",
                "drop_in_place",
            ),
            ("limen_kernel::boot::start::{closure#0}", "start.closure0"),
            (
                "<limen_kernel::boot::run as core::ops::function::FnOnce<()>>::call_once::{shim:vtable#0}",
                "run.shim_vtable0",
            ),
            ("<&str as core::fmt::Display>::fmt", "str.fmt"),
            ("<[u8] as core::fmt::Debug>::fmt", "u8.fmt"),
            (
                "<alloc::boxed::Box<dyn core::FnOnce() -> bool + Send> as core::FnOnce<()>>::call_once",
                "Box.call_once",
            ),
            ("memcpy", "memcpy"),
            ("", ""),
            ("<", "<"),
        ] {
            let found = short(path);
            assert_eq!(found, name, "{path}");
            assert!(!found.contains([' ', ':', '#']));
        }
    }
}
