//! Finds lines that are too wide to be read side by side. Only tables and code blocks of Markdown may be
//! wide.

use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::tree;

/// The most columns of a line.
const WIDEST: usize = 110;
/// Files that are checked, by extension.
const KINDS: [&str; 8] = ["rs", "S", "c", "h", "ld", "md", "sh", "toml"];
/// Files without an extension that are checked, too.
const ALSO: [&str; 2] = ["limen", ".ci/run"];

/// Checks all files of the tree. Returns a summary; all lines that are too wide are the error.
pub fn check() -> Result<String> {
    let root = tree::root();
    let (mut wide, mut files, mut todo) = (Vec::new(), 0, vec![root.clone()]);
    while let Some(path) = todo.pop() {
        let name = path.strip_prefix(&root).unwrap_or(&path);
        if path.is_dir() {
            let hidden = name.to_string_lossy().starts_with('.') && name != Path::new(".ci");
            if !hidden && name != Path::new("target") {
                let entries = path
                    .read_dir()
                    .with_context(|| format!("cannot read {}", path.display()))?;
                todo.extend(entries.flatten().map(|entry| entry.path()));
            }
            continue;
        }
        let kind = name
            .extension()
            .and_then(|kind| kind.to_str())
            .unwrap_or_default();
        if !KINDS.contains(&kind) && !ALSO.iter().any(|also| name == Path::new(also)) {
            continue;
        }
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        files += 1;
        for (line, columns) in too_wide(&text, kind == "md") {
            wide.push(format!("{}:{line}: {columns} columns", name.display()));
        }
    }
    if !wide.is_empty() {
        wide.sort();
        bail!("lines of more than {WIDEST} columns:\n{}", wide.join("\n"));
    }
    Ok(format!("{files} files, no line of more than {WIDEST} columns"))
}

/// The numbers of the lines that are too wide, and their columns.
fn too_wide(text: &str, markdown: bool) -> Vec<(usize, usize)> {
    let (mut found, mut in_block) = (Vec::new(), false);
    for (n, line) in text.lines().enumerate() {
        let begins = line.trim_start();
        if markdown && begins.starts_with("```") {
            in_block = !in_block;
        }
        let columns = line.chars().count();
        if columns > WIDEST && !(markdown && (in_block || begins.starts_with('|'))) {
            found.push((n + 1, columns));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{WIDEST, too_wide};

    #[test]
    fn only_prose_and_code_are_narrow() {
        let wide = "x".repeat(WIDEST + 1);
        let text = format!("{}\n{wide}\n| {wide} |\n```\n{wide}\n```\n{wide}\n", &wide[1..]);
        assert_eq!(too_wide(&text, true), [(2, WIDEST + 1), (7, WIDEST + 1)]);
        let lines: Vec<_> = too_wide(&text, false).into_iter().map(|found| found.0).collect();
        assert_eq!(lines, [2, 3, 5, 7]);
        assert_eq!(too_wide(&"ü".repeat(WIDEST), false), []);
    }
}
