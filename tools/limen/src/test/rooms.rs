//! Compares the map in `ARCHITECTURE.md` with the code. Every room is on the map; a room imports only rooms
//! that its row names; a room whose row says that it has no `unsafe` forbids `unsafe` to the compiler. And
//! the files of an architecture do not import each other in circles.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::tree;

/// The most pairs of rooms that may import each other. This number is never raised.
const MUTUAL: usize = 16;

/// Macros that stand for the room they are of, by whatever path they are called.
const MACROS: [(&str, &str); 8] = [
    ("log", "log"),
    ("info", "log"),
    ("warning", "log"),
    ("error", "log"),
    ("debug", "log"),
    ("check", "selftest"),
    ("syscalls", "syscall"),
    ("tracepoint", "trace"),
];

/// A row of the map: a room of the kernel.
#[derive(Debug, PartialEq)]
struct Row {
    imports: BTreeSet<String>,
    forbids_unsafe: bool,
}

/// Imports: pairs of rooms, and the first place where each was seen.
type Arrows = BTreeMap<(String, String), String>;

/// Checks the map; returns a summary, or every difference as the error.
pub fn check() -> Result<String> {
    let root = tree::root();
    let file = root.join("ARCHITECTURE.md");
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let map = rows(&text);
    let kernel = root.join("kernel/src");
    let rooms = names_in(&kernel)?;
    let mut wrong = Vec::new();
    for name in names_in(&root.join("crates"))? {
        if !text.contains(&format!("`crates/{name}`")) {
            wrong.push(format!("ARCHITECTURE.md does not name `crates/{name}`"));
        }
        let head = root.join("crates").join(&name).join("src/lib.rs");
        if name != "memory" && !forbids_unsafe(&head)? {
            wrong.push(format!("crates/{name}/src/lib.rs does not forbid unsafe code"));
        }
    }
    let mut arrows = Arrows::new();
    for room in &rooms {
        let Some(row) = map.get(room) else {
            wrong.push(format!("ARCHITECTURE.md has no row for `kernel/src/{room}`"));
            continue;
        };
        if row.forbids_unsafe != room_forbids_unsafe(&kernel, room)? {
            wrong.push(format!(
                "{room}: the map says unsafe code is {}, the head of the room does not",
                if row.forbids_unsafe {
                    "forbidden"
                } else {
                    "allowed"
                }
            ));
        }
        for file in files_of(&kernel, room)? {
            let text = std::fs::read_to_string(&file)?;
            let place = file.strip_prefix(&kernel).unwrap_or(&file).display().to_string();
            for (name, line) in imports(&text) {
                if name != *room && rooms.contains(&name) {
                    arrows
                        .entry((room.clone(), name))
                        .or_insert_with(|| format!("{place}:{line}"));
                }
            }
        }
    }
    for ((from, to), place) in &arrows {
        if map.get(from).is_some_and(|row| !row.imports.contains(to)) {
            wrong.push(format!("{from} imports {to} ({place}): not on the map"));
        }
    }
    for (from, row) in &map {
        for to in &row.imports {
            if !arrows.contains_key(&(from.clone(), to.clone())) {
                wrong.push(format!("{from} no longer imports {to}: take it off the map"));
            }
        }
    }
    let mutual = mutual(&arrows);
    if mutual.len() > MUTUAL {
        wrong.push(format!(
            "{} pairs of rooms import each other, {MUTUAL} at most: {}",
            mutual.len(),
            mutual.join(", ")
        ));
    }
    let architectures = architectures(&kernel.join("arch"))?;
    for (name, arrows) in &architectures {
        if let Some(circle) = circle(arrows) {
            wrong.push(format!("files of arch/{name} in a circle: {circle}"));
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(format!(
        "{} rooms, {} arrows, {} pairs that import each other; {} architectures without circles of files",
        rooms.len(),
        arrows.len(),
        mutual.len(),
        architectures.len()
    ))
}

/// Each architecture's imports of files by files.
fn architectures(arch: &Path) -> Result<BTreeMap<String, Arrows>> {
    let mut found = BTreeMap::new();
    for name in names_in(arch)? {
        let folder = arch.join(&name);
        let Ok(text) = std::fs::read_to_string(folder.join("mod.rs")) else {
            continue;
        };
        let modules = modules(&text);
        let mut arrows = Arrows::new();
        for (from, file) in &modules {
            let path = folder.join(file);
            let text =
                std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            for (to, line) in neighbours(&text) {
                if to != *from && modules.iter().any(|(module, _)| *module == to) {
                    arrows
                        .entry((from.clone(), to))
                        .or_insert_with(|| format!("{file}:{line}"));
                }
            }
        }
        found.insert(name, arrows);
    }
    Ok(found)
}

/// The modules that the root file of a folder declares, with their files. One that has several, for features,
/// is there for each.
fn modules(text: &str) -> Vec<(String, String)> {
    let (mut found, mut file) = (Vec::new(), None);
    for line in text.lines() {
        let path = line
            .strip_prefix("#[path = \"")
            .and_then(|rest| rest.strip_suffix("\"]"));
        if path.is_some() {
            file = path;
        }
        let declared = line.strip_prefix("pub ").unwrap_or(line);
        let declared = declared
            .strip_prefix("mod ")
            .and_then(|rest| rest.strip_suffix(';'));
        if let Some(name) = declared {
            let own = format!("{name}.rs");
            found.push((name.to_owned(), file.take().map_or(own, str::to_owned)));
        }
    }
    found
}

/// The files of its own folder that a file names, with their lines.
fn neighbours(text: &str) -> Vec<(String, usize)> {
    let code = without_comments(text);
    let mut found = named_behind(&code, "super::");
    found.retain(|(name, _)| name != "super");
    found.extend(named_behind(&code, "arch::imp::"));
    found
}

/// A circle of imports, with the place of each; the shortest.
fn circle(arrows: &Arrows) -> Option<String> {
    let starts: BTreeSet<&str> = arrows.keys().map(|(from, _)| from.as_str()).collect();
    let way = starts
        .iter()
        .filter_map(|start| way_back(arrows, start))
        .min_by_key(Vec::len)?;
    let steps = way
        .iter()
        .map(|(arrow, place)| format!("{} imports {} ({place})", arrow.0, arrow.1));
    Some(steps.collect::<Vec<_>>().join(", "))
}

/// The shortest way along arrows from `start` to itself.
fn way_back<'a>(arrows: &'a Arrows, start: &str) -> Option<Vec<(&'a (String, String), &'a String)>> {
    let mut ways = vec![Vec::new()];
    let mut seen = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            let last: &str = way
                .last()
                .map_or(start, |(arrow, _): &(&(String, String), _)| &arrow.1);
            for arrow in arrows.iter().filter(|((from, _), _)| from == last) {
                let mut way = way.clone();
                way.push(arrow);
                if arrow.0.1 == start {
                    return Some(way);
                }
                if seen.insert(&arrow.0.1) {
                    longer.push(way);
                }
            }
        }
        ways = longer;
    }
    None
}

