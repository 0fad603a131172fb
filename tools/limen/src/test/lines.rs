//! Counts the lines of Rust and of assembly in each architecture's folder.

use std::path::Path;

use anyhow::{Context as _, Result};

use super::rooms;
use crate::tree;

/// One phrase for each architecture, for each folder that some of them share, and for the code that all
/// share.
pub fn count() -> Result<String> {
    let root = tree::root();
    let mut phrases = Vec::new();
    let arches = root.join("kernel/src/arch");
    let (mut dirs, shared): (Vec<_>, Vec<_>) = std::fs::read_dir(&arches)
        .with_context(|| format!("cannot read {}", arches.display()))?
        .flatten()
        .map(|e| e.path())
        .partition(|p| p.is_dir());
    dirs.sort();
    for dir in dirs {
        let (rust, assembly) = folder(&dir)?;
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        phrases.push(format!("{name}: {rust} lines of Rust, {assembly} of assembly"));
    }
    let (mut rust, mut assembly) = (0, 0);
    for file in shared {
        let (r, a) = folder(&file)?;
        (rust, assembly) = (rust + r, assembly + a);
    }
    phrases.push(format!(
        "files for several: {rust} lines of Rust, {assembly} of assembly"
    ));
    let src = root.join("kernel/src");
    let (kernel, _) = folder(&src)?;
    let (mut rooms, mut unsafe_rooms) = (0, 0);
    for room in rooms::names_in(&src)? {
        let at = src.join(&room);
        let (lines, _) = folder(&if at.is_dir() { at } else { at.with_extension("rs") })?;
        rooms += lines;
        if !rooms::room_forbids_unsafe(&src, &room)? {
            unsafe_rooms += lines;
        }
    }
    let (crates, _) = folder(&root.join("crates"))?;
    phrases.push(format!(
        "kernel {kernel} in all, {} % of them in rooms that may be unsafe; crates {crates}",
        unsafe_rooms * 100 / rooms.max(1)
    ));
    Ok(phrases.join("; "))
}

/// Lines of Rust and of assembly below a folder, or in a file. Empty lines and comments do not count; an
/// `asm!` or `global_asm!` counts the lines of its strings, a `.S` file its instructions and directives.
fn folder(dir: &Path) -> Result<(usize, usize)> {
    let (mut rust, mut assembly) = (0, 0);
    let mut todo = vec![dir.to_owned()];
    while let Some(path) = todo.pop() {
        if path.is_dir() {
            if path.file_name().is_none_or(|n| n != "target") {
                todo.extend(std::fs::read_dir(&path)?.flatten().map(|e| e.path()));
            }
            continue;
        }
        let kind = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
        if !matches!(kind, "rs" | "S" | "s" | "inc") {
            continue;
        }
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        if kind == "rs" {
            let (r, a) = rust_file(&text);
            rust += r;
            assembly += a;
        } else {
            assembly += text.lines().filter(|l| is_assembly(l)).count();
        }
    }
    Ok((rust, assembly))
}

fn is_assembly(line: &str) -> bool {
    let line = line.trim();
    !(line.is_empty()
        || line.starts_with("//")
        || line.starts_with("/*")
        || line.starts_with('*')
        || line.starts_with('#'))
}

fn rust_file(text: &str) -> (usize, usize) {
    let (mut rust, mut assembly) = (0, 0);
    let mut depth: Option<i32> = None;
    let mut in_string = false;
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || (trimmed.starts_with("//") && !in_string) {
            continue;
        }
        if depth.is_none()
            && ["asm!(", "global_asm!(", "naked_asm!("]
                .iter()
                .any(|m| trimmed.contains(m))
        {
            depth = Some(0);
        }
        let Some(d) = &mut depth else {
            rust += 1;
            continue;
        };
        // Inside a raw string every line is assembly; so is a line that is one quoted string.
        let quotes = trimmed.matches('"').count();
        if in_string || trimmed.starts_with('"') || trimmed.contains("!(\"") {
            if is_assembly(trimmed.trim_matches(['"', ',', '#', 'r'])) {
                assembly += 1;
            }
        } else {
            rust += 1;
        }
        if quotes % 2 == 1 {
            in_string = !in_string;
        }
        if !in_string {
            *d += trimmed.matches(['(', '{']).count() as i32 - trimmed.matches([')', '}']).count() as i32;
            if *d <= 0 {
                depth = None;
            }
        }
    }
    (rust, assembly)
}

#[cfg(test)]
mod tests {
    use super::rust_file;

    #[test]
    fn assembly_is_told_from_rust() {
        let text = "//! head\nfn f() {\n    asm!(\n        \"mov x0, x1\",\n        \"ret\",\n        \
            out(reg) x,\n    );\n}\n";
        assert_eq!(rust_file(text), (5, 2));
        let text = "global_asm!(\n    r#\"\nstart:\n    nop\n    // comment\n\"#\n);\nfn g() {}\n";
        assert_eq!(rust_file(text).1, 2);
    }
}
