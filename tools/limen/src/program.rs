//! Finds the program of a run on the host as a shell would, says in one line why it cannot run when it cannot, and
//! lists the files that must come along: interpreters of scripts, the dynamic loader, libraries.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::arch::Arch;
use crate::status::{self, CANNOT_RUN, NOT_FOUND};
use crate::{elf, guest_files};

/// A program and what it needs.
pub struct Program {
    /// Absolute path, the same on the host and in the guest.
    pub path: PathBuf,
    /// Every host file it needs, itself included; each goes to the same place in the guest.
    pub files: BTreeSet<PathBuf>,
    /// The architecture of its machine code (of the interpreter's, for a script).
    pub arch: Arch,
}

/// Finds `name` on the host. `arch` is what the user asked for, when they did.
pub fn find(name: &str, arch: Option<Arch>) -> Result<Program> {
    let path = locate(name)?;
    let mut files = BTreeSet::new();
    let arch = collect(&path, arch, &mut files, 0)?;
    Ok(Program { path, files, arch })
}

fn locate(name: &str) -> Result<PathBuf> {
    if name.is_empty() {
        return Err(status::error(
            NOT_FOUND,
            "the program's name is empty; give a program after --",
        ));
    }
    if name.contains('/') {
        let path = std::path::absolute(name).with_context(|| format!("cannot make {name} absolute"))?;
        check_file(&path)?;
        return Ok(normal(&path));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut unfit = None;
    for dir in std::env::split_paths(&path) {
        let candidate = dir.join(name);
        if candidate.is_file() {
            if check_file(&candidate).is_ok() {
                return std::path::absolute(candidate).context("cannot make a path absolute");
            }
            unfit.get_or_insert(candidate);
        }
    }
    if let Some(candidate) = unfit {
        check_file(&candidate)?;
    }
    let hint = if Path::new(name).exists() {
        format!("; did you mean ./{name}?")
    } else {
        String::new()
    };
    Err(status::error(
        NOT_FOUND,
        format!("{name}: no such program on PATH{hint} (install it, or give its path)"),
    ))
}

/// Finds `name` inside the tree at `root`, or in what `--add` adds to it: its path in the guest, and its architecture where that can be told.
pub fn find_in_tree(
    root: &Path,
    add: &[String],
    name: &str,
    wanted: Option<Arch>,
) -> Result<(String, Option<Arch>)> {
    let places: Vec<String> = if name.contains('/') {
        vec![format!(
            "/{}",
            name.trim_start_matches('/').trim_start_matches("./")
        )]
    } else {
        ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"]
            .iter()
            .map(|d| format!("{d}/{name}"))
            .collect()
    };
    for place in places {
        let added = guest_files::added_at(add, &place);
        let Some(host) = added.or_else(|| resolve_in_tree(root, &place)) else {
            continue;
        };
        if !host.is_file() {
            continue;
        }
        let Ok(bytes) = elf::read_start(&host, 64) else {
            continue;
        };
        let arch = Arch::of_elf(&bytes);
        if let (Some(wanted), Some(arch)) = (wanted, arch)
            && wanted != arch
        {
            return Err(status::error(
                CANNOT_RUN,
                format!(
                    "{place} in {} is an {arch} program; run it with --arch {arch}",
                    root.display()
                ),
            ));
        }
        return Ok((place, arch));
    }
    let shown = root.display();
    Err(status::error(
        NOT_FOUND,
        format!("{name}: no such program in {shown}; give its path inside that tree"),
    ))
}

/// Follows links as they would be followed with `root` as the root directory.
fn resolve_in_tree(root: &Path, place: &str) -> Option<PathBuf> {
    let mut parts: Vec<String> = place.split('/').rev().map(str::to_owned).collect();
    let mut at = PathBuf::new();
    let mut links = 0;
    while let Some(part) = parts.pop() {
        match part.as_str() {
            "" | "." => continue,
            ".." => {
                at.pop();
                continue;
            }
            _ => {}
        }
        let host = root.join(&at).join(&part);
        match std::fs::read_link(&host) {
            Ok(target) => {
                links += 1;
                if links > 40 {
                    return None;
                }
                let target = target.to_str()?;
                if target.starts_with('/') {
                    at = PathBuf::new();
                }
                parts.extend(target.split('/').rev().map(str::to_owned));
            }
            Err(_) => at.push(part),
        }
    }
    Some(root.join(at))
}

/// Removes `.` and resolves `..` textually where that is the same as the file system's answer.
fn normal(path: &Path) -> PathBuf {
    use std::path::Component;
    if !path.components().any(|c| matches!(c, Component::ParentDir)) {
        return path.components().collect();
    }
    // Not what the name itself links to: a program may look at the name it was started by.
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    };
    std::fs::canonicalize(parent).map_or_else(|_| path.to_owned(), |parent| parent.join(name))
}

/// Why this file cannot be run, if so.
fn check_file(path: &Path) -> Result<()> {
    let shown = path.display();
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err(status::error(
                NOT_FOUND,
                format!("{shown}: no such file; check the path"),
            ));
        }
        Err(e) => return Err(status::error(CANNOT_RUN, format!("{shown}: {e}"))),
    };
    if meta.is_dir() {
        return Err(status::error(
            CANNOT_RUN,
            format!("{shown} is a directory; to use it as the guest's root, say --root {shown}"),
        ));
    }
    if !meta.is_file() {
        return Err(status::error(
            CANNOT_RUN,
            format!("{shown} is not a regular file"),
        ));
    }
    if meta.permissions().mode() & 0o111 == 0 {
        return Err(status::error(
            CANNOT_RUN,
            format!("{shown} is not executable; chmod +x it, or name its interpreter"),
        ));
    }
    Ok(())
}