/// The pairs that import each other, by name.
fn mutual(arrows: &Arrows) -> Vec<String> {
    arrows
        .keys()
        .filter(|(a, b)| a < b && arrows.contains_key(&(b.clone(), a.clone())))
        .map(|(a, b)| format!("{a}-{b}"))
        .collect()
}

/// The rows `| kernel/src/ROOM | ... | imports | unsafe? |` of the map.
fn rows(text: &str) -> BTreeMap<String, Row> {
    let mut rows = BTreeMap::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, room, _, imports, allowed, _] = cells[..] else {
            continue;
        };
        let Some(room) = room.trim_matches('`').strip_prefix("kernel/src/") else {
            continue;
        };
        let row = Row {
            imports: imports
                .split([',', ' '])
                .filter(|name| !name.is_empty() && *name != "-")
                .map(str::to_owned)
                .collect(),
            forbids_unsafe: allowed == "no",
        };
        rows.insert(room.trim_end_matches(".rs").to_owned(), row);
    }
    rows
}

/// The rooms of a folder: its folders and files, except the root module.
pub fn names_in(folder: &Path) -> Result<BTreeSet<String>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let names = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .map(|name| name.trim_end_matches(".rs").to_owned())
        .filter(|name| name != "main");
    Ok(names.collect())
}

