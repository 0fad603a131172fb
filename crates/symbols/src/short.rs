//! What a function is called for short, where lists are of names without spaces: `schedule` for
//! `limen_kernel::sched::run::schedule`, `File.read` for a method, of a trait as well, `run.closure0` for a
//! closure. What is generic has no parameters. Several functions may have one name. There is no `:` nor `#`
//! in a name: in tracefs they are between a function and its command, and before what is none.

use alloc::string::String;

/// The short name of the function with this path, as `rustc-demangle` writes it.
pub fn short(path: &str) -> String {
    let mut name = String::new();
    match path.strip_prefix('<') {
        // `<A>::f`, `<A as B>::f`: of A, whatever it implements.
        Some(rest) => {
            let end = closing(rest);
            let of = rest.get(..end).unwrap_or(rest);
            let of = top_level(of, " as ").map_or(of, |at| &of[..at]);
            name.push_str(kind(of));
            name.push_str("::");
            name.push_str(last_of(rest.get(end + 1..).unwrap_or_default()).1);
        }
        None => {
            let (before, last) = last_of(path);
            let owner = last_of(before).1;
            let method = owner.starts_with(char::is_uppercase) || last.starts_with('{');
            if method && !owner.is_empty() {
                name.push_str(owner);
                name.push_str("::");
            }
            name.push_str(last);
        }
    }
    if !name.contains(char::is_alphanumeric) {
        name.clear();
        name.push_str(path);
    }
    let mut name = name.replace("::", ".").replace(':', "_");
    name.retain(|c| !c.is_whitespace() && !matches!(c, '{' | '}' | '#'));
    name
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
    use super::short;

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