/// Adds `path` and all it needs to `files`; returns the architecture. `depth` counts script interpreters.
fn collect(path: &Path, wanted: Option<Arch>, files: &mut BTreeSet<PathBuf>, depth: u32) -> Result<Arch> {
    let shown = path.display();
    let start = elf::read_start(path, 512)
        .map_err(|e| status::error(CANNOT_RUN, format!("cannot read {shown}: {e}")))?;
    if start.starts_with(b"#!") {
        if depth >= 4 {
            return Err(status::error(
                CANNOT_RUN,
                format!("{shown}: scripts interpret each other too deeply"),
            ));
        }
        files.insert(path.to_owned());
        return collect_script(path, &start, wanted, files, depth);
    }
    if !elf::is_elf(&start) {
        let what = if start.is_empty() {
            "is empty"
        } else {
            "is neither an ELF program nor a script with #!"
        };
        return Err(status::error(
            CANNOT_RUN,
            format!("{shown} {what}; give a Linux program, or name its interpreter: limen run -- sh {shown}"),
        ));
    }
    if start.len() < 64 {
        return Err(status::error(
            CANNOT_RUN,
            format!("{shown} is cut short; build it again"),
        ));
    }
    // Class, byte order and machine come first: they are what makes the rest readable.
    let Some(arch) = Arch::of_elf(&start) else {
        return Err(status::error(
            CANNOT_RUN,
            format!(
                "{shown} is for {}; Limen runs {} programs",
                machine_name(&start),
                Arch::names()
            ),
        ));
    };
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
    let info =
        elf::read(path, &bytes).map_err(|e| status::error(CANNOT_RUN, format!("{e:#}; build it again")))?;
    if let Some(wanted) = wanted
        && wanted != arch
    {
        return Err(status::error(
            CANNOT_RUN,
            format!("{shown} is an {arch} program; run it with --arch {arch}, or build it for {wanted}"),
        ));
    }
    if !info.runnable {
        return Err(status::error(
            CANNOT_RUN,
            format!("{shown} is an object file, not a program; link it first"),
        ));
    }
    files.insert(path.to_owned());
    if let Some(interpreter) = info.interpreter.clone() {
        let loader = host_place(&interpreter, arch);
        let Some(loader) = loader else {
            return Err(status::error(
                CANNOT_RUN,
                format!(
                    "{shown} needs the dynamic loader {interpreter}, which is not on this host; link it statically \
                     (-static), or give a tree that has it with --root"
                ),
            ));
        };
        files.insert(loader);
        files.extend(elf::Libraries::new(arch, &interpreter).of(path, info)?);
    }
    Ok(arch)
}

/// Where a guest path is on this host: there, or in the cross compiler's tree.
fn host_place(guest: &str, arch: Arch) -> Option<PathBuf> {
    [
        PathBuf::from(guest),
        PathBuf::from(format!("/usr/{}{guest}", arch.gnu())),
    ]
    .into_iter()
    .find(|p| p.exists())
}

fn collect_script(
    path: &Path,
    start: &[u8],
    wanted: Option<Arch>,
    files: &mut BTreeSet<PathBuf>,
    depth: u32,
) -> Result<Arch> {
    let shown = path.display();
    let line = start[2..].split(|b| *b == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line).trim().to_owned();
    let mut words = line.split_whitespace();
    let Some(interpreter) = words.next() else {
        return Err(status::error(
            CANNOT_RUN,
            format!("{shown}: its #! line names no interpreter"),
        ));
    };
    let at = PathBuf::from(interpreter);
    if check_file(&at).is_err() {
        return Err(status::error(
            CANNOT_RUN,
            format!(
                "{shown} needs the interpreter {interpreter}, which is not on this host; install it or change the #! line"
            ),
        ));
    }
    let arch = collect(&at, wanted, files, depth + 1)?;
    // "#!/usr/bin/env NAME": what env will start must come along too.
    if at.file_name().is_some_and(|n| n == "env")
        && let Some(name) = words.find(|w| !w.starts_with('-') && !w.contains('='))
    {
        let program = locate(name).map_err(|e| status::error(CANNOT_RUN, format!("{shown} needs {e:#}")))?;
        collect(&program, Some(arch), files, depth + 1)?;
    }
    Ok(arch)
}

/// What the start of an ELF header says about the machine it is for, where that is none of ours.
fn machine_name(header: &[u8]) -> String {
    const BIG: u8 = 2;
    let big = header[5] == BIG;
    let machine = [header[18], header[19]];
    let machine = if big {
        u16::from_be_bytes(machine)
    } else {
        u16::from_le_bytes(machine)
    };
    let name = match machine {
        3 => "32-bit x86",
        40 | 183 if big => "big-endian Arm",
        8 => "MIPS",
        20 => "32-bit Power",
        21 if big => "big-endian Power",
        22 => "S/390",
        243 => "RISC-V",
        258 => "LoongArch",
        62 => "x32",
        other => return format!("a machine with ELF number {other}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status_of(name: &str) -> i32 {
        let error = find(name, None).err().expect("should not be found");
        assert!(!format!("{error:#}").contains('\n'));
        crate::status::of_error(&error)
    }

    #[test]
    fn what_cannot_run_has_the_shells_status() {
        assert_eq!(status_of("no-such-program-anywhere"), NOT_FOUND);
        assert_eq!(status_of("/no/such/file"), NOT_FOUND);
        assert_eq!(status_of("/"), CANNOT_RUN);
        assert_eq!(status_of("/etc/passwd"), CANNOT_RUN);
    }

    #[test]
    fn a_shell_brings_its_loader() {
        let program = find("sh", None).unwrap();
        assert!(
            program
                .files
                .iter()
                .any(|f| f.to_string_lossy().contains("ld-linux"))
        );
    }
}