/// All Rust files of a room.
fn files_of(kernel: &Path, room: &str) -> Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![kernel.join(room)]);
    let file = kernel.join(format!("{room}.rs"));
    if file.is_file() {
        return Ok(vec![file]);
    }
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)?.flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Whether the head of a room of `kernel` says that the compiler forbids `unsafe` there.
pub fn room_forbids_unsafe(kernel: &Path, room: &str) -> Result<bool> {
    let folder = kernel.join(room);
    forbids_unsafe(&if folder.is_dir() {
        folder.join("mod.rs")
    } else {
        kernel.join(format!("{room}.rs"))
    })
}

fn forbids_unsafe(head: &Path) -> Result<bool> {
    let text = std::fs::read_to_string(head).with_context(|| format!("cannot read {}", head.display()))?;
    Ok(text.lines().any(|line| line.trim() == "#![forbid(unsafe_code)]"))
}

/// The rooms that a file names by `crate::ROOM`, `crate::{ROOM, ...}` or one of [`MACROS`], with their lines.
fn imports(text: &str) -> Vec<(String, usize)> {
    let code = without_comments(text);
    let mut found = named_behind(&code, "crate::");
    for (at, _) in code.match_indices("!") {
        let before = &code[..at];
        let start = before
            .rfind(|c: char| !c.is_alphanumeric() && c != '_')
            .map_or(0, |last| last + 1);
        let called = code[at + 1..].trim_start().starts_with(['(', '{', '[']);
        let other = before[..start].ends_with("$crate::");
        let room = MACROS.iter().find(|(name, _)| *name == &before[start..]);
        if let Some((_, room)) = room
            && called
            && !other
        {
            found.push(((*room).to_owned(), code[..at].matches('\n').count() + 1));
        }
    }
    found
}

/// What code names behind `prefix`, alone or in a group, with the lines.
fn named_behind(code: &str, prefix: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        // `super::` behind another one is the folder above.
        let before = &code[..at];
        if before.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$')
            || before.ends_with("super::")
        {
            continue;
        }
        let line = code[..at].matches('\n').count() + 1;
        let rest = &code[at + prefix.len()..];
        let Some(group) = rest.strip_prefix('{') else {
            found.push((word(rest), line));
            continue;
        };
        // Names at the nesting depth of the group itself.
        let (mut depth, mut start) = (0, 0);
        for (i, c) in group.char_indices() {
            match c {
                '}' if depth == 0 => {
                    found.push((word(&group[start..i]), line));
                    break;
                }
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    found.push((word(&group[start..i]), line));
                    start = i + 1;
                }
                _ => {}
            }
        }
    }
    found
}

/// The identifier that `text` begins with.
fn word(text: &str) -> String {
    let text = text.trim_start();
    let end = text
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    text[..end].to_owned()
}

/// The text without comments and strings; lines stay lines.
fn without_comments(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['/', '"']) {
        let (before, found) = rest.split_at(at);
        code.push_str(before);
        let end = if found.starts_with("//") {
            found.find('\n').unwrap_or(found.len())
        } else if found.starts_with("/*") {
            found.find("*/").map_or(found.len(), |end| end + 2)
        } else if let Some(behind) = found.strip_prefix('/') {
            code.push('/');
            rest = behind;
            continue;
        } else if before.ends_with('\'') || before.ends_with("'\\") {
            // A character literal that is a quotation mark.
            rest = &found[1..];
            continue;
        } else {
            string_end(before, found)
        };
        code.extend(std::iter::repeat_n('\n', found[..end].matches('\n').count()));
        rest = &found[end..];
    }
    code + rest
}

/// Where the string that `found` begins with ends; `before` tells how many `#` a raw one has.
fn string_end(before: &str, found: &str) -> usize {
    let marks = before.len() - before.trim_end_matches('#').len();
    if before[..before.len() - marks].ends_with('r') {
        let close = format!("\"{}", "#".repeat(marks));
        return found[1..]
            .find(&close)
            .map_or(found.len(), |end| 1 + end + close.len());
    }
    let mut escaped = false;
    for (i, c) in found.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return i + 1,
            _ => {}
        }
    }
    found.len()
}

#[cfg(test)]
mod tests {
    use super::{circle, imports, modules, mutual, neighbours, rows};
    use std::collections::BTreeMap;

    fn names(text: &str) -> Vec<String> {
        imports(text).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn paths_and_groups_are_imports() {
        let text = "use crate::mm::{self, user};\nuse crate::{fs::{File, io}, task, sync::Mutex};\nfn f() { \
            crate::log::say(\"crate::time\") }\n";
        assert_eq!(names(text), ["mm", "fs", "task", "sync", "log"]);
        assert_eq!(imports(text)[4].1, 3);
    }

    #[test]
    fn comments_and_strings_are_not() {
        let text = "// crate::a\n/* crate::b */\nlet x = r#\"crate::\"c\"#;\nlet y = '\"'; \
            crate::d::e();\n\"\\\"crate::f\" ; $crate::g!()";
        assert_eq!(names(text), ["d"]);
    }

    #[test]
    fn macros_are_imports_of_their_rooms() {
        let text = "info!(\"crate::a\");\ncrate::check!(x != (y));\n$crate::log!(Info);\nif !info(a) {}";
        assert_eq!(names(text), ["check", "log", "selftest"]);
    }

    #[test]
    fn rows_have_imports_and_say_whether_unsafe_is_forbidden() {
        let text = "| room | for | imports | unsafe |\n|---|---|---|---|\n| `kernel/src/fs` | files | mm, \
            sync | no |\n| `kernel/src/panic.rs` | ends | - | a little |\n";
        let rows = rows(text);
        assert_eq!(rows["fs"].imports.iter().collect::<Vec<_>>(), ["mm", "sync"]);
        assert!(rows["fs"].forbids_unsafe && !rows["panic"].forbids_unsafe);
        assert!(rows["panic"].imports.is_empty());
    }

    #[test]
    fn modules_have_files() {
        let text = "mod a;\n#[cfg(x)]\n#[path = \"../b.rs\"]\npub mod c;\n#[path = \"d.rs\"]\n#[cfg(y)]\nmod \
            c;\npub use e;\n";
        let found = [("a", "a.rs"), ("c", "../b.rs"), ("c", "d.rs")];
        let found = found.map(|(name, file)| (name.to_owned(), file.to_owned()));
        assert_eq!(modules(text), found);
    }

    #[test]
    fn neighbours_are_named_by_super_and_by_macros() {
        let text =
            "use super::a;\nuse super::super::b;\nuse super::{c::{d, e}, f};\n$crate::arch::imp::g::h!();";
        let found: Vec<_> = neighbours(text).into_iter().map(|(name, _)| name).collect();
        assert_eq!(found, ["a", "c", "f", "g"]);
    }

    #[test]
    fn the_shortest_circle_is_told() {
        let arrow = |a: &str, b: &str| ((a.to_owned(), b.to_owned()), format!("{a}.rs:1"));
        let mut arrows = BTreeMap::from([arrow("a", "b"), arrow("b", "c"), arrow("a", "c"), arrow("d", "a")]);
        assert_eq!(circle(&arrows), None);
        arrows.extend([arrow("c", "d"), arrow("c", "a")]);
        assert_eq!(
            circle(&arrows).unwrap(),
            "a imports c (a.rs:1), c imports a (c.rs:1)"
        );
    }

    #[test]
    fn pairs_are_found() {
        let arrow = |a: &str, b: &str| ((a.to_owned(), b.to_owned()), String::new());
        let arrows = BTreeMap::from([arrow("a", "b"), arrow("b", "a"), arrow("a", "c")]);
        assert_eq!(mutual(&arrows), ["a-b"]);
    }
}
